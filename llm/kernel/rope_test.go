package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// rotated is the definition in float64.
func rotated(x []float32, heads, dim, rotDim, pos int, base, freqScale float64, factors []float32, neox bool, mscale float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	for h := range heads {
		for i := range rotDim / 2 {
			angle := float64(pos) * freqScale * math.Pow(base, -2*float64(i)/float64(rotDim))
			if factors != nil {
				angle /= float64(factors[i])
			}
			sin, cos := math.Sincos(angle)
			sin, cos = sin*mscale, cos*mscale
			a, b := h*dim+2*i, h*dim+2*i+1
			if neox {
				a, b = h*dim+i, h*dim+i+rotDim/2
			}
			x, y := out[a], out[b]
			out[a], out[b] = x*cos-y*sin, x*sin+y*cos
		}
	}
	return out
}

func TestRope(t *testing.T) {
	for _, c := range []struct {
		heads, dim, rotDim int
		base, freqScale    float64
		factors            bool
		mscale             float64
		context            int
	}{
		{2, 64, 64, 10000, 1, false, 1, 200},
		{3, 128, 128, 1e6, 1, false, 1, 200},
		{1, 80, 80, 10000, 0.25, false, 1, 200},
		{2, 96, 72, 10000, 1, true, 1.19, 200}, // partial rotation, LongRoPE
		{2, 16, 16, 500000, 1, true, 1, 0},     // nothing kept: computed on the fly
		{1, 6, 4, 10000, 1, false, 1, 100000},
	} {
		for _, neox := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d_%d_neox_%t", c.dim, c.rotDim, neox), func(t *testing.T) {
				eachISA(t, func(t *testing.T) {
					r := rand.New(rand.NewPCG(1, 1))
					var factors []float32
					if c.factors {
						for range c.rotDim / 2 {
							factors = append(factors, 1+r.Float32()*31)
						}
					}
					rope := NewRope(c.rotDim, c.base, c.freqScale, factors, neox, float32(c.mscale), c.context)
					for _, pos := range []int{0, 1, 63, 64, 1000, 40000, 131071} {
						x := randoms(r, c.heads*c.dim, 1)
						want := rotated(x, c.heads, c.dim, c.rotDim, pos, c.base, c.freqScale, factors, neox, float64(float32(c.mscale)))
						rope.Apply(x, c.heads, c.dim, pos)
						require.Less(t, maxDiff(x, want), 1e-6, "position %d", pos)
					}
				})
			})
		}
	}
	require.Panics(t, func() { NewRope(7, 10000, 1, nil, true, 1, 100) })
	require.Panics(t, func() { NewRope(8, 10000, 1, make([]float32, 3), true, 1, 100) })
}

func TestRopeConcurrent(t *testing.T) {
	rope := NewRope(64, 10000, 1, nil, true, 1, 4096)
	var wait sync.WaitGroup
	for g := range 4 {
		wait.Go(func() {
			for pos := g; pos < 2000; pos += 3 {
				x := make([]float32, 64)
				x[0] = 1
				rope.Apply(x, 1, 64, pos)
				if math.Abs(float64(x[0])-math.Cos(float64(pos))) > 1e-6 {
					t.Errorf("position %d: %g", pos, x[0])
				}
			}
		})
	}
	wait.Wait()
}

func BenchmarkRope(b *testing.B) {
	for _, neox := range []bool{false, true} {
		b.Run(fmt.Sprintf("neox_%t/14x128/%s", neox, Active()), func(b *testing.B) {
			rope := NewRope(128, 10000, 1, nil, neox, 1, 4096)
			x := make([]float32, 14*128)
			i := 0
			for b.Loop() {
				rope.Apply(x, 14, 128, i%4096)
				i++
			}
		})
	}
}
