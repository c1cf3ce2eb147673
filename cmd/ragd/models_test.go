package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/convert"
)

// TestOutputIsChecked: an output that cannot be written, or must not be, is refused before the work, and nothing is left or lost.
func TestOutputIsChecked(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "source.gguf")
	require.NoError(t, os.WriteFile(source, []byte("GGUF"), 0o600))
	require.NoError(t, os.Symlink(source, filepath.Join(dir, "link.gguf")))
	require.NoError(t, os.Link(source, filepath.Join(dir, "same.gguf")))
	for _, c := range []struct {
		out, message string
		force        bool
	}{
		{"source.gguf", "pass --force", false},
		{"source.gguf", "is the source itself", true},
		{"link.gguf", "is the source itself", true},
		{"same.gguf", "is the source itself", true},
		{".", "no regular file", true},
		{"missing/out.gguf", "cannot be written", false},
		{"source.gguf/out.gguf", "not a directory", false},
		{strings.Repeat("x", 300), "too long", false},
	} {
		require.ErrorContains(t, freeOutput(filepath.Join(dir, c.out), source, c.force), c.message, c.out)
	}
	require.ErrorContains(t, freeOutput(os.DevNull, source, true), "no regular file")
	require.NoError(t, freeOutput(filepath.Join(dir, "out.gguf"), source, false))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 3)
}

// TestQuantizeRefusesEarly: rounded sources and short texts are refused before anything is read or written.
func TestQuantizeRefusesEarly(t *testing.T) {
	dir := t.TempDir()
	source, short, out := filepath.Join(dir, "m.gguf"), filepath.Join(dir, "short.txt"), filepath.Join(dir, "out.gguf")
	require.NoError(t, convert.HuggingFace(filepath.Join(testModels, "hf", "bert-reranker"), source, convert.Options{}))
	require.NoError(t, os.WriteFile(short, []byte("Too short."), 0o600))
	a := &app{progress: &progress{out: &strings.Builder{}}, globals: globals{Threads: 1}}
	t.Cleanup(a.close)
	k := modelsQuantizeCmd{Source: source, Out: out, Type: "Q8_0", Text: short, Imatrix: short}
	require.ErrorContains(t, k.Run(ctxBinding{t.Context()}, a), "the evaluation text has 0 sentences")
	require.NoFileExists(t, out)
	k = modelsQuantizeCmd{Source: source, Out: out, Type: "Q8_0", JSON: true}
	require.NoError(t, k.Run(ctxBinding{t.Context()}, a))
	k = modelsQuantizeCmd{Source: out, Out: filepath.Join(dir, "again.gguf"), Type: "Q4_0", Imatrix: short}
	require.ErrorContains(t, k.Run(ctxBinding{t.Context()}, a), "(--requantize)")
}
