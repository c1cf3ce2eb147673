package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// putRows stores tokens one by one.
func putRows(s *KVStore, pages []int32, pos, n int, k, v []float32, stride int) {
	for i := range n {
		s.Put(int(pages[(pos+i)/PageTokens]), (pos+i)%PageTokens, k[i*stride:], v[i*stride:])
	}
}

// TestKVStoreSameBytes stores tokens one by one and in a batch, for every type and instruction set.
func TestKVStoreSameBytes(t *testing.T) {
	p, a := NewPool(2), NewArena()
	defer p.Close()
	defer a.Close()
	const n, kvHeads = 75, 3
	for _, kind := range []KVType{KVF32, KVF16, KVInt8, KVMixed, KVInt16} {
		for _, dim := range []int{12, 13, 16, 64, 80} {
			r := rand.New(rand.NewPCG(1, 1))
			width := kvHeads * dim
			k, v := randoms(r, n*width, 1), randoms(r, n*width, 1)
			k[5], v[7], k[width+3], v[width] = float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e30
			pages := []int32{4, 0, 3, 1, 2}
			var want []byte
			eachISA(t, func(t *testing.T) {
				for how := range 2 {
					s := NewKVStore(a, kind, 5, kvHeads, dim)
					switch how {
					case 0:
						putRows(s, pages, 0, n, k, v, width)
					case 1:
						s.Append(p, []AttnSeq{
							{Pages: pages, Pos: 40, N: n - 40, K: k[40*width:], V: v[40*width:], KVStride: width},
							{Pages: pages[:3], Pos: 0, N: 40, K: k, V: v, KVStride: width},
						})
					}
					if want == nil {
						want = s.data
					}
					require.Equal(t, want, s.data)
				}
			})
		}
	}
}

func TestKVStoreValues(t *testing.T) {
	a := NewArena()
	defer a.Close()
	r := rand.New(rand.NewPCG(2, 2))
	for _, c := range []struct {
		kind  KVType
		bound float64 // relative to the largest magnitude of a head
	}{{KVF32, 0}, {KVF16, 0x1p-11}, {KVInt8, 1.01 / 254}, {KVMixed, 1.01 / 254}, {KVInt16, 1.01 / 4094}} {
		h := newHistory(r, a, c.kind, 50, 4, 2, 64)
		k, v := h.stored()
		for i := 0; i < len(k); i += 64 {
			for _, x := range [][2][]float32{{h.k[i : i+64], k[i : i+64]}, {h.v[i : i+64], v[i : i+64]}} {
				top := 0.0
				for _, y := range x[0] {
					top = max(top, math.Abs(float64(y)))
				}
				for j, y := range x[0] {
					require.InDelta(t, y, x[1][j], top*c.bound, "%s", c.kind)
				}
			}
		}
	}
}

func TestKVStorePages(t *testing.T) {
	a := NewArena()
	defer a.Close()
	for _, kind := range []KVType{KVF32, KVF16, KVInt8, KVMixed, KVInt16} {
		s := NewKVStore(a, kind, 3, 2, 20)
		require.Equal(t, KVPageBytes(kind, 2, 20), s.PageBytes())
		r := rand.New(rand.NewPCG(3, 3))
		for slot := range PageTokens {
			s.Put(1, slot, randoms(r, 40, 1), randoms(r, 40, 1))
		}
		s.Copy(2, 1)
		b := make([]byte, s.PageBytes())
		s.ReadPage(2, b)
		require.Equal(t, s.bytes(1), b)
		s.WritePage(0, b)
		require.Equal(t, s.bytes(0), b)
		require.Panics(t, func() { s.Copy(3, 0) })
	}
}

func BenchmarkAppend(b *testing.B) {
	p, a := NewPool(1), NewArena()
	defer p.Close()
	defer a.Close()
	for _, kind := range []KVType{KVF16, KVInt16, KVMixed, KVInt8} {
		const n, width = 256, 256
		s := NewKVStore(a, kind, n/PageTokens, 2, 128)
		x := randoms(rand.New(rand.NewPCG(1, 1)), n*width, 1)
		seq := AttnSeq{N: n, K: x, V: x, KVStride: width}
		for i := range n / PageTokens {
			seq.Pages = append(seq.Pages, int32(i))
		}
		b.Run(kind.String()+"/256x2x128/t1/"+Active().String(), func(b *testing.B) {
			b.SetBytes(8 * n * width)
			for b.Loop() {
				s.Append(p, []AttnSeq{seq})
			}
		})
	}
}
