//go:build linux

package ingest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/store"
)

// TestDiskFull: the file system under the database fills up in the middle of an ingestion. The error says so, nothing that was stored is lost, and with
// room again the same command completes the corpus.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=400m,mode=0700"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	cluster := clusterIn(t, dir)
	s, err := store.Open(t.Context(), cluster.URL(), nil)
	require.NoError(t, err)
	defer s.Close()
	folder := filepath.Join(t.TempDir(), "docs")
	require.NoError(t, os.Mkdir(folder, 0o755))
	write := func(from, to int) {
		for i := from; i < to; i++ {
			text := strings.Repeat(fmt.Sprintf("File %d fills the disk with words that take room. ", i), 400)
			require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("%03d.txt", i)), []byte(text), 0o644))
		}
	}
	write(0, 5)
	run(t, s, folder)

	// All the room that is left, but for a little.
	var fs syscall.Statfs_t
	require.NoError(t, syscall.Statfs(dir, &fs))
	ballast := filepath.Join(dir, "ballast")
	free := int64(fs.Bavail)*fs.Bsize - 1<<20
	require.NoError(t, os.WriteFile(ballast, make([]byte, free), 0o600))
	write(5, 200)
	_, err = pipeline(s).Run(t.Context(), "", "c", []string{folder}, nil)
	require.Error(t, err)
	require.ErrorIs(t, err, store.ErrDiskFull)
	require.ErrorContains(t, err, "free some space")

	require.NoError(t, os.Remove(ballast))
	run(t, s, folder)
	var live int
	require.NoError(t, s.Pool().QueryRow(t.Context(), `SELECT count(*) FROM documents WHERE live_version IS NOT NULL`).Scan(&live))
	require.Equal(t, 200, live)
}
