package model

import "math"

// gemma2Config: embeddings scaled by sqrt(E), a norm after each branch, tanh GELU,
// soft caps on the attention scores and on the logits, and a sliding window in
// every other layer, the first one included. The file's norm weights already
// contain Gemma's "+1".
func gemma2Config(m *metadata, c *Config) {
	c.Rope.Neox = true
	c.PostNorms = true
	c.Activation = GELUTanh
	c.EmbdScale = float32(math.Sqrt(float64(c.Embd)))
	c.AttnSoftCap = m.float("attn_logit_softcapping", 50) // the published values, which old files lack
	c.LogitSoftCap = m.float("final_logit_softcapping", 30)
	window := m.window()
	for i := 0; i < len(c.Layers); i += 2 {
		c.Layers[i].Window = window
	}
	// The 27B model scales by the width per head, not by the head itself.
	if len(c.Layers) == 46 && !m.f.Has("gemma2.attention.scale") {
		c.AttnScale = float32(1 / math.Sqrt(float64(c.Embd/c.Heads)))
	}
}
