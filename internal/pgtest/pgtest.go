package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"ragd/migrations"
	"ragd/store"
	"ragd/store/localpg"
)

// server is what the first test of a process prepares.
type server struct {
	url      string
	template string
	programs string // folder of pg_dump and the like
}

var prepared = sync.OnceValues(func() (server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	return prepare(ctx)
})

// New returns the URL of an empty database with the newest schema, which is dropped when t ends.
func New(t testing.TB) string {
	t.Helper()
	s, err := prepared()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no test database: %v", err)
		}
		t.Skipf("no test database: %v", err)
	}
	return create(t, s, s.template)
}

// Empty returns the URL of a database without any schema, as New does.
func Empty(t testing.TB) string {
	t.Helper()
	New(t) // decides about skipping
	s, _ := prepared()
	return create(t, s, "template0")
}

// Programs is the folder of the server's pg_dump, pg_restore and psql.
func Programs(t testing.TB) string {
	t.Helper()
	New(t) // decides about skipping
	s, _ := prepared()
	return s.programs
}

var count atomic.Int64

const prefix = "ragd_test_"

func create(t testing.TB, s server, template string) string {
	t.Helper()
	name := fmt.Sprintf("%s%d_%d", prefix, os.Getpid(), count.Add(1))
	if err := exec(context.Background(), s.url, fmt.Sprintf(`CREATE DATABASE %s TEMPLATE %s STRATEGY FILE_COPY`, name, template)); err != nil {
		t.Fatalf("create test database: %v", err)
	}
	t.Cleanup(func() {
		if err := exec(context.Background(), s.url, fmt.Sprintf(`DROP DATABASE IF EXISTS %s WITH (FORCE)`, name)); err != nil {
			t.Errorf("drop test database: %v", err)
		}
	})
	return withDatabase(s.url, name)
}

// Dir is the data folder of the shared server.
func Dir() (string, error) {
	cache, err := localpg.CacheDir()
	return filepath.Join(cache, "test-postgres"), err
}

func prepare(ctx context.Context) (server, error) {
	dir, err := Dir()
	if err != nil {
		return server{}, err
	}
	// Never stopped by a test process: the end of the process releases it, and the server waits for the next one.
	cluster, err := localpg.Start(ctx, dir, nil)
	if err != nil {
		return server{}, err
	}
	s := server{url: cluster.URL(), programs: cluster.Programs(), template: "ragd_template_" + schemaHash()}
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return server{}, err
	}
	defer conn.Close(ctx)
	// Held until the connection closes: one process prepares, the others wait.
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock(hashtext('ragd pgtest'))`); err != nil {
		return server{}, err
	}
	// Tests need no durability.
	for _, setting := range []string{"fsync = off", "synchronous_commit = off", "full_page_writes = off", "max_connections = 200"} {
		if _, err := conn.Exec(ctx, "ALTER SYSTEM SET "+setting); err != nil {
			return server{}, err
		}
	}
	if _, err := conn.Exec(ctx, `SELECT pg_reload_conf()`); err != nil {
		return server{}, err
	}
	if err := dropLeftovers(ctx, conn); err != nil {
		return server{}, err
	}
	return s, makeTemplate(ctx, conn, s)
}

// dropLeftovers drops the databases of test processes that are gone.
func dropLeftovers(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `SELECT datname FROM pg_database WHERE starts_with(datname, $1)`, prefix)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		owner, _, _ := strings.Cut(strings.TrimPrefix(name, prefix), "_")
		pid, err := strconv.Atoi(owner)
		if err != nil || syscall.Kill(pid, 0) == nil {
			continue
		}
		if _, err := conn.Exec(ctx, fmt.Sprintf(`DROP DATABASE IF EXISTS %s WITH (FORCE)`, name)); err != nil {
			return err
		}
	}
	return nil
}

// makeTemplate creates the template database of this schema unless it exists. It is built under another name: an interrupted one is never used.
func makeTemplate(ctx context.Context, conn *pgx.Conn, s server) error {
	var exists bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, s.template).Scan(&exists); err != nil || exists {
		return err
	}
	draft := s.template + "_draft"
	for _, sql := range []string{`DROP DATABASE IF EXISTS ` + draft, `CREATE DATABASE ` + draft} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	st, err := store.Open(ctx, withDatabase(s.url, draft), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	st.Close()
	_, err = conn.Exec(ctx, fmt.Sprintf(`ALTER DATABASE %s RENAME TO %s`, draft, s.template))
	return err
}

// schemaHash names the schema that the migrations make.
func schemaHash() string {
	h := sha256.New()
	names, _ := fs.Glob(migrations.Files, "*.sql") // sorted
	for _, name := range names {
		text, _ := migrations.Files.ReadFile(name)
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

func exec(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

// withDatabase replaces the database in a connection URL.
func withDatabase(connection, database string) string {
	u, err := url.Parse(connection)
	if err != nil {
		panic("pgtest: localpg made an invalid URL: " + err.Error())
	}
	u.Path = "/" + database
	return u.String()
}
