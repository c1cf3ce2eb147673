package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"ragd/ingest"
	"ragd/store"
)

type ingestCmd struct {
	Paths  []string `arg:"" help:"Files and folders." type:"existingpath"`
	Corpus string   `help:"Corpus that takes them." default:"default" short:"c"`
}

// Help is shown by ragd ingest --help.
func (ingestCmd) Help() string {
	return `Reads text, Markdown, HTML, PDF, Word and other formats (docs/formats.md), cuts them into passages, embeds and indexes them. A file whose
bytes are known is skipped; a changed one replaces its old version in one step. Interrupt it at any time: the same command goes on where it stopped.

  ragd ingest ~/Documents/handbook
  ragd ingest -c contracts *.pdf`
}

func (k ingestCmd) Run(ctx ctxBinding, a *app) error {
	report, err := a.ingest(ctx, k.Corpus, k.Paths)
	if err != nil {
		return err
	}
	if len(report.Failed) > 0 {
		return fmt.Errorf("%d of the files could not be read; the others are in corpus %q", len(report.Failed), k.Corpus)
	}
	return nil
}

// ingest runs the pipeline with a progress bar and prints what became of the files.
func (a *app) ingest(ctx context.Context, corpus string, paths []string) (ingest.Report, error) {
	pipeline, err := a.openPipeline(ctx)
	if err != nil {
		return ingest.Report{}, err
	}
	started := time.Now()
	bar := a.progress.bar("ingesting", items)
	report, err := pipeline.Run(ctx, "", corpus, paths, func(p ingest.Progress) {
		bar.set(int64(p.Documents+p.Unchanged+p.Failed), int64(p.DocumentsKnown))
	})
	bar.done()
	if err != nil {
		return report, err
	}
	printReport(report, corpus, time.Since(started))
	// A corpus that has grown large gets its vector index now, while nobody waits for an answer.
	return report, a.db.Maintain(ctx, store.Retention{})
}

func printReport(r ingest.Report, corpus string, took time.Duration) {
	fmt.Fprintf(os.Stderr, "corpus %s: %d documents with %d passages added, %d unchanged, %d skipped, %d failed, in %s\n",
		corpus, r.Documents, r.Passages, r.Unchanged, len(r.Skipped), len(r.Failed), took.Round(10*time.Millisecond))
	for _, n := range r.Skipped {
		fmt.Fprintf(os.Stderr, "  skipped %s: %s\n", n.Path, n.Reason)
	}
	for _, n := range r.Failed {
		fmt.Fprintf(os.Stderr, "  failed  %s: %s (%s)\n", n.Path, n.Reason, n.Class)
		if n.Next != "" {
			fmt.Fprintf(os.Stderr, "          %s\n", n.Next)
		}
	}
}
