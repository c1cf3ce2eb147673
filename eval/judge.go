package eval

import (
	"context"
	"fmt"
	"math"
	"strings"

	"ragd/llm"
	"ragd/llm/chat"
)

// Preference is what a model says of two answers to one question, asked in both orders.
type Preference struct {
	ID      string  `json:"id"`
	First   float64 `json:"first"`   // probability that A is better, A standing first
	Swapped float64 `json:"swapped"` // the same, B standing first
	Longer  bool    `json:"longer"`  // A is the longer one
}

// A is the probability that A is better, without the bias for a place.
func (p *Preference) A() float64 { return (p.First + p.Swapped) / 2 }

// Verdicts are what preferences say of two runs, and how far a judge can be believed.
type Verdicts struct {
	N        int      `json:"n"`
	A        Interval `json:"a"`        // mean probability that A's answer is better, over both orders
	Steady   float64  `json:"steady"`   // share of the pairs on which both orders agree
	Position float64  `json:"position"` // mean probability of what stands first, less 0.5: the bias for a place
	Length   float64  `json:"length"`   // mean probability of the longer answer, less 0.5: the bias for length
}

// judgeQuestion is put to a model that judges. The answer is one letter, so that its probability can be read off.
const judgeQuestion = "Which of two answers to a question is better? The better one is right and says what was asked, no more. Reply with A or B only."

// Prefer asks a model of each pair of answers which is better. A question that only one run has, or that both answer alike, is left out.
func Prefer(ctx context.Context, engine *llm.Engine, a, b []Answered, out *Results[Preference], progress func(done, total int)) error {
	other := map[string]*Answered{}
	for i := range b {
		other[b[i].ID] = &b[i]
	}
	var pairs []Query
	byID := map[string]*Answered{}
	for i := range a {
		if x := other[a[i].ID]; x != nil && bare(a[i].Text) != bare(x.Text) {
			pairs = append(pairs, Query{ID: a[i].ID})
			byID[a[i].ID] = &a[i]
		}
	}
	return out.each(pairs, func(p *Preference) string { return p.ID }, 1, progress, func(q *Query) (Preference, error) {
		x, y := byID[q.ID], other[q.ID]
		first, err := prefer(ctx, engine, x, bare(x.Text), bare(y.Text))
		if err != nil {
			return Preference{}, err
		}
		second, err := prefer(ctx, engine, x, bare(y.Text), bare(x.Text))
		return Preference{ID: q.ID, First: first, Swapped: 1 - second, Longer: len(bare(x.Text)) > len(bare(y.Text))}, err
	})
}

// prefer is the probability that the answer which stands first is better.
func prefer(ctx context.Context, engine *llm.Engine, q *Answered, first, second string) (float64, error) {
	text := "Question: " + q.Question
	if len(q.Expected) > 0 {
		text += "\nRight answer: " + strings.Join(q.Expected, " / ")
	}
	text += "\n\nA: " + first + "\n\nB: " + second
	prompt, err := engine.Chat().Encode([]chat.Message{{Role: "system", Content: judgeQuestion}, {Role: "user", Content: text}}, true)
	if err != nil {
		return 0, fmt.Errorf("judge: %w", err)
	}
	var odds [2]float64
	for i, letter := range []string{"A", "B"} {
		values, err := engine.Score(ctx, prompt, engine.Tokenizer().Encode(letter, false, false), Tenant)
		if err != nil {
			return 0, fmt.Errorf("judge: %w", err)
		}
		for _, v := range values {
			odds[i] += float64(v)
		}
	}
	return 1 / (1 + math.Exp(odds[1]-odds[0])), nil
}

// Verdict sums preferences up.
func Verdict(all []Preference) Verdicts {
	v := Verdicts{N: len(all)}
	var better []float64
	for i := range all {
		p := &all[i]
		better = append(better, p.A())
		n := float64(len(all))
		v.Steady += number((p.First > 0.5) == (p.Swapped > 0.5)) / n
		v.Position += ((p.First+1-p.Swapped)/2 - 0.5) / n
		longer := p.A()
		if !p.Longer {
			longer = 1 - longer
		}
		v.Length += (longer - 0.5) / n
	}
	v.A = Mean(better)
	return v
}
