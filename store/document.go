package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ragd/ingest"
	"ragd/retrieve"
)

// Document is a path of a corpus and how far its newest version has come.
type Document struct {
	ID         retrieve.DocumentID
	Corpus     string
	Path       string
	Title      string
	Kind       string
	Language   string
	Tags       []string
	SHA256     string // hexadecimal, of the newest version
	Size       int64
	ModifiedAt time.Time // zero when unknown
	Live       bool      // some version can be found, also while a newer one is being worked on or has failed
	State      ingest.State
	Passages   int
	Warnings   []string
	Personal   []string     // kinds of personal data in it, see package personal
	ErrorClass ingest.Class // of a failed version, or of the last attempt that will be repeated
	Error      string
}

const documentColumns = `SELECT d.id, c.name, d.path, v.title, v.kind, v.lang, d.tags, v.sha256, v.size, d.modified_at, d.live_version IS NOT NULL,
		v.state, v.passages, v.warnings, v.personal, v.error_class, v.error_message
	FROM documents d JOIN corpora c ON c.tenant = d.tenant AND c.id = d.corpus
	CROSS JOIN LATERAL (SELECT * FROM document_versions n WHERE n.tenant = d.tenant AND n.document = d.id
		ORDER BY (n.space = c.space AND n.splitter = c.splitter) DESC, n.id DESC LIMIT 1) v `

func scanDocument(row pgx.CollectableRow) (d Document, err error) {
	var hash []byte
	var modified *time.Time
	err = row.Scan(&d.ID, &d.Corpus, &d.Path, &d.Title, &d.Kind, &d.Language, &d.Tags, &hash, &d.Size, &modified, &d.Live, &d.State, &d.Passages, &d.Warnings, &d.Personal, &d.ErrorClass, &d.Error)
	d.SHA256 = hex.EncodeToString(hash)
	if modified != nil {
		d.ModifiedAt = *modified
	}
	return d, err
}

// Documents lists documents in the order of their ids, those after the id given, at most limit. No corpora are all; state "" is every state.
func (s *Store) Documents(ctx context.Context, tenant string, corpora []string, state ingest.State, after retrieve.DocumentID, limit int) ([]Document, error) {
	rows, err := s.pool.Query(ctx, documentColumns+`WHERE d.tenant = $1 AND ($2::text[] IS NULL OR c.name = ANY ($2)) AND ($3 = '' OR v.state = $3) AND d.id > $4 ORDER BY d.id LIMIT $5`,
		tenantOf(tenant), orNull(corpora), string(state), after, limit)
	if err != nil {
		return nil, wrap("list documents", err)
	}
	list, err := pgx.CollectRows(rows, scanDocument)
	return list, wrap("list documents", err)
}

// DocumentByID returns one document. ErrNotFound when the tenant has none with this id.
func (s *Store) DocumentByID(ctx context.Context, tenant string, id retrieve.DocumentID) (Document, error) {
	rows, err := s.pool.Query(ctx, documentColumns+`WHERE d.tenant = $1 AND d.id = $2`, tenantOf(tenant), id)
	if err != nil {
		return Document{}, wrap("read document", err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanDocument)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("document %d: %w", id, ErrNotFound)
	}
	return d, wrap("read document", err)
}

// DocumentByPath returns the document at a path of a corpus, or ErrNotFound.
func (s *Store) DocumentByPath(ctx context.Context, tenant, corpus, path string) (Document, error) {
	rows, err := s.pool.Query(ctx, documentColumns+`WHERE d.tenant = $1 AND c.name = $2 AND d.path = $3`, tenantOf(tenant), clean(corpus), clean(path))
	if err != nil {
		return Document{}, wrap("find document", err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanDocument)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("document %q of corpus %q: %w", path, corpus, ErrNotFound)
	}
	return d, wrap("find document", err)
}

// Text is normalised text of a document's live version.
type Text struct {
	Version int64
	Text    string
	Pages   []ingest.Page
	Blocks  []ingest.Block
}

// Text returns the text of a document's live version with its pages and blocks. ErrNotFound while there is none.
func (s *Store) Text(ctx context.Context, tenant string, id retrieve.DocumentID) (Text, error) {
	var t Text
	var text []byte
	var l layout
	err := s.pool.QueryRow(ctx, `SELECT t.version, t.text, t.layout FROM documents d JOIN document_texts t ON t.tenant = d.tenant AND t.version = d.live_version
		WHERE d.tenant = $1 AND d.id = $2`, tenantOf(tenant), id).Scan(&t.Version, &text, &l)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("document %d has no text yet: %w", id, ErrNotFound)
	}
	t.Text, t.Pages, t.Blocks = string(text), l.Pages, l.Blocks
	return t, wrap("read text", err)
}

// DeleteDocument removes a document in whatever state it is: its versions, texts, passages, vectors and postings, bytes that no other document has,
// and the answers that saw it, in one transaction. A worker that is busy with it loses its lease.
func (s *Store) DeleteDocument(ctx context.Context, tenant string, id retrieve.DocumentID) error {
	tenant = tenantOf(tenant)
	err := s.deletion(ctx, func(tx pgx.Tx) error {
		var corpus int64
		err := tx.QueryRow(ctx, `SELECT corpus FROM documents WHERE tenant = $1 AND id = $2`, tenant, id).Scan(&corpus)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("document %d: %w", id, ErrNotFound)
		}
		if err != nil {
			return err
		}
		if err := lockCorpus(ctx, tx, tenant, corpus); err != nil {
			return err
		}
		var live *int64
		err = tx.QueryRow(ctx, `SELECT live_version FROM documents WHERE tenant = $1 AND id = $2 FOR UPDATE`, tenant, id).Scan(&live)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("document %d: %w", id, ErrNotFound)
		}
		if err != nil {
			return err
		}
		if live != nil {
			if err := unindex(ctx, tx, tenant, corpus, *live); err != nil {
				return err
			}
		}
		if err := deleteAnswersAbout(ctx, tx, tenant, []int64{int64(id)}); err != nil {
			return err
		}
		if err := announceDeletion(ctx, tx, tenant); err != nil {
			return err
		}
		var hashes [][]byte
		err = tx.QueryRow(ctx, `SELECT coalesce(array_agg(DISTINCT sha256), '{}') FROM document_versions WHERE tenant = $1 AND document = $2`, tenant, id).Scan(&hashes)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM uploads WHERE tenant = $1 AND document = $2`, tenant, id); err != nil {
			return err
		}
		// Versions, texts, passages and vectors go with the document, by foreign keys.
		if _, err := tx.Exec(ctx, `DELETE FROM documents WHERE tenant = $1 AND id = $2`, tenant, id); err != nil {
			return err
		}
		return deleteUnused(ctx, tx, tenant, hashes)
	})
	return wrap("delete document", err)
}

// Cancel takes versions that are not live yet out of work; document 0 is all of the corpus. What is live stays so; a document that never was is gone
// with its bytes. A worker that is busy with one loses its lease. It returns how many there were.
func (s *Store) Cancel(ctx context.Context, tenant, corpus string, document retrieve.DocumentID) (n int, err error) {
	tenant = tenantOf(tenant)
	err = s.deletion(ctx, func(tx pgx.Tx) error {
		_, id, _, err := findCorpus(ctx, tx, tenant, clean(corpus))
		if err != nil {
			return err
		}
		// Documents before versions: the order of locks that everybody keeps.
		const waiting = `v.state IN ('received', 'parsed', 'split', 'embedded')`
		if _, err := tx.Exec(ctx, `SELECT FROM documents d WHERE d.tenant = $1 AND d.corpus = $2 AND ($3 = 0 OR d.id = $3)
			AND EXISTS (SELECT FROM document_versions v WHERE v.tenant = $1 AND v.document = d.id AND `+waiting+`) ORDER BY d.id FOR UPDATE`, tenant, id, int64(document)); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `DELETE FROM document_versions v USING documents d, corpora c
			WHERE c.tenant = $1 AND c.id = $2 AND d.tenant = $1 AND d.corpus = c.id AND ($3 = 0 OR d.id = $3) AND v.tenant = $1 AND v.document = d.id
				AND `+waiting+` AND `+own+` RETURNING d.id, v.sha256`, tenant, id, int64(document))
		if err != nil {
			return err
		}
		var documents []int64
		var hashes [][]byte
		var cancelled int64
		var hash []byte
		_, err = pgx.ForEachRow(rows, []any{&cancelled, &hash}, func() error {
			documents, hashes = append(documents, cancelled), append(hashes, hash)
			hash = nil // Scan would reuse it
			return nil
		})
		if err != nil {
			return err
		}
		n = len(documents)
		_, err = tx.Exec(ctx, `DELETE FROM documents d WHERE d.tenant = $1 AND d.id = ANY ($2)
			AND NOT EXISTS (SELECT FROM document_versions v WHERE v.tenant = $1 AND v.document = d.id)`, tenant, documents)
		if err != nil {
			return err
		}
		return deleteUnused(ctx, tx, tenant, hashes)
	})
	return n, wrap("cancel", err)
}

// LivePassages returns how a document's live version was split, in order.
func (s *Store) LivePassages(ctx context.Context, tenant string, id retrieve.DocumentID) ([]ingest.Passage, error) {
	rows, err := s.pool.Query(ctx, `SELECT p.start_byte, p.end_byte, p.page, p.tokens, p.lang, p.heading, p.context, p.text, p.personal
		FROM documents d JOIN passages p ON p.tenant = d.tenant AND p.version = d.live_version WHERE d.tenant = $1 AND d.id = $2 ORDER BY p.seq`, tenantOf(tenant), id)
	if err != nil {
		return nil, wrap("read passages", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p ingest.Passage, err error) {
		return p, row.Scan(&p.Start, &p.End, &p.Page, &p.Tokens, &p.Language, &p.Heading, &p.Context, &p.Text, &p.Personal)
	})
	return list, wrap("read passages", err)
}

// deleteUnused removes the contents among hashes that no version has any more.
func deleteUnused(ctx context.Context, tx pgx.Tx, tenant string, hashes [][]byte) error {
	_, err := tx.Exec(ctx, `DELETE FROM contents c WHERE c.tenant = $1 AND c.sha256 = ANY ($2)
		AND NOT EXISTS (SELECT FROM document_versions v WHERE v.tenant = c.tenant AND v.sha256 = c.sha256)`, tenant, hashes)
	return err
}

// deletion runs fn as tx does, and again when a version with the same bytes was received meanwhile, which forbids to delete them.
func (s *Store) deletion(ctx context.Context, fn func(pgx.Tx) error) error {
	for attempt := 0; ; attempt++ {
		err := s.tx(ctx, fn)
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == foreignKeyViolation && attempt < 5 {
			continue
		}
		return err
	}
}

// Retry puts failed versions back to work, from the beginning; document 0 is all of the corpus. It returns how many there were.
func (s *Store) Retry(ctx context.Context, tenant, corpus string, document retrieve.DocumentID) (int, error) {
	tag, err := s.pool.Exec(ctx, `UPDATE document_versions v SET state = 'received', attempt = 0, lease = lease + 1, lease_until = '-infinity', retry_at = '-infinity',
			error_class = '', error_message = '' FROM documents d, corpora c
		WHERE d.tenant = v.tenant AND d.id = v.document AND c.tenant = d.tenant AND c.id = d.corpus
			AND v.tenant = $1 AND v.state = 'failed' AND c.name = $2 AND ($3 = 0 OR d.id = $3)`, tenantOf(tenant), clean(corpus), int64(document))
	return int(tag.RowsAffected()), wrap("retry", err)
}
