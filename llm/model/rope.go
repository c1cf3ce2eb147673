package model

import (
	"math"

	"ragd/llm/kernel"
)

// RopeConfig describes one rotary embedding. The angle of pair i at position p
// is p * FreqScale * Base^(-2i/Dim) / Factors[i].
type RopeConfig struct {
	Base      float64
	Dim       int       // rotated leading part of a head; the rest stays as it is
	FreqScale float64   // linear position scaling; 1 = none
	Factors   []float32 // [Dim/2]; nil = all 1
	MScale    float32   // multiplies cos and sin (YaRN, LongRoPE); 1 = none
	Neox      bool      // pairs (i, i+Dim/2) instead of (2i, 2i+1)
}

// kernel builds the rotation for positions [0, context).
func (r *RopeConfig) kernel(context int) *kernel.Rope {
	return kernel.NewRope(r.Dim, r.Base, r.FreqScale, r.Factors, r.Neox, r.MScale, context)
}

// rope reads the rotary embedding and folds every scaling scheme into Factors
// and MScale, so that the kernel knows only one.
func (m *metadata) rope(headDim int) RopeConfig {
	r := RopeConfig{
		Base:      float64(m.float("rope.freq_base", 10000)),
		Dim:       m.count("rope.dimension_count", headDim),
		FreqScale: 1,
		MScale:    1,
	}
	if r.Base <= 0 {
		m.fail("metadata %s.rope.freq_base must be positive", m.arch)
		return r
	}
	factor := float64(m.float("rope.scaling.factor", 1))
	if factor < 1 {
		m.fail("metadata %s.rope.scaling.factor is %g; it must be at least 1", m.arch, factor)
		return r
	}
	switch kind, _ := m.f.String(m.arch + ".rope.scaling.type"); kind {
	case "", "none", "llama3", "longrope":
		// Llama 3 and LongRoPE come as tensors, read by ropeFactors.
	case "linear":
		r.FreqScale = 1 / factor
	case "yarn":
		m.yarn(&r, factor)
	default:
		m.fail("rope scaling %q is not supported; supported: none, linear, yarn, llama3, longrope", kind)
	}
	return r
}

// yarn mixes, per pair, the original frequency (fast pairs) and the interpolated
// one (slow pairs).
func (m *metadata) yarn(r *RopeConfig, factor float64) {
	if r.Dim > maxCount {
		return
	}
	original := float64(m.count("rope.scaling.original_context_length", m.count("context_length", 0)))
	betaFast := float64(m.float("rope.scaling.yarn_beta_fast", 32))
	betaSlow := float64(m.float("rope.scaling.yarn_beta_slow", 1))
	pair := func(rotations float64) float64 { // the pair that turns this often within the original context
		return float64(r.Dim) * math.Log(original/(rotations*2*math.Pi)) / (2 * math.Log(r.Base))
	}
	low := max(math.Floor(pair(betaFast)), 0)
	high := min(math.Ceil(pair(betaSlow)), float64(r.Dim-1))
	if high <= low {
		high = low + 0.001
	}
	r.Factors = make([]float32, r.Dim/2)
	for i := range r.Factors {
		ramp := min(max((float64(i)-low)/(high-low), 0), 1)
		r.Factors[i] = float32(1 / (ramp/factor + 1 - ramp))
	}
	r.MScale = m.float("rope.scaling.attn_factor", 1) * float32(1+0.1*math.Log(factor))
}

// ropeFactors reads the frequency factors that files carry as tensors:
// rope_freqs.weight (Llama 3.1) or the long and short sets of LongRoPE, of which
// the long one applies when the context exceeds the original one.
func (l *loader) ropeFactors(m *metadata, r *RopeConfig, context int) {
	name := "rope_freqs.weight"
	if _, ok := l.f.Tensor("rope_factors_long.weight"); ok {
		name = "rope_factors_short.weight"
		if original := m.count("rope.scaling.original_context_length", context); context > original {
			name = "rope_factors_long.weight"
		}
		l.ignore("rope_factors_long.weight", "rope_factors_short.weight")
		r.MScale = m.float("rope.scaling.attn_factor", 1)
	}
	if _, ok := l.f.Tensor(name); !ok {
		return
	}
	factors := l.vector(name, r.Dim/2)
	for _, x := range factors {
		if x <= 0 {
			l.fail("tensor %s holds the factor %g; factors must be positive", name, x)
			return
		}
	}
	r.Factors = factors
}
