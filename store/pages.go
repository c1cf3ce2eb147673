package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"ragd/ingest"
	"ragd/retrieve"
)

// Original is a document's live version as it was received, with where its words lie on its pages.
type Original struct {
	Corpus   string
	Kind     string
	Data     []byte
	Geometry ingest.Geometry
}

// Original returns what a document was read from. ErrNotFound while it has no live version, or where its bytes are not kept.
func (s *Store) Original(ctx context.Context, tenant string, id retrieve.DocumentID) (o Original, err error) {
	var geometry []byte
	err = s.pool.QueryRow(ctx, `SELECT c.name, v.kind, t.geometry, (SELECT string_agg(p.data, ''::bytea ORDER BY p.seq) FROM content_pieces p WHERE p.tenant = v.tenant AND p.sha256 = v.sha256)
		FROM documents d JOIN corpora c ON c.tenant = d.tenant AND c.id = d.corpus JOIN document_versions v ON v.tenant = d.tenant AND v.id = d.live_version
		JOIN document_texts t ON t.tenant = v.tenant AND t.version = v.id WHERE d.tenant = $1 AND d.id = $2`, tenantOf(tenant), id).Scan(&o.Corpus, &o.Kind, &geometry, &o.Data)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("document %d: %w", id, ErrNotFound)
	}
	if err == nil && len(geometry) > 0 {
		err = o.Geometry.UnmarshalBinary(geometry)
	}
	return o, wrap("read the original of a document", err)
}
