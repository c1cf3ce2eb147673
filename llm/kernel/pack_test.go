package kernel

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInterleave(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for _, isa := range testISAs(t) {
		t.Run(isa.String(), func(t *testing.T) {
			defer SetISA(Active())
			SetISA(isa)
			for n := range 40 {
				for _, stride := range []int{4 * n, 4*n + 2, 4*n + 111} {
					src := make([]byte, (panelRows-1)*stride+4*n)
					for i := range src {
						src[i] = byte(rng.Uint32())
					}
					want, got := make([]byte, cacheLine*n), make([]byte, cacheLine*n)
					interleaveGeneric(want, src, stride, n)
					interleave(got, src, stride, n)
					require.Equal(t, want, got, "%d words", n)
				}
			}
		})
	}
}

// TestPackVectors compares the assembly that regroups bits with plain Go; TestPack of the layouts compares with the source.
func TestPackVectors(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for _, isa := range testISAs(t) {
		t.Run(isa.String(), func(t *testing.T) {
			defer SetISA(Active())
			SetISA(isa)
			for range 50 {
				var words [8]packVector
				for i := range words {
					for k := range words[i] {
						words[i][k] = byte(rng.Uint32())
					}
				}
				a, b := (*[4]packVector)(words[:]), (*[4]packVector)(words[4:])
				var want, got [2][nibbles]byte
				pairNibblesGeneric(&want[0], &want[1], a, b)
				pairNibbles(&got[0], &got[1], a, b)
				require.Equal(t, want, got)
				for _, up := range []int{0, 2, 4, 6} {
					var want, got packVector
					joinPairsGeneric(&want, a, up)
					joinPairs(&got, a, up)
					require.Equal(t, want, got)
				}
			}
		})
	}
}

// BenchmarkPack measures how fast weights are repacked, in bytes of the file.
func BenchmarkPack(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 6))
	const rows, cols = 256, 1536
	for _, typ := range testTypes {
		data := randomBlocks(rng, typ, rows, cols)
		p := testPool(b, 1)
		m := testMatrix(b, p, typ, rows, cols, data, false)
		panelData := panelRows * len(data) / rows
		for _, isa := range testISAs(b) {
			b.Run(fmt.Sprintf("%s/%s", strings.ToLower(typ.String()), isa), func(b *testing.B) {
				defer SetISA(Active())
				SetISA(isa)
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					for panel := range m.panels() {
						m.pack(m.panel(panel), typ, data[panel*panelData:][:panelData], panelRows)
					}
				}
			})
		}
	}
}
