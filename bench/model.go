package bench

import (
	"fmt"
	"slices"
	"time"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/model"
)

// Case is one kind of work of a single sequence.
type Case struct {
	Prompt int // tokens prefilled; 0 in a decoding case
	Decode int // tokens decoded one after the other; 0 in a prefill case
	Depth  int // tokens that are in the cache before
}

// String names the case: prefill 512, decode 128, decode 128 at 2048.
func (c Case) String() string {
	name := fmt.Sprintf("prefill %d", c.Prompt)
	if c.Decode > 0 {
		name = fmt.Sprintf("decode %d", c.Decode)
	}
	if c.Depth > 0 {
		name += fmt.Sprintf(" at %d", c.Depth)
	}
	return name
}

// tokens is the number of tokens whose time is taken.
func (c Case) tokens() int { return c.Prompt + c.Decode }

// Model is a loaded model, driven without scheduler and sampler, with pages for a number of tokens.
type Model struct {
	model  *model.Model
	pool   *kernel.Pool
	file   *gguf.File
	pages  []int32
	passes int // rows that went through the layers
	logits []float32
}

// Open loads the model at path with a cache of that many tokens, all of which one sequence may use.
func Open(path string, threads, tokens int, kv kernel.KVType) (*Model, error) {
	file, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	shape, err := model.ReadConfig(file)
	if err != nil {
		return nil, closing(file, err)
	}
	pool := kernel.NewPool(threads)
	pages := (tokens + kernel.PageTokens - 1) / kernel.PageTokens
	m, err := model.Load(file, pool, model.Options{KV: kv, ContextTokens: min(tokens, shape.Context), KVPages: pages})
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

// RunBatch lets streams sequences share a prompt, decodes that many tokens of each, one of every stream per step, and returns the decoded tokens of all
// streams per second. prompt must be a multiple of kernel.PageTokens.
func (b *Model) RunBatch(streams, prompt, decode int) (float64, error) {
	if err := b.prefill(0, prompt); err != nil {
		return 0, err
	}
	shared, own := prompt/kernel.PageTokens, (decode+kernel.PageTokens-1)/kernel.PageTokens
	if shared+streams*own > len(b.pages) {
		return 0, fmt.Errorf("bench: %d streams of %d tokens do not fit the cache", streams, decode)
	}
	batch := model.Batch{Tokens: make([]int32, streams), Out: make([]int, streams), Logits: b.logits}
	for i := range streams {
		first := shared + i*own
		pages := append(slices.Clone(b.pages[:shared]), b.pages[first:first+own]...)
		batch.Seqs = append(batch.Seqs, model.Seq{Start: i, N: 1, Pages: pages})
		batch.Out[i] = i
	}
	started := time.Now()
	for step := range decode {
		for i := range batch.Seqs {
			batch.Tokens[i], batch.Seqs[i].Pos = token(i*31+step), prompt+step
		}
		if err := b.model.Forward(&batch); err != nil {
			return 0, err
		}
	}
	elapsed := time.Since(started).Seconds()
	b.logits = batch.Logits
	return float64(streams*decode) / elapsed, nil
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

// token is an arbitrary token; which tokens run does not matter for the time.
func token(i int) int32 { return int32(i*7919%251 + 3) }

// forward runs n tokens from position pos.
func (b *Model) forward(pos, n int) error {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = token(pos + i)
	}
	return b.feed(tokens, pos)
}

// feed runs tokens from position pos; the logits of the last one are in b.logits then.
func (b *Model) feed(tokens []int32, pos int) error {
	batch := model.Batch{Tokens: tokens, Seqs: []model.Seq{{N: len(tokens), Pos: pos, Pages: b.pages}}, Out: []int{len(tokens) - 1}, Logits: b.logits}
	b.passes += len(tokens)
	err := b.model.Forward(&batch)
	b.logits = batch.Logits
	return err
}

// Greedy is an answer of a run that counted its work.
type Greedy struct {
	Tokens  []int32
	Passes  int // tokens that went through the layers
	Elapsed time.Duration
}

// Generate continues start greedily until the sequence has n tokens. With cache each of them passes the layers once; without, the whole sequence passes
// them again for every new token, as it must in an engine that keeps no keys and values.
func (b *Model) Generate(start int32, n int, cache bool) (Greedy, error) {
	before, begin := b.passes, time.Now()
	g := Greedy{Tokens: []int32{start}}
	for range n {
		input, pos := g.Tokens, 0
		if cache {
			pos = len(g.Tokens) - 1
			input = g.Tokens[pos:]
		}
		for len(input) > 0 {
			step := min(len(input), chunk)
			if err := b.feed(input[:step], pos); err != nil {
				return g, err
			}
			input, pos = input[step:], pos+step
		}
		g.Tokens = append(g.Tokens, argmax(b.logits))
	}
	g.Passes, g.Elapsed = b.passes-before, time.Since(begin)
	return g, nil
}

// argmax returns the first of the largest logits.
func argmax(logits []float32) int32 {
	best := 0
	for i, x := range logits {
		if x > logits[best] {
			best = i
		}
	}
	return int32(best)
}

// Median returns the middle of values; the mean of the middle two when their number is even.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return (s[len(s)/2] + s[(len(s)-1)/2]) / 2
}

// Percentile returns the smallest of values that at least share of them do not exceed.
func Percentile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	rank := int(share*float64(len(s))+0.999999) - 1
	return s[min(max(rank, 0), len(s)-1)]
}
