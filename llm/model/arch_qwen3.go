package model

// qwen3Config: no biases, every head of q and k is normalised before rope. Files of rerankers may hold only the output
// rows of their two answers.
func qwen3Config(m *metadata, c *Config) {
	c.Rope.Neox = true
	c.QKNorm = true
	answers, ok := m.f.Tensor(classifier)
	if !ok {
		return
	}
	c.Labels = []string{"yes", "no"}
	if labels, ok := m.f.Strings(m.arch + ".classifier.output_labels"); ok {
		c.Labels = labels
	}
	if len(c.Labels) < 1 || len(c.Labels) != answers.Rows() {
		m.fail("tensor %s has %d rows for the labels %q", classifier, answers.Rows(), c.Labels)
	}
}

// classifier holds an output row per label.
const classifier = "cls.output.weight"
