package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// File is an uploaded file that belongs to no corpus by itself.
type File struct {
	ID        int64
	Name      string
	Purpose   string
	Size      int64
	CreatedAt time.Time
}

const fileColumns = `id, name, purpose, size, created_at`

// CreateFile keeps a file.
func (s *Store) CreateFile(ctx context.Context, tenant, name, purpose string, data []byte) (f File, err error) {
	rows, err := s.pool.Query(ctx, `INSERT INTO files (tenant, name, purpose, size, data) VALUES ($1, $2, $3, $4, $5) RETURNING `+fileColumns,
		tenantOf(tenant), clean(name), clean(purpose), len(data), data)
	if err == nil {
		f, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[File])
	}
	return f, wrap("keep file", err)
}

// Files lists files in the order of their ids, those after the id given, at most limit.
func (s *Store) Files(ctx context.Context, tenant string, after int64, limit int) ([]File, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+fileColumns+` FROM files WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3`, tenantOf(tenant), after, limit)
	if err != nil {
		return nil, wrap("list files", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[File])
	return list, wrap("list files", err)
}

// File returns one file, or ErrNotFound.
func (s *Store) File(ctx context.Context, tenant string, id int64) (f File, err error) {
	rows, err := s.pool.Query(ctx, `SELECT `+fileColumns+` FROM files WHERE tenant = $1 AND id = $2`, tenantOf(tenant), id)
	if err == nil {
		f, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[File])
	}
	return f, wrap("read file", noFile(id, err))
}

// FileData returns a file's bytes, or ErrNotFound.
func (s *Store) FileData(ctx context.Context, tenant string, id int64) (data []byte, err error) {
	err = s.pool.QueryRow(ctx, `SELECT data FROM files WHERE tenant = $1 AND id = $2`, tenantOf(tenant), id).Scan(&data)
	return data, wrap("read file", noFile(id, err))
}

// DeleteFile removes a file; documents that were made of it stay. ErrNotFound when the tenant has none with this id.
func (s *Store) DeleteFile(ctx context.Context, tenant string, id int64) error {
	tag, err := s.pool.Exec(ctx, `DELETE FROM files WHERE tenant = $1 AND id = $2`, tenantOf(tenant), id)
	if err == nil && tag.RowsAffected() == 0 {
		err = pgx.ErrNoRows
	}
	return wrap("delete file", noFile(id, err))
}

func noFile(id int64, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("file-%d: %w", id, ErrNotFound)
	}
	return err
}
