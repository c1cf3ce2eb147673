package distill

import (
	"math/rand/v2"
	"slices"
)

// Gain is the mean of paired differences with the interval that holds 95% of the means of resampled questions.
type Gain struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Compare returns the gain of after over before, paired by question, by a bootstrap of 10,000 samples.
func Compare(before, after []float64, seed uint64) Gain {
	const samples = 10000
	n := len(before)
	if n == 0 {
		return Gain{}
	}
	d := make([]float64, n)
	var g Gain
	for i := range d {
		d[i] = after[i] - before[i]
		g.Mean += d[i] / float64(n)
	}
	r := rand.New(rand.NewPCG(seed, 0xb007))
	means := make([]float64, samples)
	for i := range means {
		for range n {
			means[i] += d[r.IntN(n)] / float64(n)
		}
	}
	slices.Sort(means)
	g.Low, g.High = means[samples*25/1000], means[samples*975/1000-1]
	return g
}
