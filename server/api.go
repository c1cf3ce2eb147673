package server

import (
	"fmt"
	"io"
	"time"

	"ragd/answer"
	"ragd/retrieve"
)

// sourceJSON is a passage that was found: in the prompt of an answer, or as the result of a search.
type sourceJSON struct {
	Marker     int      `json:"marker,omitempty"` // n of [n] in the answer
	Rank       int      `json:"rank,omitempty"`   // 1 for the most relevant
	Added      bool     `json:"added,omitempty"`  // the model did not read it; it supports a statement that nothing in the prompt supports
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
	j.Marker, j.Rank, j.Added = s.Marker, s.Rank, s.Added
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
	Marker      int     `json:"marker"`
	Start       int     `json:"start"` // the cited statement in the answer's text
	End         int     `json:"end"`
	PassageID   int64   `json:"passage_id"`
	DocumentID  int64   `json:"document_id"`
	Corpus      string  `json:"corpus"`
	Path        string  `json:"path"`
	Title       string  `json:"title"`
	Page        int     `json:"page,omitempty"`
	SourceStart int     `json:"source_start"` // the quote in the document's text
	SourceEnd   int     `json:"source_end"`
	Quote       string  `json:"quote"`
	Support     float64 `json:"support"` // share of the statement's terms that the quote holds, 0 to 1
}

// statementJSON is a part of an answer that no passage supports: UTF-8 bytes of its text.
type statementJSON struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

func citationOf(c answer.Citation) citationJSON {
	return citationJSON{
		Marker: c.Marker, Start: c.Start, End: c.End, PassageID: int64(c.Passage), DocumentID: int64(c.Document), Corpus: c.Corpus,
		Path: c.Path, Title: c.Title, Page: c.Page, SourceStart: c.SourceStart, SourceEnd: c.SourceEnd, Quote: c.Quote, Support: c.Support,
	}
}

// answerJSON is the body of an answer.
type answerJSON struct {
	ID          string          `json:"id,omitempty"` // of the record: GET /v1/answers/{id}
	Question    string          `json:"question"`
	Query       string          `json:"query"` // as searched
	Text        string          `json:"text"`
	Abstained   bool            `json:"abstained"`
	Reason      string          `json:"reason,omitempty"`
	Unchecked   bool            `json:"unverified_by_grammar,omitempty"` // an external engine wrote it: checked afterwards only
	Citations   []citationJSON  `json:"citations"`
	Unsupported []statementJSON `json:"unsupported"` // what no passage supports; it carries no marker
	Doubtful    []statementJSON `json:"doubtful"`    // what carries markers although its sources may say something else
	Sources     []sourceJSON    `json:"sources"`
	Budget      budgetJSON      `json:"budget"`
	Usage       usageJSON       `json:"usage"`
	Timings     timingsJSON     `json:"timings"`
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
		ID: a.ID, Question: a.Question, Query: a.Query, Text: a.Text, Abstained: a.Abstained, Reason: a.Reason, Unchecked: a.Unconstrained,
		Citations: []citationJSON{}, Unsupported: []statementJSON{}, Doubtful: []statementJSON{}, Sources: sourcesOf(a.Sources),
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
	for _, u := range a.Unsupported {
		j.Unsupported = append(j.Unsupported, statementJSON{u.Start, u.End})
	}
	for _, d := range a.Doubtful {
		j.Doubtful = append(j.Doubtful, statementJSON{d.Start, d.End})
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

// WriteAnswer writes a as one line of JSON: the body of POST /v1/ask. Offsets are UTF-8 bytes.
func WriteAnswer(w io.Writer, a *answer.Answer) error {
	if err := encode(w, answerOf(a)); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}
