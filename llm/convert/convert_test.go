package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/gguf"
	"ragd/llm/quant"
)

// refs returns a file or folder of the references, or skips.
func refs(t *testing.T, parts ...string) string {
	t.Helper()
	root := os.Getenv("RAGD_REFS")
	if root == "" {
		t.Skip("RAGD_REFS is not set: it names the folder with the handed references")
	}
	path := filepath.Join(append([]string{root, "refs"}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("RAGD_REFS lacks a reference: %v", err)
	}
	return path
}

func open(t *testing.T, path string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// requireSame: got has every key and tensor of want, with the same values bit for bit. Keys that are matters of taste
// are left out.
func requireSame(t *testing.T, want, got *gguf.File, ignored ...string) {
	t.Helper()
	for _, key := range want.Keys() {
		if strings.HasPrefix(key, "general.") && key != "general.architecture" || contains(ignored, key) {
			continue
		}
		require.True(t, got.Has(key), "the key %s is missing", key)
		require.Equal(t, want.Describe(key), got.Describe(key), key)
		if words, ok := want.Strings(key); ok {
			have, _ := got.Strings(key)
			require.Equal(t, words, have, key)
		}
		if ints, ok := want.Ints(key); ok {
			have, _ := got.Ints(key)
			require.Equal(t, ints, have, key)
		}
	}
	for _, w := range want.Tensors() {
		g, ok := got.Tensor(w.Name)
		require.True(t, ok, "the tensor %s is missing", w.Name)
		require.Equal(t, w.Shape, g.Shape, w.Name)
		require.Equal(t, w.Type, g.Type, w.Name)
		if w.Name == "rope_freqs.weight" { // computed, there in float32, here in float64
			a, b := make([]float32, w.Cols()), make([]float32, w.Cols())
			require.NoError(t, quant.Decode(w.Type, a, w.Data))
			require.NoError(t, quant.Decode(g.Type, b, g.Data))
			require.InEpsilonSlice(t, a, b, 1e-6)
			continue
		}
		require.Equal(t, w.Data, g.Data, w.Name)
	}
	require.Len(t, got.Tensors(), len(want.Tensors()))
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// TestHuggingFaceOracle: the same bytes as the independent converter made of the same checkpoints.
func TestHuggingFaceOracle(t *testing.T) {
	for _, name := range []string{"llama", "qwen2", "gemma3", "bert"} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "m.gguf")
			require.NoError(t, HuggingFace(refs(t, "hf", name), out, Options{}))
			requireSame(t, open(t, refs(t, "arch", name+".f32.gguf")), open(t, out), wordPieceKeys(name)...)
		})
	}
}
