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
	kScales, vScales := s.scales(page, head)
	var row [512]int16
	q := row[:]
	if s.padded > len(q) {
		q = make([]int16, s.padded)
	}
	quantize16(q, 0, k, 0, kScales[slot:], 1, s.dim, s.kind.keyLimit(s.paired)) // q[D] stays 0, the partner of an odd last element
	for i := 0; i < s.dim; i += 2 {
		at := i/2*PageTokens + slot
		if s.kind == KVInt8 {
			unsafe.Slice((*[2]int8)(kb), at+1)[at] = [2]int8{int8(q[i]), int8(q[i+1])}
		} else {
			unsafe.Slice((*[2]int16)(kb), at+1)[at] = [2]int16(q[i:])
		}
	}
	quantize16(q, 0, v, 0, vScales[slot:], 1, s.dim, s.kind.valueLimit())
	for i, x := range q[:s.dim] {
		at := (slot/2*s.padded+i)*2 + slot%2
		if s.kind == KVInt16 {
			unsafe.Slice((*int16)(vb), at+1)[at] = x
		} else {
			unsafe.Slice((*int8)(vb), at+1)[at] = int8(x)
		}
	}
}

// keyLimit is the largest magnitude of a stored key: 127 for KVInt8. Other keys share the bits that a 32-bit sum
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

// valueLimit is the largest magnitude of a stored value. 12 bits leave 20 to the sum of a split's weights.
func (t KVType) valueLimit() float32 {
	if t == KVInt16 {
		return 1<<11 - 1
	}
	return 127
}

const maxInt16 = 1<<15 - 1

// Append stores the keys and values of every sequence's queries, page by page: two threads that wrote tokens of one page
// would fight over its cache lines.
func (s *KVStore) Append(p *Pool, seqs []AttnSeq) {
	r := attnRuns.Get().(*attnRun)
	defer r.release()
	tiles := r.workers(p.Threads())
	tokens := 0
	for i := range seqs {
		seq := &seqs[i]
		tokens += seq.N
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
	if tokens > fewTokens {
		p.Run(len(r.puts), put)
		return
	}
	for task := range r.puts {
		put(task, 0)
	}
}

// fewTokens are stored in less time than the workers take to start.
const fewTokens = 8

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
	scratch = grow(scratch, PageTokens*s.padded)
	for h := range s.heads {
		kh, vh := k[h*s.dim:], v[h*s.dim:]
		kb, vb := s.kBlock(page, h), s.vBlock(page, h)
		if s.kind.integer() {
			kScales, vScales := s.scales(page, h)
			packInts(s.kind, kb, vb, kScales, vScales, kh, vh, stride, s.dim, scratch)
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

// packInts lays 16 tokens of one head out as a KVMixed or KVInt16 store does; token i is k[i*stride:] and v[i*stride:].
// scratch has 16*D floats, D rounded up to 16.
func packInts(kind KVType, kBlock, vBlock unsafe.Pointer, kScales, vScales *[PageTokens]float32, k, v []float32, stride, dim int, scratch []float32) {
	paired, padded := (dim+1)&^1, align16(dim)
	rows := unsafe.Slice((*int16)(unsafe.Pointer(&scratch[0])), PageTokens*padded)
	if dim < padded {
		clear(rows)
	}
	quantize16(rows, paired, k, stride, kScales[:], PageTokens, dim, kind.keyLimit(paired))
	pairs := paired / 2
	transpose(unsafe.Slice((*float32)(kBlock), PageTokens*pairs), scratch[:PageTokens*pairs], pairs, pairs)

	if dim < padded {
		clear(rows)
	}
	if kind == KVInt16 {
		quantize16(rows, padded, v, stride, vScales[:], PageTokens, dim, kind.valueLimit())
		for i := 0; i < PageTokens; i += 2 {
			zip16(unsafe.Add(vBlock, 2*i*padded), rows[i*padded:][:padded], rows[(i+1)*padded:])
		}
		return
	}
	bytes := unsafe.Slice((*int8)(unsafe.Pointer(&scratch[0])), PageTokens*padded)
	quantize8(bytes, padded, v, stride, vScales[:], PageTokens, dim, kind.valueLimit())
	for i := 0; i < PageTokens; i += 2 {
		zip8(unsafe.Add(vBlock, i*padded), bytes[i*padded:][:padded], bytes[(i+1)*padded:])
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
