//go:build !amd64 || purego

package kernel

func unpack(m *Matrix, dst *quantTile, p, panel, b, n int) { m.unpackGeneric(dst, p, panel, b, n) }
func unpackFloat(m *Matrix, dst *floatTile, p, panel, k, n int) {
	m.unpackFloatGeneric(dst, p, panel, k, n)
}

func gemm(m *Matrix, tile *quantTile, recs []record, stride, n int, c []float32, rows int) {
	gemmRowsGeneric(m.layout, tile, recs, stride, n, c, rows)
}

func gemmFloat(tile *floatTile, xs []float32, stride, n int, c []float32, rows int) {
	gemmFloatRowsGeneric(tile, xs, stride, n, c, rows)
}

// There is no assembly that streams weights.
func vectorRows(*Matrix) int { return 0 }

func gemv(*Matrix, *Input, int, int, []float32, int) { panic("kernel: gemv without assembly") }

func interleave(dst, src []byte, stride, n int) { interleaveGeneric(dst, src, stride, n) }

func pairNibbles(dst0, dst1 *[nibbles]byte, a, b *[4]packVector) {
	pairNibblesGeneric(dst0, dst1, a, b)
}

func joinPairs(to *packVector, h *[4]packVector, up int) { joinPairsGeneric(to, h, up) }

func quantize(dst []record, stride int, x []float32) { quantizeGeneric(dst, stride, x) }

func (pr *Product) storeTile(c []float32, t0, t1, from int) { pr.storeTileGeneric(c, t0, t1, from) }
