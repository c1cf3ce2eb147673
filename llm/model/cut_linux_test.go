package model

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/gguf"
)

// Whoever cuts a file while it is read gets an error, not a process that the system kills.
func TestLoadOfAFileThatIsCut(t *testing.T) {
	for _, threads := range []int{1, 2} {
		raw, err := os.ReadFile(archPath("llama"))
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "m.gguf")
		require.NoError(t, os.WriteFile(path, raw, 0o644))
		f, err := gguf.Open(path)
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, os.Truncate(path, 4096))
		_, err = Load(f, newPool(t, threads), Options{})
		require.ErrorContains(t, err, "the file was cut or cannot be read any more")
	}
}
