package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ragd/llm/gguf"
)

// Pooling turns the hidden states of a text into one vector. The values are those
// of the GGUF key pooling_type.
type Pooling uint8

const (
	PoolNone Pooling = iota
	PoolMean         // mean over all tokens
	PoolCLS          // first token
	PoolLast         // last token
	PoolRank         // no vector: a score from the rank head
)

var poolings = []string{"none", "mean", "cls", "last", "rank"}

func (p Pooling) String() string {
	if int(p) < len(poolings) {
		return poolings[p]
	}
	return fmt.Sprintf("Pooling(%d)", uint8(p))
}

// ParsePooling reads the name of a pooling.
func ParsePooling(name string) (Pooling, error) {
	if i := slices.Index(poolings, name); i >= 0 {
		return Pooling(i), nil
	}
	return 0, fmt.Errorf("pooling %q is not known; known: %s", name, strings.Join(poolings, ", "))
}

// EncoderConfig is everything the forward pass of an encoder needs to know about
// an architecture.
type EncoderConfig struct {
	Arch    string
	Context int // longest text in tokens

	Vocab, Embd, FFN int // V, E, F
	Heads, HeadDim   int // H, D
	Types            int // segments; 0 = the model has none

	NormEps    float32
	Activation Activation
	Pooling    Pooling // what the file asks for; PoolNone when it does not say

	Positions bool // learned position embeddings (else rotary)
	Biases    bool // on every matrix
	PreNorm   bool // norm before each branch and after the last layer, without bias
	Gated     bool // act(gate) * up
	FusedQKV  bool // q|k|v stored as one matrix
	FusedGate bool // gate|up stored as one matrix

	Rope, LocalRope RopeConfig
	Layers          []LayerConfig
}

var encoderArchitectures = map[string]func(*metadata, *EncoderConfig){
	"bert":        bertConfig,
	"nomic-bert":  nomicBertConfig,
	"modern-bert": modernBertConfig,
}

// EncoderArchitectures lists the supported encoder architectures, sorted.
func EncoderArchitectures() []string {
	names := make([]string, 0, len(encoderArchitectures))
	for name := range encoderArchitectures {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// IsEncoder reports whether f holds an encoder that LoadEncoder accepts.
func IsEncoder(f *gguf.File) bool {
	_, ok := encoderArchitectures[f.Architecture()]
	return ok
}

// ReadEncoderConfig reads the config of an encoder.
func ReadEncoderConfig(f *gguf.File) (*EncoderConfig, error) {
	arch := f.Architecture()
	complete, ok := encoderArchitectures[arch]
	if !ok {
		return nil, fmt.Errorf("architecture %q is not a supported encoder; supported: %s", arch, strings.Join(EncoderArchitectures(), ", "))
	}
	m := &metadata{f: f, arch: arch}
	c := &EncoderConfig{
		Arch:    arch,
		Context: m.count("context_length", 0),
		Embd:    m.count("embedding_length", 0),
		FFN:     m.count("feed_forward_length", 0),
		Heads:   m.count("attention.head_count", 0),
		NormEps: m.epsilon("attention.layer_norm_epsilon"),
		Layers:  make([]LayerConfig, m.layers()),
	}
	if m.err != nil {
		return nil, m.err
	}
	if c.Embd%c.Heads != 0 {
		return nil, fmt.Errorf("embeddings of %d cannot be split into %d heads", c.Embd, c.Heads)
	}
	c.HeadDim = c.Embd / c.Heads
	if kind, ok := f.Uint(arch + ".pooling_type"); ok {
		if kind > uint64(PoolRank) {
			return nil, fmt.Errorf("metadata %s.pooling_type %d is not known", arch, kind)
		}
		c.Pooling = Pooling(kind)
	}
	if t, ok := f.Tensor("token_embd.weight"); ok {
		c.Vocab = t.Rows()
	}
	if t, ok := f.Tensor("token_types.weight"); ok {
		c.Types = t.Rows()
	}
	complete(m, c)
	if m.err == nil && c.Vocab == 0 {
		m.fail("tensor token_embd.weight is missing")
	}
	return c, m.err
}

// scale of q·k.
func (c *EncoderConfig) scale() float32 { return float32(1 / math.Sqrt(float64(c.HeadDim))) }
