package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Key is what an API key permits. The key itself is shown once, when it is made, and never stored.
type Key struct {
	ID        int64
	Tenant    string
	Name      string   // for people
	Corpora   []string // empty: all of the tenant
	Actions   []string // what it may do; the words are the server's
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	Revoked   bool
}

// CreateKey makes a key for k's tenant and returns its secret.
func (s *Store) CreateKey(ctx context.Context, k Key) (secret string, err error) {
	secret = "ragd_" + rand.Text() // 130 random bits: no dictionary helps against the plain hash
	hash := sha256.Sum256([]byte(secret))
	_, err = s.pool.Exec(ctx, `INSERT INTO api_keys (tenant, name, hash, corpora, actions, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		tenantOf(k.Tenant), clean(k.Name), hash[:], cleanAll(k.Corpora), cleanAll(k.Actions), orNullTime(k.ExpiresAt))
	if err != nil {
		return "", wrap("create key", err)
	}
	return secret, nil
}

const keyColumns = `SELECT id, tenant, name, corpora, actions, created_at, coalesce(expires_at, 'epoch'), revoked_at IS NOT NULL FROM api_keys `

func scanKey(row pgx.CollectableRow) (k Key, err error) {
	err = row.Scan(&k.ID, &k.Tenant, &k.Name, &k.Corpora, &k.Actions, &k.CreatedAt, &k.ExpiresAt, &k.Revoked)
	if k.ExpiresAt.Unix() == 0 {
		k.ExpiresAt = time.Time{}
	}
	return k, err
}

// KeyOf returns what a secret permits, or ErrNotFound when it is unknown, expired or revoked.
func (s *Store) KeyOf(ctx context.Context, secret string) (Key, error) {
	hash := sha256.Sum256([]byte(secret))
	rows, err := s.pool.Query(ctx, keyColumns+`WHERE hash = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())`, hash[:])
	if err != nil {
		return Key{}, wrap("check key", err)
	}
	k, err := pgx.CollectExactlyOneRow(rows, scanKey)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("key: %w", ErrNotFound)
	}
	return k, wrap("check key", err)
}

// Keys lists the keys of a tenant, revoked ones included.
func (s *Store) Keys(ctx context.Context, tenant string) ([]Key, error) {
	rows, err := s.pool.Query(ctx, keyColumns+`WHERE tenant = $1 ORDER BY id`, tenantOf(tenant))
	if err != nil {
		return nil, wrap("list keys", err)
	}
	keys, err := pgx.CollectRows(rows, scanKey)
	return keys, wrap("list keys", err)
}

// RevokeKey ends a key at once. ErrNotFound when the tenant has none with this id.
func (s *Store) RevokeKey(ctx context.Context, tenant string, id int64) error {
	tag, err := s.pool.Exec(ctx, `UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE tenant = $1 AND id = $2`, tenantOf(tenant), id)
	if err == nil && tag.RowsAffected() == 0 {
		err = fmt.Errorf("key %d: %w", id, ErrNotFound)
	}
	return wrap("revoke key", err)
}
