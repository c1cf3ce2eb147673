package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"ragd/llm/quant"
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

// BenchmarkShare runs the peak, the tile kernel and a whole product in turns of about a millisecond, and reports quantiles of
// their rates: on a shared machine only figures of the same minute may be compared, and the best turns are those in which
// nobody else used the core.
func BenchmarkShare(b *testing.B) {
	const rows, cols, tokens, loops, pieces = 1024, 1536, 384, 1 << 12, 64
	rng := rand.New(rand.NewPCG(5, 6))
	p := testPool(b, 0)
	th := p.Threads()
	for _, typ := range []quant.Type{quant.Q5_0, quant.Q4_K, quant.Q6_K} {
		m := testMatrix(b, p, typ, rows, cols, randomBlocks(rng, typ, rows, cols), false)
		var in Input
		in.Set(p, randomRows(rng, tokens*cols), cols, tokens, cols, m)
		dst, c := make([]float32, tokens*rows), make([][]float32, th)
		for i := range c {
			c[i] = Float32s(alignedBytes(4 * inputTile * tileRows))
		}
		turns := []struct {
			name string
			ops  int
			run  func()
		}{
			{"peak", loops * pieces * th * peakDotOps(), func() { p.Run(pieces*th, func(int, int) { peakDot(loops) }) }},
			{"tile", 64 * th * 2 * tileRows * chunkBlocks * blockElems * inputTile, func() {
				p.Run(64*th, func(_, worker int) {
					p.scratch[worker].tiles()
					gemm(m, p.scratch[worker].quant, in.records, inputTile, chunkBlocks, c[worker], inputTile)
				})
			}},
			{"product", 2 * rows * cols * tokens, func() { p.MatMul(&in, Product{W: m, Dst: dst, Stride: rows}) }},
		}
		b.Run(strings.ToLower(typ.String()), func(b *testing.B) {
			rates := make([][]float64, len(turns))
			for b.Loop() {
				for i, turn := range turns {
					start := time.Now()
					turn.run()
					rates[i] = append(rates[i], float64(turn.ops)/time.Since(start).Seconds()/1e9)
				}
			}
			for i, turn := range turns {
				slices.Sort(rates[i])
				for _, q := range []int{50, 90} {
					b.ReportMetric(rates[i][len(rates[i])*q/100], fmt.Sprintf("GOPS-%s-p%d", turn.name, q))
				}
			}
		})
	}
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
