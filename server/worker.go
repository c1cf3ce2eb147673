package server

import (
	"context"
	"time"
)

// lookEvery is how often the server looks for documents that wait without its knowledge: left by a process that died, or put back for another attempt.
const lookEvery = 30 * time.Second

// wake asks for waiting documents to be worked on.
func (s *Server) wake() {
	select {
	case s.arrived <- struct{}{}:
	default: // it is asked for already
	}
}

// work runs the pipeline whenever documents wait, until ctx ends. The database is the queue: what is not finished then waits there for the next start.
func (s *Server) work(ctx context.Context) {
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
		if err := s.workOff(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("ingestion stopped; it goes on by itself", "error", err, "retry_s", lookEvery.Seconds())
		}
	}
}

// workOff ingests what waits now, corpus by corpus.
func (s *Server) workOff(ctx context.Context) error {
	waiting, err := s.Library.Waiting(ctx)
	if err != nil {
		return err
	}
	for _, k := range waiting {
		if k.Index != s.Pipeline.Index() { // vectors of two models in one corpus would make it useless
			s.log.Warn("documents wait for another embedding model", "tenant", k.Tenant, "corpus", k.Corpus, "waiting", k.Versions, "model", k.Index.Model)
			continue
		}
		report, err := s.Pipeline.Run(ctx, k.Tenant, k.Corpus, nil, nil)
		if err != nil {
			return err
		}
		s.log.Info("ingested", "tenant", k.Tenant, "corpus", k.Corpus, "documents", report.Documents, "passages", report.Passages, "failed", len(report.Failed))
	}
	return nil
}
