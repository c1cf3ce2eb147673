package ingest

import (
	"context"
	"fmt"
	"time"

	"ragd/embed"
)

// embed gives passages their vectors, in batches that run over the ends of
// documents, and publishes each document whose passages all have one.
func (r *run) embed(ctx context.Context) error {
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
		if open, err = r.embedSome(ctx, open); err != nil {
			return err
		}
	}
}

func waiting(open []*splitJob) int {
	n := 0
	for _, sj := range open {
		n += sj.pending - sj.done
	}
	return n
}

// embedSome embeds one batch, saves it, and publishes what is complete. It
// returns the jobs that go on.
func (r *run) embedSome(ctx context.Context, open []*splitJob) ([]*splitJob, error) {
	var texts []string
	var shares []share
	for _, sj := range open {
		if sj.ctx.Err() != nil { // its lease was lost
			sj.done = sj.pending
			continue
		}
		s := share{sj: sj}
		for i := sj.done; i < sj.pending && len(texts) < embedBatch; i++ {
			p := sj.at(i)
			s.seqs = append(s.seqs, p.Seq)
			texts = append(texts, p.Text)
		}
		shares = append(shares, s)
	}
	var vectors []embed.Vector
	var failure error
	if len(texts) > 0 {
		_ = r.timed(&r.report.Spent.Embed, func() error {
			vectors, failure = r.p.Embedder.Embed(ctx, embed.Passage, texts)
			return nil
		})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if failure == nil && len(vectors) != len(texts) {
			failure = fmt.Errorf("%s returned %d vectors for %d passages", r.p.Embedder.Model(), len(vectors), len(texts))
		}
	}
	var going []*splitJob
	for _, s := range shares {
		n := min(len(s.seqs), len(vectors))
		goes, err := r.deliver(ctx, s, vectors[:n], failure)
		if err != nil {
			return nil, err
		}
		vectors = vectors[n:]
		if n < len(s.seqs) {
			failure = nil // the fault was this job's; the batch's others were not tried
		}
		if goes {
			going = append(going, s.sj)
		}
	}
	return going, nil
}

// share is a job's part of a batch.
type share struct {
	sj   *splitJob
	seqs []int
}

// deliver saves a job's vectors and publishes it when they were the last. It
// reports whether the job goes on. failure is why vectors are missing, if this
// job is to blame for that.
func (r *run) deliver(ctx context.Context, s share, vectors []embed.Vector, failure error) (goes bool, err error) {
	sj, job := s.sj, s.sj.job
	if len(vectors) > 0 {
		err := r.timed(&r.report.Spent.Store, func() error { return r.p.Store.SaveVectors(sj.ctx, job, s.seqs[:len(vectors)], vectors) })
		if err != nil {
			return false, r.lost(ctx, job, err)
		}
		sj.done += len(vectors)
		r.update(func() { r.now.Passages += len(vectors) })
	}
	if len(vectors) < len(s.seqs) && failure != nil {
		f := Failure{Class: Internal, Message: fmt.Sprintf("%s: passage %d was not embedded: %v", job.Path, s.seqs[len(vectors)], failure)}
		if job.Attempt < maxAttempts {
			f.Retry = time.Second << job.Attempt
		}
		r.update(func() { // it will be counted again
			r.now.PassagesKnown -= sj.passages
			r.now.Passages -= sj.passages - sj.pending + sj.done
		})
		return false, r.fail(ctx, job, f)
	}
	if sj.done < sj.pending {
		return true, nil
	}
	if err := r.timed(&r.report.Spent.Store, func() error { return r.p.Store.Publish(sj.ctx, job) }); err != nil {
		return false, r.lost(ctx, job, err)
	}
	r.drop(job)
	r.log.Info("document live", "version", job.Version, "passages", sj.passages)
	r.finish(job, Live, func() {
		r.now.Documents++
		r.report.Documents++
		r.report.Passages += sj.passages
	})
	return false, nil
}
