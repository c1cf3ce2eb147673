// Command vec generates the assembly of the functions on one vector: norms, activations, softmax, rotations.
//
// Lengths are multiples of 16. What is left over comes, where a kernel sums, as a 16-element tail that the caller has
// padded; element-wise kernels are called again on a padded copy. Every kernel exists for AVX-512 and for AVX2 with FMA,
// with the same operations on every element and the same lanes, so results are equal bit for bit.
package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"

	"ragd/llm/kernel/_asm/simd"
)

const (
	block = 16 // elements that lengths are multiples of
	lanes = 64 // partial sums
)

func main() {
	ConstraintExpr("!purego")
	for _, s := range []simd.ISA{simd.AVX512, simd.AVX2} {
		sumKernel(s, "sum", 1, func(at []Mem, acc, tmp VecPhysical) { VADDPS(at[0], acc, acc) })
		sumKernel(s, "dot", 2, func(at []Mem, acc, tmp VecPhysical) {
			VMOVUPS(at[0], tmp)
			VFMADD231PS(at[1], tmp, acc)
		})
		sumSquares(s)
		scaleMul(s)
		normalize(s)
		add(s)
		scale(s)
		siluMul(s)
		geluTanhMul(s)
		gelu(s)
		softCap(s)
		maxOf(s)
		expSum(s)
		rotateHalves(s)
		rotatePairs(s)
	}
	Generate()
}

func begin(s simd.ISA, name, signature, doc string) string {
	name += s.Name
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(name + " " + doc)
	return name
}

func pointer(param string) Register { return Load(Param(param), GP64()) }

func broadcast(param string, r VecPhysical) {
	m, err := Param(param).Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(m.Addr, r)
}

// eachVector emits a loop over n elements, n > 0, that hands body the address of each vector of every base.
func eachVector(s simd.ISA, name string, n Register, bases []Register, body func(at []Mem)) {
	Label(name + "_loop")
	for v := range block / s.Floats {
		body(vectors(s, bases, v))
	}
	for _, b := range bases {
		ADDQ(U8(4*block), b)
	}
	SUBQ(U8(block), n)
	JNZ(LabelRef(name + "_loop"))
}

func vectors(s simd.ISA, bases []Register, v int) []Mem {
	at := make([]Mem, len(bases))
	for j, b := range bases {
		at[j] = Mem{Base: b, Disp: v * s.Bytes()}
	}
	return at
}

func end() {
	VZEROUPPER()
	RET()
}

// lanesLoop accumulates over 64 lanes: whole groups of 64 into all, whole vectors of 16 into the first 16, the tails
// into the last 16; then it adds the lanes as a tree and stores the result.
func lanesLoop(s simd.ISA, name string, n Register, bases, tails []Register, tmp VecPhysical, body func(at []Mem, acc VecPhysical)) {
	acc := s.Regs[:lanes/s.Floats]
	for _, r := range acc {
		s.Zero(r)
	}
	advance := func(elems int) {
		for _, b := range bases {
			ADDQ(I32(4*elems), b)
		}
		SUBQ(U8(elems), n)
	}
	Label(name + "_groups")
	CMPQ(n, U8(lanes))
	JLT(LabelRef(name + "_blocks"))
	for v, r := range acc {
		body(vectors(s, bases, v), r)
	}
	advance(lanes)
	JMP(LabelRef(name + "_groups"))
	Label(name + "_blocks")
	TESTQ(n, n)
	JZ(LabelRef(name + "_tail"))
	per := block / s.Floats
	for v := range per {
		body(vectors(s, bases, v), acc[v])
	}
	advance(block)
	JMP(LabelRef(name + "_blocks"))
	Label(name + "_tail")
	for v := range per {
		body(vectors(s, tails, v), acc[3*per+v])
	}
	for v := range 2 * per {
		VADDPS(acc[2*per+v], acc[v], acc[v])
	}
	for v := range per {
		VADDPS(acc[per+v], acc[v], acc[v])
	}
	s.Reduce(acc[:per], tmp, func(a, b, d Op) { VADDPS(a, b, d) })
	Store(X0, ReturnIndex(0))
	end()
}

func sumKernel(s simd.ISA, name string, args int, body func(at []Mem, acc, tmp VecPhysical)) {
	signature := "func(a *float32, n int, tailA *float32) float32"
	if args == 2 {
		signature = "func(a, b *float32, n int, tailA, tailB *float32) float32"
	}
	name = begin(s, name, signature, "sums n elements and a tail.")
	n := pointer("n")
	bases, tails := []Register{pointer("a")}, []Register{pointer("tailA")}
	if args == 2 {
		bases, tails = append(bases, pointer("b")), append(tails, pointer("tailB"))
	}
	tmp := s.Regs[15]
	lanesLoop(s, name, n, bases, tails, tmp, func(at []Mem, acc VecPhysical) { body(at, acc, tmp) })
}

func sumSquares(s simd.ISA) {
	name := begin(s, "sumSquares", "func(x *float32, n int, tail *float32, mean float32) float32", "sums (x-mean)² over n elements and a tail.")
	x, n, tail := pointer("x"), pointer("n"), pointer("tail")
	mean, tmp := s.Regs[14], s.Regs[15]
	broadcast("mean", mean)
	lanesLoop(s, name, n, []Register{x}, []Register{tail}, tmp, func(at []Mem, acc VecPhysical) {
		VMOVUPS(at[0], tmp)
		VSUBPS(mean, tmp, tmp)
		VFMADD231PS(tmp, tmp, acc)
	})
}

func scaleMul(s simd.ISA) {
	name := begin(s, "scaleMul", "func(dst, x, w *float32, n int, f float32)", "sets dst = x*f*w.")
	dst, x, w, n := pointer("dst"), pointer("x"), pointer("w"), pointer("n")
	r := s.Regs
	broadcast("f", r[0])
	eachVector(s, name, n, []Register{dst, x, w}, func(at []Mem) {
		VMULPS(at[1], r[0], r[1])
		VMULPS(at[2], r[1], r[1])
		VMOVUPS(r[1], at[0])
	})
	end()
}

func normalize(s simd.ISA) {
	name := begin(s, "normalize", "func(dst, x, w, b *float32, stepB, n int, mean, inv float32)", "sets dst = (x-mean)*inv*w + b; b advances by stepB bytes per 16 elements.")
	dst, x, w, b, step, n := pointer("dst"), pointer("x"), pointer("w"), pointer("b"), pointer("stepB"), pointer("n")
	r := s.Regs
	broadcast("mean", r[0])
	broadcast("inv", r[1])
	Label(name + "_loop")
	for v := range block / s.Floats {
		at := vectors(s, []Register{dst, x, w, b}, v)
		VMOVUPS(at[1], r[2])
		VSUBPS(r[0], r[2], r[2])
		VMULPS(r[1], r[2], r[2])
		VMOVUPS(at[2], r[3])
		VFMADD213PS(at[3], r[2], r[3])
		VMOVUPS(r[3], at[0])
	}
	for _, p := range []Register{dst, x, w} {
		ADDQ(U8(4*block), p)
	}
	ADDQ(step, b)
	SUBQ(U8(block), n)
	JNZ(LabelRef(name + "_loop"))
	end()
}

func add(s simd.ISA) {
	name := begin(s, "add", "func(dst, x *float32, n int)", "sets dst += x.")
	dst, x, n := pointer("dst"), pointer("x"), pointer("n")
	eachVector(s, name, n, []Register{dst, x}, func(at []Mem) {
		VMOVUPS(at[0], s.Regs[0])
		VADDPS(at[1], s.Regs[0], s.Regs[0])
		VMOVUPS(s.Regs[0], at[0])
	})
	end()
}

func scale(s simd.ISA) {
	name := begin(s, "scale", "func(x *float32, n int, f float32)", "sets x *= f.")
	x, n := pointer("x"), pointer("n")
	broadcast("f", s.Regs[0])
	eachVector(s, name, n, []Register{x}, func(at []Mem) {
		VMULPS(at[0], s.Regs[0], s.Regs[1])
		VMOVUPS(s.Regs[1], at[0])
	})
	end()
}

// expMax keeps e^x finite; see exp in vec_generic.go.
const expMax = 88

func siluMul(s simd.ISA) {
	name := begin(s, "siluMul", "func(dst, gate, up *float32, n int)", "sets dst = gate/(1+exp(-gate))*up.")
	dst, gate, up, n := pointer("dst"), pointer("gate"), pointer("up"), pointer("n")
	r := s.Regs
	x, t, p, mask, g := r[0], r[1], r[2], r[3], r[4]
	e := s.NewExp(r[5:15])
	eachVector(s, name, n, []Register{dst, gate, up}, func(at []Mem) {
		VMOVUPS(at[1], g)
		VXORPS(s.Vector("signBit", math.Copysign(0, -1)), g, x)
		VMINPS(x, maxArg(s, t), x)
		e.Natural(x, t, p, mask)
		VADDPS(e.One(), x, x)
		VDIVPS(x, g, g)
		VMULPS(at[2], g, g)
		VMOVUPS(g, at[0])
	})
	end()
}

// maxArg loads the largest argument of e^x.
func maxArg(s simd.ISA, r VecPhysical) VecPhysical {
	VMOVUPS(s.Vector("expMax", expMax), r)
	return r
}

func geluTanhMul(s simd.ISA) {
	name := begin(s, "geluTanhMul", "func(dst, gate, up *float32, stepUp, n int)", "sets dst = gate/(1+exp(-2u))*up with u = √(2/π)(gate + 0.044715 gate³); up advances by stepUp bytes per 16 elements.")
	dst, gate, up, step, n := pointer("dst"), pointer("gate"), pointer("up"), pointer("stepUp"), pointer("n")
	r := s.Regs
	x, t, p, mask, g := r[0], r[1], r[2], r[3], r[4]
	e := s.NewExp(r[5:15])
	Label(name + "_loop")
	for v := range block / s.Floats {
		at := vectors(s, []Register{dst, gate, up}, v)
		VMOVUPS(at[1], g)
		VMULPS(g, g, x)
		VMOVUPS(s.Vector("geluTanhB", -2*0.7978845608028654*0.044715), t)
		VFMADD213PS(s.Vector("geluTanhA", -2*0.7978845608028654), t, x)
		VMULPS(g, x, x)
		VMINPS(x, maxArg(s, t), x)
		e.Natural(x, t, p, mask)
		VADDPS(e.One(), x, x)
		VDIVPS(x, g, g)
		VMULPS(at[2], g, g)
		VMOVUPS(g, at[0])
	}
	ADDQ(U8(4*block), dst)
	ADDQ(U8(4*block), gate)
	ADDQ(step, up)
	SUBQ(U8(block), n)
	JNZ(LabelRef(name + "_loop"))
	end()
}

// Coefficients of Φ(-a)*exp(a²/2) as a polynomial in t = 1/(1+0.3a) without constant term, for a in [0, 13.2]:
// relative error 1.3e-7 (least squares, reweighted towards the largest error).
var normalTail = []float64{
	0.1196245402097702, 0.12082630395889282, 0.09946511685848236, 0.13003243505954742,
	-0.05644975230097771, 0.2093460112810135, -0.15893350541591644, 0.03608878329396248,
}

// gelu: x*Φ(x) = max(x, 0) - a*Φ(-a) with a = |x|, at most 20, beyond which the second term is zero.
func gelu(s simd.ISA) {
	name := begin(s, "gelu", "func(x *float32, n int)", "sets x = x*Φ(x), Φ being the normal distribution.")
	base, n := pointer("x"), pointer("n")
	r := s.Regs
	x, t, p, mask, a := r[0], r[1], r[2], r[3], r[4]
	e := s.NewExp(r[5:15])
	q := r[15]
	eachVector(s, name, n, []Register{base}, func(at []Mem) {
		VMOVUPS(at[0], a)
		VANDPS(s.Vector("absMask", math.NaN()), a, a)
		VMOVUPS(s.Vector("geluMax", 20), t)
		VMINPS(a, t, a)
		VMULPS(a, a, x)
		VMULPS(s.Vector("minusHalf", -0.5), x, x)
		e.Natural(x, t, p, mask)
		VMULPS(a, x, x)
		VMOVUPS(s.Vector("geluSlope", 0.3), t)
		VFMADD213PS(e.One(), a, t)
		VDIVPS(t, e.One(), t)
		VMOVUPS(s.Vector("normalTail8", normalTail[7]), q)
		for i := 6; i >= 0; i-- {
			VFMADD213PS(s.Vector("normalTail"+string(rune('1'+i)), normalTail[i]), t, q)
		}
		VMULPS(t, q, q)
		s.Zero(p)
		VMOVUPS(at[0], t)
		VMAXPS(t, p, p)
		VFNMADD231PS(q, x, p)
		VMOVUPS(p, at[0])
	})
	end()
}

// softCap: tanh(y) = sign(y) * (1 - 2/(exp(2|y|)+1)) with y = x*inverse.
func softCap(s simd.ISA) {
	name := begin(s, "softCap", "func(x *float32, n int, inverse, out float32)", "sets x = out*tanh(x*inverse).")
	base, n := pointer("x"), pointer("n")
	r := s.Regs
	x, t, p, mask, y := r[0], r[1], r[2], r[3], r[4]
	e := s.NewExp(r[5:15])
	eachVector(s, name, n, []Register{base}, func(at []Mem) {
		broadcast("inverse", y)
		VMULPS(at[0], y, y)
		VANDPS(s.Vector("absMask", math.NaN()), y, x)
		VADDPS(x, x, x)
		VMINPS(x, maxArg(s, t), x)
		e.Natural(x, t, p, mask)
		VADDPS(e.One(), x, x)
		VMOVUPS(s.Vector("two", 2), t)
		VDIVPS(x, t, x)
		VSUBPS(x, e.One(), x)
		broadcast("out", t)
		VMULPS(t, x, x)
		VANDPS(s.Vector("signBit", math.Copysign(0, -1)), y, y)
		VORPS(y, x, x)
		VMOVUPS(x, at[0])
	})
	end()
}

func maxOf(s simd.ISA) {
	name := begin(s, "maxOf", "func(x *float32, n int) float32", "returns the largest of n elements; NaN is passed over.")
	x, n := pointer("x"), pointer("n")
	r := s.Regs
	per := block / s.Floats
	acc := r[:4*per]
	s.Const("negInf", math.Inf(-1), r[0])
	for _, a := range acc[1:] {
		VMOVAPS(r[0], a)
	}
	Label(name + "_groups")
	CMPQ(n, U8(lanes))
	JLT(LabelRef(name + "_blocks"))
	for v, a := range acc {
		VMAXPS(Mem{Base: x, Disp: v * s.Bytes()}, a, a)
	}
	ADDQ(I32(4*lanes), x)
	SUBQ(U8(lanes), n)
	JMP(LabelRef(name + "_groups"))
	Label(name + "_blocks")
	TESTQ(n, n)
	JZ(LabelRef(name + "_reduce"))
	for v := range per {
		VMAXPS(Mem{Base: x, Disp: v * s.Bytes()}, acc[v], acc[v])
	}
	ADDQ(U8(4*block), x)
	SUBQ(U8(block), n)
	JMP(LabelRef(name + "_blocks"))
	Label(name + "_reduce")
	for v := range 2 * per {
		VMAXPS(acc[2*per+v], acc[v], acc[v])
	}
	for v := range per {
		VMAXPS(acc[per+v], acc[v], acc[v])
	}
	s.Reduce(acc[:per], r[15], func(a, b, d Op) { VMAXPS(a, b, d) })
	Store(X0, ReturnIndex(0))
	end()
}

func expSum(s simd.ISA) {
	name := begin(s, "expSum", "func(x *float32, n int, top float32, sum *float32)", "sets x = exp(x-top) and adds to 16 lanes of sum.")
	base, n, total := pointer("x"), pointer("n"), pointer("sum")
	r := s.Regs
	x, t, p, mask := r[0], r[1], r[2], r[3]
	e := s.NewExp(r[4:14])
	per := block / s.Floats
	sum := r[14 : 14+per]
	for v := range per {
		VMOVUPS(Mem{Base: total, Disp: v * s.Bytes()}, sum[v])
	}
	v := 0
	eachVector(s, name, n, []Register{base}, func(at []Mem) {
		broadcast("top", t)
		VMOVUPS(at[0], x)
		VSUBPS(t, x, x)
		e.Natural(x, t, p, mask)
		VADDPS(x, sum[v], sum[v])
		VMOVUPS(x, at[0])
		v++
	})
	for v := range per {
		VMOVUPS(sum[v], Mem{Base: total, Disp: v * s.Bytes()})
	}
	end()
}

func rotateHalves(s simd.ISA) {
	name := begin(s, "rotateHalves", "func(lo, hi, cos, sin *float32, n int)", "rotates n pairs (lo, hi).")
	lo, hi, cos, sin, n := pointer("lo"), pointer("hi"), pointer("cos"), pointer("sin"), pointer("n")
	a, b, c, d, t, u := s.Regs[0], s.Regs[1], s.Regs[2], s.Regs[3], s.Regs[4], s.Regs[5]
	eachVector(s, name, n, []Register{lo, hi, cos, sin}, func(at []Mem) {
		VMOVUPS(at[0], a)
		VMOVUPS(at[1], b)
		VMOVUPS(at[2], c)
		VMOVUPS(at[3], d)
		VMULPS(b, d, t)
		VMULPS(a, d, u)
		VFMSUB231PS(a, c, t) // lo*cos - hi*sin
		VFMADD231PS(b, c, u) // hi*cos + lo*sin
		VMOVUPS(t, at[0])
		VMOVUPS(u, at[1])
	})
	end()
}

func rotatePairs(s simd.ISA) {
	name := begin(s, "rotatePairs", "func(x, cos, sin *float32, n int)", "sets x = x*cos + swapped(x)*sin, where swapped exchanges the elements of each pair.")
	x, cos, sin, n := pointer("x"), pointer("cos"), pointer("sin"), pointer("n")
	a, b := s.Regs[0], s.Regs[1]
	eachVector(s, name, n, []Register{x, cos, sin}, func(at []Mem) {
		VMOVUPS(at[0], a)
		VPERMILPS(U8(0xb1), a, b)
		VMULPS(at[2], b, b)
		VFMADD231PS(at[1], a, b)
		VMOVUPS(b, at[0])
	})
	end()
}
