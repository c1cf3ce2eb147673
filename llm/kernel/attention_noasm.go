//go:build !amd64 || purego

package kernel

import "unsafe"

// blockRows returns how many of the rows that are left to hand to the kernels.
func blockRows(left int) int { return min(left, maxBlockRows) }

func scores(kind KVType, dst, q []float32, rows, dim int, k *[splitPages]*byte, from, to, _ int, scale *[splitTokens]float32) {
	scoresGeneric(kind, dst, q, rows, dim, k, from, to, scale)
}

func scoresInt(kind KVType, dst []float32, q []int16, qScale []float32, rows, pairs int, k *[splitPages]*byte, from, to, _ int, scale *[splitTokens]float32) {
	scoresIntGeneric(kind, dst, q, qScale, rows, pairs, k, from, to, scale)
}

func weigh(kind KVType, dst []float32, padded int, w []float32, rows, from, to int, v, _ *[splitPages]*byte) {
	weighGeneric(kind, dst, padded, w, rows, from, to, v)
}

func weighInt(kind KVType, dst []float32, padded int, w []int16, wScale []float32, rows, from, to int, v, _ *[splitPages]*byte, _ int) {
	weighIntGeneric(kind, dst, padded, w, wScale, rows, from, to, v)
}

func expSplit(s, scale []float32, rows, n int, top, total []float32) {
	expSplitGeneric(s, scale, rows, n, top, total)
}

func expSplitInt(s, scale []float32, rows, n int, top, total, wScale []float32, w []int16, limit, budget float32) {
	expSplitIntGeneric(s, scale, rows, n, top, total, wScale, w, limit, budget)
}

func join(sum, part []float32, a, b float32) { joinGeneric(sum, part, a, b) }
func finish(dst, sum []float32, s float32)   { finishGeneric(dst, sum, s) }
func widen(dst []float32, src *byte)         { widenGeneric(KVF16, dst, src) }
func toHalf(dst []uint16, x []float32)       { toHalfGeneric(dst, x) }

func quantize8(dst []int8, dstPitch int, x []float32, xPitch int, scales []float32, rows, n int, limit float32) {
	quantizeRows(dst, dstPitch, x, xPitch, scales, rows, n, limit)
}

func quantize16(dst []int16, dstPitch int, x []float32, xPitch int, scales []float32, rows, n int, limit float32) {
	quantizeRows(dst, dstPitch, x, xPitch, scales, rows, n, limit)
}

func transpose(dst, src []float32, stride, columns int) { transposeGeneric(dst, src, stride, columns) }

func zip8(dst unsafe.Pointer, a, b []int8)   { zipGeneric(dst, a, b) }
func zip16(dst unsafe.Pointer, a, b []int16) { zipGeneric(dst, a, b) }
