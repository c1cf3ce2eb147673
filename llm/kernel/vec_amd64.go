//go:build !purego

package kernel

import "math"

// Each function hands whole blocks of 16 elements to the assembly and what is left over as a padded copy, so that every
// element meets the same instructions whatever the length.

type block16 = [16]float32

// tail16 returns the last len(x) mod 16 elements, padded.
func tail16(x []float32, pad float32) (t block16) {
	n := copy(t[:], x[len(x)&^15:])
	for i := n; i < len(t); i++ {
		t[i] = pad
	}
	return t
}

func sum(x []float32) float32 {
	tail := tail16(x, 0)
	switch active {
	case AVX512:
		return sumAVX512(first(x), len(x)&^15, &tail[0])
	case AVX2:
		return sumAVX2(first(x), len(x)&^15, &tail[0])
	}
	return sumGeneric(x)
}

func sumSquares(x []float32, mean float32) float32 {
	tail := tail16(x, mean)
	switch active {
	case AVX512:
		return sumSquaresAVX512(first(x), len(x)&^15, &tail[0], mean)
	case AVX2:
		return sumSquaresAVX2(first(x), len(x)&^15, &tail[0], mean)
	}
	return sumSquaresGeneric(x, mean)
}

func dot(a, b []float32) float32 {
	tailA, tailB := tail16(a, 0), tail16(b, 0)
	switch active {
	case AVX512:
		return dotAVX512(first(a), first(b), len(a)&^15, &tailA[0], &tailB[0])
	case AVX2:
		return dotAVX2(first(a), first(b), len(a)&^15, &tailA[0], &tailB[0])
	}
	return dotGeneric(a, b)
}

// first returns a pointer to the first element, or nil.
func first(x []float32) *float32 {
	if len(x) == 0 {
		return nil
	}
	return &x[0]
}

func scaleMul(dst, x, w []float32, s float32) {
	if active == Generic {
		scaleMulGeneric(dst, x, w, s)
		return
	}
	n := len(x) &^ 15
	switch {
	case n == 0:
	case active == AVX512:
		scaleMulAVX512(&dst[0], &x[0], &w[0], n, s)
	default:
		scaleMulAVX2(&dst[0], &x[0], &w[0], n, s)
	}
	if n < len(x) {
		a, b := tail16(x, 0), tail16(w, 0)
		scaleMul(a[:], a[:], b[:], s)
		copy(dst[n:], a[:])
	}
}

var zeros, ones = block16{}, block16{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}

func normalize(dst, x, w, b []float32, mean, inv float32) {
	if active == Generic {
		normalizeGeneric(dst, x, w, b, mean, inv)
		return
	}
	n := len(x) &^ 15
	bias, step := &zeros[0], 0
	if len(b) > 0 {
		bias, step = &b[0], 64
	}
	switch {
	case n == 0:
	case active == AVX512:
		normalizeAVX512(&dst[0], &x[0], &w[0], bias, step, n, mean, inv)
	default:
		normalizeAVX2(&dst[0], &x[0], &w[0], bias, step, n, mean, inv)
	}
	if n < len(x) {
		tx, tw := tail16(x, 0), tail16(w, 0)
		var tb block16
		if b != nil {
			tb = tail16(b, 0)
		}
		normalize(tx[:], tx[:], tw[:], tb[:], mean, inv)
		copy(dst[n:], tx[:])
	}
}

func add(dst, x []float32) {
	if active == Generic {
		addGeneric(dst, x)
		return
	}
	n := len(x) &^ 15
	switch {
	case n == 0:
	case active == AVX512:
		addAVX512(&dst[0], &x[0], n)
	default:
		addAVX2(&dst[0], &x[0], n)
	}
	addGeneric(dst[n:], x[n:])
}

func scale(x []float32, s float32) {
	if active == Generic {
		scaleGeneric(x, s)
		return
	}
	n := len(x) &^ 15
	switch {
	case n == 0:
	case active == AVX512:
		scaleAVX512(&x[0], n, s)
	default:
		scaleAVX2(&x[0], n, s)
	}
	scaleGeneric(x[n:], s)
}

func siluMul(dst, gate, up []float32) {
	if active == Generic {
		siluMulGeneric(dst, gate, up)
		return
	}
	n := len(dst) &^ 15
	switch {
	case n == 0:
	case active == AVX512:
		siluMulAVX512(&dst[0], &gate[0], &up[0], n)
	default:
		siluMulAVX2(&dst[0], &gate[0], &up[0], n)
	}
	if n < len(dst) {
		a, b := tail16(gate, 0), tail16(up, 0)
		siluMul(a[:], a[:], b[:])
		copy(dst[n:], a[:])
	}
}

func geluTanhMul(dst, gate, up []float32) {
	if active == Generic {
		geluTanhMulGeneric(dst, gate, up)
		return
	}
	n := len(dst) &^ 15
	factor, step := &ones[0], 0
	if len(up) > 0 {
		factor, step = &up[0], 64
	}
	switch {
	case n == 0:
	case active == AVX512:
		geluTanhMulAVX512(&dst[0], &gate[0], factor, step, n)
	default:
		geluTanhMulAVX2(&dst[0], &gate[0], factor, step, n)
	}
	if n < len(dst) {
		a, b := tail16(gate, 0), ones
		if up != nil {
			b = tail16(up, 0)
		}
		geluTanhMul(a[:], a[:], b[:])
		copy(dst[n:], a[:])
	}
}

func gelu(x []float32) {
	if active == Generic {
		geluGeneric(x)
		return
	}
	n := len(x) &^ 15
	switch {
	case n == 0:
	case active == AVX512:
		geluAVX512(&x[0], n)
	default:
		geluAVX2(&x[0], n)
	}
	if n < len(x) {
		t := tail16(x, 0)
		gelu(t[:])
		copy(x[n:], t[:])
	}
}

func softCap(x []float32, limit, out float32) {
	if active == Generic {
		softCapGeneric(x, limit, out)
		return
	}
	n := len(x) &^ 15
	switch {
	case n == 0:
	case active == AVX512:
		softCapAVX512(&x[0], n, 1/limit, out)
	default:
		softCapAVX2(&x[0], n, 1/limit, out)
	}
	if n < len(x) {
		t := tail16(x, 0)
		softCap(t[:], limit, out)
		copy(x[n:], t[:])
	}
}

func maxOf(x []float32) float32 {
	n := len(x) &^ 15
	switch {
	case n == 0 || active == Generic:
		return maxOfGeneric(x)
	}
	var m float32
	if active == AVX512 {
		m = maxOfAVX512(&x[0], n)
	} else {
		m = maxOfAVX2(&x[0], n)
	}
	return max(m, maxOfGeneric(x[n:]))
}

func expSum(x []float32, top float32) float32 {
	if active == Generic {
		return expSumGeneric(x, top)
	}
	n := len(x) &^ 15
	var acc [lanes]float32
	expBlocks(x[:n], top, &acc)
	if n < len(x) {
		t := tail16(x, float32(math.Inf(-1)))
		expBlocks(t[:], top, &acc)
		copy(x[n:], t[:])
	}
	return reduce(&acc)
}

func expBlocks(x []float32, top float32, acc *[lanes]float32) {
	switch {
	case len(x) == 0:
	case active == AVX512:
		expSumAVX512(&x[0], len(x), top, &acc[0])
	default:
		expSumAVX2(&x[0], len(x), top, &acc[0])
	}
}

func rotateHalves(x, row []float32) {
	half := len(x) / 2
	n := half &^ 15
	lo, hi, cos, sin := x[:half], x[half:2*half], row[:half], row[half:2*half]
	switch {
	case n == 0:
	case active == AVX512:
		rotateHalvesAVX512(&lo[0], &hi[0], &cos[0], &sin[0], n)
	case active == AVX2:
		rotateHalvesAVX2(&lo[0], &hi[0], &cos[0], &sin[0], n)
	default:
		n = 0
	}
	rotateHalvesGeneric(lo[n:], hi[n:], cos[n:], sin[n:])
}

func rotatePairs(x, row []float32) {
	n := len(x) &^ 15
	cos, sin := row[:len(x)], row[len(x):2*len(x)]
	switch {
	case n == 0:
	case active == AVX512:
		rotatePairsAVX512(&x[0], &cos[0], &sin[0], n)
	case active == AVX2:
		rotatePairsAVX2(&x[0], &cos[0], &sin[0], n)
	default:
		n = 0
	}
	rotatePairsGeneric(x[n:], cos[n:], sin[n:])
}
