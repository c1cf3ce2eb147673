package model

import (
	"fmt"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
)

// Options of loading. The zero value loads the file's own quantization with a
// float32 cache for one sequence of the model's whole context.
type Options struct {
	// Float dequantizes the weights to float32 and keeps activations in float32:
	// four to eight times the memory, and the numbers of the reference
	// implementations.
	Float bool
	KV    kernel.KVType
	// ContextTokens bounds the positions of a sequence; 0 = what the model was
	// trained for. More than that is refused.
	ContextTokens int
	// KVPages is the number of cache pages of kernel.PageTokens positions each,
	// shared by all sequences; 0 = enough for one sequence of ContextTokens.
	KVPages int
}

// Model is a loaded causal decoder: weights, page store and the buffers of one
// forward pass. It belongs to one goroutine at a time.
type Model struct {
	config  *Config
	context int // positions of a sequence
	pages   int
	pool    *kernel.Pool
	arena   *kernel.Arena

	embd   lookup         // [V][E]
	norm   []float32      // [E]
	head   *kernel.Matrix // [V][E], or a row per label
	layers []layer
	observation
	buffers
}

// layer holds the weights of one block; nil where the Config has none.
type layer struct {
	inputs inputNames

	attnNorm, ffnNorm         []float32 // [E]
	qNorm, kNorm              []float32 // [D]
	postAttnNorm, postFFNNorm []float32 // [E]

	q      *kernel.Matrix // [H*D][E]
	k, v   *kernel.Matrix // [KV*D][E]
	qBias  []float32      // [H*D]
	kBias  []float32      // [KV*D]
	vBias  []float32      // [KV*D]
	o      *kernel.Matrix // [E][H*D]
	gate   *kernel.Matrix // [F][E]
	up     *kernel.Matrix // [F][E]
	down   *kernel.Matrix // [E][F]
	rope   *kernel.Rope   // nil = none
	attend kernel.Attention
}

// Load repacks the weights of f for the active ISA and allocates the page store.
// Nothing of f is referenced afterwards; the caller may close it.
func Load(f *gguf.File, p *kernel.Pool, o Options) (*Model, error) {
	var m *Model
	err := f.Reading(func() (err error) {
		m, err = load(f, p, o)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("model: load %s: %w", f.Path(), err)
	}
	return m, nil
}

func load(f *gguf.File, p *kernel.Pool, o Options) (*Model, error) {
	c, err := ReadConfig(f)
	if err != nil {
		return nil, err
	}
	context, pages, err := o.cache(c)
	if err != nil {
		return nil, err
	}
	m := &Model{config: c, context: context, pages: pages, pool: p, arena: kernel.NewArena()}
	l := newLoader(f, p, m.arena, o.Float)
	m.loadWeights(l, o.KV)
	if err := l.done(); err != nil {
		m.arena.Close()
		return nil, err
	}
	m.allocate()
	f.Release()
	return m, nil
}

// cache resolves the context and the number of pages.
func (o *Options) cache(c *Config) (context, pages int, err error) {
	context = o.ContextTokens
	if context == 0 {
		context = c.Context
	}
	if context < 0 || context > c.Context {
		return 0, 0, fmt.Errorf("a context of %d tokens was asked for; the model's is %d", context, c.Context)
	}
	pages = o.KVPages
	if pages == 0 {
		pages = (context + kernel.PageTokens - 1) / kernel.PageTokens
	}
	if pages < 0 || pages > maxCount {
		return 0, 0, fmt.Errorf("%d cache pages were asked for; at most %d are possible", pages, maxCount)
	}
	return context, pages, nil
}

func (m *Model) loadWeights(l *loader, kv kernel.KVType) {
	c := m.config
	md := &metadata{f: l.f, arch: c.Arch}
	l.ropeFactors(md, &c.Rope, m.context)
	if md.err != nil {
		l.fail("%w", md.err)
	}
	ropes := map[RopeKind]*kernel.Rope{RopeNone: nil}
	m.norm = l.vector("output_norm.weight", c.Embd)
	_, untied := l.f.Tensor("output.weight")
	switch {
	case c.Labels != nil:
		m.head = l.matrix(classifier, len(c.Labels), c.Embd)
		m.embd = l.lookup("token_embd.weight", c.Vocab, c.Embd)
		l.ignore("output.weight") // the classifier holds copies of its rows
	case untied:
		m.head = l.matrix("output.weight", c.Vocab, c.Embd)
		m.embd = l.lookup("token_embd.weight", c.Vocab, c.Embd)
	default:
		m.head = l.matrix("token_embd.weight", c.Vocab, c.Embd)
		m.embd = lookup{tied: m.head}
	}
	m.layers = make([]layer, len(c.Layers))
	for i := range m.layers {
		if l.err != nil {
			return
		}
		w := &m.layers[i]
		w.load(l, c, fmt.Sprintf("blk.%d.", i))
		kind := c.Layers[i].Rope
		if _, made := ropes[kind]; !made {
			r := &c.Rope
			if kind == RopeLocal {
				r = &c.LocalRope
			}
			ropes[kind] = r.kernel(m.context)
		}
		w.rope = ropes[kind]
		w.attend = kernel.Attention{
			KV:      kernel.NewKVStore(m.arena, kv, m.pages, c.KVHeads, c.HeadDim),
			Heads:   c.Heads,
			Scale:   c.AttnScale,
			SoftCap: c.AttnSoftCap,
			Window:  c.Layers[i].Window,
		}
	}
}

func (w *layer) load(l *loader, c *Config, prefix string) {
	qRows, kvRows := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	w.inputs = newInputNames(prefix, c.Fused)
	w.attnNorm = l.vector(prefix+"attn_norm.weight", c.Embd)
	w.ffnNorm = l.vector(prefix+"ffn_norm.weight", c.Embd)
	if c.Fused {
		qkv := l.split(prefix+"attn_qkv.weight", c.Embd, qRows, kvRows, kvRows)
		w.q, w.k, w.v = qkv[0], qkv[1], qkv[2]
		ffn := l.split(prefix+"ffn_up.weight", c.Embd, c.FFN, c.FFN)
		w.gate, w.up = ffn[0], ffn[1]
	} else {
		w.q = l.matrix(prefix+"attn_q.weight", qRows, c.Embd)
		w.k = l.matrix(prefix+"attn_k.weight", kvRows, c.Embd)
		w.v = l.matrix(prefix+"attn_v.weight", kvRows, c.Embd)
		w.gate = l.matrix(prefix+"ffn_gate.weight", c.FFN, c.Embd)
		w.up = l.matrix(prefix+"ffn_up.weight", c.FFN, c.Embd)
	}
	if c.QKVBias {
		w.qBias = l.vector(prefix+"attn_q.bias", qRows)
		w.kBias = l.vector(prefix+"attn_k.bias", kvRows)
		w.vBias = l.vector(prefix+"attn_v.bias", kvRows)
	}
	if c.QKNorm {
		w.qNorm = l.vector(prefix+"attn_q_norm.weight", c.HeadDim)
		w.kNorm = l.vector(prefix+"attn_k_norm.weight", c.HeadDim)
	}
	if c.PostNorms {
		w.postAttnNorm = l.vector(prefix+"post_attention_norm.weight", c.Embd)
		w.postFFNNorm = l.vector(prefix+"post_ffw_norm.weight", c.Embd)
	}
	w.o = l.matrix(prefix+"attn_output.weight", c.Embd, qRows)
	w.down = l.matrix(prefix+"ffn_down.weight", c.Embd, c.FFN)
}

// Config describes the architecture; read only.
func (m *Model) Config() *Config { return m.config }

// Vocab is the number of tokens, and of logits per row unless Config().Labels says what the logits stand for.
func (m *Model) Vocab() int { return m.config.Vocab }

// Pages is the number of cache pages; valid page numbers are [0, Pages).
func (m *Model) Pages() int { return m.pages }

// ContextTokens is the number of positions a sequence may have.
func (m *Model) ContextTokens() int { return m.context }

// Bytes is the memory held: weights, page store and buffers.
func (m *Model) Bytes() int { return m.arena.Bytes() }

// HugePages says in words which pages of the system back the memory.
func (m *Model) HugePages() string { return m.arena.HugePages() }

// CopyPage copies the keys and values of page src to dst in every layer (copy on
// write of a shared page).
func (m *Model) CopyPage(dst, src int32) {
	for i := range m.layers {
		m.layers[i].attend.KV.Copy(int(dst), int(src))
	}
}

// Close frees the weights and the page store. The model must not be used after.
func (m *Model) Close() { m.arena.Close() }
