//go:build !unix

package localpg

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// Progress is told what Start is doing.
type Progress func(done, total int64, stage string)

// Cluster is a running private server.
type Cluster struct{}

// Start always fails: a private server needs unix sockets and file locks.
func Start(context.Context, string, Progress) (*Cluster, error) {
	return nil, errors.New("localpg: a private PostgreSQL is not available on this system: set DATABASE_URL to a PostgreSQL server with pgvector")
}

// URL is the connection string.
func (*Cluster) URL() string { return "" }

// Programs is the folder of the server's programs.
func (*Cluster) Programs() string { return "" }

// Stop ends the use of the server.
func (*Cluster) Stop() error { return nil }

// CacheDir is where downloaded programs are kept.
func CacheDir() (string, error) {
	if dir := os.Getenv("RAGD_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "ragd"), err
}
