package kernel

import (
	"fmt"
	"math"
	"unsafe"
)

// PageTokens is the number of tokens in a page of the key/value store, the unit in which memory is handed out and
// prefixes are shared. 16 tokens fill one AVX-512 vector of scores.
const PageTokens = 16

// KVType is the element type of a KVStore.
type KVType uint8

const (
	KVF32  KVType = iota // exact
	KVF16                // IEEE half; values beyond ±65504 saturate
	KVInt8               // 8-bit with one float32 scale per token and head, for K and for V
)

// String returns "f32", "f16" or "int8".
func (t KVType) String() string {
	switch t {
	case KVF32:
		return "f32"
	case KVF16:
		return "f16"
	case KVInt8:
		return "int8"
	}
	return fmt.Sprintf("KVType(%d)", uint8(t))
}

func (t KVType) elemBytes() int { return [...]int{4, 2, 1}[t] }

// KVStore holds the keys and values of one layer, in pages. A page is, per kv head, one K block and one V block:
//
//	K [D][16]   element d of 16 tokens side by side, so that one vector holds one element of every token of the page
//	            and a score never needs a horizontal sum
//	V [16][D']  token by token, D' = D rounded up to 16 with zeros
//
// KVInt8 keeps pairs together, which the multiply instruction adds up: K [D/2][16][2] with D rounded up to even, and
// V [8][D'][2], two tokens side by side; then come the 16 float32 scales of the block. Blocks are 64-byte aligned. K is stored as given: after
// rope, if the model has one.
//
// Methods that write different pages may run concurrently; a page being written must not be read.
type KVStore struct {
	kind        KVType
	pages       int
	heads       int // KV
	dim, padded int // D, D'
	paired      int // D rounded up to even, as far as K goes
	kBytes      int // one K block
	pairBytes   int // one K and one V block
	page        int // one page
	data        []byte
}

// NewKVStore makes a store of zeros with room for the given number of pages of kvHeads heads of dim elements, in memory
// of the arena. Memory that is never written is never touched.
func NewKVStore(a *Arena, t KVType, pages, kvHeads, dim int) *KVStore {
	if pages < 0 || kvHeads <= 0 || dim <= 0 || t > KVInt8 {
		panic("kernel: impossible shape of a key/value store")
	}
	s := &KVStore{kind: t, pages: pages, heads: kvHeads, dim: dim, padded: align16(dim)}
	s.paired = (dim + 1) &^ 1
	s.kBytes = blockBytes(t, s.paired)
	s.pairBytes = s.kBytes + blockBytes(t, s.padded)
	s.page = kvHeads * s.pairBytes
	s.data = a.Alloc(pages * s.page)
	return s
}

// KVPageBytes is the memory that one page of one layer takes, for planning before a store is made.
func KVPageBytes(t KVType, kvHeads, dim int) int {
	return kvHeads * (blockBytes(t, (dim+1)&^1) + blockBytes(t, align16(dim)))
}

// blockBytes is the size of 16 tokens of dim elements with their scales, rounded up to a cache line.
func blockBytes(t KVType, dim int) int {
	n := PageTokens * dim * t.elemBytes()
	if t == KVInt8 {
		n += PageTokens * 4
	}
	return (n + 63) &^ 63
}

func align16(n int) int { return (n + 15) &^ 15 }

// Type returns the element type.
func (s *KVStore) Type() KVType { return s.kind }

// Pages returns the number of pages.
func (s *KVStore) Pages() int { return s.pages }

// PageBytes returns the size of one page.
func (s *KVStore) PageBytes() int { return s.page }

// Copy copies page src onto page dst.
func (s *KVStore) Copy(dst, src int) { copy(s.bytes(dst), s.bytes(src)) }

// ReadPage copies a page into b, which must have PageBytes bytes. The image is only good for a store of the same type,
// kv heads and head size; it is little endian.
func (s *KVStore) ReadPage(page int, b []byte) { copy(b[:s.page], s.bytes(page)) }

// WritePage copies b, which a ReadPage filled, into a page. It trusts the bytes: whoever keeps images outside memory
// checks their integrity.
func (s *KVStore) WritePage(page int, b []byte) { copy(s.bytes(page), b[:s.page]) }

func (s *KVStore) bytes(page int) []byte {
	if page < 0 || page >= s.pages {
		panic(fmt.Sprintf("kernel: page %d of %d", page, s.pages))
	}
	return s.data[page*s.page : (page+1)*s.page]
}

// kBlock and vBlock return the first byte of a block.
func (s *KVStore) kBlock(page, head int) *byte { return &s.bytes(page)[head*s.pairBytes] }
func (s *KVStore) vBlock(page, head int) *byte { return &s.bytes(page)[head*s.pairBytes+s.kBytes] }

// kScales and vScales return the 16 scales of a block of a KVInt8 store.
func (s *KVStore) kScales(page, head int) []float32 {
	b := s.bytes(page)[head*s.pairBytes:]
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[PageTokens*s.paired])), PageTokens)
}

func (s *KVStore) vScales(page, head int) []float32 {
	b := s.bytes(page)[head*s.pairBytes+s.kBytes:]
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[PageTokens*s.padded])), PageTokens)
}

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
	switch s.kind {
	case KVF32:
		kd, vd := unsafe.Slice((*float32)(unsafe.Pointer(kb)), PageTokens*s.dim), unsafe.Slice((*float32)(unsafe.Pointer(vb)), PageTokens*s.padded)
		for d := range k {
			kd[d*PageTokens+slot] = finite(k[d], math.MaxFloat32)
			vd[slot*s.padded+d] = finite(v[d], math.MaxFloat32)
		}
	case KVF16:
		kd, vd := unsafe.Slice((*uint16)(unsafe.Pointer(kb)), PageTokens*s.dim), unsafe.Slice((*uint16)(unsafe.Pointer(vb)), PageTokens*s.padded)
		var half [256]uint16
		for d := 0; d < len(k); d += len(half) {
			n := min(len(half), len(k)-d)
			toHalf(half[:n], k[d:d+n])
			for i, x := range half[:n] {
				kd[(d+i)*PageTokens+slot] = x
			}
		}
		toHalf(vd[slot*s.padded:][:len(v)], v)
	case KVInt8:
		kScale, kFactor := scaleTo(absMax(k), 127)
		vScale, vFactor := scaleTo(absMax(v), 127)
		s.kScales(page, head)[slot], s.vScales(page, head)[slot] = kScale, vScale
		kd := unsafe.Slice((*[2]int8)(unsafe.Pointer(kb)), PageTokens*s.paired/2)
		vd := unsafe.Slice((*[2]int8)(unsafe.Pointer(vb)), PageTokens*s.padded/2)[slot/2*s.padded:]
		var b [256]int8
		for d := 0; d < len(k); d += len(b) {
			n := min(len(b), len(k)-d)
			toInt8(b[:n], k[d:d+n], kFactor)
			b[n&(len(b)-1)] = 0 // the partner of an odd last element
			for i := 0; i < n; i += 2 {
				kd[(d+i)/2*PageTokens+slot] = [2]int8(b[i:])
			}
			toInt8(b[:n], v[d:d+n], vFactor)
			for i, x := range b[:n] {
				vd[d+i][slot%2] = x
			}
		}
	}
}

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
	scratch = grow(scratch, PageTokens*s.dim)
	for h := range s.heads {
		kh, vh := k[h*s.dim:], v[h*s.dim:]
		kb, vb := s.kBlock(page, h), s.vBlock(page, h)
		transpose(scratch, kh, stride, s.dim)
		narrow(s.kind, kb, scratch[:PageTokens*s.dim])
		for i := range PageTokens {
			narrow(s.kind, (*byte)(unsafe.Add(unsafe.Pointer(vb), i*s.padded*s.kind.elemBytes())), vh[i*stride:][:s.dim])
		}
	}
	return scratch
}

// narrow converts x to the elements of an f32 or f16 store.
func narrow(kind KVType, dst *byte, x []float32) {
	if kind == KVF16 {
		toHalf(unsafe.Slice((*uint16)(unsafe.Pointer(dst)), len(x)), x)
		return
	}
	out := unsafe.Slice((*float32)(unsafe.Pointer(dst)), len(x))
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
