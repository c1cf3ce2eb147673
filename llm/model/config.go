package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ragd/llm/gguf"
)

// Activation is the non-linearity of the feed-forward block.
type Activation uint8

const (
	SiLU     Activation = iota // silu(gate) * up
	GELUTanh                   // gelu(gate) * up, tanh approximation (Gemma)
	GELU                       // gelu(up), exact erf form; gated encoders: gelu(gate) * up
)

// Config is everything the forward pass of a causal decoder needs to know about
// an architecture. Dimension letters are those of package llm.
type Config struct {
	Arch    string
	Context int // positions the model was trained for

	Vocab, Embd, FFN        int      // V, E, F
	Labels                  []string // what the outputs of a classifier stand for, which has no row per token; nil = a text generator
	Heads, KVHeads, HeadDim int      // H, KV, D

	NormEps    float32
	Activation Activation

	EmbdScale     float32 // multiplies token embeddings
	ResidualScale float32 // multiplies each branch before it is added
	AttnScale     float32 // multiplies q·k
	LogitScale    float32 // multiplies the logits
	AttnSoftCap   float32 // 0 = none
	LogitSoftCap  float32 // 0 = none

	QKVBias   bool // biases on q, k and v
	QKNorm    bool // RMS norm over each head of q and k before rope
	PostNorms bool // RMS norm of each branch before it is added
	Fused     bool // the file stores q|k|v and gate|up as one matrix each

	Rope, LocalRope RopeConfig
	Layers          []LayerConfig
}

// LayerConfig is what differs between layers.
type LayerConfig struct {
	Window int // a position attends to the last Window positions; 0 = all
	Rope   RopeKind
}

// RopeKind selects the rotary embedding of a layer.
type RopeKind uint8

const (
	RopeGlobal RopeKind = iota // Config.Rope
	RopeLocal                  // Config.LocalRope: layers with a sliding window
	RopeNone                   // no positional signal in this layer
)

// architectures maps general.architecture to the function that completes a
// Config whose common fields are read already.
var architectures = map[string]func(*metadata, *Config){
	"llama":   llamaConfig,
	"qwen2":   qwen2Config,
	"qwen3":   qwen3Config,
	"gemma2":  gemma2Config,
	"gemma3":  gemma3Config,
	"phi3":    phi3Config,
	"granite": graniteConfig,
	"smollm3": smollm3Config,
}

// Architectures lists the supported causal architectures, sorted.
func Architectures() []string {
	names := make([]string, 0, len(architectures))
	for name := range architectures {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ReadConfig reads the Config of a causal decoder. It fails when the
// architecture is not supported or the metadata is inconsistent.
func ReadConfig(f *gguf.File) (*Config, error) {
	arch := f.Architecture()
	complete, ok := architectures[arch]
	if !ok {
		if _, isEncoder := encoderArchitectures[arch]; isEncoder {
			return nil, fmt.Errorf("architecture %q is an encoder, not a text generator; choose one of: %s", arch, strings.Join(Architectures(), ", "))
		}
		return nil, fmt.Errorf("architecture %q is not supported; supported: %s; as encoders %s", arch, strings.Join(Architectures(), ", "),
			strings.Join(EncoderArchitectures(), ", "))
	}
	m := &metadata{f: f, arch: arch}
	layers := m.layers()
	c := &Config{
		Arch:          arch,
		Context:       m.count("context_length", 0),
		Embd:          m.count("embedding_length", 0),
		FFN:           m.count("feed_forward_length", 0),
		Heads:         m.count("attention.head_count", 0),
		NormEps:       m.epsilon("attention.layer_norm_rms_epsilon"),
		EmbdScale:     1,
		ResidualScale: 1,
		LogitScale:    1,
		AttnScale:     m.float("attention.scale", 0),
	}
	if m.err != nil {
		return nil, m.err
	}
	c.KVHeads = m.count("attention.head_count_kv", c.Heads)
	c.HeadDim = m.count("attention.key_length", max(c.Embd/c.Heads, 1))
	if v := m.count("attention.value_length", c.HeadDim); v != c.HeadDim {
		m.fail("attention.value_length %d differs from the key length %d, which is not supported", v, c.HeadDim)
	}
	if c.AttnScale == 0 {
		c.AttnScale = float32(1 / math.Sqrt(float64(c.HeadDim)))
	}
	c.Rope = m.rope(c.HeadDim)
	c.Layers = make([]LayerConfig, layers)
	if embd, ok := f.Tensor("token_embd.weight"); ok {
		c.Vocab = embd.Rows()
	}
	complete(m, c)
	if m.err == nil {
		c.check(m)
	}
	if m.err != nil {
		return nil, m.err
	}
	return c, nil
}

// Outputs is the number of logits per row: of every token, or of every label.
func (c *Config) Outputs() int {
	if c.Labels != nil {
		return len(c.Labels)
	}
	return c.Vocab
}

func (c *Config) check(m *metadata) {
	switch {
	case c.Vocab == 0:
		m.fail("tensor token_embd.weight is missing")
	case c.Heads%c.KVHeads != 0:
		m.fail("%d attention heads cannot share %d key-value heads", c.Heads, c.KVHeads)
	case c.Rope.Dim > c.HeadDim || c.Rope.Dim%2 != 0:
		m.fail("rope.dimension_count %d does not fit a head of %d", c.Rope.Dim, c.HeadDim)
	}
}

// metadata reads the architecture's keys and keeps the first error, so that a
// Config reads as a list of assignments.
type metadata struct {
	f    *gguf.File
	arch string
	err  error
}

// maxCount bounds every dimension, so that products of two fit an int and a
// hostile header cannot ask for absurd buffers.
const maxCount = 1 << 24

func (m *metadata) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

// layers reads the number of blocks. A LayerConfig is allocated for each, so the
// bound is tighter than that of other dimensions; the deepest models have ~130.
func (m *metadata) layers() int {
	n := m.count("block_count", 0)
	if n > 1024 {
		m.fail("metadata %s.block_count %d exceeds 1024", m.arch, n)
		return 1
	}
	return n
}

// count reads a positive integer, which some files store as one value per
// layer; layers that differ are refused. byDefault 0 = the key is required.
func (m *metadata) count(key string, byDefault int) int {
	full := m.arch + "." + key
	if !m.f.Has(full) {
		if byDefault == 0 {
			m.fail("metadata %s is missing", full)
			return 1
		}
		return byDefault
	}
	v, ok := m.f.Uint(full)
	if values, isArray := m.f.Ints(full); !ok && isArray && len(values) > 0 {
		if slices.ContainsFunc(values, func(x int32) bool { return x != values[0] }) {
			m.fail("metadata %s differs between layers, which is not supported", full)
		}
		v, ok = uint64(max(values[0], 0)), true
	}
	if !ok || v == 0 || v > maxCount {
		m.fail("metadata %s must be an integer between 1 and %d", full, maxCount)
		return 1
	}
	return int(v)
}

// float reads a finite number.
func (m *metadata) float(key string, byDefault float32) float32 {
	full := m.arch + "." + key
	if !m.f.Has(full) {
		return byDefault
	}
	v, ok := m.f.Float(full)
	if !ok || math.IsNaN(v) || math.Abs(v) > math.MaxFloat32 {
		m.fail("metadata %s must be a finite number", full)
		return byDefault
	}
	return float32(v)
}

func (m *metadata) epsilon(key string) float32 {
	if !m.f.Has(m.arch + "." + key) {
		m.fail("metadata %s.%s is missing", m.arch, key)
		return 0
	}
	eps := m.float(key, 0)
	if eps < 0 || eps > 1 {
		m.fail("metadata %s.%s is %g, not a small positive number", m.arch, key, eps)
	}
	return eps
}

// window reads a sliding window; absent or 0 = none.
func (m *metadata) window() int {
	full := m.arch + ".attention.sliding_window"
	if v, ok := m.f.Uint(full); ok && v <= maxCount {
		return int(v)
	}
	if m.f.Has(full) {
		m.fail("metadata %s must be an integer between 0 and %d", full, maxCount)
	}
	return 0
}
