package quant

import "encoding/binary"

// Q5_0: 22 bytes for 32 elements: half d, u32 qh, 16 bytes of nibbles as in Q4_0. Bit j of qh is the fifth bit of
// element j. value = d*(q-16).

func decodeQ5_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[22:] {
		d, high, qs := half(src), binary.LittleEndian.Uint32(src[2:]), src[6:22]
		for j, q := range qs {
			dst[j] = float32(int(fifthBit(q&15, high, j))-16) * d
			dst[j+16] = float32(int(fifthBit(q>>4, high, j+16))-16) * d
		}
	}
}

func encodeQ5_0(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[22:], src[32:] {
		d := signedMax(src[:32]) / -16
		id := inverse(d)
		putHalf(dst, d)
		packFive(dst[2:22], func(i int) uint32 { return uint32(min(31, int8(float32(src[i]*id)+16.5))) })
	}
}

// Q5_1: 24 bytes for 32 elements: half d, half m, u32 qh, 16 bytes of nibbles as in Q5_0. value = d*q+m.

func decodeQ5_1(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[24:] {
		d, m, high, qs := half(src), half(src[2:]), binary.LittleEndian.Uint32(src[4:]), src[8:24]
		for j, q := range qs {
			dst[j] = float32(float32(fifthBit(q&15, high, j))*d) + m
			dst[j+16] = float32(float32(fifthBit(q>>4, high, j+16))*d) + m
		}
	}
}

func encodeQ5_1(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[24:], src[32:] {
		lowest, highest := extent(src[:32])
		d := (highest - lowest) / 31
		id := inverse(d)
		putHalf(dst, d)
		putHalf(dst[2:], lowest)
		packFive(dst[4:24], func(i int) uint32 { return uint32(min(31, uint8(float32((src[i]-lowest)*id)+0.5))) })
	}
}

// fifthBit puts bit j of high above the nibble.
func fifthBit(nibble byte, high uint32, j int) byte { return nibble | byte(high>>j&1)<<4 }

// packFive writes qh and the nibbles of 32 elements into dst[:20]; level gives the 5-bit code of element i.
func packFive(dst []byte, level func(i int) uint32) {
	var high uint32
	for j := range 16 {
		lo, hi := level(j), level(j+16)
		dst[4+j] = byte(lo&15 | hi&15<<4)
		high |= lo>>4<<j | hi>>4<<(j+16)
	}
	binary.LittleEndian.PutUint32(dst, high)
}
