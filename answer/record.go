package answer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"ragd/llm"
	"ragd/retrieve"
)

// Record is the JSON text of a, for the store: what 'ragd inspect' and GET /v1/answers/{id} show. Documents are those whose text is in it.
func (a *Answer) Record() (record json.RawMessage, documents []retrieve.DocumentID, err error) {
	for i := range a.Sources {
		documents = append(documents, a.Sources[i].Passage.Document)
	}
	for i := range a.Trace.Dropped {
		documents = append(documents, a.Trace.Dropped[i].Passage.Document)
	}
	slices.Sort(documents)
	if record, err = json.Marshal(a); err != nil {
		return nil, nil, fmt.Errorf("answer: record: %w", err)
	}
	return record, slices.Compact(documents), nil
}

// ReadRecord reads what [Answer.Record] wrote.
func ReadRecord(record json.RawMessage) (*Answer, error) {
	a := &Answer{}
	if err := json.Unmarshal(record, a); err != nil {
		return nil, fmt.Errorf("answer: read the record: %w", err)
	}
	return a, nil
}

// Replay writes the draft of a again from the recorded prompt and says whether the same tokens came out. It is an error when the engine is not the one
// that wrote it: another model, quantization or processor path may write something else.
func (r *Answerer) Replay(ctx context.Context, a *Answer, namespace string) (same bool, text string, err error) {
	if a.Unconstrained || r.external() {
		return false, "", fmt.Errorf("answer: an answer of an external engine cannot be replayed: %w", llm.ErrNoLogits)
	}
	if a.Trace.Model != r.engine.Fingerprint() {
		return false, "", fmt.Errorf("answer: the answer was written by %s, this engine is %s: serve that model to replay it", a.Trace.Model, r.engine.Fingerprint())
	}
	if len(a.Trace.Tokens) == 0 {
		return false, "", fmt.Errorf("answer: the model was not asked for this answer: %s", a.Reason)
	}
	q := a.Trace.Question
	stream, err := r.engine.Generate(ctx, llm.Request{Prompt: a.Trace.Tokens, MaxTokens: max(1, min(q.MaxTokens, len(a.Trace.Steps))), Sampling: q.Sampling,
		Grammar: r.prompts.grammar(a.Read(), a.Trace.Asked, a.Trace.Refusal), Namespace: namespace, Beams: q.Beams})
	if err != nil {
		return false, "", fmt.Errorf("answer: replay: %w", err)
	}
	at := 0
	same = true
	for event, err := range stream.Events() {
		if err != nil {
			return false, "", fmt.Errorf("answer: replay: %w", err)
		}
		text += event.Text
		if event.Token >= 0 && at < len(a.Trace.Steps) {
			same = same && a.Trace.Steps[at].Token == event.Token
			at++
		}
	}
	return same && at > 0, text, nil
}

// Attribution says which passage carried a statement of the draft: by how much its log-probability falls when the passage is taken out of the prompt.
type Attribution struct {
	Statement string
	LogProb   float64         // with all passages
	Drop      map[int]float64 // by marker; the greatest is the passage that the statement rests on
}

// Carrier is the marker of the passage without which the statement loses most; 0 when it loses nothing without any.
func (t *Attribution) Carrier() int {
	best, most := 0, 0.0
	for marker, drop := range t.Drop {
		if drop > most || drop == most && drop > 0 && marker < best {
			best, most = marker, drop
		}
	}
	return best
}

// Attribute measures, for each statement of the draft, what each passage adds to it: the draft is scored once with all passages and once without each.
// Passages that say the same hide each other.
func (r *Answerer) Attribute(ctx context.Context, a *Answer, namespace string) ([]Attribution, error) {
	if a.Unconstrained || r.external() {
		return nil, fmt.Errorf("answer: which passage carried a statement of an external engine is not known: %w", llm.ErrNoLogits)
	}
	tokens := make([]llm.Token, 0, len(a.Trace.Steps))
	var spans []int // start byte of each token in the draft
	text := ""
	for _, s := range a.Trace.Steps {
		if s.Token >= 0 {
			tokens, spans = append(tokens, s.Token), append(spans, len(text))
		}
		text += s.Text
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("answer: the model was not asked for this answer: %s", a.Reason)
	}
	whole, err := r.engine.Score(ctx, a.Trace.Tokens, tokens, namespace)
	if err != nil {
		return nil, fmt.Errorf("answer: attribute: %w", err)
	}
	statements := statementTokens(a, text, spans)
	all := make([]Attribution, len(statements))
	for i, s := range statements {
		all[i] = Attribution{Statement: a.Statements[i].Text, LogProb: sum(whole[s.from:s.to]), Drop: map[int]float64{}}
	}
	read := a.Read()
	for i := range read {
		less := slices.Delete(slices.Clone(read), i, i+1)
		prompt, err := r.prompts.rewrite(a, less)
		if err != nil {
			return nil, err
		}
		values, err := r.engine.Score(ctx, prompt, tokens, namespace)
		if err != nil {
			return nil, fmt.Errorf("answer: attribute: %w", err)
		}
		for k, s := range statements {
			all[k].Drop[read[i].Marker] = all[k].LogProb - sum(values[s.from:s.to])
		}
	}
	return all, nil
}

// tokenSpan is a range of tokens.
type tokenSpan struct{ from, to int }

// statementTokens maps the statements to the tokens of the draft that write them, without their markers, which would vote for their own passage.
func statementTokens(a *Answer, text string, starts []int) []tokenSpan {
	var spans []tokenSpan
	at := 0
	for _, s := range a.Statements {
		from := at
		if i := indexFrom(text, s.Text, at); i >= 0 {
			from = i
		}
		to := from + len(s.Text)
		at = min(to, len(text))
		first, _ := slices.BinarySearch(starts, from)
		last, _ := slices.BinarySearch(starts, to)
		spans = append(spans, tokenSpan{min(first, last), last})
	}
	return spans
}

func sum(values []float32) float64 {
	var total float64
	for _, v := range values {
		total += float64(v)
	}
	return total
}
