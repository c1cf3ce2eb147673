package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"ragd/ingest"
	"ragd/retrieve/analysis"
)

// Corpus is a named collection of documents that are indexed alike.
type Corpus struct {
	Name      string
	Index     ingest.Index
	Revision  int64 // grows with every change of what can be found
	Documents int64 // with a live version
	Waiting   int64 // versions that are not live yet
	Failed    int64
	Next      int64 // versions made for another index, while the corpus changes to it
	Passages  int64
	CreatedAt time.Time
}

// Corpora lists the corpora of a tenant by name; names selects, none is all.
func (s *Store) Corpora(ctx context.Context, tenant string, names ...string) ([]Corpus, error) {
	rows, err := s.pool.Query(ctx, `SELECT c.name, e.model, e.dim, c.splitter, c.revision, c.created_at,
			(SELECT count(*) FROM documents d WHERE d.tenant = c.tenant AND d.corpus = c.id AND d.live_version IS NOT NULL),
			coalesce(v.waiting, 0), coalesce(v.failed, 0), coalesce(v.next, 0),
			(SELECT coalesce(sum(l.passages), 0)::bigint FROM corpus_languages l WHERE l.tenant = c.tenant AND l.corpus = c.id)
		FROM corpora c JOIN embedding_spaces e ON e.id = c.space
		LEFT JOIN LATERAL (SELECT count(*) FILTER (WHERE v.state <> 'failed' AND own) waiting, count(*) FILTER (WHERE v.state = 'failed' AND own) failed,
			count(*) FILTER (WHERE NOT own) next
			FROM documents d JOIN document_versions v ON v.tenant = d.tenant AND v.document = d.id
			CROSS JOIN LATERAL (SELECT v.space = c.space AND v.splitter = c.splitter AS own) o
			WHERE d.tenant = c.tenant AND d.corpus = c.id AND v.state NOT IN ('live', 'retired')) v ON true
		WHERE c.tenant = $1 AND ($2::text[] IS NULL OR c.name = ANY ($2)) ORDER BY c.name`, tenantOf(tenant), orNull(names))
	if err != nil {
		return nil, wrap("list corpora", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Corpus, err error) {
		return c, row.Scan(&c.Name, &c.Index.Model, &c.Index.Dim, &c.Index.Splitter, &c.Revision, &c.CreatedAt, &c.Documents, &c.Waiting, &c.Failed, &c.Next, &c.Passages)
	})
	return list, wrap("list corpora", err)
}

// CreateCorpus makes an empty corpus; one that exists is kept when its index is the same, else the error is ErrIndexMismatch.
func (s *Store) CreateCorpus(ctx context.Context, tenant, name string, index ingest.Index) error {
	err := s.tx(ctx, func(tx pgx.Tx) error {
		_, _, err := ensureCorpus(ctx, tx, tenantOf(tenant), clean(name), index)
		return err
	})
	return wrap("create corpus", err)
}

// ensureCorpus returns the ids of a corpus and its space, creating what does not exist.
func ensureCorpus(ctx context.Context, tx pgx.Tx, tenant, name string, index ingest.Index) (corpus int64, space int, err error) {
	have, corpus, space, err := findCorpus(ctx, tx, tenant, name)
	if errors.Is(err, ErrNotFound) {
		if space, err = ensureSpace(ctx, tx, index); err != nil {
			return 0, 0, err
		}
		_, err = tx.Exec(ctx, `INSERT INTO corpora (tenant, name, space, splitter, analyzer) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (tenant, name) DO NOTHING`,
			tenant, name, space, clean(index.Splitter), analysis.Version)
		if err != nil {
			return 0, 0, err
		}
		have, corpus, space, err = findCorpus(ctx, tx, tenant, name)
	}
	if err != nil {
		return 0, 0, err
	}
	if have != index {
		return 0, 0, fmt.Errorf("corpus %q %w", name, have.Mismatch(index))
	}
	return corpus, space, nil
}

// findCorpus finds a corpus and holds off a switch of its index until the transaction ends.
func findCorpus(ctx context.Context, tx pgx.Tx, tenant, name string) (index ingest.Index, corpus int64, space int, err error) {
	err = tx.QueryRow(ctx, `SELECT c.id, c.space, e.model, e.dim, c.splitter FROM corpora c JOIN embedding_spaces e ON e.id = c.space
		WHERE c.tenant = $1 AND c.name = $2 FOR KEY SHARE OF c`, tenant, name).Scan(&corpus, &space, &index.Model, &index.Dim, &index.Splitter)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("corpus %q: %w", name, ErrNotFound)
	}
	return index, corpus, space, err
}

func ensureSpace(ctx context.Context, tx pgx.Tx, index ingest.Index) (space int, err error) {
	_, err = tx.Exec(ctx, `INSERT INTO embedding_spaces (model, dim) VALUES ($1, $2) ON CONFLICT (model, dim) DO NOTHING`, clean(index.Model), index.Dim)
	if err == nil {
		err = tx.QueryRow(ctx, `SELECT id FROM embedding_spaces WHERE model = $1 AND dim = $2`, clean(index.Model), index.Dim).Scan(&space)
	}
	return space, err
}

// DeleteCorpus removes a corpus with all that it holds, and the answers that saw its documents.
func (s *Store) DeleteCorpus(ctx context.Context, tenant, name string) error {
	tenant = tenantOf(tenant)
	err := s.deletion(ctx, func(tx pgx.Tx) error {
		var corpus int64
		err := tx.QueryRow(ctx, `SELECT id FROM corpora WHERE tenant = $1 AND name = $2 FOR UPDATE`, tenant, clean(name)).Scan(&corpus)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("corpus %q: %w", name, ErrNotFound)
		}
		if err != nil {
			return err
		}
		var documents []int64
		var hashes [][]byte
		err = tx.QueryRow(ctx, `SELECT coalesce(array_agg(DISTINCT d.id), '{}'), coalesce(array_agg(DISTINCT v.sha256) FILTER (WHERE v.sha256 IS NOT NULL), '{}')
			FROM documents d LEFT JOIN document_versions v ON v.tenant = d.tenant AND v.document = d.id
			WHERE d.tenant = $1 AND d.corpus = $2`, tenant, corpus).Scan(&documents, &hashes)
		if err != nil {
			return err
		}
		if err := deleteAnswersAbout(ctx, tx, tenant, documents); err != nil {
			return err
		}
		if err := announceDeletion(ctx, tx, tenant); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM uploads WHERE tenant = $1 AND (corpus = $2 OR document = ANY ($3))`, tenant, clean(name), documents); err != nil {
			return err
		}
		// Everything but the postings goes with the corpus, by foreign keys.
		for _, sql := range []string{`DELETE FROM postings WHERE tenant = $1 AND corpus = $2`, `DELETE FROM corpora WHERE tenant = $1 AND id = $2`} {
			if _, err := tx.Exec(ctx, sql, tenant, corpus); err != nil {
				return err
			}
		}
		return deleteUnused(ctx, tx, tenant, hashes)
	})
	return wrap("delete corpus", err)
}

// lockCorpus orders the writers of a corpus's lexical index and notes that what can be found changes.
func lockCorpus(ctx context.Context, tx pgx.Tx, tenant string, corpus int64) error {
	_, err := tx.Exec(ctx, `UPDATE corpora SET revision = revision + 1 WHERE tenant = $1 AND id = $2`, tenant, corpus)
	return err
}

// Reindex builds the lexical index of a corpus anew from its passages: with the terms of this program's analyzer, in full blocks.
func (s *Store) Reindex(ctx context.Context, tenant, name string) error {
	tenant = tenantOf(tenant)
	err := s.tx(ctx, func(tx pgx.Tx) error {
		_, corpus, _, err := findCorpus(ctx, tx, tenant, clean(name))
		if err != nil {
			return err
		}
		if err := lockCorpus(ctx, tx, tenant, corpus); err != nil {
			return err
		}
		for _, sql := range []string{`DELETE FROM postings WHERE tenant = $1 AND corpus = $2`, `DELETE FROM corpus_languages WHERE tenant = $1 AND corpus = $2`} {
			if _, err := tx.Exec(ctx, sql, tenant, corpus); err != nil {
				return err
			}
		}
		if err := reanalyze(ctx, tx, tenant, corpus); err != nil {
			return err
		}
		live, err := tx.Query(ctx, `SELECT live_version FROM documents WHERE tenant = $1 AND corpus = $2 AND live_version IS NOT NULL ORDER BY live_version`, tenant, corpus)
		if err != nil {
			return err
		}
		versions, err := pgx.CollectRows(live, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		if _, err := indexAll(ctx, tx, tenant, corpus, versions); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE corpora SET analyzer = $3 WHERE tenant = $1 AND id = $2`, tenant, corpus, analysis.Version)
		return err
	})
	return wrap("rebuild the lexical index", err)
}

// reanalyze computes the terms of all passages of a corpus again, of every version.
func reanalyze(ctx context.Context, tx pgx.Tx, tenant string, corpus int64) error {
	const batch = 1000
	for after := int64(0); ; {
		rows, err := tx.Query(ctx, `SELECT p.id, p.lang, p.context, p.text FROM documents d JOIN document_versions v ON v.tenant = d.tenant AND v.document = d.id
			JOIN passages p ON p.tenant = v.tenant AND p.version = v.id
			WHERE d.tenant = $1 AND d.corpus = $2 AND p.id > $3 ORDER BY p.id LIMIT $4`, tenant, corpus, after, batch)
		if err != nil {
			return err
		}
		var updates pgx.Batch
		var id int64
		var p ingest.Passage
		_, err = pgx.ForEachRow(rows, []any{&id, &p.Language, &p.Context, &p.Text}, func() error {
			t := termsOf(p.Indexed(), p.Language)
			updates.Queue(`UPDATE passages SET terms = $3, counts = $4, length = $5 WHERE tenant = $1 AND id = $2`, tenant, id, t.terms, t.counts, t.length)
			after = id
			return nil
		})
		if err != nil {
			return err
		}
		if updates.Len() == 0 {
			return nil
		}
		if err := tx.SendBatch(ctx, &updates).Close(); err != nil {
			return err
		}
	}
}
