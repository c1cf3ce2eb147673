package model

import (
	"fmt"
	"math"
	"sync"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
)

// Encoder is a loaded bidirectional model: texts in, hidden states, vectors or
// scores out. Several texts run packed behind each other without padding; a text's
// result does not depend on what it was packed with.
type Encoder struct {
	config *EncoderConfig
	pool   *kernel.Pool
	arena  *kernel.Arena

	tokens    lookup    // [V][E]
	types     []float32 // [types][E], nil = none
	positions []float32 // [Context][E], nil = rotary
	embdNorm  norm      // over the sum of the above
	outNorm   norm      // PreNorm only
	layers    []encoderLayer
	rank      *rankHead // nil = none

	mu sync.Mutex // guards the buffers
	encoderBuffers
}

// norm is a layer norm; b is nil when it has no bias.
type norm struct{ w, b []float32 } // [E]

type encoderLayer struct {
	q, k, v                                    *kernel.Matrix // [E][E]
	o                                          *kernel.Matrix // [E][E]
	gate, up                                   *kernel.Matrix // [F][E]; gate nil = not gated
	down                                       *kernel.Matrix // [E][F]
	qBias, kBias, vBias, oBias, upBias, dnBias []float32
	attnNorm                                   norm // PreNorm: before attention (layer 0: none); else after its sum
	ffnNorm                                    norm // PreNorm: before the feed-forward block; else after its sum
	rope                                       *kernel.Rope
	window                                     int
}

// rankHead scores a pair: out · tanh(dense · h + b) + b. Encoders without the dense
// layer (dense nil) apply out directly.
type rankHead struct {
	dense, denseBias []float32 // [E][E], [E]
	out, outBias     []float32 // [labels][E], [labels]
}

// LoadEncoder repacks the weights of f for the active ISA. Nothing of f is
// referenced afterwards; the caller may close it.
func LoadEncoder(f *gguf.File, p *kernel.Pool, o Options) (*Encoder, error) {
	var e *Encoder
	err := f.Reading(func() (err error) {
		e, err = loadEncoder(f, p, o)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("model: load %s: %w", f.Path(), err)
	}
	return e, nil
}

func loadEncoder(f *gguf.File, p *kernel.Pool, o Options) (*Encoder, error) {
	c, err := ReadEncoderConfig(f)
	if err != nil {
		return nil, err
	}
	e := &Encoder{config: c, pool: p.Background(), arena: kernel.NewArena()}
	l := newLoader(f, p, e.arena, o.Float)
	// Half floats have no integer kernel. Rounded to eight bits an encoder runs over
	// twice as fast, at a cosine of 0.998 or better to the exact vectors.
	l.round = !o.Float
	e.loadWeights(l)
	if err := l.done(); err != nil {
		e.arena.Close()
		return nil, err
	}
	e.bind()
	f.Release()
	return e, nil
}

func (e *Encoder) loadWeights(l *loader) {
	c := e.config
	e.tokens = l.lookup("token_embd.weight", c.Vocab, c.Embd)
	if c.Types > 0 {
		e.types = l.floats("token_types.weight", c.Embd, c.Types)
	}
	if c.Positions {
		// Fewer rows than the stated context would be read beyond the end.
		if t, ok := l.f.Tensor("position_embd.weight"); ok {
			c.Context = min(c.Context, t.Rows())
			e.positions = l.floats("position_embd.weight", c.Embd, t.Rows())
		} else {
			l.fail("tensor position_embd.weight is missing")
		}
	}
	e.embdNorm = l.norm("token_embd_norm", c.Embd, !c.PreNorm)
	if c.PreNorm {
		e.outNorm = l.norm("output_norm", c.Embd, false)
	}
	ropes := map[RopeKind]*kernel.Rope{RopeNone: nil}
	e.layers = make([]encoderLayer, len(c.Layers))
	for i := range e.layers {
		if l.err != nil {
			return
		}
		w := &e.layers[i]
		w.load(l, c, i)
		w.window = c.Layers[i].Window
		kind := c.Layers[i].Rope
		if _, made := ropes[kind]; !made {
			r := &c.Rope
			if kind == RopeLocal {
				r = &c.LocalRope
			}
			ropes[kind] = r.kernel(c.Context)
		}
		w.rope = ropes[kind]
	}
	e.rank = loadRankHead(l, c.Embd)
}

func (w *encoderLayer) load(l *loader, c *EncoderConfig, i int) {
	p, e := fmt.Sprintf("blk.%d.", i), c.Embd
	if c.FusedQKV {
		qkv := l.split(p+"attn_qkv.weight", e, e, e, e)
		w.q, w.k, w.v = qkv[0], qkv[1], qkv[2]
	} else {
		w.q = l.matrix(p+"attn_q.weight", e, e)
		w.k = l.matrix(p+"attn_k.weight", e, e)
		w.v = l.matrix(p+"attn_v.weight", e, e)
	}
	w.o = l.matrix(p+"attn_output.weight", e, e)
	switch {
	case c.FusedGate:
		ffn := l.split(p+"ffn_up.weight", e, c.FFN, c.FFN)
		w.gate, w.up = ffn[0], ffn[1]
	case c.Gated:
		w.gate = l.matrix(p+"ffn_gate.weight", c.FFN, e)
		w.up = l.matrix(p+"ffn_up.weight", c.FFN, e)
	default:
		w.up = l.matrix(p+"ffn_up.weight", c.FFN, e)
	}
	w.down = l.matrix(p+"ffn_down.weight", e, c.FFN)
	if c.Biases {
		w.qBias, w.kBias, w.vBias = l.vector(p+"attn_q.bias", e), l.vector(p+"attn_k.bias", e), l.vector(p+"attn_v.bias", e)
		w.oBias = l.vector(p+"attn_output.bias", e)
		w.upBias, w.dnBias = l.vector(p+"ffn_up.bias", c.FFN), l.vector(p+"ffn_down.bias", e)
	}
	if c.PreNorm {
		if i > 0 {
			w.attnNorm = l.norm(p+"attn_norm", e, false)
		}
		w.ffnNorm = l.norm(p+"ffn_norm", e, false)
		return
	}
	w.attnNorm = l.norm(p+"attn_output_norm", e, true)
	w.ffnNorm = l.norm(p+"layer_output_norm", e, true)
}

func (l *loader) norm(name string, n int, bias bool) norm {
	w := norm{w: l.vector(name+".weight", n)}
	if bias {
		w.b = l.vector(name+".bias", n)
	}
	return w
}

// loadRankHead returns nil when the file has no cls.output. cls, the dense layer
// between, is absent in models trained without it.
func loadRankHead(l *loader, embd int) *rankHead {
	t, ok := l.f.Tensor("cls.output.weight")
	if !ok {
		if _, orphan := l.f.Tensor("cls.weight"); orphan {
			l.ignore("cls.weight", "cls.bias") // the pooler of an embedding model: unused by its vectors
		}
		return nil
	}
	h := &rankHead{out: l.floats("cls.output.weight", embd, t.Rows())}
	h.outBias = l.optional("cls.output.bias", t.Rows())
	if _, ok := l.f.Tensor("cls.weight"); ok {
		h.dense = l.floats("cls.weight", embd, embd)
		h.denseBias = l.optional("cls.bias", embd)
	}
	return h
}

// score applies the head to the first token's hidden state.
func (h *rankHead) score(hidden []float32) []float32 {
	x := hidden
	if h.dense != nil {
		x = affine(h.dense, h.denseBias, hidden)
		for i, v := range x {
			x[i] = float32(math.Tanh(float64(v)))
		}
	}
	return affine(h.out, h.outBias, x)
}

// affine is w·x + b for a [rows][len(x)] matrix.
func affine(w, b, x []float32) []float32 {
	y := make([]float32, len(w)/len(x))
	for i := range y {
		y[i] = kernel.Dot(w[i*len(x):][:len(x)], x)
		if b != nil {
			y[i] += b[i]
		}
	}
	return y
}

// Config describes the architecture; read only.
func (e *Encoder) Config() *EncoderConfig { return e.config }

// Dim is the length of a vector.
func (e *Encoder) Dim() int { return e.config.Embd }

// MaxTokens is the longest text, special tokens included.
func (e *Encoder) MaxTokens() int { return e.config.Context }

// Pooling is what the file asks for; PoolNone when it does not say.
func (e *Encoder) Pooling() Pooling { return e.config.Pooling }

// HasRankHead reports whether Score works.
func (e *Encoder) HasRankHead() bool { return e.rank != nil }

// Bytes is the memory held by the weights; the buffers of a batch come on top.
func (e *Encoder) Bytes() int { return e.arena.Bytes() }

// Close frees the weights. The encoder must not be used after.
func (e *Encoder) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.arena.Close()
}
