package main

import (
	"fmt"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The AVX2 kernels read the same panels, tiles and records as the AVX-512 ones: a 64-byte vector of 16 rows is two
// 32-byte vectors of 8 rows. VPMADDUBSW multiplies unsigned by signed bytes and adds pairs in 16 bits, saturating. What
// fits without saturation decides the sequence: with levels up to 15 the sums of eight products of pairs stay below
// 32768 (8*2*15*127 = 30480), with levels up to 31 those of four, with levels up to 63 those of two. Levels of eight
// bits do not fit even once (2*255*127), so they are kept signed, the magnitude is multiplied (2*128*127 = 32512) and
// the sign moves to the activation, which is never -128.

// Processors with AVX-VNNI multiply and add four pairs of bytes in one instruction. Its kernels keep levels unsigned.

// vnni is the width of levels that stands for AVX-VNNI.
const vnni = 0

// dotVNNI emits VPDPBUSD b, w, sum in its VEX encoding (Intel SDM: VEX.256.66.0F38.W0 50 /r), which AVX-VNNI has; the
// assembler only knows the encoding of AVX-512.
func dotVNNI(b, w, sum VecPhysical) {
	n := func(v VecPhysical) byte { return byte(slices.Index(ymm, v)) }
	notR, notB := ^n(sum)>>3&1, ^n(b)>>3&1
	for _, v := range []byte{0xc4, notR<<7 | 1<<6 | notB<<5 | 2, ^n(w)&15<<3 | 1<<2 | 1, 0x50, 0xc0 | n(sum)&7<<3 | n(b)&7} {
		Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []Op{U8(v)}})
	}
}

// sums16 is how many products of pairs are added in 16 bits.
func sums16(bits int) int { return map[int]int{4: 8, 5: 4, 6: 2, 8: 1}[bits] }

// width is the number of bits that decides how products are added.
func (f format) width() int {
	if f.table {
		return 8
	}
	return f.bits
}

// Registers that expand256 uses.
var (
	low256, high256, shifted256 = Y15, Y14, Y13
	plane256                    = [2]VecPhysical{Y12, Y11}
)

// expand256 unpacks eight rows (half 0 or 1) of 16 rows x 32 elements at disp(base) and hands the eight vectors to emit.
// Levels of eight bits come signed if asked for.
func expand256(f format, signed bool, base Register, disp, half int, emit func(i int, v VecPhysical)) {
	disp += 32 * half
	if f.bits == 8 {
		for i := range 8 {
			v := []VecPhysical{low256, high256}[i%2]
			VMOVDQU(at(base, disp+64*i), v)
			if signed {
				VPXOR(bytes80, v, v)
			}
			emit(i, v)
		}
		return
	}
	for p := range f.bits - 4 {
		VMOVDQU(at(base, disp+nibbleBytes+64*p), plane256[p])
	}
	for i := range 4 {
		VMOVDQU(at(base, disp+64*i), low256)
		VPSRLW(U8(4), low256, high256)
		VPAND(bytes0f, low256, low256)
		VPAND(bytes0f, high256, high256)
		switch {
		case f.bits == 5:
			orBits256(plane256[0], 4-i, bytes10, low256)
			orBits256(plane256[0], -i, bytes10, high256)
		case f.bits == 6:
			orBits256(plane256[0], 4-2*i, bytes30, low256)
			orBits256(plane256[1], 4-2*i, bytes30, high256)
		case f.table:
			if signed {
				VMOVDQU(iq4Signed, shifted256)
			} else {
				VBROADCASTI128(iq4Table, shifted256)
			}
			VPSHUFB(low256, shifted256, low256)
			VPSHUFB(high256, shifted256, high256)
		}
		emit(i, low256)
		emit(i+4, high256)
	}
}

// orBits256 ors the selected bits of the plane, after a shift to the left (negative: right), into v.
func orBits256(from VecPhysical, left int, mask Mem, v VecPhysical) {
	switch {
	case left > 0:
		VPSLLW(U8(left), from, shifted256)
		VPAND(mask, shifted256, shifted256)
	case left < 0:
		VPSRLW(U8(-left), from, shifted256)
		VPAND(mask, shifted256, shifted256)
	default:
		VPAND(mask, from, shifted256)
	}
	VPOR(shifted256, v, v)
}

// scales256 is scales512 for eight rows.
type scales256 struct {
	f             format
	half          int
	d, dmin       VecPhysical
	scale, second VecPhysical
}

func (s scales256) super(base Register) {
	VCVTPH2PS(at(base, 16*s.half), s.d)
	if s.f.kind == kindMin {
		VCVTPH2PS(at(base, 32+16*s.half), s.dmin)
		VXORPS(signBits, s.dmin, s.dmin)
	}
}

func (s scales256) sub(base Register, disp int) {
	switch {
	case s.f.super && s.f.kind == kindMin:
		VPMOVZXBD(at(base, disp+8*s.half), s.scale)
		VPMOVZXBD(at(base, disp+128+8*s.half), s.second)
		VCVTDQ2PS(s.scale, s.scale)
		VCVTDQ2PS(s.second, s.second)
		VMULPS(s.d, s.scale, s.scale)
		VMULPS(s.dmin, s.second, s.second)
	case s.f.super && s.f.kind == kindScale:
		VPMOVSXBD(at(base, disp+8*s.half), s.scale)
		VCVTDQ2PS(s.scale, s.scale)
		VMULPS(s.d, s.scale, s.scale)
	case s.f.super:
		VPMOVSXBD(at(base, disp+8*s.half), s.scale)
		VPMOVSXBD(at(base, disp+16+8*s.half), s.second)
		VCVTDQ2PS(s.scale, s.scale)
		VCVTDQ2PS(s.second, s.second)
		VMULPS(s.d, s.scale, s.scale)
		VMULPS(s.d, s.second, s.second)
	default:
		VCVTPH2PS(at(base, disp+16*s.half), s.scale)
		if s.f.kind == kindMin {
			VCVTPH2PS(at(base, disp+32+16*s.half), s.second)
		}
	}
}

// unpack256 is unpack512 for AVX2. Levels of eight bits become signed, or stay unsigned for AVX-VNNI.
func unpack256(f format, isa string) {
	fn := "unpack" + f.name + isa
	TEXT(fn, NOSPLIT, "func(dst, src *byte, n int)")
	Doc(fn + " expands n blocks of a panel into every other block of a tile.")
	Pragma("noescape")
	dst, src, n, levels, scales, sub := RDI, RSI, RCX, R8, R9, R10
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("n"), n)
	var s [2]scales256
	for h := range s {
		s[h] = scales256{f, h, y(h), y(2 + h), Y4, Y5}
	}
	first, step := f.scaleBytes()
	block := func(scales Register, levels Register, disp int) {
		prefetch(f, levels, disp)
		for h := range s {
			s[h].sub(scales, 0)
			VMOVUPS(s[h].scale, at(dst, tileScale+32*h))
			if f.kind != kindScale {
				VMOVUPS(s[h].second, at(dst, tileSecond+32*h))
			}
			expand256(f, isa == "AVX2", levels, disp, h, func(i int, v VecPhysical) { VMOVDQU(v, at(dst, 64*i+32*h)) })
		}
		ADDQ(U32(tileStride), dst)
	}
	Label("block")
	if f.super {
		for h := range s {
			s[h].super(src)
		}
		LEAQ(at(src, f.head), levels)
		LEAQ(at(src, first), scales)
		MOVQ(U32(8), sub)
		Label("sub")
		block(scales, levels, 0)
		ADDQ(U32(f.subBytes()), levels)
		ADDQ(U32(step), scales)
		DECQ(sub)
		JNZ(LabelRef("sub"))
		MOVQ(levels, src)
	} else {
		block(src, src, f.head)
		ADDQ(U32(f.blockBytes()), src)
	}
	DECQ(n)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// dots256 multiplies vectors of levels with broadcast activations and adds the products: in 16 bits as long as they fit,
// then in 32 bits.
type dots256 struct {
	width  int
	sum    VecPhysical // of 32 bits; started by the caller
	words  VecPhysical // of 16 bits
	tmp    VecPhysical
	tmp2   VecPhysical // signed levels only
	inside int         // products in words
}

// add multiplies w with the broadcast activations b, which it leaves alone.
func (d *dots256) add(w, b VecPhysical) {
	if d.width == vnni {
		dotVNNI(b, w, d.sum)
		return
	}
	if d.width == 8 {
		VPABSB(w, d.tmp)
		VPSIGNB(w, b, d.tmp2)
		VPMADDUBSW(d.tmp2, d.tmp, d.tmp)
		VPMADDWD(words1, d.tmp, d.tmp)
		VPADDD(d.tmp, d.sum, d.sum)
		return
	}
	if d.inside == 0 {
		VPMADDUBSW(b, w, d.words)
	} else {
		VPMADDUBSW(b, w, d.tmp)
		VPADDW(d.tmp, d.words, d.words)
	}
	if d.inside++; d.inside == sums16(d.width) {
		VPMADDWD(words1, d.words, d.words)
		VPADDD(d.words, d.sum, d.sum)
		d.inside = 0
	}
}

// gemv256 is gemv512 for AVX2 or AVX-VNNI and one row: the 16 rows of a panel are computed in two halves, block after
// block.
func gemv256(f format, isa string) {
	fn := "gemv" + f.name + isa
	TEXT(fn, NOSPLIT, "func(dst *float32, src, rec *byte, n, panels int)")
	Doc(fn + " multiplies panels of n blocks, which follow each other, with one activation row.")
	width := vnni
	if isa == "AVX2" {
		width = f.width()
	}
	Pragma("noescape")
	dst, src, first, panels, rec, n, levels, scales, sub := RDI, RSI, RDX, RBX, R8, RCX, R9, R10, R11
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("rec"), first)
	Load(Param("panels"), panels)
	scaleAt, step := f.scaleBytes()
	var acc [2]VecPhysical
	acc[0], acc[1] = Y0, Y1
	sumA, sumB, words, tmp, b, c := Y2, Y3, Y4, Y5, Y6, Y7
	s := scales256{f: f, d: Y8, dmin: Y9, scale: Y8, second: Y9}
	if f.super { // d and dmin are read again for every sub-block: registers are scarce
		s.d, s.dmin, s.scale, s.second = Y10, Y11, Y8, Y9
	}
	convert := func(v, w VecPhysical, h int) {
		VBROADCASTSS(at(rec, recordScale), c)
		VBROADCASTSS(at(rec, recordOffset), b)
		VFMADD213PS(b, c, v)
		VFMADD231PS(w, v, acc[h])
	}
	block := func(header, scales, levels Register, disp int) {
		prefetch(f, levels, disp)
		for h := range 2 {
			s.half = h
			switch {
			case f.kind == kindHalf:
				VPBROADCASTD(at(rec, recordHalves), sumA)
				VPBROADCASTD(at(rec, recordHalves+4), sumB)
			case f.start == 0 || width == 8:
				VPBROADCASTD(magic, sumA)
			default:
				VPBROADCASTD(at(rec, f.start), sumA)
			}
			even := &dots256{width: width, sum: sumA, words: words, tmp: tmp, tmp2: c}
			odd := even
			if f.kind == kindHalf {
				odd = &dots256{width: width, sum: sumB, words: Y10, tmp: tmp}
			}
			expand256(f, width == 8, levels, disp, h, func(i int, v VecPhysical) {
				VPBROADCASTD(at(rec, 4*i), b)
				if i < 4 {
					even.add(v, b)
				} else {
					odd.add(v, b)
				}
			})
			if f.super {
				s.super(header)
			}
			s.sub(scales, 0)
			convert(sumA, s.scale, h)
			if f.kind == kindHalf {
				convert(sumB, s.second, h)
			}
			if f.kind == kindMin {
				VBROADCASTSS(at(rec, recordSum), b)
				VFMADD231PS(s.second, b, acc[h])
			}
		}
		ADDQ(U32(recordBytes), rec)
	}
	Label("panel")
	Load(Param("n"), n)
	MOVQ(first, rec)
	for h := range 2 {
		VPXOR(acc[h], acc[h], acc[h])
	}
	Label("block")
	if f.super {
		LEAQ(at(src, f.head), levels)
		LEAQ(at(src, scaleAt), scales)
		MOVQ(U32(8), sub)
		Label("sub")
		block(src, scales, levels, 0)
		ADDQ(U32(f.subBytes()), levels)
		ADDQ(U32(step), scales)
		DECQ(sub)
		JNZ(LabelRef("sub"))
		MOVQ(levels, src)
	} else {
		block(src, src, src, f.head)
		ADDQ(U32(f.blockBytes()), src)
	}
	DECQ(n)
	JNZ(LabelRef("block"))
	for h := range 2 {
		VMOVUPS(acc[h], at(dst, 32*h))
	}
	ADDQ(U32(64), dst)
	DECQ(panels)
	JNZ(LabelRef("panel"))
	VZEROUPPER()
	RET()
}

// gemm256 generates func(tile, rec, stride, n, c, start): add the products of n blocks of one panel of the tile with m
// activation rows to c. 16 registers hold two accumulators and two sums per row: three rows with AVX-VNNI and with levels
// of four bits, two with wider ones.
func gemm256(k kind, width int, m int) {
	name := map[kind]string{kindScale: "Scale", kindMin: "Min", kindHalf: "Half"}[k]
	fn := fmt.Sprintf("gemm%s%dx%dAVX2", name, width, m)
	if width == vnni {
		fn = fmt.Sprintf("gemm%sx%dVNNI", name, m)
	}
	TEXT(fn, NOSPLIT, "func(tile, rec *byte, stride, n int, c *float32, start int)")
	Doc(fmt.Sprintf("%s adds the products of n tile blocks of one panel with %d activation rows to c, [%d][32]. start", fn, m, m),
		"is the offset in the record of the start values for the zero point of the weights.")
	Pragma("noescape")
	tile, rec, stride, n, c, start := RSI, RDI, RDX, RCX, R8, R9
	Load(Param("tile"), tile)
	Load(Param("rec"), rec)
	Load(Param("stride"), stride)
	Load(Param("n"), n)
	Load(Param("c"), c)
	Load(Param("start"), start)
	acc := func(r, h int) VecPhysical { return y(2*r + h) }
	sum := func(r, h int) VecPhysical { return y(2*m + 2*r + h) }
	words := func(r, h int) VecPhysical { return y(4*m + 2*r + h) } // not with four bits, where sum serves
	w := [2]VecPhysical{Y12, Y13}
	magnitude := [2]VecPhysical{Y10, Y11} // of eight-bit levels, which need no words
	b, tmp := Y14, Y15
	for r := range m {
		for h := range 2 {
			VMOVUPS(at(c, 128*r+32*h), acc(r, h))
		}
	}
	// start32 adds the start value of the row to 32-bit sums, or puts it there.
	startMem := func(r, disp int) Mem {
		if k == kindMin || width == 8 {
			return magic
		}
		return Mem{Base: rec, Index: start, Scale: 1, Disp: recordBytes*r + disp}
	}
	begin := func(disp int) {
		if width == 4 {
			return
		}
		for r := range m {
			for h := range 2 {
				VPBROADCASTD(startMem(r, disp), sum(r, h))
			}
		}
	}
	// dots multiplies vectors [from, to): width 4 adds 16-bit words in sum and turns them into 32 bits at the end.
	dots := func(from, to int) {
		group := max(1, sums16(width))
		for i := from; i < to; i++ {
			for h := range 2 {
				VMOVDQU(at(tile, 64*i+32*h), w[h])
				if width == 8 {
					VPABSB(w[h], magnitude[h])
				}
			}
			for r := range m {
				VPBROADCASTD(at(rec, recordBytes*r+4*i), b)
				for h := range 2 {
					switch {
					case width == vnni:
						dotVNNI(b, w[h], sum(r, h))
					case width == 8:
						VPSIGNB(w[h], b, tmp)
						VPMADDUBSW(tmp, magnitude[h], tmp)
						VPMADDWD(words1, tmp, tmp)
						VPADDD(tmp, sum(r, h), sum(r, h))
					case width == 4 && i == 0:
						VPMADDUBSW(b, w[h], sum(r, h))
					case width == 4:
						VPMADDUBSW(b, w[h], tmp)
						VPADDW(tmp, sum(r, h), sum(r, h))
					case i%group == 0:
						VPMADDUBSW(b, w[h], words(r, h))
					default:
						VPMADDUBSW(b, w[h], tmp)
						VPADDW(tmp, words(r, h), words(r, h))
					}
					if (width == 5 || width == 6) && i%group == group-1 {
						VPMADDWD(words1, words(r, h), words(r, h))
						VPADDD(words(r, h), sum(r, h), sum(r, h))
					}
				}
			}
		}
		if width == 4 {
			for r := range m {
				VPBROADCASTD(startMem(r, 0), b)
				for h := range 2 {
					VPMADDWD(words1, sum(r, h), sum(r, h))
					VPADDD(b, sum(r, h), sum(r, h))
				}
			}
		}
	}
	convert := func(disp int) {
		for h := range 2 {
			VMOVUPS(at(tile, disp+32*h), w[h])
		}
		for r := range m {
			VBROADCASTSS(at(rec, recordBytes*r+recordScale), b)
			VBROADCASTSS(at(rec, recordBytes*r+recordOffset), tmp)
			for h := range 2 {
				VFMADD213PS(tmp, b, sum(r, h))
			}
			for h := range 2 {
				VFMADD231PS(w[h], sum(r, h), acc(r, h))
			}
		}
	}
	Label("block")
	begin(0)
	if k == kindHalf {
		dots(0, 4)
		convert(tileScale)
		begin(4)
		dots(4, 8)
		convert(tileSecond)
	} else {
		dots(0, 8)
		convert(tileScale)
	}
	if k == kindMin {
		for h := range 2 {
			VMOVUPS(at(tile, tileSecond+32*h), w[h])
		}
		for r := range m {
			VBROADCASTSS(at(rec, recordBytes*r+recordSum), b)
			for h := range 2 {
				VFMADD231PS(w[h], b, acc(r, h))
			}
		}
	}
	ADDQ(U32(tileStride), tile)
	ADDQ(stride, rec)
	DECQ(n)
	JNZ(LabelRef("block"))
	for r := range m {
		for h := range 2 {
			VMOVUPS(acc(r, h), at(c, 128*r+32*h))
		}
	}
	VZEROUPPER()
	RET()
}
