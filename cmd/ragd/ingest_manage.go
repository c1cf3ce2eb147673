package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"ragd/ingest"
	"ragd/retrieve"
	"ragd/store"
)

type ingestStatusCmd struct {
	Corpus string `help:"Only this corpus." short:"c"`
}

// listed bounds what status prints of each kind.
const listed = 1000

// Run prints a table of the corpora, then every document that is in work or has failed.
func (k ingestStatusCmd) Run(ctx ctxBinding, a *app) error {
	db, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	names := one(k.Corpus)
	corpora, err := db.Corpora(ctx, "", names...)
	if err != nil {
		return err
	}
	if len(corpora) == 0 {
		fmt.Println("there is no corpus yet; make one with: ragd ingest FOLDER")
		return nil
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "corpus\tdocuments\tpassages\twaiting\tfailed\tfor next model\tembedding model")
	for _, c := range corpora {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%s\n", c.Name, c.Documents, c.Passages, c.Waiting, c.Failed, c.Next, c.Index.Model)
	}
	t.Flush()
	jobs, err := db.Jobs(ctx, "", names, 0, listed)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		fmt.Println(describeJob(j, time.Now()))
	}
	if len(jobs) == listed {
		fmt.Println("… and more")
	}
	return nil
}

// describeJob says in one or two lines where a document is and what to do about it.
func describeJob(j store.Job, now time.Time) string {
	text := fmt.Sprintf("  %-9s %6d  %s/%s", j.State, j.Document, j.Corpus, shown(j.Path))
	if j.Passages > 0 {
		text += fmt.Sprintf("  %d of %d passages", j.Embedded, j.Passages)
	}
	if j.Next {
		text += "  (for the corpus's next index)"
	}
	switch {
	case j.State == ingest.Failed:
		text += fmt.Sprintf("\n%s%s (%s)", strings.Repeat(" ", 20), shown(j.Error), j.ErrorClass)
		if next := j.ErrorClass.Next(); next != "" {
			text += "; next: " + next
		}
	case j.State == ingest.Ready:
	case j.Working:
		text += "  in work"
	case !j.RetryAt.IsZero():
		text += fmt.Sprintf("  next attempt in %s: %s", j.RetryAt.Sub(now).Round(time.Second), shown(j.Error))
	default:
		text += "  waits; a running 'ragd serve' takes it up, or: ragd ingest -c " + j.Corpus
	}
	return text
}

func one(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// documentArgs names documents of one corpus.
type documentArgs struct {
	corpusFlag
	Documents []string `arg:"" optional:"" name:"document" help:"Paths in the corpus or ids, as status and the API show them; a path that ends in / is all below it."`
}

// resolve finds the documents that are named.
func (k documentArgs) resolve(ctx context.Context, db *store.Store) ([]store.Document, error) {
	var found []store.Document
	for _, name := range k.Documents {
		if prefix, ok := strings.CutSuffix(name, "/"); ok {
			below, err := documentsBelow(ctx, db, k.Corpus, prefix+"/")
			if err != nil {
				return nil, err
			}
			if len(below) == 0 {
				return nil, fmt.Errorf("corpus %q has no documents below %s", k.Corpus, name)
			}
			found = append(found, below...)
			continue
		}
		d, err := findDocument(ctx, db, k.Corpus, name)
		if err != nil {
			return nil, err
		}
		found = append(found, d)
	}
	return found, nil
}

// findDocument takes a path in a corpus or an id.
func findDocument(ctx context.Context, db *store.Store, corpus, name string) (store.Document, error) {
	d, err := db.DocumentByPath(ctx, "", corpus, name)
	if id, parseErr := strconv.ParseInt(name, 10, 64); errors.Is(err, store.ErrNotFound) && parseErr == nil {
		d, err = db.DocumentByID(ctx, "", retrieve.DocumentID(id))
	}
	return d, err
}

func documentsBelow(ctx context.Context, db *store.Store, corpus, prefix string) (below []store.Document, err error) {
	for after := retrieve.DocumentID(0); ; {
		page, err := db.Documents(ctx, "", one(corpus), "", after, listed)
		if err != nil {
			return nil, err
		}
		for _, d := range page {
			if after = d.ID; strings.HasPrefix(d.Path, prefix) {
				below = append(below, d)
			}
		}
		if len(page) < listed {
			return below, nil
		}
	}
}

type ingestRetryCmd struct{ documentArgs }

// Run puts failed documents back to work, and works on them.
func (k ingestRetryCmd) Run(ctx ctxBinding, a *app) error {
	pipeline, err := a.openPipelineFor(ctx, k.Corpus)
	if err != nil {
		return err
	}
	n, err := k.each(ctx, a.db, a.db.Retry)
	if err != nil {
		return err
	}
	a.progress.step("%d documents are tried again", n)
	if n == 0 {
		return nil
	}
	report, err := a.runPipeline(ctx, pipeline, k.Corpus, nil)
	if err != nil {
		return err
	}
	if len(report.Failed) > 0 {
		return fmt.Errorf("%d documents failed again", len(report.Failed))
	}
	return nil
}

type ingestCancelCmd struct{ documentArgs }

// Run takes waiting documents out of work.
func (k ingestCancelCmd) Run(ctx ctxBinding, a *app) error {
	db, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	n, err := k.each(ctx, db, db.Cancel)
	if err == nil {
		fmt.Printf("%d documents were taken out of work\n", n)
	}
	return err
}

// each calls fn for the documents named, or once with 0 for the whole corpus, and adds up.
func (k documentArgs) each(ctx context.Context, db *store.Store, fn func(ctx context.Context, tenant, corpus string, id retrieve.DocumentID) (int, error)) (int, error) {
	if len(k.Documents) == 0 {
		return fn(ctx, "", k.Corpus, 0)
	}
	documents, err := k.resolve(ctx, db)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, d := range documents {
		n, err := fn(ctx, "", d.Corpus, d.ID)
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

type ingestRmCmd struct{ documentArgs }

// Run deletes documents. Servers on the same database drop what their caches hold of them.
func (k ingestRmCmd) Run(ctx ctxBinding, a *app) error {
	if len(k.Documents) == 0 {
		return fmt.Errorf("%w: name the documents", errUsage)
	}
	db, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	documents, err := k.resolve(ctx, db)
	if err != nil {
		return err
	}
	for _, d := range documents {
		if err := db.DeleteDocument(ctx, "", d.ID); err != nil {
			return err
		}
		fmt.Printf("deleted %s/%s\n", d.Corpus, shown(d.Path))
	}
	return a.forgetPrefixes()
}

type ingestMigrateCmd struct {
	Corpus string `help:"Only this corpus; without it every corpus, because corpora of different models cannot be searched together." short:"c"`
	Embed  string `help:"Embedding model to change to: a name from 'ragd models list' or a GGUF file." required:"" placeholder:"MODEL"`
}

// Help is shown by ragd ingest migrate-model --help.
func (ingestMigrateCmd) Help() string {
	return `Makes every document anew, with another embedding model or after a change of the splitter, beside the index in use, and switches in one
step when all are made. Questions are answered from the old index until then; documents that arrive or change meanwhile are followed. Interrupt it
at any time: the same command goes on where it stopped. If a document cannot be made anew, the old index stays. After the switch servers must be
restarted: they refuse questions of another model.

  ragd ingest migrate-model --embed nomic-embed-text-v1.5-f16
  ragd ingest migrate-model -c contracts --embed ./my-embedder.gguf`
}

func (k ingestMigrateCmd) Run(ctx ctxBinding, a *app) error {
	db, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	corpora, err := db.Corpora(ctx, "", one(k.Corpus)...)
	if err != nil {
		return err
	}
	if len(corpora) == 0 {
		return fmt.Errorf("there is no such corpus; 'ragd ingest status' lists them")
	}
	a.Embedder = k.Embed
	pipeline, err := a.openPipeline(ctx)
	if err != nil {
		return err
	}
	for _, c := range corpora {
		if c.Index == pipeline.Index() {
			a.progress.step("corpus %s is made with %s already", c.Name, c.Index.Model)
			continue
		}
		view := a.progress.ingestion(c.Name)
		report, err := pipeline.Migrate(ctx, "", c.Name, view.show)
		view.done()
		printNotes(os.Stderr, "failed", report.Failed)
		if err != nil {
			return err
		}
		a.progress.step("corpus %s is now made with %s, before with %s; this run made %d documents with %d passages in %s", c.Name, pipeline.Index().Model, c.Index.Model,
			report.Documents, report.Passages, view.took().Round(10*time.Millisecond))
	}
	if err := db.Maintain(ctx, store.Retention{}); err != nil {
		return err
	}
	a.progress.step("running servers answer with the new model at once; restart them for new documents; where --embedder or RAGD_EMBEDDER is set, set it to %s", k.Embed)
	return nil
}
