package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"ragd/ingest"
	"ragd/store"
)

const (
	// lookEvery is how often the server looks for documents that wait without its knowledge: left by a process that died, or put back for another attempt.
	lookEvery = 30 * time.Second
	// maintainEvery is how often vector indexes are looked after and what is out of date is removed.
	maintainEvery = 10 * time.Minute
	// corporaAtOnce is how many corpora are worked on together: a small upload does not wait for a library in another corpus.
	corporaAtOnce = 4
)

// wake asks for waiting documents to be worked on.
func (s *Server) wake() {
	select {
	case s.arrived <- struct{}{}:
	default: // it is asked for already
	}
}

// work runs the pipeline whenever documents wait, until ctx ends. The database is the queue: what is not finished then waits there for the next start.
func (s *Server) work(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { s.maintain(ctx) })
	group.Go(func() { s.hearDeletions(ctx) })
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	s.wake() // for what an earlier process left
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		case <-s.arrived:
		}
		if err := s.workOff(ctx, &group); err != nil && ctx.Err() == nil {
			s.log.Error("the queue cannot be read; it is tried again", "error", err, "retry_s", lookEvery.Seconds())
		}
	}
}

// workOff starts a run for each corpus in which documents wait, but for those that are worked on already: a run takes what comes while it lasts.
func (s *Server) workOff(ctx context.Context, group *sync.WaitGroup) error {
	waiting, err := s.Library.Waiting(ctx)
	if err != nil {
		return err
	}
	for _, k := range waiting {
		if k.Index != s.Pipeline.Index() { // vectors of two models in one corpus would make it useless
			s.log.Warn("documents wait for another embedding model", "tenant", k.Tenant, "corpus", k.Corpus, "waiting", k.Versions, "model", k.Index.Model)
			continue
		}
		if s.running.start(k.Tenant, k.Corpus) {
			group.Go(func() { s.ingest(ctx, k) })
		}
	}
	return nil
}

// ingest works on one corpus until nothing waits in it.
func (s *Server) ingest(ctx context.Context, k store.Waiting) {
	report, err := s.Pipeline.Run(ctx, k.Tenant, k.Corpus, nil, func(p ingest.Progress) { s.running.set(k.Tenant, k.Corpus, p) })
	if s.running.stop(k.Tenant, k.Corpus) {
		s.wake()
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.log.Error("ingestion stopped; it goes on by itself", "tenant", k.Tenant, "corpus", k.Corpus, "error", err, "retry_s", lookEvery.Seconds())
	default:
		s.log.Info("ingested", "tenant", k.Tenant, "corpus", k.Corpus, "documents", report.Documents, "passages", report.Passages, "failed", len(report.Failed))
	}
}

// maintain keeps vector indexes and removes what is out of date, now and then.
func (s *Server) maintain(ctx context.Context) {
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	for {
		if err := s.Library.Maintain(ctx, store.Retention{Retired: s.config.KeepVersions, Answers: s.config.KeepAnswers, Audit: s.config.KeepAudit}); err != nil && ctx.Err() == nil {
			s.log.Error("maintenance failed; it is tried again", "error", err, "retry_s", maintainEvery.Seconds())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// hearDeletions drops cached text of documents that other processes delete: the command line, or another server on the same database.
func (s *Server) hearDeletions(ctx context.Context) {
	err := s.Library.Deletions(ctx, func(tenant string) {
		var err error
		switch tenant {
		case "":
			err = s.Engine.ForgetAll(ctx)
		case store.DefaultTenant: // goes by both names
			err = errors.Join(s.Engine.Forget(ctx, tenant), s.Engine.Forget(ctx, ""))
		default:
			err = s.Engine.Forget(ctx, tenant)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Error("cached text of a deleted document may be left; restart ragd", "error", err)
		}
	})
	if err != nil && ctx.Err() == nil {
		s.log.Error("deletions by other processes are not heard any more; restart ragd", "error", err)
	}
}
