//go:build !amd64 || purego

package kernel

func availableISAs() []ISA { return []ISA{Generic} }
