package ingest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// run is one Run.
type run struct {
	p              *Pipeline
	store          *patientStore
	tenant, corpus string
	progress       func(Progress)
	lease          time.Duration
	known          stamps // files that need not be looked into, as they were; nil: none
	dry            bool   // only say what would be done
	expected       int    // documents that are known to wait without a walk
	log            *slog.Logger
	memory         *semaphore.Weighted
	split          chan *splitJob
	wake           chan struct{} // something may have become claimable

	mu      sync.Mutex
	now     Progress
	report  Report
	awaited map[int64]file // versions that this run must see finished
	done    map[int64]bool // versions that this run has finished
	counted map[int64]bool // versions whose bytes are in Progress.BytesKnown
	held    map[*Job]*hand
	pace    pace
}

// file is a version that is waited for.
type file struct {
	path string
	size int64
}

// hand is a job that this run holds, guarded by run.mu.
type hand struct {
	FileProgress
	cancel context.CancelFunc
}

func (p *Pipeline) newRun(tenant, corpus string, known stamps, progress func(Progress)) *run {
	r := &run{p: p, tenant: tenant, corpus: corpus, progress: progress, known: known, lease: cmp.Or(p.Lease, defaultLease), log: p.Logger,
		awaited: make(map[int64]file), done: make(map[int64]bool), counted: make(map[int64]bool), held: make(map[*Job]*hand), wake: make(chan struct{}, 1),
		split: make(chan *splitJob, 2), memory: semaphore.NewWeighted(parseMemory)}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.store = &patientStore{Store: p.Store, wait: p.Patience, log: r.log}
	r.now.Walking = true
	return r
}

// checkIndex refuses a corpus that is made otherwise. It says so before any work
// is done; Receive and Claim see to it that it stays so.
func (r *run) checkIndex(ctx context.Context) error {
	have, err := r.store.Index(ctx, r.tenant, r.corpus)
	if err != nil || r.corpus == "" || have == (Index{}) || have == r.p.Index() {
		return err
	}
	return fmt.Errorf("it %w", have.Mismatch(r.p.Index()))
}

// splitJob is a job whose passages wait for vectors.
type splitJob struct {
	ctx      context.Context
	job      *Job
	pending  int               // passages without a vector
	at       func(int) Pending // the i-th of them
	sent     int               // of them, those that have gone through the embedder
	saved    int               // and those whose vectors are stored; guarded by run.mu
	passages int               // of the whole document
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
	made := make(chan share, 2)
	g.Go(func() error {
		defer close(made)
		return r.embed(ctx, made)
	})
	g.Go(func() error {
		defer stopBeating()
		return r.save(ctx, made)
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
		r.now.Files = r.now.Files[:0:0]
		for _, job := range slices.SortedFunc(maps.Keys(r.held), func(a, b *Job) int { return cmp.Compare(a.Version, b.Version) }) {
			r.now.Files = append(r.now.Files, r.held[job].FileProgress)
		}
		r.now.measure(&r.pace, time.Now())
		r.progress(r.now)
	}
	r.now.Path, r.now.State = "", ""
}

// expect counts the bytes of a version that is to be worked on, once; r.mu is held.
func (r *run) expect(version, size int64) {
	if !r.counted[version] {
		r.counted[version] = true
		r.now.BytesKnown += size
	}
}

// reached notes how far a job has come; r.mu is held.
func (r *run) reached(job *Job, state State) {
	r.now.Path, r.now.State = job.Path, state
	if h := r.held[job]; h != nil {
		h.State = state
	}
}

// work claims and prepares documents until none is left to wait for.
func (r *run) work(ctx context.Context) error {
	for {
		job, err := r.store.Claim(ctx, r.tenant, r.corpus, r.p.Index(), r.lease)
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
	ask := make(map[int64]file)
	for version, f := range r.awaited {
		if !mine[version] {
			ask[version] = f
		}
	}
	r.mu.Unlock()
	for version, f := range ask {
		path := f.path
		state, failure, err := r.store.Status(ctx, r.tenant, version)
		switch {
		case errors.Is(err, ErrLeaseLost):
			r.settle(version, path, Failed, func() {
				r.now.DocumentsKnown--
				r.report.Skipped = append(r.report.Skipped, Note{Path: path, Reason: "deleted or replaced while it was being ingested"})
				r.now.Skipped++
			})
		case err != nil:
			return err
		case state == Live, state == Ready, state == Retired:
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
			r.now.BytesKnown -= r.awaited[version].size
			delete(r.awaited, version)
			r.now.Path, r.now.State = path, state
			count()
		}
	})
	r.nudge()
}

func (r *run) noteFailure(path string, f Failure) {
	r.now.Failed++
	r.report.Failed = append(r.report.Failed, Note{Path: path, Class: f.Class, Reason: f.Message, Next: f.Class.Next()})
}

// hold registers a job for heartbeats; its context ends when the lease is lost.
func (r *run) hold(ctx context.Context, job *Job) context.Context {
	jobCtx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	r.held[job] = &hand{cancel: cancel, FileProgress: FileProgress{Path: job.Path, State: job.State}}
	r.expect(job.Version, job.Size)
	r.mu.Unlock()
	return jobCtx
}

func (r *run) drop(job *Job) {
	r.mu.Lock()
	if h := r.held[job]; h != nil {
		h.cancel()
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
	for job, h := range r.held {
		h.cancel()
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
	r.update(func() {
		r.now.Bytes += job.Size
		r.now.PassagesKnown += sj.passages
		r.now.Passages += sj.passages - sj.pending
		if h := r.held[job]; h != nil {
			h.Passages, h.PassagesKnown = sj.passages-sj.pending, sj.passages
		}
	})
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
		if err := r.timed(&r.report.Spent.Store, func() error { return r.store.SaveDocument(ctx, job, d) }); err != nil {
			return err
		}
		r.update(func() { r.reached(job, Parsed) })
	}
	if job.State != Parsed { // vectors were being made when the worker before died
		pending, err := r.store.Pending(ctx, job)
		if err != nil {
			return err
		}
		sj.pending, sj.passages = len(pending), len(pending)
		sj.at = func(i int) Pending { return pending[i] }
		return nil
	}
	if d == nil {
		var err error
		if d, err = r.store.Document(ctx, job); err != nil {
			return err
		}
	}
	var passages []Passage
	_ = r.timed(&r.report.Spent.Split, func() error { passages = r.p.Splitter.Split(d); return nil }) // fn has no error
	if len(passages) == 0 {
		return failf(NoText, "%s holds no text that can be searched", job.Path)
	}
	if err := r.timed(&r.report.Spent.Store, func() error { return r.store.SavePassages(ctx, job, passages) }); err != nil {
		return err
	}
	r.update(func() { r.reached(job, Split) })
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
	var buf bytes.Buffer
	buf.Grow(int(min(job.Size, r.p.Limits.withDefaults().FileBytes)) + bytes.MinRead)
	if err := r.store.read(ctx, job, &buf); err != nil {
		return nil, err
	}
	var d *Document
	err := r.timed(&r.report.Spent.Parse, func() (err error) { d, err = Parse(ctx, job.Path, buf.Bytes(), r.p.Limits); return err })
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
	if err := r.store.Fail(ctx, job, f); err != nil {
		return r.lost(ctx, job, err)
	}
	r.drop(job)
	r.update(func() {
		r.now.BytesKnown -= job.Size
		delete(r.counted, job.Version)
	})
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
			if r.expected--; r.expected < 0 {
				r.now.DocumentsKnown++ // left over from an earlier run, or not yet counted by the walk
			}
		}
		delete(r.awaited, job.Version)
		r.done[job.Version] = true
		if h := r.held[job]; h != nil { // not before: lookElsewhere would count it, too
			h.cancel()
			delete(r.held, job)
		}
		r.now.Path, r.now.State = job.Path, state
		count()
	})
	r.nudge()
}
