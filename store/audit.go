package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// AuditEntry is one thing that was done, or refused, with a key. It holds no text of a document, question or answer.
type AuditEntry struct {
	ID        int64
	Tenant    string
	At        time.Time
	Key       int64 // 0: the server's own key, or a server without keys
	KeyName   string
	Action    string // method and route
	Target    string // the path that was asked for
	Status    int    // of the response
	RequestID string
}

// Audit keeps an entry; ID and At are the database's.
func (s *Store) Audit(ctx context.Context, e AuditEntry) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO audit_log (tenant, key, key_name, action, target, status, request_id) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		tenantOf(e.Tenant), e.Key, clean(e.KeyName), clean(e.Action), clean(e.Target), e.Status, clean(e.RequestID))
	return wrap("write the audit log", err)
}

// AuditLog returns the newest entries of a tenant before an id, newest first, at most limit; before 0 is from the newest.
func (s *Store) AuditLog(ctx context.Context, tenant string, before int64, limit int) ([]AuditEntry, error) {
	rows, err := s.pool.Query(ctx, `SELECT id, tenant, at, key, key_name, action, target, status, request_id FROM audit_log
		WHERE tenant = $1 AND ($2::bigint = 0 OR id < $2) ORDER BY id DESC LIMIT $3`, tenantOf(tenant), before, limit)
	if err != nil {
		return nil, wrap("read the audit log", err)
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[AuditEntry])
	return entries, wrap("read the audit log", err)
}
