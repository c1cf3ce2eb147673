//go:build linux

package ingest_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/ingest"
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
	// A server that cannot even write its log any more stops and begins again.
	require.True(t, errors.Is(err, store.ErrDiskFull) || errors.Is(err, store.ErrUnavailable), "%v", err)
	if errors.Is(err, store.ErrDiskFull) {
		require.ErrorContains(t, err, "free some space")
	}

	// An upload: what came while there was room stays, nothing is there by half, and it can go on.
	require.NoError(t, os.Truncate(ballast, free-8<<20))
	content := make([]byte, 24<<20)
	rand.NewChaCha8([32]byte{}).Read(content) //nolint:errcheck // has none
	upload, _, err := s.CreateUpload(t.Context(), "", store.Upload{Corpus: "c", Path: "upload.bin", Size: int64(len(content))})
	require.NoError(t, err)
	at, err := s.AppendUpload(t.Context(), "", upload.ID, 0, bytes.NewReader(content))
	require.Less(t, at, int64(len(content)))
	require.True(t, errors.Is(err, store.ErrDiskFull) || errors.Is(err, store.ErrUnavailable), "%v", err)

	require.NoError(t, os.Remove(ballast))
	id := upload.ID
	require.Eventually(t, func() bool { // as a client does: ask how much there is, go on from there, again when the server went away meanwhile
		if upload, err = s.Upload(t.Context(), "", id); err == nil && upload.Received >= at {
			_, err = s.AppendUpload(t.Context(), "", id, upload.Received, bytes.NewReader(content[upload.Received:]))
		}
		return !errors.Is(err, store.ErrUnavailable)
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, err)
	require.GreaterOrEqual(t, upload.Received, at)
	_, err = s.DocumentByPath(t.Context(), "", "c", "upload.bin")
	require.ErrorIs(t, err, store.ErrNotFound)
	upload, err = s.FinishUpload(t.Context(), "", upload.ID, ingest.Candidate{Source: ingest.Source{Corpus: "c", Path: "upload.bin"}, Index: pipeline(s).Index()})
	require.NoError(t, err)
	var whole bool
	require.NoError(t, s.Pool().QueryRow(t.Context(), `SELECT string_agg(p.data, ''::bytea ORDER BY p.seq) = $2 FROM document_versions v
		JOIN content_pieces p ON p.tenant = v.tenant AND p.sha256 = v.sha256 WHERE v.document = $1`, upload.Document, content).Scan(&whole))
	require.True(t, whole)
	require.NoError(t, s.Remove(t.Context(), "", "c", "upload.bin")) // it is no text
	run(t, s, folder)
	var live int
	require.NoError(t, s.Pool().QueryRow(t.Context(), `SELECT count(*) FROM documents WHERE live_version IS NOT NULL`).Scan(&live))
	require.Equal(t, 200, live)
}
