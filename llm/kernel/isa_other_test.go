//go:build !amd64 || purego

package kernel

// withoutVNNI has nothing to switch off.
func withoutVNNI(ISA) func() { return nil }
