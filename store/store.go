package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxvector "github.com/pgvector/pgvector-go/pgx"

	"ragd/ingest"
	"ragd/retrieve"
)

// Errors on which a caller acts.
var (
	// ErrNotFound: there is no such corpus, document, passage or answer for this tenant.
	ErrNotFound = errors.New("not found")
	// ErrIndexMismatch: the corpus was made with another embedding model, splitter or analyzer.
	ErrIndexMismatch = ingest.ErrIndexMismatch
	// ErrUnavailable: the database cannot be reached, or is starting or stopping. Trying again later may help.
	ErrUnavailable = ingest.ErrUnavailable
	// ErrDiskFull: the database has no room. What was stored before stays; the same call succeeds when there is room again.
	ErrDiskFull = errors.New("the database's disk is full: free some space and do it again; what is stored is kept")
)

// Store is a pool of connections to one database.
type Store struct {
	reader
	pool       *pgxpool.Pool
	replicas   replicas
	logger     *slog.Logger
	publishing publishing
}

// Open connects to the database at url, checks that it can hold a ragd index, and brings its schema up to date; processes that open it at the same
// time wait for each other. The error says what the database lacks.
func Open(ctx context.Context, url string, logger *slog.Logger) (*Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("store: the database URL is not valid: %w", err) // pgx leaves the password out
	}
	if err := prepare(ctx, config.ConnConfig); err != nil {
		return nil, fmt.Errorf("store: open database %q on %s: %w", config.ConnConfig.Database, config.ConnConfig.Host, err)
	}
	config.AfterConnect = configure
	config.PrepareConn = confine
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("store: open: %w", err)
	}
	s := &Store{pool: pool, logger: logger}
	s.reader = reader{read: s.search, limits: ordinary}
	return s, nil
}

// configure prepares a new connection. Plans are made for the values at hand, because a filter that is off must cost nothing; compiling plans to
// machine code takes longer than these statements do.
func configure(ctx context.Context, conn *pgx.Conn) error {
	if err := pgxvector.RegisterTypes(ctx, conn); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, `SELECT set_config('plan_cache_mode', 'force_custom_plan', false), set_config('jit', 'off', false), set_config('hnsw.iterative_scan', 'relaxed_order', false)`)
	return err
}

// Close waits for running statements and closes all connections.
func (s *Store) Close() {
	s.replicas.close()
	s.pool.Close()
}

// Pool gives access to the connections, for health checks and metrics.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Ping checks that the database answers.
func (s *Store) Ping(ctx context.Context) error { return wrap("ping", s.pool.Ping(ctx)) }

// oldest versions that are accepted; see package localpg for the reason.
const (
	minServer    = 150000
	minExtension = "0.8.4"
)

// prepare checks the server, installs the extension, and migrates.
func prepare(ctx context.Context, config *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, config.Copy())
	if err != nil {
		return connectError(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var version int
	var name string
	if err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version')`).Scan(&version, &name); err != nil {
		return err
	}
	if version < minServer {
		return fmt.Errorf("the server is PostgreSQL %s; ragd needs 15 or later", name)
	}
	return locked(ctx, conn, func() error {
		if err := installVector(ctx, conn); err != nil {
			return err
		}
		if err := migrateUp(ctx, config); err != nil {
			return err
		}
		return isolate(ctx, conn)
	})
}

// installVector creates or updates the pgvector extension in the database.
func installVector(ctx context.Context, conn *pgx.Conn) error {
	var available, installed *string
	err := conn.QueryRow(ctx, `SELECT (SELECT default_version FROM pg_available_extensions WHERE name = 'vector'),
		(SELECT extversion FROM pg_extension WHERE extname = 'vector')`).Scan(&available, &installed)
	if err != nil {
		return err
	}
	if available == nil {
		return errors.New("the server has no pgvector extension: install it on the server (package postgresql-18-pgvector, or image pgvector/pgvector), " +
			"or unset DATABASE_URL to let ragd run its own PostgreSQL")
	}
	if installed == nil {
		if _, err := conn.Exec(ctx, `CREATE EXTENSION IF NOT EXISTS vector`); err != nil {
			var pg *pgconn.PgError
			if errors.As(err, &pg) && pg.Code == insufficientPrivilege {
				return errors.New("this user may not create the pgvector extension: let a superuser run CREATE EXTENSION vector in this database once")
			}
			return fmt.Errorf("create extension vector: %w", err)
		}
		installed = available
	}
	if older(*installed, minExtension) && !older(*available, minExtension) {
		if _, err := conn.Exec(ctx, `ALTER EXTENSION vector UPDATE`); err != nil {
			return fmt.Errorf("pgvector %s is installed and %s or later is needed; let a superuser run ALTER EXTENSION vector UPDATE: %w", *installed, minExtension, err)
		}
		installed = available
	}
	if older(*installed, minExtension) {
		return fmt.Errorf("pgvector %s is too old: %s or later is needed, earlier ones can corrupt indexes", *installed, minExtension)
	}
	return nil
}

// older compares dotted version numbers.
func older(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, _ := strconv.Atoi(as[i])
		y, _ := strconv.Atoi(bs[i])
		if x != y {
			return x < y
		}
	}
	return len(as) < len(bs)
}

// SQLSTATE codes on which the package acts.
const (
	insufficientPrivilege = "42501"
	foreignKeyViolation   = "23503"
	serializationFailure  = "40001"
	deadlockDetected      = "40P01"
	diskFull              = "53100"
)

// connectError explains why no connection came about.
func connectError(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "28P01", "28000":
			return fmt.Errorf("the server refuses this user or password: %w", err)
		case "3D000":
			return fmt.Errorf("the database does not exist; create it with CREATE DATABASE: %w", err)
		}
	}
	return fmt.Errorf("%w: is PostgreSQL running there, and is the URL right? %w", ErrUnavailable, err)
}

// wrap adds what was attempted, and ErrUnavailable where the database is the reason.
func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == diskFull && !errors.Is(err, ErrDiskFull) {
		return fmt.Errorf("store: %s: %w: %w", doing, ErrDiskFull, err)
	}
	if unavailable(err) && !errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("store: %s: %w: %w", doing, ErrUnavailable, err)
	}
	return fmt.Errorf("store: %s: %w", doing, err)
}

// unavailable reports whether err says that the connection or the server is gone, or that the server has no room.
func unavailable(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		// 08: connection lost; 57P01..3: shutting down, crashed, starting; 53: out of memory or connections.
		return strings.HasPrefix(pg.Code, "08") || strings.HasPrefix(pg.Code, "57P") || strings.HasPrefix(pg.Code, "53") && pg.Code != diskFull
	}
	var content *contentError
	if errors.As(err, &content) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var connect *pgconn.ConnectError
	var network *net.OpError
	return errors.As(err, &connect) || errors.As(err, &network) || pgconn.SafeToRetry(err) || errors.Is(err, io.ErrUnexpectedEOF)
}

// tx runs fn in one read-write transaction, again when the database asks for that.
func (s *Store) tx(ctx context.Context, fn func(pgx.Tx) error) error {
	for attempt := 0; ; attempt++ {
		err := pgx.BeginFunc(ctx, s.pool, fn)
		var pg *pgconn.PgError
		if errors.As(err, &pg) && (pg.Code == serializationFailure || pg.Code == deadlockDetected) && attempt < 5 {
			continue
		}
		return err
	}
}

// reusePlans lets the checks of foreign keys in the rest of a transaction that writes many rows reuse their plans: as connections are configured, each
// row's check would be planned anew, which takes longer than the check and the row together.
func reusePlans(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `SET LOCAL plan_cache_mode = auto`)
	return err
}

// read runs fn in one read-only transaction that sees one snapshot. Such a transaction never waits and never has to be repeated.
func (s *Store) read(ctx context.Context, fn func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, fn)
}

// clean makes s storable: PostgreSQL's text is valid UTF-8 without NUL. Text that an ingest reader made is clean already.
func clean(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}

func cleanAll(ss []string) []string {
	cleaned := make([]string, len(ss)) // never nil: a null array would mean "any" to the statements
	for i, s := range ss {
		cleaned[i] = clean(s)
	}
	return cleaned
}

var (
	_ retrieve.Index       = (*Store)(nil)
	_ retrieve.Snapshotter = (*Store)(nil)
)
