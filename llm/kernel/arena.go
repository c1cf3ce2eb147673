package kernel

import (
	"fmt"
	"sync"
	"unsafe"
)

const (
	hugePage   = 2 << 20  // the transparent huge page of x86-64 and of arm64 with 4 KiB pages
	arenaChunk = 64 << 20 // address space taken at a time; only what is touched becomes resident
	cacheLine  = 64
)

// Arena hands out memory outside the Go heap, in huge pages where the system grants them: decoding streams every weight
// once per token, and with ordinary pages address translation halves the bandwidth. Memory is freed all at once.
type Arena struct {
	mu     sync.Mutex
	chunks []chunk
	free   []byte // the rest of the last chunk
	bytes  int
}

// chunk is one mapping.
type chunk struct {
	mapping []byte // as the system returned it, for unmapping
	mem     []byte // the part in use, aligned to hugePage
	huge    pageKind
}

// pageKind is what a mapping asked for and got.
type pageKind uint8

const (
	pagesPlain    pageKind = iota
	pagesAdvised           // transparent huge pages, granted as the kernel finds free ones
	pagesReserved          // explicit huge pages (vm.nr_hugepages)
)

// NewArena returns an empty arena.
func NewArena() *Arena { return &Arena{} }

// Alloc returns nbytes zeroed bytes, aligned to 64. It is safe for concurrent use. The memory belongs to the arena and
// is gone after Close. It panics when the system has no more address space, as the Go heap does.
func (a *Arena) Alloc(nbytes int) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	size := (nbytes + cacheLine - 1) &^ (cacheLine - 1)
	if size > len(a.free) {
		c, err := mapChunk((max(size, arenaChunk) + hugePage - 1) &^ (hugePage - 1))
		if err != nil {
			panic(fmt.Sprintf("kernel: cannot map %d MiB of memory: %v", size>>20, err))
		}
		a.chunks = append(a.chunks, c)
		a.free = c.mem
	}
	b := a.free[:nbytes:size]
	a.free = a.free[size:]
	a.bytes += size
	return b
}

// Bytes returns how much has been handed out.
func (a *Arena) Bytes() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bytes
}

// HugePages says in words which pages back the arena, for the start-up report.
func (a *Arena) HugePages() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.chunks) == 0 {
		return "no memory yet"
	}
	var by [3]int
	for _, c := range a.chunks {
		by[c.huge] += len(c.mem)
	}
	switch {
	case by[pagesPlain] > 0:
		return "plain pages (transparent huge pages are off: set /sys/kernel/mm/transparent_hugepage/enabled to madvise)"
	case by[pagesAdvised] > 0:
		return "transparent huge pages"
	}
	return "reserved huge pages"
}

// Close unmaps everything; memory from Alloc must not be used any more.
func (a *Arena) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.chunks {
		unmapChunk(c)
	}
	a.chunks, a.free, a.bytes = nil, nil, 0
}

// Float32s reinterprets b as float32s in the machine's byte order, without copying. b must be aligned to 4, as memory
// from Alloc is.
func Float32s(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// alignedBytes returns zeroed heap memory whose first byte is aligned to 64.
func alignedBytes(n int) []byte {
	b := make([]byte, n+cacheLine-1)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (cacheLine - 1)
	return b[skip : skip+n : skip+n]
}
