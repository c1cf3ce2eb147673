package model

// qwen2Config covers Qwen2 and Qwen2.5 (also Coder): biases on q, k and v.
func qwen2Config(_ *metadata, c *Config) {
	c.Rope.Neox = true
	c.QKVBias = true
}
