package llm

import (
	"errors"
	"fmt"
	"os"

	"ragd/llm/gguf"
	"ragd/llm/kvcache"
	"ragd/llm/model"
)

// Memory is what an engine occupies. Without a budget the cache holds Config.MaxSeqs whole contexts, but at most 1 GiB
// of them and no more than is available, and at least one; with a budget it takes what weights and activations leave.
type Memory struct {
	WeightBytes     int64
	ActivationBytes int64
	CacheBytes      int64 // keys and values of running requests and of the prefixes that are kept for later ones
	PageBytes       int64 // of the cache: kvcache.PageTokens tokens in all layers
	Pages           int
	ContextTokens   int
	AvailableBytes  int64  // that the system, or the container's limit, had left before; 0: unknown
	HugePages       string // which pages of the system back it, in words
}

// Total returns the sum of all parts.
func (m Memory) Total() int64 { return m.WeightBytes + m.ActivationBytes + m.CacheBytes }

// String is the line of the start-up report.
func (m Memory) String() string {
	s := fmt.Sprintf("%d MiB of weights, %d of keys and values (%d tokens, kept prefixes among them), %d of activations: %d MiB",
		m.WeightBytes>>20, m.CacheBytes>>20, m.Pages*kvcache.PageTokens, m.ActivationBytes>>20, m.Total()>>20)
	if m.AvailableBytes > 0 {
		s += fmt.Sprintf(" of %d available", m.AvailableBytes>>20)
	}
	if m.HugePages != "" {
		s += "; " + m.HugePages
	}
	return s
}

const defaultCacheBytes = 1 << 30

// planMemory computes what an engine needs without loading its model, and refuses what cannot fit.
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
		AvailableBytes:  availableMemory(os.DirFS("/")),
	}
	return m, m.fit(c)
}

// fit sizes the cache.
func (m *Memory) fit(c Config) error {
	one := kvcache.PagesFor(m.ContextTokens)
	budget := max(defaultCacheBytes, int64(one)*m.PageBytes)
	limit, where := c.MemoryBytes, "the budget is"
	switch {
	case limit > 0:
		budget = limit - m.WeightBytes - m.ActivationBytes
	case m.AvailableBytes > 0:
		limit, where = m.AvailableBytes, "the system or the container's limit leaves"
		budget = min(budget, limit-m.WeightBytes-m.ActivationBytes)
	}
	if fit := max(budget, 0) / m.PageBytes; fit < int64(one) {
		remedy := "choose a smaller model or one in fewer bits, or give it more memory"
		if fit > 0 {
			remedy = fmt.Sprintf("ask for a context of at most %d tokens, choose a smaller model, or give it more memory", fit*kvcache.PageTokens)
		}
		return fmt.Errorf("a context of %d tokens needs %d MiB for weights, %d for activations and %d for the cache, but %s %d MiB: %s",
			m.ContextTokens, m.WeightBytes>>20, m.ActivationBytes>>20, int64(one)*m.PageBytes>>20, where, limit>>20, remedy)
	}
	m.Pages = int(min(budget/m.PageBytes, int64(c.MaxSeqs)*int64(one)))
	m.CacheBytes = int64(m.Pages) * m.PageBytes
	return nil
}
