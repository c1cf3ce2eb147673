package eval

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	"ragd/answer"
	"ragd/retrieve"
	"ragd/verify"
)

// Answerer answers questions. *answer.Answerer implements it.
type Answerer interface {
	Answer(ctx context.Context, q answer.Question) iter.Seq2[answer.Event, error]
}

// Answered is one question of an answer run.
type Answered struct {
	ID         string             `json:"id"`
	Question   string             `json:"question"`
	Query      string             `json:"query,omitempty"` // as searched, when rewritten
	Of         string             `json:"variant_of,omitempty"`
	Variant    string             `json:"variant,omitempty"`
	HeldOut    bool               `json:"held_out"`
	Answerable bool               `json:"answerable"`
	Expected   []string           `json:"expected,omitempty"`
	Text       string             `json:"text"`
	Draft      string             `json:"draft,omitempty"` // before verification, where it differs
	Abstained  bool               `json:"abstained"`
	Reason     string             `json:"reason,omitempty"`
	Confidence float64            `json:"confidence"`
	Evidence   answer.Evidence    `json:"evidence"`
	Statements []StatementResult  `json:"statements,omitempty"`
	Sources    []SourceResult     `json:"sources,omitempty"`
	Citations  []CitationResult   `json:"citations,omitempty"`
	Metrics    map[string]float64 `json:"metrics"`
}

// StatementResult is a statement of the draft with what verification said; people label it in the report.
type StatementResult struct {
	Text      string        `json:"text"`
	Supported bool          `json:"supported"`
	Doubtful  bool          `json:"doubtful,omitempty"`
	Checked   float64       `json:"checked,omitempty"`
	Stated    float64       `json:"stated,omitempty"` // log-odds by the model that the documents say it
	Why       string        `json:"why,omitempty"`
	Missing   []verify.Fact `json:"missing,omitempty"`
	Quotes    []string      `json:"quotes,omitempty"`
}

// SourceResult is a passage that the model read.
type SourceResult struct {
	Marker int    `json:"marker"`
	Gold   string `json:"gold"`
	Right  bool   `json:"right"`
	Text   string `json:"text,omitempty"`
}

// CitationResult is a marker of the answer.
type CitationResult struct {
	Marker int    `json:"marker"`
	Gold   string `json:"gold"`
	Right  bool   `json:"right"`
	Quote  string `json:"quote"`

	Corrected bool `json:"corrected,omitempty"` // the model had named another passage
}

// AnswerRun asks the questions of a set.
type AnswerRun struct {
	Answerer  Answerer
	Corpus    string
	Gold      GoldID
	GoldOnly  bool // the model reads the right passages, nothing else
	Passages  int
	MaxTokens int
	Insist    bool // refusals are not allowed
	Unchecked bool // what the model writes is the answer, whatever supports it
	Parallel  int  // questions asked at a time; 0: one. Answers are the same, their times are not
	Progress  func(done, total int)
}

// Run answers every question that is not in out yet, and appends to out.
func (x *AnswerRun) Run(ctx context.Context, d *Dataset, questions []Query, out *Results[Answered]) error {
	return out.each(questions, func(a *Answered) string { return a.ID }, x.Parallel, x.Progress, func(q *Query) (Answered, error) { return x.ask(ctx, d, q) })
}

func (x *AnswerRun) ask(ctx context.Context, d *Dataset, q *Query) (Answered, error) {
	question := answer.Question{Text: q.Text, History: Turns(q.History), Filter: Filter(x.Corpus, q), Passages: x.Passages, MaxTokens: x.MaxTokens,
		Namespace: Tenant, Insist: x.Insist, Unchecked: x.Unchecked, Ordered: q.Ordered}
	if x.GoldOnly || q.Given != nil {
		question.Given = d.given(q)
	}
	for event, err := range x.Answerer.Answer(ctx, question) {
		if err != nil {
			return Answered{}, err
		}
		if event.Done != nil {
			return x.result(d, q, event.Done), nil
		}
	}
	return Answered{}, fmt.Errorf("the answer did not end")
}

// given are the passages that a question comes with, else those that are right.
func (d *Dataset) given(q *Query) []retrieve.Scored {
	texts := q.Given
	if texts == nil {
		for _, p := range d.Corpus {
			if d.Gains[q.ID][p.ID] > 0 {
				texts = append(texts, p)
			}
		}
	}
	all := []retrieve.Scored{}
	for i, p := range texts {
		all = append(all, retrieve.Scored{Passage: retrieve.Passage{ID: retrieve.PassageID(i + 1), Document: retrieve.DocumentID(i + 1), Path: p.ID, Title: p.Title, Text: p.Text, End: len(p.Text)}})
	}
	return all
}

// Turns joins the messages of a conversation into questions with their answers.
func Turns(history []Turn) []answer.Turn {
	var turns []answer.Turn
	for _, m := range history {
		if m.Role == "user" || len(turns) == 0 {
			turns = append(turns, answer.Turn{})
		}
		if last := &turns[len(turns)-1]; m.Role == "user" {
			last.Question = m.Text
		} else {
			last.Answer = m.Text
		}
	}
	return turns
}

func (x *AnswerRun) result(d *Dataset, q *Query, a *answer.Answer) Answered {
	gains := d.Gains[q.ID]
	r := Answered{ID: q.ID, Of: q.Of, Variant: q.Variant, Question: q.Text, HeldOut: q.IsHeldOut(), Answerable: d.IsAnswerable(q), Expected: q.Answers, Text: a.Text, Abstained: a.Abstained,
		Reason: a.Reason, Confidence: a.Confidence, Evidence: a.Evidence}
	if a.Query != a.Question {
		r.Query = a.Query
	}
	if a.Draft != a.Text {
		r.Draft = a.Draft
	}
	byMarker := map[int]*answer.Source{}
	for i := range a.Sources {
		s := &a.Sources[i]
		byMarker[s.Marker] = s
		if s.Added {
			continue
		}
		r.Sources = append(r.Sources, SourceResult{Marker: s.Marker, Gold: x.Gold(&s.Passage), Right: gains[x.Gold(&s.Passage)] > 0, Text: s.Passage.Text})
	}
	for _, s := range a.Statements {
		r.Statements = append(r.Statements, StatementResult{Text: s.Text, Supported: s.Supported, Doubtful: s.Doubtful, Checked: s.Checked, Stated: s.Stated, Why: s.Why, Missing: s.Missing, Quotes: s.Quotes})
	}
	for _, c := range a.Citations {
		gold := ""
		if s := byMarker[c.Marker]; s != nil {
			gold = x.Gold(&s.Passage)
		}
		r.Citations = append(r.Citations, CitationResult{Marker: c.Marker, Gold: gold, Right: gains[gold] > 0, Quote: c.Quote, Corrected: c.Corrected})
	}
	r.Metrics = metricsOf(&r, a, byMarker, gains)
	if q.Forbidden != nil {
		r.Metrics["forbidden"] = number(holdsAny(a.Text, q.Forbidden))
	}
	return r
}

var markers = regexp.MustCompile(`\[(\d+)\]`)

// metricsOf are the numbers of one answer. A metric that a question does not have is absent.
func metricsOf(r *Answered, a *answer.Answer, sources map[int]*answer.Source, gains map[string]float64) map[string]float64 {
	m := map[string]float64{"answered": number(!a.Abstained), "first_token_ms": milliseconds(a.FirstToken), "total_ms": milliseconds(a.Total),
		"verify_ms": milliseconds(a.Verify), "prompt_tokens": float64(a.Usage.PromptTokens), "output_tokens": float64(a.Usage.OutputTokens)}
	if len(gains) > 0 {
		right := false
		for _, s := range r.Sources {
			right = right || s.Right
		}
		m["evidence"] = number(right)
	}
	if r.Answerable && len(r.Expected) > 0 {
		text := bare(a.Text)
		if a.Abstained {
			text = ""
		}
		m["em"], m["contains"] = number(ExactMatch(text, r.Expected)), number(Contains(text, r.Expected))
		m["f1"], m["recall"] = TokenF1(text, r.Expected), WordRecall(text, r.Expected)
		m["draft_em"], m["draft_f1"] = number(ExactMatch(bare(a.Draft), r.Expected)), TokenF1(bare(a.Draft), r.Expected)
		m["draft_contains"], m["draft_recall"] = number(Contains(bare(a.Draft), r.Expected)), WordRecall(bare(a.Draft), r.Expected)
	}
	quotes(m, a, sources)
	if !a.Abstained {
		citationMetrics(m, r, gains)
	}
	return m
}

// quotes counts quotes that are not the source's own bytes and markers that name no passage; both must be 0.
func quotes(m map[string]float64, a *answer.Answer, sources map[int]*answer.Source) {
	m["quotes"], m["false_quotes"], m["false_markers"] = float64(len(a.Citations)), 0, 0
	for _, c := range a.Citations {
		s := sources[c.Marker]
		if s == nil {
			m["false_markers"]++
			continue
		}
		p := &s.Passage
		from, to := c.SourceStart-p.Start, c.SourceEnd-p.Start
		if from < 0 || to > len(p.Text) || from >= to || p.Text[from:to] != c.Quote || string([]rune(p.Text)[c.CharStart:c.CharEnd]) != c.Quote {
			m["false_quotes"]++
		}
	}
	for _, at := range markers.FindAllStringSubmatch(a.Text, -1) {
		var n int
		if _, err := fmt.Sscan(at[1], &n); err != nil || sources[n] == nil {
			m["false_markers"]++
		}
	}
}

// citationMetrics judges markers by the set's right passages, and statements by whether they carry one.
func citationMetrics(m map[string]float64, r *Answered, gains map[string]float64) {
	if len(r.Statements) > 0 {
		supported := 0
		for _, s := range r.Statements {
			supported += int(number(s.Supported))
		}
		m["statements"], m["unsupported"] = float64(len(r.Statements)), float64(len(r.Statements)-supported)
		m["grounded"] = float64(supported) / float64(len(r.Statements))
	}
	if len(gains) == 0 || len(r.Citations) == 0 {
		return
	}
	right, corrected, named := 0, 0, map[string]bool{}
	for _, c := range r.Citations {
		corrected += int(number(c.Corrected))
		right += int(number(c.Right))
		named[c.Gold] = true
	}
	have, all := 0, 0
	for id, g := range gains {
		if g > 0 {
			all++
			have += int(number(named[id]))
		}
	}
	m["corrected"] = float64(corrected) / float64(len(r.Citations))
	m["citation_precision"] = float64(right) / float64(len(r.Citations))
	m["citation_recall"] = float64(have) / float64(max(1, all))
	m["cites_gold"] = number(right > 0)
}

// holdsAny reports whether text holds one of parts, capitals aside.
func holdsAny(text string, parts []string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, strings.ToLower(p)) })
}

func bare(text string) string { return strings.TrimSpace(markers.ReplaceAllString(text, "")) }

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
