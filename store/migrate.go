package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"ragd/migrations"
)

// migrationLock is the advisory lock that orders processes which migrate the same database: "ragd" as a number.
const migrationLock = 0x72616764

// locked runs fn while conn holds the migration lock. The lock ends with the connection, so a killed process holds up nobody. It is asked for again
// and again rather than waited for: a waiting statement would hold a snapshot, and a step that builds an index concurrently waits for snapshots.
func locked(ctx context.Context, conn *pgx.Conn, fn func() error) error {
	for {
		var mine bool
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, int64(migrationLock)).Scan(&mine); err != nil {
			return err
		}
		if mine {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("another process is migrating the database: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	err := fn()
	if _, unlockErr := conn.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, int64(migrationLock)); err == nil {
		err = unlockErr
	}
	return err
}

// provider is goose on the embedded steps.
func provider(config *pgx.ConnConfig) (*goose.Provider, *sql.DB, error) {
	db := stdlib.OpenDB(*config.Copy())
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.Files)
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	return p, db, nil
}

// migrateUp brings the schema to the newest step. A schema that is newer than this program is refused.
func migrateUp(ctx context.Context, config *pgx.ConnConfig) error {
	p, db, err := provider(config)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer db.Close()
	current, newest, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("migrate: read the schema version: %w", err)
	}
	if current > newest {
		return fmt.Errorf("migrate: the schema is version %d, this ragd knows up to %d: use the newer ragd that made it", current, newest)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// Migration is one step of the schema.
type Migration struct {
	Version int64
	Name    string
	Applied bool
}

// Migrations lists the steps of the schema and which of them the database at url has.
func Migrations(ctx context.Context, url string) ([]Migration, error) {
	var steps []Migration
	err := withProvider(ctx, url, func(p *goose.Provider) error {
		status, err := p.Status(ctx)
		for _, s := range status {
			steps = append(steps, Migration{Version: s.Source.Version, Name: s.Source.Path, Applied: s.State == goose.StateApplied})
		}
		return err
	})
	return steps, err
}

// MigrateTo brings the database at url up or down to a version; going down deletes what the steps above it hold.
func MigrateTo(ctx context.Context, url string, version int64) error {
	return withProvider(ctx, url, func(p *goose.Provider) error {
		current, err := p.GetDBVersion(ctx)
		if err != nil {
			return err
		}
		if version < current {
			_, err = p.DownTo(ctx, version)
		} else {
			_, err = p.UpTo(ctx, version)
		}
		return err
	})
}

// withProvider runs fn under the migration lock.
func withProvider(ctx context.Context, url string, fn func(*goose.Provider) error) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("store: the database URL is not valid: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("store: migrate: %w", connectError(err))
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = locked(ctx, conn, func() error {
		if err := installVector(ctx, conn); err != nil {
			return err
		}
		p, db, err := provider(config)
		if err != nil {
			return err
		}
		defer db.Close()
		return fn(p)
	})
	return wrap("migrate", err)
}
