package quant

// Q4_0: 18 bytes for 32 elements: half d, 16 bytes of nibbles. Byte j holds element j (low) and element j+16 (high).
// value = d*(q-8).

func decodeQ4_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[18:] {
		d, qs := half(src), src[2:18]
		for j, q := range qs {
			dst[j] = float32(int(q&15)-8) * d
			dst[j+16] = float32(int(q>>4)-8) * d
		}
	}
}

func encodeQ4_0(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[18:], src[32:] {
		d := signedMax(src[:32]) / -8
		id := inverse(d)
		putHalf(dst, d)
		for j := range 16 {
			lo := min(15, int8(float32(src[j]*id)+8.5))
			hi := min(15, int8(float32(src[j+16]*id)+8.5))
			dst[2+j] = byte(lo) | byte(hi)<<4
		}
	}
}

// Q4_1: 20 bytes for 32 elements: half d, half m, 16 bytes of nibbles as in Q4_0. value = d*q+m.

func decodeQ4_1(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[20:] {
		d, m, qs := half(src), half(src[2:]), src[4:20]
		for j, q := range qs {
			dst[j] = float32(float32(q&15)*d) + m
			dst[j+16] = float32(float32(q>>4)*d) + m
		}
	}
}

func encodeQ4_1(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[20:], src[32:] {
		lowest, highest := extent(src[:32])
		d := (highest - lowest) / 15
		id := inverse(d)
		putHalf(dst, d)
		putHalf(dst[2:], lowest)
		for j := range 16 {
			lo := min(15, int8(float32((src[j]-lowest)*id)+0.5))
			hi := min(15, int8(float32((src[j+16]-lowest)*id)+0.5))
			dst[4+j] = byte(lo) | byte(hi)<<4
		}
	}
}

// signedMax returns the element of largest magnitude with its sign: the symmetric formats with an even number of levels
// have one more level on the negative side, and giving it to the largest element halves that element's error.
func signedMax(x []float32) float32 {
	var largest, magnitude float32
	for _, v := range x {
		if a := abs(v); a > magnitude {
			largest, magnitude = v, a
		}
	}
	return largest
}

// extent returns the smallest and the largest element.
func extent(x []float32) (lowest, highest float32) {
	lowest, highest = x[0], x[0]
	for _, v := range x[1:] {
		lowest, highest = min(lowest, v), max(highest, v)
	}
	return lowest, highest
}

// inverse is 1/d, and 0 for 0 so that an all-zero block encodes to zeros.
func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

func abs(x float32) float32 {
	if x < 0 {
		return -x
	}
	return x
}
