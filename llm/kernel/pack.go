package kernel

import "unsafe"

// The pack functions write one block of a panel from the block's sources in 16 rows, which lie stride bytes apart in src.
// They run once per block at load, on files of gigabytes, between a user and the first answer: rows are interleaved by
// the vector, and what follows works on eight bytes at a time.

// packVector is 64 bytes of a panel: the same four bytes of every row.
type packVector = [cacheLine]byte

// packWords is scratch memory: interleaved words of one block.
type packWords [52]packVector

// vectorAt returns vector i of b.
func vectorAt(b []byte, i int) *packVector { return (*packVector)(b[cacheLine*i:]) }

// interleaveGeneric writes the first n words of 16 rows to dst, word by word: [n][16].
func interleaveGeneric(dst, src []byte, stride, n int) {
	for r := range panelRows {
		row := src[r*stride:][:4*n]
		for i := 0; i < n; i++ {
			le.PutUint32(dst[cacheLine*i+4*r:], le.Uint32(row[4*i:]))
		}
	}
}

// packHalf copies a half of every row.
func packHalf(dst, src []byte, stride int) {
	to, at := (*[2 * panelRows]byte)(dst), 0
	for r := 0; r < 2*panelRows; r += 2 {
		le.PutUint16(to[r:], le.Uint16(src[at:]))
		at += stride
	}
}

// packPair copies two neighbouring halves of every row to vectors of their own.
func packPair(dst, src []byte, stride int) {
	var words packVector
	at := 0
	for r := 0; r < len(words); r += 4 {
		le.PutUint32(words[r:], le.Uint32(src[at:]))
		at += stride
	}
	splitPairs(dst, dst[32:], &words)
}

func packQ4_0(dst, src []byte, stride int) {
	packHalf(dst, src, stride)
	interleave(dst[32:], src[2:], stride, 4)
}

func packQ4_1(dst, src []byte, stride int) {
	packPair(dst, src, stride)
	interleave(dst[64:], src[4:], stride, 4)
}

func packQ5_0(dst, src []byte, stride int) {
	packHalf(dst, src, stride)
	packFifthBits(dst[32+nibbles:], src[2:], stride)
	interleave(dst[32:], src[6:], stride, 4)
}

func packQ5_1(dst, src []byte, stride int) {
	packPair(dst, src, stride)
	packFifthBits(dst[64+nibbles:], src[4:], stride)
	interleave(dst[64:], src[8:], stride, 4)
}

// packQ8_0 stores levels with an offset of 128, because the dot products want unsigned weights.
func packQ8_0(dst, src []byte, stride int) {
	packHalf(dst, src, stride)
	levels := dst[32:][:2*nibbles]
	interleave(levels, src[2:], stride, 8)
	for k := 0; k+8 <= len(levels); k += 8 {
		le.PutUint64(levels[k:], le.Uint64(levels[k:])^0x8080808080808080)
	}
}

// packFifthBits moves bit 4*i+j of every row's word into bit i of its byte j.
func packFifthBits(dst, src []byte, stride int) {
	for r := 0; r < panelRows; r += 2 {
		high := uint64(le.Uint32(src[r*stride:])) | uint64(le.Uint32(src[(r+1)*stride:]))<<32
		var out uint64
		for j := range 4 {
			x := high >> j & 0x1111111111111111
			x = (x | x>>3) & 0x0303030303030303
			x = (x | x>>6) & 0x000f000f000f000f
			out |= (x | x>>12) & 0x000000ff000000ff << (8 * j)
		}
		le.PutUint64(dst[4*r:], out)
	}
}

// packBytes writes byte j of the word of every row to dst[16*j+row].
func packBytes(dst []byte, words *packVector) {
	for r := 0; r < panelRows; r += 4 {
		w0, w1, w2, w3 := le.Uint32(words[4*r:]), le.Uint32(words[4*r+4:]), le.Uint32(words[4*r+8:]), le.Uint32(words[4*r+12:])
		const even = 0x00ff00ff
		a, b := w0&even|w1&even<<8, w0>>8&even|w1&^even
		c, d := w2&even|w3&even<<8, w2>>8&even|w3&^even
		le.PutUint32(dst[r:], a&0xffff|c<<16)
		le.PutUint32(dst[16+r:], b&0xffff|d<<16)
		le.PutUint32(dst[32+r:], a>>16|c&0xffff0000)
		le.PutUint32(dst[48+r:], b>>16|d&0xffff0000)
	}
}

// packScalesK unpacks the eight 6-bit pairs that Q4_K and Q5_K share into bytes. head is d, dmin and the twelve bytes.
func packScalesK(dst []byte, head *packWords) {
	splitPairs(dst, dst[32:], &head[0])
	var scales, minima, scales4, minima4 packVector
	for k := 0; k < cacheLine; k += 8 {
		const six, four, two = 0x3f3f3f3f3f3f3f3f, 0x0f0f0f0f0f0f0f0f, 0x3030303030303030
		a, b, c := le.Uint64(head[1][k:]), le.Uint64(head[2][k:]), le.Uint64(head[3][k:])
		le.PutUint64(scales[k:], a&six)
		le.PutUint64(minima[k:], b&six)
		le.PutUint64(scales4[k:], c&four|a>>2&two)
		le.PutUint64(minima4[k:], c>>4&four|b>>2&two)
	}
	packBytes(dst[64:], &scales)
	packBytes(dst[128:], &scales4)
	packBytes(dst[192:], &minima)
	packBytes(dst[256:], &minima4)
}

// packPairK regroups the nibbles of 64 elements: the source has elements 0-31 in the low and 32-63 in the high nibbles,
// the two blocks of the panel have their own elements 0-15 low and 16-31 high.
func packPairK(dst0, dst1 []byte, words []packVector) {
	pairNibbles((*[nibbles]byte)(dst0), (*[nibbles]byte)(dst1), (*[4]packVector)(words), (*[4]packVector)(words[4:]))
}

// pairNibblesGeneric writes the low nibbles of a and b to dst0 and the high ones to dst1, those of a low.
func pairNibblesGeneric(dst0, dst1 *[nibbles]byte, a, b *[4]packVector) {
	for i := range a {
		a, b, to0, to1 := &a[i], &b[i], vectorAt(dst0[:], i), vectorAt(dst1[:], i)
		for k := 0; k < cacheLine; k += 8 {
			const low = 0x0f0f0f0f0f0f0f0f
			x, y := le.Uint64(a[k:]), le.Uint64(b[k:])
			le.PutUint64(to0[k:], x&low|y&low<<4)
			le.PutUint64(to1[k:], x>>4&low|y&^low)
		}
	}
}

func packQ4_K(dst, src []byte, stride int) {
	var words packWords
	words.load(src, stride, 36)
	packScalesK(dst, &words)
	for pair := range 4 {
		at := 320 + 2*pair*nibbles
		packPairK(dst[at:], dst[at+nibbles:], words[4+8*pair:])
	}
}

func packQ5_K(dst, src []byte, stride int) {
	var words packWords
	words.load(src, stride, 44)
	packScalesK(dst, &words)
	const sub = nibbles + 64
	for pair := range 4 {
		at := 320 + 2*pair*sub
		packPairK(dst[at:], dst[at+sub:], words[12+8*pair:])
	}
	for s := range 8 {
		to := vectorAt(dst[320+sub*s+nibbles:], 0)
		for k := 0; k < cacheLine; k += 8 {
			var x uint64
			for i := range 8 {
				x |= le.Uint64(words[4+i][k:]) >> s & 0x0101010101010101 << i
			}
			le.PutUint64(to[k:], x)
		}
	}
}

// load interleaves the first n words of 16 rows.
func (w *packWords) load(src []byte, stride, n int) {
	interleave(unsafe.Slice(&w[0][0], len(w)*cacheLine), src, stride, n)
}

func packIQ4_XS(dst, src []byte, stride int) {
	packHalf(dst, src, stride)
	for r := range panelRows {
		row := src[r*stride:]
		high, low := le.Uint16(row[2:]), (*[4]byte)(row[4:])
		for s := range 8 {
			scale := low[s/2]>>(4*(s%2))&15 | byte(high>>(2*s)&3)<<4
			dst[32+16*s+r] = scale - 32
		}
	}
	interleave(dst[160:], src[8:], stride, 32)
}

func packQ6_K(dst, src []byte, stride int) {
	var words packWords // the last two bytes of a row are not part of it
	words.load(src, stride, 52)
	packHalf(dst, src[208:], stride)
	for i := range 4 {
		packBytes(dst[32+64*i:], &words[48+i])
	}
	const sub = nibbles + 128
	for s := range 8 {
		half, k := s/4, s%4
		to := dst[288+sub*s:]
		if k < 2 { // the high nibbles of the same words belong two blocks farther
			packPairK(to, to[2*sub:], words[16*half+8*k:])
		}
		for v := range 2 {
			joinPairs(vectorAt(to[nibbles:], v), (*[4]packVector)(words[32+8*half+4*v:]), 2*k)
		}
	}
}

// joinPairsGeneric joins the bit pairs at bit up of four vectors.
func joinPairsGeneric(to *packVector, h *[4]packVector, up int) {
	h0, h1, h2, h3 := &h[0], &h[1], &h[2], &h[3]
	for k := 0; k < cacheLine; k += 8 {
		const pair = 0x0303030303030303
		x := le.Uint64(h0[k:])>>up&pair | le.Uint64(h1[k:])>>up&pair<<2 | le.Uint64(h2[k:])>>up&pair<<4 | le.Uint64(h3[k:])>>up&pair<<6
		le.PutUint64(to[k:], x)
	}
}

// packFloats interleaves 16 rows of n words of 2 or 4 bytes.
func packFloats(dst, src []byte, stride, n, word int) {
	if word == 4 {
		interleave(dst, src, stride, n)
		return
	}
	const most = 2 * len(packWords{})
	var words packWords
	for from := 0; from < n&^1; from += most { // two halves of a row make a word, which falls into two vectors
		pairs := min(most, n-from) / 2
		words.load(src[2*from:], stride, pairs)
		for i := range pairs {
			splitPairs(dst[32*(from+2*i):], dst[32*(from+2*i+1):], &words[i])
		}
	}
	if n&1 != 0 {
		packHalf(dst[32*(n-1):], src[2*(n-1):], stride)
	}
}

// splitPairs writes the lower half of every word to low and the upper one to high.
func splitPairs(low, high []byte, words *packVector) {
	to0, to1 := (*[32]byte)(low), (*[32]byte)(high)
	for r := 0; r < 32; r += 8 {
		a, b := le.Uint64(words[2*r:]), le.Uint64(words[2*r+8:])
		le.PutUint64(to0[r:], a&0xffff|a>>16&0xffff0000|b&0xffff<<32|b>>32&0xffff<<48)
		le.PutUint64(to1[r:], a>>16&0xffff|a>>32&0xffff0000|b>>16&0xffff<<32|b>>48<<48)
	}
}
