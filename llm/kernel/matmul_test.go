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
	quant.Q4_K, quant.Q5_K, quant.Q6_K, quant.IQ4_NL,
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
