package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// storeTile generates the four ways in which sums of 32 outputs become results: c, c+bias, dst+c, dst+(c+bias).
func storeTile() {
	for _, bias := range []bool{false, true} {
		for _, add := range []bool{false, true} {
			storeTileVariant(bias, add)
		}
	}
}

func storeTileVariant(bias, add bool) {
	fn, signature := "storeTile", "func(dst *float32, stride int, c *float32, rows int)"
	if bias {
		fn, signature = fn+"Bias", "func(dst *float32, stride int, c *float32, rows int, bias *float32)"
	}
	if add {
		fn += "Add"
	}
	fn += "AVX2"
	TEXT(fn, NOSPLIT, signature)
	Doc(fn + " moves rows of 32 sums to dst, whose rows are stride bytes apart.")
	Pragma("noescape")
	dst, stride, c, rows := RDI, RDX, RSI, RCX
	Load(Param("dst"), dst)
	Load(Param("stride"), stride)
	Load(Param("c"), c)
	Load(Param("rows"), rows)
	if bias {
		Load(Param("bias"), R8)
		for i := range 4 {
			VMOVUPS(at(R8, 32*i), y(4+i))
		}
	}
	Label("row")
	for i := range 4 {
		VMOVUPS(at(c, 32*i), y(i))
	}
	for i := range 4 {
		if bias {
			VADDPS(y(4+i), y(i), y(i))
		}
		if add {
			VADDPS(at(dst, 32*i), y(i), y(i))
		}
		VMOVUPS(y(i), at(dst, 32*i))
	}
	ADDQ(U32(128), c)
	ADDQ(stride, dst)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
