package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"ragd/ingest"
	"ragd/retrieve/analysis"
)

// Index implements [ingest.Store].
func (s *Store) Index(ctx context.Context, tenant, corpus string) (index ingest.Index, err error) {
	err = s.pool.QueryRow(ctx, `SELECT e.model, e.dim, c.splitter FROM corpora c JOIN embedding_spaces e ON e.id = c.space WHERE c.tenant = $1 AND c.name = $2`,
		tenantOf(tenant), clean(corpus)).Scan(&index.Model, &index.Dim, &index.Splitter)
	if errors.Is(err, pgx.ErrNoRows) {
		return ingest.Index{}, nil
	}
	return index, wrap("read how corpus "+corpus+" is made", err)
}

// own says that version v is made for the index that its corpus c has.
const own = `(v.space = c.space AND v.splitter = c.splitter)`

// Shadow implements [ingest.Store].
func (s *Store) Shadow(ctx context.Context, tenant, name string, to ingest.Index) (shadow ingest.Shadow, err error) {
	tenant = tenantOf(tenant)
	err = s.tx(ctx, func(tx pgx.Tx) error {
		shadow = ingest.Shadow{}
		have, corpus, _, err := findCorpus(ctx, tx, tenant, clean(name))
		if err != nil || have == to {
			return err
		}
		space, err := ensureSpace(ctx, tx, to)
		if err != nil {
			return err
		}
		args := []any{tenant, corpus, space, clean(to.Splitter)}
		for _, sql := range []string{
			// Of a third index, of bytes that are not live any more, or failed.
			`DELETE FROM document_versions v USING documents d, corpora c
				WHERE c.tenant = $1 AND c.id = $2 AND d.tenant = $1 AND d.corpus = c.id AND v.tenant = $1 AND v.document = d.id
				AND v.state NOT IN ('live', 'retired') AND NOT ` + own + ` AND (v.space <> $3 OR v.splitter <> $4 OR v.state = 'failed'
					OR NOT EXISTS (SELECT FROM document_versions l WHERE l.tenant = $1 AND l.id = d.live_version AND l.sha256 = v.sha256))`,
			`INSERT INTO document_versions (tenant, document, sha256, size, splitter, space)
				SELECT $1, d.id, l.sha256, l.size, $4, $3 FROM documents d JOIN document_versions l ON l.tenant = $1 AND l.id = d.live_version
				WHERE d.tenant = $1 AND d.corpus = $2 AND NOT EXISTS (SELECT FROM document_versions v WHERE v.tenant = $1 AND v.document = d.id
					AND v.space = $3 AND v.splitter = $4 AND v.sha256 = l.sha256 AND v.state <> 'retired') ORDER BY d.id`,
		} {
			if _, err := tx.Exec(ctx, sql, args...); err != nil {
				return err
			}
		}
		return tx.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE v.state = 'ready') FROM documents d JOIN document_versions v ON v.tenant = $1 AND v.document = d.id
			WHERE d.tenant = $1 AND d.corpus = $2 AND v.space = $3 AND v.splitter = $4 AND v.state <> 'retired'`, args...).Scan(&shadow.Documents, &shadow.Ready)
	})
	return shadow, wrap("prepare a new index of corpus "+name, err)
}

// Switch implements [ingest.Store]. Readers see the old index until the transaction ends; writers of the corpus wait for it.
func (s *Store) Switch(ctx context.Context, tenant, name string, to ingest.Index) (switched bool, err error) {
	tenant = tenantOf(tenant)
	err = s.tx(ctx, func(tx pgx.Tx) error {
		switched = false
		var corpus int64
		// Excludes Receive, which holds FOR KEY SHARE: no version for the old index comes in behind the switch.
		err := tx.QueryRow(ctx, `SELECT id FROM corpora WHERE tenant = $1 AND name = $2 FOR UPDATE`, tenant, clean(name)).Scan(&corpus)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("corpus %q: %w", name, ErrNotFound)
		}
		if err != nil {
			return err
		}
		have, _, _, err := findCorpus(ctx, tx, tenant, clean(name))
		if err != nil || have == to {
			switched = err == nil
			return err
		}
		space, err := ensureSpace(ctx, tx, to)
		if err != nil {
			return err
		}
		var missing int
		err = tx.QueryRow(ctx, `SELECT count(*) FROM documents d JOIN document_versions l ON l.tenant = $1 AND l.id = d.live_version
			WHERE d.tenant = $1 AND d.corpus = $2 AND NOT EXISTS (SELECT FROM document_versions v WHERE v.tenant = $1 AND v.document = d.id
				AND v.space = $3 AND v.splitter = $4 AND v.sha256 = l.sha256 AND v.state = 'ready')`, tenant, corpus, space, clean(to.Splitter)).Scan(&missing)
		if err != nil || missing > 0 {
			return err
		}
		switched = true
		return exchange(ctx, tx, tenant, corpus, space, clean(to.Splitter))
	})
	return switched, wrap("switch corpus "+name+" to its new index", err)
}

// exchange replaces the index of a locked corpus by the versions that are ready for another.
func exchange(ctx context.Context, tx pgx.Tx, tenant string, corpus int64, space int, splitter string) error {
	for _, step := range []struct {
		sql  string
		args []any
	}{
		{`DELETE FROM postings WHERE tenant = $1 AND corpus = $2`, []any{tenant, corpus}},
		{`DELETE FROM corpus_languages WHERE tenant = $1 AND corpus = $2`, []any{tenant, corpus}},
		{`DELETE FROM passage_vectors WHERE tenant = $1 AND corpus = $2`, []any{tenant, corpus}},
		{`UPDATE corpora SET space = $3, splitter = $4, analyzer = $5, revision = revision + 1 WHERE tenant = $1 AND id = $2`,
			[]any{tenant, corpus, space, splitter, analysis.Version}},
		{`UPDATE document_versions v SET state = 'retired' FROM documents d WHERE d.tenant = $1 AND d.corpus = $2 AND v.tenant = $1 AND v.id = d.live_version`, []any{tenant, corpus}},
		// What waits or has failed is for the old index still. It starts anew for the new one; whoever works on it has lost the lease.
		{`UPDATE document_versions v SET space = $3, splitter = $4, state = CASE v.state WHEN 'failed' THEN v.state ELSE 'received' END,
			lease = v.lease + 1, lease_until = '-infinity', attempt = 0, embedded = 0 FROM documents d
			WHERE d.tenant = $1 AND d.corpus = $2 AND v.tenant = $1 AND v.document = d.id AND v.state NOT IN ('ready', 'retired') AND (v.space <> $3 OR v.splitter <> $4)`,
			[]any{tenant, corpus, space, splitter}},
	} {
		if _, err := tx.Exec(ctx, step.sql, step.args...); err != nil {
			return err
		}
	}
	rows, err := tx.Query(ctx, `SELECT v.id FROM documents d JOIN document_versions v ON v.tenant = $1 AND v.document = d.id
		WHERE d.tenant = $1 AND d.corpus = $2 AND v.state = 'ready' AND v.space = $3 AND v.splitter = $4 ORDER BY v.id`, tenant, corpus, space, splitter)
	if err != nil {
		return err
	}
	versions, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	return enliven(ctx, tx, tenant, corpus, versions)
}
