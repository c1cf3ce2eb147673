package store_test

import (
	"context"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ragd/internal/pgtest"
	"ragd/store"
)

func TestConcurrentOpensMigrateOnce(t *testing.T) {
	ctx := context.Background()
	empty := pgtest.Empty(t)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			s, err := store.Open(ctx, empty, quiet)
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			s.Close()
		})
	}
	group.Wait()
	steps, err := store.Migrations(ctx, empty)
	require.NoError(t, err)
	require.NotEmpty(t, steps)
	for _, step := range steps {
		require.True(t, step.Applied, step.Name)
	}
}

func TestMigrationsAreReversible(t *testing.T) {
	ctx := context.Background()
	database := pgtest.New(t)
	steps, err := store.Migrations(ctx, database)
	require.NoError(t, err)
	newest := steps[len(steps)-1].Version
	up := schema(t, database)
	for version := newest - 1; version >= 0; version-- {
		require.NoError(t, store.MigrateTo(ctx, database, version))
	}
	require.Empty(t, schema(t, database))
	require.NoError(t, store.MigrateTo(ctx, database, newest))
	require.Equal(t, up, schema(t, database))
}

// schema lists columns and indexes of ragd's tables.
func schema(t *testing.T, database string) []string {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, database)
	require.NoError(t, err)
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `SELECT table_name || '.' || column_name || ' ' || udt_name FROM information_schema.columns
		WHERE table_schema = 'public' AND table_name <> 'goose_db_version'
		UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'goose_db_version' ORDER BY 1`)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return lines
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	ctx := context.Background()
	good := pgtest.New(t)
	u, err := url.Parse(good)
	require.NoError(t, err)
	with := func(database, user, host string) string {
		v := *u
		if database != "" {
			v.Path = "/" + database
		}
		if user != "" {
			v.User = url.User(user)
		}
		if host != "" {
			v.RawQuery = "host=" + url.QueryEscape(host)
		}
		return v.String()
	}
	exec := func(sql string) {
		conn, err := pgx.Connect(ctx, good)
		require.NoError(t, err)
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, sql)
		require.NoError(t, err)
	}
	_, err = store.Open(ctx, "postgres://[bad", quiet)
	require.ErrorContains(t, err, "not valid")
	_, err = store.Open(ctx, with("", "", t.TempDir()), quiet)
	require.ErrorIs(t, err, store.ErrUnavailable)
	_, err = store.Open(ctx, with("no_such_database", "", ""), quiet)
	require.ErrorContains(t, err, "CREATE DATABASE")

	exec(`UPDATE goose_db_version SET version_id = 99999 WHERE version_id = (SELECT max(version_id) FROM goose_db_version)`)
	_, err = store.Open(ctx, good, quiet)
	require.ErrorContains(t, err, "newer ragd")

	exec(`DROP ROLE IF EXISTS ragd_test_nobody; CREATE ROLE ragd_test_nobody LOGIN`)
	_, err = store.Open(ctx, with(mustPath(t, pgtest.Empty(t)), "ragd_test_nobody", ""), quiet)
	require.ErrorContains(t, err, "CREATE EXTENSION vector")
	exec(`DROP ROLE ragd_test_nobody`)
}

func mustPath(t *testing.T, database string) string {
	u, err := url.Parse(database)
	require.NoError(t, err)
	return u.Path[1:]
}
