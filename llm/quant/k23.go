package quant

// Q2_K: 84 bytes for 256 elements: 16 bytes of scales (low nibble scale, high nibble min, one per 16 elements), 64 bytes
// of 2-bit levels, half d, half dmin. Each 32 bytes of levels hold 128 elements, 32 per bit pair.
// value = d*scale*q - dmin*min.

func decodeQ2_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[superBlock:], src[84:] {
		scales, qs, d, dmin := src[:16], src[16:80], half(src[80:]), half(src[82:])
		for i := range superBlock {
			s := scales[i/16]
			scale, offset := d*float32(s&15), dmin*float32(s>>4)
			q := qs[i/128*32+i%32] >> (i % 128 / 32 * 2) & 3
			dst[i] = float32(scale*float32(q)) - offset
		}
	}
}

func encodeQ2_K(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[84:], src[superBlock:] {
		encodeBlockQ2_K(dst[:84], src[:superBlock])
	}
}

func encodeBlockQ2_K(dst []byte, x []float32) {
	s := search{rmin: -0.5, rdelta: 0.1, steps: 15, absolute: true}
	var levels [superBlock]uint8
	var scales, mins [16]float32
	var maxScale, maxMin float32
	for g := range scales {
		var weights [16]float32
		for i, v := range x[16*g : 16*g+16] {
			weights[i] = abs(v)
		}
		scales[g], mins[g] = s.scaleMin(x[16*g:16*g+16], weights[:], levels[16*g:16*g+16], 3)
		maxScale, maxMin = max(maxScale, scales[g]), max(maxMin, mins[g])
	}
	clear(dst)
	putHalf(dst[80:], maxScale/15)
	putHalf(dst[82:], maxMin/15)
	d, dmin := half(dst[80:]), half(dst[82:])
	toScale, toMin := ratio(15, maxScale), ratio(15, maxMin)
	for g := range scales {
		sc, m := level(toScale*scales[g], 15), level(toMin*mins[g], 15)
		dst[g] = byte(sc | m<<4)
		requantize(levels[16*g:16*g+16], x[16*g:16*g+16], d*float32(sc), dmin*float32(m), 3)
	}
	packPairs(dst[16:80], &levels)
}

// Q3_K: 110 bytes for 256 elements: 32 bytes hmask, 64 bytes of 2-bit levels as in Q2_K, 12 bytes with sixteen 6-bit
// scales, half d. Bit k of hmask[l] is the third bit of element 32k+l. value = d*(scale-32)*(q-4).

func decodeQ3_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[superBlock:], src[110:] {
		hmask, qs, packed, d := src[:32], src[32:96], src[96:108], half(src[108:])
		for i := range superBlock {
			scale := d * float32(int(sixBitScale(packed, i/16))-32)
			q := qs[i/128*32+i%32]>>(i%128/32*2)&3 | hmask[i%32]>>(i/32)&1<<2
			dst[i] = scale * float32(int(q)-4)
		}
	}
}

func encodeQ3_K(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[110:], src[superBlock:] {
		encodeBlockQ3_K(dst[:110], src[:superBlock])
	}
}

func encodeBlockQ3_K(dst []byte, x []float32) {
	var levels [superBlock]int8
	var scales [16]float32
	for g := range scales {
		scales[g] = descentScale(x[16*g:16*g+16], levels[16*g:16*g+16], 4)
	}
	clear(dst)
	hmask, packed := dst[:32], dst[96:108]
	largest := signedMax(scales[:])
	toScale := ratio(-32, largest)
	putHalf(dst[108:], inverse(toScale))
	d := half(dst[108:])
	for g := range scales {
		s := max(-32, min(31, nearest(toScale*scales[g])))
		putSixBitScale(packed, g, uint8(s+32))
		requantizeSymmetric(levels[16*g:16*g+16], x[16*g:16*g+16], d*float32(s), 4)
	}
	var low [superBlock]uint8
	for i, level := range levels {
		q := uint8(level + 4)
		hmask[i%32] |= q >> 2 << (i / 32)
		low[i] = q & 3
	}
	packPairs(dst[32:96], &low)
}

// sixBitScale unpacks scale g of 16: low nibbles of bytes 0..7, then their high nibbles; the two top bits lie in bytes
// 8..11.
func sixBitScale(packed []byte, g int) uint8 {
	return packed[g%8]>>(4*(g/8))&15 | packed[8+g%4]>>(2*(g/4))&3<<4
}

// putSixBitScale is the inverse of sixBitScale; packed starts as zeros.
func putSixBitScale(packed []byte, g int, s uint8) {
	packed[g%8] |= s & 15 << (4 * (g / 8))
	packed[8+g%4] |= s >> 4 << (2 * (g / 4))
}

// packPairs stores 256 levels of 2 bits: each 32 bytes hold four consecutive groups of 32.
func packPairs(dst []byte, levels *[superBlock]uint8) {
	for i, level := range levels {
		dst[i/128*32+i%32] |= level << (i % 128 / 32 * 2)
	}
}
