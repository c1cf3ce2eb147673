package kernel

import (
	"math"
	"unsafe"
)

// Put stores one token: k and v are [KV*D]. What cannot be represented is stored as the nearest finite value and NaN as
// zero, so that a slot left over from one sequence can never spoil another through 0*Inf.
func (s *KVStore) Put(page, slot int, k, v []float32) {
	if slot < 0 || slot >= PageTokens || len(k) < s.heads*s.dim || len(v) < s.heads*s.dim {
		panic("kernel: bad slot or too short a key or value")
	}
	for h := range s.heads {
		s.putHead(page, slot, h, k[h*s.dim:(h+1)*s.dim], v[h*s.dim:(h+1)*s.dim])
	}
}

func (s *KVStore) putHead(page, slot, head int, k, v []float32) {
	kb, vb := s.kBlock(page, head), s.vBlock(page, head)
	if s.kind.integer() {
		s.putInts(page, slot, head, k, v)
		return
	}
	var b [256]uint16
	for d := 0; d < len(k); d += len(b) {
		n := min(len(b), len(k)-d)
		if s.kind == KVF32 {
			for i, x := range k[d : d+n] {
				unsafe.Slice((*float32)(kb), PageTokens*s.dim)[(d+i)*PageTokens+slot] = finite(x, math.MaxFloat32)
			}
			continue
		}
		toHalf(b[:n], k[d:d+n])
		for i, x := range b[:n] {
			unsafe.Slice((*uint16)(kb), PageTokens*s.dim)[(d+i)*PageTokens+slot] = x
		}
	}
	narrow(s.kind, unsafe.Add(vb, slot*s.padded*s.kind.valueBytes()), v)
}

// putInts stores one token of one head in the integer types.
func (s *KVStore) putInts(page, slot, head int, k, v []float32) {
	kb, vb := s.kBlock(page, head), s.vBlock(page, head)
	limit := s.kind.keyLimit(s.paired)
	kScale, kFactor := scaleTo(absMax(k), limit)
	vScale, vFactor := scaleTo(absMax(v), 127)
	kScales, vScales := s.scales(page, head)
	kScales[slot], vScales[slot] = kScale, vScale
	k8 := unsafe.Slice((*[2]int8)(kb), PageTokens*s.paired/2)
	k16 := unsafe.Slice((*[2]int16)(kb), PageTokens*s.paired/2)
	v8 := unsafe.Slice((*[2]int8)(vb), PageTokens*s.padded/2)[slot/2*s.padded:]
	var b [256]int16
	var b8 [256]int8
	for d := 0; d < len(k); d += len(b) {
		n := min(len(b), len(k)-d)
		toInt16(b[:n], k[d:d+n], kFactor, limit)
		if n < len(b) {
			b[n] = 0 // the partner of an odd last element
		}
		for i := 0; i < n; i += 2 {
			if s.kind == KVInt8 {
				k8[(d+i)/2*PageTokens+slot] = [2]int8{int8(b[i]), int8(b[i+1])}
			} else {
				k16[(d+i)/2*PageTokens+slot] = [2]int16(b[i:])
			}
		}
		toInt8(b8[:n], v[d:d+n], vFactor)
		for i, x := range b8[:n] {
			v8[d+i][slot%2] = x
		}
	}
}

// keyLimit is the largest magnitude of a stored key: 127 for KVInt8. The keys of KVMixed share the bits that a 32-bit sum
// of n products has evenly with the queries: 8191 for 32 elements, 5792 for 64, 4095 for 128, 2895 for 256.
func (t KVType) keyLimit(n int) float32 {
	if t == KVInt8 {
		return 127
	}
	return min(maxInt16, float32(int(math.Sqrt(math.MaxInt32/float64(n)))))
}

// queryLimit is the largest magnitude of a query's 16-bit form, such that n products with keys fit 32 bits.
func (t KVType) queryLimit(n int) float32 {
	return min(maxInt16, float32(math.MaxInt32/(int(t.keyLimit(n))*n)))
}

const maxInt16 = 1<<15 - 1

// PutRows stores n tokens at positions pos.. of a sequence whose page table covers them. Token i is k[i*stride:] and
// v[i*stride:], [KV*D] each.
func (s *KVStore) PutRows(pages []int32, pos, n int, k, v []float32, stride int) {
	var scratch []float32
	for i := 0; i < n; {
		slot := (pos + i) % PageTokens
		m := min(PageTokens-slot, n-i)
		scratch = s.putPage(int(pages[(pos+i)/PageTokens]), slot, m, k[i*stride:], v[i*stride:], stride, scratch)
		i += m
	}
}

// Append stores the keys and values of every sequence's queries, page by page: two threads that wrote tokens of one page
// would fight over its cache lines.
func (s *KVStore) Append(p *Pool, seqs []AttnSeq) {
	r := attnRuns.Get().(*attnRun)
	defer r.release()
	tiles := r.workers(p.Threads())
	for i := range seqs {
		seq := &seqs[i]
		for at := 0; at < seq.N; {
			n := min(PageTokens-(seq.Pos+at)%PageTokens, seq.N-at)
			r.puts = append(r.puts, putTask{seq, at, n})
			at += n
		}
	}
	put := func(task, worker int) {
		u, t := r.puts[task], &tiles[worker]
		pos, row := u.seq.Pos+u.at, u.at*u.seq.KVStride
		t.kf = s.putPage(int(u.seq.Pages[pos/PageTokens]), pos%PageTokens, u.n, u.seq.K[row:], u.seq.V[row:], u.seq.KVStride, t.kf)
	}
	if len(r.puts) > 1 {
		p.Run(len(r.puts), put)
	} else if len(r.puts) == 1 {
		put(0, 0)
	}
}

// putTask is the tokens [at, at+n) of a sequence's part of a batch, which lie on one page.
type putTask struct {
	seq   *AttnSeq
	at, n int
}

// putPage stores n tokens on consecutive slots of a page. It returns scratch, grown if it had to be.
func (s *KVStore) putPage(page, slot, n int, k, v []float32, stride int, scratch []float32) []float32 {
	if n < PageTokens || s.kind == KVInt8 {
		for i := range n {
			s.Put(page, slot+i, k[i*stride:], v[i*stride:])
		}
		return scratch
	}
	scratch = grow(scratch, PageTokens*s.paired)
	for h := range s.heads {
		kh, vh := k[h*s.dim:], v[h*s.dim:]
		kb, vb := s.kBlock(page, h), s.vBlock(page, h)
		if s.kind == KVMixed {
			s.putIntPage(page, h, kh, vh, stride, scratch)
			continue
		}
		transpose(scratch, kh, stride, s.dim)
		narrow(s.kind, kb, scratch[:PageTokens*s.dim])
		for i := range PageTokens {
			narrow(s.kind, unsafe.Add(vb, i*s.padded*s.kind.valueBytes()), vh[i*stride:][:s.dim])
		}
	}
	return scratch
}

// putIntPage is putInts for 16 tokens of a KVMixed store.
func (s *KVStore) putIntPage(page, head int, k, v []float32, stride int, scratch []float32) {
	limit := s.kind.keyLimit(s.paired)
	kScales, vScales := s.scales(page, head)
	rows := unsafe.Slice((*int16)(unsafe.Pointer(&scratch[0])), PageTokens*s.paired)
	for i := range PageTokens {
		x, q := k[i*stride:][:s.dim], rows[i*s.paired:(i+1)*s.paired]
		var factor float32
		kScales[i], factor = scaleTo(absMax(x), limit)
		q[s.paired-1] = 0
		toInt16(q[:s.dim], x, factor, limit)
	}
	pairs := s.paired / 2
	transpose(unsafe.Slice((*float32)(s.kBlock(page, head)), PageTokens*pairs), scratch[:PageTokens*pairs], pairs, pairs)

	two := unsafe.Slice((*int8)(unsafe.Pointer(&scratch[0])), 2*s.padded)
	clear(two)
	for i := 0; i < PageTokens; i += 2 {
		for j := range 2 {
			x := v[(i+j)*stride:][:s.dim]
			var factor float32
			vScales[i+j], factor = scaleTo(absMax(x), 127)
			toInt8(two[j*s.padded:][:s.dim], x, factor)
		}
		zip(unsafe.Slice((*byte)(s.vBlock(page, head)), PageTokens*s.padded)[i*s.padded:], two[:s.padded], two[s.padded:])
	}
}

// narrow converts x to the elements of a float store.
func narrow(kind KVType, dst unsafe.Pointer, x []float32) {
	if kind == KVF16 {
		toHalf(unsafe.Slice((*uint16)(dst), len(x)), x)
		return
	}
	out := unsafe.Slice((*float32)(dst), len(x))
	for i, y := range x {
		out[i] = finite(y, math.MaxFloat32)
	}
}

// finite clamps x to ±limit and maps NaN to 0.
func finite(x, limit float32) float32 {
	if x != x {
		return 0
	}
	return max(-limit, min(limit, x))
}
