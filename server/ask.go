package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"ragd/answer"

	"ragd/llm/sample"
	"ragd/retrieve"
)

// Answerer answers questions. *answer.Answerer implements it.
type Answerer interface {
	Answer(ctx context.Context, q answer.Question) iter.Seq2[answer.Event, error]
}

// askRequest is the body of POST /v1/ask.
type askRequest struct {
	Question    string   `json:"question"`
	Corpora     []string `json:"corpora"`
	History     []turn   `json:"history"`
	Passages    int      `json:"passages"`
	MaxTokens   int      `json:"max_tokens"`
	Temperature float32  `json:"temperature"`
	TopP        float32  `json:"top_p"`
	Seed        uint64   `json:"seed"`
	Stream      bool     `json:"stream"`
}

type turn struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
}

func (r askRequest) question() answer.Question {
	q := answer.Question{
		Text: r.Question, Filter: retrieve.Filter{Corpora: r.Corpora}, Passages: r.Passages, MaxTokens: r.MaxTokens,
		Sampling: sample.Params{Temperature: r.Temperature, TopP: r.TopP, Seed: r.Seed},
	}
	for _, t := range r.History {
		q.History = append(q.History, answer.Turn{Question: t.Question, Answer: t.Answer})
	}
	return q
}

func (r askRequest) check() error {
	switch {
	case r.Passages < 0 || r.Passages > 20:
		return invalid("passages", "passages is %d; it must be between 1 and 20, or 0 for the default", r.Passages)
	case r.MaxTokens < 0 || r.MaxTokens > 4096:
		return invalid("max_tokens", "max_tokens is %d; it must be between 1 and 4096, or 0 for the default", r.MaxTokens)
	case r.Temperature < 0 || r.Temperature > 2:
		return invalid("temperature", "temperature is %g; it must be between 0 and 2", r.Temperature)
	case r.TopP < 0 || r.TopP > 1:
		return invalid("top_p", "top_p is %g; it must be between 0 and 1", r.TopP)
	case len(r.History) > 100:
		return invalid("history", "history has %d turns; at most 100 are taken", len(r.History))
	}
	return nil
}

// sourceJSON is a passage in the prompt.
type sourceJSON struct {
	Marker     int      `json:"marker"`
	PassageID  int64    `json:"passage_id"`
	DocumentID int64    `json:"document_id"`
	Corpus     string   `json:"corpus"`
	Path       string   `json:"path"`
	Title      string   `json:"title"`
	Heading    string   `json:"heading,omitempty"`
	Page       int      `json:"page,omitempty"`
	Start      int      `json:"start"` // UTF-8 bytes in the document's text
	End        int      `json:"end"`
	Text       string   `json:"text"`
	Dense      *float64 `json:"dense,omitempty"` // cosine similarity; absent when that leg did not find it
	Lexical    *float64 `json:"lexical,omitempty"`
	Fused      float64  `json:"fused"`
	Rerank     *float32 `json:"rerank,omitempty"` // the cross-encoder's logit
}

func sourceOf(s answer.Source) sourceJSON {
	j := scoredOf(s.Scored)
	j.Marker = s.Marker
	return j
}

func scoredOf(s retrieve.Scored) sourceJSON {
	p := s.Passage
	j := sourceJSON{
		PassageID: int64(p.ID), DocumentID: int64(p.Document), Corpus: p.Corpus, Path: p.Path, Title: p.Title,
		Heading: p.Heading, Page: p.Page, Start: p.Start, End: p.End, Text: p.Text, Fused: s.Fused, Rerank: s.Rerank,
	}
	if s.Dense != nil {
		j.Dense = &s.Dense.Score
	}
	if s.Lexical != nil {
		j.Lexical = &s.Lexical.Score
	}
	return j
}

// citationJSON is a marker resolved to its source. Offsets are UTF-8 bytes.
type citationJSON struct {
	Marker      int    `json:"marker"`
	Start       int    `json:"start"` // the cited statement in the answer's text
	End         int    `json:"end"`
	PassageID   int64  `json:"passage_id"`
	DocumentID  int64  `json:"document_id"`
	Corpus      string `json:"corpus"`
	Path        string `json:"path"`
	Title       string `json:"title"`
	Page        int    `json:"page,omitempty"`
	SourceStart int    `json:"source_start"` // the quote in the document's text
	SourceEnd   int    `json:"source_end"`
	Quote       string `json:"quote"`
}

func citationOf(c answer.Citation) citationJSON {
	return citationJSON{
		Marker: c.Marker, Start: c.Start, End: c.End, PassageID: int64(c.Passage), DocumentID: int64(c.Document), Corpus: c.Corpus,
		Path: c.Path, Title: c.Title, Page: c.Page, SourceStart: c.SourceStart, SourceEnd: c.SourceEnd, Quote: c.Quote,
	}
}

// answerJSON is the body of an answer.
type answerJSON struct {
	Question  string         `json:"question"`
	Query     string         `json:"query"` // as searched
	Text      string         `json:"text"`
	Abstained bool           `json:"abstained"`
	Reason    string         `json:"reason,omitempty"`
	Citations []citationJSON `json:"citations"`
	Sources   []sourceJSON   `json:"sources"`
	Budget    budgetJSON     `json:"budget"`
	Usage     usageJSON      `json:"usage"`
	Timings   timingsJSON    `json:"timings"`
}

// budgetJSON says how the context window was spent, in tokens.
type budgetJSON struct {
	Context  int `json:"context"`
	System   int `json:"system"`
	Passages int `json:"passages"`
	History  int `json:"history"`
	Question int `json:"question"`
	Answer   int `json:"answer"`
	Dropped  int `json:"dropped_passages"`
}

type usageJSON struct {
	PromptTokens int `json:"prompt_tokens"`
	CachedTokens int `json:"cached_tokens"`
	OutputTokens int `json:"output_tokens"`
}

type timingsJSON struct {
	Rewrite    float64 `json:"rewrite_ms"`
	Embed      float64 `json:"embed_ms"`
	Dense      float64 `json:"dense_ms"`
	Lexical    float64 `json:"lexical_ms"`
	Rerank     float64 `json:"rerank_ms"`
	Queue      float64 `json:"queue_ms"`
	Prefill    float64 `json:"prefill_ms"`
	Decode     float64 `json:"decode_ms"`
	FirstToken float64 `json:"first_token_ms"`
	Total      float64 `json:"total_ms"`
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func answerOf(a *answer.Answer) answerJSON {
	j := answerJSON{
		Question: a.Question, Query: a.Query, Text: a.Text, Abstained: a.Abstained, Reason: a.Reason,
		Citations: []citationJSON{}, Sources: sourcesOf(a.Sources),
		Budget: budgetJSON{a.Budget.Context, a.Budget.System, a.Budget.Passages, a.Budget.History, a.Budget.Question, a.Budget.Answer, a.Budget.Dropped},
		Usage:  usageJSON{a.Usage.PromptTokens, a.Usage.CachedTokens, a.Usage.OutputTokens},
		Timings: timingsJSON{
			Rewrite: milliseconds(a.Rewrite), Embed: milliseconds(a.Retrieval.Embed), Dense: milliseconds(a.Retrieval.Dense),
			Lexical: milliseconds(a.Retrieval.Lexical), Rerank: milliseconds(a.Retrieval.Rerank), Queue: milliseconds(a.Usage.Queue),
			Prefill: milliseconds(a.Usage.Prefill), Decode: milliseconds(a.Usage.Decode), FirstToken: milliseconds(a.FirstToken), Total: milliseconds(a.Total),
		},
	}
	for _, c := range a.Citations {
		j.Citations = append(j.Citations, citationOf(c))
	}
	return j
}

func sourcesOf(sources []answer.Source) []sourceJSON {
	all := []sourceJSON{}
	for _, s := range sources {
		all = append(all, sourceOf(s))
	}
	return all
}

// ask is POST /v1/ask.
func (s *Server) ask(c *gin.Context) {
	var body askRequest
	if err := decode(c, &body); err != nil {
		s.fail(c, err)
		return
	}
	if err := body.check(); err != nil {
		s.fail(c, err)
		return
	}
	q := body.question()
	q.Filter.Tenant, q.Namespace = s.tenant(c), s.tenant(c)
	if body.Stream || strings.Contains(c.GetHeader("Accept"), "text/event-stream") {
		s.askStream(c, q)
		return
	}
	for event, err := range s.Answerer.Answer(c.Request.Context(), q) {
		if err != nil {
			s.fail(c, err)
			return
		}
		if event.Done != nil {
			s.answered(c, event.Done)
			c.JSON(http.StatusOK, answerOf(event.Done))
		}
	}
}

// askStream sends an answer as events: sources, text, citation, then done or error.
func (s *Server) askStream(c *gin.Context, q answer.Question) {
	var out *stream
	for event, err := range s.Answerer.Answer(c.Request.Context(), q) {
		if err != nil && out == nil { // nothing was sent yet: an ordinary error response is still possible
			s.fail(c, err)
			return
		}
		if out == nil {
			out = openStream(c, true)
			defer out.close()
		}
		if err != nil {
			s.streamError(c, out, err)
			return
		}
		if err := s.sendEvent(c, out, event); err != nil {
			return // the client left; returning ends the sequence, which cancels the generation
		}
	}
}

func (s *Server) sendEvent(c *gin.Context, out *stream, e answer.Event) error {
	switch {
	case e.Sources != nil:
		return out.send("sources", gin.H{"sources": sourcesOf(e.Sources)})
	case e.Citation != nil:
		return out.send("citation", citationOf(*e.Citation))
	case e.Done != nil:
		s.answered(c, e.Done)
		return out.send("done", answerOf(e.Done))
	default:
		return out.send("text", gin.H{"text": e.Text})
	}
}

func (s *Server) streamError(c *gin.Context, out *stream, err error) {
	if c.Request.Context().Err() != nil {
		return
	}
	status, detail := describe(err, requestID(c))
	if status == http.StatusInternalServerError {
		s.log.Error("stream failed", "request_id", requestID(c), "route", c.FullPath(), "error", err)
	}
	_ = out.send("error", detail)
}

// answered counts and logs one answer, without its text.
func (s *Server) answered(c *gin.Context, a *answer.Answer) {
	s.metrics.answered(a)
	s.log.Info("answered", slog.String("request_id", requestID(c)), slog.Bool("abstained", a.Abstained), slog.Int("citations", len(a.Citations)),
		slog.Int("prompt_tokens", a.Usage.PromptTokens), slog.Int("cached_tokens", a.Usage.CachedTokens), slog.Int("output_tokens", a.Usage.OutputTokens),
		slog.Float64("first_token_ms", milliseconds(a.FirstToken)), slog.Float64("total_ms", milliseconds(a.Total)))
}

// decode reads a JSON body; unknown fields are errors, because a misspelt option that is ignored is worse than a refusal.
func decode(c *gin.Context, into any) error {
	dec := json.NewDecoder(c.Request.Body)
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return err
	case errors.Is(err, io.EOF):
		return invalid("", "the request has no body; send JSON")
	case err != nil:
		return invalid("", "the body is not the JSON that this route takes: %v", err)
	}
	if dec.More() {
		return invalid("", "the body holds more than one JSON value")
	}
	return nil
}

var _ Answerer = (*answer.Answerer)(nil)
