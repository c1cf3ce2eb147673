package distill

import (
	"math"

	"ragd/llm/kernel"
)

// adam is Adam with decoupled weight decay (AdamW) over a flat list of weights.
type adam struct {
	step        int
	mean, power []float32
}

const (
	adamBeta1 = 0.9
	adamBeta2 = 0.98 // short runs: the average over 50 steps follows, that over 1000 would not
	adamEps   = 1e-8
)

func newAdam(n int) *adam { return &adam{mean: make([]float32, n), power: make([]float32, n)} }

// adamPerTask weights make a task; the number is fixed so that the gradient's norm does not depend on the machine.
const adamPerTask = 1 << 15

// update moves w against the gradient g, which is scaled down when its norm exceeds clip, and returns that norm. decay is nil or says which weights
// shrink by rate·weightDecay.
func (a *adam) update(p *kernel.Pool, w, g []float32, rate, weightDecay, clip float64, decay []bool) (norm float64) {
	a.step++
	tasks := (len(w) + adamPerTask - 1) / adamPerTask
	sums := make([]float64, tasks)
	p.Run(tasks, func(task, _ int) {
		part := g[task*adamPerTask : min(len(g), (task+1)*adamPerTask)]
		sums[task] = float64(kernel.Dot(part, part))
	})
	for _, s := range sums {
		norm += s
	}
	norm = math.Sqrt(norm)
	factor := float32(1)
	if clip > 0 && norm > clip {
		factor = float32(clip / norm)
	}
	c1, c2 := 1-math.Pow(adamBeta1, float64(a.step)), 1-math.Pow(adamBeta2, float64(a.step))
	size := float32(rate / c1)
	invC2 := float32(1 / c2)
	shrink := float32(rate * weightDecay)
	p.Run(tasks, func(task, _ int) {
		for i := task * adamPerTask; i < min(len(w), (task+1)*adamPerTask); i++ {
			d := g[i] * factor
			a.mean[i] += (1 - adamBeta1) * (d - a.mean[i])
			a.power[i] += (1 - adamBeta2) * (d*d - a.power[i])
			if decay != nil && decay[i] {
				w[i] -= shrink * w[i]
			}
			w[i] -= size * a.mean[i] / (float32(math.Sqrt(float64(a.power[i]*invC2))) + adamEps)
		}
	})
	return norm
}
