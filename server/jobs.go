package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"ragd/ingest"
	"ragd/retrieve"
	"ragd/store"
)

// Jobs is what the routes of work in progress need of the database. *store.Store implements it.
type Jobs interface {
	Jobs(ctx context.Context, tenant string, corpora []string, after int64, limit int) ([]store.Job, error)
	Retry(ctx context.Context, tenant, corpus string, id retrieve.DocumentID) (int, error)
	Cancel(ctx context.Context, tenant, corpus string, id retrieve.DocumentID) (int, error)
}

// jobJSON is a document version that is in work, waits, or has failed.
type jobJSON struct {
	ID         int64      `json:"id"` // of the version; pages begin after it
	DocumentID int64      `json:"document_id"`
	Corpus     string     `json:"corpus"`
	Path       string     `json:"path"`
	State      string     `json:"state"`
	Size       int64      `json:"size"`
	Passages   int        `json:"passages"` // 0 until it is split
	Embedded   int        `json:"embedded"`
	Attempt    int        `json:"attempt"`
	Working    bool       `json:"working"`    // a worker has it now
	NextIndex  bool       `json:"next_index"` // made for an index that its corpus is changing to
	ReceivedAt time.Time  `json:"received_at"`
	RetryAt    *time.Time `json:"retry_at,omitempty"`
	Error      string     `json:"error,omitempty"`
	Class      string     `json:"error_class,omitempty"`
	Next       string     `json:"next,omitempty"` // what can be done about the error
}

func jobOf(j store.Job) jobJSON {
	out := jobJSON{
		ID: j.Version, DocumentID: int64(j.Document), Corpus: j.Corpus, Path: j.Path, State: string(j.State), Size: j.Size, Passages: j.Passages,
		Embedded: j.Embedded, Attempt: j.Attempt, Working: j.Working, NextIndex: j.Next, ReceivedAt: j.ReceivedAt, Error: j.Error, Class: string(j.ErrorClass),
		Next: j.ErrorClass.Next(),
	}
	if !j.RetryAt.IsZero() {
		out.RetryAt = &j.RetryAt
	}
	return out
}

// progressJSON is how far this process's ingestion of one corpus has come. Numbers grow while documents are still being split.
type progressJSON struct {
	Corpus         string  `json:"corpus"`
	Documents      int     `json:"documents"`
	DocumentsKnown int     `json:"documents_known"`
	Passages       int     `json:"passages"`
	PassagesKnown  int     `json:"passages_known"`
	Failed         int     `json:"failed"`
	Done           float64 `json:"done"`                        // 0 to 1
	PerSecond      float64 `json:"passages_per_second"`         // 0 until it is known
	Remaining      float64 `json:"remaining_seconds,omitempty"` // absent while it cannot be told
}

// running is what the worker is doing: the progress of each corpus in work. Its zero value is ready.
type running struct {
	mu      sync.Mutex
	corpora map[[2]string]ingest.Progress // by tenant and corpus
	missed  bool                          // a start was refused: there may be more to do when a run has ended
}

// start takes a corpus into work; false when it is already, or there is no place.
func (r *running) start(tenant, corpus string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := [2]string{tenant, corpus}
	if _, busy := r.corpora[key]; busy || len(r.corpora) >= corporaAtOnce {
		r.missed = true
		return false
	}
	if r.corpora == nil {
		r.corpora = make(map[[2]string]ingest.Progress)
	}
	r.corpora[key] = ingest.Progress{Walking: true}
	return true
}

func (r *running) set(tenant, corpus string, p ingest.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.corpora[[2]string{tenant, corpus}] = p
}

// stop takes a corpus out of work and reports whether a start was refused meanwhile.
func (r *running) stop(tenant, corpus string) (missed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.corpora, [2]string{tenant, corpus})
	missed, r.missed = r.missed, false
	return missed
}

// of returns the progress of a tenant's corpora that are in work and that sees admits, by name.
func (r *running) of(tenant string, sees func(corpus string) bool) []progressJSON {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := []progressJSON{}
	for key, p := range r.corpora {
		if key[0] != tenant || !sees(key[1]) {
			continue
		}
		all = append(all, progressJSON{
			Corpus: key[1], Documents: p.Documents, DocumentsKnown: p.DocumentsKnown, Passages: p.Passages, PassagesKnown: p.PassagesKnown, Failed: p.Failed,
			Done: p.Done(), PerSecond: p.PerSecond, Remaining: p.Remaining.Seconds(),
		})
	}
	slices.SortFunc(all, func(a, b progressJSON) int { return cmp.Compare(a.Corpus, b.Corpus) })
	return all
}

// jobs is GET /v1/jobs?corpus=&after=&limit=.
func (s *Server) jobs(c *gin.Context) {
	after, limit, err := page(c, "after")
	if err != nil {
		s.fail(c, err)
		return
	}
	var corpora []string
	if name := c.Query("corpus"); name != "" {
		corpora = []string{name}
	}
	if corpora, err = s.reach(c, corpora); err != nil {
		s.fail(c, err)
		return
	}
	found, err := s.Jobs.Jobs(c.Request.Context(), s.tenant(c), corpora, after, limit)
	if err != nil {
		s.fail(c, err)
		return
	}
	all := make([]jobJSON, len(found))
	for i, j := range found {
		all[i] = jobOf(j)
	}
	tenant := s.tenant(c)
	if tenant == "" {
		tenant = store.DefaultTenant
	}
	s.reply(c, http.StatusOK, gin.H{"jobs": all, "has_more": len(all) == limit, "progress": s.running.of(tenant, func(corpus string) bool { return s.sees(c, corpus) })})
}

// retry is POST /v1/documents/{id}/retry, cancel is POST /v1/documents/{id}/cancel. Both answer with the document as it is then; cancelling one that
// never was live deletes it.
func (s *Server) retry(c *gin.Context) {
	d, ok := s.addressed(c)
	if !ok {
		return
	}
	n, err := s.Jobs.Retry(c.Request.Context(), s.tenant(c), d.Corpus, d.ID)
	if err != nil {
		s.fail(c, err)
		return
	}
	if n > 0 {
		s.wake()
	}
	s.reply(c, http.StatusOK, gin.H{"document_id": int64(d.ID), "retried": n})
}

func (s *Server) cancel(c *gin.Context) {
	d, ok := s.addressed(c)
	if !ok {
		return
	}
	n, err := s.Jobs.Cancel(c.Request.Context(), s.tenant(c), d.Corpus, d.ID)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.reply(c, http.StatusOK, gin.H{"document_id": int64(d.ID), "cancelled": n})
}

// addressed is the document in the path; ok is false when the request is answered already.
func (s *Server) addressed(c *gin.Context) (d store.Document, ok bool) {
	id, err := pathID(c)
	if err == nil {
		d, err = s.visibleDocument(c, retrieve.DocumentID(id))
	}
	if err != nil {
		s.fail(c, err)
		return d, false
	}
	return d, true
}
