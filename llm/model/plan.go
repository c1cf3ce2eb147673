package model

import (
	"fmt"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/quant"
)

// MemoryPlan is what loading a model takes, in bytes, known before loading it.
type MemoryPlan struct {
	Weights     int64 // repacked, within a few percent
	Activations int64 // buffers of one forward pass
	Page        int64 // keys and values of kernel.PageTokens positions in all layers
	Pages       int   // that Options ask for
	Context     int   // positions of a sequence that Options ask for
}

// Total is the memory of the model with its pages.
func (p *MemoryPlan) Total() int64 { return p.Weights + p.Activations + p.Page*int64(p.Pages) }

// Plan computes what Load(f, p, o) will take.
func Plan(f *gguf.File, o Options) (*MemoryPlan, error) {
	c, err := ReadConfig(f)
	if err != nil {
		return nil, fmt.Errorf("model: plan %s: %w", f.Path(), err)
	}
	context, pages, err := o.cache(c)
	if err != nil {
		return nil, fmt.Errorf("model: plan %s: %w", f.Path(), err)
	}
	plan := &MemoryPlan{
		Activations: 4 * blockRows * int64(c.activations()),
		Page:        int64(len(c.Layers)) * int64(kernel.KVPageBytes(o.KV, c.KVHeads, c.HeadDim)),
		Pages:       pages,
		Context:     context,
	}
	for _, t := range f.Tensors() {
		if o.Float || t.Type == quant.F32 {
			plan.Weights += 4 * int64(t.Rows()) * int64(t.Cols())
		} else {
			plan.Weights += int64(len(t.Data))
		}
	}
	return plan, nil
}

// activations is the number of floats per row in buffers.
func (c *Config) activations() int {
	return 2*c.Embd + 2*c.Heads*c.HeadDim + 2*c.KVHeads*c.HeadDim + 2*c.FFN
}
