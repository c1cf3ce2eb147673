package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"ragd/ingest"
)

var _ ingest.Store = (*Store)(nil)

// pieceBytes is the size of the pieces in which files are stored.
const pieceBytes = 1 << 20

// Receive implements [ingest.Store].
func (s *Store) Receive(ctx context.Context, c ingest.Candidate, content io.Reader) (ingest.Outcome, int64, error) {
	tenant := tenantOf(c.Tenant)
	doing := "receive " + c.Path
	// The bytes first, in a transaction of their own: a large upload holds no lock that others wait for.
	if err := s.storeContent(ctx, tenant, c, content); err != nil {
		return 0, 0, wrap(doing, err)
	}
	var outcome ingest.Outcome
	var version int64
	err := s.tx(ctx, func(tx pgx.Tx) error {
		corpus, space, err := ensureCorpus(ctx, tx, tenant, clean(c.Corpus), c.Index)
		if err != nil {
			return err
		}
		// The document's row is locked until the end: receiving one path is one thing at a time.
		var document int64
		err = tx.QueryRow(ctx, `INSERT INTO documents AS d (tenant, corpus, path, tags, modified_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (tenant, corpus, path) DO UPDATE SET tags = EXCLUDED.tags, modified_at = EXCLUDED.modified_at RETURNING id`,
			tenant, corpus, clean(c.Path), cleanAll(c.Tags), orNullTime(c.Modified)).Scan(&document)
		if err != nil {
			return err
		}
		outcome, version, err = receive(ctx, tx, tenant, document, space, c)
		return err
	})
	return outcome, version, wrap(doing, err)
}

// receive decides what a candidate means for its document, whose row is locked.
func receive(ctx context.Context, tx pgx.Tx, tenant string, document int64, space int, c ingest.Candidate) (ingest.Outcome, int64, error) {
	// Versions that wait or failed, with other bytes: nobody needs them any more. Their workers lose the lease with the row.
	_, err := tx.Exec(ctx, `DELETE FROM document_versions WHERE tenant = $1 AND document = $2 AND state NOT IN ('live', 'retired')
		AND (sha256 <> $3 OR splitter <> $4 OR space <> $5)`, tenant, document, c.SHA256[:], clean(c.Index.Splitter), space)
	if err != nil {
		return 0, 0, err
	}
	var version int64
	var state string
	err = tx.QueryRow(ctx, `SELECT id, state FROM document_versions WHERE tenant = $1 AND document = $2 AND state <> 'retired'
		AND sha256 = $3 AND splitter = $4 AND space = $5 ORDER BY state = 'live' DESC, id DESC LIMIT 1`,
		tenant, document, c.SHA256[:], clean(c.Index.Splitter), space).Scan(&version, &state)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = tx.QueryRow(ctx, `INSERT INTO document_versions (tenant, document, sha256, size, splitter, space) VALUES ($1, $2, $3, $4, $5, $6) RETURNING id`,
			tenant, document, c.SHA256[:], c.Size, clean(c.Index.Splitter), space).Scan(&version)
		return ingest.Queued, version, err
	case err != nil:
		return 0, 0, err
	case state == string(ingest.Live):
		return ingest.Unchanged, version, nil
	case state == string(ingest.Failed):
		_, err = tx.Exec(ctx, `UPDATE document_versions SET state = 'received', attempt = 0, lease = lease + 1, lease_until = '-infinity', retry_at = '-infinity',
			error_class = '', error_message = '', received_at = now() WHERE tenant = $1 AND id = $2`, tenant, version)
	default:
		_, err = tx.Exec(ctx, `UPDATE document_versions SET attempt = 0 WHERE tenant = $1 AND id = $2`, tenant, version)
	}
	return ingest.Queued, version, err
}

// storeContent stores the candidate's bytes unless the tenant has them.
func (s *Store) storeContent(ctx context.Context, tenant string, c ingest.Candidate, content io.Reader) error {
	var have bool
	err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM contents WHERE tenant = $1 AND sha256 = $2)`, tenant, c.SHA256[:]).Scan(&have)
	if err != nil || have {
		return err
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { // not repeated: content can be read only once
		tag, err := tx.Exec(ctx, `INSERT INTO contents (tenant, sha256, size) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, tenant, c.SHA256[:], c.Size)
		if err != nil || tag.RowsAffected() == 0 { // 0: another process was quicker
			return err
		}
		hash, piece := sha256.New(), make([]byte, pieceBytes)
		for seq := 0; ; seq++ {
			n, err := io.ReadFull(content, piece)
			if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF { // these two are ReadFull's own, for the end
				return &contentError{err}
			}
			hash.Write(piece[:n])
			if n > 0 {
				if _, err := tx.Exec(ctx, `INSERT INTO content_pieces (tenant, sha256, seq, data) VALUES ($1, $2, $3, $4)`, tenant, c.SHA256[:], seq, piece[:n]); err != nil {
					return err
				}
			}
			if n < len(piece) {
				break
			}
		}
		if !bytes.Equal(hash.Sum(nil), c.SHA256[:]) {
			return errors.New("the bytes are not those announced: the file changed while it was read, or the upload broke off; send it again")
		}
		return nil
	})
}

// contentError is a failure of the reader that gives a file's bytes.
type contentError struct{ err error }

func (e *contentError) Error() string { return "read the file: " + e.err.Error() }
func (e *contentError) Unwrap() error { return e.err }

// Claim implements [ingest.Store].
func (s *Store) Claim(ctx context.Context, tenant, corpus string, lease time.Duration) (*ingest.Job, error) {
	if tenant != "" {
		tenant = clean(tenant)
	}
	var j ingest.Job
	var hash []byte
	err := s.pool.QueryRow(ctx, `UPDATE document_versions v SET lease = v.lease + 1, lease_until = now() + $3, attempt = v.attempt + 1
		FROM documents d, corpora c, embedding_spaces e
		WHERE d.tenant = v.tenant AND d.id = v.document AND c.tenant = d.tenant AND c.id = d.corpus AND e.id = v.space
			AND (v.tenant, v.id) = (SELECT w.tenant, w.id FROM document_versions w
				JOIN documents x ON x.tenant = w.tenant AND x.id = w.document JOIN corpora y ON y.tenant = x.tenant AND y.id = x.corpus
				WHERE w.state IN ('received', 'parsed', 'split', 'embedded') AND w.lease_until <= now() AND w.retry_at <= now()
					AND ($1 = '' OR w.tenant = $1) AND ($2 = '' OR y.name = $2)
				ORDER BY w.id LIMIT 1 FOR UPDATE OF w SKIP LOCKED)
		RETURNING v.id, v.lease, v.state, v.attempt, v.tenant, c.name, d.path, v.sha256, v.size, e.model, e.dim, v.splitter`,
		tenant, clean(corpus), lease).Scan(&j.Version, &j.Lease, &j.State, &j.Attempt, &j.Tenant, &j.Corpus, &j.Path, &hash, &j.Size, &j.Index.Model, &j.Index.Dim, &j.Index.Splitter)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, wrap("claim work", err)
	}
	copy(j.SHA256[:], hash)
	return &j, nil
}

// owned runs fn in a transaction in which the job's version is locked and its lease is known to be current.
func (s *Store) owned(ctx context.Context, job *ingest.Job, doing string, fn func(pgx.Tx) error) error {
	err := s.tx(ctx, func(tx pgx.Tx) error {
		if err := checkLease(ctx, tx, job); err != nil {
			return err
		}
		return fn(tx)
	})
	return wrap(doing+" "+job.Path, err)
}

func checkLease(ctx context.Context, tx pgx.Tx, job *ingest.Job) error {
	var one int
	err := tx.QueryRow(ctx, `SELECT 1 FROM document_versions WHERE tenant = $1 AND id = $2 AND lease = $3
		AND state IN ('received', 'parsed', 'split', 'embedded') FOR NO KEY UPDATE`, job.Tenant, job.Version, job.Lease).Scan(&one)
	if errors.Is(err, pgx.ErrNoRows) {
		return ingest.ErrLeaseLost
	}
	return err
}

// Extend implements [ingest.Store].
func (s *Store) Extend(ctx context.Context, job *ingest.Job, lease time.Duration) error {
	return s.owned(ctx, job, "extend the lease of", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE document_versions SET lease_until = now() + $3 WHERE tenant = $1 AND id = $2`, job.Tenant, job.Version, lease)
		return err
	})
}

// Fail implements [ingest.Store].
func (s *Store) Fail(ctx context.Context, job *ingest.Job, f ingest.Failure) error {
	return s.owned(ctx, job, "record the failure of", func(tx pgx.Tx) error {
		// The number of the lease grows, so that this worker's late calls are refused.
		_, err := tx.Exec(ctx, `UPDATE document_versions SET state = CASE WHEN $3 THEN state ELSE 'failed' END, error_class = $4, error_message = $5,
			retry_at = now() + $6, lease = lease + 1, lease_until = '-infinity' WHERE tenant = $1 AND id = $2`,
			job.Tenant, job.Version, f.Retry > 0, clean(string(f.Class)), clean(f.Message), f.Retry)
		return err
	})
}

// Status implements [ingest.Store].
func (s *Store) Status(ctx context.Context, tenant string, version int64) (state ingest.State, f ingest.Failure, err error) {
	err = s.pool.QueryRow(ctx, `SELECT state, error_class, error_message FROM document_versions WHERE tenant = $1 AND id = $2`, tenantOf(tenant), version).
		Scan(&state, &f.Class, &f.Message)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ingest.ErrLeaseLost
	}
	return state, f, wrap(fmt.Sprintf("status of version %d", version), err)
}

// Content implements [ingest.Store]. The bytes come piece by piece.
func (s *Store) Content(ctx context.Context, job *ingest.Job) (io.ReadCloser, error) {
	err := s.owned(ctx, job, "read", func(pgx.Tx) error { return nil })
	if err != nil {
		return nil, err
	}
	return &contentReader{ctx: ctx, store: s, tenant: job.Tenant, sha256: job.SHA256}, nil
}

// contentReader reads stored bytes, one piece in memory at a time.
type contentReader struct {
	ctx    context.Context
	store  *Store
	tenant string
	sha256 [32]byte
	seq    int
	piece  []byte
}

func (r *contentReader) Read(p []byte) (int, error) {
	if len(r.piece) == 0 {
		err := r.store.pool.QueryRow(r.ctx, `SELECT data FROM content_pieces WHERE tenant = $1 AND sha256 = $2 AND seq = $3`, r.tenant, r.sha256[:], r.seq).Scan(&r.piece)
		if errors.Is(err, pgx.ErrNoRows) {
			return 0, io.EOF
		}
		if err != nil {
			return 0, wrap("read content", err)
		}
		r.seq++
	}
	n := copy(p, r.piece)
	r.piece = r.piece[n:]
	return n, nil
}

func (r *contentReader) Close() error { return nil }
