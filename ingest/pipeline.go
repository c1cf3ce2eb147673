package ingest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"ragd/embed"
)

// Pipeline takes files into a corpus: walk, hash, parse, split, embed, publish.
// Everything it does is in the Store after each step; a Run that ends early, in
// whatever way, is continued by the next.
type Pipeline struct {
	Store    Store
	Embedder embed.Embedder
	Splitter *Splitter
	Limits   Limits
	Workers  int           // documents parsed at once; default: one per core, at most 4
	Ignore   []string      // patterns as in .gitignore, beside those of the .ragdignore files in the folders
	Hidden   bool          // files and folders whose name begins with a dot are taken, too
	Prune    bool          // documents whose file is gone from the folders that Run is given are removed
	Lease    time.Duration // how long a document stays with a worker that has died; default 20 s
	Patience time.Duration // how long a database that cannot be reached is waited for; default 2 min
	Logger   *slog.Logger  // nil: silent
}

const (
	defaultLease = 20 * time.Second
	idlePoll     = 200 * time.Millisecond // between looks for work that others hold
	embedBatch   = 64                     // passages per call of the embedder
	maxAttempts  = 5                      // of one step of one document, before it is parked
	parseMemory  = 256 << 20              // bytes of files being parsed at once; one larger file goes alone
)

// Report is what one Run did.
type Report struct {
	Documents int // became live in this run
	Passages  int // of those documents
	Unchanged int
	Moved     []Note // documents whose file has another path now; Reason says from where
	Removed   []Note // documents whose file is gone
	Skipped   []Note
	Failed    []Note
	Spent     Spent
}

// Spent is where the time went, summed over workers.
type Spent struct{ Parse, Split, Embed, Store time.Duration }

// Note is a file that was left out, and why.
type Note struct {
	Path   string
	Class  Class // "" for a skipped file
	Reason string
	Next   string // what the user can do
}

// Index is how the pipeline's passages are made.
func (p *Pipeline) Index() Index {
	return Index{Model: p.Embedder.Model(), Dim: p.Embedder.Dim(), Splitter: p.Splitter.Fingerprint()}
}

// Add hands one document's bytes to the store, to be worked on by the next Run
// of any Pipeline. c needs Source; Modified and Tags are optional.
func (p *Pipeline) Add(ctx context.Context, c Candidate, data []byte) (Outcome, int64, error) {
	limits := p.Limits.withDefaults()
	if int64(len(data)) > limits.FileBytes {
		return 0, 0, tooLarge(c.Path, int64(len(data)), limits)
	}
	c.SHA256, c.Size, c.Index = sha256.Sum256(data), int64(len(data)), p.Index()
	return p.Store.Receive(ctx, c, bytes.NewReader(data))
}

// Run takes the files under paths into corpus, then works until every one of
// them is live or has failed and nothing else waits in the corpus; without
// paths it only does what waits. A corpus that is made with another Index is
// refused with ErrIndexMismatch. progress, which may be nil, is called from
// several goroutines, one at a time. The report is valid beside an error.
func (p *Pipeline) Run(ctx context.Context, tenant, corpus string, paths []string, progress func(Progress)) (Report, error) {
	return p.run(ctx, tenant, corpus, paths, nil, progress)
}

// run is Run; files that are as in known, which may be nil, are not looked into.
func (p *Pipeline) run(ctx context.Context, tenant, corpus string, paths []string, known stamps, progress func(Progress)) (Report, error) {
	r := p.newRun(tenant, corpus, known, progress)
	err := r.checkIndex(ctx)
	if err == nil {
		err = r.all(ctx, paths)
		r.release()
	}
	if err != nil {
		err = fmt.Errorf("ingest: into corpus %s: %w", corpus, err)
	}
	return r.report, err
}

// Plan says what Run would do with the files under paths, and does nothing.
// progress is called once for each file: State is Received for one that would
// be worked on, Live for one that is there already.
func (p *Pipeline) Plan(ctx context.Context, tenant, corpus string, paths []string, progress func(Progress)) (Report, error) {
	r := p.newRun(tenant, corpus, nil, progress)
	r.dry = true
	err := r.checkIndex(ctx)
	if err == nil {
		err = r.walk(ctx, paths)
	}
	if err != nil {
		err = fmt.Errorf("ingest: plan for corpus %s: %w", corpus, err)
	}
	return r.report, err
}

// Migrate makes the corpus anew with this pipeline's Index, beside the one that
// readers go on using, and switches to it in one step when every live document
// has been made. Documents that arrive, change or go meanwhile are followed.
// Stopped or killed, the next Migrate continues; until the switch, nothing that
// readers see has changed. A document that cannot be made anew stops the switch:
// it is in the report's Failed.
func (p *Pipeline) Migrate(ctx context.Context, tenant, corpus string, progress func(Progress)) (Report, error) {
	var total Report
	for {
		done, err := p.migrate(ctx, tenant, corpus, progress, &total)
		if err != nil {
			return total, fmt.Errorf("ingest: migrate corpus %s: %w", corpus, err)
		}
		if done {
			return total, nil
		}
	}
}

// migrate is one round: it makes what is still to be made, or switches when nothing is. done: the corpus has this pipeline's index.
func (p *Pipeline) migrate(ctx context.Context, tenant, corpus string, progress func(Progress), total *Report) (done bool, err error) {
	r := p.newRun(tenant, corpus, nil, progress)
	have, err := r.store.Index(ctx, tenant, corpus)
	switch {
	case err != nil:
		return false, err
	case have == Index{}:
		return false, errors.New("there is no such corpus")
	case have == p.Index():
		return true, nil
	}
	shadow, err := r.store.Shadow(ctx, tenant, corpus, p.Index())
	if err != nil {
		return false, err
	}
	if shadow.Ready == shadow.Documents { // false: documents came while this one looked
		return r.store.Switch(ctx, tenant, corpus, p.Index())
	}
	r.now.Documents, r.now.DocumentsKnown = shadow.Ready, shadow.Documents
	r.expected = shadow.Documents - shadow.Ready
	err = r.all(ctx, nil)
	r.release()
	total.add(r.report)
	switch {
	case err != nil:
		return false, err
	case len(total.Failed) > 0:
		return false, fmt.Errorf("%d documents could not be made with %s, so the corpus stays with %s: see why, delete them or mend what is wrong, and migrate again; what is done is kept",
			len(total.Failed), p.Index().Model, have.Model)
	case r.report.Documents == 0: // another process has the rest in hand
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(idlePoll):
		}
	}
	return false, nil
}

func (r *Report) add(more Report) {
	r.Documents += more.Documents
	r.Passages += more.Passages
	r.Failed = append(r.Failed, more.Failed...)
	r.Spent.Parse += more.Spent.Parse
	r.Spent.Split += more.Spent.Split
	r.Spent.Embed += more.Spent.Embed
	r.Spent.Store += more.Spent.Store
}
