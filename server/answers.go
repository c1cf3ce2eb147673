package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"ragd/answer"
	"ragd/llm"
	"ragd/retrieve"
	"ragd/store"
)

// Answers is where records of answers and what people think of them are kept. *store.Store implements it.
type Answers interface {
	SaveAnswer(ctx context.Context, tenant, id string, documents []retrieve.DocumentID, record json.RawMessage) error
	Answer(ctx context.Context, tenant, id string) (json.RawMessage, error)
	SaveFeedback(ctx context.Context, tenant string, f store.Feedback) error
	Feedback(ctx context.Context, tenant string, after int64, limit int) ([]store.Feedback, error)
}

// recordJSON is what GET /v1/answers/{id} shows: the answer, and how it came about.
type recordJSON struct {
	ID         string          `json:"id"`
	Corpora    []string        `json:"corpora"` // that its passages are from
	Answer     answerJSON      `json:"answer"`
	Model      string          `json:"model"`
	Prompt     string          `json:"prompt"`
	Draft      string          `json:"draft"` // what the model wrote, before anything was judged
	Tokens     []stepJSON      `json:"tokens"`
	Dropped    []droppedJSON   `json:"dropped"`
	Statements []statementFate `json:"statements"`
}

// stepJSON is one token that the model wrote, with what could have stood in its place.
type stepJSON struct {
	Text    string      `json:"text"`
	LogProb float32     `json:"logprob"`
	Top     []tokenJSON `json:"top"`
}

type tokenJSON struct {
	Text    string  `json:"text"`
	LogProb float32 `json:"logprob"`
}

type droppedJSON struct {
	sourceJSON
	Why string `json:"why"`
}

// statementFate is a statement of the draft with what became of it.
type statementFate struct {
	Text      string  `json:"text"`
	Supported bool    `json:"supported"`
	Doubtful  bool    `json:"doubtful"` // supported, but its sources may say something else
	Removed   bool    `json:"removed"`
	Support   float64 `json:"support"`
	Why       string  `json:"why,omitempty"`
}

// keep saves the record of an answer, although the client may have left. An answer without a record is still an answer.
func (s *Server) keep(ctx context.Context, tenant string, a *answer.Answer) {
	if s.Answers == nil || a.ID == "" {
		return
	}
	record, documents, err := a.Record()
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
		defer cancel()
		err = s.Answers.SaveAnswer(ctx, tenant, a.ID, documents, record)
	}
	if err != nil {
		s.log.Warn("record of an answer not kept", "answer", a.ID, "error", err)
	}
}

func (s *Server) recordOf(a *answer.Answer) recordJSON {
	r := recordJSON{ID: a.ID, Corpora: []string{}, Answer: answerOf(a), Model: a.Trace.Model, Prompt: a.Trace.Prompt, Draft: a.Draft,
		Tokens: []stepJSON{}, Dropped: []droppedJSON{}, Statements: []statementFate{}}
	see := func(p retrieve.Passage) {
		if !slices.Contains(r.Corpora, p.Corpus) {
			r.Corpora = append(r.Corpora, p.Corpus)
		}
	}
	for _, source := range a.Sources {
		see(source.Passage)
	}
	for _, step := range a.Trace.Steps {
		j := stepJSON{Text: s.tokenText(step.Token), LogProb: finite(step.LogProb), Top: []tokenJSON{}}
		for _, t := range step.Top {
			j.Top = append(j.Top, tokenJSON{s.tokenText(t.Token), finite(t.LogProb)})
		}
		r.Tokens = append(r.Tokens, j)
	}
	for _, d := range a.Trace.Dropped {
		see(d.Passage)
		r.Dropped = append(r.Dropped, droppedJSON{scoredOf(d.Scored), d.Why})
	}
	for _, j := range a.Statements {
		r.Statements = append(r.Statements, statementFate{Text: j.Text, Supported: j.Supported, Doubtful: j.Doubtful, Removed: j.Removed, Support: j.Support, Why: j.Why + j.Doubt()})
	}
	return r
}

func (s *Server) tokenText(t llm.Token) string {
	if t < 0 || s.Engine.External() != "" { // an external engine's tokens are not known, and a record of another engine's cannot be read with it
		return ""
	}
	return strings.ToValidUTF8(string(s.Engine.Tokenizer().Bytes(t)), "\ufffd")
}

// finite is OpenAI's floor of log-probabilities: JSON has no infinity.
func finite(p float32) float32 { return max(p, -9999) }

// visibleAnswer returns a record whose documents the request's key may see.
func (s *Server) visibleAnswer(c *gin.Context) (record recordJSON, err error) {
	id := c.Param("id")
	if s.Answers == nil {
		return record, errNoKeys
	}
	data, err := s.Answers.Answer(c.Request.Context(), s.tenant(c), id)
	if err != nil {
		return record, err
	}
	kept, err := answer.ReadRecord(data)
	if err != nil {
		return record, err
	}
	record = s.recordOf(kept)
	for _, name := range record.Corpora {
		if !s.sees(c, name) {
			return recordJSON{}, fmt.Errorf("answer %q: %w", id, store.ErrNotFound)
		}
	}
	return record, nil
}

// inspect is GET /v1/answers/{id}: an answer with all that led to it.
func (s *Server) inspect(c *gin.Context) {
	record, err := s.visibleAnswer(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.reply(c, http.StatusOK, record)
}

// feedbackRequest is the body of POST /v1/answers/{id}/feedback.
type feedbackRequest struct {
	Good     *bool  `json:"good"`
	Comment  string `json:"comment"`
	Expected string `json:"expected"` // the right answer
}

// maxFeedback bounds each text of a feedback, in bytes.
const maxFeedback = 4000

// feedback is POST /v1/answers/{id}/feedback.
func (s *Server) giveFeedback(c *gin.Context) {
	var body feedbackRequest
	err := decode(c, &body, refuseUnknown)
	switch {
	case err != nil:
	case body.Good == nil:
		err = invalid("good", "good must be true or false")
	case len(body.Comment) > maxFeedback || len(body.Expected) > maxFeedback || !utf8.ValidString(body.Comment+body.Expected):
		err = invalid("comment", "comment and expected have at most %d bytes of UTF-8", maxFeedback)
	}
	var record recordJSON
	if err == nil {
		record, err = s.visibleAnswer(c)
	}
	if err == nil {
		f := store.Feedback{Answer: record.ID, Question: record.Answer.Question, Corpora: record.Corpora, Good: *body.Good, Comment: body.Comment, Expected: body.Expected}
		for _, cited := range record.Answer.Citations {
			if p := cited.Path; !slices.Contains(f.Cited, p) {
				f.Cited = append(f.Cited, p)
			}
		}
		err = s.Answers.SaveFeedback(c.Request.Context(), s.tenant(c), f)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	c.Status(http.StatusNoContent)
}

// feedback is GET /v1/feedback?after=&limit=: lines of queries.jsonl for ragd eval, with what people said beside them.
func (s *Server) feedback(c *gin.Context) {
	if s.Answers == nil {
		s.fail(c, errNoKeys)
		return
	}
	after, limit, err := page(c, "after")
	var found []store.Feedback
	if err == nil {
		found, err = s.Answers.Feedback(c.Request.Context(), s.tenant(c), after, limit)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	var b bytes.Buffer
	for _, f := range found {
		if slices.ContainsFunc(f.Corpora, func(name string) bool { return !s.sees(c, name) }) || len(f.Corpora) == 0 && len(caller(c).Corpora) > 0 {
			continue // of an answer without any passage it is not known which corpora were asked
		}
		line := gin.H{"id": fmt.Sprintf("feedback-%d", f.ID), "text": f.Question, "answers": []string{}, "good": f.Good, "comment": f.Comment, "answer_id": f.Answer, "cited": list(f.Cited), "corpora": list(f.Corpora), "at": f.At.UTC()}
		if f.Expected != "" {
			line["answers"] = []string{f.Expected}
		}
		if err := encode(&b, line); err != nil {
			s.fail(c, err)
			return
		}
	}
	s.deadline(c)
	c.Data(http.StatusOK, "application/x-ndjson; charset=utf-8", b.Bytes())
}
