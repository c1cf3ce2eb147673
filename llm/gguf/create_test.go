package gguf

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/quant"
)

// Create leaves either the complete new file or what was there before, and never a temporary one.
func TestCreateIsAtomic(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	fill := func(data []byte, err error) func(w *Writer) error {
		return func(w *Writer) error {
			w.Declare("x", quant.F32, 2)
			if err := w.Begin(); err != nil {
				return err
			}
			if err := w.Write("x", data); err != nil {
				return err
			}
			return err
		}
	}
	require.NoError(t, Create(path, "llama", fill(make([]byte, 8), nil)))
	before, err := os.ReadFile(path)
	require.NoError(t, err)

	full := errors.New("no space left on device")
	require.ErrorIs(t, Create(path, "qwen2", fill(make([]byte, 8), full)), full)
	require.ErrorContains(t, Create(path, "qwen2", fill(make([]byte, 4), nil)), "the data is incomplete: x")
	require.Error(t, Create(filepath.Join(dir, "missing", "m.gguf"), "qwen2", fill(make([]byte, 8), nil)))
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)

	pipe := filepath.Join(dir, "device") // stands for /dev/null
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, taken := range []string{pipe, dir} {
		require.ErrorContains(t, Create(taken, "qwen2", fill(make([]byte, 8), nil)), "no regular file")
	}
	info, err := os.Lstat(pipe)
	require.NoError(t, err)
	require.Equal(t, fs.ModeNamedPipe, info.Mode().Type())

	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, "llama", f.Architecture())
}
