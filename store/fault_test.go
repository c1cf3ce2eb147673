package store_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/ingest"
	"ragd/internal/pgtest"
	"ragd/retrieve"
	"ragd/store"
	"ragd/store/localpg"
)

// The server is killed between the steps of a job: calls fail as unavailable, the server comes back at the same address, and the job goes on.
func TestServerKilledDuringAJob(t *testing.T) {
	pgtest.New(t) // decides about skipping
	ctx := context.Background()
	dir := t.TempDir()
	cluster, err := localpg.Start(ctx, dir, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Stop()) }()
	s, err := store.Open(ctx, cluster.URL(), quiet)
	require.NoError(t, err)
	defer s.Close()
	receive(t, s, "p", "some bytes")
	job := claim(t, s)
	require.NoError(t, s.SaveDocument(ctx, job, &ingest.Document{Text: "persistent words"}))

	pid, err := os.ReadFile(filepath.Join(dir, "pgdata", "postmaster.pid"))
	require.NoError(t, err)
	n, err := strconv.Atoi(strings.SplitN(string(pid), "\n", 2)[0])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(n, syscall.SIGKILL))

	ps := []ingest.Passage{{Text: "persistent words", End: 16, Language: "en"}}
	require.Eventually(t, func() bool {
		err := s.SavePassages(ctx, job, ps)
		if err != nil {
			require.ErrorIs(t, err, store.ErrUnavailable)
		}
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	finish(t, s, job, "persistent words")
	hits, err := s.Lexical(ctx, "words", 1, retrieve.Filter{})
	require.NoError(t, err)
	require.Len(t, hits, 1)
}
