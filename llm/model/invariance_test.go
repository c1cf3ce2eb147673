package model

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/kernel"
	"ragd/llm/quant"
)

// quantized stores the matrices as t; norms and biases stay as they are.
func quantized(t testing.TB, name string, kind quant.Type) string {
	return rewrite(t, archPath(name), edit{quant: func(tensor string) quant.Type {
		if isMatrix(tensor) {
			return kind
		}
		return quant.F32
	}})
}

func isMatrix(tensor string) bool {
	switch tensor {
	case "output.weight", "token_embd.weight":
		return true
	}
	var layer int
	var rest string
	if n, _ := fmt.Sscanf(tensor, "blk.%d.%s", &layer, &rest); n != 2 {
		return false
	}
	switch rest {
	case "attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_qkv.weight", "attn_output.weight", "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight":
		return true
	}
	return false
}

// A token's logits do not depend on how the prompt was cut, on the company in the
// batch, on what its pages held before or on the number of threads: bit for bit.
func TestInvariance(t *testing.T) {
	type variant struct {
		weights quant.Type
		kv      kernel.KVType
		float   bool
	}
	variants := []variant{
		{quant.Q8_0, kernel.KVF32, false},
		{quant.Q4_0, kernel.KVF16, false},
		{quant.Q5_0, kernel.KVInt8, false},
		{quant.Q8_0, kernel.KVMixed, false},
		{quant.Q4_0, kernel.KVInt16, false},
		{quant.F32, kernel.KVF32, true},
	}
	one, three := newPool(t, 1), newPool(t, 3)
	eachISA(t, func(t *testing.T) {
		for _, name := range []string{"llama-tied-gqa3", "gemma3", "qwen2"} {
			tokens := readReference(t, name).Cases[3].Tokens // 200
			for _, v := range variants {
				t.Run(fmt.Sprintf("%s/%s/%s", name, v.weights, v.kv), func(t *testing.T) {
					path := quantized(t, name, v.weights)
					o := Options{Float: v.float, KV: v.kv, KVPages: 48}
					m := openModel(t, path, one, o)
					want := newText(m, 12).feed(t, tokens, 1)
					for _, chunk := range []int{7, 16, 64, len(tokens)} {
						requireSameBits(t, want, newText(m, 12).feed(t, tokens, chunk), fmt.Sprintf("pieces of %d, pages reused", chunk))
					}
					threaded := openModel(t, path, three, o)
					requireSameBits(t, want, newText(threaded, 40).feed(t, tokens, 50), "three threads, other pages")
					requireSameBits(t, want, feedBatched(t, threaded, tokens), "in company")
				})
			}
		}
	})
}

// feedBatched feeds tokens in pieces of ten, each in one batch with a decode step
// before it and another prompt behind it.
func feedBatched(t testing.TB, m *Model, tokens []int32) [][]float32 {
	t.Helper()
	a, b, c := newText(m, 15), newText(m, 31), newText(m, 47)
	b.pages, c.pages = b.pages[:16], c.pages[:16]
	var rows [][]float32
	for i := 0; i < len(tokens); i += 10 {
		other := tokens[len(tokens)-10-i/2:][:5]
		batch := Batch{
			Tokens: append(append([]int32{tokens[i]}, tokens[i:i+10]...), other...),
			Seqs: []Seq{
				{Start: 0, N: 1, Pos: b.pos, Pages: b.pages},
				{Start: 1, N: 10, Pos: a.pos, Pages: a.pages},
				{Start: 11, N: 5, Pos: c.pos, Pages: c.pages},
			},
			Out: []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15},
		}
		require.NoError(t, m.Forward(&batch))
		for j := range 10 {
			rows = append(rows, batch.Logits[j*m.Vocab():][:m.Vocab()])
		}
		a.pos, b.pos, c.pos = a.pos+10, b.pos+1, c.pos+5
	}
	return rows
}

func requireSameBits(t testing.TB, want, got [][]float32, what string) {
	t.Helper()
	require.Len(t, got, len(want), what)
	for i := range want {
		for j := range want[i] {
			if want[i][j] != got[i][j] {
				require.Failf(t, "not the same bits", "%s: row %d logit %d is %v, was %v (largest difference %g)", what, i, j, got[i][j], want[i][j], maxDiff(t, want[i], got[i]))
			}
		}
	}
}

// A batch longer than a block gives the logits of its pieces.
func TestLongBatch(t *testing.T) {
	m := openModel(t, quantized(t, "llama", quant.Q8_0), newPool(t, 2), Options{})
	tokens := make([]int32, 500)
	for i := range tokens {
		tokens[i] = int32(i * 7 % m.Vocab())
	}
	want := newText(m, m.Pages()-1).feed(t, tokens, 100)
	requireSameBits(t, want, newText(m, m.Pages()-1).feed(t, tokens, len(tokens)), "500 rows at once")

	// The same with outputs of some rows only, and a second sequence across the
	// border of the block.
	s, other := newText(m, 15), newText(m, 31)
	b := Batch{
		Tokens: append(append([]int32{}, tokens[:200]...), tokens[:200]...),
		Seqs:   []Seq{{Start: 0, N: 200, Pages: s.pages}, {Start: 200, N: 200, Pages: other.pages[:16]}},
		Out:    []int{3, 199, 250, 255, 256, 399},
	}
	require.NoError(t, m.Forward(&b))
	for i, row := range []int{3, 199, 50, 55, 56, 199} {
		requireSameBits(t, want[row:row+1], [][]float32{b.Logits[i*m.Vocab():][:m.Vocab()]}, fmt.Sprintf("output %d", i))
	}
}

// A copied page continues like its original.
func TestCopyPage(t *testing.T) {
	m := openModel(t, archPath("gemma3"), newPool(t, 1), Options{Float: true})
	tokens := readReference(t, "gemma3").Cases[2].Tokens // 48
	s := newText(m, 5)
	s.feed(t, tokens[:40], 40)
	fork := &text{m: m, pages: []int32{s.pages[0], s.pages[1], 20}, pos: 40}
	m.CopyPage(20, s.pages[2])
	want := s.feed(t, tokens[40:], 8)
	s.pos = 40
	s.feed(t, tokens[:8], 8) // overwrites the original's last page
	requireSameBits(t, want, fork.feed(t, tokens[40:], 8), "after the fork")
}

// A step allocates no buffers once its shape was seen, only a few small control
// structures per matrix: inference must not drive the collector.
func TestForwardAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes sync.Pool forget buffers at random")
	}
	m := openModel(t, quantized(t, "llama", quant.Q8_0), newPool(t, 2), Options{})
	s := newText(m, m.Pages()-1)
	s.feed(t, []int32{1, 2, 3, 4, 5}, 5)
	b := Batch{Tokens: []int32{7}, Seqs: []Seq{{N: 1, Pos: 5, Pages: s.pages}}, Out: []int{0}}
	const steps = 20
	require.NoError(t, m.Forward(&b))
	least := uint64(math.MaxUint64)
	for range 5 { // a collection in between empties the pools of scratch buffers, so the best of a few rounds counts
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range steps {
			require.NoError(t, m.Forward(&b))
		}
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	require.Less(t, least/steps/uint64(len(m.layers)), uint64(8<<10), "bytes per step and layer: closures and, in plain Go, small scratch; never a buffer of activations")
}

func TestForwardRefusesBadBatches(t *testing.T) {
	m := openModel(t, archPath("llama"), newPool(t, 1), Options{KVPages: 4, ContextTokens: 64})
	pages := []int32{0, 1, 2, 3}
	for _, c := range []struct {
		name, message string
		batch         Batch
	}{
		{"token outside", "outside the vocabulary", Batch{Tokens: []int32{384}, Seqs: []Seq{{N: 1, Pages: pages}}}},
		{"token negative", "outside the vocabulary", Batch{Tokens: []int32{-1}, Seqs: []Seq{{N: 1, Pages: pages}}}},
		{"page outside", "page 4 of 4", Batch{Tokens: []int32{1}, Seqs: []Seq{{N: 1, Pages: []int32{4}}}}},
		{"page table too short", "has 1 pages, needs 2", Batch{Tokens: []int32{1}, Seqs: []Seq{{N: 1, Pos: 16, Pages: pages[:1]}}}},
		{"beyond the context", "the context is 64", Batch{Tokens: []int32{1}, Seqs: []Seq{{N: 1, Pos: 64, Pages: pages}}}},
		{"rows uncovered", "cover 1 of 2", Batch{Tokens: []int32{1, 2}, Seqs: []Seq{{N: 1, Pages: pages}}}},
		{"rows overlap", "must follow each other", Batch{Tokens: []int32{1, 2}, Seqs: []Seq{{N: 2, Pages: pages}, {Start: 1, N: 1, Pages: pages}}}},
		{"empty sequence", "must follow each other", Batch{Tokens: []int32{1}, Seqs: []Seq{{N: 0, Pages: pages}, {N: 1, Pages: pages}}}},
		{"output outside", "output rows", Batch{Tokens: []int32{1}, Seqs: []Seq{{N: 1, Pages: pages}}, Out: []int{1}}},
		{"outputs unordered", "output rows", Batch{Tokens: []int32{1, 2}, Seqs: []Seq{{N: 2, Pages: pages}}, Out: []int{1, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorContains(t, m.Forward(&c.batch), c.message)
		})
	}
	require.NoError(t, m.Forward(&Batch{}), "an empty batch is no work")
}
