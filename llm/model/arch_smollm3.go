package model

// smollm3Config: llama without rotary embedding in every fourth layer.
func smollm3Config(_ *metadata, c *Config) {
	for i := range c.Layers {
		if (i+1)%4 == 0 {
			c.Layers[i].Rope = RopeNone
		}
	}
}
