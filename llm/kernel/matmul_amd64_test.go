//go:build !purego

package kernel

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/quant"
)

// TestUnpackEqualsTwin compares tiles byte by byte; AVX2 without AVX-VNNI keeps levels of eight bits signed.
func TestUnpackEqualsTwin(t *testing.T) {
	p := testPool(t, 1)
	rng := rand.New(rand.NewPCG(23, 24))
	const rows, cols = 32, 512
	for _, isa := range testISAs(t) {
		for _, typ := range testTypes {
			m := testMatrix(t, p, typ, rows, cols, randomBlocks(rng, typ, rows, cols), false)
			if m.layout.kind == kindFloat {
				var want, got floatTile
				m.unpackFloatGeneric(&want, 1, 1, 3, 77)
				unpackFloat(m, &got, 1, 1, 3, 77)
				require.Equal(t, want, got, "%s %s", isa, typ)
				continue
			}
			flip := byte(0)
			if isa == AVX2 && !hasVNNI && m.layout.zero == 128 {
				flip = 128
			}
			for _, n := range []int{8, 16} {
				var want, got quantTile
				m.unpackGeneric(&want, 1, 1, 0, n)
				unpack(m, &got, 1, 1, 0, n)
				for b := range n {
					w, g := &want[b][1], &got[b][1]
					for i := range g.levels {
						require.Equal(t, w.levels[i], g.levels[i]^flip, "%s %s block %d level %d", isa, typ, b, i)
					}
					require.Equal(t, w.scale, g.scale, "%s %s block %d", isa, typ, b)
					if m.layout.kind != kindScale {
						require.Equal(t, w.second, g.second, "%s %s block %d", isa, typ, b)
					}
				}
			}
			if typ == quant.Q4_0 { // a count that is no multiple of eight
				var want, got quantTile
				m.unpackGeneric(&want, 0, 0, 3, 5)
				unpack(m, &got, 0, 0, 3, 5)
				require.Equal(t, want[4][0].levels, got[4][0].levels)
			}
		}
	}
}
