package quant

import "encoding/binary"

// iq4Levels are the 16 non-uniform levels of the IQ4 formats, from the format's definition (kvalues_iq4nl).
var iq4Levels = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// IQ4_NL: 18 bytes for 32 elements: half d, 16 bytes of nibbles as in Q4_0. value = d*iq4Levels[q].

func decodeIQ4_NL(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[18:] {
		lookUpIQ4(dst, src[2:18], half(src))
	}
}

// IQ4_XS: 136 bytes for 256 elements: half d, u16 high scale bits, 4 bytes of low scale nibbles, then 8 groups of 32
// elements as in IQ4_NL. A group's 6-bit scale s gives value = d*(s-32)*iq4Levels[q].

func decodeIQ4_XS(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[superBlock:], src[136:] {
		d, high, low, qs := half(src), binary.LittleEndian.Uint16(src[2:]), src[4:8], src[8:136]
		for g := range 8 {
			s := int(low[g/2]>>(4*(g%2))&15) | int(high>>(2*g)&3)<<4
			lookUpIQ4(dst[32*g:], qs[16*g:16*g+16], d*float32(s-32))
		}
	}
}

func lookUpIQ4(dst []float32, qs []byte, d float32) {
	for j, q := range qs {
		dst[j] = d * iq4Levels[q&15]
		dst[j+16] = d * iq4Levels[q>>4]
	}
}
