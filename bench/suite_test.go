package bench

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/embed"
	"ragd/internal/modeltest"
	"ragd/llm/kernel"
)

// tiny is a model of a few kilobytes; it has no tokenizer.
func tiny() string { return filepath.Join("..", "llm", "model", "testdata", "arch", "llama.f32.gguf") }

func TestGenerateCountsPasses(t *testing.T) {
	const n = 40
	m, err := Open(tiny(), 2, n+1, kernel.KVF32)
	require.NoError(t, err)
	defer m.Close()
	with, err := m.Generate(3, n, true)
	require.NoError(t, err)
	without, err := m.Generate(3, n, false)
	require.NoError(t, err)
	require.Equal(t, with.Tokens, without.Tokens)
	require.Len(t, with.Tokens, n+1)
	require.Equal(t, n, with.Passes)
	require.Equal(t, n*(n+1)/2, without.Passes)
}

func TestRunBatch(t *testing.T) {
	m, err := Open(tiny(), 2, 64, kernel.KVF32)
	require.NoError(t, err)
	defer m.Close()
	rate, err := m.RunBatch(2, 16, 8)
	require.NoError(t, err)
	require.Positive(t, rate)
	_, err = m.RunBatch(4, 16, 16)
	require.ErrorContains(t, err, "do not fit")
	rate, err = m.Run(Case{Decode: 4, Depth: 20})
	require.NoError(t, err)
	require.Positive(t, rate)
	_, err = Open("nowhere.gguf", 1, 64, kernel.KVF32)
	require.Error(t, err)
}

func TestCost(t *testing.T) {
	c, err := ReadCost(modeltest.Path(t, "SmolLM2-135M-Instruct.Q4_1"), kernel.KVInt16)
	require.NoError(t, err)
	require.InDelta(t, 96.6e6, float64(c.WeightBytes), 1e6)     // as llama.cpp says, less its metadata
	require.InDelta(t, 2*134.5e6, c.TokenOps, 1e6)              // 134.5 million parameters, the embedding table is the output matrix, too
	require.InDelta(t, 2*106.2e6, c.PromptOps, 1e6)             // without it: 49152 * 576
	require.InDelta(t, 30*3*64*2*2, float64(c.CacheBytes), 2e3) // layers, heads, elements, K and V, bytes; and scales
	var r Row
	c.decode(&r, Limits{BytesPerSecond: 60e9, OpsPerSecond: 900e9}, 1, 0, 0)
	require.InDelta(t, 60e9/float64(c.WeightBytes), r.Limit, 1)
	c.decode(&r, Limits{BytesPerSecond: 60e9, OpsPerSecond: 900e9}, 1000, 512, 512)
	require.InDelta(t, 900e9/c.TokenOps, r.Limit, 1) // many streams are limited by arithmetic
	c.prefill(&r, Limits{BytesPerSecond: 60e9, OpsPerSecond: 900e9})
	require.InDelta(t, 900e9/c.PromptOps, r.Limit, 1)
}

func TestWriter(t *testing.T) {
	require.Equal(t, newWriter(3).words(50), newWriter(3).words(50))
	require.NotEqual(t, newWriter(3).words(50), newWriter(4).words(50))
}

// TestSuite runs the works that are quick with a real model.
func TestSuite(t *testing.T) {
	rows := map[string]Row{}
	s := Suite{
		Path: modeltest.Path(t, "SmolLM2-135M-Instruct.Q4_1"), Threads: 2, KV: kernel.KVInt16, Repeat: 1, Clients: 1, CPU: "cpu",
		Embed:  Embedding{Path: modeltest.Path(t, "bge-small-en-v1.5-int8"), Profile: embed.Profile{Pooling: "cls"}},
		Report: func(r Row) error { rows[r.Work+" "+r.Peer] = r; return nil },
	}
	for _, work := range []string{"limits", "start", "first-token", "copy", "embed"} {
		require.NoError(t, s.Run(t.Context(), work), work)
	}
	require.Contains(t, rows["copy 100 words ragd, no guessing"].Note, "identical bytes in 2 runs")
	require.Greater(t, rows["first token, prefix seen ragd, cold"].Ratio, 1.0)
	for name, r := range rows {
		require.Positive(t, r.Value, name)
		require.Equal(t, "cpu", r.CPU)
		require.Equal(t, 2, r.Threads)
	}
	require.ErrorContains(t, s.Run(t.Context(), "swim"), "no work")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Run(ctx, "decode"), context.Canceled)
}
