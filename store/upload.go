package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"ragd/ingest"
	"ragd/retrieve"
)

// Errors of uploads.
var (
	// ErrOffset: the bytes do not continue where the upload is.
	ErrOffset = errors.New("the offset is not where the upload is")
	// ErrTooLong: there are more bytes than the upload was announced with.
	ErrTooLong = errors.New("more bytes than announced")
	// ErrKeyReused: an idempotency key came with another request before.
	ErrKeyReused = errors.New("idempotency key reused")
)

// Upload is a file that is being received. Its bytes are durable as they come.
type Upload struct {
	ID           string
	Corpus, Path string
	Size         int64 // -1: not known yet
	Received     int64
	Key          string              // idempotency key; "": none
	Document     retrieve.DocumentID // of a complete upload, else 0
	Queued       bool                // whether a complete one changed anything
}

// uploadLife is how long an upload is kept that nothing happens to, and how long an idempotency key is remembered.
const uploadLife = 24 * time.Hour

const uploadColumns = `SELECT id, corpus, path, coalesce(size, -1), received, idempotency_key, coalesce(document, 0), queued FROM uploads `

func scanUpload(row pgx.Row) (u Upload, err error) {
	err = row.Scan(&u.ID, &u.Corpus, &u.Path, &u.Size, &u.Received, &u.Key, &u.Document, &u.Queued)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("upload: %w", ErrNotFound)
	}
	return u, err
}

// CreateUpload begins an upload; Corpus, Path, Size and Key of u count. One that was begun with the same key is returned as it is, and created is false;
// ErrKeyReused when that was for another file.
func (s *Store) CreateUpload(ctx context.Context, tenant string, u Upload) (Upload, bool, error) {
	tenant = tenantOf(tenant)
	state, err := hashState(sha256.New())
	if err != nil {
		return u, false, wrap("begin an upload", err)
	}
	var size *int64
	if u.Size >= 0 {
		size = &u.Size
	}
	u.ID, u.Received = rand.Text(), 0
	tag, err := s.pool.Exec(ctx, `INSERT INTO uploads (tenant, id, corpus, path, size, hash, idempotency_key) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (tenant, idempotency_key) WHERE idempotency_key <> '' DO NOTHING`, tenant, u.ID, clean(u.Corpus), clean(u.Path), size, state, clean(u.Key))
	if err != nil || tag.RowsAffected() == 1 {
		return u, true, wrap("begin an upload", err)
	}
	before, err := scanUpload(s.pool.QueryRow(ctx, uploadColumns+`WHERE tenant = $1 AND idempotency_key = $2`, tenant, clean(u.Key)))
	if err == nil && (before.Corpus != clean(u.Corpus) || before.Path != clean(u.Path) || before.Size != u.Size) {
		err = fmt.Errorf("%w: the key was sent before, for %s in corpus %s", ErrKeyReused, before.Path, before.Corpus)
	}
	return before, false, wrap("begin an upload", err)
}

// Upload returns an upload, or ErrNotFound.
func (s *Store) Upload(ctx context.Context, tenant, id string) (Upload, error) {
	u, err := scanUpload(s.pool.QueryRow(ctx, uploadColumns+`WHERE tenant = $1 AND id = $2`, tenantOf(tenant), clean(id)))
	return u, wrap("read an upload", err)
}

// AppendUpload adds what content gives to an upload that has offset bytes, piece by piece in transactions of their own: whatever breaks off, what was
// stored stays. It returns how many bytes the upload has then, beside an error, too. No more than one piece is in memory.
func (s *Store) AppendUpload(ctx context.Context, tenant, id string, offset int64, content io.Reader) (int64, error) {
	piece := make([]byte, pieceBytes)
	for {
		n, err := fill(content, piece)
		if n > 0 {
			// Also when the client has left: its bytes are here.
			keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			received, saveErr := s.appendPiece(keep, tenantOf(tenant), clean(id), offset, piece[:n])
			cancel()
			if saveErr != nil {
				return offset, wrap("store a piece of an upload", saveErr)
			}
			offset = received
		}
		switch {
		case err == io.EOF: //nolint:errorlint // a reader's end is this very value
			return offset, nil
		case err != nil:
			return offset, wrap("read an upload", &contentError{err})
		}
	}
}

// fill reads until p is full or r ends. Unlike io.ReadFull it keeps an end of r, which is io.EOF, apart from a break.
func fill(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}

func (s *Store) appendPiece(ctx context.Context, tenant, id string, offset int64, piece []byte) (received int64, err error) {
	err = s.tx(ctx, func(tx pgx.Tx) error {
		var size *int64
		var state []byte
		var document *int64
		err := tx.QueryRow(ctx, `SELECT received, size, hash, document FROM uploads WHERE tenant = $1 AND id = $2 FOR UPDATE`, tenant, id).Scan(&received, &size, &state, &document)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return fmt.Errorf("upload: %w", ErrNotFound)
		case err != nil:
			return err
		case received != offset || document != nil:
			return fmt.Errorf("%w: it has %d bytes", ErrOffset, received)
		case size != nil && offset+int64(len(piece)) > *size:
			return fmt.Errorf("%w: %d", ErrTooLong, *size)
		}
		h, err := hashFrom(state)
		if err != nil {
			return err
		}
		h.Write(piece)
		if state, err = hashState(h); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO upload_pieces (tenant, upload, start, data) VALUES ($1, $2, $3, $4)`, tenant, id, offset, piece); err != nil {
			return err
		}
		received += int64(len(piece))
		_, err = tx.Exec(ctx, `UPDATE uploads SET received = $3, hash = $4, updated_at = now() WHERE tenant = $1 AND id = $2`, tenant, id, received, state)
		return err
	})
	return received, err
}

// FinishUpload makes the received bytes a candidate's: c needs Source and Index. Finishing again returns what came of it. ErrOffset when announced
// bytes are missing.
func (s *Store) FinishUpload(ctx context.Context, tenant, id string, c ingest.Candidate) (u Upload, err error) {
	tenant = tenantOf(tenant)
	err = s.tx(ctx, func(tx pgx.Tx) error {
		if u, err = scanUpload(tx.QueryRow(ctx, uploadColumns+`WHERE tenant = $1 AND id = $2 FOR UPDATE`, tenant, clean(id))); err != nil || u.Document != 0 {
			return err
		}
		if u.Size >= 0 && u.Received != u.Size {
			return fmt.Errorf("%w: %d of %d bytes are here", ErrOffset, u.Received, u.Size)
		}
		var state []byte
		if err := tx.QueryRow(ctx, `SELECT hash FROM uploads WHERE tenant = $1 AND id = $2`, tenant, u.ID).Scan(&state); err != nil {
			return err
		}
		h, err := hashFrom(state)
		if err != nil {
			return err
		}
		h.Sum(c.SHA256[:0])
		c.Size = u.Received
		tag, err := tx.Exec(ctx, `INSERT INTO contents (tenant, sha256, size) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, tenant, c.SHA256[:], c.Size)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 1 {
			_, err := tx.Exec(ctx, `INSERT INTO content_pieces (tenant, sha256, seq, data)
				SELECT $1, $3, row_number() OVER (ORDER BY start) - 1, data FROM upload_pieces WHERE tenant = $1 AND upload = $2 ORDER BY start`, tenant, u.ID, c.SHA256[:])
			if err != nil {
				return err
			}
		}
		outcome, _, document, err := take(ctx, tx, tenant, c)
		if err != nil {
			return err
		}
		u.Document, u.Queued = retrieve.DocumentID(document), outcome == ingest.Queued
		if _, err := tx.Exec(ctx, `DELETE FROM upload_pieces WHERE tenant = $1 AND upload = $2`, tenant, u.ID); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE uploads SET document = $3, queued = $4, updated_at = now() WHERE tenant = $1 AND id = $2`, tenant, u.ID, document, u.Queued)
		return err
	})
	return u, wrap("finish the upload of "+c.Path, err)
}

// DropUpload forgets an upload and its bytes; what a complete one has become stays.
func (s *Store) DropUpload(ctx context.Context, tenant, id string) error {
	tag, err := s.pool.Exec(ctx, `DELETE FROM uploads WHERE tenant = $1 AND id = $2`, tenantOf(tenant), clean(id))
	if err == nil && tag.RowsAffected() == 0 {
		err = fmt.Errorf("upload: %w", ErrNotFound)
	}
	return wrap("drop an upload", err)
}

// hashState is where a hash stands, so that another process can go on with it.
func hashState(h hash.Hash) ([]byte, error) {
	m, ok := h.(encoding.BinaryMarshaler)
	if !ok {
		return nil, errors.New("this build's SHA-256 cannot be interrupted")
	}
	return m.MarshalBinary()
}

func hashFrom(state []byte) (hash.Hash, error) {
	h := sha256.New()
	m, ok := h.(encoding.BinaryUnmarshaler)
	if !ok {
		return nil, errors.New("this build's SHA-256 cannot be resumed")
	}
	return h, m.UnmarshalBinary(state)
}
