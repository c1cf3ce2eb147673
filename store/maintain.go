package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Retention says how long what nobody finds any more is kept. A zero field keeps it for ever.
type Retention struct {
	Retired time.Duration // versions that a newer one replaced; answers that cite them can be followed until then
	Answers time.Duration
	Audit   time.Duration
}

// Maintain does what is not to be done while somebody waits: vector indexes for large spaces, and the removal of what is older than retention allows.
// It is safe to call from several processes, while others read and write; calling it again after an interruption completes the work.
func (s *Store) Maintain(ctx context.Context, keep Retention) error {
	if err := s.buildGraphs(ctx); err != nil {
		return wrap("build vector indexes", err)
	}
	return wrap("remove what is out of date", s.tx(ctx, func(tx pgx.Tx) error {
		if keep.Retired > 0 {
			if _, err := tx.Exec(ctx, `DELETE FROM document_versions v USING document_versions n WHERE v.state = 'retired' AND n.tenant = v.tenant AND n.document = v.document
				AND n.state = 'live' AND n.live_at < now() - $1::interval`, keep.Retired); err != nil {
				return err
			}
		}
		if keep.Answers > 0 {
			if _, err := tx.Exec(ctx, `DELETE FROM answers WHERE created_at < now() - $1::interval`, keep.Answers); err != nil {
				return err
			}
		}
		if keep.Audit > 0 {
			if _, err := tx.Exec(ctx, `DELETE FROM audit_log WHERE at < now() - $1::interval`, keep.Audit); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, `DELETE FROM api_keys WHERE login AND (revoked_at IS NOT NULL OR expires_at < now())`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM uploads WHERE updated_at < now() - $1::interval`, uploadLife); err != nil {
			return err
		}
		// Bytes of uploads that were interrupted before their version was recorded, and of versions removed above. The hour leaves room for uploads
		// that are between both steps.
		_, err := tx.Exec(ctx, `DELETE FROM contents c WHERE c.stored_at < now() - interval '1 hour'
			AND NOT EXISTS (SELECT FROM document_versions v WHERE v.tenant = c.tenant AND v.sha256 = c.sha256)`)
		return err
	}))
}

// buildGraphs creates the HNSW index of each space that has outgrown the exact scan. Building does not stop readers or writers.
func (s *Store) buildGraphs(ctx context.Context) error {
	rows, err := s.pool.Query(ctx, `SELECT v.space, e.dim, count(*) FROM passage_vectors v JOIN embedding_spaces e ON e.id = v.space GROUP BY v.space, e.dim HAVING count(*) > $1`, s.exact)
	if err != nil {
		return err
	}
	type space struct {
		id, dim int
		vectors int64
	}
	spaces, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (sp space, err error) {
		return sp, row.Scan(&sp.id, &sp.dim, &sp.vectors)
	})
	if err != nil {
		return err
	}
	for _, sp := range spaces {
		if err := s.buildGraph(ctx, sp.id, sp.dim, sp.vectors); err != nil {
			return err
		}
	}
	return nil
}

// graphLock is the first number of the advisory locks that let one process build the index of a space.
const graphLock = 0x72616768

func (s *Store) buildGraph(ctx context.Context, space, dim int, vectors int64) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	var mine bool
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, $2)`, graphLock, space).Scan(&mine); err != nil || !mine {
		return err // another process is building it
	}
	defer conn.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1, $2)`, graphLock, space)
	var exists, valid bool
	err = conn.QueryRow(ctx, `SELECT count(*) > 0, coalesce(bool_and(indisvalid), false) FROM pg_index WHERE indexrelid = to_regclass($1)`, graphName(space)).Scan(&exists, &valid)
	if err != nil || valid {
		return err
	}
	if exists { // a build that was interrupted leaves an index that nobody uses
		if _, err := conn.Exec(ctx, `DROP INDEX CONCURRENTLY IF EXISTS `+graphName(space)); err != nil {
			return err
		}
	}
	begun := time.Now()
	_, err = conn.Exec(ctx, fmt.Sprintf(`CREATE INDEX CONCURRENTLY %s ON passage_vectors USING hnsw ((embedding::halfvec(%d)) halfvec_cosine_ops) WHERE space = %d`, graphName(space), dim, space))
	if err == nil {
		s.logger.Info("vector index built", "space", space, "vectors", vectors, "seconds", time.Since(begun).Seconds())
	}
	return err
}
