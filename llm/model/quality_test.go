package model

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/tokenizer"
)

// TestQuality measures what the quantized path costs: the mean Kullback-Leibler divergence of its distributions from those
// of the float path with the same weights, on the second halves of windows of 512 tokens, as llama-perplexity
// --kl-divergence does. llamaCPP is what that says for the same file, text and windows against the weights in float32.
func TestQuality(t *testing.T) {
	if !long() {
		t.Skip("set RAGD_TEST_FULL=1 and RAGD_REFS")
	}
	const window, windows = 512, 3
	for _, c := range []struct {
		file     string
		llamaCPP float64
	}{
		{"SmolLM2-135M-Instruct.Q4_1", 0.003551},
		{"gemma-3-270m-q4_k_m", 0.004570},
		{"Qwen2.5-Coder-0.5B-Instruct-Q4_K_M", 0.001326},
	} {
		t.Run(c.file, func(t *testing.T) {
			tokens := wikiTokens(t, c.file)[:window*windows]
			pool := newPool(t, 0)
			exact := openModel(t, modelPath(t, c.file), pool, Options{Float: true, ContextTokens: window})
			var base [][]float32
			eachScored(t, exact, tokens, window, func(logits []float32) { base = append(base, logProbs(logits)) })
			for _, kv := range []kernel.KVType{kernel.KVF16, kernel.KVInt16, kernel.KVMixed, kernel.KVInt8} {
				m := openModel(t, modelPath(t, c.file), pool, Options{KV: kv, ContextTokens: window})
				sum, row := 0.0, 0
				eachScored(t, m, tokens, window, func(logits []float32) {
					for i, q := range logProbs(logits) {
						p := float64(base[row][i])
						sum += math.Exp(p) * (p - float64(q))
					}
					row++
				})
				t.Logf("%s, cache %s: mean KL divergence %.6f, llama.cpp %.6f, %d positions", c.file, kv, sum/float64(row), c.llamaCPP, row)
				if kv == kernel.KVF16 || kv == kernel.KVInt16 {
					require.LessOrEqual(t, sum/float64(row), c.llamaCPP)
				}
			}
		})
	}
}

// wikiTokens is the reference text as llama-perplexity sees it: every window begins with BOS if the vocabulary asks for it.
func wikiTokens(t *testing.T, file string) []int32 {
	f, err := gguf.Open(modelPath(t, file))
	require.NoError(t, err)
	defer f.Close()
	tok, err := tokenizer.FromGGUF(f)
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(refs(t), "llm", "ppl-wiki.txt"))
	require.NoError(t, err)
	ids := tok.Encode(string(raw), true, false)
	if bos := tok.Encode("", true, false); len(bos) == 1 {
		for i := 0; i < len(ids); i += 512 {
			ids[i] = bos[0]
		}
	}
	return ids
}

// eachScored calls fn with the logits of the second half of every window, but for its last position.
func eachScored(t *testing.T, m *Model, tokens []int32, window int, fn func(logits []float32)) {
	for lo := 0; lo < len(tokens); lo += window {
		scan(t, newText(m, m.Pages()-1), tokens[lo:lo+window], func(row int, logits []float32) {
			if row >= window/2 && row < window-1 {
				fn(logits)
			}
		})
	}
}

// logProbs are the logarithms of softmax(logits).
func logProbs(logits []float32) []float32 {
	out := make([]float32, len(logits))
	zero := logProb(logits, 0) - float64(logits[0])
	for i, x := range logits {
		out[i] = float32(float64(x) + zero)
	}
	return out
}
