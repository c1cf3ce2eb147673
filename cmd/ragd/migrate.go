package main

import (
	"fmt"

	"ragd/store"
)

type migrateCmd struct {
	To     int64 `help:"Schema version to go to; lower than the current one undoes steps and loses what they added." default:"-1" placeholder:"VERSION"`
	Status bool  `help:"Only show which steps were taken."`
}

// Run brings the schema to a version; opening the database brings it to the newest.
func (k migrateCmd) Run(ctx ctxBinding, a *app) error {
	address, err := a.databaseURL(ctx)
	if err != nil {
		return err
	}
	switch {
	case k.Status:
	case k.To >= 0:
		if err := store.MigrateTo(ctx, address, k.To); err != nil {
			return err
		}
	default:
		db, err := store.Open(ctx, address, a.log)
		if err != nil {
			return err
		}
		db.Close()
	}
	steps, err := store.Migrations(ctx, address)
	if err != nil {
		return err
	}
	for _, s := range steps {
		state := "pending"
		if s.Applied {
			state = "applied"
		}
		fmt.Printf("%5d  %-8s %s\n", s.Version, state, s.Name)
	}
	return nil
}
