package kernel

import "math"

// Plain Go twins of the vector kernels. The explicit float32 conversions keep compilers of other architectures from
// fusing a product with a sum, which would make results differ between machines.

// Coefficients of 2^r on [-1/2, 1/2], degree 5 with constant term 1: relative error 9.2e-8 (minimax fit, so that
// 2^0 is exactly 1).
const (
	exp2C1 = 0.6931470036506653
	exp2C2 = 0.24022242426872253
	exp2C3 = 0.05550733581185341
	exp2C4 = 0.009671512991189957
	exp2C5 = 0.0013264723820611835

	log2e   = 1.4426950408889634
	log2eHi = 1.4426950216293335 // log2e rounded to float32
	log2eLo = log2e - log2eHi    // so that x*log2e is known to about 48 bits
	exp2Min = -126               // below it 2^x is flushed to zero
	roundC  = 0x1.8p23           // adding and subtracting it rounds to the nearest integer, ties to even
)

// exp2 returns 2^x for x <= 0 within 2 ulp; exactly 1 at 0, 0 below -126 and for NaN.
func exp2(x float32) float32 {
	if !(x >= exp2Min) {
		return 0
	}
	n := float32(x+roundC) - roundC
	return ldexp(exp2Poly(x-n), n)
}

// exp returns e^x within 2 ulp; 0 below -87.33 and for NaN. Arguments above 88 count as 88.
func exp(x float32) float32 {
	if x > 88 {
		x = 88
	}
	t := float32(x * log2eHi)
	if !(t >= exp2Min) {
		return 0
	}
	n := float32(t+roundC) - roundC
	r := float32(float64(x)*log2e - float64(n))
	return ldexp(exp2Poly(r), n)
}

func exp2Poly(r float32) float32 {
	p := float32(exp2C5)
	p = float32(p*r) + exp2C4
	p = float32(p*r) + exp2C3
	p = float32(p*r) + exp2C2
	p = float32(p*r) + exp2C1
	return float32(p*r) + 1
}

// ldexp returns p * 2^n by adding n to p's exponent field; the sum must stay in the normal range.
func ldexp(p, n float32) float32 {
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23)
}

// tanh returns tanh x with an absolute error below 3e-7.
func tanh(x float32) float32 {
	e := exp(2 * float32(math.Abs(float64(x))))
	return float32(math.Copysign(float64(1-2/(e+1)), float64(x)))
}

func reduce(acc *[lanes]float32) float32 {
	for n := lanes / 2; n >= 16; n /= 2 { // (0+2)+(1+3) over the four vectors, then halves
		for i := range n {
			acc[i] += acc[i+n]
		}
	}
	for n := 8; n > 0; n /= 2 {
		for i := range n {
			acc[i] += acc[i+n]
		}
	}
	return acc[0]
}

func sumGeneric(x []float32) float32 {
	var acc [lanes]float32
	for i, v := range x {
		acc[lane(i, len(x))] += v
	}
	return reduce(&acc)
}

func sumSquaresGeneric(x []float32, mean float32) float32 {
	var acc [lanes]float32
	for i, v := range x {
		d := v - mean
		acc[lane(i, len(x))] += float32(d * d)
	}
	return reduce(&acc)
}

func dotGeneric(a, b []float32) float32 {
	var acc [lanes]float32
	for i, v := range a {
		acc[lane(i, len(a))] += float32(v * b[i])
	}
	return reduce(&acc)
}

// lane is the partial sum that element i of n belongs to: whole groups of 64 fill all lanes, whole vectors of 16 left
// over go to lanes 0..15, the rest to 48..63.
func lane(i, n int) int {
	switch {
	case i < n&^(lanes-1):
		return i % lanes
	case i < n&^15:
		return i % 16
	}
	return lanes - 16 + i%16
}

func scaleMulGeneric(dst, x, w []float32, s float32) {
	for i, v := range x {
		dst[i] = float32(v*s) * w[i]
	}
}

func normalizeGeneric(dst, x, w, b []float32, mean, inv float32) {
	for i, v := range x {
		y := float32(float32((v-mean)*inv) * w[i])
		if b != nil {
			y += b[i]
		}
		dst[i] = y
	}
}

func addGeneric(dst, x []float32) {
	for i, v := range x {
		dst[i] += v
	}
}

func scaleGeneric(x []float32, s float32) {
	for i := range x {
		x[i] *= s
	}
}

func siluMulGeneric(dst, gate, up []float32) {
	for i, g := range gate {
		dst[i] = g / (1 + exp(-g)) * up[i]
	}
}

// geluTanhMulGeneric: x/2*(1+tanh(u)) = x/(1+exp(-2u)) with u = √(2/π)(x + 0.044715x³).
func geluTanhMulGeneric(dst, gate, up []float32) {
	for i, g := range gate {
		y := g / (1 + exp(geluTanhArg(g)))
		if up != nil {
			y *= up[i]
		}
		dst[i] = y
	}
}

const (
	geluTanhA = -1.5957691216057308   // -2√(2/π)
	geluTanhB = -0.071354816272600252 // -2√(2/π) * 0.044715
)

func geluTanhArg(x float32) float32 {
	return x * (float32(float32(x*x)*geluTanhB) + geluTanhA)
}

func geluGeneric(x []float32) {
	for i, v := range x {
		x[i] = float32(0.5 * float64(v) * (1 + math.Erf(float64(v)*math.Sqrt2/2)))
	}
}

// softCapGeneric sets x[i] = out * tanh(x[i]/limit).
func softCapGeneric(x []float32, limit, out float32) {
	for i, v := range x {
		x[i] = out * tanh(v*(1/limit))
	}
}

func maxOfGeneric(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	return m
}

// expSumGeneric sets x[i] = exp(x[i]-top) and returns the sum over 16 lanes.
func expSumGeneric(x []float32, top float32) float32 {
	var acc [lanes]float32
	for i, v := range x {
		x[i] = exp(v - top)
		acc[i%16] += x[i]
	}
	return reduce(&acc)
}

// indexOf returns the first index of v in x, or 0.
func indexOf(x []float32, v float32) int {
	for i, y := range x {
		if y == v {
			return i
		}
	}
	return 0
}
