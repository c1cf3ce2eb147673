package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
)

// searchRequest is the body of POST /v1/search.
type searchRequest struct {
	Query   string   `json:"query"`
	Corpora []string `json:"corpora"`
	Limit   int      `json:"limit"` // 0: 10
}

// search is POST /v1/search: the passages that an answer would be written from.
func (s *Server) search(c *gin.Context) {
	var body searchRequest
	err := decode(c, &body, refuseUnknown)
	switch {
	case err != nil:
	case strings.TrimSpace(body.Query) == "":
		err = invalid("query", "query is empty")
	case body.Limit < 0 || body.Limit > 100:
		err = invalid("limit", "limit is %d; it must be between 1 and 100, or 0 for 10", body.Limit)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	f, err := s.filter(c, body.Corpora)
	if err != nil {
		s.fail(c, err)
		return
	}
	started := time.Now()
	found, err := s.Retriever.Retrieve(c.Request.Context(), body.Query, f, cmp.Or(body.Limit, 10))
	if err != nil {
		s.fail(c, err)
		return
	}
	s.tracer.retrieval(c.Request.Context(), started, found.Timings)
	results := make([]sourceJSON, len(found.Ranked))
	for i, r := range found.Ranked {
		results[i] = scoredOf(r)
		results[i].Rank = i + 1
	}
	t := found.Timings
	s.reply(c, http.StatusOK, gin.H{"results": results, "timings": gin.H{
		"embed_ms": milliseconds(t.Embed), "dense_ms": milliseconds(t.Dense), "lexical_ms": milliseconds(t.Lexical),
		"fetch_ms": milliseconds(t.Fetch), "rerank_ms": milliseconds(t.Rerank),
	}})
}

// rerankRequest is the body of POST /v1/rerank, as Cohere and Jina have it.
type rerankRequest struct {
	Model           string       `json:"model"`
	Query           string       `json:"query"`
	Documents       []rerankText `json:"documents"`
	TopN            int          `json:"top_n"`
	ReturnDocuments bool         `json:"return_documents"`
}

// rerankText is a text to be read: a string, or an object with the field text, which is also how it is given back.
type rerankText string

func (t *rerankText) UnmarshalJSON(data []byte) error {
	var object struct {
		Text *string `json:"text"`
	}
	if json.Unmarshal(data, (*string)(t)) == nil && string(data) != "null" {
		return nil
	}
	if err := json.Unmarshal(data, &object); err != nil || object.Text == nil {
		return errors.New("documents must hold strings, or objects with a field text")
	}
	*t = rerankText(*object.Text)
	return nil
}

func (t rerankText) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"text": string(t)})
}

// maxReranked bounds the texts of one request: the cross-encoder reads each of them with the query.
const maxReranked = 1000

func (r rerankRequest) check() error {
	switch {
	case strings.TrimSpace(r.Query) == "":
		return invalid("query", "query is empty")
	case len(r.Documents) == 0 || len(r.Documents) > maxReranked:
		return invalid("documents", "documents holds %d texts; it must hold 1 to %d", len(r.Documents), maxReranked)
	case r.TopN < 0:
		return invalid("top_n", "top_n is %d; it must not be negative", r.TopN)
	}
	return nil
}

// rerank is POST /v1/rerank.
func (s *Server) rerank(c *gin.Context) {
	var body rerankRequest
	err := decode(c, &body, tolerateUnknown)
	if err == nil {
		err = body.check()
	}
	if err == nil && s.Reranker == nil {
		err = &badRequest{status: http.StatusNotImplemented, code: "no_reranker", message: "this server runs without a reranker; serve with --reranker NAME"}
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	texts := make([]string, len(body.Documents))
	for i, d := range body.Documents {
		texts[i] = string(d)
	}
	scores, err := s.Reranker.Score(c.Request.Context(), body.Query, texts)
	if err != nil {
		s.fail(c, err)
		return
	}
	type result struct {
		Index    int         `json:"index"`
		Score    float32     `json:"relevance_score"` // the cross-encoder's logit: higher is better, 0 is undecided
		Document *rerankText `json:"document,omitempty"`
	}
	results := make([]result, len(scores))
	for i, score := range scores {
		results[i] = result{Index: i, Score: score}
		if body.ReturnDocuments {
			results[i].Document = &body.Documents[i]
		}
	}
	slices.SortStableFunc(results, func(a, b result) int { return cmp.Compare(b.Score, a.Score) })
	if body.TopN > 0 {
		results = results[:min(body.TopN, len(results))]
	}
	s.reply(c, http.StatusOK, gin.H{"results": results})
}
