package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"ragd/ingest"
	"ragd/personal"
	"ragd/retrieve"
)

// SetPersonalData sets what a corpus does about personal data. Mask and Keep hold at once, for all that is read out; Refuse for documents that are
// taken in from now on. ErrNotFound when there is no such corpus.
func (s *Store) SetPersonalData(ctx context.Context, tenant, corpus string, policy personal.Policy) error {
	tag, err := s.pool.Exec(ctx, `UPDATE corpora SET personal_data = $3, revision = revision + 1 WHERE tenant = $1 AND name = $2`, tenantOf(tenant), clean(corpus), string(policy))
	if err == nil && tag.RowsAffected() == 0 {
		err = fmt.Errorf("corpus %q: %w", corpus, ErrNotFound)
	}
	return wrap("set the policy for personal data", err)
}

// savePersonal notes what kinds of personal data a version's passages hold, and refuses it where its corpus does.
func savePersonal(ctx context.Context, tx pgx.Tx, job *ingest.Job, ps []ingest.Passage) error {
	kinds := []string{}
	for _, p := range ps {
		for _, k := range p.Personal {
			if !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
	}
	slices.Sort(kinds)
	var policy personal.Policy
	err := tx.QueryRow(ctx, `UPDATE document_versions v SET personal = $3 FROM documents d JOIN corpora c ON c.tenant = d.tenant AND c.id = d.corpus
		WHERE v.tenant = $1 AND v.id = $2 AND d.tenant = v.tenant AND d.id = v.document RETURNING c.personal_data`, job.Tenant, job.Version, kinds).Scan(&policy)
	if err == nil && policy == personal.Refuse && len(kinds) > 0 {
		return &ingest.Error{Class: ingest.PersonalData, Message: fmt.Sprintf("%s holds personal data (%s), which corpus %s refuses; remove it from the file, or change the policy with 'ragd ingest -c %s --personal-data mask'",
			job.Path, strings.Join(kinds, ", "), job.Corpus, job.Corpus)}
	}
	return err
}

// forgetRefused removes what was read of a version that was refused for its personal data.
func forgetRefused(ctx context.Context, tx pgx.Tx, job *ingest.Job, class ingest.Class) error {
	if class != ingest.PersonalData {
		return nil
	}
	_, err := tx.Exec(ctx, `DELETE FROM document_texts WHERE tenant = $1 AND version = $2`, job.Tenant, job.Version)
	return err
}

// Boxes says where bytes [start,end) of the text of a document's live version lie on its pages; empty for formats without places. ErrNotFound while
// there is no live version.
func (s *Store) Boxes(ctx context.Context, tenant string, id retrieve.DocumentID, start, end int) ([]ingest.PageBoxes, error) {
	var encoded []byte
	err := s.pool.QueryRow(ctx, `SELECT t.geometry FROM documents d JOIN document_texts t ON t.tenant = d.tenant AND t.version = d.live_version
		WHERE d.tenant = $1 AND d.id = $2`, tenantOf(tenant), id).Scan(&encoded)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("document %d has no text yet: %w", id, ErrNotFound)
	}
	var g ingest.Geometry
	if err == nil {
		err = g.UnmarshalBinary(encoded)
	}
	if err != nil {
		return nil, wrap("read places", err)
	}
	return g.Boxes(start, end), nil
}
