package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkDecodeAttention is one token of one sequence at a depth. MB/s counts the keys and values read once.
func BenchmarkDecodeAttention(b *testing.B) {
	for _, m := range []struct {
		name                string
		heads, kvHeads, dim int
	}{{"qwen1.5b", 12, 2, 128}, {"smollm2", 9, 3, 64}} {
		for _, kind := range []KVType{KVF16, KVInt16, KVMixed, KVInt8, KVF32} {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/%s/depth2048/t%d/%s", m.name, kind, threads, Active()), func(b *testing.B) {
					benchDecode(b, kind, threads, 28, m.heads, m.kvHeads, m.dim, 2048)
				})
				b.Run(fmt.Sprintf("%s/%s/depth2048_hot/t%d/%s", m.name, kind, threads, Active()), func(b *testing.B) {
					benchDecode(b, kind, threads, 1, m.heads, m.kvHeads, m.dim, 2048)
				})
			}
		}
	}
}

// benchDecode goes round many layers, so that their keys and values come from memory as in a model.
func benchDecode(b *testing.B, kind KVType, threads, layers, heads, kvHeads, dim, depth int) {
	p, a := NewPool(threads), NewArena()
	defer p.Close()
	defer a.Close()
	r := rand.New(rand.NewPCG(1, 1))
	q, dst := randoms(r, heads*dim, 1), make([]float32, heads*dim)
	row := randoms(r, kvHeads*dim, 1)
	pages := make([]int32, depth/PageTokens)
	for i := range pages {
		pages[i] = int32(i)
	}
	att := make([]Attention, layers)
	for i := range att {
		store := NewKVStore(a, kind, len(pages), kvHeads, dim)
		for pos := range depth {
			store.Put(pos/PageTokens, pos%PageTokens, row, row)
		}
		att[i] = Attention{KV: store, Heads: heads, Scale: 0.1}
	}
	seq := []AttnSeq{{Pages: pages, Pos: depth - 1, N: 1, Q: q, Dst: dst, Stride: heads * dim}}
	b.SetBytes(int64(len(pages) * att[0].KV.PageBytes()))
	i := 0
	for b.Loop() {
		att[i%layers].Run(p, seq)
		i++
	}
	b.ReportMetric(4*float64(depth*heads*dim)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
}

// BenchmarkPrefillAttention is a causal prefill from an empty history.
func BenchmarkPrefillAttention(b *testing.B) {
	for _, m := range []struct {
		name                string
		heads, kvHeads, dim int
	}{{"qwen1.5b", 12, 2, 128}, {"smollm2", 9, 3, 64}} {
		for _, kind := range []KVType{KVF16, KVInt16, KVMixed, KVInt8} {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/%s/2048/t%d/%s", m.name, kind, threads, Active()), func(b *testing.B) {
					benchPrefill(b, kind, threads, m.heads, m.kvHeads, m.dim, 2048)
				})
			}
		}
	}
}

func benchPrefill(b *testing.B, kind KVType, threads, heads, kvHeads, dim, n int) {
	p, a := NewPool(threads), NewArena()
	defer p.Close()
	defer a.Close()
	h := newHistory(rand.New(rand.NewPCG(1, 1)), a, kind, n, heads, kvHeads, dim)
	att := Attention{KV: h.store, Heads: heads, Scale: 0.1}
	dst := make([]float32, len(h.q))
	seq := []AttnSeq{{Pages: h.pages, N: n, Q: h.q, Dst: dst, Stride: heads * dim}}
	for b.Loop() {
		att.Run(p, seq)
	}
	b.ReportMetric(4*float64(n)*float64(n+1)/2*float64(heads*dim)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
}

// BenchmarkEncoderAttention is a pack of passages of 256 tokens.
func BenchmarkEncoderAttention(b *testing.B) {
	for _, c := range []struct{ heads, dim, length int }{{12, 32, 256}, {12, 64, 256}, {12, 32, 64}, {12, 64, 512}} {
		b.Run(fmt.Sprintf("h%d_d%d_n%d/t1/%s", c.heads, c.dim, c.length, Active()), func(b *testing.B) {
			benchEncoder(b, c.heads, c.dim, c.length)
		})
	}
}

func benchEncoder(b *testing.B, heads, dim, length int) {
	p := NewPool(1)
	defer p.Close()
	r := rand.New(rand.NewPCG(1, 1))
	rows := 4 * length
	q, k, v := randoms(r, rows*heads*dim, 1), randoms(r, rows*heads*dim, 1), randoms(r, rows*heads*dim, 1)
	dst := make([]float32, len(q))
	starts := []int{0, length, 2 * length, 3 * length, rows}
	for b.Loop() {
		AttendBidirectional(p, q, k, v, dst, starts, heads, heads, dim, 0.1, 0)
	}
	b.ReportMetric(4*4*float64(length*length*heads*dim)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOPS")
}
