// Command attention generates the assembly of the attention kernels: scores of a block of query rows, weighted sums of
// values, and the element-wise steps between them.
//
// Every kernel exists for AVX-512 and for AVX2 with FMA and F16C. Both perform the same operations in the same order on
// every element, so their results are equal bit for bit.
package main

import (
	"fmt"
	"math"

	"ragd/llm/kernel/_asm/simd"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	pageTokens  = 16
	splitTokens = 256
	scoreRow    = 4 * splitTokens // bytes between rows of scores
)

// kind is the element type of stored keys and values.
type kind struct {
	name string
	// step is the number of terms of a sum that one multiply-add takes: 1 for floats; 2 for integers, whose elements are
	// stored in pairs, widened to 16 bits and multiplied with pairs of 16-bit numbers into exact 32-bit sums.
	step int
	unit int // bytes of a lane: step elements
	load func(m Mem, r VecPhysical)
}

var (
	f32  = kind{"F32", 1, 4, func(m Mem, r VecPhysical) { VMOVUPS(m, r) }}
	f16  = kind{"F16", 1, 2, func(m Mem, r VecPhysical) { VCVTPH2PS(m, r) }}
	int8 = kind{"Int8", 2, 2, func(m Mem, r VecPhysical) { VPMOVSXBW(m, r) }}
	i16  = kind{"Int16", 2, 4, func(m Mem, r VecPhysical) { VMOVUPS(m, r) }}
)

// scalarBytes is the size of what one multiply-add takes of a row: a float32 or two 16-bit numbers.
const scalarBytes = 4

// madd adds the products of x and b to acc; tmp is used by AVX2 for integers.
func (k kind) madd(s simd.ISA, x, b, acc, tmp VecPhysical) {
	switch {
	case k.step == 1:
		VFMADD231PS(x, b, acc)
	case s.Floats == 16:
		VPDPWSSD(x, b, acc)
	default:
		VPMADDWD(x, b, tmp)
		VPADDD(tmp, acc, acc)
	}
}

func main() {
	ConstraintExpr("!purego")
	for _, s := range []simd.ISA{simd.AVX512, simd.AVX2} {
		for _, k := range []kind{f32, f16, int8, i16} {
			scores(s, k)
			weigh(s, k)
		}
		expSplit(s, false)
		expSplit(s, true)
		join(s)
		finish(s)
		widen(s, f16)
		toHalf(s)
		quantize(s, 8)
		quantize(s, 16)
		transpose(s)
	}
	zip("zip8", "int8", 16, VPMOVZXBW, VPSLLW, 8)
	zip("zip16", "int16", 8, VPMOVZXWD, VPSLLD, 16)
	Generate()
}

// byRows emits body(1) … body(maxRows) and jumps to the one that the register asks for. Bodies end with a return.
func byRows(s simd.ISA, name string, rows Register, body func(m int, label string)) {
	label := func(m int) string { return fmt.Sprintf("%s_rows%d", name, m) }
	for m := 2; m <= maxRows(s); m++ {
		CMPQ(rows, U8(m))
		JEQ(LabelRef(label(m)))
	}
	for m := 1; m <= maxRows(s); m++ {
		Label(label(m))
		body(m, label(m))
	}
}

// scores: dst[r][16p+i] = scale[16p+i] * Σ_d q[r][d]*K_p[d][i], p in [0, pages); for int8, times qScale[r].
//
// Accumulators are a tile of rows × pages that share their loads: every element of K is loaded and converted once, every
// element of q broadcast once. One accumulator is one chain of multiply-adds over d, so its bits do not depend on the
// shape of the tile.
//
//	rows           1..3  4..6  7..8
//	pages AVX-512  4     4     2
//	      AVX2     2     1           (int8: 1)
func scores(s simd.ISA, k kind) {
	name := "scores" + k.name + s.Name
	signature := "func(dst, q *float32, k **byte, scale *float32, rows, dim, pages, ahead int)"
	if k.step > 1 {
		signature = "func(dst *float32, q *int16, qScale *float32, k **byte, scale *float32, rows, dim, pages, ahead int)"
	}
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(fmt.Sprintf("%s multiplies rows of q with pages of keys; pages is a multiple of 4, rows at most %d. It prefetches what lies ahead bytes behind the keys.", name, maxRows(s)))
	dst := Load(Param("dst"), GP64())
	q := Load(Param("q"), GP64())
	ptrs := Load(Param("k"), GP64())
	scale := Load(Param("scale"), GP64())
	pages := Load(Param("pages"), GP64())
	pitch := Load(Param("dim"), GP64())
	rows := Load(Param("rows"), GP64())
	SHLQ(U8(3-k.step), pitch)
	byRows(s, name, rows, func(m int, label string) {
		ahead := Load(Param("ahead"), GP64())
		np := 4
		switch {
		case s.Floats == 16 && m > 6:
			np = 2
		case s.Floats == 8 && (m > 3 || k.step > 1):
			np = 1
		case s.Floats == 8:
			np = 2
		}
		scoresBody(s, k, m, np, label, dst, q, ptrs, scale, pages, pitch, ahead)
	})
}

func scoresBody(s simd.ISA, k kind, m, np int, label string, dst, q, ptrs, scale, pages, pitch, ahead Register) {
	perPage := pageTokens / s.Floats
	nv := np * perPage // vectors of one row
	p3, p5, p7 := rowPitches(pitch, m)
	page := make([]Register, np)
	for i := range page {
		page[i] = GP64()
	}
	count := GP64()
	Label(label + "_pages")
	for i := range page {
		MOVQ(Mem{Base: ptrs, Disp: 8 * i}, page[i])
	}
	for i := range m * nv {
		s.Zero(s.Regs[i])
	}
	MOVQ(pitch, count)
	Label(label + "_dims")
	maddTile(s, k, m, nv,
		func(v int) Mem { return Mem{Base: page[v/perPage], Disp: v % perPage * s.Floats * k.unit} },
		func(r int) Mem { return rowAt(q, pitch, p3, p5, p7, r) })
	for i := range page {
		PREFETCHT1(Mem{Base: page[i], Index: ahead, Scale: 1})
		ADDQ(U8(pageTokens*k.unit), page[i])
	}
	ADDQ(U8(scalarBytes), q)
	SUBQ(U8(scalarBytes), count)
	JNZ(LabelRef(label + "_dims"))
	SUBQ(pitch, q)
	var qScale Register
	if k.step > 1 {
		qScale = Load(Param("qScale"), GP64())
	}
	for r := range m {
		factor := s.Regs[m*nv]
		if k.step > 1 {
			VBROADCASTSS(Mem{Base: qScale, Disp: 4 * r}, factor)
		}
		for v := range nv {
			acc := s.Regs[r*nv+v]
			if k.step > 1 {
				VCVTDQ2PS(acc, acc)
				VMULPS(factor, acc, acc)
			}
			VMULPS(Mem{Base: scale, Disp: v * s.Bytes()}, acc, acc)
			VMOVUPS(acc, Mem{Base: dst, Disp: r*scoreRow + v*s.Bytes()})
		}
	}
	ADDQ(U32(np*pageTokens*4), dst)
	ADDQ(U32(np*pageTokens*4), scale)
	ADDQ(U8(np*8), ptrs)
	SUBQ(U8(np), pages)
	JNZ(LabelRef(label + "_pages"))
	VZEROUPPER()
	RET()
}

// maddTile adds the products of m scalars and nv vectors to the m*nv accumulators in the first registers. With few rows
// it keeps the scalars and passes the vectors through what is left, otherwise the other way round.
func maddTile(s simd.ISA, k kind, m, nv int, vector func(v int) Mem, scalar func(r int) Mem) {
	last := len(s.Regs) - 1
	tmp, free := s.Regs[last], s.Regs[m*nv:]
	if s.Floats == 8 && k.step > 1 {
		free = s.Regs[m*nv : last]
	}
	if m < nv {
		for r := range m {
			VBROADCASTSS(scalar(r), free[r])
		}
		for v := range nv {
			x := free[m+v%(len(free)-m)]
			k.load(vector(v), x)
			for r := range m {
				k.madd(s, x, free[r], s.Regs[r*nv+v], tmp)
			}
		}
		return
	}
	for v := range nv {
		k.load(vector(v), free[v])
	}
	for r := range m {
		b := free[nv+r%(len(free)-nv)]
		VBROADCASTSS(scalar(r), b)
		for v := range nv {
			k.madd(s, free[v], b, s.Regs[r*nv+v], tmp)
		}
	}
}

// rowPitches returns the multiples of the pitch that rowAt needs for m rows.
func rowPitches(pitch Register, m int) (p3, p5, p7 Register) {
	if m > 3 {
		p3 = GP64()
		LEAQ(Mem{Base: pitch, Index: pitch, Scale: 2}, p3)
	}
	if m > 5 {
		p5 = GP64()
		LEAQ(Mem{Base: pitch, Index: pitch, Scale: 4}, p5)
	}
	if m > 7 {
		p7 = GP64()
		LEAQ(Mem{Base: p3, Index: pitch, Scale: 4}, p7)
	}
	return p3, p5, p7
}

// rowAt addresses row r of a matrix with a pitch known at run time.
func rowAt(base, pitch, p3, p5, p7 Register, r int) Mem {
	switch r {
	case 0:
		return Mem{Base: base}
	case 1, 2, 4:
		return Mem{Base: base, Index: pitch, Scale: uint8(r)}
	case 3, 6:
		return Mem{Base: base, Index: p3, Scale: uint8(r / 3)}
	case 5:
		return Mem{Base: base, Index: p5, Scale: 1}
	}
	return Mem{Base: base, Index: p7, Scale: 1}
}

// weigh: dst[r][d] = Σ_i w[r][i]*V[i][d] for positions i in [from, to) and one strip of d, an accumulator per row and
// vector of the strip, one chain of multiply-adds over i each; for int8, times wScale[r].
//
//	rows           1..3   4..6      7..8
//	strip AVX-512  64, 32 or 16     32 or 16
//	      AVX2     32, 16  16                (int8: 16)
func weigh(s simd.ISA, k kind) {
	name := "weigh" + k.name + s.Name
	signature := "func(dst *float32, padded int, w *float32, rows int, v, next **byte, offset, from, to, strip int)"
	if k.step > 1 {
		signature = "func(dst *float32, padded int, w *int16, wScale *float32, rows int, v, next **byte, offset, from, to, strip, further int)"
	}
	also := ""
	if k.step > 1 {
		also = " and what lies further bytes behind it"
	}
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(fmt.Sprintf("%s adds up a strip of values that begins offset bytes into each block; from is a multiple of 16, rows at most %d. It prefetches the same part of the blocks in next%s.", name, maxRows(s), also))
	dst := Load(Param("dst"), GP64())
	pitch := Load(Param("padded"), GP64())
	w := Load(Param("w"), GP64())
	rows := Load(Param("rows"), GP64())
	ptrs := Load(Param("v"), GP64())
	from := Load(Param("from"), GP64())
	left := Load(Param("to"), GP64()) // steps still to do
	strip := Load(Param("strip"), GP64())
	offset := Load(Param("offset"), GP64())
	LEAQ(Mem{Base: w, Index: from, Scale: uint8(scalarBytes / k.step)}, w)
	SUBQ(from, left)
	if k.step > 1 {
		INCQ(left)
		SHRQ(U8(1), left)
	}
	SHRQ(U8(4), from)
	LEAQ(Mem{Base: ptrs, Index: from, Scale: 8}, ptrs)
	next := Load(Param("next"), GP64())
	LEAQ(Mem{Base: next, Index: from, Scale: 8}, next)
	SUBQ(ptrs, next) // so that next belongs to ptrs[0] + next
	step := GP64()   // bytes between steps
	MOVQ(pitch, step)
	SHLQ(U8(k.unit/2), step)
	SHLQ(U8(2), pitch)
	byRows(s, name, rows, func(m int, label string) {
		strips := []int{64, 32, 16}
		switch {
		case s.Floats == 16 && m > 6:
			strips = []int{32, 16}
		case s.Floats == 8 && (m > 3 || k.step > 1):
			strips = []int{16}
		case s.Floats == 8:
			strips = []int{32, 16}
		}
		for i, n := range strips {
			other := fmt.Sprintf("%s_strip%d_not", label, n)
			if i < len(strips)-1 {
				CMPQ(strip, U8(n))
				JNE(LabelRef(other))
			}
			weighBody(s, k, m, n/s.Floats, fmt.Sprintf("%s_strip%d", label, n), dst, pitch, w, ptrs, next, offset, left, step)
			if i < len(strips)-1 {
				Label(other)
			}
		}
	})
}

func weighBody(s simd.ISA, k kind, m, nv int, label string, dst, pitch, w, ptrs, next, offset, left, step Register) {
	for i := range m * nv {
		s.Zero(s.Regs[i])
	}
	row, count, full, ahead := GP64(), GP64(), GP64(), GP64()
	further := GP64()
	MOVQ(U32(pageTokens/k.step), full)
	Label(label + "_page")
	MOVQ(Mem{Base: ptrs}, row)
	MOVQ(Mem{Base: ptrs, Index: next, Scale: 1}, ahead)
	SUBQ(row, ahead)
	if k.step > 1 {
		Load(Param("further"), further)
		ADDQ(ahead, further)
	}
	ADDQ(U8(8), ptrs)
	ADDQ(offset, row)
	MOVQ(left, count)
	CMPQ(left, full)
	CMOVQGT(full, count)
	SUBQ(count, left)
	Label(label + "_token")
	maddTile(s, k, m, nv,
		func(v int) Mem { return Mem{Base: row, Disp: v * s.Floats * k.unit} },
		func(r int) Mem { return Mem{Base: w, Disp: r * scoreRow / k.step} })
	for line := 0; line < nv*s.Floats*k.unit; line += 64 {
		PREFETCHT1(Mem{Base: row, Index: ahead, Scale: 1, Disp: line})
		if k.step > 1 {
			PREFETCHT1(Mem{Base: row, Index: further, Scale: 1, Disp: line})
		}
	}
	ADDQ(step, row)
	ADDQ(U8(scalarBytes), w)
	DECQ(count)
	JNZ(LabelRef(label + "_token"))
	TESTQ(left, left)
	JNZ(LabelRef(label + "_page"))
	var wScale Register
	if k.step > 1 {
		wScale = Load(Param("wScale"), GP64())
	}
	for r := range m {
		factor := s.Regs[m*nv]
		if k.step > 1 {
			VBROADCASTSS(Mem{Base: wScale, Disp: 4 * r}, factor)
		}
		for v := range nv {
			acc := s.Regs[r*nv+v]
			if k.step > 1 {
				VCVTDQ2PS(acc, acc)
				VMULPS(factor, acc, acc)
			}
			VMOVUPS(acc, Mem{Base: dst, Disp: v * s.Bytes()})
		}
		if r < m-1 {
			ADDQ(pitch, dst)
		}
	}
	VZEROUPPER()
	RET()
}

// expSplit: two passes over each row of scores, the maximum and then 2^(s-top)*scale with the sum of the powers. Several
// rows in one call overlap the end of one with the start of the next. Floats replace the scores.
// Integers are stored apart, multiplied by the row's largest factor with which none exceeds the limit and their sum not
// the budget; wScale gets its inverse.
func expSplit(s simd.ISA, integer bool) {
	name, signature := "expSplit"+s.Name, "func(s, scale *float32, rows, n int, top, total *float32)"
	if integer {
		name, signature = "expSplitInt"+s.Name, "func(s, scale *float32, rows, n int, top, total, wScale *float32, w *int16, limit, budget float32)"
	}
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(name + " turns n scores, a multiple of 16, of each row into scaled powers of 2 relative to the row's maximum.")
	x := Load(Param("s"), GP64())
	scale := Load(Param("scale"), GP64())
	n := Load(Param("n"), GP64())
	rows := Load(Param("rows"), GP64())
	tops := Load(Param("top"), GP64())
	totals := Load(Param("total"), GP64())
	var wScale, w, out Register
	if integer {
		wScale, w, out = Load(Param("wScale"), GP64()), Load(Param("w"), GP64()), GP64()
	}
	SHLQ(U8(2), n)
	ADDQ(n, x)
	ADDQ(n, scale)
	NEGQ(n)
	i := GP64()
	r := s.Regs
	per := pageTokens / s.Floats
	at := func(base Register, v int) Mem { return Mem{Base: base, Index: i, Scale: 1, Disp: v * s.Bytes()} }
	y, t, p, mask := r[3], r[4], r[5], r[6]
	e := s.NewExp2(r[7:15])
	// All maxima first: their latency would otherwise stand before every row's powers.
	row, left := GP64(), GP64()
	MOVQ(x, row)
	MOVQ(rows, left)
	Label(name + "_top")
	top := r[0:per]
	s.Const("negInf", math.Inf(-1), top[0])
	if per > 1 {
		VMOVAPS(top[0], top[1])
	}
	MOVQ(n, i)
	Label(name + "_max")
	for v := range per {
		VMAXPS(at(row, v), top[v], top[v])
	}
	ADDQ(U8(64), i)
	JNZ(LabelRef(name + "_max"))
	s.Reduce(top, r[2], func(a, b, d Op) { VMAXPS(a, b, d) })
	VMOVSS(X0, Mem{Base: tops})
	ADDQ(U8(4), tops)
	ADDQ(U32(scoreRow), row)
	DECQ(left)
	JNZ(LabelRef(name + "_top"))
	LEAQ(Mem{Base: rows, Index: rows, Scale: 1}, left)
	LEAQ(Mem{Base: left, Index: left, Scale: 1}, left)
	SUBQ(left, tops)

	Label(name + "_row")
	VBROADCASTSS(Mem{Base: tops}, r[0])
	sum := r[1 : 1+per]
	for v := range per {
		s.Zero(sum[v])
	}
	MOVQ(n, i)
	Label(name + "_exp")
	for v := range per {
		VMOVUPS(at(x, v), y)
		VSUBPS(r[0], y, y)
		e.Power(y, t, p, mask)
		VADDPS(y, sum[v], sum[v])
		VMULPS(at(scale, v), y, y)
		VMOVUPS(y, at(x, v))
	}
	ADDQ(U8(64), i)
	JNZ(LabelRef(name + "_exp"))
	s.Reduce(sum, t, func(a, b, d Op) { VADDPS(a, b, d) })
	VMOVSS(sum[0].AsX(), Mem{Base: totals})
	if integer {
		roundWeights(s, name, at, x, n, i, wScale, w, out)
		ADDQ(U8(4), wScale)
		ADDQ(U32(scoreRow/2), w)
	}
	ADDQ(U32(scoreRow), x)
	ADDQ(U8(4), tops)
	ADDQ(U8(4), totals)
	DECQ(rows)
	JNZ(LabelRef(name + "_row"))
	VZEROUPPER()
	RET()
}

// roundWeights makes the integers of one row; see expSplit. It uses registers 0 to 6.
func roundWeights(s simd.ISA, name string, at func(Register, int) Mem, x, n, i, wScale, w, out Register) {
	r := s.Regs
	per := pageTokens / s.Floats
	most, sum := r[0:per], r[2:2+per]
	for v := range per {
		s.Zero(most[v])
		s.Zero(sum[v])
	}
	MOVQ(n, i)
	Label(name + "_most")
	for v := range per {
		VMOVUPS(at(x, v), r[4])
		VMAXPS(r[4], most[v], most[v])
		VADDPS(r[4], sum[v], sum[v])
	}
	ADDQ(U8(64), i)
	JNZ(LabelRef(name + "_most"))
	s.Reduce(most, r[4], func(a, b, d Op) { VMAXPS(a, b, d) })
	s.Reduce(sum, r[4], func(a, b, d Op) { VADDPS(a, b, d) })
	factor, inverse, tmp := r[5].AsX(), r[6].AsX(), r[4].AsX()
	VXORPS(factor, factor, factor)
	VXORPS(inverse, inverse, inverse)
	VUCOMISS(s.Vector("tiny", 0x1p-100), most[0].AsX())
	JCS(LabelRef(name + "_nothing"))
	limit, err := Param("limit").Resolve()
	if err != nil {
		panic(err)
	}
	budget, err := Param("budget").Resolve()
	if err != nil {
		panic(err)
	}
	VMOVSS(limit.Addr, factor)
	VDIVSS(most[0].AsX(), factor, factor)
	VMOVSS(budget.Addr, tmp)
	VDIVSS(sum[0].AsX(), tmp, tmp)
	VMINSS(tmp, factor, factor)
	VMOVSS(s.Vector("one", 1), inverse)
	VDIVSS(factor, inverse, inverse)
	Label(name + "_nothing")
	VMOVSS(inverse, Mem{Base: wScale})
	VBROADCASTSS(factor, r[5])
	MOVQ(w, out)
	MOVQ(n, i)
	Label(name + "_round")
	for v := range per {
		VMULPS(at(x, v), r[5], r[v])
		VCVTPS2DQ(r[v], r[v])
	}
	if per == 1 {
		VPMOVDW(r[0], Mem{Base: out})
	} else {
		VPACKSSDW(r[1], r[0], r[0])
		VPERMQ(U8(0xd8), r[0], r[0])
		VMOVUPS(r[0], Mem{Base: out})
	}
	ADDQ(U8(2*pageTokens), out)
	ADDQ(U8(64), i)
	JNZ(LabelRef(name + "_round"))
}

// quantize: rows of floats to signed integers of the given width, each row with the factor that maps its largest
// magnitude to the limit; scales get the inverse. Values are rounded to nearest even and saturated; NaN becomes 0, and so
// does a row whose largest magnitude is below 2^-100, where the factor would overflow.
func quantize(s simd.ISA, bits int) {
	name := fmt.Sprintf("quantize%d%s", bits, s.Name)
	TEXT(name, NOSPLIT, fmt.Sprintf("func(dst *int%d, dstPitch int, x *float32, xPitch int, scales *float32, rows, n int, limit float32)", bits))
	Pragma("noescape")
	Doc(name + " quantizes rows of n elements, a multiple of 16; pitches are in elements.")
	dst, dstPitch, x, xPitch := Load(Param("dst"), GP64()), Load(Param("dstPitch"), GP64()), Load(Param("x"), GP64()), Load(Param("xPitch"), GP64())
	scales, rows, n := Load(Param("scales"), GP64()), Load(Param("rows"), GP64()), Load(Param("n"), GP64())
	i, to := GP64(), GP64()
	r := s.Regs
	per := pageTokens / s.Floats
	limit, low, factor, mask := r[6], r[7], r[8], r[9]
	broadcast("limit", limit)
	s.Zero(low)
	VSUBPS(limit, low, low)
	VMOVUPS(s.Vector("absMask", math.NaN()), mask)
	SHLQ(U8(2), xPitch)
	if bits == 16 {
		SHLQ(U8(1), dstPitch)
	}
	SHLQ(U8(2), n)
	ADDQ(n, x)
	NEGQ(n)
	at := func(v int) Mem { return Mem{Base: x, Index: i, Scale: 1, Disp: v * s.Bytes()} }
	Label(name + "_row")
	top := r[:per]
	for _, t := range top {
		s.Zero(t)
	}
	MOVQ(n, i)
	Label(name + "_max")
	for v := range per {
		VMOVUPS(at(v), r[2])
		VANDPS(mask, r[2], r[2])
		VMAXPS(r[2], top[v], top[v])
	}
	ADDQ(U8(64), i)
	JNZ(LabelRef(name + "_max"))
	s.Reduce(top, r[2], func(a, b, d Op) { VMAXPS(a, b, d) })
	VMINSS(s.Vector("maxFloat", math.MaxFloat32), X0, X0)
	VXORPS(X1, X1, X1)
	VMOVAPS(X1, X2)
	VUCOMISS(s.Vector("tiny", 0x1p-100), X0)
	JCS(LabelRef(name + "_factor"))
	VDIVSS(limit.AsX(), X0, X1)
	VDIVSS(X0, limit.AsX(), X2)
	Label(name + "_factor")
	VMOVSS(X1, Mem{Base: scales})
	VBROADCASTSS(X2, factor)
	MOVQ(dst, to)
	MOVQ(n, i)
	const ordered = 7
	Label(name + "_convert")
	for v := range per {
		y := r[3+v]
		VMOVUPS(at(v), y)
		VMULPS(factor, y, y)
		if per == 1 {
			VCMPPS(U8(ordered), y, y, K1)
			VMINPS_Z(limit, y, K1, y)
		} else {
			VCMPPS(U8(ordered), y, y, r[5])
			VANDPS(r[5], y, y)
			VMINPS(limit, y, y)
		}
		VMAXPS(low, y, y)
		VCVTPS2DQ(y, y)
	}
	switch {
	case per == 1 && bits == 8:
		VPMOVDB(r[3], Mem{Base: to})
	case per == 1:
		VPMOVDW(r[3], Mem{Base: to})
	default:
		VPACKSSDW(r[4], r[3], r[3])
		VPERMQ(U8(0xd8), r[3], r[3])
		if bits == 16 {
			VMOVUPS(r[3], Mem{Base: to})
		} else {
			VEXTRACTI128(U8(1), r[3], r[4].AsX())
			VPACKSSWB(r[4].AsX(), r[3].AsX(), r[3].AsX())
			VMOVUPS(r[3].AsX(), Mem{Base: to})
		}
	}
	ADDQ(U8(pageTokens*bits/8), to)
	ADDQ(U8(64), i)
	JNZ(LabelRef(name + "_convert"))
	ADDQ(xPitch, x)
	ADDQ(dstPitch, dst)
	ADDQ(U8(4), scales)
	DECQ(rows)
	JNZ(LabelRef(name + "_row"))
	VZEROUPPER()
	RET()
}

// eachVector emits a loop over n elements, n a multiple of 16 in a register, that hands body the address of each
// vector of every base; elem is the size of the elements of that base.
func eachVector(s simd.ISA, name string, n Register, bases []Register, elem []int, body func(at []Mem)) {
	Label(name + "_loop")
	for v := range pageTokens / s.Floats {
		at := make([]Mem, len(bases))
		for j, b := range bases {
			at[j] = Mem{Base: b, Disp: v * s.Floats * elem[j]}
		}
		body(at)
	}
	for j, b := range bases {
		ADDQ(U8(pageTokens*elem[j]), b)
	}
	SUBQ(U8(pageTokens), n)
	JNZ(LabelRef(name + "_loop"))
	VZEROUPPER()
	RET()
}

// join: sum = sum*a + part*b.
func join(s simd.ISA) {
	name := "join" + s.Name
	TEXT(name, NOSPLIT, "func(sum, part *float32, n int, a, b float32)")
	Pragma("noescape")
	Doc(name + " sets sum[i] = sum[i]*a + part[i]*b; n is a multiple of 16.")
	sum, part, n := Load(Param("sum"), GP64()), Load(Param("part"), GP64()), Load(Param("n"), GP64())
	r := s.Regs
	broadcast("a", r[0])
	broadcast("b", r[1])
	eachVector(s, name, n, []Register{sum, part}, []int{4, 4}, func(at []Mem) {
		VMULPS(at[0], r[0], r[2])
		VFMADD231PS(at[1], r[1], r[2])
		VMOVUPS(r[2], at[0])
	})
}

func broadcast(param string, r VecPhysical) {
	m, err := Param(param).Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(m.Addr, r)
}

// finish: dst = sum*x + 0; the zero turns -0 into +0, see finishGeneric.
func finish(s simd.ISA) {
	name := "finish" + s.Name
	TEXT(name, NOSPLIT, "func(dst, sum *float32, n int, x float32)")
	Pragma("noescape")
	Doc(name + " sets dst[i] = sum[i]*x + 0; n is a multiple of 16.")
	dst, sum, n := Load(Param("dst"), GP64()), Load(Param("sum"), GP64()), Load(Param("n"), GP64())
	r := s.Regs
	broadcast("x", r[0])
	s.Zero(r[1])
	eachVector(s, name, n, []Register{dst, sum}, []int{4, 4}, func(at []Mem) {
		VMOVUPS(at[1], r[2])
		VFMADD132PS(r[0], r[1], r[2])
		VMOVUPS(r[2], at[0])
	})
}

// widen: stored elements to float32.
func widen(s simd.ISA, k kind) {
	name := "widen" + k.name + s.Name
	TEXT(name, NOSPLIT, "func(dst *float32, src *byte, n int)")
	Pragma("noescape")
	Doc(name + " converts n stored elements, a multiple of 16.")
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64())
	eachVector(s, name, n, []Register{dst, src}, []int{4, k.unit}, func(at []Mem) {
		k.load(at[1], s.Regs[0])
		VMOVUPS(s.Regs[0], at[0])
	})
}

// toHalf: float32 to half, saturated; NaN becomes 0.
func toHalf(s simd.ISA) {
	name := "toHalf" + s.Name
	TEXT(name, NOSPLIT, "func(dst *uint16, x *float32, n int)")
	Pragma("noescape")
	Doc(name + " converts n elements, a multiple of 16, to the nearest finite half.")
	dst, x, n := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("n"), GP64())
	r := s.Regs
	s.Const("maxHalf", 65504, r[0])
	s.Const("minHalf", -65504, r[1])
	const ordered = 7
	eachVector(s, name, n, []Register{dst, x}, []int{2, 4}, func(at []Mem) {
		VMOVUPS(at[1], r[2])
		if s.Floats == 16 {
			VCMPPS(U8(ordered), r[2], r[2], K1)
			VMINPS_Z(r[0], r[2], K1, r[2])
		} else {
			VCMPPS(U8(ordered), r[2], r[2], r[3])
			VANDPS(r[3], r[2], r[2])
			VMINPS(r[0], r[2], r[2])
		}
		VMAXPS(r[1], r[2], r[2])
		VCVTPS2PH(U8(0), r[2], at[0])
	})
}

// zip: dst gets the elements of a and b in turn. Memory bound: wider vectors gain nothing.
func zip(name, elem string, per int, widen func(...Op), shift func(...Op), bits uint64) {
	name += "AVX2"
	TEXT(name, NOSPLIT, fmt.Sprintf("func(dst *byte, a, b *%s, n int)", elem))
	Pragma("noescape")
	Doc(name + " interleaves n elements each, a multiple of 16.")
	dst, a, b, n := Load(Param("dst"), GP64()), Load(Param("a"), GP64()), Load(Param("b"), GP64()), Load(Param("n"), GP64())
	Label(name + "_loop")
	widen(Mem{Base: a}, Y0)
	widen(Mem{Base: b}, Y1)
	shift(U8(bits), Y1, Y1)
	VPOR(Y0, Y1, Y1)
	VMOVDQU(Y1, Mem{Base: dst})
	ADDQ(U8(32), dst)
	ADDQ(U8(16), a)
	ADDQ(U8(16), b)
	SUBQ(U8(per), n)
	JNZ(LabelRef(name + "_loop"))
	VZEROUPPER()
	RET()
}

// transpose: dst[d][i] = src[i][d] for 16 rows of 32-bit elements. AVX-512 takes 16 columns at a time, AVX2 8 columns of
// 8 rows.
func transpose(s simd.ISA) {
	name := "transpose" + s.Name
	TEXT(name, NOSPLIT, "func(dst, src *float32, pitch, columns int)")
	Pragma("noescape")
	Doc(name + " transposes 16 rows, pitch bytes apart, of a multiple of 16 columns.")
	dst, src, pitch, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("pitch"), GP64()), Load(Param("columns"), GP64())
	p3, p5, p7 := rowPitches(pitch, 8)
	lower := GP64()
	LEAQ(Mem{Base: src, Index: pitch, Scale: 8}, lower)
	Label(name + "_columns")
	if s.Floats == 16 {
		r := s.Regs[:16]
		for i := range 8 {
			VMOVUPS(rowAt(src, pitch, p3, p5, p7, i), r[i])
			VMOVUPS(rowAt(lower, pitch, p3, p5, p7, i), r[8+i])
		}
		r = interleave(r, s.Regs[16:32])
		out := make([]VecPhysical, 16)
		for j := range 4 {
			a, b, c, d := s.Regs[16+j], s.Regs[20+j], s.Regs[24+j], s.Regs[28+j]
			VSHUFF32X4(U8(0x88), r[4+j], r[j], a)
			VSHUFF32X4(U8(0xdd), r[4+j], r[j], b)
			VSHUFF32X4(U8(0x88), r[12+j], r[8+j], c)
			VSHUFF32X4(U8(0xdd), r[12+j], r[8+j], d)
			out[j], out[4+j], out[8+j], out[12+j] = r[j], r[4+j], r[8+j], r[12+j]
			VSHUFF32X4(U8(0x88), c, a, out[j])
			VSHUFF32X4(U8(0x88), d, b, out[4+j])
			VSHUFF32X4(U8(0xdd), c, a, out[8+j])
			VSHUFF32X4(U8(0xdd), d, b, out[12+j])
		}
		for i, x := range out {
			VMOVUPS(x, Mem{Base: dst, Disp: 64 * i})
		}
		ADDQ(U32(16*64), dst)
	} else {
		for part, base := range []Register{src, lower} {
			r := s.Regs[:8]
			for i := range 8 {
				VMOVUPS(rowAt(base, pitch, p3, p5, p7, i), r[i])
			}
			r = interleave(r, s.Regs[8:16])
			for j := range 4 {
				VPERM2F128(U8(0x20), r[4+j], r[j], s.Regs[8+j])
				VPERM2F128(U8(0x31), r[4+j], r[j], s.Regs[12+j])
			}
			for i := range 8 {
				VMOVUPS(s.Regs[8+i], Mem{Base: dst, Disp: 64*i + 32*part})
			}
		}
		ADDQ(U32(8*64), dst)
	}
	ADDQ(U8(s.Bytes()), src)
	ADDQ(U8(s.Bytes()), lower)
	SUBQ(U8(s.Floats), n)
	JNZ(LabelRef(name + "_columns"))
	VZEROUPPER()
	RET()
}

// interleave does the first two steps of a transposition: of the rows 4g..4g+3, register 4g+j comes to hold column 4L+j
// in its 128-bit lane L. It returns the rows' registers again; tmp is as long.
func interleave(r, tmp []VecPhysical) []VecPhysical {
	for i := 0; i < len(r); i += 2 {
		VUNPCKLPS(r[i+1], r[i], tmp[i])
		VUNPCKHPS(r[i+1], r[i], tmp[i+1])
	}
	for g := 0; g < len(r); g += 4 {
		VUNPCKLPD(tmp[g+2], tmp[g], r[g])
		VUNPCKHPD(tmp[g+2], tmp[g], r[g+1])
		VUNPCKLPD(tmp[g+3], tmp[g+1], r[g+2])
		VUNPCKHPD(tmp[g+3], tmp[g+1], r[g+3])
	}
	return r
}

// maxRows is the number of rows that the registers of an instruction set can hold.
func maxRows(s simd.ISA) int {
	if s.Floats == 16 {
		return 8
	}
	return 6
}
