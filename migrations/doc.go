// Package migrations holds the database schema as numbered steps, each with its way back, in the form that goose runs. The comments in the SQL say
// what a table promises and what an index costs.
//
// # Invariants
//
//  1. A published step is never edited; a change is a new step.
//  2. The tenant comes first in every key and foreign key, so that the tables can be spread over servers by tenant (Citus) and no row refers to
//     another tenant's.
//  3. A step can run while the previous release serves: columns are added with a default, dropped one release after their last use.
//
// # Concurrency
//
// Package store runs the steps under an advisory lock; starting any number of processes at once is safe.
//
// # Source
//
// https://pressly.github.io/goose, annotations "+goose Up" and "+goose Down".
package migrations
