package eval

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"ragd/answer"
	"ragd/llm"
	"ragd/llm/chat"
)

// ClosedBook answers from the model's memory alone. What it gets right was not learned from the documents: a set whose questions a model knows by heart
// says little about reading.
type ClosedBook struct{ Engine *llm.Engine }

const closedPrompt = "Answer the question in one short sentence from what you know. When you do not know, make the best guess."

// Answer implements [Answerer]. There are no sources and no citations.
func (c ClosedBook) Answer(ctx context.Context, q answer.Question) iter.Seq2[answer.Event, error] {
	return func(yield func(answer.Event, error) bool) {
		started := time.Now()
		text, usage, err := c.write(ctx, q)
		if err != nil {
			yield(answer.Event{}, fmt.Errorf("eval: closed book: %w", err))
			return
		}
		yield(answer.Event{Done: &answer.Answer{Question: q.Text, Query: q.Text, Text: text, Draft: text, Finish: answer.FinishStop, Usage: usage, Total: time.Since(started)}}, nil)
	}
}

func (c ClosedBook) write(ctx context.Context, q answer.Question) (string, llm.Usage, error) {
	messages := []chat.Message{{Role: "system", Content: closedPrompt}}
	for _, t := range q.History {
		messages = append(messages, chat.Message{Role: "user", Content: t.Question}, chat.Message{Role: "assistant", Content: t.Answer})
	}
	tokens, err := c.Engine.Chat().Encode(append(messages, chat.Message{Role: "user", Content: q.Text}), true)
	if err != nil {
		return "", llm.Usage{}, err
	}
	stream, err := c.Engine.Generate(ctx, llm.Request{Prompt: tokens, MaxTokens: max(1, q.MaxTokens), Namespace: Tenant})
	if err != nil {
		return "", llm.Usage{}, err
	}
	text, err := stream.Text()
	if err != nil {
		return "", llm.Usage{}, err
	}
	return strings.TrimSpace(text), stream.Usage(), nil
}

// Contamination says how much of a set a model knows without its documents.
type Contamination struct {
	Known   Interval   `json:"known"`      // share of the answerable questions that it answers rightly with the book closed
	Open    Interval   `json:"open"`       // the same from the documents
	Unknown Interval   `json:"of_unknown"` // the same from the documents, of those that it does not know
	Gain    Difference `json:"gain"`       // open less closed
}

// Contaminated compares a run with one with the book closed over the same questions. Right is an answer that holds an accepted one.
func Contaminated(closed, open []Answered) Contamination {
	known := map[string]float64{}
	for i := range closed {
		if v, has := closed[i].Metrics["contains"]; has {
			known[closed[i].ID] = v
		}
	}
	var a, b, unknown []float64
	for i := range open {
		before, asked := known[open[i].ID]
		after, has := open[i].Metrics["contains"]
		if !asked || !has {
			continue
		}
		a, b = append(a, before), append(b, after)
		if before == 0 {
			unknown = append(unknown, after)
		}
	}
	return Contamination{Known: Mean(a), Open: Mean(b), Unknown: Mean(unknown), Gain: Paired(a, b)}
}
