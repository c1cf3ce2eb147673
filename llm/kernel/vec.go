package kernel

import "math"

// The functions in this file work on one vector. Each has a plain Go twin (vec_generic.go) and, on amd64, AVX2 and
// AVX-512 versions that produce the same bits as each other: element i always meets the same operations, and sums
// run over 64 fixed lanes (element i in lane i mod 64, but the last len mod 16 elements in lanes 48..63) that are
// added as a tree. Results therefore depend on the values and the length only, never on alignment.

// lanes is the number of partial sums that Dot and the norms keep.
const lanes = 64

// RMSNorm sets dst[i] = x[i] * w[i] / sqrt(mean(x²) + eps). dst may be x. len(dst) == len(x) == len(w).
func RMSNorm(dst, x, w []float32, eps float32) {
	if len(x) == 0 {
		return
	}
	mustLen(len(x), len(dst), len(w))
	inv := 1 / float32(math.Sqrt(float64(sumSquares(x, 0)/float32(len(x))+eps)))
	scaleMul(dst, x, w, inv)
}

// LayerNorm sets dst[i] = (x[i]-mean) * w[i] / sqrt(variance + eps) + b[i]; a nil b counts as zeros. dst may be x.
func LayerNorm(dst, x, w, b []float32, eps float32) {
	if len(x) == 0 {
		return
	}
	mustLen(len(x), len(dst), len(w))
	if b != nil {
		mustLen(len(x), len(b))
	}
	n := float32(len(x))
	mean := sum(x) / n
	inv := 1 / float32(math.Sqrt(float64(sumSquares(x, mean)/n+eps)))
	normalize(dst, x, w, b, mean, inv)
}

// Add sets dst[i] += x[i]. len(x) == len(dst).
func Add(dst, x []float32) {
	mustLen(len(dst), len(x))
	add(dst, x)
}

// Scale sets x[i] *= s.
func Scale(x []float32, s float32) { scale(x, s) }

// Dot returns the sum of a[i]*b[i]. len(a) == len(b).
func Dot(a, b []float32) float32 {
	mustLen(len(a), len(b))
	return dot(a, b)
}

// SiLUMul sets dst[i] = gate[i] / (1 + exp(-gate[i])) * up[i], within 6 ulp. dst may be gate or up.
func SiLUMul(dst, gate, up []float32) {
	mustLen(len(dst), len(gate), len(up))
	siluMul(dst, gate, up)
}

// GELUTanhMul sets dst[i] = gelu(gate[i]) * up[i] with the tanh approximation of gelu that Gemma uses, within
// 16 ulp of a gelu of at least 1e-3 and 2e-9 below. A nil up counts as ones. dst may be gate or up.
func GELUTanhMul(dst, gate, up []float32) {
	mustLen(len(dst), len(gate))
	if up != nil {
		mustLen(len(dst), len(up))
	}
	geluTanhMul(dst, gate, up)
}

// GELU sets x[i] = x[i]/2 * (1 + erf(x[i]/√2)), the exact form that BERT uses, within 8 ulp of a result of at
// least 0.01 and 8e-9 below.
func GELU(x []float32) { gelu(x) }

// Softmax sets x[i] = exp(x[i]-max(x)) / Σ exp(x[j]-max(x)). Entries of -Inf or NaN become exactly 0. Without any finite
// entry, or with +Inf, the result is not a number.
func Softmax(x []float32) {
	if len(x) == 0 {
		return
	}
	total := expSum(x, maxOf(x))
	scale(x, 1/total)
}

// SoftCap sets x[i] = limit * tanh(x[i]/limit); the absolute error is below 3e-7 * limit. limit must be positive.
func SoftCap(x []float32, limit float32) { softCap(x, limit, limit) }

// ArgMax returns the index of the largest element, the lowest index among equals. NaN never wins; ArgMax of an empty
// or all-NaN vector is 0.
func ArgMax(x []float32) int {
	const part = 4096 // the winner's part is searched again, and alone
	best, at := maxOf(x[:min(part, len(x))]), 0
	for i := part; i < len(x); i += part {
		if m := maxOf(x[i:min(i+part, len(x))]); m > best {
			best, at = m, i
		}
	}
	return at + indexOf(x[at:min(at+part, len(x))], best)
}

// mustLen panics unless every length equals want: a mismatch is a bug of the caller that assembly must not see.
func mustLen(want int, got ...int) {
	for _, n := range got {
		if n != want {
			panic("kernel: vectors differ in length")
		}
	}
}
