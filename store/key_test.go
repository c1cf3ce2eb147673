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
	secret, err := s.CreateKey(ctx, store.Key{Tenant: "acme", Name: "bot", Corpora: []string{"handbook"}, Actions: []string{"ask"}})
	require.NoError(t, err)
	k, err := s.KeyOf(ctx, secret)
	require.NoError(t, err)
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

	past, err := s.CreateKey(ctx, store.Key{Tenant: "acme", Name: "old", ExpiresAt: time.Now().Add(-time.Minute)})
	require.NoError(t, err)
	_, err = s.KeyOf(ctx, past)
	require.ErrorIs(t, err, store.ErrNotFound)
	keys, err := s.Keys(ctx, "acme")
	require.NoError(t, err)
	require.Len(t, keys, 2)
	require.True(t, keys[0].Revoked)
}
