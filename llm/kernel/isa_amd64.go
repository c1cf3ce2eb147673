//go:build !purego

package kernel

// hasAVX2 and hasAVX512 say what the processor has and the operating system saves on a context switch. hasVNNI says that
// AVX2 comes with AVX-VNNI, as in client processors without AVX-512: faster dot products with the same results.
var hasAVX2, hasAVX512, hasVNNI = detect()

// detect reads the feature bits. Source: Intel SDM volume 2A, CPUID, leaves 1 and 7; volume 1, section 13.3 (XCR0).
func detect() (avx2, avx512, vnni bool) {
	bit := func(reg uint32, n int) bool { return reg>>n&1 != 0 }
	maxLeaf, _, _, _ := cpuid(0, 0)
	if maxLeaf < 7 {
		return false, false, false
	}
	_, _, c1, _ := cpuid(1, 0)
	if !bit(c1, 27) || !bit(c1, 28) { // OSXSAVE, AVX
		return false, false, false
	}
	xcr0, _ := xgetbv()
	_, b7, c7, _ := cpuid(7, 0)
	a71, _, _, _ := cpuid(7, 1)
	const ymm, zmm = 0x6, 0xe6 // state components of XCR0
	avx2 = xcr0&ymm == ymm && bit(c1, 12) && bit(c1, 29) && bit(b7, 5)
	avx512 = avx2 && xcr0&zmm == zmm && bit(b7, 16) && bit(b7, 17) && bit(b7, 30) && bit(b7, 31) && bit(c7, 11)
	vnni = avx2 && bit(a71, 4)
	return avx2, avx512, vnni
}

func availableISAs() []ISA {
	isas := []ISA{Generic}
	if hasAVX2 {
		isas = append(isas, AVX2)
	}
	if hasAVX512 {
		isas = append(isas, AVX512)
	}
	return isas
}
