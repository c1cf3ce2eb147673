//go:build !amd64 || purego

package kernel

// blockRows is the number of rows to hand to the kernels when left remain.
func blockRows(left int) int { return min(left, maxBlockRows) }

func scores(kind KVType, dst, q []float32, rows, dim int, k *[splitPages]*byte, from, to, _ int, scale *[splitTokens]float32) {
	scoresGeneric(kind, dst, q, rows, dim, k, from, to, scale)
}

func weigh(kind KVType, dst []float32, padded int, w []float32, rows, from, to int, v, _ *[splitPages]*byte) {
	weighGeneric(kind, dst, padded, w, rows, from, to, v)
}

func expSplit(s, scale []float32, rows, n int, top, total []float32) {
	expSplitGeneric(s, scale, rows, n, top, total)
}
func join(sum, part []float32, a, b float32)      { joinGeneric(sum, part, a, b) }
func finish(dst, sum []float32, s float32)        { finishGeneric(dst, sum, s) }
func widen(kind KVType, dst []float32, src *byte) { widenGeneric(kind, dst, src) }
func toHalf(dst []uint16, x []float32)            { toHalfGeneric(dst, x) }

func transpose(dst, src []float32, stride, columns int) { transposeGeneric(dst, src, stride, columns) }
