package model

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/kernel"
)

// Logits, best ids and greedy continuations equal those of transformers, however
// the prompt is cut. The float path differs from it only by the order of sums.
func TestReferences(t *testing.T) {
	p := newPool(t, 2)
	eachISA(t, func(t *testing.T) {
		for _, name := range causalReferences {
			t.Run(name, func(t *testing.T) {
				ref := readReference(t, name)
				m := openModel(t, archPath(name), p, Options{Float: true})
				for _, c := range ref.Cases {
					for _, chunk := range []int{len(c.Tokens), 1, 7} {
						rows := newText(m, m.Pages()-1).feed(t, c.Tokens, chunk)
						require.Less(t, maxDiff(t, c.LastLogits, rows[len(rows)-1]), 2e-3, "%d tokens in pieces of %d", len(c.Tokens), chunk)
						require.Equal(t, c.Argmax, argmaxes(rows), "%d tokens in pieces of %d", len(c.Tokens), chunk)
					}
				}
				got := newText(m, m.Pages()-1).greedy(t, ref.Greedy.Prompt, len(ref.Greedy.Continuation))
				require.Equal(t, ref.Greedy.Continuation, got)
			})
		}
	})
}

// The cache formats may cost a little accuracy, never the sense: with half floats
// or int8 the logits stay near the reference.
func TestCacheTypes(t *testing.T) {
	p := newPool(t, 2)
	for _, kv := range []struct {
		kind  kernel.KVType
		limit float64
	}{{kernel.KVF16, 0.02}, {kernel.KVInt16, 0.05}, {kernel.KVMixed, 0.3}, {kernel.KVInt8, 0.4}} {
		for _, name := range causalReferences {
			t.Run(fmt.Sprintf("%s/%s", kv.kind, name), func(t *testing.T) {
				m := openModel(t, archPath(name), p, Options{Float: true, KV: kv.kind})
				for _, c := range readReference(t, name).Cases {
					rows := newText(m, m.Pages()-1).feed(t, c.Tokens, len(c.Tokens))
					require.Less(t, maxDiff(t, c.LastLogits, rows[len(rows)-1]), kv.limit, "%d tokens", len(c.Tokens))
				}
			})
		}
	}
}
