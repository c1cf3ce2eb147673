package quant

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// floats reads little-endian float32 values.
func floats(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	decodeF32(out, b)
	return out
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return b
}

// TestDecodeOracle: bit for bit what the independent NumPy implementation decodes.
func TestDecodeOracle(t *testing.T) {
	for _, typ := range []Type{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS} {
		t.Run(typ.String(), func(t *testing.T) {
			const blocks = 4
			elems, nbytes := typ.Block()
			data := read(t, fmt.Sprintf("decode_%s.bin", typ))
			src, want := data[:blocks*nbytes], floats(data[blocks*nbytes:])
			require.Len(t, want, blocks*elems)
			got := make([]float32, len(want))
			require.NoError(t, Decode(typ, got, src))
			for i := range want {
				if got[i] == 0 && want[i] == 0 {
					continue // NumPy's order of operations may give the other zero
				}
				require.Equal(t, math.Float32bits(want[i]), math.Float32bits(got[i]), "element %d: %v, want %v", i, got[i], want[i])
			}
		})
	}
}

// TestEncodeOracle: the bytes of the reference quantizers.
func TestEncodeOracle(t *testing.T) {
	src := floats(read(t, "input.f32"))
	for _, typ := range []Type{BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K} {
		t.Run(typ.String(), func(t *testing.T) {
			want := read(t, fmt.Sprintf("encode_%s.bin", typ))
			got := make([]byte, len(want))
			require.NoError(t, Encode(typ, got, src))
			if !bytes.Equal(want, got) {
				t.Logf("squared error ours %.6g, reference %.6g", squaredError(t, typ, got, src), squaredError(t, typ, want, src))
			}
			require.Equal(t, want, got)
		})
	}
}

// TestWeightedOracle: the bytes that libggml makes of four rows with an importance per column.
func TestWeightedOracle(t *testing.T) {
	src, importance := floats(read(t, "input.f32")), floats(read(t, "importance.f32"))
	for _, typ := range []Type{Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K} {
		t.Run(typ.String(), func(t *testing.T) {
			want := read(t, fmt.Sprintf("weighted_%s.bin", typ))
			got, n := make([]byte, len(want)), len(want)/4
			for row := range 4 {
				require.NoError(t, EncodeWeighted(typ, got[row*n:][:n], src[row*256:][:256], importance))
			}
			require.Equal(t, want, got)
		})
	}
}

// TestWeightedErrors: weights that weigh nothing are refused; types without a search are rounded as ever.
func TestWeightedErrors(t *testing.T) {
	row, dst := make([]float32, 256), make([]byte, 144)
	weights := make([]float32, 256)
	require.ErrorContains(t, EncodeWeighted(Q4_K, dst, row, weights), "importance 0")
	require.ErrorContains(t, EncodeWeighted(Q4_K, dst, row, weights[:255]), "255 weights")
	weights[3] = float32(math.NaN())
	require.ErrorContains(t, EncodeWeighted(Q4_K, dst, row, weights), "column 3")
	weights[3] = 1
	require.ErrorContains(t, EncodeWeighted(Q4_K, dst[:143], row, weights), "bytes")
	row[9] = float32(math.Inf(1))
	require.ErrorContains(t, EncodeWeighted(Q4_K, dst, row, weights), "element 9")
	row[9] = 1
	a, b := make([]byte, 8*34), make([]byte, 8*34)
	require.NoError(t, EncodeWeighted(Q8_0, a, row, weights))
	require.NoError(t, Encode(Q8_0, b, row))
	require.Equal(t, b, a)
}

func squaredError(t *testing.T, typ Type, block []byte, x []float32) float64 {
	t.Helper()
	y := make([]float32, len(x))
	require.NoError(t, Decode(typ, y, block))
	var sum float64
	for i := range x {
		d := float64(x[i]) - float64(y[i])
		sum += d * d
	}
	return sum
}

func TestHalves(t *testing.T) {
	data := read(t, "halves.bin")
	for i, want := range floats(data[:65536*4]) {
		got := F16ToF32(uint16(i))
		if want != want {
			require.True(t, got != got, "half %#x", i)
			continue
		}
		require.Equal(t, math.Float32bits(want), math.Float32bits(got), "half %#x", i)
		require.Equal(t, uint16(i), F32ToF16(want))
	}
	data = data[65536*4:]
	patterns, halves, bfloats := data[:4096*4], data[4096*4:][:4096*2], data[4096*6:]
	for i := range 4096 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(patterns[4*i:]))
		require.Equal(t, binary.LittleEndian.Uint16(halves[2*i:]), F32ToF16(x), "%v", x)
		b := F32ToBF16(x)
		require.Equal(t, binary.LittleEndian.Uint16(bfloats[2*i:]), b, "%v", x)
		require.Equal(t, uint32(b)<<16, math.Float32bits(BF16ToF32(b)))
	}
	nan := float32(math.NaN())
	require.True(t, F16ToF32(F32ToF16(nan)) != F16ToF32(F32ToF16(nan)))
	require.True(t, BF16ToF32(F32ToBF16(nan)) != BF16ToF32(F32ToBF16(nan)))
}

// TestWorkedExample: the course's group x = [0.12, -0.55, 0.91, -1.27], padded with zeros to a block.
func TestWorkedExample(t *testing.T) {
	x := make([]float32, 32)
	copy(x, []float32{0.12, -0.55, 0.91, -1.27})
	for _, c := range []struct {
		typ   Type
		d     float64
		codes []int
		want  []float64
		tol   float64
	}{
		{Q4_0, 0.15875, []int{9, 5, 14, 0}, []float64{0.15875, -0.47625, 0.9525, -1.27}, 2e-3}, // d is stored as a half
		{Q8_0, 0.01, []int{12, -55, 91, -127}, []float64{0.12, -0.55, 0.91, -1.27}, 1e-3},
	} {
		t.Run(c.typ.String(), func(t *testing.T) {
			n, err := c.typ.RowBytes(32)
			require.NoError(t, err)
			b := make([]byte, n)
			require.NoError(t, Encode(c.typ, b, x))
			require.InDelta(t, c.d, half(b), 1e-4)
			y := make([]float32, 32)
			require.NoError(t, Decode(c.typ, y, b))
			for i := range c.codes {
				code := int(int8(b[2+i]))
				if c.typ == Q4_0 {
					code = int(b[2+i] & 15)
				}
				require.Equal(t, c.codes[i], code)
				require.InDelta(t, c.want[i], y[i], c.tol)
			}
		})
	}
}

// TestRoundTripBound: no element moves by more than what the format's bits allow, for well-behaved and hostile blocks.
func TestRoundTripBound(t *testing.T) {
	bound := map[Type]float64{ // largest error relative to the largest magnitude of the block
		F32: 0, F16: 1e-3, BF16: 5e-3, Q8_0: 1.0 / 200, Q4_0: 0.14, Q4_1: 0.08, Q5_0: 0.07, Q5_1: 0.04,
		Q2_K: 0.6, Q3_K: 0.5, Q4_K: 0.13, Q5_K: 0.065, Q6_K: 0.04,
	}
	rng := rand.New(rand.NewPCG(1, 2))
	shapes := map[string]func(i int) float32{
		"zero":      func(int) float32 { return 0 },
		"one value": func(int) float32 { return -0.75 },
		"gaussian":  func(int) float32 { return float32(rng.NormFloat64()) },
		"positive":  func(int) float32 { return 1 + rng.Float32() },
		"spike":     func(i int) float32 { return map[bool]float32{true: 100, false: 0.001}[i == 77] },
		"subnormal": func(i int) float32 { return math.Float32frombits(uint32(i % 3)) },
		"large":     func(i int) float32 { return float32(1-2*(i%2)) * maxHalf },
	}
	for typ, limit := range bound {
		for name, value := range shapes {
			x, y := make([]float32, 512), make([]float32, 512)
			var largest float64
			for i := range x {
				x[i] = value(i)
				largest = max(largest, math.Abs(float64(x[i])))
			}
			n, err := typ.RowBytes(len(x))
			require.NoError(t, err)
			b := make([]byte, n)
			require.NoError(t, Encode(typ, b, x), "%s %s", typ, name)
			require.NoError(t, Decode(typ, y, b))
			for i := range x {
				require.LessOrEqual(t, math.Abs(float64(x[i]-y[i])), limit*largest+1e-7, "%s %s element %d: %v becomes %v", typ, name, i, x[i], y[i])
			}
		}
	}
}

func TestLengthsAndRefusals(t *testing.T) {
	for typ, f := range formats {
		n, err := typ.RowBytes(3 * f.elems)
		require.NoError(t, err)
		require.Equal(t, 3*f.nbytes, n)
		if f.elems > 1 {
			_, err = typ.RowBytes(f.elems + 1)
			require.ErrorContains(t, err, f.name)
		}
		_, err = typ.RowBytes(-f.elems)
		require.Error(t, err)
		if f.nbytes > 1 {
			_, err = typ.RowBytes(maxInt / f.elems * f.elems)
			if f.nbytes > f.elems {
				require.ErrorContains(t, err, "too many")
			}
		}
		got, ok := Parse(f.name)
		require.True(t, ok)
		require.Equal(t, typ, got)
		require.Equal(t, f.decode != nil, typ.Decodes())
		require.Equal(t, f.encode != nil, typ.Encodes())
	}
	_, ok := Parse("Q9_9")
	require.False(t, ok)

	require.ErrorContains(t, Decode(Q8_0, make([]float32, 32), make([]byte, 33)), "34 bytes, not 33")
	require.ErrorContains(t, Decode(I32, make([]float32, 1), make([]byte, 4)), "no weights")
	require.ErrorContains(t, Decode(Type(99), nil, nil), "type 99")
	require.ErrorContains(t, Encode(IQ4_XS, make([]byte, 136), make([]float32, 256)), "no encoder")
	elems, nbytes := Type(39).Block()
	require.Zero(t, elems+nbytes)
	require.Equal(t, "MXFP4", Type(39).String())

	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(-1)), 70000} {
		x := make([]float32, 256)
		x[9] = bad
		require.ErrorContains(t, Encode(Q4_K, make([]byte, 144), x), "element 9")
		require.NoError(t, Encode(F32, make([]byte, 1024), x))
	}
}

// FuzzDecode: every bit pattern is a valid block, and decoding it is deterministic.
func FuzzDecode(f *testing.F) {
	f.Add(uint32(Q4_K), make([]byte, 144))
	f.Add(uint32(Q6_K), []byte("short"))
	f.Add(uint32(77), []byte{1})
	f.Fuzz(func(t *testing.T, id uint32, b []byte) {
		typ := Type(id)
		elems, nbytes := typ.Block()
		if elems == 0 || !typ.Decodes() {
			return
		}
		b = b[:len(b)/nbytes*nbytes]
		x, y := make([]float32, len(b)/nbytes*elems), make([]float32, len(b)/nbytes*elems)
		require.NoError(t, Decode(typ, x, b))
		require.NoError(t, Decode(typ, y, b))
		for i := range x {
			require.Equal(t, math.Float32bits(x[i]), math.Float32bits(y[i]))
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, typ := range []Type{F16, Q8_0, Q4_K, Q6_K} {
		n, _ := typ.RowBytes(4096)
		src, dst := make([]byte, n), make([]float32, 4096)
		b.Run(typ.String(), func(b *testing.B) {
			b.SetBytes(int64(4 * len(dst)))
			for b.Loop() {
				_ = Decode(typ, dst, src)
			}
		})
	}
}
