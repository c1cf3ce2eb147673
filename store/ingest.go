package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
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
	err := s.tx(ctx, func(tx pgx.Tx) (err error) {
		outcome, version, _, err = take(ctx, tx, tenant, c)
		return err
	})
	return outcome, version, wrap(doing, err)
}

// take makes a candidate, whose bytes are stored, a version of its document.
func take(ctx context.Context, tx pgx.Tx, tenant string, c ingest.Candidate) (outcome ingest.Outcome, version, document int64, err error) {
	corpus, space, err := ensureCorpus(ctx, tx, tenant, clean(c.Corpus), c.Index)
	if err != nil {
		return 0, 0, 0, err
	}
	from, err := move(ctx, tx, tenant, corpus, space, c)
	if err != nil {
		return 0, 0, 0, err
	}
	// The document's row is locked until the end: receiving one path is one thing at a time.
	err = tx.QueryRow(ctx, `INSERT INTO documents AS d (tenant, corpus, path, tags, modified_at, origin) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (tenant, corpus, path) DO UPDATE SET tags = EXCLUDED.tags, modified_at = EXCLUDED.modified_at, origin = EXCLUDED.origin RETURNING id`,
		tenant, corpus, clean(c.Path), cleanAll(c.Tags), orNullTime(c.Modified), clean(c.Origin)).Scan(&document)
	if err != nil {
		return 0, 0, 0, err
	}
	if from != "" && path.Base(from) != path.Base(c.Path) {
		// A document is read by its name, too: it is made anew, and stays live as it is until then.
		version, err = addVersion(ctx, tx, tenant, document, space, c)
		return ingest.Queued, version, document, err
	}
	outcome, version, err = receive(ctx, tx, tenant, document, space, c)
	if from != "" && outcome == ingest.Unchanged {
		outcome = ingest.Moved
	}
	return outcome, version, document, err
}

// receive decides what a candidate means for its document, whose row is locked.
func receive(ctx context.Context, tx pgx.Tx, tenant string, document int64, space int, c ingest.Candidate) (ingest.Outcome, int64, error) {
	// Versions that wait or failed, with other bytes: nobody needs them any more. Their workers lose the lease with the row.
	// Versions for another index belong to a change of the corpus's index; that tidies them up itself.
	_, err := tx.Exec(ctx, `DELETE FROM document_versions WHERE tenant = $1 AND document = $2 AND state NOT IN ('live', 'retired')
		AND sha256 <> $3 AND splitter = $4 AND space = $5`, tenant, document, c.SHA256[:], clean(c.Index.Splitter), space)
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
		version, err = addVersion(ctx, tx, tenant, document, space, c)
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

func addVersion(ctx context.Context, tx pgx.Tx, tenant string, document int64, space int, c ingest.Candidate) (version int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO document_versions (tenant, document, sha256, size, splitter, space) VALUES ($1, $2, $3, $4, $5, $6) RETURNING id`,
		tenant, document, c.SHA256[:], c.Size, clean(c.Index.Splitter), space).Scan(&version)
	return version, err
}

// move gives a document that is gone from its path the candidate's path, when it has the candidate's bytes and that path has no document. It returns
// the path before, or "" when nothing has moved.
func move(ctx context.Context, tx pgx.Tx, tenant string, corpus int64, space int, c ingest.Candidate) (string, error) {
	from, err := movedFrom(ctx, tx, tenant, corpus, space, c)
	if err != nil || from == "" {
		return "", err
	}
	tag, err := tx.Exec(ctx, `UPDATE documents SET path = $4 WHERE tenant = $1 AND corpus = $2 AND path = $3`, tenant, corpus, from, clean(c.Path))
	if tag.RowsAffected() == 0 { // another process was quicker
		from = ""
	}
	return from, err
}

// movedFrom is the path from which a candidate's document has moved; "" when it has not.
func movedFrom(ctx context.Context, tx pgx.Tx, tenant string, corpus int64, space int, c ingest.Candidate) (string, error) {
	if c.Gone == nil {
		return "", nil
	}
	rows, err := tx.Query(ctx, `SELECT d.path, d.origin FROM document_versions v JOIN documents d ON d.tenant = v.tenant AND d.live_version = v.id
		WHERE v.tenant = $1 AND v.sha256 = $2 AND v.splitter = $3 AND v.space = $4 AND d.corpus = $5 AND d.origin <> ''
			AND NOT EXISTS (SELECT FROM documents o WHERE o.tenant = $1 AND o.corpus = $5 AND o.path = $6) ORDER BY d.id`,
		tenant, c.SHA256[:], clean(c.Index.Splitter), space, corpus, clean(c.Path))
	if err != nil {
		return "", err
	}
	same, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ingest.Placed])
	if err != nil {
		return "", err
	}
	for _, d := range same {
		if c.Gone(d.Origin) {
			return d.Path, nil
		}
	}
	return "", nil
}

// Origins implements [ingest.Store].
func (s *Store) Origins(ctx context.Context, tenant, corpus, prefix string) ([]ingest.Placed, error) {
	rows, err := s.pool.Query(ctx, `SELECT d.path, d.origin FROM documents d JOIN corpora c ON c.tenant = d.tenant AND c.id = d.corpus
		WHERE d.tenant = $1 AND c.name = $2 AND d.origin <> '' AND starts_with(d.origin, $3) ORDER BY d.path`, tenantOf(tenant), clean(corpus), clean(prefix))
	if err != nil {
		return nil, wrap("list the files of corpus "+corpus, err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ingest.Placed])
	return all, wrap("list the files of corpus "+corpus, err)
}

// Remove implements [ingest.Store].
func (s *Store) Remove(ctx context.Context, tenant, corpus, path string) error {
	d, err := s.DocumentByPath(ctx, tenant, corpus, path)
	if err == nil {
		err = s.DeleteDocument(ctx, tenant, d.ID)
	}
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Preview implements [ingest.Store].
func (s *Store) Preview(ctx context.Context, c ingest.Candidate) (p ingest.Preview, err error) {
	tenant := tenantOf(c.Tenant)
	err = s.tx(ctx, func(tx pgx.Tx) error { // not read-only: findCorpus locks
		have, corpus, space, err := findCorpus(ctx, tx, tenant, clean(c.Corpus))
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if p.From, err = movedFrom(ctx, tx, tenant, corpus, space, c); err != nil {
			return err
		}
		if p.From != "" {
			p.Outcome = ingest.Moved
			return nil
		}
		var same bool
		err = tx.QueryRow(ctx, `SELECT coalesce(v.sha256 = $4 AND v.splitter = $5, false) FROM documents d
			LEFT JOIN document_versions v ON v.tenant = d.tenant AND v.id = d.live_version WHERE d.tenant = $1 AND d.corpus = $2 AND d.path = $3`,
			tenant, corpus, clean(c.Path), c.SHA256[:], have.Splitter).Scan(&same)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		p.Known = err == nil
		if same {
			p.Outcome = ingest.Unchanged
		}
		return err
	})
	return p, wrap("preview "+c.Path, err)
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
			return &contentError{errors.New("it changed while it was read, or the upload broke off; send it again")}
		}
		return nil
	})
}

// contentError is a failure of the reader that gives a file's bytes. It is an [ingest.ErrContent].
type contentError struct{ err error }

func (e *contentError) Error() string   { return "read the file: " + e.err.Error() }
func (e *contentError) Unwrap() []error { return []error{ingest.ErrContent, e.err} }

// jumped is how far in the future no lease and no retry is put: it was written while the database's clock ran ahead, and must not hold a document until
// that time comes.
const jumped = `interval '1 day'`

// Claim implements [ingest.Store].
func (s *Store) Claim(ctx context.Context, tenant, corpus string, index ingest.Index, lease time.Duration) (*ingest.Job, error) {
	if tenant != "" {
		tenant = clean(tenant)
	}
	// Where a tenant is named every table is restricted to it by itself: where tables are spread by tenant the statement then runs on one node.
	of, id, first, waitingOf := `$1 = ''`, `(v.tenant, v.id)`, `w.tenant, w.id`, `true`
	if tenant != "" {
		of, id, first, waitingOf = `v.tenant = $1 AND d.tenant = $1 AND c.tenant = $1`, `v.id`, `w.id`, `w.tenant = $1 AND x.tenant = $1 AND y.tenant = $1`
	}
	var j ingest.Job
	var hash []byte
	err := s.pool.QueryRow(ctx, `UPDATE document_versions v SET lease = v.lease + 1, lease_until = now() + $3, attempt = v.attempt + 1
		FROM documents d, corpora c, embedding_spaces e
		WHERE `+of+` AND d.tenant = v.tenant AND d.id = v.document AND c.tenant = d.tenant AND c.id = d.corpus AND e.id = v.space
			AND `+id+` = (SELECT `+first+` FROM document_versions w
				JOIN documents x ON x.tenant = w.tenant AND x.id = w.document JOIN corpora y ON y.tenant = x.tenant AND y.id = x.corpus
				WHERE w.state IN ('received', 'parsed', 'split', 'embedded') AND (w.lease_until <= now() OR w.lease_until > now() + `+jumped+`) AND (w.retry_at <= now() OR w.retry_at > now() + `+jumped+`)
					AND `+waitingOf+` AND ($2 = '' OR y.name = $2)
					AND w.splitter = $4 AND w.space = (SELECT f.id FROM embedding_spaces f WHERE f.model = $5 AND f.dim = $6)
				ORDER BY w.id LIMIT 1 FOR UPDATE OF w SKIP LOCKED)
		RETURNING v.id, v.lease, v.state, v.attempt, v.tenant, c.name, d.path, v.sha256, v.size, e.model, e.dim, v.splitter`,
		tenant, clean(corpus), lease, clean(index.Splitter), clean(index.Model), index.Dim).Scan(&j.Version, &j.Lease, &j.State, &j.Attempt, &j.Tenant, &j.Corpus, &j.Path, &hash, &j.Size, &j.Index.Model, &j.Index.Dim, &j.Index.Splitter)
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
		if err != nil {
			return err
		}
		return forgetRefused(ctx, tx, job, f.Class)
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
