package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/quant"
)

var testTypes = []quant.Type{
	quant.F32, quant.F16, quant.BF16, quant.Q4_0, quant.Q4_1, quant.Q5_0, quant.Q5_1, quant.Q8_0,
	quant.Q4_K, quant.Q5_K, quant.Q6_K, quant.IQ4_NL, quant.IQ4_XS,
}

// randomBlocks returns rows*cols weights of type t: random bytes are valid blocks, apart from their scales, which are
// made small halves of either sign.
func randomBlocks(rng *rand.Rand, t quant.Type, rows, cols int) []byte {
	n, err := t.RowBytes(cols)
	if err != nil {
		panic(err)
	}
	b := make([]byte, rows*n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	_, nbytes := t.Block()
	set := func(at int) {
		le.PutUint16(b[at:], quant.F32ToF16(float32(rng.NormFloat64())*0.01))
	}
	for at := 0; at < len(b); at += nbytes {
		switch t {
		case quant.F32:
			le.PutUint32(b[at:], math.Float32bits(float32(rng.NormFloat64())))
		case quant.F16:
			set(at)
		case quant.BF16:
			le.PutUint16(b[at:], quant.F32ToBF16(float32(rng.NormFloat64())))
		case quant.Q6_K:
			set(at + 208)
		case quant.Q4_1, quant.Q5_1, quant.Q4_K, quant.Q5_K:
			set(at)
			set(at + 2)
		default:
			set(at)
		}
	}
	return b
}

func randomRows(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64()) * float32(math.Exp(rng.NormFloat64()))
	}
	return x
}

func testMatrix(t testing.TB, p *Pool, typ quant.Type, rows, cols int, data []byte, float bool) *Matrix {
	a := NewArena()
	t.Cleanup(a.Close)
	m, err := NewMatrix(p, a, typ, rows, cols, data, float)
	require.NoError(t, err)
	return m
}

func testPool(t testing.TB, threads int) *Pool {
	p := NewPool(threads)
	t.Cleanup(p.Close)
	return p
}

func TestDecodeRowIsExact(t *testing.T) {
	p := testPool(t, 2)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, typ := range testTypes {
		for _, rows := range []int{1, 16, 37} {
			const cols = 512
			data := randomBlocks(rng, typ, rows, cols)
			want, got := make([]float32, cols), make([]float32, cols)
			for _, float := range []bool{false, true} {
				m := testMatrix(t, p, typ, rows, cols, data, float)
				for r := range rows {
					n := len(data) / rows
					require.NoError(t, quant.Decode(typ, want, data[r*n:(r+1)*n]))
					m.DecodeRow(got, r)
					require.Equal(t, want, got, "%s row %d", typ, r)
				}
			}
		}
	}
}

// TestMatMulAgainstDequantized compares products with float64 arithmetic on the decoded weights and the quantized
// activations, from which only rounding may separate them.
func TestMatMulAgainstDequantized(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, isa := range testISAs(t) {
		p := testPool(t, 2)
		for _, typ := range testTypes {
			elems, _ := typ.Block()
			for _, cols := range []int{max(elems, 32), 768, 3072} {
				for _, tokens := range []int{1, 2, 7, 19} {
					rows := 1 + rng.IntN(40)
					t.Run(fmt.Sprintf("%s/%s/%dx%dx%d", isa, typ, tokens, rows, cols), func(t *testing.T) {
						checkMatMul(t, p, rng, typ, rows, cols, tokens)
					})
				}
			}
		}
	}
}

func checkMatMul(t *testing.T, p *Pool, rng *rand.Rand, typ quant.Type, rows, cols, tokens int) {
	m := testMatrix(t, p, typ, rows, cols, randomBlocks(rng, typ, rows, cols), false)
	x := randomRows(rng, tokens*cols)
	bias := randomRows(rng, rows)
	stride := rows + 3
	dst := randomRows(rng, tokens*stride)
	before := append([]float32(nil), dst...)
	var in Input
	in.Set(p, x, cols, tokens, cols, m)
	p.MatMul(&in, Product{W: m, Dst: dst, Stride: stride, Bias: bias, Add: true})
	w := make([]float32, cols)
	for r := range rows {
		m.DecodeRow(w, r)
		for tok := range tokens {
			y, size := in.exact(m, w, r, tok, x[tok*cols:])
			at := tok*stride + r
			want := y + float64(bias[r]) + float64(before[at])
			size += math.Abs(float64(bias[r])) + math.Abs(float64(before[at]))
			require.InDelta(t, want, dst[at], 4e-7*math.Sqrt(float64(cols))*size/math.Sqrt(float64(cols))*8+1e-12, "row %d token %d", r, tok)
		}
	}
	for i := range dst {
		if i%stride >= rows {
			require.Equal(t, before[i], dst[i], "element %d between the rows", i)
		}
	}
}

// exact returns the product of decoded weights with the activations as the input holds them, in float64, and the sum of
// the magnitudes of its terms.
func (in *Input) exact(m *Matrix, w []float32, r, t int, x []float32) (y, size float64) {
	start, rows, row := in.tile(t)
	for k := range in.cols {
		a := float64(x[k])
		if m.layout.kind != kindFloat {
			rec := &in.records[start*(in.cols/blockElems)+k/blockElems*rows+row]
			a = float64(rec.scale) * float64(rec.levels[k%blockElems])
		}
		term := float64(w[k]) * a
		y += term
		size += math.Abs(term)
	}
	return y, size
}

// bits makes floats comparable bit by bit.
func bits(x []float32) []uint32 {
	b := make([]uint32, len(x))
	for i, v := range x {
		b[i] = math.Float32bits(v)
	}
	return b
}

// TestMatMulIsBatchInvariant is the promise of the engine's determinism: a row's outputs are the same bits alone and in
// any batch, on any number of threads, beside other products.
func TestMatMulIsBatchInvariant(t *testing.T) {
	const maxTokens = 107
	one, three := testPool(t, 1), testPool(t, 3)
	rng := rand.New(rand.NewPCG(11, 12))
	for _, isa := range testISAs(t) {
		for _, typ := range testTypes {
			for _, float := range []bool{false, true} {
				rows, cols := 1+rng.IntN(90), 256*(1+rng.IntN(5))
				if isa == Generic {
					rows, cols = 1+rng.IntN(20), 256
				}
				m := testMatrix(t, one, typ, rows, cols, randomBlocks(rng, typ, rows, cols), float)
				other := testMatrix(t, one, typ, 33, cols, randomBlocks(rng, typ, 33, cols), float)
				x := randomRows(rng, maxTokens*cols)
				want := make([]float32, maxTokens*rows)
				var in Input
				for i := range maxTokens {
					in.Set(one, x[i*cols:], cols, 1, cols, m)
					one.MatMul(&in, Product{W: m, Dst: want[i*rows:], Stride: rows})
				}
				for _, tokens := range []int{1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 19, 47, 48, 49, 96, maxTokens} {
					for _, p := range []*Pool{one, three} {
						from := rng.IntN(maxTokens - tokens + 1)
						got, beside := make([]float32, tokens*rows), make([]float32, tokens*40)
						in.Set(p, x[from*cols:], cols, tokens, cols, m, other)
						p.MatMul(&in, Product{W: other, Dst: beside, Stride: 40}, Product{W: m, Dst: got, Stride: rows})
						require.Equal(t, bits(want[from*rows:(from+tokens)*rows]), bits(got), "%s %s float %v, %d rows of %d x %d",
							isa, typ, float, tokens, rows, cols)
					}
				}
			}
		}
	}
}

// TestMatMulIntegersAreExact multiplies levels whose scales are one with activations that quantize to themselves: every
// instruction set must give the exact integer.
func TestMatMulIntegersAreExact(t *testing.T) {
	p := testPool(t, 2)
	rng := rand.New(rand.NewPCG(13, 14))
	for _, isa := range testISAs(t) {
		for _, typ := range testTypes {
			elems, nbytes := typ.Block()
			if elems == 1 {
				continue
			}
			rows, cols := 19, 256
			data := randomBlocks(rng, typ, rows, cols)
			for at := 0; at < len(data); at += nbytes {
				unitScales(typ, data[at:at+nbytes])
			}
			m := testMatrix(t, p, typ, rows, cols, data, false)
			for _, tokens := range []int{1, 2, 3, 4, 6, 13} {
				x := make([]float32, tokens*cols)
				for i := range x {
					x[i] = float32(rng.IntN(255) - 127)
					if rng.IntN(4) == 0 { // extremes, where 16-bit sums would overflow
						x[i] = float32(127 - 254*rng.IntN(2))
					}
					if i%blockElems == 0 {
						x[i] = 127
					}
				}
				var in Input
				in.Set(p, x, cols, tokens, cols, m)
				got := make([]float32, tokens*rows)
				p.MatMul(&in, Product{W: m, Dst: got, Stride: rows})
				w := make([]float32, cols)
				for r := range rows {
					m.DecodeRow(w, r)
					for tok := range tokens {
						var want int64
						for k := range w {
							want += int64(w[k]) * int64(x[tok*cols+k])
						}
						require.Equal(t, float32(want), got[tok*rows+r], "%s %s row %d", isa, typ, r)
					}
				}
			}
		}
	}
}

// unitScales sets the scales of a block to one and its minima to zero or one; some blocks get extreme levels.
func unitScales(typ quant.Type, b []byte) {
	if b[len(b)/2]%3 == 0 {
		fill := byte(0)
		if b[len(b)/2]%2 == 0 {
			fill = 255
		}
		for i := range b {
			b[i] = fill
		}
	}
	one := quant.F32ToF16(1)
	switch typ {
	case quant.Q6_K:
		for i := 192; i < 208; i++ {
			b[i] = 1
		}
		le.PutUint16(b[208:], one)
	case quant.Q4_K, quant.Q5_K:
		le.PutUint16(b, one)
		le.PutUint16(b[2:], one)
		for i := 4; i < 16; i++ {
			b[i] = 1
		}
		for i := 12; i < 16; i++ {
			b[i] = 0x11
		}
	case quant.Q4_1, quant.Q5_1:
		le.PutUint16(b, one)
		le.PutUint16(b[2:], one)
	case quant.IQ4_XS: // scales 33-32
		le.PutUint16(b, one)
		le.PutUint16(b[2:], 0xaaaa)
		copy(b[4:8], "\x11\x11\x11\x11")
	default:
		le.PutUint16(b, one)
	}
}

// TestMatMulSpecialValues: whatever the weights and activations are, products must not crash, and what is not finite
// must not come out finite.
func TestMatMulSpecialValues(t *testing.T) {
	p := testPool(t, 2)
	rng := rand.New(rand.NewPCG(15, 16))
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, isa := range testISAs(t) {
		for _, typ := range testTypes {
			rows, cols := 17, 512
			m := testMatrix(t, p, typ, rows, cols, randomBlocks(rng, typ, rows, cols), false)
			for _, v := range []float32{inf, -inf, nan, math.MaxFloat32, 1e-45, -1e-38, 0} {
				for _, tokens := range []int{1, 2, 9} {
					x := randomRows(rng, tokens*cols)
					clean := append([]float32(nil), x...)
					bad := rng.IntN(tokens)
					x[bad*cols+rng.IntN(cols)] = v
					var in Input
					got, want := make([]float32, tokens*rows), make([]float32, tokens*rows)
					in.Set(p, clean, cols, tokens, cols, m)
					p.MatMul(&in, Product{W: m, Dst: want, Stride: rows})
					in.Set(p, x, cols, tokens, cols, m)
					p.MatMul(&in, Product{W: m, Dst: got, Stride: rows})
					for i := range got {
						finite := got[i]-got[i] == 0
						switch {
						case i/rows != bad:
							require.Equal(t, want[i], got[i], "another row changed")
						case v != v || v-v != 0:
							if m.layout.kind != kindFloat {
								require.False(t, finite, "%s %s: %v became %v", isa, typ, v, got[i])
							}
						case m.layout.kind != kindFloat && v < 1:
							require.True(t, finite)
						}
					}
				}
			}
			// Any scales at all: infinite, NaN, subnormal.
			data := randomBlocks(rng, typ, rows, cols)
			for i := range data {
				data[i] = byte(rng.Uint32())
			}
			wild := testMatrix(t, p, typ, rows, cols, data, false)
			var in Input
			in.Set(p, randomRows(rng, 5*cols), cols, 5, cols, wild)
			p.MatMul(&in, Product{W: wild, Dst: make([]float32, 5*rows), Stride: rows})
		}
	}
}

// TestAssemblySetsAgree: AVX2 and AVX-512 perform the same operations in the same order, so they agree to the bit.
func TestAssemblySetsAgree(t *testing.T) {
	p := testPool(t, 2)
	rng := rand.New(rand.NewPCG(17, 18))
	for _, typ := range testTypes {
		rows, cols, tokens := 50, 768, 9
		m := testMatrix(t, p, typ, rows, cols, randomBlocks(rng, typ, rows, cols), false)
		x := randomRows(rng, tokens*cols)
		var first []uint32
		for _, isa := range testISAs(t) {
			if isa == Generic {
				continue
			}
			var in Input
			in.Set(p, x, cols, tokens, cols, m)
			got := make([]float32, tokens*rows)
			p.MatMul(&in, Product{W: m, Dst: got, Stride: rows})
			if first == nil {
				first = bits(got)
			}
			require.Equal(t, first, bits(got), "%s %s", isa, typ)
		}
	}
}

func TestNewMatrixRefuses(t *testing.T) {
	p := testPool(t, 1)
	a := NewArena()
	defer a.Close()
	_, err := NewMatrix(p, a, quant.Q4_0, 2, 33, make([]byte, 36), false)
	require.ErrorContains(t, err, "33")
	_, err = NewMatrix(p, a, quant.Q4_0, 2, 32, make([]byte, 35), false)
	require.ErrorContains(t, err, "35 bytes")
	_, err = NewMatrix(p, a, quant.Q4_0, 0, 32, nil, false)
	require.Error(t, err)
	_, err = NewMatrix(p, a, quant.Q2_K, 1, 256, make([]byte, 84), false)
	require.ErrorContains(t, err, "Q2_K")
	m, err := NewMatrix(p, a, quant.Q2_K, 1, 256, make([]byte, 84), true)
	require.NoError(t, err)
	require.Equal(t, quant.F32, m.Type())
	require.Equal(t, 16*256*4, m.Bytes())
	require.Equal(t, [2]int{1, 256}, [2]int{m.Rows(), m.Cols()})
}

func TestSetRMSNormEqualsNormThenSet(t *testing.T) {
	p := testPool(t, 2)
	rng := rand.New(rand.NewPCG(19, 20))
	rows, cols, tokens := 20, 512, 7
	m := testMatrix(t, p, quant.Q8_0, rows, cols, randomBlocks(rng, quant.Q8_0, rows, cols), false)
	x, w := randomRows(rng, tokens*cols), randomRows(rng, cols)
	var in Input
	got, want := make([]float32, tokens*rows), make([]float32, tokens*rows)
	in.SetRMSNorm(p, x, cols, tokens, cols, w, 1e-5, m)
	p.MatMul(&in, Product{W: m, Dst: got, Stride: rows})
	y := make([]float32, tokens*cols)
	for i := range tokens {
		RMSNorm(y[i*cols:][:cols], x[i*cols:][:cols], w, 1e-5)
	}
	in.Set(p, y, cols, tokens, cols)
	p.MatMul(&in, Product{W: m, Dst: want, Stride: rows})
	require.Equal(t, bits(want), bits(got))
}

// TestBiasAndAdd covers the four ways of storing, for one row, a few and many.
func TestBiasAndAdd(t *testing.T) {
	p := testPool(t, 2)
	rng := rand.New(rand.NewPCG(21, 22))
	const rows, cols = 70, 64
	m := testMatrix(t, p, quant.Q8_0, rows, cols, randomBlocks(rng, quant.Q8_0, rows, cols), false)
	bias := randomRows(rng, rows)
	for _, isa := range testISAs(t) {
		for _, tokens := range []int{1, 5, 60} {
			var in Input
			in.Set(p, randomRows(rng, tokens*cols), cols, tokens, cols, m)
			plain, before := make([]float32, tokens*rows), randomRows(rng, tokens*rows)
			p.MatMul(&in, Product{W: m, Dst: plain, Stride: rows})
			for _, b := range [][]float32{nil, bias} {
				for _, add := range []bool{false, true} {
					got := append([]float32(nil), before...)
					p.MatMul(&in, Product{W: m, Dst: got, Stride: rows, Bias: b, Add: add})
					for i := range got {
						want := plain[i]
						if b != nil {
							want += b[i%rows]
						}
						if add {
							want += before[i]
						}
						require.Equal(t, want, got[i], "%s bias %v add %v", isa, b != nil, add)
					}
				}
			}
		}
	}
}
