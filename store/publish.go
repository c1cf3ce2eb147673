package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"ragd/ingest"
)

// Publish implements [ingest.Store].
func (s *Store) Publish(ctx context.Context, job *ingest.Job) error {
	var state ingest.State
	err := s.tx(ctx, func(tx pgx.Tx) error {
		var document, corpus int64
		var previous *int64
		var own bool // made for the index that the corpus has
		// Without locks first: the corpus is to be locked before the document, the document before the version.
		err := tx.QueryRow(ctx, `SELECT d.id, d.corpus FROM document_versions v JOIN documents d ON d.tenant = v.tenant AND d.id = v.document
			WHERE v.tenant = $1 AND v.id = $2`, job.Tenant, job.Version).Scan(&document, &corpus)
		if errors.Is(err, pgx.ErrNoRows) {
			return ingest.ErrLeaseLost
		}
		if err != nil {
			return err
		}
		if err := lockCorpus(ctx, tx, job.Tenant, corpus); err != nil {
			return err
		}
		err = tx.QueryRow(ctx, `SELECT live_version FROM documents WHERE tenant = $1 AND id = $2 FOR UPDATE`, job.Tenant, document).Scan(&previous)
		if errors.Is(err, pgx.ErrNoRows) {
			return ingest.ErrLeaseLost
		}
		if err != nil {
			return err
		}
		if err := checkLease(ctx, tx, job); err != nil {
			return err
		}
		// Only now that the corpus is locked: a switch may have changed it.
		err = tx.QueryRow(ctx, `SELECT v.space = c.space AND v.splitter = c.splitter FROM document_versions v, corpora c
			WHERE v.tenant = $1 AND v.id = $2 AND c.tenant = $1 AND c.id = $3`, job.Tenant, job.Version, corpus).Scan(&own)
		if err != nil {
			return err
		}
		if !own {
			state = ingest.Ready
			return markReady(ctx, tx, job)
		}
		state = ingest.Live
		if previous != nil {
			if err := retire(ctx, tx, job.Tenant, corpus, *previous); err != nil {
				return err
			}
		}
		return enliven(ctx, tx, job.Tenant, job.Version, document, corpus)
	})
	if err == nil {
		job.State = state
	}
	return wrap("publish "+job.Path, err)
}

// retire takes a version out of the search; its passages stay, so that answers that cite them can be followed.
func retire(ctx context.Context, tx pgx.Tx, tenant string, corpus, version int64) error {
	if err := unindex(ctx, tx, tenant, corpus, version); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE document_versions SET state = 'retired' WHERE tenant = $1 AND id = $2`, tenant, version)
	return err
}

// unindex removes the vectors and postings of a version.
func unindex(ctx context.Context, tx pgx.Tx, tenant string, corpus, version int64) error {
	_, err := eachIndexed(ctx, tx, tenant, version, func(ps []indexed) error { return removePostings(ctx, tx, tenant, corpus, ps) })
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `DELETE FROM passage_vectors v USING passages p WHERE p.tenant = $1 AND p.version = $2 AND v.tenant = $1 AND v.passage = p.id`, tenant, version)
	return err
}

// markReady ends the work on a version that waits for its corpus's next index.
func markReady(ctx context.Context, tx pgx.Tx, job *ingest.Job) error {
	var missing int
	err := tx.QueryRow(ctx, `UPDATE document_versions v SET state = 'ready', lease = v.lease + 1, lease_until = '-infinity', attempt = 0, error_class = '', error_message = ''
		WHERE v.tenant = $1 AND v.id = $2
		RETURNING v.passages - (SELECT count(*) FROM staged_vectors s WHERE s.tenant = $1 AND s.version = $2)`, job.Tenant, job.Version).Scan(&missing)
	if err == nil && missing > 0 {
		err = fmt.Errorf("%d passages have no vector", missing)
	}
	return err
}

// enliven puts a version into the search.
func enliven(ctx context.Context, tx pgx.Tx, tenant string, version, document, corpus int64) error {
	tag, err := tx.Exec(ctx, `INSERT INTO passage_vectors (tenant, passage, corpus, document, space, lang, embedding)
		SELECT $1, p.id, $3, $4, v.space, p.lang, s.embedding FROM document_versions v
		JOIN passages p ON p.tenant = v.tenant AND p.version = v.id
		JOIN staged_vectors s ON s.tenant = p.tenant AND s.version = p.version AND s.seq = p.seq
		WHERE v.tenant = $1 AND v.id = $2 ORDER BY p.id`, tenant, version, corpus, document)
	if err != nil {
		return err
	}
	n, err := eachIndexed(ctx, tx, tenant, version, func(ps []indexed) error { return addPostings(ctx, tx, tenant, corpus, ps) })
	if err != nil {
		return err
	}
	if vectors := int(tag.RowsAffected()); vectors != n {
		return fmt.Errorf("%d of %d passages have no vector", n-vectors, n)
	}
	for _, sql := range []string{
		`DELETE FROM staged_vectors WHERE tenant = $1 AND version = $2`,
		`UPDATE document_versions SET state = 'live', live_at = now(), attempt = 0, lease_until = '-infinity', error_class = '', error_message = '' WHERE tenant = $1 AND id = $2`,
		`UPDATE documents d SET live_version = $2 FROM document_versions v WHERE v.tenant = $1 AND v.id = $2 AND d.tenant = $1 AND d.id = v.document`,
	} {
		if _, err := tx.Exec(ctx, sql, tenant, version); err != nil {
			return err
		}
	}
	return nil
}
