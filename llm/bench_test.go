package llm

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/kernel"
)

// BenchmarkDecode measures generated tokens per second of SmolLM2, all streams together.
func BenchmarkDecode(b *testing.B) {
	for _, streams := range []int{1, 8} {
		b.Run(fmt.Sprintf("smollm2-q4_1/streams=%d", streams), func(b *testing.B) {
			e := realModel(b, Config{KV: kernel.KVF16, ContextTokens: 512})
			prompt := e.Tokenizer().Encode("Once upon a time there was", true, false)
			tokens := 0
			for b.Loop() {
				var wg sync.WaitGroup
				var mu sync.Mutex
				for range streams {
					wg.Add(1)
					go func() {
						defer wg.Done()
						_, u := answerOf(b, e, Request{Prompt: prompt, MaxTokens: 64})
						mu.Lock()
						tokens += u.OutputTokens
						mu.Unlock()
					}()
				}
				wg.Wait()
			}
			b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tok/s")
		})
	}
}

// BenchmarkFirstToken measures the time to the first token with a warm system prompt and without one.
func BenchmarkFirstToken(b *testing.B) {
	e := realModel(b, Config{KV: kernel.KVF16, ContextTokens: 1024})
	system := make([]Token, 600)
	for i := range system {
		system[i] = Token(1000 + i)
	}
	question := e.Tokenizer().Encode("Why does it rain?", false, false)
	for _, warm := range []bool{false, true} {
		b.Run(fmt.Sprintf("smollm2-q4_1/prompt=600/warm=%v", warm), func(b *testing.B) {
			n := 0
			for b.Loop() {
				r := Request{Prompt: append(system[:600:600], question...), MaxTokens: 1, Namespace: "warm"}
				if !warm {
					r.Namespace = fmt.Sprint(n)
				}
				n++
				_, u := answerOf(b, e, r)
				require.Equal(b, 1, u.OutputTokens)
			}
		})
	}
}
