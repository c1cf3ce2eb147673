package sample

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
