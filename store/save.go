package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/pgvector/pgvector-go"

	"ragd/embed"
	"ragd/ingest"
	"ragd/retrieve/analysis"
)

// layout is what document_texts.layout holds.
type layout struct {
	Pages  []ingest.Page  `json:"pages"`
	Blocks []ingest.Block `json:"blocks"`
}

// SaveDocument implements [ingest.Store].
func (s *Store) SaveDocument(ctx context.Context, job *ingest.Job, d *ingest.Document) error {
	if clean(d.Text) != d.Text {
		// Cleaning here would move every offset after the fault.
		return wrap("save "+job.Path, errors.New("the text holds NUL or is not UTF-8; this is a fault of the format's reader"))
	}
	encoded, err := json.Marshal(layout{Pages: d.Pages, Blocks: d.Blocks})
	if err != nil {
		return wrap("save "+job.Path, err)
	}
	geometry, err := d.Geometry.MarshalBinary()
	if err != nil {
		return wrap("save "+job.Path, err)
	}
	if geometry == nil {
		geometry = []byte{} // not NULL
	}
	return s.advance(ctx, job, ingest.Parsed, func(tx pgx.Tx) error {
		if err := saveText(ctx, tx, job, d.Text, encoded); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE document_texts SET geometry = $3 WHERE tenant = $1 AND version = $2`, job.Tenant, job.Version, geometry); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE document_versions SET kind = $3, title = $4, lang = $5, warnings = $6 WHERE tenant = $1 AND id = $2`,
			job.Tenant, job.Version, clean(d.Kind), clean(d.Title), clean(d.Language), cleanAll(d.Warnings))
		return err
	})
}

// saveText stores a text with its layout. A long one goes over in pieces that the server puts together: an argument is copied several times on its way.
func saveText(ctx context.Context, tx pgx.Tx, job *ingest.Job, text string, layout []byte) error {
	const replace = ` ON CONFLICT (tenant, version) DO UPDATE SET text = EXCLUDED.text, layout = EXCLUDED.layout`
	if len(text) <= pieceBytes {
		_, err := tx.Exec(ctx, `INSERT INTO document_texts (tenant, version, text, layout) VALUES ($1, $2, $3, $4)`+replace, job.Tenant, job.Version, []byte(text), layout)
		return err
	}
	if _, err := tx.Exec(ctx, `CREATE TEMP TABLE text_pieces (seq integer, data bytea) ON COMMIT DROP`); err != nil {
		return err
	}
	pieces := (len(text) + pieceBytes - 1) / pieceBytes
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"text_pieces"}, []string{"seq", "data"}, pgx.CopyFromSlice(pieces, func(i int) ([]any, error) {
		return []any{i, []byte(text[i*pieceBytes : min((i+1)*pieceBytes, len(text))])}, nil
	}))
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO document_texts (tenant, version, text, layout)
		SELECT $1, $2, string_agg(data, ''::bytea ORDER BY seq), $3 FROM text_pieces`+replace, job.Tenant, job.Version, layout)
	return err
}

// advance runs fn under the job's lease and sets the version's state.
func (s *Store) advance(ctx context.Context, job *ingest.Job, state ingest.State, fn func(pgx.Tx) error) error {
	err := s.owned(ctx, job, "save", func(tx pgx.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE document_versions SET state = $3, attempt = CASE WHEN state = $3 THEN attempt ELSE 0 END,
			error_class = '', error_message = '' WHERE tenant = $1 AND id = $2`, job.Tenant, job.Version, string(state))
		return err
	})
	if err == nil {
		job.State = state
	}
	return err
}

// Document implements [ingest.Store].
func (s *Store) Document(ctx context.Context, job *ingest.Job) (*ingest.Document, error) {
	var d ingest.Document
	err := s.owned(ctx, job, "read the document", func(tx pgx.Tx) error {
		var text []byte
		var l layout
		err := tx.QueryRow(ctx, `SELECT v.kind, v.title, v.lang, v.warnings, t.text, t.layout FROM document_versions v JOIN document_texts t ON t.tenant = v.tenant AND t.version = v.id
			WHERE v.tenant = $1 AND v.id = $2`, job.Tenant, job.Version).Scan(&d.Kind, &d.Title, &d.Language, &d.Warnings, &text, &l)
		d.Text, d.Pages, d.Blocks = string(text), l.Pages, l.Blocks
		return err
	})
	return &d, err
}

// bag is a passage as the lexical index sees it.
type bag struct {
	terms  []string
	counts []int16
	length int
}

// termsOf counts the terms of a text.
func termsOf(text, lang string) bag {
	all := analysis.Terms(clean(text), lang)
	b := bag{terms: []string{}, counts: []int16{}, length: len(all)}
	at := make(map[string]int, len(all))
	for _, term := range all {
		i, ok := at[term]
		if !ok {
			i = len(b.terms)
			at[term] = i
			b.terms, b.counts = append(b.terms, term), append(b.counts, 0)
		}
		if b.counts[i] < math.MaxInt16 {
			b.counts[i]++
		}
	}
	return b
}

// SavePassages implements [ingest.Store].
func (s *Store) SavePassages(ctx context.Context, job *ingest.Job, ps []ingest.Passage) error {
	// Row by row: the terms of all passages of a large document would take more memory than its text.
	rows := pgx.CopyFromSlice(len(ps), func(i int) ([]any, error) {
		p := &ps[i]
		b := termsOf(p.Indexed(), p.Language)
		return []any{job.Tenant, job.Version, i, p.Start, p.End, p.Page, p.Tokens, clean(p.Language), clean(p.Heading), clean(p.Context), clean(p.Text), b.terms, b.counts, b.length, cleanAll(p.Personal)}, nil
	})
	return s.advance(ctx, job, ingest.Split, func(tx pgx.Tx) error {
		if err := savePersonal(ctx, tx, job, ps); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM passages WHERE tenant = $1 AND version = $2`, job.Tenant, job.Version); err != nil {
			return err
		}
		if err := reusePlans(ctx, tx); err != nil {
			return err
		}
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"passages"}, []string{"tenant", "version", "seq", "start_byte", "end_byte", "page", "tokens", "lang", "heading", "context", "text", "terms", "counts", "length", "personal"}, rows)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE document_versions SET passages = $3, embedded = 0 WHERE tenant = $1 AND id = $2`, job.Tenant, job.Version, len(ps))
		return err
	})
}

// Pending implements [ingest.Store].
func (s *Store) Pending(ctx context.Context, job *ingest.Job) (pending []ingest.Pending, err error) {
	err = s.owned(ctx, job, "list passages of", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT p.seq, p.context, p.text FROM passages p WHERE p.tenant = $1 AND p.version = $2
			AND NOT EXISTS (SELECT FROM staged_vectors v WHERE v.tenant = p.tenant AND v.version = p.version AND v.seq = p.seq) ORDER BY p.seq`, job.Tenant, job.Version)
		if err != nil {
			return err
		}
		pending, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (ingest.Pending, error) {
			var seq int
			var p ingest.Passage
			err := row.Scan(&seq, &p.Context, &p.Text)
			return ingest.Pending{Seq: seq, Text: p.Indexed()}, err
		})
		return err
	})
	return pending, err
}

// SaveVectors implements [ingest.Store].
func (s *Store) SaveVectors(ctx context.Context, job *ingest.Job, seqs []int, vs []embed.Vector) error {
	if len(seqs) != len(vs) {
		return wrap("save vectors of "+job.Path, fmt.Errorf("%d vectors for %d passages", len(vs), len(seqs)))
	}
	halves := make([]pgvector.HalfVector, len(vs))
	for i, v := range vs {
		if len(v) != job.Index.Dim {
			return wrap("save vectors of "+job.Path, fmt.Errorf("a vector has %d dimensions, %s has %d: %w", len(v), job.Index.Model, job.Index.Dim, ErrIndexMismatch))
		}
		halves[i] = pgvector.NewHalfVector(v)
	}
	state := job.State
	err := s.owned(ctx, job, "save vectors of", func(tx pgx.Tx) error {
		if err := reusePlans(ctx, tx); err != nil {
			return err
		}
		// xmax is 0 for a row that was not there before.
		return tx.QueryRow(ctx, `WITH saved AS (
				INSERT INTO staged_vectors (tenant, version, seq, embedding) SELECT $1, $2, * FROM unnest($3::integer[], $4::halfvec[])
				ON CONFLICT (tenant, version, seq) DO UPDATE SET embedding = EXCLUDED.embedding RETURNING xmax = 0 AS fresh),
			total AS (SELECT v.embedded + (SELECT count(*) FILTER (WHERE fresh) FROM saved) AS embedded FROM document_versions v WHERE v.tenant = $1 AND v.id = $2)
			UPDATE document_versions v SET embedded = t.embedded, state = CASE WHEN t.embedded = v.passages THEN 'embedded' ELSE v.state END,
				attempt = CASE WHEN t.embedded = v.passages THEN 0 ELSE v.attempt END
			FROM total t WHERE v.tenant = $1 AND v.id = $2 RETURNING v.state`, job.Tenant, job.Version, seqs, halves).Scan(&state)
	})
	if err == nil {
		job.State = state
	}
	return err
}
