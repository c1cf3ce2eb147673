package model

import "ragd/llm/kernel"

// Observer sees the activations that go into the weight matrices named tensors: x is [rows][cols], before it is rounded
// for the kernels, valid during the call and read only.
type Observer func(tensors []string, x []float32, rows, cols int)

// Observe makes Forward call o for every matrix; nil ends it. In the last layer only the rows in Batch.Out are seen, so
// ask for the logits of all rows to see all of them.
func (m *Model) Observe(o Observer) { m.observer = o }

// observation is what an observed forward pass needs.
type observation struct {
	observer Observer
	normed   []float32 // [T][E]: the kernels norm and round in one step and keep no floats
}

// inputNames are the tensors of a layer by the input that they share.
type inputNames struct{ attention, output, ffn, down []string }

var headInput = []string{"output.weight"}

func newInputNames(prefix string, fused bool) inputNames {
	name := func(parts ...string) []string {
		for i, part := range parts {
			parts[i] = prefix + part + ".weight"
		}
		return parts
	}
	n := inputNames{output: name("attn_output"), down: name("ffn_down")}
	if fused {
		n.attention, n.ffn = name("attn_qkv"), name("ffn_up")
	} else {
		n.attention, n.ffn = name("attn_q", "attn_k", "attn_v"), name("ffn_gate", "ffn_up")
	}
	return n
}

// observe reports an input, normed by norm unless that is nil.
func (m *Model) observe(tensors []string, x, norm []float32, rows, cols int) {
	if m.observer == nil {
		return
	}
	x = x[:rows*cols]
	if norm != nil {
		if len(m.normed) < len(x) {
			m.normed = make([]float32, blockRows*cols)
		}
		for i := 0; i < len(x); i += cols {
			kernel.RMSNorm(m.normed[i:i+cols], x[i:i+cols], norm, m.config.NormEps)
		}
		x = m.normed[:len(x)]
	}
	m.observer(tensors, x, rows, cols)
}
