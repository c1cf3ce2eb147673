package answer

import (
	"ragd/llm"
	"ragd/retrieve"
)

// tracedAlternatives is how many tokens a record names for each place of the answer.
const tracedAlternatives = 3

// Trace is how an answer came about, for the record.
type Trace struct {
	Model   string // fingerprint of the engine: model, quantization, kernels
	Prompt  string // as the model got it, control tokens in their written form
	Tokens  []llm.Token
	Asked   string // the question as it stands in the prompt, a calculation with it
	Refusal string // the sentence that it could choose; "" when it could not refuse
	Again   bool   // the model had refused, or read another row of a table, and was asked once more, without the rule for refusals
	Steps   []Step
	Dropped []Dropped

	Question Question // as it was put, to replay it
}

// Step is one token that the model wrote.
type Step struct {
	Token   llm.Token
	Text    string
	LogProb float32
	Top     []llm.Alternative // the most likely ones, that one among them
}

// Dropped is a passage that was found and not read.
type Dropped struct {
	retrieve.Scored
	Why string
}

// drop records the passages of all that are not in kept.
func (t *Trace) drop(all, kept []retrieve.Scored, why string) {
	in := map[retrieve.PassageID]bool{}
	for _, s := range kept {
		in[s.Passage.ID] = true
	}
	for _, s := range all {
		if !in[s.Passage.ID] {
			t.Dropped = append(t.Dropped, Dropped{s, why})
		}
	}
}

// begin starts the record of a generation; one before it, which ended in a refusal or misread a table, is forgotten.
func (t *Trace) begin(p prompt, refusal string) {
	t.Prompt, t.Tokens, t.Asked, t.Refusal, t.Again, t.Steps = p.text, p.tokens, p.question, refusal, p.again, nil
}

func (t *Trace) step(e llm.Event) {
	t.Steps = append(t.Steps, Step{Token: e.Token, Text: e.Text, LogProb: e.LogProb, Top: e.Top})
}
