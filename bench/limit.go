package bench

import (
	"fmt"
	"strings"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/model"
)

// Limits is what the machine can do at most, measured with the threads and the instruction set of the run.
type Limits struct {
	BytesPerSecond float64 // read from huge pages
	OpsPerSecond   float64 // int8, a multiplication with its addition counts two
}

// MeasureLimits takes about a second. nbytes is the size of the weights that are read again and again; a large cache may hold a part of them.
func MeasureLimits(threads, nbytes int) Limits {
	pool := kernel.NewPool(threads)
	defer pool.Close()
	return Limits{BytesPerSecond: kernel.MeasureRereadBandwidth(pool, nbytes), OpsPerSecond: kernel.MeasureInt8Peak(pool)}
}

// bracket measures the limits before and after do and returns the higher ones: virtual machines change their speed from one second to the next.
func bracket(threads, nbytes int, do func() error) (Limits, error) {
	before := MeasureLimits(threads, nbytes)
	if err := do(); err != nil {
		return Limits{}, err
	}
	after := MeasureLimits(threads, nbytes)
	return Limits{max(before.BytesPerSecond, after.BytesPerSecond), max(before.OpsPerSecond, after.OpsPerSecond)}, nil
}

// Cost is what a model asks of the machine.
//
// Decoding a token reads every weight and the keys and values of the tokens before it, so it takes at least
// (WeightBytes + depth*CacheBytes) / Limits.BytesPerSecond; prefilling one takes at least PromptOps / Limits.OpsPerSecond. The operations of attention and
// of the norms are left out, which makes the limit of prefill a little too high and the share of it a little too low.
type Cost struct {
	WeightBytes int64   // read per step, as in the file: all matrices but an embedding table that only looks up
	CacheBytes  int64   // per token in the cache and token decoded
	PromptOps   float64 // per prompt token: the matrices of the layers
	TokenOps    float64 // per decoded token: these and the output matrix
}

// ReadCost reads the cost of the model at path with that cache.
func ReadCost(path string, kv kernel.KVType) (Cost, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return Cost{}, err
	}
	defer f.Close()
	plan, err := model.Plan(f, model.Options{KV: kv})
	if err != nil {
		return Cost{}, fmt.Errorf("bench: cost of %s: %w", path, err)
	}
	c := Cost{CacheBytes: plan.Page / kernel.PageTokens}
	_, untied := f.Tensor("output.weight")
	for _, t := range f.Tensors() {
		if t.Name == "token_embd.weight" && untied {
			continue
		}
		c.WeightBytes += int64(len(t.Data))
		ops := 2 * float64(t.Rows()) * float64(t.Cols())
		if strings.HasPrefix(t.Name, "blk.") {
			c.PromptOps += ops
		}
		c.TokenOps += ops
	}
	return c, nil
}

// prefillRows is how many prompt tokens pass the layers together; the weights are read once for them. It must match blockRows of package model.
const prefillRows = 256

// prefill sets what r, prompt tokens per second, is measured against.
func (c Cost) prefill(r *Row, l Limits) {
	r.Ops, r.Bytes = c.PromptOps, float64(c.WeightBytes)/prefillRows
	r.Limit = l.OpsPerSecond / r.Ops
}

// decode sets what r, the decoded tokens per second of that many streams together, is measured against. Each stream has depth tokens in the cache, shared
// of them the same for all. Memory delivers weights and cache once per step; the arithmetic of many streams can take longer than that.
func (c Cost) decode(r *Row, l Limits, streams, depth, shared int) {
	step := float64(c.WeightBytes) + float64(c.CacheBytes)*float64(shared+streams*(depth-shared))
	r.Ops, r.Bytes = c.TokenOps, step/float64(streams)
	r.Limit = min(l.BytesPerSecond/r.Bytes, l.OpsPerSecond/r.Ops)
}
