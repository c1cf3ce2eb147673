package kernel

import (
	"fmt"
	"unsafe"
)

// PageTokens is the number of tokens in a page of the key/value store, the unit in which memory is handed out and
// prefixes are shared. 16 tokens fill one AVX-512 vector of scores.
const PageTokens = 16

// KVType is the element type of a KVStore.
type KVType uint8

const (
	KVF32   KVType = iota // exact
	KVF16                 // IEEE half; values beyond ±65504 saturate
	KVInt8                // 8-bit integers with a float32 scale per token and head, for K and for V
	KVMixed               // K as 16-bit integers (11 to 13 bits of them used, see keyLimit), V as in KVInt8
)

// String returns "f32", "f16", "int8" or "mixed".
func (t KVType) String() string {
	switch t {
	case KVF32:
		return "f32"
	case KVF16:
		return "f16"
	case KVInt8:
		return "int8"
	case KVMixed:
		return "mixed"
	}
	return fmt.Sprintf("KVType(%d)", uint8(t))
}

func (t KVType) keyBytes() int   { return [...]int{4, 2, 1, 2}[t] }
func (t KVType) valueBytes() int { return [...]int{4, 2, 1, 1}[t] }

// integer reports whether the type multiplies as integers.
func (t KVType) integer() bool { return t >= KVInt8 }

// KVStore holds the keys and values of one layer, in pages. A page is, per kv head, one K block and one V block:
//
//	K [D][16]   element d of 16 tokens side by side, so that one vector holds one element of every token of the page
//	            and a score never needs a horizontal sum
//	V [16][D']  token by token, D' = D rounded up to 16 with zeros
//
// The integer types keep pairs together, which the multiply instruction adds up: K [D/2][16][2] with D rounded up to
// even, and V [8][D'][2], two tokens side by side; then come the 16 float32 scales of the block. Blocks are 64-byte
// aligned. K is stored as given: after rope, if the model has one.
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
	if pages < 0 || kvHeads <= 0 || dim <= 0 || t > KVMixed {
		panic("kernel: impossible shape of a key/value store")
	}
	s := &KVStore{kind: t, pages: pages, heads: kvHeads, dim: dim, padded: align16(dim)}
	s.paired = (dim + 1) &^ 1
	s.kBytes = blockBytes(t, t.keyBytes()*s.paired)
	s.pairBytes = s.kBytes + blockBytes(t, t.valueBytes()*s.padded)
	s.page = kvHeads * s.pairBytes
	s.data = a.Alloc(pages * s.page)
	return s
}

// KVPageBytes is the memory that one page of one layer takes, for planning before a store is made.
func KVPageBytes(t KVType, kvHeads, dim int) int {
	return kvHeads * (blockBytes(t, t.keyBytes()*((dim+1)&^1)) + blockBytes(t, t.valueBytes()*align16(dim)))
}

// blockBytes is the size of 16 tokens of the given number of bytes with their scales, rounded up to a cache line.
func blockBytes(t KVType, token int) int {
	n := PageTokens * token
	if t.integer() {
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

// kScales and vScales return the 16 scales of a block of integers.
func (s *KVStore) kScales(page, head int) []float32 {
	b := s.bytes(page)[head*s.pairBytes:]
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[PageTokens*s.paired*s.kind.keyBytes()])), PageTokens)
}

func (s *KVStore) vScales(page, head int) []float32 {
	b := s.bytes(page)[head*s.pairBytes+s.kBytes:]
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[PageTokens*s.padded])), PageTokens)
}
