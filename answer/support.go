package answer

import (
	"math"
	"regexp"
	"slices"
	"strings"

	"ragd/retrieve/analysis"
	"ragd/sentence"
)

// evidence is a passage prepared for checking statements against it.
type evidence struct {
	sentences []sentence.Span
	terms     []map[string]bool // of each sentence
	orders    []string          // terms of the sentences that give orders
}

// newEvidence prepares a passage. Sentences that give orders hold no terms, so that nothing can be cited to them.
func newEvidence(text, question string) evidence {
	e := evidence{sentences: sentence.Split(text)}
	for _, s := range e.sentences {
		terms, words := map[string]bool{}, analysis.Terms(text[s.Start:s.End], "en")
		if givesOrders(text[s.Start:s.End], question) {
			e.orders = append(e.orders, words...)
		} else {
			for _, t := range words {
				terms[t] = true
			}
		}
		e.terms = append(e.terms, terms)
	}
	return e
}

// orders is how documents talk to a model instead of to their readers.
var orders = regexp.MustCompile(`(?i)\b(?:ignore|disregard|forget|override|bypass)\b[^.!?]{0,40}\b(?:instructions?|prompts?|rules?|guidelines)\b|\bsystem (?:override|prompt)\b|` +
	`<\|[a-z_]{2,20}\|>|\[/?INST\]|<</?SYS>>|^\s*(?:assistant|system)\s*:|\b(?:reply|respond) (?:only )?with\b|\b(?:answer|end|begin|start) every (?:answer|question|reply|response|sentence)\b|` +
	`\bin every (?:answer|reply|response)\b|\byou are (?:now|no longer) an?\b|^\W*(?:say|claim|pretend|state) that\b|\b(?:ignoriere|missachte|vergiss)\b[^.!?]{0,40}\b(?:anweisung|regel|vorgabe)`)

// givesOrders reports a sentence of a document that tells the model what to do. It says nothing about the world, so no statement can rest on it, unless
// the question is about just that: a handbook may explain what such an attack looks like.
func givesOrders(sentence, question string) bool {
	found := orders.FindString(sentence)
	return found != "" && termCover(analysis.Terms(question, "en"), analysis.Terms(found, "en")) == 0
}

// obeys reports a statement with a word that only sentences hold which give orders, and that the question does not have: it says what they want said.
func obeys(statement, question string, all []evidence) bool {
	words := analysis.Terms(statement, "en")
	asked := analysis.Terms(question, "en")
	for _, e := range all {
		for _, t := range e.orders {
			if slices.Contains(words, t) && !slices.Contains(asked, t) && !slices.ContainsFunc(all, func(o evidence) bool { return o.holds(t) }) {
				return true
			}
		}
	}
	return false
}

// holds reports whether a sentence that can be cited has a term.
func (e evidence) holds(term string) bool {
	return slices.ContainsFunc(e.terms, func(have map[string]bool) bool { return have[term] })
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
