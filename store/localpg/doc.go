// Package localpg runs a private PostgreSQL server with pgvector for people who have none: it finds or fetches the programs, creates a data
// folder, starts the server on a unix socket that only this user can reach, and stops it when its last user leaves. It knows no SQL; package store
// connects to the URL of a [Cluster].
//
// # Invariants
//
//  1. A data folder is either absent or complete: it is created beside its place and renamed.
//  2. The server of a data folder runs at most once. Whoever comes second, in this process or another, uses the running server, also one that a
//     killed process left behind.
//  3. The server never listens on a network address; its socket lies in a folder of mode 0700.
//  4. A running server is stopped only by the last process that uses it, and with a checkpoint.
//  5. Nothing runs that was not checked: the archive with the programs is pinned by SHA-256.
//  6. A data folder of another major version is refused, never changed.
//
// # Concurrency
//
// Start and Stop may be called from any number of goroutines and processes. Two file locks order them: "start.lock" is held while one of them
// decides, "users.lock" is shared by all who use the server, so that leaving processes can tell whether they are the last, even after a crash.
//
// # Source
//
// PostgreSQL manual, chapters "Server Setup and Operation" and "initdb"; the format of postmaster.pid is src/include/utils/pidfile.h.
package localpg
