package quant

// Q6_K: 210 bytes for 256 elements: 128 bytes with the low four bits, 64 bytes with the upper two, sixteen signed 8-bit
// scales (one per 16 elements), half d. Each half of 128 elements uses 64 bytes of ql and 32 of qh: element l+32k
// (k 0..3) takes its nibble from ql[l+32*(k%2)], low for k<2, and bits 2k, 2k+1 of qh[l]. value = d*scale*(q-32).

func decodeQ6_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[superBlock:], src[210:] {
		ql, qh, scales, d := src[:128], src[128:192], src[192:208], half(src[208:])
		for i := range superBlock {
			at, k, l := i/128, i%128/32, i%32
			q := ql[64*at+32*(k%2)+l]>>(4*(k/2))&15 | qh[32*at+l]>>(2*k)&3<<4
			dst[i] = float32(d*float32(int8(scales[i/16]))) * float32(int(q)-32)
		}
	}
}

func encodeQ6_K(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[210:], src[superBlock:] {
		encodeBlockQ6_K(dst[:210], src[:superBlock], nil)
	}
}

// encodeBlockQ6_K writes one super-block; importance is nil or holds one weight per element.
func encodeBlockQ6_K(dst []byte, x, importance []float32) {
	var levels [superBlock]int8
	var scales [16]float32
	for g := range scales {
		var weights []float32
		if importance != nil {
			weights = importance[16*g : 16*g+16]
		}
		scales[g] = symmetricScale(x[16*g:16*g+16], weights, levels[16*g:16*g+16], 32)
	}
	clear(dst)
	largest := signedMax(scales[:])
	if abs(largest) < tiny {
		return // all scales are zero, which decodes to zeros whatever the levels are
	}
	toScale := -128 / largest
	putHalf(dst[208:], 1/toScale)
	d := half(dst[208:])
	for g := range scales {
		s := int8(min(127, nearest(toScale*scales[g])))
		dst[192+g] = byte(s)
		requantizeSymmetric(levels[16*g:16*g+16], x[16*g:16*g+16], d*float32(s), 32)
	}
	ql, qh := dst[:128], dst[128:192]
	for i, level := range levels {
		at, k, l := i/128, i%128/32, i%32
		q := byte(level + 32)
		ql[64*at+32*(k%2)+l] |= q & 15 << (4 * (k / 2))
		qh[32*at+l] |= q >> 4 << (2 * k)
	}
}
