package eval

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Interval is a value with the bounds of its 95 % bootstrap interval.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	N     int     `json:"n"`
}

const (
	resamples     = 2000
	bootstrapSeed = 7 // fixed, so that a report is a function of its results
)

// Mean returns the mean of values with a percentile bootstrap interval.
func Mean(values []float64) Interval {
	return Bootstrap(len(values), func(pick []int) float64 {
		var sum float64
		for _, i := range pick {
			sum += values[i]
		}
		return sum / float64(max(1, len(pick)))
	})
}

// Bootstrap computes a statistic of n rows, given by their indices, with a percentile interval over samples of the rows with replacement.
func Bootstrap(n int, statistic func(pick []int) float64) Interval {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	out := Interval{Value: statistic(all), N: n}
	if n == 0 {
		return Interval{}
	}
	rng := rand.New(rand.NewPCG(bootstrapSeed, uint64(n)))
	var values []float64
	pick := make([]int, n)
	for range resamples {
		for i := range pick {
			pick[i] = rng.IntN(n)
		}
		if v := statistic(pick); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return out
	}
	slices.Sort(values)
	out.Low, out.High = values[len(values)*25/1000], values[min(len(values)-1, len(values)*975/1000)]
	return out
}

// Difference is what a paired bootstrap says about two runs on the same questions.
type Difference struct {
	Interval         // of b - a
	P        float64 `json:"p"` // two-sided: how often a difference of this size or larger would be seen without one
}

// Paired compares b with a, the same questions in the same order.
func Paired(a, b []float64) Difference {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = b[i] - a[i]
	}
	return pairedOf(len(a), func(pick []int) float64 {
		var sum float64
		for _, i := range pick {
			sum += d[i]
		}
		return sum / float64(max(1, len(pick)))
	})
}

// pairedOf is the paired bootstrap of any statistic of a difference.
func pairedOf(n int, statistic func(pick []int) float64) Difference {
	out := Difference{Interval: Bootstrap(n, statistic), P: 1}
	if n == 0 || out.Value == 0 {
		return out
	}
	rng := rand.New(rand.NewPCG(bootstrapSeed+1, uint64(n)))
	pick, against, total := make([]int, n), 0, 0
	for range resamples {
		for i := range pick {
			pick[i] = rng.IntN(n)
		}
		v := statistic(pick)
		if math.IsNaN(v) {
			continue
		}
		total++
		if v*out.Value <= 0 {
			against++
		}
	}
	out.P = min(1, 2*float64(against+1)/float64(total+1))
	return out
}

// Scored is a question with a score and what is true of it.
type Scored struct {
	Score float64
	True  bool
}

// AUROC is the probability that a true row scores higher than a false one, ties counting half; NaN when one kind is missing.
func AUROC(rows []Scored) float64 {
	sorted := slices.Clone(rows)
	slices.SortFunc(sorted, func(a, b Scored) int { return cmp.Compare(a.Score, b.Score) })
	var ranks float64
	trues := 0
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j].Score == sorted[i].Score {
			j++
		}
		for k := i; k < j; k++ {
			if sorted[k].True {
				ranks += float64(i+j+1) / 2
				trues++
			}
		}
		i = j
	}
	falses := len(sorted) - trues
	if trues == 0 || falses == 0 {
		return math.NaN()
	}
	return (ranks - float64(trues)*float64(trues+1)/2) / (float64(trues) * float64(falses))
}

// AUROCInterval is AUROC with its bootstrap interval.
func AUROCInterval(rows []Scored) Interval {
	return Bootstrap(len(rows), func(pick []int) float64 { return AUROC(take(rows, pick)) })
}

// PairedAUROC compares the AUROC of two scores of the same rows.
func PairedAUROC(a, b []Scored) Difference {
	return pairedOf(len(a), func(pick []int) float64 { return AUROC(take(b, pick)) - AUROC(take(a, pick)) })
}

func take(rows []Scored, pick []int) []Scored {
	out := make([]Scored, len(pick))
	for i, k := range pick {
		out[i] = rows[k]
	}
	return out
}

// Point is a point of a risk-coverage curve: answering the share Coverage of the questions, the surest first, the share Risk of them is answered wrongly.
type Point struct {
	Coverage float64 `json:"coverage"`
	Risk     float64 `json:"risk"`
}

// RiskCoverage returns the curve of rows, True meaning that the answer was right, and the area under it.
func RiskCoverage(rows []Scored) (curve []Point, area float64) {
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b Scored) int { return cmp.Compare(b.Score, a.Score) })
	wrong := 0
	for i, r := range sorted {
		if !r.True {
			wrong++
		}
		p := Point{float64(i+1) / float64(len(sorted)), float64(wrong) / float64(i+1)}
		curve = append(curve, p)
		area += p.Risk / float64(len(sorted))
	}
	return curve, area
}

// calibrationBins is how many bins a calibration error is computed with.
const calibrationBins = 10

// ECE is the expected calibration error: how far, on average, the stated probability is from the share that is true, over ten equal bins.
func ECE(rows []Scored) float64 {
	var sum, trues, n [calibrationBins]float64
	for _, r := range rows {
		b := max(0, min(calibrationBins-1, int(r.Score*calibrationBins)))
		sum[b] += r.Score
		n[b]++
		if r.True {
			trues[b]++
		}
	}
	var e float64
	for b := range n {
		if n[b] > 0 {
			e += math.Abs(sum[b]-trues[b]) / float64(max(1, len(rows)))
		}
	}
	return e
}

// BestThreshold returns the score from which counting a row as true gives the best F1 of the false rows, as refusals are judged.
func BestThreshold(rows []Scored) (threshold, f1 float64) {
	candidates := make([]float64, 0, len(rows))
	for _, r := range rows {
		candidates = append(candidates, r.Score)
	}
	slices.Sort(candidates)
	for _, t := range slices.Compact(candidates) {
		if f := F1Below(rows, t); f > f1 {
			threshold, f1 = t, f
		}
	}
	return threshold, f1
}

// F1Below is the F1 of calling rows with a score under threshold false.
func F1Below(rows []Scored, threshold float64) float64 {
	var hit, called, falses float64
	for _, r := range rows {
		below := r.Score < threshold
		if below {
			called++
		}
		if !r.True {
			falses++
			if below {
				hit++
			}
		}
	}
	if hit == 0 {
		return 0
	}
	return 2 * hit / (called + falses)
}
