//go:build unix

package ingest_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/internal/pgtest"
	"ragd/store/localpg"
)

// ownCluster starts a PostgreSQL of the test's own in dir, which may be killed and filled up.
func ownCluster(t *testing.T) (cluster *localpg.Cluster, dir string) {
	t.Helper()
	dir = t.TempDir()
	return clusterIn(t, dir), dir
}

func clusterIn(t *testing.T, dir string) *localpg.Cluster {
	t.Helper()
	pgtest.New(t) // decides about skipping
	cluster, err := localpg.Start(t.Context(), dir, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	return cluster
}

// killServer kills the postmaster of a cluster; whoever looks after the cluster starts it again.
func killServer(t *testing.T, dir string) {
	t.Helper()
	pid, err := os.ReadFile(filepath.Join(dir, "pgdata", "postmaster.pid"))
	require.NoError(t, err)
	n, err := strconv.Atoi(strings.SplitN(string(pid), "\n", 2)[0])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(n, syscall.SIGKILL))
}
