package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/embed"
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
	for _, step := range []func() error{
		func() error { return s.SavePassages(ctx, job, ps) },
		func() error { return s.Ping(ctx) }, // the old server's processes may have served the step before
		func() error { return s.SavePassages(ctx, job, ps) },
		func() error { return s.SaveVectors(ctx, job, []int{0}, []embed.Vector{unit(0)}) },
		func() error { return s.Publish(ctx, job) },
	} {
		var err error
		require.Eventually(t, func() bool {
			err = step()
			return !errors.Is(err, store.ErrUnavailable)
		}, time.Minute, 20*time.Millisecond)
		require.NoError(t, err)
	}
	hits, err := s.Lexical(ctx, "words", 1, retrieve.Filter{})
	require.NoError(t, err)
	require.Len(t, hits, 1)
}
