package model

// llamaConfig covers Llama 1 to 3.x, Mistral, SmolLM and TinyLlama: the base
// block with nothing added. Converters have permuted the rows of q and k so that
// rotary pairs are adjacent.
func llamaConfig(m *metadata, c *Config) {
	if n, ok := m.f.Uint("llama.expert_count"); ok && n > 0 {
		m.fail("mixture-of-experts models (llama.expert_count %d) are not supported", n)
	}
}
