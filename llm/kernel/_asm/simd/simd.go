// Package simd holds what the generators of the float kernels share: the two vector widths, sums across a vector and the
// exponential.
package simd

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// ISA is an instruction set: a vector width and its registers.
type ISA struct {
	Name   string
	Floats int // per vector
	Regs   []VecPhysical
}

// The instruction sets. AVX2 stands for AVX2 with FMA and F16C.
var (
	AVX512 = ISA{"AVX512", 16, []VecPhysical{
		Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
		Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31,
	}}
	AVX2 = ISA{"AVX2", 8, []VecPhysical{
		Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15,
	}}
)

// Bytes is the size of a vector.
func (s ISA) Bytes() int { return 4 * s.Floats }

// Zero clears a register.
func (s ISA) Zero(r VecPhysical) {
	if s.Floats == 16 {
		VPXORD(r, r, r)
	} else {
		VXORPS(r, r, r)
	}
}

// constants holds the data that was emitted so far, by name.
var constants = map[string]Mem{}

// Const broadcasts a float32 constant of the given name.
func (s ISA) Const(name string, value float64, r VecPhysical) {
	m, ok := constants[name]
	if !ok {
		m = ConstData(name, U32(math.Float32bits(float32(value))))
		constants[name] = m
	}
	VBROADCASTSS(m, r)
}

// Vector returns memory that holds a float32 constant 16 times, to be an operand where registers are short. The value NaN
// stands for the mask of everything but the sign.
func (s ISA) Vector(name string, value float64) Mem {
	name += "x16"
	m, ok := constants[name]
	if !ok {
		bits := math.Float32bits(float32(value))
		if math.IsNaN(value) {
			bits = 0x7fffffff
		}
		m = GLOBL(name, RODATA|NOPTR)
		for i := range 16 {
			DATA(4*i, U32(bits))
		}
		constants[name] = m
	}
	return m
}

// Reduce combines 16 lanes, held in one register (AVX-512) or two (AVX2), to one in element 0 of the first: lane i with
// i+8, then 4, 2 and 1. op takes two sources and a destination.
func (s ISA) Reduce(lanes []VecPhysical, tmp VecPhysical, op func(a, b, d Op)) {
	r := lanes[0]
	if s.Floats == 16 {
		VEXTRACTF64X4(U8(1), r, tmp.AsY())
		op(tmp.AsY(), r.AsY(), r.AsY())
	} else {
		op(lanes[1], r, r)
	}
	VEXTRACTF128(U8(1), r.AsY(), tmp.AsX())
	op(tmp.AsX(), r.AsX(), r.AsX())
	VPERMILPS(U8(0x4e), r.AsX(), tmp.AsX())
	op(tmp.AsX(), r.AsX(), r.AsX())
	VPERMILPS(U8(0xb1), r.AsX(), tmp.AsX())
	op(tmp.AsX(), r.AsX(), r.AsX())
}

// Coefficients of 2^r on [-1/2, 1/2]; must equal those of exp2Poly.
var exp2 = []float64{1, 0.6931470036506653, 0.24022242426872253, 0.05550733581185341, 0.009671512991189957, 0.0013264723820611835}

const (
	log2e  = math.Log2E
	roundC = 0x1.8p23 // adding and subtracting it rounds to the nearest integer
)

// Exp computes powers: 2^x = 2^n * p(x-n) with n = x rounded to nearest; n goes into the exponent field by an integer
// addition. Below 2^-126, which includes -Inf, and for NaN the result is 0; arguments must stay below 2^127.
type Exp struct {
	s                  ISA
	min, round, hi, lo VecPhysical
	c                  []VecPhysical
}

// NewExp2 loads the constants of 2^x; it takes 8 registers.
func (s ISA) NewExp2(regs []VecPhysical) Exp {
	e := Exp{s: s, min: regs[0], round: regs[1], c: regs[2:8]}
	s.Const("exp2Min", -126, e.min)
	s.Const("roundC", roundC, e.round)
	for i, c := range exp2 {
		s.Const("exp2C"+string(rune('0'+i)), c, e.c[i])
	}
	return e
}

// NewExp loads the constants of e^x; it takes 10 registers.
func (s ISA) NewExp(regs []VecPhysical) Exp {
	e := s.NewExp2(regs)
	e.hi, e.lo = regs[8], regs[9]
	hi := float64(float32(log2e))
	s.Const("log2eHi", hi, e.hi)
	s.Const("log2eLo", log2e-hi, e.lo)
	return e
}

// One is the constant 1.
func (e Exp) One() VecPhysical { return e.c[0] }

// Power replaces x by 2^x; t, p and mask are temporaries (mask in AVX2 only, AVX-512 takes K1).
func (e Exp) Power(x, t, p, mask VecPhysical) {
	e.inRange(x, mask)
	VADDPS(e.round, x, t)
	VSUBPS(e.round, t, p)
	VSUBPS(p, x, x)
	e.finish(x, t, p, mask)
}

// Natural replaces x by e^x: x*log2(e) is taken in two parts, so that large arguments lose nothing.
func (e Exp) Natural(x, t, p, mask VecPhysical) {
	VMULPS(e.hi, x, t)
	e.inRange(t, mask)
	VADDPS(e.round, t, t)
	VSUBPS(e.round, t, p) // n
	// r = x*lo + (x*hi - n); the order keeps x, which both products need, until last.
	VFMSUB231PS(e.hi, x, p)
	VFMADD132PS(e.lo, p, x)
	e.finish(x, t, p, mask)
}

func (e Exp) inRange(x, mask VecPhysical) {
	const greaterEqual = 0x1d
	if e.s.Floats == 16 {
		VCMPPS(U8(greaterEqual), e.min, x, K1)
	} else {
		VCMPPS(U8(greaterEqual), e.min, x, mask)
	}
}

// finish: x holds the remainder, t the rounded exponent in its low bits.
func (e Exp) finish(x, t, p, mask VecPhysical) {
	VMOVAPS(e.c[5], p)
	for i := 4; i >= 0; i-- {
		VFMADD213PS(e.c[i], x, p)
	}
	VPSLLD(U8(23), t, t)
	if e.s.Floats == 16 {
		VPADDD_Z(t, p, K1, x)
	} else {
		VPADDD(t, p, x)
		VANDPS(mask, x, x)
	}
}
