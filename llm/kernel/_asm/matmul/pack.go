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
