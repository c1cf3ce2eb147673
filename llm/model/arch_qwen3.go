package model

// qwen3Config: no biases, every head of q and k is normalised before rope.
func qwen3Config(_ *metadata, c *Config) {
	c.Rope.Neox = true
	c.QKNorm = true
}
