package quant

import "math"

// Q8_0: 34 bytes for 32 elements: half d, 32 signed bytes. value = d*q.

func decodeQ8_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[34:] {
		d := half(src)
		for j, q := range src[2:34] {
			dst[j] = float32(int8(q)) * d
		}
	}
}

func encodeQ8_0(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[34:], src[32:] {
		d := abs(signedMax(src[:32])) / 127
		id := inverse(d)
		putHalf(dst, d)
		for j, x := range src[:32] {
			dst[2+j] = byte(int8(math.Round(float64(x * id)))) // half away from zero, as the reference's roundf
		}
	}
}
