//go:build !linux

package kernel

// physicalCores is only known on Linux.
func physicalCores() int { return 0 }
