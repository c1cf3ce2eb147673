package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"ragd/embed"
	"ragd/retrieve"
)

// Vectors returns the vectors of live passages, as they are compared; unknown ids are left out.
func (s *Store) Vectors(ctx context.Context, tenant string, ids []retrieve.PassageID) (map[retrieve.PassageID]embed.Vector, error) {
	rows, err := s.pool.Query(ctx, `SELECT passage, embedding::real[] FROM passage_vectors WHERE tenant = $1 AND passage = ANY ($2)`, tenantOf(tenant), ids)
	if err != nil {
		return nil, wrap("read vectors", err)
	}
	vectors := make(map[retrieve.PassageID]embed.Vector, len(ids))
	var id retrieve.PassageID
	var v []float32
	_, err = pgx.ForEachRow(rows, []any{&id, &v}, func() error {
		vectors[id] = append(embed.Vector(nil), v...)
		return nil
	})
	return vectors, wrap("read vectors", err)
}

// DocumentPassages returns the live passages of a document in their order; none while it has no live version.
func (s *Store) DocumentPassages(ctx context.Context, tenant string, id retrieve.DocumentID) ([]retrieve.PassageID, error) {
	rows, err := s.pool.Query(ctx, `SELECT passage FROM passage_vectors WHERE tenant = $1 AND document = $2 ORDER BY passage`, tenantOf(tenant), id)
	if err != nil {
		return nil, wrap("list passages", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[retrieve.PassageID])
	return ids, wrap("list passages", err)
}
