package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// vecLengths has every tail, one and several groups of 64, and offsets that make slices unaligned.
func vecLengths() []int {
	n := []int{576, 1000, 1536, 8960}
	for i := range 140 {
		n = append(n, i)
	}
	return n
}

// relative is the error of got in units of the float32 spacing at want (at least at floor).
func ulps(got float32, want, floor float64) float64 {
	scale := math.Max(math.Abs(want), floor)
	_, e := math.Frexp(scale)
	return math.Abs(float64(got)-want) / math.Ldexp(1, e-24)
}

// elementwise compares f with an oracle on every length; it returns the worst error in ulp.
func elementwise(r *rand.Rand, f func(a, b []float32) []float32, want func(a, b float64) float64, amplitude float32, floor float64) float64 {
	worst := 0.0
	for _, n := range vecLengths() {
		a, b := randoms(r, n+1, amplitude)[1:], randoms(r, n+3, 1)[3:]
		a0, b0 := append([]float32{}, a...), append([]float32{}, b...)
		for i, got := range f(a, b) {
			worst = max(worst, ulps(got, want(float64(a0[i]), float64(b0[i])), floor))
		}
	}
	return worst
}

func silu(x float64) float64 { return x / (1 + math.Exp(-x)) }

func geluTanh(x float64) float64 {
	return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

func geluErf(x float64) float64 { return x / 2 * math.Erfc(-x/math.Sqrt2) }

func TestElementwise(t *testing.T) {
	for _, c := range []struct {
		name      string
		amplitude float32
		floor     float64 // magnitudes below it count absolutely
		bound     float64 // ulp
		f         func(a, b []float32) []float32
		want      func(a, b float64) float64
	}{
		{"Add", 1, 1e-3, 1, func(a, b []float32) []float32 { Add(a, b); return a }, func(a, b float64) float64 { return a + b }},
		{"Scale", 1, 0, 1, func(a, b []float32) []float32 { Scale(a, 0.3); return a }, func(a, b float64) float64 { return a * float64(float32(0.3)) }},
		{"SiLUMul", 8, 1e-30, 6, func(a, b []float32) []float32 { SiLUMul(a, a, b); return a }, func(a, b float64) float64 { return silu(a) * b }},
		{"GELUTanhMul", 3, 1e-3, 16, func(a, b []float32) []float32 { GELUTanhMul(b, a, b); return b }, func(a, b float64) float64 { return geluTanh(a) * b }},
		{"GELUTanh", 3, 1e-3, 16, func(a, b []float32) []float32 { GELUTanhMul(a, a, nil); return a }, func(a, b float64) float64 { return geluTanh(a) }},
		{"GELU", 3, 1e-2, 8, func(a, b []float32) []float32 { GELU(a); return a }, func(a, b float64) float64 { return geluErf(a) }},
		{"SoftCap", 40, 30, 5, func(a, b []float32) []float32 { SoftCap(a, 30); return a }, func(a, b float64) float64 { return 30 * math.Tanh(a/30) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachISA(t, func(t *testing.T) {
				worst := elementwise(rand.New(rand.NewPCG(7, 8)), c.f, c.want, c.amplitude, c.floor)
				t.Logf("worst error %.2f ulp", worst)
				require.LessOrEqual(t, worst, c.bound)
			})
		})
	}
}

func TestNorms(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		for _, n := range vecLengths() {
			x, w, b := randoms(r, n, 3), randoms(r, n, 1), randoms(r, n, 1)
			var sum, squares, mean, variance float64
			for _, v := range x {
				sum += float64(v)
				squares += float64(v) * float64(v)
			}
			mean = sum / float64(n)
			for _, v := range x {
				variance += (float64(v) - mean) * (float64(v) - mean)
			}
			rms, dev := math.Sqrt(squares/float64(n)+1e-5), math.Sqrt(variance/float64(n)+1e-5)
			got, layer, noBias := make([]float32, n), make([]float32, n), make([]float32, n)
			RMSNorm(got, x, w, 1e-5)
			LayerNorm(layer, x, w, b, 1e-5)
			LayerNorm(noBias, x, w, nil, 1e-5)
			for i, v := range x {
				require.InDelta(t, float64(v)/rms*float64(w[i]), got[i], 4e-6, "RMSNorm of %d, element %d", n, i)
				y := (float64(v) - mean) / dev * float64(w[i])
				tolerance := 4e-6 * max(1, 1/dev) // one or two elements: the deviation cancels
				require.InDelta(t, y+float64(b[i]), layer[i], tolerance, "LayerNorm of %d, element %d", n, i)
				require.InDelta(t, y, noBias[i], tolerance, "LayerNorm of %d, element %d", n, i)
			}
		}
	})
}

func TestDot(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 12))
		for _, n := range vecLengths() {
			a, b := randoms(r, n+1, 1)[1:], randoms(r, n, 1)
			want := 0.0
			for i := range a {
				want += float64(a[i]) * float64(b[i])
			}
			require.InDelta(t, want, Dot(a, b), 1e-6*math.Sqrt(float64(n)+1), "%d elements", n)
		}
	})
}

func TestSoftmax(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(13, 14))
		for _, n := range vecLengths()[1:] {
			if n == 0 {
				continue
			}
			x := randoms(r, n, 10)
			if n > 3 {
				x[n/2] = float32(math.Inf(-1))
			}
			top, total := math.Inf(-1), 0.0
			for _, v := range x {
				top = max(top, float64(v))
			}
			for _, v := range x {
				total += math.Exp(float64(v) - top)
			}
			got := append([]float32{}, x...)
			Softmax(got)
			for i, v := range x {
				want := math.Exp(float64(v)-top) / total
				bound := 8 + top - float64(v) // x-top is rounded once
				require.True(t, want == 0 || ulps(got[i], want, 1e-36) <= bound, "%d elements", n)
			}
			if n > 3 {
				require.Zero(t, got[n/2])
			}
		}
		Softmax(nil)
	})
}

func TestArgMax(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	eachISA(t, func(t *testing.T) {
		require.Equal(t, 0, ArgMax(nil))
		require.Equal(t, 0, ArgMax([]float32{nan, nan, nan}))
		require.Equal(t, 1, ArgMax([]float32{nan, -inf, nan}))
		require.Equal(t, 2, ArgMax([]float32{1, nan, 3, 3, 2}))
		require.Equal(t, 1, ArgMax([]float32{0, inf, inf}))
		r := rand.New(rand.NewPCG(15, 16))
		for _, n := range []int{1, 15, 16, 17, 100, 4096, 4097, 10000} {
			x := randoms(r, n, 1)
			for range 10 {
				at := r.IntN(n)
				x[at] += 10
				again := at + r.IntN(n-at) // a later equal one must not win
				x[again] = x[at]
				require.Equal(t, at, ArgMax(x), "%d elements", n)
				x[at], x[again] = -1, -1
			}
		}
	})
}

// TestVectorsSameBits holds AVX2 and AVX-512 against each other, and shifted copies against the original.
func TestVectorsSameBits(t *testing.T) {
	before := Active()
	defer func() { require.NoError(t, SetISA(before)) }()
	var want [][]float32
	for _, isa := range Available() {
		if isa == Generic {
			continue
		}
		require.NoError(t, SetISA(isa))
		for shift := range 3 {
			r := rand.New(rand.NewPCG(17, 18))
			var got [][]float32
			for _, n := range []int{5, 16, 100, 576, 1543} {
				a, b, c := make([]float32, n+shift)[shift:], make([]float32, n+shift)[shift:], make([]float32, n+shift)[shift:]
				for i, f := range []func(){
					func() { RMSNorm(a, a, b, 1e-5) },
					func() { LayerNorm(a, a, b, c, 1e-5) },
					func() { SiLUMul(a, a, b) },
					func() { GELUTanhMul(a, a, b) },
					func() { GELU(a) },
					func() { SoftCap(a, 5) },
					func() { Softmax(a) },
					func() { a[0] = Dot(a, b) },
				} {
					copy(a, randoms(r, n, 3))
					copy(b, randoms(r, n, 1))
					copy(c, randoms(r, n, 1))
					f()
					got = append(got, append([]float32{float32(i)}, a...))
				}
			}
			if want == nil {
				want = got
			}
			for i := range want {
				requireSameBits(t, want[i], got[i], "%s, shift %d, case %d", isa, shift, i)
			}
		}
	}
}

// TestSpecialValues only asks that nothing crashes and that neighbours stay as they are.
func TestSpecialValues(t *testing.T) {
	special := []float32{
		float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0, float32(math.Copysign(0, -1)),
		math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, 1e-40, -1e-40, 88.8, -88.8, 1000, -1000,
	}
	eachISA(t, func(t *testing.T) {
		for i := range special {
			x := make([]float32, 40)
			x[20] = special[i]
			one := make([]float32, 40)
			for j := range one {
				one[j] = 1
			}
			for name, f := range map[string]func(x []float32){
				"SiLUMul":     func(x []float32) { SiLUMul(x, x, one) },
				"GELUTanhMul": func(x []float32) { GELUTanhMul(x, x, one) },
				"GELU":        GELU,
				"SoftCap":     func(x []float32) { SoftCap(x, 30) },
				"Softmax":     func(x []float32) { Softmax(append([]float32{}, x...)) },
			} {
				y := append([]float32{}, x...)
				f(y)
				for j, v := range y {
					if j != 20 {
						require.Zero(t, v, "%s of %g", name, special[i])
					}
				}
			}
		}
		x := []float32{-1000, -30, 30, 1000, float32(math.NaN())}
		SiLUMul(x, x, []float32{1, 1, 1, 1, 1})
		require.InDelta(t, 0, x[0], 1e-30)
		require.Equal(t, []float32{30, 1000}, x[2:4])
		require.True(t, math.IsNaN(float64(x[4])))
	})
}

func BenchmarkVector(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{576, 1536, 8960} {
		x, y, w := randoms(r, n, 1), randoms(r, n, 1), randoms(r, n, 1)
		for _, c := range []struct {
			name string
			f    func()
		}{
			{"RMSNorm", func() { RMSNorm(y, x, w, 1e-5) }},
			{"LayerNorm", func() { LayerNorm(y, x, w, w, 1e-5) }},
			{"Add", func() { Add(y, x) }},
			{"SiLUMul", func() { SiLUMul(y, x, w) }},
			{"GELUTanhMul", func() { GELUTanhMul(y, x, w) }},
			{"GELU", func() { copy(y, x); GELU(y) }},
			{"Softmax", func() { copy(y, x); Softmax(y) }},
			{"ArgMax", func() { ArgMax(x) }},
		} {
			b.Run(fmt.Sprintf("%s/%d/%s", c.name, n, Active()), func(b *testing.B) {
				b.SetBytes(int64(4 * n))
				for b.Loop() {
					c.f()
				}
			})
		}
	}
}
