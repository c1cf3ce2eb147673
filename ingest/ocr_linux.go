package ingest

import "golang.org/x/sys/unix"

// limitMemory bounds the address space of a child. A child that has ended
// already needs no bound, so errors don't matter.
func limitMemory(pid int, bytes uint64) {
	_ = unix.Prlimit(pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: bytes, Max: bytes}, nil)
}
