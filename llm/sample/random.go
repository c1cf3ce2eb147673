package sample

import "math"

// uniform returns a number in [0,1) that is a function of its arguments alone, so a token does not depend on which
// other sequences were sampled before it.
func uniform(seed, stream, position uint64) float64 {
	const golden = 0x9e3779b97f4a7c15 // 2^64 / golden ratio, the increment of SplitMix64
	x := mix(seed + golden)
	x = mix(x + stream*golden + golden)
	x = mix(x + position*golden + golden)
	return float64(x>>11) * 0x1p-53
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// exp is e^x for x <= 0, within 2 units in the last place of math.Exp and several times faster: a row has up to 262144
// entries. Below -87.3 the result would be subnormal and is 0.
func exp(x float32) float32 {
	const (
		log2e = 1.44269504088896341
		ln2Hi = 0.693359375 // 355/512: products with small integers are exact
		ln2Lo = -2.12194440054690583e-4
	)
	if !(x >= -87.3) {
		return 0
	}
	n := float32(int32(x*log2e - 0.5)) // rounds to nearest for x <= 0
	r := float32(x-float32(n*ln2Hi)) - float32(n*ln2Lo)
	// Minimax polynomial on [-ln2/2, ln2/2] from Cephes expf.
	p := float32(1.9875691500e-4)
	p = float32(p*r) + 1.3981999507e-3
	p = float32(p*r) + 8.3334519073e-3
	p = float32(p*r) + 4.1665795894e-2
	p = float32(p*r) + 1.6666665459e-1
	p = float32(p*r) + 5.0000001201e-1
	y := float32(float32(p*r)*r) + r + 1
	return y * math.Float32frombits(uint32(int32(n)+127)<<23)
}
