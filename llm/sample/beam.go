package sample

import (
	"cmp"
	"math"
	"slices"
)

// Hypothesis is a finished or unfinished answer of a beam search.
type Hypothesis struct {
	Tokens   []int32         // including the end token, if it ended with one
	LogProbs []float32       // the model's own
	Tops     [][]Alternative // per token, the model's own; nil unless Beams.Alternatives asks for them
	Sum      float64         // of the log-probabilities among the tokens that were allowed; without masks, of LogProbs
	Ended    bool
}

func (h Hypothesis) extend(e Extension, top []Alternative, sum float64) Hypothesis {
	next := Hypothesis{
		Tokens:   append(slices.Clone(h.Tokens), e.Token),
		LogProbs: append(slices.Clone(h.LogProbs), e.LogProb),
		Sum:      sum,
	}
	if top != nil {
		next.Tops = append(slices.Clone(h.Tops), top)
	}
	return next
}

// Extension says that a live beam continues the beam Parent of the step before with Token.
type Extension struct {
	Parent  int
	Token   int32
	LogProb float32
}

// Beams is a beam search over the log-probabilities among the tokens that masks allow. A hypothesis of n tokens (the end token counts) scores
// Sum / n^LengthPenalty, the correction of Hugging Face transformers: 0 compares plain sums and favours short answers,
// 1 compares means. The search ends when Width hypotheses have ended and no live beam scores better than the worst of
// them at its present length.
type Beams struct {
	Width         int
	LengthPenalty float64
	End           func(id int32) bool // end-of-generation tokens
	Alternatives  int                 // to remember per token

	live  []Hypothesis
	ended []Hypothesis
}

// Live returns the hypotheses that are still growing, in the order in which Step takes their rows.
func (b *Beams) Live() []Hypothesis {
	if b.live == nil && b.ended == nil {
		return []Hypothesis{{}}
	}
	return b.live
}

// Step extends every live hypothesis by one token. rows[i] are the raw logits after Live()[i]; masks is nil or holds
// one mask (or nil) per row. It returns the new live beams, best first: the caller forks its caches accordingly.
func (b *Beams) Step(rows [][]float32, masks [][]uint64) []Extension {
	type option struct {
		Extension
		sum float64
	}
	live := b.Live()
	var options []option
	var scratch []float32
	tops := make([][]Alternative, len(rows))
	for i, logits := range rows {
		if b.Alternatives > 0 {
			tops[i] = Top(logits, b.Alternatives)
		}
		z := logSumExp(logits)
		allowed := z
		if masks != nil && masks[i] != nil {
			scratch = append(scratch[:0], logits...)
			applyMask(scratch, masks[i])
			logits = scratch
			// A token that the grammar forces, like a citation marker, says nothing against a beam. Scored by what the model
			// thinks of it, beams would avoid every end of a sentence that needs one.
			allowed = logSumExp(logits)
		}
		for _, a := range highest(logits, 2*b.Width) { // enough even if half of them end
			lp := float64(a.LogProb) - z
			options = append(options, option{Extension{i, a.Token, float32(lp)}, live[i].Sum + float64(a.LogProb) - allowed})
		}
	}
	slices.SortFunc(options, func(x, y option) int {
		return cmp.Or(cmp.Compare(y.sum, x.sum), cmp.Compare(x.Parent, y.Parent), cmp.Compare(x.Token, y.Token))
	})
	var next []Hypothesis
	var chosen []Extension
	for rank, o := range options[:min(len(options), 2*b.Width)] {
		h := live[o.Parent].extend(o.Extension, tops[o.Parent], o.sum)
		switch {
		case b.End(o.Token):
			if rank < b.Width { // an end that is not among the best is no answer
				h.Ended = true
				b.ended = append(b.ended, h)
			}
		case len(next) < b.Width:
			next = append(next, h)
			chosen = append(chosen, o.Extension)
		}
	}
	b.live = next
	b.sort(b.ended)
	b.ended = b.ended[:min(len(b.ended), b.Width)]
	return chosen
}

// Finish moves a live beam to the ended ones, for example because a grammar allows nothing more after it.
func (b *Beams) Finish(i int) {
	h := b.live[i]
	h.Ended = true
	b.live = slices.Delete(b.live, i, i+1)
	b.ended = append(b.ended, h)
	b.sort(b.ended)
	b.ended = b.ended[:min(len(b.ended), b.Width)]
}

// Done reports whether no further step can change the result.
func (b *Beams) Done() bool {
	live := b.Live()
	if len(live) == 0 {
		return true
	}
	return len(b.ended) >= b.Width && b.Score(live[0]) <= b.Score(b.ended[b.Width-1])
}

// Best returns up to Width hypotheses, best first: ended ones, then live ones if too few have ended.
func (b *Beams) Best() []Hypothesis {
	out := slices.Clone(b.ended)
	live := slices.Clone(b.live)
	b.sort(live)
	return append(out, live[:min(len(live), b.Width-len(out))]...)
}

// Score is the length-corrected value of a hypothesis.
func (b *Beams) Score(h Hypothesis) float64 {
	return h.Sum / math.Pow(float64(max(1, len(h.Tokens))), b.LengthPenalty)
}

func (b *Beams) sort(h []Hypothesis) {
	slices.SortStableFunc(h, func(x, y Hypothesis) int { return cmp.Compare(b.Score(y), b.Score(x)) })
}
