package server

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"ragd/answer"
	"ragd/llm/sample"
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
	TopP        *float32 `json:"top_p"`
	Seed        uint64   `json:"seed"`
	Stream      bool     `json:"stream"`
}

type turn struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
}

func (r askRequest) question() answer.Question {
	q := answer.Question{
		Text: r.Question, Passages: r.Passages, MaxTokens: r.MaxTokens,
		Sampling: sample.Params{Temperature: r.Temperature, Seed: r.Seed},
	}
	q.Sampling.Nucleus(r.TopP)
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
	case valueOr(r.TopP, 1) < 0 || valueOr(r.TopP, 1) > 1:
		return invalid("top_p", "top_p is %g; it must be between 0 and 1", *r.TopP)
	case len(r.History) > 100:
		return invalid("history", "history has %d turns; at most 100 are taken", len(r.History))
	}
	return nil
}

// ask is POST /v1/ask.
func (s *Server) ask(c *gin.Context) {
	var body askRequest
	err := decode(c, &body, refuseUnknown)
	if err == nil {
		err = body.check()
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	q := body.question()
	q.Namespace = s.tenant(c)
	if q.Filter, err = s.filter(c, body.Corpora); err != nil {
		s.fail(c, err)
		return
	}
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
			s.reply(c, http.StatusOK, answerOf(event.Done))
		}
	}
}

// askStream sends an answer as events: sources, text, citation, then done or error.
func (s *Server) askStream(c *gin.Context, q answer.Question) {
	out := s.openStream(c, true)
	out.resume(c.GetHeader("Last-Event-ID"))
	defer out.close()
	for event, err := range s.Answerer.Answer(c.Request.Context(), q) {
		if err != nil {
			out.fail(err)
			return
		}
		if s.sendEvent(c, out, event) != nil {
			return // the client left; leaving the loop ends the sequence, which cancels the generation
		}
	}
	out.release()
}

func (s *Server) sendEvent(c *gin.Context, out *stream, e answer.Event) error {
	switch {
	case e.Sources != nil:
		return out.send("sources", gin.H{"sources": sourcesOf(e.Sources)})
	case e.Citation != nil:
		return out.send("citation", citationOf(*e.Citation))
	case e.Replaced != nil:
		return out.send("replaced", gin.H{"text": e.Replaced.Text, "reason": e.Replaced.Reason})
	case e.Done != nil:
		s.answered(c, e.Done)
		return out.send("done", answerOf(e.Done))
	default:
		return out.send("text", gin.H{"text": e.Text})
	}
}

// answered counts and logs one answer, without its text.
func (s *Server) answered(c *gin.Context, a *answer.Answer) {
	s.metrics.answered(a)
	s.tracer.answered(c.Request.Context(), a)
	s.keep(c.Request.Context(), s.tenant(c), a)
	s.charge(c.Request.Context(), caller(c), a.Usage.PromptTokens+a.Usage.OutputTokens)
	s.log.Info("answered", slog.String("request_id", requestID(c)), slog.Bool("abstained", a.Abstained), slog.Int("citations", len(a.Citations)),
		slog.Int("prompt_tokens", a.Usage.PromptTokens), slog.Int("cached_tokens", a.Usage.CachedTokens), slog.Int("output_tokens", a.Usage.OutputTokens),
		slog.Float64("first_token_ms", milliseconds(a.FirstToken)), slog.Float64("total_ms", milliseconds(a.Total)))
}

var _ Answerer = (*answer.Answerer)(nil)
