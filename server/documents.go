package server

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"

	"github.com/gin-gonic/gin"

	"ragd/ingest"
	"ragd/retrieve"
	"ragd/store"
)

// Library is what the routes need of the database. *store.Store implements it.
type Library interface {
	Ping(ctx context.Context) error
	Waiting(ctx context.Context) ([]store.Waiting, error)
	Maintain(ctx context.Context, keep store.Retention) error
	Deletions(ctx context.Context, forget func(tenant string)) error
	Corpora(ctx context.Context, tenant string, names ...string) ([]store.Corpus, error)
	Documents(ctx context.Context, tenant string, corpora []string, state ingest.State, after retrieve.DocumentID, limit int) ([]store.Document, error)
	DocumentByID(ctx context.Context, tenant string, id retrieve.DocumentID) (store.Document, error)
	DocumentByPath(ctx context.Context, tenant, corpus, path string) (store.Document, error)
	CreateCorpus(ctx context.Context, tenant, name string, index ingest.Index) error
	DeleteCorpus(ctx context.Context, tenant, name string) error
	Original(ctx context.Context, tenant string, id retrieve.DocumentID) (store.Original, error)
	DeleteDocument(ctx context.Context, tenant string, id retrieve.DocumentID) error
	Excerpt(ctx context.Context, id retrieve.PassageID, margin int, f retrieve.Filter) (store.Excerpt, error)
}

func formatID(id int64) string { return strconv.FormatInt(id, 10) }

// pathID reads the id in the path.
func pathID(c *gin.Context) (int64, error) {
	id, err := strconv.ParseInt(c.Param("id"), 10, 64)
	if err != nil || id <= 0 {
		return 0, invalid("id", "%q is not an id; ids are positive whole numbers", c.Param("id"))
	}
	return id, nil
}

// documentJSON describes a document.
type documentJSON struct {
	ID       int64    `json:"id"`
	Corpus   string   `json:"corpus"`
	Path     string   `json:"path"`
	Title    string   `json:"title"`
	Kind     string   `json:"kind"` // what it was read as: pdf, markdown, ...
	Language string   `json:"language,omitempty"`
	Tags     []string `json:"tags"`
	SHA256   string   `json:"sha256"`
	Size     int64    `json:"size"`
	Live     bool     `json:"live"`  // some version of it can be found
	State    string   `json:"state"` // of the newest version: received, parsed, split, embedded, live or failed
	Passages int      `json:"passages"`
	Warnings []string `json:"warnings"`
	Personal []string `json:"personal_data"` // kinds of it: email, phone, ...
	Error    string   `json:"error,omitempty"`
	Class    string   `json:"error_class,omitempty"`
}

func documentOf(d store.Document) documentJSON {
	return documentJSON{
		ID: int64(d.ID), Corpus: d.Corpus, Path: d.Path, Title: d.Title, Kind: d.Kind, Language: d.Language, Tags: list(d.Tags), SHA256: d.SHA256, Size: d.Size,
		Live: d.Live, State: string(d.State), Passages: d.Passages, Warnings: list(d.Warnings), Personal: list(d.Personal), Error: d.Error, Class: string(d.ErrorClass),
	}
}

// list makes JSON say [] rather than null.
func list(all []string) []string {
	if all == nil {
		return []string{}
	}
	return all
}

// states are those of a document's newest version.
var states = []ingest.State{ingest.Received, ingest.Parsed, ingest.Split, ingest.Embedded, ingest.Live, ingest.Failed}

// pageSize bounds a list; the next page begins after the last id.
const pageSize = 1000

// documents is GET /v1/documents?corpus=&state=&after=&limit=.
func (s *Server) documents(c *gin.Context) {
	after, limit, err := page(c, "after")
	if err != nil {
		s.fail(c, err)
		return
	}
	state := ingest.State(c.Query("state"))
	if state != "" && !slices.Contains(states, state) {
		s.fail(c, invalid("state", "state is %q; it must be one of %q", state, states))
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
	found, err := s.Library.Documents(c.Request.Context(), s.tenant(c), corpora, state, retrieve.DocumentID(after), limit)
	if err != nil {
		s.fail(c, err)
		return
	}
	all := make([]documentJSON, len(found))
	for i, d := range found {
		all[i] = documentOf(d)
	}
	s.reply(c, http.StatusOK, gin.H{"documents": all, "has_more": len(all) == limit})
}

// page reads limit and the id in the query parameter cursor, at which a page begins.
func page(c *gin.Context, cursor string) (id int64, limit int, err error) {
	limit = pageSize
	if text := c.Query(cursor); text != "" {
		if id, err = strconv.ParseInt(text, 10, 64); err != nil || id < 0 {
			return 0, 0, invalid(cursor, "%s is %q; it must be the last id of the page before", cursor, text)
		}
	}
	if text := c.Query("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > pageSize {
			return 0, 0, invalid("limit", "limit is %q; it must be between 1 and %d", text, pageSize)
		}
	}
	return id, limit, nil
}

// document is GET /v1/documents/{id}.
func (s *Server) document(c *gin.Context) {
	id, err := pathID(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	d, err := s.visibleDocument(c, retrieve.DocumentID(id))
	if err != nil {
		s.fail(c, err)
		return
	}
	s.reply(c, http.StatusOK, documentOf(d))
}

// visibleDocument returns a document that the request's key may see.
func (s *Server) visibleDocument(c *gin.Context, id retrieve.DocumentID) (store.Document, error) {
	d, err := s.Library.DocumentByID(c.Request.Context(), s.tenant(c), id)
	if err == nil && !s.sees(c, d.Corpus) {
		err = fmt.Errorf("document %d: %w", id, store.ErrNotFound)
	}
	return d, err
}

// deleteDocument is DELETE /v1/documents/{id}: when it returns, nothing of the document is left, in the database or in the engine's caches.
func (s *Server) deleteDocument(c *gin.Context) {
	id, err := pathID(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	if _, err := s.visibleDocument(c, retrieve.DocumentID(id)); err != nil {
		s.fail(c, err)
		return
	}
	if err := s.forgetDocument(c, retrieve.DocumentID(id)); err != nil {
		s.fail(c, err)
		return
	}
	c.Status(http.StatusNoContent)
}

// forgetDocument deletes a document, and what the engine remembers of it.
func (s *Server) forgetDocument(c *gin.Context, id retrieve.DocumentID) error {
	if err := s.Library.DeleteDocument(c.Request.Context(), s.tenant(c), id); err != nil {
		return err
	}
	return s.forgetPrefixes(c)
}

// forgetPrefixes empties the tenant's prefix cache, which holds the text of passages: a document is gone, so its traces must go, too, even when the
// client has left.
func (s *Server) forgetPrefixes(c *gin.Context) error {
	return s.Engine.Forget(context.WithoutCancel(c.Request.Context()), s.tenant(c))
}

// createCorpus is POST /v1/corpora.
func (s *Server) createCorpus(c *gin.Context) {
	var body struct {
		Name string `json:"name"`
	}
	err := decode(c, &body, refuseUnknown)
	if err == nil && !corpusName.MatchString(body.Name) {
		err = invalidCorpus("name", body.Name)
	}
	if err == nil {
		_, err = s.reach(c, []string{body.Name})
	}
	if err == nil {
		err = s.Library.CreateCorpus(c.Request.Context(), s.tenant(c), body.Name, s.Pipeline.Index())
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	c.Header("Location", "/v1/documents?corpus="+body.Name)
	s.reply(c, http.StatusCreated, gin.H{"name": body.Name})
}

// deleteCorpus is DELETE /v1/corpora/{name}: when it returns, nothing of its documents is left.
func (s *Server) deleteCorpus(c *gin.Context) {
	_, err := s.reach(c, []string{c.Param("name")})
	if err == nil {
		err = s.forgetCorpus(c, c.Param("name"))
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	c.Status(http.StatusNoContent)
}

func (s *Server) forgetCorpus(c *gin.Context, name string) error {
	if err := s.Library.DeleteCorpus(c.Request.Context(), s.tenant(c), name); err != nil {
		return err
	}
	return s.forgetPrefixes(c)
}

func invalidCorpus(field, name string) error {
	return invalid(field, "corpus %q: a name has 1 to 64 letters, digits, dots, dashes and underscores and begins with a letter or digit", name)
}

// corpora is GET /v1/corpora.
func (s *Server) corpora(c *gin.Context) {
	found, err := s.Library.Corpora(c.Request.Context(), s.tenant(c), caller(c).Corpora...)
	if err != nil {
		s.fail(c, err)
		return
	}
	all := make([]gin.H, len(found))
	for i, k := range found {
		all[i] = gin.H{"name": k.Name, "embedding_model": k.Index.Model, "documents": k.Documents, "waiting": k.Waiting, "failed": k.Failed, "passages": k.Passages}
	}
	s.reply(c, http.StatusOK, gin.H{"corpora": all})
}

// margin is how many bytes of the document a passage is shown with, on each side.
const margin = 2000

// passage is GET /v1/passages/{id}: a passage between what stands around it.
func (s *Server) passage(c *gin.Context) {
	id, err := pathID(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	f, err := s.filter(c, nil)
	if err != nil {
		s.fail(c, err)
		return
	}
	e, err := s.Library.Excerpt(c.Request.Context(), retrieve.PassageID(id), margin, f)
	if err != nil {
		s.fail(c, err)
		return
	}
	start, end := e.Start-e.AroundStart, e.End-e.AroundStart
	s.reply(c, http.StatusOK, gin.H{
		"id": int64(e.ID), "document_id": int64(e.Document), "corpus": e.Corpus, "path": e.Path, "title": e.Title, "heading": e.Heading, "page": e.Page,
		"start": e.Start, "end": e.End, "text": e.Text, "before": e.Around[:start], "after": e.Around[end:], "current": e.Live,
	})
}

// corpusName is what a corpus may be called: it stands in URLs, on command lines and in file names.
var corpusName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
