package model

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/kernel"
)

// BenchmarkForward measures a prompt in one batch and decoding steps of several
// sequences behind it, on all threads.
func BenchmarkForward(b *testing.B) {
	for _, file := range []string{"SmolLM2-135M-Instruct.Q4_1.gguf", "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf", "Qwen2.5-Coder-1.5B-Instruct-Q4_K_M.gguf"} {
		b.Run(file, func(b *testing.B) {
			const prompt, context = 512, 1024
			m := openModel(b, modelPath(b, file), newPool(b, 0), Options{KV: kernel.KVInt8, KVPages: 8 * context / kernel.PageTokens, ContextTokens: context})
			tokens := make([]int32, prompt)
			for i := range tokens {
				tokens[i] = int32(i*7919%40000 + 100)
			}
			b.Run(fmt.Sprintf("prefill/%d", prompt), func(b *testing.B) {
				s := newText(m, context/kernel.PageTokens-1)
				batch := Batch{Tokens: tokens, Seqs: []Seq{{N: prompt, Pages: s.pages}}, Out: []int{prompt - 1}}
				for b.Loop() {
					require.NoError(b, m.Forward(&batch))
				}
				b.ReportMetric(float64(prompt*b.N)/b.Elapsed().Seconds(), "tok/s")
			})
			for _, n := range []int{1, 4, 8} {
				b.Run(fmt.Sprintf("decode/%dx%d", n, prompt), func(b *testing.B) {
					var batch Batch
					for i := range n {
						s := newText(m, (i+1)*context/kernel.PageTokens-1)
						batch.Tokens = append(batch.Tokens, int32(i+5))
						batch.Seqs = append(batch.Seqs, Seq{Start: i, N: 1, Pos: prompt, Pages: s.pages[:context/kernel.PageTokens]})
						batch.Out = append(batch.Out, i)
					}
					for b.Loop() {
						require.NoError(b, m.Forward(&batch))
					}
					b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "tok/s")
				})
			}
		})
	}
}
