package llm

import (
	"errors"
	"fmt"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/kvcache"
	"ragd/llm/model"
)

// Memory is what an engine occupies. Without a budget the cache holds Config.MaxSeqs whole contexts, but at most 1 GiB
// of them and at least one; with a budget it takes what weights and activations leave.
type Memory struct {
	WeightBytes     int64
	ActivationBytes int64
	CacheBytes      int64
	PageBytes       int64 // of the cache: kvcache.PageTokens tokens in all layers
	Pages           int
	ContextTokens   int
}

// Total returns the sum of all parts.
func (m Memory) Total() int64 { return m.WeightBytes + m.ActivationBytes + m.CacheBytes }

const (
	defaultCacheBytes = 1 << 30
	// activationRows is the number of tokens that a forward pass works on together; it must not be less than what
	// package model allocates for.
	activationRows = 512
)

// PlanMemory computes what a model needs without loading it: sched's and model's buffers for one forward pass included.
func planMemory(f *gguf.File, shape *model.Config, c Config) (Memory, error) {
	if c.ContextTokens < 0 || c.ContextTokens > shape.Context {
		return Memory{}, fmt.Errorf("a context of %d tokens was asked for; the model was trained for %d", c.ContextTokens, shape.Context)
	}
	if c.MaxSeqs < 0 || c.MaxQueue < 0 {
		return Memory{}, errors.New("the number of sequences and the length of the queue must not be negative")
	}
	m := Memory{ContextTokens: c.ContextTokens, WeightBytes: weightBytes(f, c.Float)}
	width := 3*shape.Embd + 3*shape.Heads*shape.HeadDim + 2*shape.KVHeads*shape.HeadDim + 2*shape.FFN
	m.ActivationBytes = 4 * int64(activationRows*width+c.MaxSeqs*shape.Vocab)
	m.PageBytes = int64(len(shape.Layers)) * int64(kernel.KVPageBytes(c.KV, shape.KVHeads, shape.HeadDim))

	one := kvcache.PagesFor(c.ContextTokens)
	budget := max(defaultCacheBytes, int64(one)*m.PageBytes)
	if c.MemoryBytes > 0 {
		budget = c.MemoryBytes - m.WeightBytes - m.ActivationBytes
		if fit := max(budget, 0) / m.PageBytes; fit < int64(one) {
			return Memory{}, fmt.Errorf("a context of %d tokens needs %d MiB for weights, %d for activations and %d for the cache, but the budget is %d MiB: raise it, or ask for a context of at most %d tokens",
				c.ContextTokens, m.WeightBytes>>20, m.ActivationBytes>>20, int64(one)*m.PageBytes>>20, c.MemoryBytes>>20, fit*kvcache.PageTokens)
		}
	}
	m.Pages = int(min(budget/m.PageBytes, int64(c.MaxSeqs)*int64(one)))
	m.CacheBytes = int64(m.Pages) * m.PageBytes
	return m, nil
}

// weightBytes is the memory of the repacked weights: as large as in the file, or four bytes each.
func weightBytes(f *gguf.File, float bool) int64 {
	var n int64
	for _, t := range f.Tensors() {
		if float {
			n += 4 * int64(t.Rows()) * int64(t.Cols())
		} else {
			n += int64(len(t.Data))
		}
	}
	return n
}
