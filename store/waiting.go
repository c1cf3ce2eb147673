package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"ragd/ingest"
)

// Waiting is a corpus in which versions wait to be worked on.
type Waiting struct {
	Tenant, Corpus string
	Index          ingest.Index // that they are made for
	Versions       int64
	Oldest         time.Time // when the first of them was received
}

// Waiting lists where versions wait, of all tenants.
func (s *Store) Waiting(ctx context.Context) ([]Waiting, error) {
	rows, err := s.pool.Query(ctx, `SELECT c.tenant, c.name, e.model, e.dim, v.splitter, count(*), min(v.received_at) FROM document_versions v
		JOIN documents d ON d.tenant = v.tenant AND d.id = v.document JOIN corpora c ON c.tenant = d.tenant AND c.id = d.corpus
		JOIN embedding_spaces e ON e.id = v.space
		WHERE v.state IN ('received', 'parsed', 'split', 'embedded') GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5`)
	if err != nil {
		return nil, wrap("list what waits", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (w Waiting, err error) {
		return w, row.Scan(&w.Tenant, &w.Corpus, &w.Index.Model, &w.Index.Dim, &w.Index.Splitter, &w.Versions, &w.Oldest)
	})
	return list, wrap("list what waits", err)
}
