package bench

import (
	"fmt"
	"slices"
	"time"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/model"
)

// Case is one kind of work.
type Case struct {
	Prompt int // tokens prefilled; 0 in a decoding case
	Decode int // tokens decoded one after the other; 0 in a prefill case
	Depth  int // tokens that are in the cache before
}

// String names the case as llama-bench does: pp512, tg128, tg128 @ d2048.
func (c Case) String() string {
	name := fmt.Sprintf("pp%d", c.Prompt)
	if c.Decode > 0 {
		name = fmt.Sprintf("tg%d", c.Decode)
	}
	if c.Depth > 0 {
		name += fmt.Sprintf(" @ d%d", c.Depth)
	}
	return name
}

// tokens is the number of tokens whose time is taken.
func (c Case) tokens() int { return c.Prompt + c.Decode }

// Model is a loaded model with pages for one sequence.
type Model struct {
	model *model.Model
	pool  *kernel.Pool
	file  *gguf.File
	pages []int32
}

// Open loads the model at path for sequences of at most context tokens.
func Open(path string, threads, context int, kv kernel.KVType) (*Model, error) {
	file, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	pool := kernel.NewPool(threads)
	pages := (context + kernel.PageTokens - 1) / kernel.PageTokens
	m, err := model.Load(file, pool, model.Options{KV: kv, ContextTokens: context, KVPages: pages})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("bench: load %s: %w", path, closing(file, err))
	}
	b := &Model{model: m, pool: pool, file: file, pages: make([]int32, pages)}
	for i := range b.pages {
		b.pages[i] = int32(i)
	}
	return b, nil
}

func closing(file *gguf.File, err error) error {
	_ = file.Close() // the load error is what matters
	return err
}

// Close frees the model.
func (b *Model) Close() error {
	b.model.Close()
	b.pool.Close()
	return b.file.Close()
}

// Threads returns the number of worker threads.
func (b *Model) Threads() int { return b.pool.Threads() }

// chunk is the prefill step: what the scheduler hands out when nobody else decodes.
const chunk = 512

// Run does c once and returns tokens per second.
func (b *Model) Run(c Case) (float64, error) {
	if err := b.prefill(0, c.Depth); err != nil {
		return 0, err
	}
	started := time.Now()
	if err := b.prefill(c.Depth, c.Prompt); err != nil {
		return 0, err
	}
	for i := range c.Decode {
		if err := b.forward(c.Depth+i, 1); err != nil {
			return 0, err
		}
	}
	return float64(c.tokens()) / time.Since(started).Seconds(), nil
}

func (b *Model) prefill(pos, n int) error {
	for n > 0 {
		step := min(n, chunk)
		if err := b.forward(pos, step); err != nil {
			return err
		}
		pos, n = pos+step, n-step
	}
	return nil
}

// forward runs n tokens from position pos; which tokens they are does not matter for the time.
func (b *Model) forward(pos, n int) error {
	batch := model.Batch{Tokens: make([]int32, n), Seqs: []model.Seq{{N: n, Pos: pos, Pages: b.pages}}, Out: []int{n - 1}}
	for i := range batch.Tokens {
		batch.Tokens[i] = int32((pos+i)*7919%997 + 3)
	}
	return b.model.Forward(&batch)
}

// Median returns the middle of rates; the mean of the middle two when their number is even.
func Median(rates []float64) float64 {
	if len(rates) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(rates))
	return (s[len(s)/2] + s[(len(s)-1)/2]) / 2
}
