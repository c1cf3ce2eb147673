package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"ragd/embed"
)

// embed gives passages their vectors, in batches that run over the ends of
// documents: the encoder packs a batch without padding, so a batch of many short
// passages costs no more than one of few long ones. What it has made goes to
// save, which works beside it.
func (r *run) embed(ctx context.Context, made chan<- share) error {
	var open []*splitJob // in order of arrival; the first is worked on
	for {
		if len(open) == 0 {
			sj, ok := <-r.split
			if !ok {
				return nil
			}
			open = append(open, sj)
		}
		for more := true; more && waiting(open) < embedBatch; {
			select {
			case sj, ok := <-r.split:
				if more = ok; ok {
					open = append(open, sj)
				}
			default:
				more = false
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var err error
		if open, err = r.embedSome(ctx, open, made); err != nil {
			return err
		}
	}
}

func waiting(open []*splitJob) int {
	n := 0
	for _, sj := range open {
		n += sj.pending - sj.sent
	}
	return n
}

// share is a job's part of a batch.
type share struct {
	sj      *splitJob
	seqs    []int
	vectors []embed.Vector
	failure error // why vectors are missing, if this job is to blame for that
	last    bool  // nothing of the job comes after it
}

// embedSome embeds one batch and sends each job's share on. It returns the jobs
// that go on.
func (r *run) embedSome(ctx context.Context, open []*splitJob, made chan<- share) ([]*splitJob, error) {
	var texts []string
	var shares []share
	for _, sj := range open {
		s := share{sj: sj}
		for i := sj.sent; i < sj.pending && len(texts) < embedBatch && sj.ctx.Err() == nil; i++ {
			p := sj.at(i)
			s.seqs = append(s.seqs, p.Seq)
			texts = append(texts, p.Text)
		}
		shares = append(shares, s)
	}
	vectors, failure := r.vectorsOf(ctx, texts)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var going []*splitJob
	for _, s := range shares {
		n := min(len(s.seqs), len(vectors))
		s.vectors, vectors = vectors[:n], vectors[n:]
		if n < len(s.seqs) {
			s.failure, failure = failure, nil // the fault was this job's; the batch's others were not tried
		}
		s.sj.sent += n
		s.last = s.failure != nil || s.sj.sent == s.sj.pending || s.sj.ctx.Err() != nil
		if !s.last {
			going = append(going, s.sj)
		}
		if n == 0 && !s.last {
			continue
		}
		select {
		case made <- s:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return going, nil
}

// vectorsOf embeds texts; without an error there is a vector for each.
func (r *run) vectorsOf(ctx context.Context, texts []string) (vectors []embed.Vector, err error) {
	if len(texts) == 0 {
		return nil, nil
	}
	err = r.timed(&r.report.Spent.Embed, func() (err error) {
		vectors, err = r.p.Embedder.Embed(ctx, embed.Passage, texts)
		return err
	})
	if err == nil && len(vectors) != len(texts) {
		err = fmt.Errorf("%s returned %d vectors for %d passages", r.p.Embedder.Model(), len(vectors), len(texts))
		vectors = nil
	}
	return vectors, err
}

// publishers bounds the documents that are published at a time.
const publishers = 32

// save stores vectors as they are made, and publishes each document whose
// passages all have one: several at a time, because a store may do that together.
func (r *run) save(ctx context.Context, made <-chan share) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(publishers)
	var err error
	for s := range made {
		complete, deliverErr := r.deliver(ctx, s)
		if err = deliverErr; err != nil || ctx.Err() != nil {
			break
		}
		if complete {
			group.Go(func() error { return r.publish(ctx, s) })
		}
	}
	return errors.Join(err, group.Wait())
}

// deliver saves a share and reports whether its job can be published.
func (r *run) deliver(ctx context.Context, s share) (complete bool, err error) {
	sj, job := s.sj, s.sj.job
	if sj.ctx.Err() != nil && ctx.Err() == nil { // its lease was lost; a share that comes later finds the same
		if s.last {
			r.update(func() { r.uncount(sj) })
		}
		return false, nil
	}
	if len(s.vectors) > 0 {
		err := r.timed(&r.report.Spent.Store, func() error { return r.store.SaveVectors(sj.ctx, job, s.seqs[:len(s.vectors)], s.vectors) })
		if err != nil {
			return false, r.lostSplit(ctx, s, err)
		}
		r.update(func() {
			sj.saved += len(s.vectors)
			r.now.Passages += len(s.vectors)
			if h := r.held[job]; h != nil {
				h.Passages += len(s.vectors)
			}
		})
	}
	if s.failure != nil {
		f := Failure{Class: Internal, Message: fmt.Sprintf("%s: passage %d was not embedded: %v", job.Path, s.seqs[len(s.vectors)], s.failure)}
		if job.Attempt < maxAttempts {
			f.Retry = time.Second << job.Attempt
		}
		r.update(func() { r.uncount(sj) }) // it will be counted again
		return false, r.fail(ctx, job, f)
	}
	return s.last, nil
}

// publish makes a job's document live.
func (r *run) publish(ctx context.Context, s share) error {
	sj, job := s.sj, s.sj.job
	// Not under the job's own context: a heartbeat that comes right after the version went live finds no lease any more and ends that.
	if err := r.timed(&r.report.Spent.Store, func() error { return r.store.Publish(ctx, job) }); err != nil {
		return r.lostSplit(ctx, s, err)
	}
	r.log.Info("document live", "version", job.Version, "passages", sj.passages)
	r.finish(job, job.State, func() {
		r.now.Documents++
		r.report.Documents++
		r.report.Passages += sj.passages
	})
	return nil
}

// lostSplit is lost for a job whose passages are counted.
func (r *run) lostSplit(ctx context.Context, s share, err error) error {
	if s.last {
		r.update(func() { r.uncount(s.sj) })
	}
	return r.lost(ctx, s.sj.job, err)
}

// uncount takes a job's passages and bytes out of the progress; r.mu is held.
func (r *run) uncount(sj *splitJob) {
	r.now.PassagesKnown -= sj.passages
	r.now.Passages -= sj.passages - sj.pending + sj.saved
	r.now.Bytes -= sj.job.Size
}
