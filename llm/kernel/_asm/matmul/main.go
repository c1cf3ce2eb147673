// Command matmul generates the assembly of the matrix kernels: run it through go generate in package kernel.
//
// One generator function makes one kernel for one instruction set, for every format or row count. The arithmetic that all
// of them share, and the layout of panels, tiles and records, are described in layout.go, tile.go and input.go of
// package kernel.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Constants in memory.
var (
	magic     Mem // the bit pattern of 1.5*2^23
	iq4Table  Mem // levels of IQ4_NL with an offset of 128
	iq4Signed Mem // levels of IQ4_NL, twice
	signBits  Mem // eight sign bits
	words1    Mem // 16 words of 1
	bytes0f   Mem // 32 bytes of 0x0f, and so on
	bytes10   Mem
	bytes30   Mem
	bytes80   Mem
	bytes01   Mem
	absMask   Mem // eight float masks without the sign
	packOrder Mem // undoes the lane order of VPACKSSDW and VPACKSSWB
	float127  Mem
	negMagic  Mem // -1.5*2^23
)

func main() {
	ConstraintExpr("!purego")
	constants()
	cpu()
	peak()
	quantize()
	storeTile()
	interleave()
	pairNibbles()
	joinPairs()
	for _, f := range formats {
		unpack512(f)
		for _, m := range []int{1, 2, 3, 4, 8} {
			if m < 8 || f.kind != kindHalf {
				gemv512(f, m)
			}
		}
		unpack256(f, "AVX2")
		if f.width() == 8 {
			unpack256(f, "VNNI")
		}
		gemv256(f, "AVX2")
		gemv256(f, "VNNI")
	}
	for _, m := range []int{1, 2, 4, 6} {
		gemm512(kindScale, "Scale", m)
		gemm512(kindMin, "Min", m)
		gemm512(kindHalf, "Half", m)
	}
	for _, m := range []int{1, 2, 3} {
		gemm256(kindScale, 4, m)
		gemm256(kindMin, 4, m)
		gemm256(kindScale, vnni, m)
		gemm256(kindMin, vnni, m)
		gemm256(kindHalf, vnni, m)
	}
	for _, m := range []int{1, 2} {
		gemm256(kindScale, 5, m)
		gemm256(kindMin, 5, m)
		gemm256(kindHalf, 6, m)
		gemm256(kindScale, 8, m)
	}
	for _, f := range floatFormats {
		for _, isa := range []string{"AVX512", "AVX2"} {
			unpackFloat(f, isa)
			gemvFloat(f, isa, 1)
			gemvFloat(f, isa, 4)
		}
	}
	for _, m := range []int{1, 2, 4, 12} {
		gemmFloat512(m)
	}
	for _, m := range []int{1, 2, 6} {
		gemmFloat256(m)
	}
	Generate()
}

func constants() {
	magic = GLOBL("magic", RODATA|NOPTR)
	DATA(0, U32(0x4b400000))
	levels := []int{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	iq4Table = GLOBL("iq4Table", RODATA|NOPTR)
	for i, v := range levels {
		DATA(i, U8(v+128))
	}
	iq4Signed = GLOBL("iq4Signed", RODATA|NOPTR)
	for i := range 32 {
		DATA(i, U8(byte(levels[i%16])))
	}
	repeated := func(name string, v uint64) Mem {
		m := GLOBL(name, RODATA|NOPTR)
		for i := range 4 {
			DATA(8*i, U64(v))
		}
		return m
	}
	const bytes = 0x0101010101010101
	signBits = repeated("signBits", 0x8000000080000000)
	words1 = repeated("words1", 0x0001000100010001)
	bytes0f = repeated("bytes0f", 0x0f*bytes)
	bytes10 = repeated("bytes10", 0x10*bytes)
	bytes30 = repeated("bytes30", 0x30*bytes)
	bytes80 = repeated("bytes80", 0x80*bytes)
	bytes01 = repeated("bytes01", bytes)
	absMask = repeated("absMask", 0x7fffffff7fffffff)
	packOrder = GLOBL("packOrder", RODATA|NOPTR)
	for i, v := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(v))
	}
	float127 = GLOBL("float127", RODATA|NOPTR)
	DATA(0, F32(127))
	negMagic = GLOBL("negMagic", RODATA|NOPTR)
	DATA(0, F32(-0x1.8p23))
}

// cpu generates the instructions that read what the processor can do, and the one that calms a spinning thread.
func cpu() {
	TEXT("cpuid", NOSPLIT, "func(leaf, sub uint32) (eax, ebx, ecx, edx uint32)")
	Load(Param("leaf"), EAX)
	Load(Param("sub"), ECX)
	CPUID()
	Store(EAX, ReturnIndex(0))
	Store(EBX, ReturnIndex(1))
	Store(ECX, ReturnIndex(2))
	Store(EDX, ReturnIndex(3))
	RET()

	TEXT("xgetbv", NOSPLIT, "func() (eax, edx uint32)")
	XORL(ECX, ECX)
	XGETBV()
	Store(EAX, ReturnIndex(0))
	Store(EDX, ReturnIndex(1))
	RET()

	TEXT("pause", NOSPLIT, "func()")
	PAUSE()
	RET()
}
