package kernel

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// BenchmarkMatMul measures whole products: GB/s of weights, and int8 operations (two per weight and row).
func BenchmarkMatMul(b *testing.B) {
	p := testPool(b, 0)
	rng := rand.New(rand.NewPCG(5, 6))
	for _, typ := range testTypes {
		for _, shape := range [][2]int{{8960, 1536}, {1536, 8960}} {
			rows, cols := shape[0], shape[1]
			data := randomBlocks(rng, typ, rows, cols)
			m := testMatrix(b, p, typ, rows, cols, data, false)
			for _, tokens := range []int{1, 2, 4, 8, 16, 64, 512} {
				x := randomRows(rng, tokens*cols)
				dst := make([]float32, tokens*rows)
				var in Input
				in.Set(p, x, cols, tokens, cols, m)
				for _, isa := range Available()[1:] {
					b.Run(fmt.Sprintf("%s/%dx%dx%d/%s", strings.ToLower(typ.String()), tokens, rows, cols, isa), func(b *testing.B) {
						defer SetISA(Active())
						SetISA(isa)
						b.SetBytes(int64(m.Bytes()))
						for b.Loop() {
							p.MatMul(&in, Product{W: m, Dst: dst, Stride: rows})
						}
						b.ReportMetric(2*float64(rows)*float64(cols)*float64(tokens)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GOPS")
					})
				}
			}
		}
	}
}

// BenchmarkPeak measures the bounds: int8 operations without memory and reading without arithmetic.
func BenchmarkPeak(b *testing.B) {
	p := testPool(b, 0)
	for _, isa := range testISAs(b) {
		b.Run("int8/"+isa.String(), func(b *testing.B) {
			var best float64
			for b.Loop() {
				best = max(best, MeasureInt8Peak(p))
			}
			b.ReportMetric(best/1e9, "GOPS")
		})
	}
	b.Run("read", func(b *testing.B) {
		var best float64
		for b.Loop() {
			best = max(best, MeasureReadBandwidth(p))
		}
		b.ReportMetric(best/1e9, "GB/s")
	})
}

func BenchmarkQuantize(b *testing.B) {
	x := randomRows(rand.New(rand.NewPCG(1, 1)), 1536)
	dst := make([]record, len(x)/blockElems)
	for _, isa := range testISAs(b) {
		b.Run(fmt.Sprintf("1536/%s", isa), func(b *testing.B) {
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				quantize(dst, 1, x)
			}
		})
	}
}
