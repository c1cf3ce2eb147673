package answer

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"ragd/llm"
	"ragd/retrieve"
	"ragd/retrieve/analysis"
	"ragd/verify"
)

// Evidence is what is known about whether the documents hold an answer. A probability is estimated from it: one from what was found, before the
// draft counts, and one from everything.
type Evidence struct {
	Read    bool    `json:"-"`       // a cross-encoder read the passages
	Asked   bool    `json:"-"`       // the model was asked what it makes of them
	Top     float64 `json:"top"`     // its logit of the best passage
	Margin  float64 `json:"margin"`  // by which that leads the next
	Third   float64 `json:"third"`   // mean of the best three
	About   float64 `json:"about"`   // passages with a logit above 0
	Lexical float64 `json:"lexical"` // BM25 of the best passage
	Dense   float64 `json:"dense"`   // cosine similarity of the nearest
	Cover   float64 `json:"cover"`   // share of the question's terms that one passage holds, the best
	Unknown float64 `json:"unknown"` // names of the question that no document holds

	Nearest float64 `json:"nearest"` // the cross-encoder's logit of the sentence nearest to an answer
	Refused float64 `json:"refused"` // 1: the model refused when it could
	Refusal float64 `json:"refusal"` // mean log-probability that it gives to the refusal, asked or not

	Holds float64 `json:"holds"` // log-odds by the model, asked for yes or no, that the documents hold the answer

	LogProb float64 `json:"logprob"` // mean log-probability of a token of the draft
	Lowest  float64 `json:"lowest"`  // of the least likely one
	Lift    float64 `json:"lift"`    // what the passages add to it, per token
	Gap     float64 `json:"gap"`     // LogProb - Refusal
	Support float64 `json:"support"` // mean support of the draft's statements
	Stated  float64 `json:"stated"`  // mean of the log-odds by the model that the documents say a statement
	Bare    float64 `json:"bare"`    // share of them that nothing supports
	Answers float64 `json:"answers"` // the cross-encoder's logit of question and draft
}

// evidenceOf is what retrieval says.
func evidenceOf(question string, ranked []retrieve.Scored) Evidence {
	var e Evidence
	var logits []float64
	want := analysis.Terms(question, "en")
	for i := range ranked {
		s := &ranked[i]
		if s.Rerank != nil {
			logits = append(logits, float64(*s.Rerank))
		}
		if s.Lexical != nil {
			e.Lexical = max(e.Lexical, s.Lexical.Score)
		}
		if s.Dense != nil {
			e.Dense = max(e.Dense, s.Dense.Score)
		}
		e.Cover = max(e.Cover, termCover(want, analysis.Terms(s.Passage.ForRanking(), "en")))
	}
	if len(logits) == 0 {
		return e
	}
	e.Read = true
	for i := range logits { // the best three to the front
		for j := i; j > 0 && logits[j] > logits[j-1]; j-- {
			logits[j], logits[j-1] = logits[j-1], logits[j]
		}
	}
	e.Top = logits[0]
	if len(logits) > 1 {
		e.Margin = logits[0] - logits[1]
	}
	n := min(3, len(logits))
	for _, l := range logits[:n] {
		e.Third += l / float64(n)
	}
	for _, l := range logits {
		if l > 0 {
			e.About++
		}
	}
	return e
}

// termCover is the share of want that have holds.
func termCover(want, have []string) float64 {
	held := make(map[string]bool, len(have))
	for _, t := range have {
		held[t] = true
	}
	n := 0
	for _, t := range want {
		if held[t] {
			n++
		}
	}
	return float64(n) / float64(max(1, len(want)))
}

//go:embed abstain.json
var abstainText []byte

// estimate is how the probability that the documents hold the answer follows from evidence, by what was found and, once there is a draft, by everything,
// and what is done about it. ragd eval fit prints coefficients in the same form (docs/eval.md).
type estimate struct {
	Before   verify.Logistic `json:"before"`
	After    verify.Logistic `json:"after"`
	AskAgain float64         `json:"ask_again"` // from here, before the draft counts, a refusal is not taken at its word
	Below    float64         `json:"below"`     // under this the answer is withheld
}

// estimates are those for a model that was asked what it makes of the documents, and for one that was not.
var estimates = func() (c struct {
	Words estimate `json:"words"`
	Asked estimate `json:"asked"`
}) {
	if err := json.Unmarshal(abstainText, &c); err != nil {
		panic(fmt.Sprintf("answer: embedded abstain.json: %v", err)) // our own file: a bug
	}
	for _, m := range []*verify.Logistic{&c.Words.Before, &c.Words.After, &c.Asked.Before, &c.Asked.After} {
		if err := m.Check(); err != nil {
			panic(err)
		}
	}
	return c
}()

func (e Evidence) estimate() *estimate {
	if e.Asked {
		return &estimates.Asked
	}
	return &estimates.Words
}

// before is the probability that the documents hold the answer, by what was found.
func (e Evidence) before() float64 { return e.estimate().Before.Probability(verify.Values(e)) }

// after is the same by everything.
func (e Evidence) after() float64 { return e.estimate().After.Probability(verify.Values(e)) }

// inclination measures how likely the model finds the refusal. The prompt is cached by then, so that it costs the tokens of one sentence.
func (r *run) inclination(ctx context.Context, p prompt) error {
	if r.external() {
		return nil
	}
	refusal := r.engine.Tokenizer().Encode(Refusal, false, false)
	values, err := r.score(ctx, p.tokens, refusal, r.q.Namespace)
	if err != nil {
		return fmt.Errorf("answer: score the refusal: %w", err)
	}
	r.answer.Evidence.Refusal = mean(values)
	return nil
}

// lift measures how much the passages add to the draft's log-probability.
func (r *run) lift(ctx context.Context) error {
	if r.external() {
		return nil
	}
	e := &r.answer.Evidence
	steps := r.answer.Trace.Steps
	draft := make([]llm.Token, 0, len(steps))
	for _, s := range steps {
		if s.Token >= 0 {
			draft = append(draft, s.Token)
			e.LogProb += float64(s.LogProb)
			e.Lowest = min(e.Lowest, float64(s.LogProb))
		}
	}
	if len(draft) == 0 {
		return nil
	}
	e.LogProb /= float64(len(draft))
	e.Gap = e.LogProb - e.Refusal
	closed, err := r.prompts.rewrite(&r.answer, nil)
	if err != nil {
		return err
	}
	values, err := r.score(ctx, closed, draft, r.q.Namespace)
	if err != nil {
		return fmt.Errorf("answer: score the draft: %w", err)
	}
	e.Lift = e.LogProb - mean(values)
	return nil
}

func mean(values []float32) float64 {
	var sum float64
	for _, v := range values {
		sum += float64(v)
	}
	return sum / float64(max(1, len(values)))
}
