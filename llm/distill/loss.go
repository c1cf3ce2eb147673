package distill

import (
	"math"

	"ragd/llm/kernel"
)

// Objective is what a causal student minimises per token: Soft·T²·H(p_T, q_T) + (1-Soft)·H(label, q). H is the cross-entropy in nats, p the teacher's
// distribution, q the student's and the index T both at temperature T; T² keeps the two terms' gradients of one size (Hinton).
type Objective struct {
	Temperature float32
	Soft        float32 // 1: only the teacher; 0: only the text, which needs no teacher
}

// row returns both cross-entropies of one token and sets dz to scale times the gradient of the objective by the logits z. dz may be nil.
//
// The last logit stands for each of shared tokens, so softmax counts it as often. p, which may be nil when Soft is 0, is the teacher's distribution at
// Temperature; its last element is the sum over the shared tokens. tmp and dz are as long as z.
func (o Objective) row(z, p []float32, label int32, shared int, scale float32, dz, tmp []float32) (soft, hard float64) {
	if dz != nil {
		clear(dz)
	}
	if p != nil {
		log := softmaxShared(tmp, z, 1/o.Temperature, shared)
		soft = log - float64(kernel.Dot(p, z)/o.Temperature)
		if dz != nil && o.Soft > 0 {
			w := scale * o.Soft * o.Temperature
			for i, q := range tmp {
				dz[i] = w * (q - p[i])
			}
		}
	}
	if p == nil || o.Temperature != 1 {
		hard = softmaxShared(tmp, z, 1, shared) - float64(z[label])
	} else {
		hard = soft + float64(kernel.Dot(p, z)) - float64(z[label])
	}
	if w := scale * (1 - o.Soft); dz != nil && w != 0 {
		for i, q := range tmp {
			dz[i] += w * q
		}
		dz[label] -= w
	}
	return soft, hard
}

// softmaxShared sets q to the softmax of z·factor, the last element being the sum over shared equal tokens, and returns the logarithm of the
// normaliser.
func softmaxShared(q, z []float32, factor float32, shared int) (logSum float64) {
	copy(q, z)
	if factor != 1 {
		kernel.Scale(q, factor)
	}
	last := len(q) - 1
	if shared > 0 {
		q[last] += float32(math.Log(float64(shared)))
	} else {
		q[last] = float32(math.Inf(-1))
	}
	top := kernel.ArgMax(q)
	largest := q[top]
	kernel.Softmax(q)
	return float64(largest) - math.Log(float64(q[top]))
}
