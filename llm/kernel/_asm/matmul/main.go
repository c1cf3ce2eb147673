// Command matmul generates the assembly of the matrix kernels: run it through go generate in package kernel.
//
// One generator function makes one kernel for one instruction set, for every format or row count. The arithmetic that all
// of them share, and the layout of panels, tiles and records, are described in layout.go, matmul.go and input.go of
// package kernel.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Constants in memory.
var (
	magic    Mem // the bit pattern of 1.5*2^23
	iq4Table Mem // levels of IQ4_NL with an offset of 128
)

func main() {
	ConstraintExpr("!purego")
	constants()
	cpu()
	peak()
	for _, f := range formats {
		unpack512(f)
		gemv512(f)
	}
	for _, m := range []int{1, 2, 4, 6} {
		gemm512(kindScale, "Scale", m)
		gemm512(kindMin, "Min", m)
		gemm512(kindHalf, "Half", m)
	}
	Generate()
}

func constants() {
	magic = GLOBL("magic", RODATA|NOPTR)
	DATA(0, U32(0x4b400000))
	iq4Table = GLOBL("iq4Table", RODATA|NOPTR)
	for i, v := range []int{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113} {
		DATA(i, U8(v+128))
	}
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
