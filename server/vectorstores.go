package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"path"
	"regexp"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"ragd/ingest"
	"ragd/retrieve"
	"ragd/store"
)

// A corpus is a vector store of OpenAI's API: vs_NAME.
const storePrefix = "vs_"

// corpusOf reads a vector store's id and checks that the request's key may see it.
func (s *Server) corpusOf(c *gin.Context, id string) (store.Corpus, error) {
	missing := &badRequest{status: http.StatusNotFound, code: "not_found", message: "there is no vector store " + id}
	name, ok := strings.CutPrefix(id, storePrefix)
	if !ok || !s.sees(c, name) {
		return store.Corpus{}, missing
	}
	found, err := s.Library.Corpora(c.Request.Context(), s.tenant(c), name)
	if err != nil {
		return store.Corpus{}, err
	}
	if len(found) == 0 {
		return store.Corpus{}, missing
	}
	return found[0], nil
}

func storeOf(k store.Corpus) gin.H {
	status := "completed"
	if k.Waiting > 0 {
		status = "in_progress"
	}
	return gin.H{
		"id": storePrefix + k.Name, "object": "vector_store", "created_at": k.CreatedAt.Unix(), "name": k.Name, "status": status, "usage_bytes": 0,
		"file_counts":   gin.H{"in_progress": k.Waiting, "completed": k.Documents, "failed": k.Failed, "cancelled": 0, "total": k.Documents + k.Waiting + k.Failed},
		"expires_after": nil, "expires_at": nil, "last_active_at": nil, "metadata": gin.H{},
	}
}

// storeRequest is the body of POST /v1/vector_stores.
type storeRequest struct {
	Name    string   `json:"name"`
	FileIDs []string `json:"file_ids"`
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// createStore is POST /v1/vector_stores. The corpus gets the name, as far as names of corpora allow; one that is taken gets a suffix.
func (s *Server) createStore(c *gin.Context) {
	var body storeRequest
	if err := decodeOptional(c, &body); err != nil {
		s.fail(c, err)
		return
	}
	name := strings.Trim(notInNames.ReplaceAllString(body.Name, "-"), "-._")
	name = cmp.Or(name[:min(50, len(name))], "store")
	ctx, tenant := c.Request.Context(), s.tenant(c)
	taken, err := s.Library.Corpora(ctx, tenant, name)
	if err == nil && len(taken) > 0 {
		name += "-" + uuid.NewString()[:8]
	}
	if err == nil {
		_, err = s.reach(c, []string{name})
	}
	if err == nil {
		err = s.Library.CreateCorpus(ctx, tenant, name, s.Pipeline.Index())
	}
	for i := 0; i < len(body.FileIDs) && err == nil; i++ {
		_, err = s.putFile(c, name, body.FileIDs[i])
	}
	var k store.Corpus
	if err == nil {
		k, err = s.corpusOf(c, storePrefix+name)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	s.reply(c, http.StatusOK, storeOf(k))
}

// stores is GET /v1/vector_stores; all of them are on the first page.
func (s *Server) stores(c *gin.Context) {
	found, err := s.Library.Corpora(c.Request.Context(), s.tenant(c), caller(c).Corpora...)
	if err != nil {
		s.fail(c, err)
		return
	}
	all := []gin.H{}
	if c.Query("after") == "" {
		for _, k := range found {
			all = append(all, storeOf(k))
		}
	}
	s.reply(c, http.StatusOK, listOf(all, false))
}

// vectorStore is GET /v1/vector_stores/{id}.
func (s *Server) vectorStore(c *gin.Context) {
	k, err := s.corpusOf(c, c.Param("id"))
	if err != nil {
		s.fail(c, err)
		return
	}
	s.reply(c, http.StatusOK, storeOf(k))
}

// deleteStore is DELETE /v1/vector_stores/{id}.
func (s *Server) deleteStore(c *gin.Context) {
	k, err := s.corpusOf(c, c.Param("id"))
	if err == nil {
		err = s.forgetCorpus(c, k.Name)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	s.reply(c, http.StatusOK, gin.H{"id": c.Param("id"), "object": "vector_store.deleted", "deleted": true})
}

// putFile makes a file a document of a corpus.
func (s *Server) putFile(c *gin.Context, corpus, id string) (store.Document, error) {
	n, err := pathFile(c, id)
	if err != nil {
		return store.Document{}, err
	}
	ctx, tenant := c.Request.Context(), s.tenant(c)
	f, err := s.Files.File(ctx, tenant, n)
	if err != nil {
		return store.Document{}, err
	}
	data, err := s.Files.FileData(ctx, tenant, n)
	if err != nil {
		return store.Document{}, err
	}
	u, _, err := s.Uploads.CreateUpload(ctx, tenant, store.Upload{Size: int64(len(data))})
	if err != nil {
		return store.Document{}, err
	}
	defer s.drop(c, u.ID)
	if _, err = s.Uploads.AppendUpload(ctx, tenant, u.ID, 0, bytes.NewReader(data)); err != nil {
		return store.Document{}, err
	}
	done, err := s.finish(c, store.Upload{ID: u.ID, Corpus: corpus, Path: pathOfFile(f)})
	if err != nil {
		return store.Document{}, err
	}
	return s.Library.DocumentByID(ctx, tenant, done.Document)
}

// storeFileOf describes a document as a file of a vector store.
func storeFileOf(d store.Document) gin.H {
	status, failure := "in_progress", any(nil)
	switch {
	case d.State == ingest.Failed:
		status, failure = "failed", gin.H{"code": "invalid_file", "message": d.Error}
	case d.Live:
		status = "completed"
	}
	return gin.H{
		"id": fileID(d.ID, d.Path), "object": "vector_store.file", "created_at": max(0, d.ModifiedAt.Unix()), "vector_store_id": storePrefix + d.Corpus, "status": status,
		"usage_bytes": d.Size, "last_error": failure, "attributes": gin.H{"path": d.Path}, "chunking_strategy": gin.H{"type": "other"},
	}
}

// addStoreFile is POST /v1/vector_stores/{id}/files.
func (s *Server) addStoreFile(c *gin.Context) {
	var body struct {
		FileID string `json:"file_id"`
	}
	err := decode(c, &body, tolerateUnknown)
	var k store.Corpus
	if err == nil {
		k, err = s.corpusOf(c, c.Param("id"))
	}
	var d store.Document
	if err == nil {
		d, err = s.putFile(c, k.Name, body.FileID)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	s.reply(c, http.StatusOK, storeFileOf(d))
}

// findStoreFile resolves the id of a file within a corpus.
func (s *Server) findStoreFile(c *gin.Context, corpus, id string) (store.Document, error) {
	ctx, tenant := c.Request.Context(), s.tenant(c)
	missing := &badRequest{status: http.StatusNotFound, code: "not_found", message: "the vector store has no file " + id}
	var d store.Document
	var err error
	if n, ok := numberOf(id, documentPrefix); ok {
		d, err = s.Library.DocumentByID(ctx, tenant, retrieve.DocumentID(n))
	} else if n, ok := numberOf(id, filePrefix); ok && s.Files != nil {
		var f store.File
		if f, err = s.Files.File(ctx, tenant, n); err == nil {
			d, err = s.Library.DocumentByPath(ctx, tenant, corpus, pathOfFile(f))
		}
	} else {
		return d, missing
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && d.Corpus != corpus {
		return d, missing
	}
	return d, err
}

// storeFiles is GET /v1/vector_stores/{id}/files?after=&limit=.
func (s *Server) storeFiles(c *gin.Context) {
	k, err := s.corpusOf(c, c.Param("id"))
	_, limit, limitErr := page(c, "")
	err = cmp.Or(err, limitErr)
	var after store.Document
	if text := c.Query("after"); err == nil && text != "" {
		after, err = s.findStoreFile(c, k.Name, text)
	}
	var found []store.Document
	if err == nil {
		found, err = s.Library.Documents(c.Request.Context(), s.tenant(c), []string{k.Name}, "", after.ID, limit)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	all := make([]gin.H, len(found))
	for i, d := range found {
		all[i] = storeFileOf(d)
	}
	s.reply(c, http.StatusOK, listOf(all, len(all) == limit))
}

// storeFile is GET /v1/vector_stores/{id}/files/{file}.
func (s *Server) storeFile(c *gin.Context) {
	k, err := s.corpusOf(c, c.Param("id"))
	var d store.Document
	if err == nil {
		d, err = s.findStoreFile(c, k.Name, c.Param("file"))
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	s.reply(c, http.StatusOK, storeFileOf(d))
}

// removeStoreFile is DELETE /v1/vector_stores/{id}/files/{file}: the document goes, the file of /v1/files stays.
func (s *Server) removeStoreFile(c *gin.Context) {
	k, err := s.corpusOf(c, c.Param("id"))
	var d store.Document
	if err == nil {
		d, err = s.findStoreFile(c, k.Name, c.Param("file"))
	}
	if err == nil {
		err = s.forgetDocument(c, d.ID)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	s.reply(c, http.StatusOK, gin.H{"id": c.Param("file"), "object": "vector_store.file.deleted", "deleted": true})
}

// storeSearch is the body of POST /v1/vector_stores/{id}/search.
type storeSearch struct {
	Query          json.RawMessage `json:"query"`
	MaxNumResults  int             `json:"max_num_results"`
	Filters        json.RawMessage `json:"filters"`
	RankingOptions rankingOptions  `json:"ranking_options"`
}

type rankingOptions struct {
	ScoreThreshold float64 `json:"score_threshold"`
}

// maxStoreResults is OpenAI's bound.
const maxStoreResults = 50

// checkSearch checks what search and file_search have in common.
func checkSearch(results int, filters json.RawMessage) error {
	switch {
	case results < 0 || results > maxStoreResults:
		return invalid("max_num_results", "max_num_results is %d; it must be between 1 and %d", results, maxStoreResults)
	case len(filters) > 0 && string(filters) != "null":
		return invalid("filters", "filters on attributes are not offered")
	}
	return nil
}

// searchStore is POST /v1/vector_stores/{id}/search.
func (s *Server) searchStore(c *gin.Context) {
	var body storeSearch
	err := decode(c, &body, tolerateUnknown)
	if err == nil {
		err = checkSearch(body.MaxNumResults, body.Filters)
	}
	var query string
	if err == nil && json.Unmarshal(body.Query, &query) != nil {
		var several []string
		if json.Unmarshal(body.Query, &several) != nil {
			err = invalid("query", "query must be a string or a list of strings")
		}
		query = strings.Join(several, "\n")
	}
	if err == nil && strings.TrimSpace(query) == "" {
		err = invalid("query", "query is empty")
	}
	var k store.Corpus
	if err == nil {
		k, err = s.corpusOf(c, c.Param("id"))
	}
	var results []gin.H
	if err == nil {
		results, err = s.fileSearch(c, query, []string{k.Name}, cmp.Or(body.MaxNumResults, 10), body.RankingOptions.ScoreThreshold)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	for _, r := range results {
		r["content"] = []gin.H{{"type": "text", "text": r["text"]}}
		delete(r, "text")
	}
	s.reply(c, http.StatusOK, gin.H{"object": "vector_store.search_results.page", "search_query": []string{query}, "data": results, "has_more": false, "next_page": nil})
}

// fileSearch searches corpora for the results of a vector store or of a file_search call.
func (s *Server) fileSearch(c *gin.Context, query string, corpora []string, limit int, threshold float64) ([]gin.H, error) {
	found, err := s.Retriever.Retrieve(c.Request.Context(), query, retrieve.Filter{Tenant: s.tenant(c), Corpora: corpora}, limit)
	if err != nil {
		return nil, err
	}
	return resultsOf(found.Ranked, threshold), nil
}

// resultsOf describes passages as search results of OpenAI's shape, those at least as relevant as threshold.
func resultsOf(ranked []retrieve.Scored, threshold float64) []gin.H {
	results := []gin.H{}
	for _, r := range ranked {
		if score := relevance(r); score >= threshold {
			p := r.Passage
			results = append(results, gin.H{"file_id": fileID(p.Document, p.Path), "filename": path.Base(p.Path), "score": score, "text": p.Text, "attributes": gin.H{"path": p.Path, "passage_id": int64(p.ID)}})
		}
	}
	return results
}

// relevance puts a passage's score between 0 and 1, as OpenAI's are: the logistic function of the cross-encoder's logit, else the cosine similarity,
// else nothing is known but that words occur.
func relevance(r retrieve.Scored) float64 {
	switch {
	case r.Rerank != nil:
		return 1 / (1 + math.Exp(-float64(*r.Rerank)))
	case r.Dense != nil:
		return max(0, min(1, r.Dense.Score))
	}
	return 0
}
