//go:build !amd64 || purego

package kernel

func sum(x []float32) float32                             { return sumGeneric(x) }
func sumSquares(x []float32, mean float32) float32        { return sumSquaresGeneric(x, mean) }
func dot(a, b []float32) float32                          { return dotGeneric(a, b) }
func scaleMul(dst, x, w []float32, s float32)             { scaleMulGeneric(dst, x, w, s) }
func normalize(dst, x, w, b []float32, mean, inv float32) { normalizeGeneric(dst, x, w, b, mean, inv) }
func add(dst, x []float32)                                { addGeneric(dst, x) }
func scale(x []float32, s float32)                        { scaleGeneric(x, s) }
func siluMul(dst, gate, up []float32)                     { siluMulGeneric(dst, gate, up) }
func geluTanhMul(dst, gate, up []float32)                 { geluTanhMulGeneric(dst, gate, up) }
func gelu(x []float32)                                    { geluGeneric(x) }
func softCap(x []float32, limit, out float32)             { softCapGeneric(x, limit, out) }
func maxOf(x []float32) float32                           { return maxOfGeneric(x) }
func expSum(x []float32, top float32) float32             { return expSumGeneric(x, top) }
func rotateHalves(x, row []float32) {
	n := len(x) / 2
	rotateHalvesGeneric(x[:n], x[n:2*n], row[:n], row[n:2*n])
}
func rotatePairs(x, row []float32) { rotatePairsGeneric(x, row[:len(x)], row[len(x):2*len(x)]) }
