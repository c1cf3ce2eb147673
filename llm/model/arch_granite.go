package model

// graniteConfig: llama with four multipliers.
func graniteConfig(m *metadata, c *Config) {
	c.EmbdScale = m.float("embedding_scale", 1)
	c.ResidualScale = m.float("residual_scale", 1)
	if s := m.float("logit_scale", 1); s != 0 {
		c.LogitScale = 1 / s
	} else {
		m.fail("metadata granite.logit_scale must not be 0")
	}
}
