package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// z returns vector register i.
func z(i int) VecPhysical { return zmm[i] }

var zmm = []VecPhysical{
	Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
	Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31,
}

// at returns the memory operand disp(base).
func at(base Register, disp int) Mem { return Mem{Base: base, Disp: disp} }

// Registers that expand512 uses; set by levels512Constants or overwritten.
var (
	maskLow  = Z31 // 0x0f in every byte
	maskHigh = Z30 // the bits above the nibble, in place: 0x10 or 0x30
	lut      = Z29 // the table of IQ4_NL in every 16 bytes
	low      = Z28
	high     = Z27
	plane    = [2]VecPhysical{Z26, Z25}
	shifted  = Z24
	starting = Z23 // magic, where there is no zero point
)

// broadcast fills a register with a constant.
func broadcast(v uint32, reg VecPhysical) {
	MOVL(U32(v), EAX)
	VPBROADCASTD(EAX, reg)
}

// levels512Constants loads what expand512 needs.
func levels512Constants(f format) {
	if f.bits < 8 {
		broadcast(0x0f0f0f0f, maskLow)
	}
	switch f.bits {
	case 5:
		broadcast(0x10101010, maskHigh)
	case 6:
		broadcast(0x30303030, maskHigh)
	}
	if f.table {
		VBROADCASTI32X4(iq4Table, lut)
	}
	if f.start == 0 {
		broadcast(0x4b400000, starting)
	}
}

// expand512 unpacks the levels of 16 rows x 32 elements at disp(base) into eight vectors of unsigned bytes and hands
// them to emit one or two at a time: vector i holds elements 4i..4i+3 of every row.
func expand512(f format, base Register, disp int, emit func(i int, v VecPhysical)) {
	if f.bits == 8 {
		for i := range 8 {
			v := []VecPhysical{low, high}[i%2]
			VMOVDQU64(at(base, disp+64*i), v)
			emit(i, v)
		}
		return
	}
	for p := range f.bits - 4 {
		VMOVDQU64(at(base, disp+nibbleBytes+64*p), plane[p])
	}
	for i := range 4 {
		VMOVDQU64(at(base, disp+64*i), low)
		VPSRLW(U8(4), low, high)
		VPANDD(maskLow, low, low)
		VPANDD(maskLow, high, high)
		switch {
		case f.bits == 5:
			orBits512(plane[0], 4-i, low)
			orBits512(plane[0], -i, high)
		case f.bits == 6:
			orBits512(plane[0], 4-2*i, low)
			orBits512(plane[1], 4-2*i, high)
		case f.table:
			VPSHUFB(low, lut, low)
			VPSHUFB(high, lut, high)
		}
		emit(i, low)
		emit(i+4, high)
	}
}

// orBits512 ors the bits of the plane that maskHigh selects, after a shift to the left (negative: right), into v.
func orBits512(from VecPhysical, left int, v VecPhysical) {
	src := from
	switch {
	case left > 0:
		VPSLLW(U8(left), from, shifted)
		src = shifted
	case left < 0:
		VPSRLW(U8(-left), from, shifted)
		src = shifted
	}
	VPTERNLOGD(U8(0xf8), maskHigh, src, v) // v | src&maskHigh
}

// scales512 computes the float scales of sub-block s (a register-held pointer to its byte scales for K-quants) into
// scale and, where the format has them, the second values.
type scales512 struct {
	f             format
	d, dmin       VecPhysical // of the super-block
	scale, second VecPhysical
}

// super loads what all sub-blocks of the super-block at base share. signBit holds 0x80000000.
func (s scales512) super(base Register, signBit VecPhysical) {
	VCVTPH2PS(at(base, 0), s.d)
	if s.f.kind == kindMin {
		VCVTPH2PS(at(base, 32), s.dmin)
		VPXORD(signBit, s.dmin, s.dmin)
	}
}

// sub computes the values of the sub-block whose byte scales begin at disp(base), for super-blocks; for plain blocks
// base is the block.
func (s scales512) sub(base Register, disp int) {
	switch {
	case s.f.super && s.f.kind == kindMin:
		VPMOVZXBD(at(base, disp), s.scale)
		VPMOVZXBD(at(base, disp+128), s.second)
		VCVTDQ2PS(s.scale, s.scale)
		VCVTDQ2PS(s.second, s.second)
		VMULPS(s.d, s.scale, s.scale)
		VMULPS(s.dmin, s.second, s.second)
	case s.f.super && s.f.kind == kindScale:
		VPMOVSXBD(at(base, disp), s.scale)
		VCVTDQ2PS(s.scale, s.scale)
		VMULPS(s.d, s.scale, s.scale)
	case s.f.super:
		VPMOVSXBD(at(base, disp), s.scale)
		VPMOVSXBD(at(base, disp+16), s.second)
		VCVTDQ2PS(s.scale, s.scale)
		VCVTDQ2PS(s.second, s.second)
		VMULPS(s.d, s.scale, s.scale)
		VMULPS(s.d, s.second, s.second)
	default:
		VCVTPH2PS(at(base, disp), s.scale)
		if s.f.kind == kindMin {
			VCVTPH2PS(at(base, disp+32), s.second)
		}
	}
}

// prefetch asks for the levels that lie prefetchBytes behind those at disp(levels).
func prefetch(f format, levels Register, disp int) {
	for i := 0; i < f.subBytes(); i += 64 {
		PREFETCHT1(at(levels, disp+prefetchBytes+i))
	}
}

// scaleBytes is the distance between the byte scales of consecutive sub-blocks, and where they begin.
func (f format) scaleBytes() (first, step int) {
	switch f.kind {
	case kindHalf:
		return 32, 32
	case kindScale:
		return 32, 16
	}
	return 64, 16
}

// unpack512 generates func(dst, src, n): unpack n blocks of a panel into one panel of the tile.
func unpack512(f format) {
	fn := "unpack" + f.name + "AVX512"
	TEXT(fn, NOSPLIT, "func(dst, src *byte, n int)")
	Doc(fn + " expands n blocks of a panel into every other block of a tile.")
	Pragma("noescape")
	dst, src, n, levels, scales, sub := RDI, RSI, RCX, R8, R9, R10
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("n"), n)
	levels512Constants(f)
	s := scales512{f, Z0, Z1, Z2, Z3}
	signBit := Z4
	broadcast(0x80000000, signBit)
	first, step := f.scaleBytes()

	store := func(levels Register, disp int) {
		prefetch(f, levels, disp)
		expand512(f, levels, disp, func(i int, v VecPhysical) { VMOVDQU64(v, at(dst, 64*i)) })
		VMOVUPS(s.scale, at(dst, tileScale))
		if f.kind != kindScale {
			VMOVUPS(s.second, at(dst, tileSecond))
		}
		ADDQ(U32(tileStride), dst)
	}
	Label("block")
	if f.super {
		s.super(src, signBit)
		LEAQ(at(src, f.head), levels)
		LEAQ(at(src, first), scales)
		MOVQ(U32(8), sub)
		Label("sub")
		s.sub(scales, 0)
		store(levels, 0)
		ADDQ(U32(f.subBytes()), levels)
		ADDQ(U32(step), scales)
		DECQ(sub)
		JNZ(LabelRef("sub"))
		MOVQ(levels, src)
	} else {
		s.sub(src, 0)
		store(src, f.head)
		ADDQ(U32(f.blockBytes()), src)
	}
	DECQ(n)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// gemv512 generates the products of consecutive panels of n blocks with m activation rows, m small: the weights stream
// from memory, are unpacked in registers and meet all rows. Bound by memory: per block about 12 instructions to unpack and
// 11 for each row, for 300 bytes of 4-bit weights.
func gemv512(f format, m int) {
	fn := fmt.Sprintf("gemv%sx%dAVX512", f.name, m)
	TEXT(fn, NOSPLIT, "func(dst *float32, dstStride int, src, rec *byte, recStride, n, panels int)")
	Doc(fmt.Sprintf("%s multiplies panels of n blocks, which follow each other, with %d activation rows. The records of", fn, m),
		"consecutive blocks are recStride bytes apart, the outputs of consecutive rows dstStride bytes.")
	Pragma("noescape")
	dst, src, first, panels, rec, n, levels, scales, sub := RDI, RSI, RDX, RBX, R8, RCX, R9, R10, R11
	dstStride, recStride, to := R12, R13, RAX
	Load(Param("dst"), dst)
	Load(Param("dstStride"), dstStride)
	Load(Param("src"), src)
	Load(Param("rec"), first)
	Load(Param("recStride"), recStride)
	Load(Param("panels"), panels)
	levels512Constants(f)
	s := scales512{f, Z16, Z17, Z18, Z19}
	signBit := Z20
	broadcast(0x80000000, signBit)
	scaleAt, step := f.scaleBytes()
	acc := func(r int) VecPhysical { return z(r) }
	// With few rows the dot products of a block are two chains, to hide their latency; halves need two anyway.
	chains := 2
	if m > 4 || m == 4 && f.kind != kindHalf {
		chains = 1
	}
	dot := func(r, chain int) VecPhysical { return z(8 + chains*r + chain) }

	// convert turns the dot product of row r into float32(dot)*scale and adds it, times w, to the row's accumulator.
	convert := func(r, chain int, w VecPhysical) {
		scale := []VecPhysical{Z21, Z22}[r%2]
		if chain == 0 {
			VBROADCASTSS(at(rec, recordBytes*r+recordScale), scale)
		}
		VFMADD213PS_BCST(at(rec, recordBytes*r+recordOffset), scale, dot(r, chain))
		VFMADD231PS(w, dot(r, chain), acc(r))
	}
	begin := func(r int) {
		switch {
		case f.kind == kindHalf:
			VPBROADCASTD(at(rec, recordBytes*r+recordHalves), dot(r, 0))
			VPBROADCASTD(at(rec, recordBytes*r+recordHalves+4), dot(r, 1))
			return
		case f.start == 0:
			VMOVDQA64(starting, dot(r, 0))
		default:
			VPBROADCASTD(at(rec, recordBytes*r+f.start), dot(r, 0))
		}
		if chains == 2 {
			VPXORD(dot(r, 1), dot(r, 1), dot(r, 1))
		}
	}
	block := func(levels Register, disp int) {
		prefetch(f, levels, disp)
		for r := range m {
			begin(r)
		}
		expand512(f, levels, disp, func(i int, v VecPhysical) {
			for r := range m {
				VPDPBUSD_BCST(at(rec, recordBytes*r+4*i), v, dot(r, i/4%chains))
			}
		})
		for r := range m {
			if f.kind != kindHalf && chains == 2 {
				VPADDD(dot(r, 1), dot(r, 0), dot(r, 0))
			}
			convert(r, 0, s.scale)
			if f.kind == kindHalf {
				convert(r, 1, s.second)
			}
			if f.kind == kindMin {
				VFMADD231PS_BCST(at(rec, recordBytes*r+recordSum), s.second, acc(r))
			}
		}
		ADDQ(recStride, rec)
	}
	Label("panel")
	Load(Param("n"), n)
	MOVQ(first, rec)
	for r := range m {
		VPXORD(acc(r), acc(r), acc(r))
	}
	Label("block")
	if f.super {
		s.super(src, signBit)
		LEAQ(at(src, f.head), levels)
		LEAQ(at(src, scaleAt), scales)
		MOVQ(U32(8), sub)
		Label("sub")
		s.sub(scales, 0)
		block(levels, 0)
		ADDQ(U32(f.subBytes()), levels)
		ADDQ(U32(step), scales)
		DECQ(sub)
		JNZ(LabelRef("sub"))
		MOVQ(levels, src)
	} else {
		s.sub(src, 0)
		block(src, f.head)
		ADDQ(U32(f.blockBytes()), src)
	}
	DECQ(n)
	JNZ(LabelRef("block"))
	MOVQ(dst, to)
	for r := range m {
		VMOVUPS(acc(r), at(to, 0))
		if r < m-1 {
			ADDQ(dstStride, to)
		}
	}
	ADDQ(U32(64), dst)
	DECQ(panels)
	JNZ(LabelRef("panel"))
	VZEROUPPER()
	RET()
}

// gemm512 generates func(tile, rec, stride, n, c): add the products of n tile blocks (two panels, 32 outputs) with m
// activation rows to c. Each broadcast activation feeds two dot products, so that loads do not limit: per block and row
// 10 loads and 20 (22 with minima) arithmetic instructions, of which 16 are dot products.
func gemm512(k kind, name string, m int) {
	fn := fmt.Sprintf("gemm%s%dAVX512", name, m)
	TEXT(fn, NOSPLIT, "func(tile *byte, rec *byte, stride, n int, c *float32, start int)")
	Doc(fmt.Sprintf("%s adds the products of n tile blocks with %d activation rows to c, [%d][32].", fn, m, m),
		"start is the offset in the record of the start values for the zero point of the weights.")
	Pragma("noescape")
	tile, rec, stride, n, c, start := RSI, RDI, RDX, RCX, R8, R9
	Load(Param("tile"), tile)
	Load(Param("rec"), rec)
	Load(Param("stride"), stride)
	Load(Param("n"), n)
	Load(Param("c"), c)
	Load(Param("start"), start)
	acc := func(r, p int) VecPhysical { return z(2*r + p) }
	dot := func(r, p int) VecPhysical { return z(12 + 2*r + p) }
	w := [2]VecPhysical{Z24, Z25}
	bcast := [4]VecPhysical{Z28, Z29, Z30, Z31}
	for r := range m {
		for p := range 2 {
			VMOVUPS(at(c, 128*r+64*p), acc(r, p))
		}
	}
	// convert adds the finished dot products, scaled, to the accumulators; scales of the weights are at disp.
	convert := func(disp int) {
		for p := range 2 {
			VMOVUPS(at(tile, tileStride/2*p+disp), w[p])
		}
		for r := range m {
			scale, offset := bcast[2*(r%2)], bcast[2*(r%2)+1]
			VBROADCASTSS(at(rec, recordBytes*r+recordScale), scale)
			VBROADCASTSS(at(rec, recordBytes*r+recordOffset), offset)
			for p := range 2 {
				VFMADD213PS(offset, scale, dot(r, p))
			}
			for p := range 2 {
				VFMADD231PS(w[p], dot(r, p), acc(r, p))
			}
		}
	}
	begin := func(disp int) {
		for r := range m {
			for p := range 2 {
				mem := magic
				if k != kindMin {
					mem = Mem{Base: rec, Index: start, Scale: 1, Disp: recordBytes*r + disp}
				}
				VPBROADCASTD(mem, dot(r, p))
			}
		}
	}
	dots := func(from, to int) {
		for i := from; i < to; i++ {
			for p := range 2 {
				VMOVDQU64(at(tile, tileStride/2*p+64*i), w[p])
			}
			for r := range m {
				b := bcast[r%4]
				VPBROADCASTD(at(rec, recordBytes*r+4*i), b)
				for p := range 2 {
					VPDPBUSD(b, w[p], dot(r, p))
				}
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
		for p := range 2 {
			VMOVUPS(at(tile, tileStride/2*p+tileSecond), w[p])
		}
		for r := range m {
			b := bcast[r%4]
			VBROADCASTSS(at(rec, recordBytes*r+recordSum), b)
			for p := range 2 {
				VFMADD231PS(w[p], b, acc(r, p))
			}
		}
	}
	ADDQ(U32(tileStride), tile)
	ADDQ(stride, rec)
	DECQ(n)
	JNZ(LabelRef("block"))
	for r := range m {
		for p := range 2 {
			VMOVUPS(acc(r, p), at(c, 128*r+64*p))
		}
	}
	VZEROUPPER()
	RET()
}
