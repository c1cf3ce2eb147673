package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// peak generates the loops that measure what the hardware can do at most.
func peak() {
	// 24 independent dot products hide the latency of each.
	TEXT("peakDotAVX512", NOSPLIT, "func(n int)")
	Doc("peakDotAVX512 issues n times 24 dot products of 64 pairs of bytes.")
	n := RCX
	Load(Param("n"), n)
	Label("dot512")
	for i := range 24 {
		VPDPBUSD(Z31, Z30, z(i))
	}
	DECQ(n)
	JNZ(LabelRef("dot512"))
	VZEROUPPER()
	RET()

	// AVX2 multiplies pairs of bytes and pairs of words; summing words first would be faster, but only weights of few
	// bits allow it.
	TEXT("peakDotAVX2", NOSPLIT, "func(n int)")
	Doc("peakDotAVX2 issues n times 10 dot products of 32 pairs of bytes.")
	Load(Param("n"), n)
	Label("dot256")
	for i := range 10 {
		t := y(10 + i%3)
		VPMADDUBSW(Y15, Y14, t)
		VPMADDWD(Y13, t, t)
		VPADDD(t, y(i), y(i))
	}
	DECQ(n)
	JNZ(LabelRef("dot256"))
	VZEROUPPER()
	RET()

	TEXT("readAVX2", NOSPLIT, "func(p *byte, n int)")
	Doc("readAVX2 reads n bytes, a multiple of 512, and drops them.")
	Pragma("noescape")
	p := RSI
	Load(Param("p"), p)
	Load(Param("n"), n)
	Label("read")
	for i := range 8 {
		PREFETCHT0(at(p, 4096+64*i))
		VMOVDQU(at(p, 64*i), y(i))
		VMOVDQU(at(p, 64*i+32), y(8+i))
	}
	ADDQ(U32(512), p)
	SUBQ(U32(512), n)
	JNZ(LabelRef("read"))
	VZEROUPPER()
	RET()
}

var ymm = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}

// y returns 256-bit register i.
func y(i int) VecPhysical { return ymm[i] }
