package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"ragd/retrieve"
)

// replicas are servers that repeat what the primary writes, a moment later. Searches go to them in turns.
type replicas struct {
	all                    []*replica
	turn                   atomic.Uint64
	served, behind, failed atomic.Int64 // searches answered by a replica; searches the primary did, because a replica was behind or failed
}

type replica struct {
	pool *pgxpool.Pool
	name string       // host and port, for people
	away atomic.Int64 // it failed: nobody asks it until this time, in Unix nanoseconds
}

const (
	// awayFor is how long a replica that failed is left alone; then one search tries it, and pays for it when it is still down.
	awayFor = 5 * time.Second
	// replicaConnect bounds that price where the URL does not.
	replicaConnect = 2 * time.Second
)

// UseReplicas makes searches (Dense, Lexical, Passages) read from the servers at urls, and from the primary whenever none of them is up to date and in
// reach. Everything else stays with the primary. Call it once, before the Store is used. A replica that is down is no error: it is tried again later.
func (s *Store) UseReplicas(ctx context.Context, urls []string) error {
	for i, url := range urls {
		config, err := pgxpool.ParseConfig(url)
		if err != nil {
			return fmt.Errorf("store: the URL of replica %d is not valid: %w", i+1, err)
		}
		if config.ConnConfig.ConnectTimeout == 0 {
			config.ConnConfig.ConnectTimeout = replicaConnect
		}
		config.AfterConnect, config.PrepareConn = configure, confine
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return fmt.Errorf("store: replica %d: %w", i+1, err)
		}
		s.replicas.all = append(s.replicas.all, &replica{pool: pool, name: fmt.Sprintf("%s:%d", config.ConnConfig.Host, config.ConnConfig.Port)})
	}
	return nil
}

func (r *replicas) close() {
	for _, one := range r.all {
		one.pool.Close()
	}
}

// pick returns a replica to ask, nil when there is none. Of those who meet one whose time away is over, one tries it.
func (r *replicas) pick(now time.Time) *replica {
	for range r.all {
		one := r.all[r.turn.Add(1)%uint64(len(r.all))]
		until := one.away.Load()
		if until == 0 || now.UnixNano() >= until && one.away.CompareAndSwap(until, now.Add(awayFor).UnixNano()) {
			return one
		}
	}
	return nil
}

// errBehind: the replica has not yet repeated what the primary has.
var errBehind = errors.New("store: the replica is behind")

// stateOf is a fingerprint of the rows of the corpora that f selects. Every change of what can be found changes it (corpora.revision), in the same
// transaction, so a snapshot with the same fingerprint has the same documents. It compares what was searched rather than positions in the log, which
// other tenants' ingestion moves all the time, and which not every kind of replica knows.
func stateOf(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, f retrieve.Filter) (state string, err error) {
	err = db.QueryRow(ctx, `SELECT coalesce(md5(string_agg(c::text, '|' ORDER BY c.id)), '') FROM corpora c WHERE c.tenant = $1 AND ($2::text[] IS NULL OR c.name = ANY ($2))`,
		tenantOf(f.Tenant), orNull(f.Corpora)).Scan(&state)
	return state, err
}

// search runs fn, which reads what f selects, in one snapshot of a replica that has everything the primary has of it, else of the primary: who adds a
// document and asks for it, at whatever process, finds it. fn may run twice.
func (s *Store) search(ctx context.Context, f retrieve.Filter, fn func(pgx.Tx) error) error {
	r := s.replicas.pick(time.Now())
	if r == nil {
		return s.read(ctx, fn)
	}
	want, err := stateOf(ctx, s.pool, f)
	if err != nil {
		return err
	}
	fit := false
	err = pgx.BeginTxFunc(ctx, r.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		have, err := stateOf(ctx, tx, f)
		if err != nil {
			return err
		}
		if fit = have == want; !fit {
			return errBehind
		}
		return fn(tx)
	})
	var pg *pgconn.PgError
	switch {
	case err == nil:
		r.away.Store(0)
		s.replicas.served.Add(1)
		return nil
	case ctx.Err() != nil:
		return err
	case errors.Is(err, errBehind), errors.As(err, &pg) && pg.Code == serializationFailure: // the latter: replaying had to cut the search short
		r.away.Store(0)
		s.replicas.behind.Add(1)
	case !fit || unavailable(err): // it cannot be reached, or is no copy of this database yet
		s.leave(r, err)
	default:
		return err
	}
	return s.read(ctx, fn)
}

// leave lets a replica alone for a while.
func (s *Store) leave(r *replica, reason error) {
	s.replicas.failed.Add(1)
	r.away.Store(time.Now().Add(awayFor).UnixNano())
	s.logger.Warn("a read replica failed, the primary does its work", "replica", r.name, "retry_s", awayFor.Seconds(), "error", reason)
}

// ReplicaReads counts the searches since the start: those that replicas served, and those that the primary did because a replica was behind or failed.
func (s *Store) ReplicaReads() (served, behind, failed int64) {
	return s.replicas.served.Load(), s.replicas.behind.Load(), s.replicas.failed.Load()
}

// ReplicaState is what is known about a replica.
type ReplicaState struct {
	Name  string
	Bytes int64 // of the primary's log that it has not repeated
	Err   error // why it cannot be asked
}

// Replicas asks each replica how far it is.
func (s *Store) Replicas(ctx context.Context) ([]ReplicaState, error) {
	var states []ReplicaState
	for _, r := range s.replicas.all {
		var position string
		if err := s.pool.QueryRow(ctx, `SELECT pg_current_wal_lsn()::text`).Scan(&position); err != nil {
			return nil, wrap("ask how far the replicas are", err)
		}
		state := ReplicaState{Name: r.name}
		state.Err = r.pool.QueryRow(ctx, `SELECT coalesce(greatest(pg_wal_lsn_diff($1::pg_lsn, pg_last_wal_replay_lsn()), 0), 0)::bigint`, position).Scan(&state.Bytes)
		states = append(states, state)
	}
	return states, nil
}
