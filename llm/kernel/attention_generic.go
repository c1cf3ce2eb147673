package kernel

import (
	"math"
	"unsafe"

	"ragd/llm/quant"
)

// Plain Go twins of the attention kernels.

// scoresGeneric sets dst[r][16*p+i] = scale[16*p+i] * Σ_d q[r][d] * K_p[d][i] for pages p in [from, to). Rows of dst
// are splitTokens apart, rows of q dim.
func scoresGeneric(kind KVType, dst, q []float32, rows, dim int, k *[splitPages]*byte, from, to int, scale *[splitTokens]float32) {
	page := make([]float32, PageTokens*dim)
	for p := from; p < to; p++ {
		widenGeneric(kind, page, k[p])
		for r := range rows {
			var acc [PageTokens]float32
			for d, x := range q[r*dim : (r+1)*dim] {
				for i, y := range (*[PageTokens]float32)(page[d*PageTokens:]) {
					acc[i] += float32(x * y)
				}
			}
			for i, y := range acc {
				dst[r*splitTokens+p*PageTokens+i] = y * scale[p*PageTokens+i]
			}
		}
	}
}

// weighGeneric sets dst[r][d] = Σ_i w[r][i] * V[i][d] over positions i in [from, to). Rows of dst are padded apart, rows
// of w splitTokens.
func weighGeneric(kind KVType, dst []float32, padded int, w []float32, rows, from, to int, v *[splitPages]*byte) {
	page := make([]float32, PageTokens*padded)
	clear(dst[:rows*padded])
	for i := from; i < to; i++ {
		if i == from || i%PageTokens == 0 {
			widenGeneric(kind, page, v[i/PageTokens])
		}
		value := page[i%PageTokens*padded:][:padded]
		for r := range rows {
			x := w[r*splitTokens+i]
			out := dst[r*padded : (r+1)*padded]
			for d, y := range value {
				out[d] += float32(x * y)
			}
		}
	}
}

// scoresIntGeneric multiplies exactly, in integers.
func scoresIntGeneric(kind KVType, dst []float32, q []int16, qScale []float32, rows, pairs int, k *[splitPages]*byte, from, to int, scale *[splitTokens]float32) {
	page := make([]int16, PageTokens*pairs)
	for p := from; p < to; p++ {
		if kind == KVInt8 {
			for i, x := range unsafe.Slice((*int8)(unsafe.Pointer(k[p])), len(page)) {
				page[i] = int16(x)
			}
		} else {
			copy(page, unsafe.Slice((*int16)(unsafe.Pointer(k[p])), len(page)))
		}
		for r := range rows {
			var acc [PageTokens]int32
			for d, x := range q[r*pairs : (r+1)*pairs] {
				for i := range acc {
					acc[i] += int32(x) * int32(page[(d/2*PageTokens+i)*2+d%2])
				}
			}
			for i, y := range acc {
				dst[r*splitTokens+p*PageTokens+i] = float32(float32(y)*qScale[r]) * scale[p*PageTokens+i]
			}
		}
	}
}

// weighIntGeneric multiplies exactly, in integers.
func weighIntGeneric(kind KVType, dst []float32, padded int, w []int16, wScale []float32, rows, from, to int, v *[splitPages]*byte) {
	acc := make([]int32, padded)
	for r := range rows {
		clear(acc)
		for i := from; i < to; i++ {
			p, x := unsafe.Pointer(v[i/PageTokens]), int32(w[r*splitTokens+i])
			if kind == KVInt16 {
				addPairs(acc, x, unsafe.Slice((*int16)(p), PageTokens*padded)[i%PageTokens/2*padded*2:], i%2)
			} else {
				addPairs(acc, x, unsafe.Slice((*int8)(p), PageTokens*padded)[i%PageTokens/2*padded*2:], i%2)
			}
		}
		for d, y := range acc {
			dst[r*padded+d] = float32(y) * wScale[r]
		}
	}
}

// addPairs adds x times one element of each pair.
func addPairs[T int8 | int16](acc []int32, x int32, pairs []T, which int) {
	for d := range acc {
		acc[d] += x * int32(pairs[2*d+which])
	}
}

// expSplitGeneric: position i adds to lane i mod 16 of the total.
func expSplitGeneric(s, scale []float32, rows, n int, top, total []float32) {
	for r := range rows {
		x := s[r*splitTokens:][:n]
		top[r] = maxOfGeneric(x)
		var acc [lanes]float32
		for i, v := range x {
			p := exp2(v - top[r])
			acc[i%16] += p
			x[i] = p * scale[i]
		}
		total[r] = reduce(&acc)
	}
}

func expSplitIntGeneric(s, scale []float32, rows, n int, top, total, wScale []float32, w []int16, limit, budget float32) {
	expSplitGeneric(s, scale, rows, n, top, total)
	for r := range rows {
		x := s[r*splitTokens:][:n]
		var factor, most float32
		var acc [lanes]float32
		for i, v := range x {
			most = max(most, v)
			acc[i%16] += v
		}
		wScale[r] = 0
		if most >= tiny {
			factor = min(limit/most, budget/reduce(&acc))
			wScale[r] = 1 / factor
		}
		for i, v := range x {
			w[r*splitTokens+i] = int16(toIntGeneric(v, factor, limit))
		}
	}
}

func zipGeneric[T int8 | int16](dst unsafe.Pointer, a, b []T) {
	out := unsafe.Slice((*[2]T)(dst), len(a))
	for i, x := range a {
		out[i] = [2]T{x, b[i]}
	}
}

func absMaxGeneric(x []float32) float32 {
	var m float32
	for _, v := range x {
		if v < 0 {
			v = -v
		}
		if v > m {
			m = v
		}
	}
	return m
}

// quantizeRows maps each row's largest magnitude to limit, rounds to nearest even and saturates; NaN becomes 0, as does
// a row of numbers so small that the factor would overflow.
func quantizeRows[T int8 | int16](dst []T, dstPitch int, x []float32, xPitch int, scales []float32, rows, n int, limit float32) {
	for r := range rows {
		row := x[r*xPitch:][:n]
		var factor float32
		scales[r], factor = scaleTo(absMaxGeneric(row), limit)
		for i, y := range row {
			dst[r*dstPitch+i] = T(toIntGeneric(y, factor, limit))
		}
	}
}

// tiny is the magnitude below which numbers that would have to be scaled up count as zeros.
const tiny = 0x1p-100

// scaleTo returns the factor that maps limit to top, and the inverse, or zeros when the inverse might overflow.
func scaleTo(top, limit float32) (scale, inverse float32) {
	top = min(top, math.MaxFloat32)
	if top < tiny {
		return 0, 0
	}
	return top / limit, limit / top
}

// toIntGeneric returns x*factor rounded to nearest even and kept within ±limit, which is below 2^22; 0 for NaN.
func toIntGeneric(x, factor, limit float32) int32 {
	y := finite(x*factor, limit)
	return int32(float32(y+roundC) - roundC)
}

// joinGeneric sets sum[i] = sum[i]*a + part[i]*b.
func joinGeneric(sum, part []float32, a, b float32) {
	for i, v := range part {
		sum[i] = float32(sum[i]*a) + float32(v*b)
	}
}

// finishGeneric sets dst[i] = sum[i]*s. Adding zero makes -0 a +0: which of the two a sum ends at can depend on how many
// invisible positions, whose weight is 0, were swept along.
func finishGeneric(dst, sum []float32, s float32) {
	for i, v := range sum {
		dst[i] = float32(v*s) + 0
	}
}

// widenGeneric converts stored floats to float32, exactly.
func widenGeneric(kind KVType, dst []float32, src *byte) {
	p := unsafe.Pointer(src)
	switch kind {
	case KVF32:
		copy(dst, unsafe.Slice((*float32)(p), len(dst)))
	case KVF16:
		for i, x := range unsafe.Slice((*uint16)(p), len(dst)) {
			dst[i] = quant.F16ToF32(x)
		}
	}
}

// transposeGeneric sets dst[d*16+i] = src[i*stride+d] for 16 rows.
func transposeGeneric(dst, src []float32, stride, columns int) {
	for i := range PageTokens {
		for d, x := range src[i*stride:][:columns] {
			dst[d*PageTokens+i] = x
		}
	}
}

// floatBytes returns the first byte of x.
func floatBytes(x []float32) *byte { return (*byte)(unsafe.Pointer(unsafe.SliceData(x))) }
