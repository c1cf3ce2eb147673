package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestQuantizeEqualsTwin compares records bit by bit with the plain twin's.
func TestQuantizeEqualsTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	inf := float32(math.Inf(1))
	special := []float32{
		0, float32(math.Copysign(0, -1)), inf, -inf, float32(math.NaN()), math.MaxFloat32, 1e30, 1.0001e30, -2e30,
		1e-30, 0.999e-30, math.SmallestNonzeroFloat32, -1e-38, 0.5, -0.5, 127, 127.5, 1e10,
	}
	for _, isa := range testISAs(t) {
		for blocks := 1; blocks < 9; blocks++ {
			for trial := range 400 {
				x := randomRows(rng, blocks*blockElems)
				for range trial % 4 {
					x[rng.IntN(len(x))] = special[rng.IntN(len(special))]
				}
				if trial%5 == 0 { // ties
					for i := range x {
						x[i] = float32(rng.IntN(255)-127) / 2
					}
					x[0] = 127
				}
				stride := 1 + rng.IntN(3)
				want, got := make([]record, blocks*stride), make([]record, blocks*stride)
				quantizeGeneric(want, stride, x)
				quantize(got, stride, x)
				for i := range want {
					require.Equal(t, recordBits(want[i]), recordBits(got[i]), "%s block %d of %v", isa, i, x)
				}
			}
		}
	}
}

// recordBits makes records comparable: NaN becomes one number.
func recordBits(r record) record {
	for _, f := range []*float32{&r.scale, &r.offset, &r.sum} {
		if *f != *f {
			*f = 12345
		}
	}
	return r
}

// TestQuantizeLevels checks the twin against the definition.
func TestQuantizeLevels(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 1000 {
		x := randomRows(rng, blockElems)
		var r record
		r.set(x)
		var sum int32
		for i, v := range x {
			require.InDelta(t, v, r.scale*float32(r.levels[i]), float64(r.scale)*0.5001)
			sum += int32(r.levels[i])
		}
		require.Equal(t, r.scale*float32(sum), r.sum)
		require.Zero(t, math.Float32bits(r.scale)&3)
		require.Equal(t, float64(-0x1.8p23)*float64(r.scale), float64(r.offset), "the offset is exact")
		require.Equal(t, magicBits-128*sum, r.start[2])
	}
}
