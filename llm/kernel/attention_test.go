package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"ragd/llm/quant"

	"github.com/stretchr/testify/require"
)

// eachISA runs the test on every instruction set of the machine.
func eachISA(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	before := Active()
	defer func() { require.NoError(t, SetISA(before)) }()
	for _, isa := range Available() {
		require.NoError(t, SetISA(isa))
		t.Run(isa.String(), test)
	}
}

func randoms(r *rand.Rand, n int, amplitude float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64()) * amplitude
	}
	return x
}

// history is one sequence's queries, keys and values, stored in a KVStore under a page table in random order.
type history struct {
	n, heads, kvHeads, dim int
	q, k, v                []float32 // [n][H*D], [n][KV*D]
	store                  *KVStore
	pages                  []int32
}

func newHistory(r *rand.Rand, a *Arena, kind KVType, n, heads, kvHeads, dim int) *history {
	h := &history{n: n, heads: heads, kvHeads: kvHeads, dim: dim}
	h.q = randoms(r, n*heads*dim, 1)
	h.k = randoms(r, n*kvHeads*dim, 1)
	h.v = randoms(r, n*kvHeads*dim, 1)
	used := (n + PageTokens - 1) / PageTokens
	h.store = NewKVStore(a, kind, used+3, kvHeads, dim)
	for _, p := range r.Perm(used + 3)[:used] {
		h.pages = append(h.pages, int32(p))
	}
	rest := randoms(r, 16*kvHeads*dim, 1e4)
	for _, p := range h.pages { // what an earlier owner left behind must not matter
		putRows(h.store, []int32{p}, 0, PageTokens, rest, rest, kvHeads*dim)
	}
	putRows(h.store, h.pages, 0, n, h.k, h.v, kvHeads*dim)
	return h
}

// stored returns k and v as the store's element type keeps them.
func (h *history) stored() (k, v []float32) {
	k, v = make([]float32, len(h.k)), make([]float32, len(h.v))
	for i := range h.n {
		page, slot := int(h.pages[i/PageTokens]), i%PageTokens
		for head := range h.kvHeads {
			for d := range h.dim {
				at := (i*h.kvHeads+head)*h.dim + d
				k[at], v[at] = h.store.at(page, slot, head, d)
			}
		}
	}
	return k, v
}

// at returns element d of a stored key and value.
func (s *KVStore) at(page, slot, head, d int) (k, v float32) {
	kb, vb := s.kBlock(page, head), s.vBlock(page, head)
	ki, vi := d*PageTokens+slot, slot*s.padded+d
	switch s.kind {
	case KVF32:
		return unsafe.Slice((*float32)(kb), ki+1)[ki], unsafe.Slice((*float32)(vb), vi+1)[vi]
	case KVF16:
		return quant.F16ToF32(unsafe.Slice((*uint16)(kb), ki+1)[ki]), quant.F16ToF32(unsafe.Slice((*uint16)(vb), vi+1)[vi])
	}
	ki, vi = (d/2*PageTokens+slot)*2+d%2, (slot/2*s.padded+d)*2+slot%2
	if s.kind == KVInt8 {
		k = float32(unsafe.Slice((*int8)(kb), ki+1)[ki])
	} else {
		k = float32(unsafe.Slice((*int16)(kb), ki+1)[ki])
	}
	if s.kind == KVInt16 {
		v = float32(unsafe.Slice((*int16)(vb), vi+1)[vi])
	} else {
		v = float32(unsafe.Slice((*int8)(vb), vi+1)[vi])
	}
	kScales, vScales := s.scales(page, head)
	return k * kScales[slot], v * vScales[slot]
}

// naive is attention in float64, row i of q over the rows [lo, hi) of k and v that sees returns.
func naive(q, k, v []float32, n, heads, kvHeads, dim int, scale, limit float64, sees func(i int) (lo, hi int)) []float64 {
	out := make([]float64, n*heads*dim)
	for i := range n {
		lo, hi := sees(i)
		for h := range heads {
			kv := h / (heads / kvHeads)
			s := make([]float64, hi-lo)
			top := math.Inf(-1)
			for j := range s {
				for d := range dim {
					s[j] += float64(q[(i*heads+h)*dim+d]) * float64(k[((lo+j)*kvHeads+kv)*dim+d])
				}
				s[j] *= scale
				if limit > 0 {
					s[j] = limit * math.Tanh(s[j]/limit)
				}
				top = max(top, s[j])
			}
			total := 0.0
			for j := range s {
				s[j] = math.Exp(s[j] - top)
				total += s[j]
			}
			for j := range s {
				for d := range dim {
					out[(i*heads+h)*dim+d] += s[j] / total * float64(v[((lo+j)*kvHeads+kv)*dim+d])
				}
			}
		}
	}
	return out
}

func maxDiff(got []float32, want []float64) float64 {
	worst := 0.0
	for i, x := range got {
		worst = max(worst, math.Abs(float64(x)-want[i]))
	}
	return worst
}

type attnShape struct {
	n, heads, kvHeads, dim, window int
	softCap                        float32
}

func (s attnShape) String() string {
	return fmt.Sprintf("n%d_h%d_kv%d_d%d_w%d_cap%g", s.n, s.heads, s.kvHeads, s.dim, s.window, s.softCap)
}

func (s attnShape) attention(store *KVStore) *Attention {
	return &Attention{KV: store, Heads: s.heads, Scale: float32(1 / math.Sqrt(float64(s.dim))), SoftCap: s.softCap, Window: s.window}
}

// affordable skips large shapes in plain Go, which takes seconds for each and does the same as for small ones.
func (s attnShape) affordable(t *testing.T) {
	if Active() == Generic && s.n*s.heads*s.dim > 50_000 {
		t.Skip("large shapes run with vectors only")
	}
}

var attnShapes = []attnShape{
	{1, 1, 1, 16, 0, 0},
	{37, 4, 2, 16, 0, 0},
	{270, 9, 3, 64, 0, 0},
	{270, 6, 1, 128, 0, 0},
	{40, 7, 1, 80, 0, 0},
	{260, 8, 1, 96, 0, 0},
	{260, 2, 1, 256, 0, 0},
	{600, 4, 2, 32, 100, 0},
	{530, 5, 1, 64, 16, 0},
	{400, 3, 3, 64, 512, 0},
	{300, 2, 1, 64, 0, 20},
	{280, 2, 2, 24, 40, 5},
	{530, 2, 1, 16, 300, 0},
	{600, 2, 1, 16, 0, 0},
	{40, 11, 1, 12, 0, 0},
	{20, 3, 1, 13, 0, 0},
}

// TestAttentionOracle compares with float64 on what the store holds. The bound is on the absolute error with values of
// standard deviation 1: what float32 sums over a few hundred terms lose; for integers what the bits of queries and
// weights lose, which is small beside what those of keys or values do.
func TestAttentionOracle(t *testing.T) {
	p, a := NewPool(2), NewArena()
	defer p.Close()
	defer a.Close()
	for _, kind := range []KVType{KVF32, KVF16, KVInt8, KVMixed, KVInt16} {
		for _, shape := range attnShapes {
			h := newHistory(rand.New(rand.NewPCG(1, 2)), a, kind, shape.n, shape.heads, shape.kvHeads, shape.dim)
			att := shape.attention(h.store)
			k, v := h.stored()
			want := naive(h.q, k, v, h.n, h.heads, h.kvHeads, h.dim, 1/math.Sqrt(float64(h.dim)), float64(shape.softCap), att.sees)
			t.Run(kind.String()+"/"+shape.String(), func(t *testing.T) {
				eachISA(t, func(t *testing.T) {
					shape.affordable(t)
					got := make([]float32, len(h.q))
					att.Run(p, []AttnSeq{{Pages: h.pages, N: h.n, Q: h.q, Dst: got, Stride: h.heads * h.dim}})
					bound := 4e-6
					switch kind {
					case KVInt8:
						bound = 3e-4
					case KVMixed, KVInt16:
						bound = 2e-3
					}
					require.Less(t, maxDiff(got, want), bound)
				})
			})
		}
	}
}

// TestAttentionSameBits cuts the same rows into calls in different ways.
func TestAttentionSameBits(t *testing.T) {
	pools := []*Pool{NewPool(1), NewPool(2), NewPool(3)}
	a := NewArena()
	defer a.Close()
	for _, p := range pools {
		defer p.Close()
	}
	for _, kind := range []KVType{KVF32, KVF16, KVInt8, KVMixed, KVInt16} {
		for _, shape := range attnShapes {
			r := rand.New(rand.NewPCG(3, 4))
			h := newHistory(r, a, kind, shape.n, shape.heads, shape.kvHeads, shape.dim)
			att := shape.attention(h.store)
			t.Run(kind.String()+"/"+shape.String(), func(t *testing.T) {
				eachISA(t, func(t *testing.T) {
					shape.affordable(t)
					sameBits(t, r, pools, att, h)
				})
			})
		}
	}
}

func sameBits(t *testing.T, r *rand.Rand, pools []*Pool, att *Attention, h *history) {
	width := h.heads * h.dim
	whole := make([]float32, len(h.q))
	att.Run(pools[0], []AttnSeq{{Pages: h.pages, N: h.n, Q: h.q, Dst: whole, Stride: width}})
	for _, chunk := range []int{1, 5, 16, 100, 257} {
		p := pools[r.IntN(len(pools))]
		got := make([]float32, len(h.q))
		for pos := 0; pos < h.n; pos += chunk {
			if chunk == 1 && pos%17 != 0 && pos < h.n-2 { // a sample is enough, and much faster
				copy(got[pos*width:(pos+1)*width], whole[pos*width:])
				continue
			}
			n := min(chunk, h.n-pos)
			att.Run(p, []AttnSeq{{Pages: h.pages, Pos: pos, N: n, Q: h.q[pos*width:], Dst: got[pos*width:], Stride: width}})
		}
		requireSameBits(t, whole, got, "chunks of %d", chunk)
	}
	// As a batch: the same history as several sequences of which each computes other rows.
	got := make([]float32, len(h.q))
	var seqs []AttnSeq
	for pos := 0; pos < h.n; {
		n := min(1+r.IntN(20), h.n-pos)
		pages := slices.Clone(h.pages[:(pos+n+PageTokens-1)/PageTokens])
		if lo, _ := att.sees(pos); lo > 0 {
			for i := range lo / PageTokens {
				pages[i] = -1 // pages outside the window are gone
			}
		}
		seqs = append(seqs, AttnSeq{Pages: pages, Pos: pos, N: n, Q: h.q[pos*width:], Dst: got[pos*width:], Stride: width})
		pos += n
	}
	r.Shuffle(len(seqs), func(i, j int) { seqs[i], seqs[j] = seqs[j], seqs[i] })
	att.Run(pools[2], seqs)
	requireSameBits(t, whole, got, "batch")
}

func requireSameBits(t *testing.T, want, got []float32, format string, args ...any) {
	t.Helper()
	for i := range want {
		if math.Float32bits(want[i]) != math.Float32bits(got[i]) {
			require.Failf(t, "bits differ", "%s: element %d is %x, want %x", fmt.Sprintf(format, args...), i, got[i], want[i])
		}
	}
}

func TestAttendBidirectional(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct{ heads, kvHeads, dim, window int }{
		{12, 12, 32, 0}, {4, 4, 64, 0}, {4, 1, 64, 0}, {3, 3, 16, 128}, {2, 2, 24, 10}, {6, 2, 64, 64},
	} {
		lengths := []int{1, 7, 16, 130, 300, 0, 261}
		starts := []int{0}
		for _, n := range lengths {
			starts = append(starts, starts[len(starts)-1]+n)
		}
		rows := starts[len(starts)-1]
		q := randoms(r, rows*c.heads*c.dim, 1)
		k, v := randoms(r, rows*c.kvHeads*c.dim, 1), randoms(r, rows*c.kvHeads*c.dim, 1)
		scale := 1 / math.Sqrt(float64(c.dim))
		want := naive(q, k, v, rows, c.heads, c.kvHeads, c.dim, scale, 0, func(i int) (int, int) {
			s, found := slices.BinarySearch(starts, i)
			if !found {
				s--
			}
			for starts[s+1] == starts[s] {
				s++
			}
			lo, hi := starts[s], starts[s+1]
			if c.window > 0 {
				lo, hi = max(lo, i-c.window/2), min(hi, i+c.window/2+1)
			}
			return lo, hi
		})
		t.Run(fmt.Sprintf("h%d_kv%d_d%d_w%d", c.heads, c.kvHeads, c.dim, c.window), func(t *testing.T) {
			eachISA(t, func(t *testing.T) {
				got := make([]float32, len(q))
				AttendBidirectional(p, q, k, v, got, starts, c.heads, c.kvHeads, c.dim, float32(scale), c.window)
				require.Less(t, maxDiff(got, want), 4e-6)
				for s := range lengths { // each sequence alone
					from, to := starts[s], starts[s+1]
					alone := make([]float32, (to-from)*c.heads*c.dim)
					kv := c.kvHeads * c.dim
					AttendBidirectional(p, q[from*c.heads*c.dim:], k[from*kv:], v[from*kv:], alone, []int{0, to - from}, c.heads, c.kvHeads, c.dim, float32(scale), c.window)
					requireSameBits(t, got[from*c.heads*c.dim:to*c.heads*c.dim], alone, "sequence %d", s)
				}
			})
		})
	}
}

// TestAttentionMemory prefills 8192 tokens: a score matrix of one head alone would take 256 MiB.
func TestAttentionMemory(t *testing.T) {
	if Active() == Generic {
		t.Skip("takes minutes in plain Go; the tiles are the same at every instruction set")
	}
	p, a := NewPool(2), NewArena()
	defer p.Close()
	defer a.Close()
	const n, heads, kvHeads, dim = 8192, 2, 1, 64
	s := NewKVStore(a, KVF16, n/PageTokens, kvHeads, dim)
	seq := AttnSeq{N: n, Q: make([]float32, n*heads*dim), Stride: heads * dim, K: make([]float32, n*dim), KVStride: dim}
	seq.V, seq.Dst = seq.K, seq.Q
	for i := range n / PageTokens {
		seq.Pages = append(seq.Pages, int32(i))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.Append(p, []AttnSeq{seq})
	att := &Attention{KV: s, Heads: heads, Scale: 1}
	att.Run(p, []AttnSeq{seq})
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
}

// TestAttentionSpecialValues asks that nothing crashes, that infinities and NaN in one row's query stay in that row, and
// that those in keys and values, which are stored as finite numbers, do not reach rows that do not see them.
func TestAttentionSpecialValues(t *testing.T) {
	p, a := NewPool(2), NewArena()
	defer p.Close()
	defer a.Close()
	const n, bad = 70, 30
	for _, kind := range []KVType{KVF32, KVF16, KVInt8, KVMixed, KVInt16} {
		h := newHistory(rand.New(rand.NewPCG(1, 2)), a, kind, n, 4, 2, 32)
		att := attnShape{n: n, heads: 4, kvHeads: 2, dim: 32}.attention(h.store)
		width := h.heads * h.dim
		run := func() []float32 {
			got := make([]float32, len(h.q))
			att.Run(p, []AttnSeq{{Pages: h.pages, N: n, Q: h.q, Dst: got, Stride: width}})
			return got
		}
		eachISA(t, func(t *testing.T) {
			clean := run()
			for _, x := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32} {
				q := h.q[bad*width+3]
				h.q[bad*width+3] = x
				got := run()
				h.q[bad*width+3] = q
				requireSameBits(t, clean[:bad*width], got[:bad*width], "query %g", x)
				requireSameBits(t, clean[(bad+1)*width:], got[(bad+1)*width:], "query %g", x)

				row := append([]float32{}, h.k[bad*64:(bad+1)*64]...)
				row[5] = x
				putRows(h.store, h.pages, bad, 1, row, row, 64)
				got = run()
				putRows(h.store, h.pages, bad, 1, h.k[bad*64:], h.v[bad*64:], 64)
				requireSameBits(t, clean[:bad*width], got[:bad*width], "key and value %g", x)
			}
		})
	}
}

// TestAttentionISAsAgree holds the bits of AVX2 and AVX-512 against each other.
func TestAttentionISAsAgree(t *testing.T) {
	before := Active()
	defer func() { require.NoError(t, SetISA(before)) }()
	p, a := NewPool(2), NewArena()
	defer p.Close()
	defer a.Close()
	for _, kind := range []KVType{KVF32, KVF16, KVInt8, KVMixed, KVInt16} {
		for _, shape := range attnShapes {
			h := newHistory(rand.New(rand.NewPCG(1, 2)), a, kind, shape.n, shape.heads, shape.kvHeads, shape.dim)
			att := shape.attention(h.store)
			var want []float32
			for _, isa := range Available() {
				if isa == Generic {
					continue
				}
				require.NoError(t, SetISA(isa))
				got := make([]float32, len(h.q))
				att.Run(p, []AttnSeq{{Pages: h.pages, N: h.n, Q: h.q, Dst: got, Stride: h.heads * h.dim}})
				if want == nil {
					want = got
				}
				requireSameBits(t, want, got, "%s %s", kind, shape)
			}
		}
	}
}
