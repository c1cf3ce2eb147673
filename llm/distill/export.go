package distill

import (
	"encoding/binary"
	"fmt"
	"math"

	"ragd/llm/gguf"
	"ragd/llm/quant"
)

// Save writes the student as a GGUF file of architecture llama with the teacher's tokenizer: a token without a row of its own gets the shared one.
// Matrices are stored as typ (F32, F16 or Q8_0), norms as F32. The file appears complete or not at all.
func (m *Student) Save(path, name string, t *Text, teacher *gguf.File, typ quant.Type) error {
	err := gguf.Create(path, "llama", func(w *gguf.Writer) error {
		s := m.Shape
		w.SetString("general.name", name)
		w.SetString("general.description", "student distilled on one user's text; a draft model, not an assistant")
		w.SetUint("general.quantization_version", 2)
		w.SetUint("llama.context_length", s.Context)
		w.SetUint("llama.embedding_length", s.Width)
		w.SetUint("llama.block_count", s.Layers)
		w.SetUint("llama.feed_forward_length", s.FFN)
		w.SetUint("llama.attention.head_count", s.Heads)
		w.SetUint("llama.attention.head_count_kv", s.Heads)
		w.SetUint("llama.rope.dimension_count", s.headDim())
		w.SetFloat("llama.rope.freq_base", ropeBase)
		w.SetFloat("llama.attention.layer_norm_rms_epsilon", normEps)
		w.SetUint("llama.vocab_size", len(t.Known)+t.Shared)
		w.CopyPrefix(teacher, "tokenizer.")
		tensors := m.tensors(t)
		for _, x := range tensors {
			w.Declare(x.name, x.typ(typ), x.shape...)
		}
		if err := w.Begin(); err != nil {
			return err
		}
		for _, x := range tensors {
			if err := x.write(w, x.typ(typ)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("distill: save %s: %w", path, err)
	}
	return nil
}

// tensor is one entry of the file; row r of the tensor is row rows[r] of data, or r when rows is nil.
type tensor struct {
	name  string
	shape []int
	data  []float32
	rows  []int32
}

func (x *tensor) typ(matrices quant.Type) quant.Type {
	if len(x.shape) == 1 {
		return quant.F32
	}
	return matrices
}

func (x *tensor) write(w *gguf.Writer, typ quant.Type) error {
	cols := x.shape[0]
	nbytes, err := typ.RowBytes(cols)
	if err != nil {
		return err
	}
	row := make([]byte, nbytes)
	rows := len(x.data) / cols
	if x.rows != nil {
		rows = len(x.rows)
	}
	for r := range rows {
		from := r
		if x.rows != nil {
			from = int(x.rows[r])
		}
		src := x.data[from*cols:][:cols]
		if typ == quant.F32 {
			for i, v := range src {
				binary.LittleEndian.PutUint32(row[4*i:], math.Float32bits(v))
			}
		} else if err := quant.Encode(typ, row, src); err != nil {
			return err
		}
		if err := w.Write(x.name, row); err != nil {
			return err
		}
	}
	return nil
}

func (m *Student) tensors(t *Text) []tensor {
	e, f := m.Shape.Width, m.Shape.FFN
	classes := make([]int32, len(t.Known)+t.Shared)
	for id := range classes {
		classes[id] = t.Class(int32(id))
	}
	all := []tensor{{"token_embd.weight", []int{e, len(classes)}, m.embd, classes}, {"output_norm.weight", []int{e}, m.norm, nil}}
	for i := range m.layers {
		b, prefix := &m.layers[i], fmt.Sprintf("blk.%d.", i)
		all = append(all,
			tensor{prefix + "attn_norm.weight", []int{e}, b.attnNorm, nil}, tensor{prefix + "ffn_norm.weight", []int{e}, b.ffnNorm, nil},
			tensor{prefix + "attn_q.weight", []int{e, e}, b.q, nil}, tensor{prefix + "attn_k.weight", []int{e, e}, b.k, nil},
			tensor{prefix + "attn_v.weight", []int{e, e}, b.v, nil}, tensor{prefix + "attn_output.weight", []int{e, e}, b.o, nil},
			tensor{prefix + "ffn_gate.weight", []int{e, f}, b.gate, nil}, tensor{prefix + "ffn_up.weight", []int{e, f}, b.up, nil},
			tensor{prefix + "ffn_down.weight", []int{f, e}, b.down, nil})
	}
	return all
}
