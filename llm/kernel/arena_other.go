//go:build !linux

package kernel

// mapChunk takes memory from the Go heap: this system has no huge pages to ask for.
func mapChunk(nbytes int) (chunk, error) {
	mem := alignedBytes(nbytes)
	return chunk{mem, mem, pagesPlain}, nil
}

// unmapChunk leaves the memory to the garbage collector.
func unmapChunk(chunk) {}
