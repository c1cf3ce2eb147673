package quant

// Q4_K: 144 bytes for 256 elements: half d, half dmin, 12 bytes with eight 6-bit (scale, min) pairs, 128 bytes of nibbles.
// Each 32 bytes of nibbles hold 64 elements: sub-block 2i in the low nibbles, 2i+1 in the high ones.
// value = d*scale*q - dmin*min.

func decodeQ4_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[superBlock:], src[144:] {
		d, dmin, packed, qs := half(src), half(src[2:]), src[4:16], src[16:144]
		for g := range 8 {
			s, m := scaleMin(packed, g)
			scale, offset := d*float32(s), dmin*float32(m)
			shift := 4 * (g % 2)
			for l, q := range qs[g/2*32 : g/2*32+32] {
				dst[32*g+l] = float32(scale*float32(q>>shift&15)) - offset
			}
		}
	}
}

func encodeQ4_K(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[144:], src[superBlock:] {
		var levels [superBlock]uint8
		// rmin, rdelta and nstep are the reference's search range for 4 bits.
		encodeScaleMin(dst[:16], levels[:], src[:superBlock], 15, search{rmin: -1, rdelta: 0.1, steps: 20})
		packNibbles(dst[16:144], &levels)
	}
}

// Q5_K: 176 bytes for 256 elements: as Q4_K with 32 bytes qh between the scales and the nibbles. Bit g of qh[l] is the
// fifth bit of element l of sub-block g.

func decodeQ5_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[superBlock:], src[176:] {
		d, dmin, packed, high, qs := half(src), half(src[2:]), src[4:16], src[16:48], src[48:176]
		for g := range 8 {
			s, m := scaleMin(packed, g)
			scale, offset := d*float32(s), dmin*float32(m)
			shift := 4 * (g % 2)
			for l, q := range qs[g/2*32 : g/2*32+32] {
				q = q>>shift&15 | high[l]>>g&1<<4
				dst[32*g+l] = float32(scale*float32(q)) - offset
			}
		}
	}
}

func encodeQ5_K(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[176:], src[superBlock:] {
		var levels [superBlock]uint8
		encodeScaleMin(dst[:16], levels[:], src[:superBlock], 31, search{rmin: -0.5, rdelta: 0.1, steps: 15})
		packFiveBits(dst[16:176], &levels)
	}
}

// packFiveBits stores 256 levels of 5 bits: 32 bytes of fifth bits, then the nibbles. It cuts levels to their nibbles.
func packFiveBits(dst []byte, levels *[superBlock]uint8) {
	high := dst[:32]
	clear(high)
	for i, q := range levels {
		high[i%32] |= q >> 4 << (i / 32)
		levels[i] = q & 15
	}
	packNibbles(dst[32:160], levels)
}

// scaleMin unpacks the 6-bit pair g of 8. The first four pairs lie in the low six bits of bytes g and g+4; the others
// share bytes 8..11 (low four bits each) and the two top bits of the bytes of the first four.
func scaleMin(packed []byte, g int) (scale, minimum uint8) {
	if g < 4 {
		return packed[g] & 63, packed[g+4] & 63
	}
	return packed[g+4]&15 | packed[g-4]>>6<<4, packed[g+4]>>4 | packed[g]>>6<<4
}

// putScaleMin is the inverse of scaleMin; packed starts as zeros and g ascends.
func putScaleMin(packed []byte, g int, scale, minimum uint8) {
	if g < 4 {
		packed[g], packed[g+4] = scale, minimum
		return
	}
	packed[g+4] = scale&15 | minimum&15<<4
	packed[g-4] |= scale >> 4 << 6
	packed[g] |= minimum >> 4 << 6
}

// encodeScaleMin chooses scales, mins and levels (0..nmax) of the eight sub-blocks of one super-block and writes the
// 16-byte header (d, dmin, packed pairs). The levels are computed again from the rounded scales: without that step the
// rounding of the scales would add to the error of every element.
func encodeScaleMin(header []byte, levels []uint8, x []float32, nmax int, s search) {
	var scales, mins [8]float32
	var maxScale, maxMin float32
	for g := range 8 {
		var weights [32]float32
		sub := x[32*g : 32*g+32]
		magnitudeWeights(weights[:], sub)
		scales[g], mins[g] = s.scaleMin(sub, weights[:], levels[32*g:32*g+32], nmax)
		maxScale, maxMin = max(maxScale, scales[g]), max(maxMin, mins[g])
	}
	toScale, toMin := ratio(63, maxScale), ratio(63, maxMin)
	var scaleLevels, minLevels [8]uint8
	for g := range 8 {
		scaleLevels[g], minLevels[g] = uint8(level(toScale*scales[g], 63)), uint8(level(toMin*mins[g], 63))
	}
	putHeader(header, maxScale/63, maxMin/63, &scaleLevels, &minLevels)
	requantizeSuperBlock(header, levels, x, nmax)
}

// putHeader writes the 16 bytes in front of the levels.
func putHeader(header []byte, d, dmin float32, scaleLevels, minLevels *[8]uint8) {
	putHalf(header, d)
	putHalf(header[2:], dmin)
	packed := header[4:16]
	clear(packed)
	for g := range 8 {
		putScaleMin(packed, g, scaleLevels[g], minLevels[g])
	}
}

// requantizeSuperBlock computes the levels again for the scales and mins as the header holds them.
func requantizeSuperBlock(header []byte, levels []uint8, x []float32, nmax int) {
	d, dmin, packed := half(header), half(header[2:]), header[4:16]
	for g := range 8 {
		sc, m := scaleMin(packed, g)
		requantize(levels[32*g:32*g+32], x[32*g:32*g+32], d*float32(sc), dmin*float32(m), nmax)
	}
}

// packNibbles stores 256 levels of 4 bits: each 32 bytes hold two consecutive groups of 32.
func packNibbles(dst []byte, levels *[superBlock]uint8) {
	for i := range dst {
		at := i/32*64 + i%32
		dst[i] = levels[at] | levels[at+32]<<4
	}
}
