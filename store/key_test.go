package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/store"
)

func TestKeys(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	has, err := s.HasKeys(ctx)
	require.NoError(t, err)
	require.False(t, has)
	secret, made, err := s.CreateKey(ctx, store.Key{Tenant: "acme", Name: "bot", Corpora: []string{"handbook"}, Actions: []string{"ask"}})
	require.NoError(t, err)
	k, err := s.KeyOf(ctx, secret)
	require.NoError(t, err)
	require.Equal(t, made, k)
	require.Equal(t, "acme", k.Tenant)
	require.Equal(t, []string{"handbook"}, k.Corpora)
	require.Zero(t, k.ExpiresAt)
	require.Zero(t, count(t, s, `SELECT count(*) FROM api_keys WHERE hash = $1::bytea`, []byte(secret)), "only the hash is stored")
	for _, wrong := range []string{"", "ragd_", secret[1:], secret + "\x00"} {
		_, err = s.KeyOf(ctx, wrong)
		require.ErrorIs(t, err, store.ErrNotFound)
	}
	require.ErrorIs(t, s.RevokeKey(ctx, "globex", k.ID), store.ErrNotFound, "another tenant's key")
	require.NoError(t, s.RevokeKey(ctx, "acme", k.ID))
	require.NoError(t, s.RevokeKey(ctx, "acme", k.ID))
	_, err = s.KeyOf(ctx, secret)
	require.ErrorIs(t, err, store.ErrNotFound)

	past, _, err := s.CreateKey(ctx, store.Key{Tenant: "acme", Name: "old", ExpiresAt: time.Now().Add(-time.Minute)})
	require.NoError(t, err)
	_, err = s.KeyOf(ctx, past)
	require.ErrorIs(t, err, store.ErrNotFound)
	keys, err := s.Keys(ctx, "acme")
	require.NoError(t, err)
	require.Len(t, keys, 2)
	require.True(t, keys[0].Revoked)
	has, err = s.HasKeys(ctx)
	require.NoError(t, err)
	require.True(t, has, "keys that ended still mean that the installation is not open")
}

func TestARotatedKeyTakesOver(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	old, first, err := s.CreateKey(ctx, store.Key{Tenant: "acme", Name: "bot", Corpora: []string{"hr"}, Actions: []string{"read"}, RequestsPerMinute: 5, TokensPerDay: 9})
	require.NoError(t, err)
	_, _, err = s.RotateKey(ctx, "globex", first.ID, time.Hour)
	require.ErrorIs(t, err, store.ErrNotFound, "another tenant's key")
	fresh, second, err := s.RotateKey(ctx, "acme", first.ID, time.Hour)
	require.NoError(t, err)
	for _, secret := range []string{old, fresh} {
		_, err = s.KeyOf(ctx, secret)
		require.NoError(t, err, "both work while clients are moved")
	}
	same := second
	same.ID, same.CreatedAt = first.ID, first.CreatedAt
	require.Equal(t, first, same)
	_, _, err = s.RotateKey(ctx, "acme", second.ID, 0)
	require.NoError(t, err)
	_, err = s.KeyOf(ctx, fresh)
	require.ErrorIs(t, err, store.ErrNotFound, "without a grace period the old one ends at once")
	_, _, err = s.RotateKey(ctx, "acme", second.ID, 0)
	require.ErrorIs(t, err, store.ErrNotFound, "one that ended cannot be rotated")
}

func TestLimitsOfAKey(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	_, k, err := s.CreateKey(ctx, store.Key{Tenant: "acme", Name: "bot", RequestsPerMinute: 3, TokensPerDay: 100})
	require.NoError(t, err)
	var limit *store.LimitError
	// Two handles stand for two processes: they share the count.
	other, err := store.Open(ctx, s.Pool().Config().ConnString(), quiet)
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, s.Spend(ctx, k))
	require.NoError(t, other.Spend(ctx, k))
	require.NoError(t, s.Spend(ctx, k))
	for range 3 {
		require.ErrorAs(t, other.Spend(ctx, k), &limit)
		require.InDelta(t, 20, limit.RetryAfter.Seconds(), 2, "a refused request does not count")
		require.Contains(t, limit.Error(), "3 requests per minute")
	}
	_, err = s.Pool().Exec(ctx, `UPDATE key_usage SET due = now() + interval '1 year'`) // as after a clock that ran ahead
	require.NoError(t, err)
	require.ErrorAs(t, s.Spend(ctx, k), &limit)
	require.LessOrEqual(t, limit.RetryAfter, time.Minute)
	_, err = s.Pool().Exec(ctx, `UPDATE key_usage SET due = 'epoch'`)
	require.NoError(t, err)

	require.NoError(t, s.CountTokens(ctx, k, 99))
	require.NoError(t, s.Spend(ctx, k))
	require.NoError(t, s.CountTokens(ctx, k, 1))
	require.ErrorAs(t, s.Spend(ctx, k), &limit)
	require.Contains(t, limit.Error(), "100 tokens per day")
	require.LessOrEqual(t, limit.RetryAfter, 24*time.Hour)
	_, err = s.Pool().Exec(ctx, `UPDATE key_usage SET day = day - 1`)
	require.NoError(t, err)
	require.NoError(t, s.Spend(ctx, k), "a new day")
	require.NoError(t, s.Spend(ctx, store.Key{ID: 999}), "a key without limits is not counted")
}

func TestAuditLog(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	for i := range 5 {
		require.NoError(t, s.Audit(ctx, store.AuditEntry{Tenant: "acme", Key: int64(i), KeyName: "bot\x00", Action: "DELETE /v1/documents/:id", Target: "/v1/documents/7", Status: 204, RequestID: "r"}))
	}
	require.NoError(t, s.Audit(ctx, store.AuditEntry{Tenant: "globex"}))
	entries, err := s.AuditLog(ctx, "acme", 0, 3)
	require.NoError(t, err)
	require.Len(t, entries, 3)
	require.EqualValues(t, 4, entries[0].Key)
	require.WithinDuration(t, time.Now(), entries[0].At, time.Minute)
	older, err := s.AuditLog(ctx, "acme", entries[2].ID, 10)
	require.NoError(t, err)
	require.Len(t, older, 2)
	_, err = s.Pool().Exec(ctx, `UPDATE audit_log SET at = at - interval '2 days' WHERE key < 3`)
	require.NoError(t, err)
	require.NoError(t, s.Maintain(ctx, store.Retention{Audit: 24 * time.Hour}))
	entries, err = s.AuditLog(ctx, "acme", 0, 10)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}
