//go:build !amd64 || purego

package kernel

func readBytes(b []byte) { readGeneric(b) }

func peakDotOps() int { return 2 * blockElems }

func peakDot(n int) { peakGeneric(n) }
