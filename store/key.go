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
	ID                int64
	Tenant            string
	Name              string   // for people
	Corpora           []string // empty: all of the tenant
	Actions           []string // what it may do; the words are the server's
	RequestsPerMinute int      // 0: no limit
	TokensPerDay      int64    // prompt and answer, UTC; 0: no limit
	CreatedAt         time.Time
	ExpiresAt         time.Time // zero: never
	Revoked           bool
	Login             bool // the session of somebody who signed in, which works as a cookie only
}

// LimitError says that a key has used what it may for now.
type LimitError struct {
	What       string // "60 requests per minute"
	RetryAfter time.Duration
}

func (e *LimitError) Error() string { return "this key's limit is " + e.What }

// newSecret makes a key: 130 random bits, so no dictionary helps against the plain hash.
func newSecret() (secret string, hash []byte) {
	secret = "ragd_" + rand.Text()
	sum := sha256.Sum256([]byte(secret))
	return secret, sum[:]
}

// CreateKey makes a key for k's tenant and returns it with its secret.
func (s *Store) CreateKey(ctx context.Context, k Key) (secret string, made Key, err error) {
	secret, hash := newSecret()
	rows, err := s.pool.Query(ctx, `INSERT INTO api_keys (tenant, name, hash, corpora, actions, requests_per_minute, tokens_per_day, expires_at, login)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING `+keyColumns,
		tenantOf(k.Tenant), clean(k.Name), hash, cleanAll(k.Corpora), cleanAll(k.Actions), k.RequestsPerMinute, k.TokensPerDay, orNullTime(k.ExpiresAt), k.Login)
	if err == nil {
		made, err = pgx.CollectExactlyOneRow(rows, scanKey)
	}
	return secret, made, wrap("create key", err)
}

// RotateKey makes a key that permits what another does and returns it with its secret; the other one ends after the grace period, in which clients
// can be moved. ErrNotFound when the tenant has no such key that still works; a session cannot be rotated.
func (s *Store) RotateKey(ctx context.Context, tenant string, id int64, grace time.Duration) (secret string, made Key, err error) {
	secret, hash := newSecret()
	err = s.tx(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `INSERT INTO api_keys (tenant, name, hash, corpora, actions, requests_per_minute, tokens_per_day, expires_at)
			SELECT tenant, name, $3, corpora, actions, requests_per_minute, tokens_per_day, expires_at FROM api_keys
			WHERE tenant = $1 AND id = $2 AND NOT login AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()) FOR UPDATE RETURNING `+keyColumns, tenantOf(tenant), id, hash)
		if err != nil {
			return err
		}
		if made, err = pgx.CollectExactlyOneRow(rows, scanKey); errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("key %d: %w", id, ErrNotFound)
		} else if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE api_keys SET expires_at = least(expires_at, now() + $3::interval) WHERE tenant = $1 AND id = $2`, tenantOf(tenant), id, grace)
		return err
	})
	return secret, made, wrap("rotate key", err)
}

const keyColumns = `id, tenant, name, corpora, actions, requests_per_minute, tokens_per_day, created_at, coalesce(expires_at, 'epoch'), revoked_at IS NOT NULL, login`

func scanKey(row pgx.CollectableRow) (k Key, err error) {
	err = row.Scan(&k.ID, &k.Tenant, &k.Name, &k.Corpora, &k.Actions, &k.RequestsPerMinute, &k.TokensPerDay, &k.CreatedAt, &k.ExpiresAt, &k.Revoked, &k.Login)
	if k.ExpiresAt.Unix() == 0 {
		k.ExpiresAt = time.Time{}
	}
	return k, err
}

// KeyOf returns what a secret permits, or ErrNotFound when it is unknown, expired or revoked. It asks the database each time, a fraction of a
// millisecond, so that a revocation counts at once in every process.
func (s *Store) KeyOf(ctx context.Context, secret string) (Key, error) {
	hash := sha256.Sum256([]byte(secret))
	rows, err := s.pool.Query(ctx, `SELECT `+keyColumns+` FROM api_keys WHERE hash = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())`, hash[:])
	if err != nil {
		return Key{}, wrap("check key", err)
	}
	k, err := pgx.CollectExactlyOneRow(rows, scanKey)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("key: %w", ErrNotFound)
	}
	return k, wrap("check key", err)
}

// Keys lists the keys of a tenant, revoked ones included, and the sessions that have not ended.
func (s *Store) Keys(ctx context.Context, tenant string) ([]Key, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+keyColumns+` FROM api_keys WHERE tenant = $1
		AND (NOT login OR revoked_at IS NULL AND expires_at > now()) ORDER BY id`, tenantOf(tenant))
	if err != nil {
		return nil, wrap("list keys", err)
	}
	keys, err := pgx.CollectRows(rows, scanKey)
	return keys, wrap("list keys", err)
}

// HasKeys reports whether a key was ever made, of any tenant: an installation whose keys have all expired is not one that is open to all. Sessions do
// not count: they come and go.
func (s *Store) HasKeys(ctx context.Context) (has bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM api_keys WHERE NOT login)`).Scan(&has)
	return has, wrap("look for keys", err)
}

// RevokeKey ends a key at once. ErrNotFound when the tenant has none with this id.
func (s *Store) RevokeKey(ctx context.Context, tenant string, id int64) error {
	tag, err := s.pool.Exec(ctx, `UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE tenant = $1 AND id = $2`, tenantOf(tenant), id)
	if err == nil && tag.RowsAffected() == 0 {
		err = fmt.Errorf("key %d: %w", id, ErrNotFound)
	}
	return wrap("revoke key", err)
}

// Spend counts one request of a limited key, together with all processes that serve it; a *LimitError says that it has no more for now, and such a
// request does not count. A key may use a whole minute's requests at once and then one after another at its rate (the generic cell rate algorithm).
// Only the database's clock counts.
func (s *Store) Spend(ctx context.Context, k Key) error {
	if k.RequestsPerMinute == 0 && k.TokensPerDay == 0 {
		return nil
	}
	err := s.tx(ctx, func(tx pgx.Tx) error {
		var due, now, tomorrow time.Time
		var tokens int64
		// This locks the key's row: its requests are counted one after another.
		err := tx.QueryRow(ctx, `INSERT INTO key_usage AS u (tenant, key, due, day, tokens) VALUES ($1, $2, 'epoch', `+today+`, 0)
			ON CONFLICT (tenant, key) DO UPDATE SET day = EXCLUDED.day, tokens = CASE WHEN u.day = EXCLUDED.day THEN u.tokens ELSE 0 END
			RETURNING due, tokens, clock_timestamp(), (day + 1)::timestamp AT TIME ZONE 'UTC'`, tenantOf(k.Tenant), k.ID).Scan(&due, &tokens, &now, &tomorrow)
		if err != nil {
			return err
		}
		if k.TokensPerDay > 0 && tokens >= k.TokensPerDay {
			return &LimitError{What: fmt.Sprintf("%d tokens per day", k.TokensPerDay), RetryAfter: tomorrow.Sub(now)}
		}
		if k.RequestsPerMinute == 0 {
			return nil
		}
		next, wait := nextDue(due, now, k.RequestsPerMinute)
		if wait > 0 {
			return &LimitError{What: fmt.Sprintf("%d requests per minute", k.RequestsPerMinute), RetryAfter: wait}
		}
		_, err = tx.Exec(ctx, `UPDATE key_usage SET due = $3 WHERE tenant = $1 AND key = $2`, tenantOf(k.Tenant), k.ID, next)
		return err
	})
	return wrap("count a request", err)
}

// today is the day of quotas in SQL.
const today = `(clock_timestamp() AT TIME ZONE 'UTC')::date`

// nextDue adds a request to those that would be done at due, or says how long it must wait. After the clock was set back nobody waits longer than a
// minute.
func nextDue(due, now time.Time, perMinute int) (next time.Time, wait time.Duration) {
	each, horizon := time.Minute/time.Duration(perMinute), now.Add(time.Minute)
	if due.After(horizon) {
		due = horizon
	}
	if due.Before(now) {
		due = now
	}
	next = due.Add(each)
	return next, next.Sub(horizon)
}

// CountTokens adds what a request of a key has used to its day.
func (s *Store) CountTokens(ctx context.Context, k Key, tokens int) error {
	if k.TokensPerDay == 0 || tokens == 0 {
		return nil
	}
	_, err := s.pool.Exec(ctx, `UPDATE key_usage SET day = `+today+`, tokens = CASE WHEN day = `+today+` THEN tokens ELSE 0 END + $3 WHERE tenant = $1 AND key = $2`,
		tenantOf(k.Tenant), k.ID, tokens)
	return wrap("count tokens", err)
}
