package kernel

// The pack functions write row r of one block, whose source bytes are src, into dst, which holds the block of the panel.
// They run once per block at load, on files of gigabytes: conversions to array pointers spare bounds checks.

func packQ4_0(dst []byte, r int, src []byte) {
	le.PutUint16(dst[2*r:], le.Uint16(src))
	packNibbles(dst[32:], r, src[2:])
}

func packQ4_1(dst []byte, r int, src []byte) {
	packPair(dst, r, src)
	packNibbles(dst[64:], r, src[4:])
}

func packQ5_0(dst []byte, r int, src []byte) {
	le.PutUint16(dst[2*r:], le.Uint16(src))
	packNibbles(dst[32:], r, src[6:])
	packFifthBits(dst[32+nibbles:], r, le.Uint32(src[2:]))
}

func packQ5_1(dst []byte, r int, src []byte) {
	packPair(dst, r, src)
	packNibbles(dst[64:], r, src[8:])
	packFifthBits(dst[64+nibbles:], r, le.Uint32(src[4:]))
}

// packQ8_0 stores levels with an offset of 128, because the dot products want unsigned weights.
func packQ8_0(dst []byte, r int, src []byte) {
	le.PutUint16(dst[2*r:], le.Uint16(src))
	levels, q := dst[32:], (*[32]byte)(src[2:])
	for i := range 8 {
		le.PutUint32(levels[64*i+4*r:], le.Uint32(q[4*i:])^0x80808080)
	}
}

// packPair stores the halves d and m (or dmin).
func packPair(dst []byte, r int, src []byte) {
	le.PutUint16(dst[2*r:], le.Uint16(src))
	le.PutUint16(dst[32+2*r:], le.Uint16(src[2:]))
}

// packNibbles transposes 16 bytes whose low nibbles are elements 0-15 and high nibbles 16-31.
func packNibbles(dst []byte, r int, src []byte) {
	q, to := (*[16]byte)(src), (*[nibbles]byte)(dst)[4*r:]
	for i := range 4 {
		le.PutUint32(to[64*i:], le.Uint32(q[4*i:]))
	}
}

// packFifthBits transposes bit 4*i+j of high into bit i of byte j.
func packFifthBits(dst []byte, r int, high uint32) {
	for j := range 4 {
		x := high >> j & 0x11111111
		x = (x | x>>3) & 0x03030303
		x = (x | x>>6) & 0x000f000f
		dst[4*r+j] = byte(x | x>>12)
	}
}

// packScalesK unpacks the eight 6-bit pairs that Q4_K and Q5_K share into bytes.
func packScalesK(dst []byte, r int, src []byte) {
	packPair(dst, r, src)
	b, scales, minima := (*[12]byte)(src[4:]), (*[128]byte)(dst[64:])[r:], (*[128]byte)(dst[192:])[r:]
	for j := range 4 {
		scales[16*j] = b[j] & 63
		minima[16*j] = b[j+4] & 63
		scales[16*j+64] = b[j+8]&15 | b[j]>>6<<4
		minima[16*j+64] = b[j+8]>>4 | b[j+4]>>6<<4
	}
}

// packPairK regroups the nibbles of 64 elements: the source has elements 0-31 in the low and 32-63 in the high nibbles,
// the two blocks of the panel have their own elements 0-15 low and 16-31 high.
func packPairK(dst0, dst1 []byte, r int, src []byte) {
	const low = 0x0f0f0f0f
	q, to0, to1 := (*[32]byte)(src), (*[nibbles]byte)(dst0)[4*r:], (*[nibbles]byte)(dst1)[4*r:]
	for i := range 4 {
		a, b := le.Uint32(q[4*i:]), le.Uint32(q[16+4*i:])
		le.PutUint32(to0[64*i:], a&low|b&low<<4)
		le.PutUint32(to1[64*i:], a>>4&low|b&^low)
	}
}

func packQ4_K(dst []byte, r int, src []byte) {
	packScalesK(dst, r, src)
	for pair := range 4 {
		at := 320 + 2*pair*nibbles
		packPairK(dst[at:], dst[at+nibbles:], r, src[16+32*pair:])
	}
}

func packQ5_K(dst []byte, r int, src []byte) {
	packScalesK(dst, r, src)
	const sub = nibbles + 64
	for pair := range 4 {
		at := 320 + 2*pair*sub
		packPairK(dst[at:], dst[at+sub:], r, src[48+32*pair:])
	}
	high := (*[32]byte)(src[16:])
	for s := range 8 {
		var x uint32
		for i := range 8 {
			x |= le.Uint32(high[4*i:]) >> s & 0x01010101 << i
		}
		le.PutUint32(dst[320+sub*s+nibbles+4*r:], x)
	}
}

func packIQ4_XS(dst []byte, r int, src []byte) {
	le.PutUint16(dst[2*r:], le.Uint16(src))
	high, low := le.Uint16(src[2:]), (*[4]byte)(src[4:])
	for s := range 8 {
		scale := low[s/2]>>(4*(s%2))&15 | byte(high>>(2*s)&3)<<4
		dst[32+16*s+r] = scale - 32
		packNibbles(dst[160+nibbles*s:], r, src[8+16*s:])
	}
}

func packQ6_K(dst []byte, r int, src []byte) {
	le.PutUint16(dst[2*r:], le.Uint16(src[208:]))
	for g, s := range (*[16]byte)(src[192:]) {
		dst[32+16*g+r] = s
	}
	const sub = nibbles + 128
	for half := range 2 {
		low, high := (*[64]byte)(src[64*half:]), (*[32]byte)(src[128+32*half:])
		for k := range 4 {
			q, to := (*[32]byte)(low[32*(k%2):]), (*[sub]byte)(dst[288+sub*(4*half+k):])[4*r:]
			left, up := 4*(k/2), 2*k
			for i := range 4 {
				a, b := le.Uint32(q[4*i:])>>left, le.Uint32(q[16+4*i:])>>left
				le.PutUint32(to[64*i:], a&0x0f0f0f0f|b&0x0f0f0f0f<<4)
			}
			for v := range 2 {
				h := (*[16]byte)(high[16*v:])
				x := le.Uint32(h[0:])>>up&0x03030303 | le.Uint32(h[4:])>>up&0x03030303<<2 |
					le.Uint32(h[8:])>>up&0x03030303<<4 | le.Uint32(h[12:])>>up&0x03030303<<6
				le.PutUint32(to[nibbles+64*v:], x)
			}
		}
	}
}

// packFloats interleaves up to 16 rows of words of 2 or 4 bytes.
func packFloats(dst []byte, rows [][]byte, word int) {
	for r, row := range rows {
		if word == 2 {
			for k := range len(row) / 2 {
				le.PutUint16(dst[32*k+2*r:], le.Uint16(row[2*k:]))
			}
			continue
		}
		for k := range len(row) / 4 {
			le.PutUint32(dst[64*k+4*r:], le.Uint32(row[4*k:]))
		}
	}
}
