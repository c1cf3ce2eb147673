package store_test

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ragd/internal/pgtest"
	"ragd/retrieve"
	"ragd/store"
)

// tenantTables are all tables with a tenant, those of later migrations included.
func tenantTables(t *testing.T, s *store.Store) []string {
	t.Helper()
	rows, err := s.Pool().Query(context.Background(), `SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant'
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') ORDER BY 1`)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Contains(t, names, "passages")
	return names
}

// The second belt: statements without any predicate, under the context of one tenant.
func TestRowLevelSecurityHidesOtherTenants(t *testing.T) {
	superuser := pgtest.New(t)
	for name, database := range map[string]string{"as superuser": superuser, "as a plain user": ownedByAPlainUser(t)} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s, err := store.Open(ctx, database, quiet)
			require.NoError(t, err)
			defer s.Close()
			confines, err := s.Confines(ctx)
			require.NoError(t, err)
			require.True(t, confines)
			var documents [2]retrieve.DocumentID
			for i, tenant := range []string{"acme", "globex"} {
				d := page("secret.txt", "the secret of "+tenant)
				d.Tenant = tenant
				documents[i] = loader{s}.Load(t, d)
				_, _, err := s.CreateKey(ctx, store.Key{Tenant: tenant, Name: tenant})
				require.NoError(t, err)
			}
			acme, globex := store.As(ctx, "acme"), store.As(ctx, "globex")
			for _, table := range tenantTables(t, s) {
				for _, c := range []context.Context{acme, globex, acme} {
					var foreign int
					tenant := map[bool]string{true: "acme", false: "globex"}[c == acme]
					require.NoError(t, s.Pool().QueryRow(c, `SELECT count(*) FROM `+table+` WHERE tenant <> $1`, tenant).Scan(&foreign), table)
					require.Zero(t, foreign, table)
				}
			}
			require.EqualValues(t, 2, count(t, s, `SELECT count(DISTINCT tenant) FROM passages`), "without a tenant nothing is hidden")

			// Statements that name the wrong tenant find nothing, and can write nothing.
			_, err = s.DocumentByID(acme, "globex", documents[1])
			require.ErrorIs(t, err, store.ErrNotFound)
			_, err = s.DocumentByID(globex, "globex", documents[1])
			require.NoError(t, err)
			require.ErrorIs(t, s.DeleteDocument(acme, "globex", documents[1]), store.ErrNotFound)
			_, _, err = s.CreateKey(acme, store.Key{Tenant: "globex"})
			require.ErrorContains(t, err, "row-level security")
			tag, err := s.Pool().Exec(acme, `UPDATE documents SET path = 'x' WHERE tenant = 'globex'`)
			require.NoError(t, err)
			require.Zero(t, tag.RowsAffected())
			_, err = s.Pool().Exec(acme, `UPDATE documents SET tenant = 'globex'`)
			require.Error(t, err)
			require.NoError(t, s.DeleteDocument(acme, "acme", documents[0]), "its own it may delete")
		})
	}
}

// ownedByAPlainUser returns a database whose owner is not a superuser, as hosted ones are.
func ownedByAPlainUser(t *testing.T) string {
	t.Helper()
	ctx := context.Background()
	database := pgtest.Empty(t)
	conn, err := pgx.Connect(ctx, database)
	require.NoError(t, err)
	defer conn.Close(ctx)
	name := conn.Config().Database
	for _, sql := range []string{`CREATE EXTENSION vector`, fmt.Sprintf(`CREATE ROLE %s_owner LOGIN PASSWORD 'p'`, name), fmt.Sprintf(`ALTER DATABASE %s OWNER TO %s_owner`, name, name),
		fmt.Sprintf(`ALTER SCHEMA public OWNER TO %s_owner`, name), fmt.Sprintf(`GRANT ragd_tenant TO %s_owner`, name)} {
		_, err := conn.Exec(ctx, sql)
		require.NoError(t, err, sql)
	}
	t.Cleanup(func() { // runs before the database is dropped: its owner can only go once nothing is the role's
		conn, err := pgx.Connect(ctx, database)
		require.NoError(t, err)
		defer conn.Close(ctx)
		for _, sql := range []string{fmt.Sprintf(`REASSIGN OWNED BY %s_owner TO current_user`, name), fmt.Sprintf(`DROP OWNED BY %s_owner`, name), fmt.Sprintf(`DROP ROLE %s_owner`, name)} {
			_, err := conn.Exec(ctx, sql)
			require.NoError(t, err, sql)
		}
	})
	u, err := url.Parse(database)
	require.NoError(t, err)
	u.User = url.UserPassword(name+"_owner", "p")
	return u.String()
}

// One pool serves both tenants in turn and at once: a connection that changes hands must not keep the last one's tenant.
func TestConnectionsForgetTheLastTenant(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	for _, tenant := range []string{"acme", "globex"} {
		d := page("a.txt", "x")
		d.Tenant = tenant
		loader{s}.Load(t, d)
	}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 50 {
				want, c := [][]string{{"acme", "globex"}, {"acme"}, {"globex"}}[(i+j)%3], ctx
				if len(want) == 1 {
					c = store.As(ctx, want[0])
				}
				rows, err := s.Pool().Query(c, `SELECT DISTINCT tenant FROM documents ORDER BY 1`)
				if err == nil {
					var got []string
					got, err = pgx.CollectRows(rows, pgx.RowTo[string])
					if fmt.Sprint(got) != fmt.Sprint(want) {
						err = fmt.Errorf("got %v, want %v", got, want)
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}
