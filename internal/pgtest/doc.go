// Package pgtest gives each test a migrated database of its own. The server is a private one in the cache folder, started by the first test that
// needs it and shared by all test processes of the machine; it keeps running for the next run, and "go run ./internal/pgtest/stop" ends it. A
// database is a copy of a migrated template, which takes some 30 ms.
//
// # Invariants
//
//  1. No two tests share a database; a test's database is dropped when it ends, and those of killed test processes by the next process.
//  2. A [Server] is one test's own: it may be killed, held or copied to a replica, and ends with the test.
//  3. Without a server, tests are skipped with the reason; where CI=true they fail.
//
// # Concurrency
//
// New may be called by parallel tests of many processes.
//
// # Source
//
// PostgreSQL manual, CREATE DATABASE, "template databases".
package pgtest
