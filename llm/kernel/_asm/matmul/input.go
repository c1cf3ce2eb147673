package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// quantize generates func(rec, stride, x, n): fill n records, stride bytes apart, with 32 activations each. The twin is
// record.set; the results are the same bits. The magnitudes are compared as integers, which orders NaN above infinity.
func quantize() {
	TEXT("quantizeAVX2", NOSPLIT, "func(rec *byte, stride int, x *float32, n int)")
	Doc("quantizeAVX2 fills n records, stride bytes apart, with 32 activations each.")
	Pragma("noescape")
	rec, stride, x, n := RDI, RDX, RSI, RCX
	Load(Param("rec"), rec)
	Load(Param("stride"), stride)
	Load(Param("x"), x)
	Load(Param("n"), n)
	largest, sum, sumLow, tmp := EAX, R8L, R9L, R10L
	// Offsets and bounds of record.set.
	const maxBits, minBits, nanBits = 0x7149f2ca, 0x0da24260, 0x7fc00000 // 1e30, 1e-30, NaN
	Label("block")
	for i := range 4 {
		VMOVUPS(at(x, 32*i), y(i))
		VPAND(absMask, y(i), y(4+i))
	}
	VPMAXSD(Y5, Y4, Y4)
	VPMAXSD(Y7, Y6, Y6)
	VPMAXSD(Y6, Y4, Y4)
	VEXTRACTI128(U8(1), Y4, X5)
	VPMAXSD(X5, X4, X4)
	VPSHUFD(U8(0x4e), X4, X5)
	VPMAXSD(X5, X4, X4)
	VPSHUFD(U8(0xb1), X4, X5)
	VPMAXSD(X5, X4, X4)
	VMOVD(X4, largest)
	CMPL(largest, U32(maxBits))
	JHI(LabelRef("poison"))
	CMPL(largest, U32(minBits))
	JCS(LabelRef("zero"))

	VMOVSS(float127, X5)
	VDIVSS(X4, X5, X6) // levels per unit
	VDIVSS(X5, X4, X7) // scale
	VMOVD(X7, largest)
	ANDL(I32(-4), largest)
	VMOVD(largest, X7)
	VBROADCASTSS(X6, Y6)
	for i := range 4 {
		VMULPS(Y6, y(i), y(i))
		VCVTPS2DQ(y(i), y(i))
	}
	VPACKSSDW(Y1, Y0, Y0)
	VPACKSSDW(Y3, Y2, Y2)
	VPACKSSWB(Y2, Y0, Y0)
	VMOVDQU(packOrder, Y8)
	VPERMD(Y0, Y8, Y0)
	VMOVDQU(Y0, at(rec, 0))
	// Sums of the two halves: bytes to words to doublewords.
	VMOVDQU(bytes01, Y8)
	VPMADDUBSW(Y0, Y8, Y1)
	VPMADDWD(words1, Y1, Y1)
	VPSHUFD(U8(0x4e), Y1, Y2)
	VPADDD(Y2, Y1, Y1)
	VPSHUFD(U8(0xb1), Y1, Y2)
	VPADDD(Y2, Y1, Y1)
	VMOVD(X1, sumLow)
	VEXTRACTI128(U8(1), Y1, X1)
	VMOVD(X1, sum)
	VMULSS(negMagic, X7, X8)

	Label("store")
	VMOVSS(X7, at(rec, recordScale))
	VMOVSS(X8, at(rec, recordOffset))
	start := func(s Register, shift uint8, disp int) {
		MOVL(s, EBX)
		SHLL(U8(shift), EBX)
		MOVL(U32(0x4b400000), tmp)
		SUBL(EBX, tmp)
		MOVL(tmp, at(rec, disp))
	}
	start(sumLow, 5, recordHalves)
	start(sum, 5, recordHalves+4)
	ADDL(sumLow, sum)
	start(sum, 3, recordStart)
	start(sum, 4, recordStart+4)
	start(sum, 7, recordStart+8)
	VXORPS(X9, X9, X9)
	VCVTSI2SSL(sum, X9, X9)
	VMULSS(X7, X9, X9)
	VMOVSS(X9, at(rec, recordSum))
	ADDQ(U32(128), x)
	ADDQ(stride, rec)
	DECQ(n)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()

	Label("poison")
	MOVL(U32(nanBits), largest)
	VMOVD(largest, X7)
	VMOVD(largest, X8)
	JMP(LabelRef("clear"))
	Label("zero")
	VXORPS(X7, X7, X7)
	VMULSS(negMagic, X7, X8)
	Label("clear")
	VPXOR(Y0, Y0, Y0)
	VMOVDQU(Y0, at(rec, 0))
	XORL(sum, sum)
	XORL(sumLow, sumLow)
	JMP(LabelRef("store"))
}
