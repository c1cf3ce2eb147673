package answer

import (
	"math"
	"strings"

	"ragd/retrieve/analysis"
	"ragd/sentence"
)

// evidence is a passage prepared for checking statements against it.
type evidence struct {
	sentences []sentence.Span
	terms     []map[string]bool // of each sentence
}

func newEvidence(text string) evidence {
	e := evidence{sentences: sentence.Split(text)}
	for _, s := range e.sentences {
		terms := map[string]bool{}
		for _, t := range analysis.Terms(text[s.Start:s.End], "en") {
			terms[t] = true
		}
		e.terms = append(e.terms, terms)
	}
	return e
}

// weights says how much a term tells: terms that few passages hold tell more, and numbers most, because they are what a reader checks.
type weights struct {
	passages int
	holders  map[string]int
}

func weigh(all []evidence) weights {
	w := weights{passages: len(all), holders: map[string]int{}}
	for _, e := range all {
		seen := map[string]bool{}
		for _, terms := range e.terms {
			for t := range terms {
				if !seen[t] {
					seen[t] = true
					w.holders[t]++
				}
			}
		}
	}
	return w
}

// of returns the distinct terms of a statement with their weights.
func (w weights) of(statement string) map[string]float64 {
	want := map[string]float64{}
	for _, t := range analysis.Terms(statement, "en") {
		want[t] = 1 + math.Log(float64(w.passages+1)/float64(w.holders[t]+1))
		if strings.ContainsAny(t, "0123456789") {
			want[t] *= 2
		}
	}
	return want
}

// supportOf is how well the best span of a passage covers a statement.
type supportOf struct {
	start, end int     // bytes in the passage
	share      float64 // of the statement's weight that the span holds
}

const (
	maxSpan      = 3    // neighbouring sentences in one quote
	sentenceCost = 0.06 // share that one more sentence must add to be worth quoting
)

// supports returns the run of at most three sentences that covers want best; a longer run must pay for its length. A passage without sentences gives
// an empty span.
func (e evidence) supports(want map[string]float64) supportOf {
	var total float64
	for _, w := range want {
		total += w
	}
	best, bestValue := supportOf{}, -1.0
	for i := range e.sentences {
		have := map[string]bool{}
		var sum float64
		for j := i; j < min(i+maxSpan, len(e.sentences)); j++ {
			for t := range e.terms[j] {
				if w, wanted := want[t]; wanted && !have[t] {
					have[t] = true
					sum += w
				}
			}
			share := 0.0
			if total > 0 {
				share = sum / total
			}
			if value := share - sentenceCost*float64(j-i); value > bestValue {
				best, bestValue = supportOf{e.sentences[i].Start, e.sentences[j].End, share}, value
			}
		}
	}
	return best
}
