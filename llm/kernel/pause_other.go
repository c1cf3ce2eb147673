//go:build !amd64 || purego

package kernel

// pause is what a spinning worker does between looks at shared memory.
func pause() {}
