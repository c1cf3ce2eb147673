package llm

import (
	"errors"
	"fmt"

	"ragd/llm/gguf"
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

const defaultCacheBytes = 1 << 30

// planMemory computes what an engine needs without loading its model, and refuses a budget that is too small.
func planMemory(f *gguf.File, vocab int, c Config) (Memory, error) {
	if c.MaxSeqs < 0 || c.MaxQueue < 0 {
		return Memory{}, errors.New("the number of sequences and the length of the queue must not be negative")
	}
	plan, err := model.Plan(f, model.Options{Float: c.Float, KV: c.KV, ContextTokens: c.ContextTokens})
	if err != nil {
		return Memory{}, err
	}
	logits := 4 * int64(vocab) * int64(c.MaxSeqs*(1+c.MaxDraft)) // of the rows that are sampled in one step
	m := Memory{
		WeightBytes:     plan.Weights,
		ActivationBytes: plan.Activations + logits,
		PageBytes:       plan.Page,
		ContextTokens:   plan.Context,
	}
	one := kvcache.PagesFor(m.ContextTokens)
	budget := max(defaultCacheBytes, int64(one)*m.PageBytes)
	if c.MemoryBytes > 0 {
		budget = c.MemoryBytes - m.WeightBytes - m.ActivationBytes
		if fit := max(budget, 0) / m.PageBytes; fit < int64(one) {
			return Memory{}, fmt.Errorf("a context of %d tokens needs %d MiB for weights, %d for activations and %d for the cache, but the budget is %d MiB: raise it, or ask for a context of at most %d tokens",
				m.ContextTokens, m.WeightBytes>>20, m.ActivationBytes>>20, int64(one)*m.PageBytes>>20, c.MemoryBytes>>20, fit*kvcache.PageTokens)
		}
	}
	m.Pages = int(min(budget/m.PageBytes, int64(c.MaxSeqs)*int64(one)))
	m.CacheBytes = int64(m.Pages) * m.PageBytes
	return m, nil
}
