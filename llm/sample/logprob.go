package sample

import (
	"cmp"
	"math"
	"slices"
)

// Alternative is a token with the model's log-probability for it.
type Alternative struct {
	Token   int32
	LogProb float32
}

// LogProb returns the log-probability that the raw logits give to a token.
func LogProb(logits []float32, id int32) float32 {
	return float32(float64(logits[id]) - logSumExp(logits))
}

// Top returns the n most probable tokens of the raw logits, best first, ties by id.
func Top(logits []float32, n int) []Alternative {
	best := highest(logits, n)
	z := logSumExp(logits)
	for i := range best {
		best[i].LogProb = float32(float64(best[i].LogProb) - z)
	}
	return best
}

// highest is Top before normalisation: LogProb holds the logit. Tokens with -Inf or NaN are left out.
func highest(logits []float32, n int) []Alternative {
	n = min(n, len(logits))
	if n <= 0 {
		return nil
	}
	best := make([]Alternative, 0, n+1)
	for i, l := range logits {
		if !(l > negInf) || (len(best) == n && l <= best[n-1].LogProb) {
			continue
		}
		x := Alternative{int32(i), l}
		at, _ := slices.BinarySearchFunc(best, x, func(a, b Alternative) int {
			return cmp.Or(cmp.Compare(b.LogProb, a.LogProb), cmp.Compare(a.Token, b.Token))
		})
		best = slices.Insert(best, at, x)[:min(len(best)+1, n)]
	}
	return best
}

// logSumExp returns ln Σ e^logit.
func logSumExp(logits []float32) float64 {
	best := argMax(logits)
	if best < 0 {
		return math.Inf(-1)
	}
	top := logits[best]
	return float64(top) + math.Log(expSum(logits, top, 1, expMin))
}
