package model

// bertConfig covers BERT and, with other tokenizers, the XLM-RoBERTa family:
// norms after each residual sum, biases everywhere, learned positions, exact
// GELU (not the tanh approximation).
func bertConfig(_ *metadata, c *EncoderConfig) {
	c.Activation = GELU
	c.Positions = true
	c.Biases = true
	for i := range c.Layers {
		c.Layers[i].Rope = RopeNone
	}
}

// nomicBertConfig: BERT with rotary positions, SiLU gates and no biases.
func nomicBertConfig(m *metadata, c *EncoderConfig) {
	c.Activation = SiLU
	c.Gated = true
	c.FusedQKV = true
	c.Rope = m.rope(c.HeadDim)
	c.Rope.Neox = true
	if n, ok := m.f.Uint("nomic-bert.moe_every_n_layers"); ok && n > 0 {
		m.fail("mixture-of-experts encoders (nomic-bert.moe_every_n_layers %d) are not supported", n)
	}
}

// modernBertConfig: norms before each branch (the first layer's attention reads
// the embedding norm directly), GELU gates, and a global layer followed by two
// whose tokens see only their neighbourhood.
func modernBertConfig(m *metadata, c *EncoderConfig) {
	const globalEvery = 3
	c.Activation = GELU
	c.PreNorm = true
	c.Gated = true
	c.FusedQKV = true
	c.FusedGate = true
	c.Rope = m.rope(c.HeadDim)
	c.Rope.Neox = true
	c.LocalRope = c.Rope
	c.LocalRope.Base = float64(m.float("rope.freq_base_swa", 10000))
	window := m.window()
	for i := range c.Layers {
		if window > 0 && i%globalEvery != 0 {
			c.Layers[i] = LayerConfig{Window: window, Rope: RopeLocal}
		}
	}
}
