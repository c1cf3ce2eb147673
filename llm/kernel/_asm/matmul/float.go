package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// floatFormat is a float type as its panels store it: one vector of 16 rows per column.
type floatFormat struct {
	name   string
	nbytes int // per column
}

var floatFormats = []floatFormat{{"F32", 64}, {"F16", 32}, {"BF16", 32}}

// load512 converts the 16 weights at m.
func (f floatFormat) load512(m Mem, v VecPhysical) {
	switch f.name {
	case "F32":
		VMOVUPS(m, v)
	case "F16":
		VCVTPH2PS(m, v)
	case "BF16":
		VPMOVZXWD(m, v)
		VPSLLD(U8(16), v, v)
	}
}

// load256 converts eight weights; m is the address of the first of the 16.
func (f floatFormat) load256(m Mem, half int, v VecPhysical) {
	m.Disp += half * f.nbytes / 2
	f.load512(m, v)
}

// unpackFloat generates func(dst, src, n): convert n columns of a panel into one panel of the float tile.
func unpackFloat(f floatFormat, isa string) {
	TEXT("unpack"+f.name+isa, NOSPLIT, "func(dst, src *byte, n int)")
	Doc(fmt.Sprintf("unpack%s%s converts n columns of a panel into every other column of a tile.", f.name, isa))
	Pragma("noescape")
	dst, src, n := RDI, RSI, RCX
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("n"), n)
	Label("column")
	PREFETCHT1(at(src, prefetchBytes))
	if isa == "AVX512" {
		f.load512(at(src, 0), Z0)
		VMOVUPS(Z0, at(dst, 0))
	} else {
		for h := range 2 {
			f.load256(at(src, 0), h, y(h))
			VMOVUPS(y(h), at(dst, 32*h))
		}
	}
	ADDQ(U32(f.nbytes), src)
	ADDQ(U32(128), dst)
	DECQ(n)
	JNZ(LabelRef("column"))
	VZEROUPPER()
	RET()
}

// gemvFloat generates func(dst, src, x, n, stride): the products of panels, which lie stride bytes apart, with one
// activation row of n values. Every output is one chain of fused multiply-adds, so several panels run side by side to
// hide the latency.
func gemvFloat(f floatFormat, isa string, panels int) {
	fn := fmt.Sprintf("gemv%sx%d%s", f.name, panels, isa)
	TEXT(fn, NOSPLIT, "func(dst *float32, src *byte, x *float32, n, stride int)")
	Doc(fmt.Sprintf("%s multiplies %d panels, which lie stride bytes apart, with n activations.", fn, panels))
	Pragma("noescape")
	dst, x, n, stride := RDI, RDX, RCX, RBX
	srcs := []Register{RSI, R8, R9, R10}[:panels]
	Load(Param("dst"), dst)
	Load(Param("src"), srcs[0].(GPPhysical))
	Load(Param("x"), x)
	Load(Param("n"), n)
	Load(Param("stride"), stride)
	for i := 1; i < panels; i++ {
		LEAQ(Mem{Base: srcs[i-1], Index: stride, Scale: 1}, srcs[i].(GPPhysical))
	}
	var acc []VecPhysical
	for i := range panels {
		if isa == "AVX512" {
			acc = append(acc, z(i))
		} else {
			acc = append(acc, y(2*i), y(2*i+1))
		}
	}
	for _, v := range acc {
		VXORPS(v, v, v)
	}
	column := func(k int) {
		if isa == "AVX512" {
			VBROADCASTSS(at(x, 4*k), Z31)
		} else {
			VBROADCASTSS(at(x, 4*k), Y15)
		}
		for i, src := range srcs {
			if k == 0 {
				PREFETCHT1(at(src, prefetchBytes))
			}
			m := at(src, f.nbytes*k)
			if isa == "AVX512" {
				f.load512(m, z(16+i))
				VFMADD231PS(z(16+i), Z31, acc[i])
				continue
			}
			for h := range 2 {
				f.load256(m, h, y(12+h))
				VFMADD231PS(y(12+h), Y15, acc[2*i+h])
			}
		}
	}
	advance := func(k int) {
		for _, src := range srcs {
			ADDQ(U32(f.nbytes*k), src.(GPPhysical))
		}
		ADDQ(U32(4*k), x)
	}
	Label("two")
	CMPQ(n, U32(2))
	JLT(LabelRef("one"))
	column(0)
	column(1)
	advance(2)
	SUBQ(U32(2), n)
	JMP(LabelRef("two"))
	Label("one")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	column(0)
	Label("done")
	for i, v := range acc {
		VMOVUPS(v, at(dst, 64/(len(acc)/panels)*i))
	}
	VZEROUPPER()
	RET()
}

// gemmFloat512 generates func(tile, x, stride, n, c): add the products of n columns of the tile (32 outputs) with m
// activation rows to c. Twelve rows keep 24 accumulators busy and load 14 values for 24 multiply-adds.
func gemmFloat512(m int) {
	fn := fmt.Sprintf("gemmFloat%dAVX512", m)
	TEXT(fn, NOSPLIT, "func(tile *byte, x *float32, stride, n int, c *float32)")
	Doc(fmt.Sprintf("%s adds the products of n tile columns with %d activation rows to c, [%d][32]. The activations of", fn, m, m),
		"consecutive columns are stride bytes apart.")
	Pragma("noescape")
	tile, x, stride, n, c := RSI, RDI, RDX, RCX, R8
	Load(Param("tile"), tile)
	Load(Param("x"), x)
	Load(Param("stride"), stride)
	Load(Param("n"), n)
	Load(Param("c"), c)
	acc := func(r, p int) VecPhysical { return z(2*r + p) }
	for r := range m {
		for p := range 2 {
			VMOVUPS(at(c, 128*r+64*p), acc(r, p))
		}
	}
	Label("column")
	VMOVUPS(at(tile, 0), Z24)
	VMOVUPS(at(tile, 64), Z25)
	for r := range m {
		b := z(28 + r%4)
		VBROADCASTSS(at(x, 4*r), b)
		VFMADD231PS(Z24, b, acc(r, 0))
		VFMADD231PS(Z25, b, acc(r, 1))
	}
	ADDQ(U32(128), tile)
	ADDQ(stride, x)
	DECQ(n)
	JNZ(LabelRef("column"))
	for r := range m {
		for p := range 2 {
			VMOVUPS(acc(r, p), at(c, 128*r+64*p))
		}
	}
	VZEROUPPER()
	RET()
}

// gemmFloat256 is gemmFloat512 for one panel of the tile and up to six rows.
func gemmFloat256(m int) {
	fn := fmt.Sprintf("gemmFloat%dAVX2", m)
	TEXT(fn, NOSPLIT, "func(tile *byte, x *float32, stride, n int, c *float32)")
	Doc(fmt.Sprintf("%s adds the products of n columns of one panel of the tile with %d activation rows to c, [%d][32]. The", fn, m, m),
		"activations of consecutive columns are stride bytes apart.")
	Pragma("noescape")
	tile, x, stride, n, c := RSI, RDI, RDX, RCX, R8
	Load(Param("tile"), tile)
	Load(Param("x"), x)
	Load(Param("stride"), stride)
	Load(Param("n"), n)
	Load(Param("c"), c)
	acc := func(r, h int) VecPhysical { return y(2*r + h) }
	for r := range m {
		for h := range 2 {
			VMOVUPS(at(c, 128*r+32*h), acc(r, h))
		}
	}
	Label("column")
	VMOVUPS(at(tile, 0), Y12)
	VMOVUPS(at(tile, 32), Y13)
	for r := range m {
		b := y(14 + r%2)
		VBROADCASTSS(at(x, 4*r), b)
		VFMADD231PS(Y12, b, acc(r, 0))
		VFMADD231PS(Y13, b, acc(r, 1))
	}
	ADDQ(U32(128), tile)
	ADDQ(stride, x)
	DECQ(n)
	JNZ(LabelRef("column"))
	for r := range m {
		for h := range 2 {
			VMOVUPS(acc(r, h), at(c, 128*r+32*h))
		}
	}
	VZEROUPPER()
	RET()
}
