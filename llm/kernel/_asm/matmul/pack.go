package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// interleave generates func(dst, src *byte, stride, quads int): write the words of 16 rows word by word. Rows r and r+4 are
// the halves of one vector, so that two rounds of unpacking within halves put eight rows in order.
func interleave() {
	TEXT("interleaveAVX2", NOSPLIT, "func(dst, src *byte, stride, quads int)")
	Doc("interleaveAVX2 writes four times quads words of 16 rows, stride bytes apart, to dst word by word.")
	Pragma("noescape")
	dst, src, stride, quads, row := RDI, RSI, RDX, RCX, RAX
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("stride"), stride)
	Load(Param("quads"), quads)
	Label("quad")
	MOVQ(src, row)
	for eight := range 2 {
		for r := range 4 {
			VMOVDQU(at(row, 0), y(r).AsX())
			ADDQ(stride, row)
		}
		for r := range 4 {
			VINSERTI128(U8(1), at(row, 0), y(r), y(r))
			ADDQ(stride, row)
		}
		VPUNPCKLDQ(Y1, Y0, Y4) // words 0 and 1 of rows 0 and 1
		VPUNPCKHDQ(Y1, Y0, Y5) // words 2 and 3
		VPUNPCKLDQ(Y3, Y2, Y6)
		VPUNPCKHDQ(Y3, Y2, Y7)
		for i, pair := range [][2]int{{4, 6}, {5, 7}} {
			VPUNPCKLQDQ(y(pair[1]), y(pair[0]), Y8)
			VPUNPCKHQDQ(y(pair[1]), y(pair[0]), Y9)
			VMOVDQU(Y8, at(dst, 128*i+32*eight))
			VMOVDQU(Y9, at(dst, 128*i+64+32*eight))
		}
	}
	ADDQ(U32(16), src)
	ADDQ(U32(256), dst)
	DECQ(quads)
	JNZ(LabelRef("quad"))
	VZEROUPPER()
	RET()
}

// pairNibbles generates func(dst0, dst1, a, b *byte): join the low nibbles of a and b in dst0 and the high ones in dst1,
// 256 bytes each.
func pairNibbles() {
	TEXT("pairNibblesAVX2", NOSPLIT, "func(dst0, dst1, a, b *byte)")
	Doc("pairNibblesAVX2 writes the low nibbles of a and b to dst0 and the high ones to dst1, those of a low: 256 bytes each.")
	Pragma("noescape")
	dst0, dst1, a, b := RDI, RSI, RDX, RCX
	Load(Param("dst0"), dst0)
	Load(Param("dst1"), dst1)
	Load(Param("a"), a)
	Load(Param("b"), b)
	low := Y15
	VMOVDQU(bytes0f, low)
	for at0 := 0; at0 < 256; at0 += 32 {
		VMOVDQU(at(a, at0), Y0)
		VMOVDQU(at(b, at0), Y1)
		VPSRLW(U8(4), Y0, Y2)
		VPAND(low, Y2, Y2)
		VPANDN(Y1, low, Y3)
		VPOR(Y3, Y2, Y2)
		VMOVDQU(Y2, at(dst1, at0))
		VPAND(low, Y0, Y0)
		VPAND(low, Y1, Y1)
		VPSLLW(U8(4), Y1, Y1)
		VPOR(Y1, Y0, Y0)
		VMOVDQU(Y0, at(dst0, at0))
	}
	VZEROUPPER()
	RET()
}

// joinPairs generates func(dst, src *byte, up int): join the bit pairs at bit up of four vectors of 64 bytes.
func joinPairs() {
	TEXT("joinPairsAVX2", NOSPLIT, "func(dst, src *byte, up int)")
	Doc("joinPairsAVX2 writes the bit pairs at bit up of four vectors of 64 bytes to one, those of the first vector lowest.")
	Pragma("noescape")
	dst, src, up := RDI, RSI, RAX
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("up"), up)
	pair, count := Y15, X14
	VMOVDQU(bytes30, pair)
	VPSRLW(U8(4), pair, pair)
	VMOVQ(up, count)
	for half := range 2 {
		for v := range 4 {
			VMOVDQU(at(src, 64*v+32*half), y(v))
			VPSRLW(count, y(v), y(v))
			VPAND(pair, y(v), y(v))
			if v > 0 {
				VPSLLW(U8(2*v), y(v), y(v))
				VPOR(y(v), Y0, Y0)
			}
		}
		VMOVDQU(Y0, at(dst, 32*half))
	}
	VZEROUPPER()
	RET()
}
