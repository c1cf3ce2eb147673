package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// DefaultTenant is the tenant of an installation without tenants; the empty name means it.
const DefaultTenant = "default"

// tenantOf is the tenant that a filter or source means.
func tenantOf(name string) string {
	if name == "" {
		return DefaultTenant
	}
	return clean(name)
}

type confinedTo struct{}

// As returns a context for work on behalf of one tenant: every statement under it sees and writes rows of that tenant only, by row-level security,
// whatever tenant the statement names. It is the second belt: it is set where a request is recognised, far from where statements are written.
func As(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, confinedTo{}, tenantOf(tenant))
}

// isolate puts row-level security on the tables that have a tenant and lack it.
func isolate(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, `SELECT ragd_isolate()`); err != nil {
		return fmt.Errorf("row-level security: %w", err)
	}
	return nil
}

// session is what a connection was last prepared for; it is kept with the connection, so that one that changes hands within a tenant costs nothing.
type session struct {
	tenant string // "": not restricted
	role   string // that restricted sessions take; "none" where the user may not, see [Store.Confines]
}

const sessionKey = "ragd.session"

// mayConfine says in SQL whether the user may take the role of restricted sessions.
const mayConfine = `coalesce(pg_has_role(to_regrole('ragd_tenant'), 'MEMBER'), false)`

// Confines reports whether row-level security is in force. It needs a role, which some users may not make; the tenants that statements name are in
// force in any case.
func (s *Store) Confines(ctx context.Context) (in bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT `+mayConfine).Scan(&in)
	return in, wrap("look for the role of tenants", err)
}

// confine prepares a connection for the tenant of ctx before it is handed out.
func confine(ctx context.Context, conn *pgx.Conn) (bool, error) {
	tenant, _ := ctx.Value(confinedTo{}).(string)
	custom := conn.PgConn().CustomData()
	now, known := custom[sessionKey].(session)
	if known && now.tenant == tenant || !known && tenant == "" {
		return true, nil
	}
	if !known {
		err := conn.QueryRow(ctx, `SELECT CASE WHEN `+mayConfine+` THEN 'ragd_tenant' ELSE 'none' END`).Scan(&now.role)
		if err != nil {
			return prepareFailed(ctx, conn, err)
		}
	}
	role := now.role
	if tenant == "" {
		role = "none"
	}
	delete(custom, sessionKey) // unknown, should the next statement fail
	if _, err := conn.Exec(ctx, `SELECT set_config('ragd.tenant', $1, false), set_config('role', $2, false)`, tenant, role); err != nil {
		return prepareFailed(ctx, conn, err)
	}
	custom[sessionKey] = session{tenant: tenant, role: now.role}
	return true, nil
}

// prepareFailed gives a connection up that could not be prepared; one that was dead already is replaced by another.
func prepareFailed(ctx context.Context, conn *pgx.Conn, err error) (bool, error) {
	if conn.IsClosed() && ctx.Err() == nil {
		return false, nil
	}
	return false, fmt.Errorf("restrict a session to its tenant: %w", err)
}
