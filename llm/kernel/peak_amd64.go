//go:build !purego

package kernel

// readBytes reads b, whose length is a multiple of 512.
func readBytes(b []byte) {
	if hasAVX2 {
		readAVX2(&b[0], len(b))
		return
	}
	readGeneric(b)
}

// peakDotOps returns the operations of one loop of peakDot.
func peakDotOps() int {
	switch active {
	case AVX512:
		return 24 * 128
	case AVX2:
		return 10 * 64
	}
	return 2 * blockElems
}

// peakDot runs n loops of the fastest integer dot products of the active instruction set.
func peakDot(n int) {
	switch active {
	case AVX512:
		peakDotAVX512(n)
	case AVX2:
		peakDotAVX2(n)
	default:
		peakGeneric(n)
	}
}
