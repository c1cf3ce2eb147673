package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"ragd/ingest"
	"ragd/personal"
	"ragd/store"
)

// ingestCmd is ragd ingest: without one of the words below, its arguments are files and folders.
type ingestCmd struct {
	Run     ingestRunCmd     `cmd:"" default:"withargs" help:"Take files and folders in."`
	Status  ingestStatusCmd  `cmd:"" help:"Show corpora, what is in work, and what failed and why."`
	Retry   ingestRetryCmd   `cmd:"" help:"Try failed documents again."`
	Cancel  ingestCancelCmd  `cmd:"" help:"Take waiting documents out of work; what is live stays."`
	Rm      ingestRmCmd      `cmd:"" name:"rm" help:"Delete documents with all that was made of them."`
	Explain ingestExplainCmd `cmd:"" help:"Show what was read out of a file or an ingested document and how it was split, page by page."`
	Migrate ingestMigrateCmd `cmd:"" name:"migrate-model" help:"Change the embedding model or splitter of a corpus while it is in use."`
	Bench   ingestBenchCmd   `cmd:"" help:"Measure ingestion, stage by stage, against the embedder's own limit."`
}

// corpusFlag names one corpus.
type corpusFlag struct {
	Corpus string `help:"Corpus." default:"default" short:"c"`
}

type ingestRunCmd struct {
	corpusFlag
	Paths        []string      `arg:"" optional:"" help:"Files and folders; none: what waits is worked on." type:"existingpath"`
	Ignore       []string      `help:"Leave out what matches, as in .gitignore; may be repeated. Folders can hold a .ragdignore." sep:"none" placeholder:"PATTERN"`
	Hidden       bool          `help:"Take hidden files and folders, too."`
	PersonalData string        `help:"What the corpus does about e-mail addresses, telephone, card and identity numbers, from now on: keep, mask in answers, or refuse documents that hold some." enum:",keep,mask,refuse" default:"" name:"personal-data"`
	Prune        bool          `help:"Delete the documents whose files are gone from the folders given."`
	DryRun       bool          `help:"Only say what would be done."`
	Watch        bool          `help:"Stay, and follow what changes in the folders: new, changed, moved and deleted files."`
	KeepDeleted  bool          `help:"With --watch: a deleted file's document stays."`
	Settle       time.Duration `help:"With --watch: how long files must be quiet before they are read." default:"1s"`
	URLs         string        `help:"File with addresses to fetch, one a line. The only way in which documents make ragd open connections." name:"urls" type:"existingfile"`
	AllowPrivate bool          `help:"With --urls: addresses of this machine and of private networks are allowed."`
}

// Help is shown by ragd ingest --help.
func (ingestCmd) Help() string {
	return `Reads text, Markdown, HTML, PDF, Word and other formats (docs/formats.md), cuts them into passages, embeds and indexes them. A file whose
bytes are known is skipped; a changed one replaces its old version in one step; a moved one keeps its history. Interrupt it at any time: the same
command goes on where it stopped. 'ragd ingest run --help' shows the flags; a file called like one of the words below needs a ./ in front.

  ragd ingest ~/Documents/handbook
  ragd ingest -c contracts --ignore '*.tmp' --dry-run contracts/
  ragd ingest --watch ~/notes
  ragd ingest status
  ragd ingest explain ~/Documents/handbook/travel.pdf
  ragd ingest migrate-model --embed nomic-embed-text-v1.5-f16`
}

func (k ingestRunCmd) Run(ctx ctxBinding, a *app) error {
	pipeline, err := a.openPipelineFor(ctx, k.Corpus)
	if err != nil {
		return err
	}
	pipeline.Ignore, pipeline.Hidden, pipeline.Prune = k.Ignore, k.Hidden, k.Prune
	if k.PersonalData != "" {
		if err := a.setPersonalData(ctx, k.Corpus, pipeline.Index(), personal.Policy(k.PersonalData)); err != nil {
			return err
		}
	}
	switch {
	case len(k.Paths) == 0 && (k.Watch || k.DryRun || k.Prune):
		return fmt.Errorf("%w: name the folders", errUsage)
	case k.DryRun && k.URLs != "":
		return fmt.Errorf("%w: --dry-run does not fetch; leave --urls out", errUsage)
	case k.DryRun:
		return k.plan(ctx, a, pipeline)
	case k.Watch:
		pipeline.Prune = !k.KeepDeleted
		return k.watch(ctx, a, pipeline)
	}
	var fetched ingest.Report
	if k.URLs != "" {
		if fetched, err = k.fetch(ctx, a, pipeline); err != nil {
			return err
		}
	}
	report, err := a.runPipeline(ctx, pipeline, k.Corpus, k.Paths)
	if err != nil {
		return err
	}
	report.Failed = append(fetched.Failed, report.Failed...)
	return k.outcome(report)
}

// outcome makes files that could not be read a failure of the command.
func (k ingestRunCmd) outcome(report ingest.Report) error {
	if len(report.Failed) > 0 {
		return fmt.Errorf("%d of the files could not be read; the others are in corpus %q", len(report.Failed), k.Corpus)
	}
	return nil
}

// plan is --dry-run.
func (k ingestRunCmd) plan(ctx context.Context, a *app, pipeline *ingest.Pipeline) error {
	report, err := pipeline.Plan(ctx, "", k.Corpus, k.Paths, func(p ingest.Progress) {
		if p.State == ingest.Received {
			fmt.Printf("would ingest  %s\n", shown(p.Path))
		}
	})
	if err != nil {
		return err
	}
	printNotes(os.Stdout, "would move", report.Moved)
	printNotes(os.Stdout, "would delete", report.Removed)
	printNotes(os.Stdout, "would skip", report.Skipped)
	printNotes(os.Stdout, "cannot read", report.Failed)
	fmt.Printf("%d documents would be ingested, %d are unchanged, %d moved, %d deleted, %d skipped, %d cannot be read; nothing was done\n",
		report.Documents, report.Unchanged-len(report.Moved), len(report.Moved), len(report.Removed), len(report.Skipped), len(report.Failed))
	return nil
}

// watch is --watch.
func (k ingestRunCmd) watch(ctx context.Context, a *app, pipeline *ingest.Pipeline) error {
	var view *ingestView
	w := ingest.Watcher{Pipeline: pipeline, Corpus: k.Corpus, Paths: k.Paths, Settle: k.Settle}
	err := w.Watch(ctx, ingest.WatchEvents{
		Begin:    func() { view = a.progress.ingestion(k.Corpus) },
		Progress: func(p ingest.Progress) { view.show(p) },
		End: func(report ingest.Report, err error) {
			view.done()
			if err != nil {
				a.progress.step("%v; it is tried again with the next change", err)
				return
			}
			if report.Documents+len(report.Failed)+len(report.Moved)+len(report.Removed) > 0 {
				printReport(report, k.Corpus, view.took())
			}
			a.progress.step("watching; stop with Ctrl-C")
		},
	})
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // how a watch ends
	}
	return err
}

// fetch takes in the addresses of --urls.
func (k ingestRunCmd) fetch(ctx context.Context, a *app, pipeline *ingest.Pipeline) (ingest.Report, error) {
	list, err := os.Open(k.URLs)
	if err != nil {
		return ingest.Report{}, err
	}
	defer list.Close()
	fetcher := ingest.Fetcher{Private: k.AllowPrivate}
	return pipeline.Fetch(ctx, "", k.Corpus, list, fetcher, func(address string) { a.progress.step("fetching %s", address) })
}

// ingest runs a pipeline on the settings' embedder with a progress bar and prints what became of the files.
func (a *app) ingest(ctx context.Context, corpus string, paths []string) (ingest.Report, error) {
	pipeline, err := a.openPipelineFor(ctx, corpus)
	if err != nil {
		return ingest.Report{}, err
	}
	return a.runPipeline(ctx, pipeline, corpus, paths)
}

func (a *app) runPipeline(ctx context.Context, pipeline *ingest.Pipeline, corpus string, paths []string) (ingest.Report, error) {
	view := a.progress.ingestion(corpus)
	report, err := pipeline.Run(ctx, "", corpus, paths, view.show)
	view.done()
	if err != nil {
		return report, err
	}
	printReport(report, corpus, view.took())
	// A corpus that has grown large gets its vector index now, while nobody waits for an answer.
	return report, a.db.Maintain(ctx, store.Retention{})
}

// setPersonalData makes the corpus, if it is new, and sets its policy.
func (a *app) setPersonalData(ctx context.Context, corpus string, index ingest.Index, policy personal.Policy) error {
	if err := a.db.CreateCorpus(ctx, "", corpus, index); err != nil {
		return err
	}
	return a.db.SetPersonalData(ctx, "", corpus, policy)
}
