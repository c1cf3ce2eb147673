package model

// phi3Config covers Phi-3, Phi-3.5 and Phi-4-mini: q|k|v and gate|up stored
// fused, optionally LongRoPE and rotary embedding on a part of each head.
func phi3Config(m *metadata, c *Config) {
	c.Rope.Neox = true
	c.Fused = true
	// Files made before the window was recorded are the 4k models, which were
	// trained with a window of 2047; later files state it, Phi-4 as 0.
	window := m.window()
	if !m.f.Has("phi3.attention.sliding_window") && c.Context == 4096 {
		window = 2047
	}
	for i := range c.Layers {
		c.Layers[i].Window = window
	}
}
