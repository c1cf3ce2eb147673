package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"ragd/ingest"
	"ragd/retrieve"
)

// Job is a document version that is in work, waits, or has failed.
type Job struct {
	Version    int64
	Document   retrieve.DocumentID
	Corpus     string
	Path       string
	State      ingest.State
	Size       int64
	Passages   int // 0 until it is split
	Embedded   int // of them
	Attempt    int
	Working    bool // a worker holds its lease
	Next       bool // it is made for an index that the corpus does not have yet
	ReceivedAt time.Time
	RetryAt    time.Time    // zero when it may be worked on now
	ErrorClass ingest.Class // of a failed version, or of the last attempt that will be repeated
	Error      string
}

// Jobs lists the versions of a tenant that are neither live nor retired, in the order in which they are worked on: those after a version, at most
// limit. No corpora are all.
func (s *Store) Jobs(ctx context.Context, tenant string, corpora []string, after int64, limit int) ([]Job, error) {
	rows, err := s.pool.Query(ctx, `SELECT v.id, d.id, c.name, d.path, v.state, v.size, v.passages, v.embedded, v.attempt, v.lease_until > now(), NOT `+own+`,
			v.received_at, CASE WHEN v.retry_at > now() THEN v.retry_at END, v.error_class, v.error_message
		FROM document_versions v JOIN documents d ON d.tenant = v.tenant AND d.id = v.document JOIN corpora c ON c.tenant = d.tenant AND c.id = d.corpus
		WHERE v.tenant = $1 AND ($2::text[] IS NULL OR c.name = ANY ($2)) AND v.state NOT IN ('live', 'retired') AND v.id > $3 ORDER BY v.id LIMIT $4`,
		tenantOf(tenant), orNull(corpora), after, limit)
	if err != nil {
		return nil, wrap("list jobs", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (j Job, err error) {
		var retry *time.Time
		err = row.Scan(&j.Version, &j.Document, &j.Corpus, &j.Path, &j.State, &j.Size, &j.Passages, &j.Embedded, &j.Attempt, &j.Working, &j.Next,
			&j.ReceivedAt, &retry, &j.ErrorClass, &j.Error)
		if retry != nil {
			j.RetryAt = *retry
		}
		return j, err
	})
	return list, wrap("list jobs", err)
}

// deletedChannel is where deletions are announced, with the tenant.
const deletedChannel = "ragd_deleted"

// announceDeletion tells every process that caches hold text which must go; they hear it when the transaction commits.
func announceDeletion(ctx context.Context, tx pgx.Tx, tenant string) error {
	_, err := tx.Exec(ctx, `SELECT pg_notify($1, $2)`, deletedChannel, tenant)
	return err
}

// Deletions calls forget with the name of each tenant of which something was deleted, by whatever process, until ctx ends. While the connection is
// down deletions may go unheard, so after it forget is called with "", which means every tenant; as it is at the start.
func (s *Store) Deletions(ctx context.Context, forget func(tenant string)) error {
	for {
		err := s.listen(ctx, forget)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !errors.Is(err, ErrUnavailable) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (s *Store) listen(ctx context.Context, forget func(tenant string)) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return wrap("listen for deletions", err)
	}
	wire := conn.Hijack() // it waits for ever, and is not to go back with LISTEN on
	defer wire.Close(context.WithoutCancel(ctx))
	if _, err := wire.Exec(ctx, `LISTEN `+deletedChannel); err != nil {
		return wrap("listen for deletions", err)
	}
	forget("")
	for {
		n, err := wire.WaitForNotification(ctx)
		if err != nil {
			if wire.IsClosed() {
				err = fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
			return wrap("listen for deletions", err)
		}
		forget(n.Payload)
	}
}
