package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"ragd/retrieve"
)

// SaveAnswer keeps the record of an answer, a JSON text. documents are those whose text is in it: deleting one of them deletes the record. A
// document that was deleted while the answer was made is an error, and nothing is kept.
func (s *Store) SaveAnswer(ctx context.Context, tenant, id string, documents []retrieve.DocumentID, record json.RawMessage) error {
	tenant = tenantOf(tenant)
	ids := make([]int64, len(documents))
	for i, d := range documents {
		ids[i] = int64(d)
	}
	err := s.tx(ctx, func(tx pgx.Tx) error {
		// The share lock lets a deletion wait for this record, and then delete it.
		var have int
		err := tx.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM documents WHERE tenant = $1 AND id = ANY ($2) FOR KEY SHARE) d`, tenant, ids).Scan(&have)
		if err != nil {
			return err
		}
		if have < len(ids) {
			return fmt.Errorf("a document of the answer was deleted meanwhile: %w", ErrNotFound)
		}
		_, err = tx.Exec(ctx, `INSERT INTO answers (tenant, id, documents, record) VALUES ($1, $2, $3, $4)`, tenant, clean(id), ids, record)
		return err
	})
	return wrap("save answer", err)
}

// Answer returns the record of an answer byte for byte, or ErrNotFound.
func (s *Store) Answer(ctx context.Context, tenant, id string) (json.RawMessage, error) {
	var record []byte
	err := s.pool.QueryRow(ctx, `SELECT record::text FROM answers WHERE tenant = $1 AND id = $2`, tenantOf(tenant), clean(id)).Scan(&record)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("answer %q: %w", id, ErrNotFound)
	}
	return record, wrap("read answer", err)
}

func deleteAnswersAbout(ctx context.Context, tx pgx.Tx, tenant string, documents []int64) error {
	_, err := tx.Exec(ctx, `DELETE FROM answers WHERE tenant = $1 AND documents && $2`, tenant, documents)
	return err
}
