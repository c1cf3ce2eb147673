package ingest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

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
	Ignore   []string      // patterns as in .gitignore, beside those of a .ragdignore in the folder
	Lease    time.Duration // how long a document stays with a worker that has died; default 20 s
	Logger   *slog.Logger  // nil: silent
}

const (
	defaultLease = 20 * time.Second
	idlePoll     = 200 * time.Millisecond // between looks for work that others hold
	embedBatch   = 64                     // passages per call of the embedder
	maxAttempts  = 5                      // of one step of one document, before it is parked
	parseMemory  = 256 << 20              // bytes of files being parsed at once; one larger file goes alone
)

// Progress is a truthful count: DocumentsKnown and PassagesKnown grow while
// folders are still being read and documents still being split.
type Progress struct {
	Walking                    bool   // DocumentsKnown may still grow
	Path                       string // the document this event is about
	State                      State  // its new state
	Documents, DocumentsKnown  int    // live; all files found but the skipped ones
	Passages, PassagesKnown    int    // embedded; split so far
	Skipped, Unchanged, Failed int
}

// Report is what one Run did.
type Report struct {
	Documents int // became live in this run
	Passages  int // of those documents
	Unchanged int
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
// paths it only does what waits. progress, which may be nil, is called from
// several goroutines, one at a time. The report is valid beside an error.
func (p *Pipeline) Run(ctx context.Context, tenant, corpus string, paths []string, progress func(Progress)) (Report, error) {
	r := &run{p: p, tenant: tenant, corpus: corpus, progress: progress, lease: cmp.Or(p.Lease, defaultLease), log: p.Logger,
		awaited: make(map[int64]string), done: make(map[int64]bool), held: make(map[*Job]context.CancelFunc), wake: make(chan struct{}, 1),
		split: make(chan *splitJob, 2), memory: semaphore.NewWeighted(parseMemory)}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.now.Walking = true
	err := r.all(ctx, paths)
	r.release()
	if err != nil {
		err = fmt.Errorf("ingest: into corpus %s: %w", corpus, err)
	}
	return r.report, err
}

// run is one Run.
type run struct {
	p              *Pipeline
	tenant, corpus string
	progress       func(Progress)
	lease          time.Duration
	log            *slog.Logger
	memory         *semaphore.Weighted
	split          chan *splitJob
	wake           chan struct{} // something may have become claimable

	mu      sync.Mutex
	now     Progress
	report  Report
	awaited map[int64]string // versions that this run must see finished, with their paths
	done    map[int64]bool   // versions that this run has finished
	held    map[*Job]context.CancelFunc
}

// splitJob is a job whose passages wait for vectors.
type splitJob struct {
	ctx      context.Context
	job      *Job
	pending  int               // passages without a vector
	at       func(int) Pending // the i-th of them
	done     int
	passages int // of the whole document
}

func (r *run) all(ctx context.Context, paths []string) error {
	g, ctx := errgroup.WithContext(ctx)
	beating, stopBeating := context.WithCancel(ctx)
	defer stopBeating()
	g.Go(func() error {
		err := r.walk(ctx, paths)
		r.update(func() { r.now.Walking = false })
		r.nudge()
		return err
	})
	var workers errgroup.Group
	for range cmp.Or(r.p.Workers, min(runtime.GOMAXPROCS(0), 4)) {
		workers.Go(func() error { return r.work(ctx) })
	}
	g.Go(func() error {
		err := workers.Wait()
		close(r.split)
		return err
	})
	g.Go(func() error {
		defer stopBeating()
		return r.embed(ctx)
	})
	g.Go(func() error { r.heartbeat(beating); return nil })
	return g.Wait()
}

func (r *run) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// update changes the counts and reports them.
func (r *run) update(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	if r.progress != nil {
		r.progress(r.now)
	}
	r.now.Path, r.now.State = "", ""
}

// work claims and prepares documents until none is left to wait for.
func (r *run) work(ctx context.Context) error {
	for {
		job, err := r.p.Store.Claim(ctx, r.tenant, r.corpus, r.lease)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case job != nil:
			r.nudge() // there may be more: wake a sleeping worker
			if err := r.prepare(ctx, job); err != nil {
				return err
			}
			continue
		case r.finished():
			r.nudge() // the other workers too
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.wake:
		case <-time.After(idlePoll):
			if err := r.lookElsewhere(ctx); err != nil {
				return err
			}
		}
	}
}

func (r *run) finished() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.now.Walking && len(r.awaited) == 0
}

// lookElsewhere asks after awaited versions that this run doesn't hold: another
// process may have finished, replaced or deleted them.
func (r *run) lookElsewhere(ctx context.Context) error {
	r.mu.Lock()
	mine := make(map[int64]bool, len(r.held))
	for job := range r.held {
		mine[job.Version] = true
	}
	ask := make(map[int64]string)
	for version, path := range r.awaited {
		if !mine[version] {
			ask[version] = path
		}
	}
	r.mu.Unlock()
	for version, path := range ask {
		state, failure, err := r.p.Store.Status(ctx, r.tenant, version)
		switch {
		case errors.Is(err, ErrLeaseLost):
			r.settle(version, path, Failed, func() {
				r.now.DocumentsKnown--
				r.report.Skipped = append(r.report.Skipped, Note{Path: path, Reason: "deleted or replaced while it was being ingested"})
				r.now.Skipped++
			})
		case err != nil:
			return err
		case state == Live:
			r.settle(version, path, Live, func() { r.now.Unchanged++; r.report.Unchanged++ })
		case state == Failed:
			r.settle(version, path, Failed, func() { r.noteFailure(path, failure) })
		}
	}
	return nil
}

// settle ends the wait for a version, once.
func (r *run) settle(version int64, path string, state State, count func()) {
	r.update(func() {
		if _, ok := r.awaited[version]; ok {
			delete(r.awaited, version)
			r.now.Path, r.now.State = path, state
			count()
		}
	})
	r.nudge()
}

func (r *run) noteFailure(path string, f Failure) {
	r.now.Failed++
	r.report.Failed = append(r.report.Failed, Note{Path: path, Class: f.Class, Reason: f.Message, Next: f.Class.next()})
}

// hold registers a job for heartbeats; its context ends when the lease is lost.
func (r *run) hold(ctx context.Context, job *Job) context.Context {
	jobCtx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	r.held[job] = cancel
	r.mu.Unlock()
	return jobCtx
}

func (r *run) drop(job *Job) {
	r.mu.Lock()
	if cancel := r.held[job]; cancel != nil {
		cancel()
		delete(r.held, job)
	}
	r.mu.Unlock()
}

// heartbeat prolongs the leases of all jobs in hand.
func (r *run) heartbeat(ctx context.Context) {
	tick := time.NewTicker(r.lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r.mu.Lock()
		held := make([]*Job, 0, len(r.held))
		for job := range r.held {
			held = append(held, job)
		}
		r.mu.Unlock()
		for _, job := range held {
			err := r.p.Store.Extend(ctx, job, r.lease)
			switch {
			case errors.Is(err, ErrLeaseLost):
				r.drop(job)
			case err != nil && ctx.Err() == nil: // the next step of the job will meet the same store
				r.log.Warn("lease not extended", "version", job.Version, "error", err)
			}
		}
	}
}

// release gives back what an ended run still holds, so that the next one need not wait for leases to expire.
func (r *run) release() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for job, drop := range r.held {
		drop()
		err := r.p.Store.Fail(ctx, job, Failure{Class: Interrupted, Message: "interrupted; the next run goes on with it", Retry: time.Millisecond})
		if err != nil && !errors.Is(err, ErrLeaseLost) {
			r.log.Warn("lease not given back; it expires by itself", "version", job.Version, "error", err)
		}
	}
}

// prepare takes a job to the state Split and hands it on for embedding. Only
// the store's errors are returned: a document's own are recorded.
func (r *run) prepare(ctx context.Context, job *Job) error {
	jobCtx := r.hold(ctx, job)
	if job.Attempt > maxAttempts {
		return r.fail(ctx, job, Failure{Class: Internal, Message: fmt.Sprintf("%s: given up after %d attempts that ended without a result (the process died or the machine ran out of memory)", job.Path, maxAttempts)})
	}
	sj := &splitJob{ctx: jobCtx, job: job}
	err := r.toSplit(jobCtx, sj)
	var refused *Error
	switch {
	case err == nil:
	case errors.As(err, &refused):
		if refused.Stack != nil {
			r.log.Error("reader panicked", "version", job.Version, "stack", string(refused.Stack))
		}
		return r.fail(ctx, job, Failure{Class: refused.Class, Message: refused.Message})
	default:
		return r.lost(ctx, job, err)
	}
	r.update(func() { r.now.PassagesKnown += sj.passages; r.now.Passages += sj.passages - sj.pending })
	select {
	case r.split <- sj:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lost sorts out an error of the store: a lost lease ends the job, anything else the run.
func (r *run) lost(ctx context.Context, job *Job, err error) error {
	r.mu.Lock()
	_, holds := r.held[job]
	r.mu.Unlock()
	if ctx.Err() == nil && (errors.Is(err, ErrLeaseLost) || !holds) {
		r.drop(job)
		return nil
	}
	return err
}

// toSplit runs the steps that are still to be done before embedding.
func (r *run) toSplit(ctx context.Context, sj *splitJob) error {
	job := sj.job
	var d *Document
	if job.State == Received {
		var err error
		if d, err = r.parse(ctx, job); err != nil {
			return err
		}
		if err := r.timed(&r.report.Spent.Store, func() error { return r.p.Store.SaveDocument(ctx, job, d) }); err != nil {
			return err
		}
		r.update(func() { r.now.Path, r.now.State = job.Path, Parsed })
	}
	if job.State != Parsed { // vectors were being made when the worker before died
		pending, err := r.p.Store.Pending(ctx, job)
		if err != nil {
			return err
		}
		sj.pending, sj.passages = len(pending), len(pending)
		sj.at = func(i int) Pending { return pending[i] }
		return nil
	}
	if d == nil {
		var err error
		if d, err = r.p.Store.Document(ctx, job); err != nil {
			return err
		}
	}
	var passages []Passage
	_ = r.timed(&r.report.Spent.Split, func() error { passages = r.p.Splitter.Split(d); return nil }) // fn has no error
	if len(passages) == 0 {
		return failf(NoText, "%s holds no text that can be searched", job.Path)
	}
	if err := r.timed(&r.report.Spent.Store, func() error { return r.p.Store.SavePassages(ctx, job, passages) }); err != nil {
		return err
	}
	r.update(func() { r.now.Path, r.now.State = job.Path, Split })
	sj.pending, sj.passages = len(passages), len(passages)
	sj.at = func(i int) Pending { return Pending{i, passages[i].Indexed()} }
	return nil
}

// timed adds what fn takes to total.
func (r *run) timed(total *time.Duration, fn func() error) error {
	began := time.Now()
	err := fn()
	r.mu.Lock()
	*total += time.Since(began)
	r.mu.Unlock()
	return err
}

// parse reads the job's file, holding its size in memory tokens meanwhile.
func (r *run) parse(ctx context.Context, job *Job) (*Document, error) {
	weight := min(max(job.Size, 1), parseMemory)
	if err := r.memory.Acquire(ctx, weight); err != nil {
		return nil, err
	}
	defer r.memory.Release(weight)
	content, err := r.p.Store.Content(ctx, job)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	var buf bytes.Buffer
	buf.Grow(int(min(job.Size, r.p.Limits.withDefaults().FileBytes)) + bytes.MinRead)
	if _, err := buf.ReadFrom(content); err != nil {
		return nil, err
	}
	var d *Document
	err = r.timed(&r.report.Spent.Parse, func() (err error) { d, err = Parse(ctx, job.Path, buf.Bytes(), r.p.Limits); return err })
	if err != nil {
		return nil, err
	}
	if d.Title == "" {
		d.Title = titleFromName(job.Path)
	}
	return d, nil
}

// titleFromName makes "docs/travel_policy-2026.txt" "travel policy 2026": for a
// document without a title its name is what people know it by.
func titleFromName(name string) string {
	base := path.Base(name)
	return strings.Join(strings.Fields(strings.NewReplacer("_", " ", "-", " ").Replace(strings.TrimSuffix(base, path.Ext(base)))), " ")
}

// fail records why a document cannot be ingested.
func (r *run) fail(ctx context.Context, job *Job, f Failure) error {
	if err := r.p.Store.Fail(ctx, job, f); err != nil {
		return r.lost(ctx, job, err)
	}
	r.drop(job)
	if f.Retry > 0 {
		return nil
	}
	r.log.Info("document failed", "version", job.Version, "class", string(f.Class))
	r.finish(job, Failed, func() { r.noteFailure(job.Path, f) })
	return nil
}

// finish counts a document that this run brought to its end.
func (r *run) finish(job *Job, state State, count func()) {
	r.update(func() {
		if _, ok := r.awaited[job.Version]; !ok {
			r.now.DocumentsKnown++ // left over from an earlier run, or not yet counted by the walk
		}
		delete(r.awaited, job.Version)
		r.done[job.Version] = true
		r.now.Path, r.now.State = job.Path, state
		count()
	})
	r.nudge()
}
