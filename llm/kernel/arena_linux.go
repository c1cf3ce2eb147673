package kernel

import (
	"os"
	"strings"
	"syscall"
	"unsafe"
)

// Linux mmap and madvise values that package syscall does not name; they are the same on every architecture here.
const (
	mapHugeTLB   = 0x40000
	madvHugePage = 14
)

// mapChunk maps nbytes, a multiple of hugePage: reserved huge pages when the administrator set some aside, else memory
// aligned so that every two megabytes can become one transparent huge page.
func mapChunk(nbytes int) (chunk, error) {
	const prot, flags = syscall.PROT_READ | syscall.PROT_WRITE, syscall.MAP_PRIVATE | syscall.MAP_ANON
	if mem, err := syscall.Mmap(-1, 0, nbytes, prot, flags|mapHugeTLB); err == nil {
		return chunk{mem, mem, pagesReserved}, nil
	}
	mapping, err := syscall.Mmap(-1, 0, nbytes+hugePage, prot, flags)
	if err != nil {
		return chunk{}, err
	}
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(mapping)))) & (hugePage - 1)
	c := chunk{mapping, mapping[skip : skip+nbytes], pagesPlain}
	if syscall.Madvise(c.mem, madvHugePage) == nil && transparentHugePages() {
		c.huge = pagesAdvised
	}
	return c, nil
}

// unmapChunk gives the memory back. It cannot fail on a mapping that mapChunk made.
func unmapChunk(c chunk) { _ = syscall.Munmap(c.mapping) }

// transparentHugePages reports whether the kernel is set to follow madvise, which succeeds either way.
func transparentHugePages() bool {
	b, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	return err == nil && !strings.Contains(string(b), "[never]")
}
