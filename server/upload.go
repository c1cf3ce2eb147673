package server

import (
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"

	"ragd/ingest"
)

// upload is POST /v1/documents, a multipart form with a field "file" and optional fields "corpus" (default "default") and "path" (default: the file's
// name). The answer comes when the bytes are stored; reading and indexing them goes on behind it, and GET /v1/documents/{id} shows how far it is.
func (s *Server) upload(c *gin.Context) {
	candidate, data, err := readUpload(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	candidate.Tenant = s.tenant(c)
	outcome, _, err := s.Pipeline.Add(c.Request.Context(), candidate, data)
	if err != nil {
		s.fail(c, err)
		return
	}
	d, err := s.Library.DocumentByPath(c.Request.Context(), candidate.Tenant, candidate.Corpus, candidate.Path)
	if err != nil {
		s.fail(c, err)
		return
	}
	status := http.StatusOK
	if outcome == ingest.Queued {
		status = http.StatusAccepted
		s.worker.wake(candidate.Corpus)
	}
	c.Header("Location", "/v1/documents/"+formatID(int64(d.ID)))
	c.JSON(status, documentOf(d))
}

// readUpload takes the parts of the form in whatever order they come.
func readUpload(c *gin.Context) (candidate ingest.Candidate, data []byte, err error) {
	candidate.Corpus = "default"
	parts, err := c.Request.MultipartReader()
	if err != nil {
		return candidate, nil, invalid("", "send the document as multipart/form-data with a field named file: %v", err)
	}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return candidate, nil, uploadError(err)
		}
		if data, err = readPart(part, &candidate, data); err != nil {
			return candidate, nil, err
		}
	}
	switch {
	case data == nil:
		return candidate, nil, invalid("file", "the form has no field named file")
	case !corpusName.MatchString(candidate.Corpus):
		return candidate, nil, invalid("corpus", "corpus %q: a name has 1 to 64 letters, digits, dots, dashes and underscores and begins with a letter or digit", candidate.Corpus)
	case candidate.Path == "" || candidate.Path == ".":
		return candidate, nil, invalid("path", "the file has no name; give one in the field path")
	}
	return candidate, data, nil
}

func readPart(part *multipart.Part, candidate *ingest.Candidate, data []byte) ([]byte, error) {
	content, err := io.ReadAll(part)
	if err != nil {
		return nil, uploadError(err)
	}
	switch part.FormName() {
	case "corpus":
		candidate.Corpus = strings.TrimSpace(string(content))
	case "path":
		candidate.Path = cleanPath(string(content))
	case "file":
		if candidate.Path == "" {
			candidate.Path = cleanPath(part.FileName())
		}
		return content, nil
	}
	return data, nil
}

// cleanPath makes a client's path a relative one that stays below its corpus.
func cleanPath(p string) string {
	return strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(strings.TrimSpace(p), "\\", "/")), "/")
}

func uploadError(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return err
	}
	return invalid("", "the upload broke off or is not a valid form: %v", err)
}

// worker runs the pipeline for corpora that wait, one after the other.
type worker struct {
	pipeline *ingest.Pipeline
	mu       sync.Mutex
	waiting  []string
	signal   chan struct{} // has room for one
}

func newWorker(p *ingest.Pipeline) *worker {
	return &worker{pipeline: p, signal: make(chan struct{}, 1)}
}

// wake asks for corpus to be worked on.
func (w *worker) wake(corpus string) {
	w.mu.Lock()
	w.waiting = append(w.waiting, corpus)
	w.mu.Unlock()
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

func (w *worker) next() (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 {
		return "", false
	}
	corpus := w.waiting[0]
	w.waiting = w.waiting[1:]
	return corpus, true
}

// work serves the queue until ctx ends. What is not finished then waits in the database for the next start.
func (s *Server) work(ctx context.Context) {
	s.resume(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.worker.signal:
		}
		for corpus, ok := s.worker.next(); ok; corpus, ok = s.worker.next() {
			report, err := s.Pipeline.Run(ctx, "", corpus, nil, nil)
			if err != nil && ctx.Err() == nil {
				s.log.Error("ingest", "corpus", corpus, "error", err)
				continue
			}
			s.log.Info("ingested", "corpus", corpus, "documents", report.Documents, "passages", report.Passages, "failed", len(report.Failed))
		}
	}
}

// resume queues the corpora in which an earlier process left something undone.
func (s *Server) resume(ctx context.Context) {
	list, err := s.Library.Corpora(ctx, "")
	if err != nil {
		s.log.Error("look for unfinished documents", "error", err)
		return
	}
	for _, k := range list {
		if k.Waiting > 0 {
			s.worker.wake(k.Name)
		}
	}
}
