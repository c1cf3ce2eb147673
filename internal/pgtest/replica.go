package pgtest

import (
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"ragd/store/localpg"
)

// Server is a server of one test's own, which the test may kill or slow down. Its data are safe from a crash, other than those of [New].
type Server struct {
	URL string // of a database without a schema
	dir string
}

// NewServer starts a server that ends with t. It takes some seconds.
func NewServer(t testing.TB) Server {
	t.Helper()
	New(t) // decides about skipping
	return serve(t, t.TempDir())
}

func serve(t testing.TB, dir string) Server {
	t.Helper()
	cluster, err := localpg.Start(context.Background(), dir, nil)
	if err != nil {
		t.Fatalf("start a server: %v", err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Errorf("stop a server: %v", err)
		}
	})
	return Server{URL: cluster.URL(), dir: dir}
}

func (s Server) data() string { return filepath.Join(s.dir, "pgdata") }

// Signal sends a signal to the server's first process: SIGKILL is a crash, after which it comes back by itself; SIGSTOP holds it.
func (s Server) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		t.Fatalf("signal a server: %v", err)
	}
	line, _, _ := strings.Cut(string(file), "\n")
	pid, err := strconv.Atoi(line)
	if err == nil {
		err = syscall.Kill(pid, signal)
	}
	if err != nil {
		t.Fatalf("signal a server: %v", err)
	}
}

// Replica starts a hot standby that streams from s and ends before it.
func (s Server) Replica(t testing.TB) Server {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	standby := Server{dir: t.TempDir()}
	var label string
	steps := func() error {
		if _, err := conn.Exec(ctx, `SELECT pg_backup_start('replica', true)`); err != nil {
			return err
		}
		if err := copyData(s.data(), standby.data()); err != nil {
			return err
		}
		if err := conn.QueryRow(ctx, `SELECT labelfile FROM pg_backup_stop(false)`).Scan(&label); err != nil {
			return err
		}
		u, err := url.Parse(s.URL)
		if err != nil {
			return err
		}
		host := u.Query().Get("host")
		if host == "" {
			host = u.Hostname()
		}
		settings := fmt.Sprintf("\nprimary_conninfo = 'host=%s user=%s'\nwal_retrieve_retry_interval = '100ms'\n", host, u.User.Username())
		for name, text := range map[string]string{"backup_label": label, "standby.signal": "", "postgresql.auto.conf": settings} {
			if err := os.WriteFile(filepath.Join(standby.data(), name), []byte(text), 0o600); err != nil {
				return err
			}
		}
		return nil
	}
	if err := steps(); err != nil {
		t.Fatalf("copy a server: %v", err)
	}
	return serve(t, standby.dir)
}

// copyData copies a running server's files, as pg_basebackup would: without what belongs to the running process, and without its log, which is streamed.
func copyData(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) { // files come and go
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		if strings.HasPrefix(name, "postmaster.") || strings.HasPrefix(name, "pg_wal/") || strings.HasPrefix(name, "pg_replslot/") {
			return nil
		}
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o600)
	})
}
