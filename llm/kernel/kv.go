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
	KVMixed               // K as 16-bit integers (12 to 14 bits of them used, see keyLimit), V as in KVInt8
	KVInt16               // K as in KVMixed, V as 16-bit integers, of which 12 bits are used
)

// String returns "f32", "f16", "int8", "mixed" or "int16".
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
	case KVInt16:
		return "int16"
	}
	return fmt.Sprintf("KVType(%d)", uint8(t))
}

func (t KVType) keyBytes() int   { return [...]int{4, 2, 1, 2, 2}[t] }
func (t KVType) valueBytes() int { return [...]int{4, 2, 1, 1, 2}[t] }

// integer reports whether the type multiplies as integers.
func (t KVType) integer() bool { return t >= KVInt8 }

// KVStore holds the keys and values of one layer, in pages. A page is, per kv head, one block of K and one of V:
//
//	K [D][16]   element d of 16 tokens side by side, so that one vector holds one element of every token of the page
//	            and a score never needs a horizontal sum
//	V [16][D']  token by token, D' = D rounded up to 16 with zeros
//
// The integer types keep pairs together, which the multiply instruction adds up: K [D/2][16][2] with D rounded up to
// even, and V [8][D'][2], two tokens side by side; the 16 float32 scales of K and the 16 of V come before the blocks.
// Blocks are 64-byte aligned. K is stored as given: after rope, if the model has one.
//
// Methods that write different pages may run concurrently; a page being written must not be read.
type KVStore struct {
	kind        KVType
	pages       int
	heads       int // KV
	dim, padded int // D, D'
	paired      int // D rounded up to even, as far as K goes
	header      int // the scales of one head
	kBytes      int // one K block
	pairBytes   int // the scales, the K block and the V block of one head
	page        int // one page
	data        []byte
}

// NewKVStore makes a store of zeros with room for the given number of pages of kvHeads heads of dim elements, in memory
// of the arena. Memory that is never written is never touched.
func NewKVStore(a *Arena, t KVType, pages, kvHeads, dim int) *KVStore {
	if pages < 0 || kvHeads <= 0 || dim <= 0 || t > KVInt16 {
		panic("kernel: impossible shape of a key/value store")
	}
	s := &KVStore{kind: t, pages: pages, heads: kvHeads, dim: dim, padded: align16(dim)}
	s.paired = (dim + 1) &^ 1
	s.header, s.kBytes, s.pairBytes = headLayout(t, dim)
	s.page = kvHeads * s.pairBytes
	s.data = a.Alloc(pages * s.page)
	return s
}

// KVPageBytes is the memory that one page of one layer takes, for planning before a store is made.
func KVPageBytes(t KVType, kvHeads, dim int) int {
	_, _, pair := headLayout(t, dim)
	return kvHeads * pair
}

// headLayout returns the bytes of the scales, of the K block, and of both and the V block.
func headLayout(t KVType, dim int) (header, k, total int) {
	if t.integer() {
		header = 2 * PageTokens * 4
	}
	line := func(n int) int { return (n + 63) &^ 63 }
	k = line(PageTokens * t.keyBytes() * ((dim + 1) &^ 1))
	return header, k, header + k + line(PageTokens*t.valueBytes()*align16(dim))
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

// head returns where the part of a kv head begins in a page.
func (s *KVStore) head(page, head int) unsafe.Pointer {
	if uint(page) >= uint(s.pages) {
		panic(fmt.Sprintf("kernel: page %d of %d", page, s.pages))
	}
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(s.data)), page*s.page+head*s.pairBytes)
}

// kBlock and vBlock return the first byte of a block.
func (s *KVStore) kBlock(page, head int) unsafe.Pointer {
	return unsafe.Add(s.head(page, head), s.header)
}

func (s *KVStore) vBlock(page, head int) unsafe.Pointer {
	return unsafe.Add(s.head(page, head), s.header+s.kBytes)
}

// scales returns the scales of K and of V of an integer store.
func (s *KVStore) scales(page, head int) (k, v *[PageTokens]float32) {
	both := (*[2][PageTokens]float32)(s.head(page, head))
	return &both[0], &both[1]
}
