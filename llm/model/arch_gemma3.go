package model

import "math"

// gemma3Config: embeddings scaled by sqrt(E), q and k norms, a norm after each
// branch, tanh GELU, and five sliding-window layers for each global one. The
// file's norm weights already contain Gemma's "+1".
//
// Files in circulation lack the keys for the local rope base and the pattern,
// hence the published values as defaults: base 10000, every sixth layer global.
func gemma3Config(m *metadata, c *Config) {
	const pattern = 6
	c.Rope.Neox = true
	c.QKNorm = true
	c.PostNorms = true
	c.Activation = GELUTanh
	c.EmbdScale = float32(math.Sqrt(float64(c.Embd)))
	c.LogitSoftCap = m.float("final_logit_softcapping", 0)

	// Local layers never use the long-context scaling of the global ones.
	c.LocalRope = RopeConfig{
		Base:      float64(m.float("rope.freq_base_swa", 10000)),
		Dim:       c.Rope.Dim,
		FreqScale: 1,
		MScale:    1,
		Neox:      true,
	}
	window := m.window()
	for i := range c.Layers {
		if window > 0 && i%pattern != pattern-1 {
			c.Layers[i] = LayerConfig{Window: window, Rope: RopeLocal}
		}
	}
	// The 27B model scales by the width per head, not by the head itself.
	if len(c.Layers) == 62 && !m.f.Has("gemma3.attention.scale") {
		c.AttnScale = float32(1 / math.Sqrt(float64(c.Embd/c.Heads)))
	}
}
