package quant

import (
	"encoding/binary"
	"math"
)

// F16ToF32 converts an IEEE 754 half to float32, exactly.
func F16ToF32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h>>10) & 0x1f
	frac := uint32(h & 0x3ff)
	switch exp {
	case 0: // zero or subnormal: frac * 2^-24 is exact in float32
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-24))
	case 0x1f: // infinity or NaN
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// F32ToF16 converts to half, rounding to nearest with ties to even. Values beyond 65504 become infinity; NaN stays NaN.
func F32ToF16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits>>16) & 0x8000
	abs := bits & 0x7fffffff
	switch {
	case abs > 0x7f800000: // NaN: keep it quiet, keep the upper payload
		return sign | 0x7e00 | uint16(abs>>13)&0x1ff
	case abs >= 0x477ff000: // rounds to 65536 or more
		return sign | 0x7c00
	case abs < 0x38800000: // below 2^-14: subnormal half; adding 0.5 lets the FPU do the rounding at 2^-24
		return sign | uint16(math.Float32bits(math.Float32frombits(abs)+0.5)-math.Float32bits(0.5))
	}
	odd := abs >> 13 & 1
	return sign | uint16((abs-(127-15)<<23+0xfff+odd)>>13)
}

// BF16ToF32 converts a bfloat16 (the upper half of a float32) to float32, exactly.
func BF16ToF32(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// F32ToBF16 converts to bfloat16, rounding to nearest with ties to even; NaN stays NaN.
func F32ToBF16(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&0x7fffffff > 0x7f800000 {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

func decodeF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func encodeF32(dst []byte, src []float32) {
	for i, x := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
	}
}

func decodeF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = half(src[2*i:])
	}
}

func encodeF16(dst []byte, src []float32) {
	for i, x := range src {
		putHalf(dst[2*i:], x)
	}
}

func decodeBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

func encodeBF16(dst []byte, src []float32) {
	for i, x := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], F32ToBF16(x))
	}
}

// half reads the little-endian half at the start of b.
func half(b []byte) float32 { return F16ToF32(binary.LittleEndian.Uint16(b)) }

// putHalf writes x, rounded to half, at the start of b.
func putHalf(b []byte, x float32) { binary.LittleEndian.PutUint16(b, F32ToF16(x)) }
