package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/llm/sample"
)

// longestRepeat is what history looks for, found by trying everything.
func longestRepeat(tokens []Token) int {
	best := 0
	for place := range len(tokens) - 1 {
		n := 0
		for n <= place && tokens[place-n] == tokens[len(tokens)-1-n] {
			n++
		}
		best = max(best, n)
	}
	if best < minMatch {
		return 0
	}
	return min(best, maxMatch)
}

func TestHistory(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		vocab := 2 + rng.IntN(20)
		h := newHistory(nil)
		var all []Token
		for range 150 {
			if len(all) > 10 && rng.IntN(20) == 0 { // a quote
				from := rng.IntN(len(all) - 5)
				all = append(all, all[from:from+5]...)
			} else {
				all = append(all, Token(rng.IntN(vocab)))
			}
			h.extend(all)
			want := longestRepeat(all)
			require.Equal(t, want > 0, h.length > 0)
			require.LessOrEqual(t, h.length, want)
			for i := range h.length {
				require.Equal(t, all[len(all)-1-i], all[h.match-i], "the match is one")
			}
			if h.length > 0 {
				require.Less(t, h.match, len(all)-1)
				draft := h.draft(nil, 20)
				require.Len(t, draft, 20)
				require.Equal(t, all[h.match+1], draft[0])
			}
		}
	}
	h := newHistory([]Token{1, 2, 3, 9, 1, 2, 3})
	require.Equal(t, []Token{9, 1, 2, 3, 9, 1}, h.draft(nil, 6), "a repetition goes round again")
}

func TestSpeculationPaysOrStops(t *testing.T) {
	p := newSpeculation()
	require.Positive(t, p.size(20, 0, 10))
	require.Zero(t, p.size(20, 0, 0))
	for range 200 { // drafts are never right
		p.learn(20, 5, 0)
	}
	require.Zero(t, p.size(20, 0, 10))
	for range 1000 {
		p.rest(20)
	}
	require.Positive(t, p.size(20, 0, 10), "it is tried again some day")

	p = newSpeculation()
	for i := range 100 { // a row costs as much as the step: compute-bound
		p.observe(1+i%4, time.Duration(2+i%4)*time.Millisecond)
	}
	require.InDelta(t, 1, p.rowCost(), 0.01)
	require.Zero(t, p.size(3, 8, 10))
	p = newSpeculation()
	for i := range 100 { // rows are free: memory-bound
		p.observe(1+i%4, 5*time.Millisecond)
	}
	require.InDelta(t, 0, p.rowCost(), 0.01)
	require.Equal(t, 10, p.size(20, 0, 10))
}

// A text that repeats itself is finished in far fewer steps, and is the same text.
func TestSpeculationSavesSteps(t *testing.T) {
	for _, temperature := range []float32{0, 0.3} {
		steps := map[int]int64{}
		for _, draft := range []int{0, 8} {
			g := newRig(t, 100, 4)
			g.model.order, g.model.ends = 2, false
			g.sched.config.MaxDraft = draft
			r := &Request{Prompt: prompt(50, 1), MaxTokens: 300, Sampling: sample.Params{Temperature: temperature, Seed: 5, LogitBias: map[int32]float32{7: 2}}}
			require.NoError(t, g.submit(r))
			g.run()
			g.requireAlone(r)
			steps[draft] = g.sched.Stats().Steps
			require.Equal(t, draft > 0, g.sched.Stats().Accepted > 0)
		}
		if temperature == 0 {
			require.Less(t, 2*steps[8], steps[0], fmt.Sprint(steps))
		}
	}
}
