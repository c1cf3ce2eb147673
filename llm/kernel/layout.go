package kernel

import (
	"encoding/binary"
	"math"

	"ragd/llm/quant"
)

// A panel holds panelRows consecutive rows of a matrix, interleaved so that one 64-byte vector carries four consecutive
// elements of each of them: byte 4*r+j of vector i is element 4*i+j of row r. That is the operand of the four-way byte
// dot products (VPDPBUSD, VPMADDUBSW).
const (
	panelRows  = 16
	blockElems = 32                         // elements that share one activation scale
	superElems = 256                        // elements of a K-quant block
	nibbles    = panelRows * blockElems / 2 // bytes of 4-bit levels in one block of a panel
	magicBits  = 0x4b400000                 // see record
)

// kind groups the layouts by the arithmetic of their products.
type kind uint8

const (
	kindFloat kind = iota // float32 weights times float32 activations
	kindScale             // integer dot per 32 elements, one scale
	kindMin               // the same and a minimum: scale*level + minimum
	kindHalf              // one scale per 16 elements
)

// layout says how a tensor type is stored in panels. A panel is a sequence of blocks, each holding blockElems elements
// (K-quants: superElems; floats: 1) of panelRows rows.
type layout struct {
	kind   kind
	elems  int                               // elements of a row in one block
	nbytes int                               // bytes of one block of a panel
	head   int                               // bytes before the levels
	sub    int                               // bytes of the levels of 32 elements
	zero   int32                             // subtracted from the stored unsigned levels
	pack   func(dst, src []byte, stride int) // see pack.go; nil for floats
}

// Blocks of 32 elements: half scales [16], half minima [16] where there are some, four vectors of levels (low nibble:
// elements 0-15, high nibble: 16-31), a vector of fifth bits (bit i of a byte belongs to vector i of the unpacked
// block). K-quants: half d [16], half dmin [16], byte scales [8][16], byte minima [8][16], then eight such blocks of
// levels; IQ4_XS: half d [16], signed byte scales [8][16], then eight blocks of levels; Q6_K: half d [16], signed byte
// scales [16][16], then eight blocks of levels, each followed by two vectors of upper bit pairs.
var layouts = map[quant.Type]*layout{
	quant.F32:    {kindFloat, 1, 64, 0, 0, 0, nil},
	quant.F16:    {kindFloat, 1, 32, 0, 0, 0, nil},
	quant.BF16:   {kindFloat, 1, 32, 0, 0, 0, nil},
	quant.Q4_0:   {kindScale, 32, 32 + nibbles, 32, nibbles, 8, packQ4_0},
	quant.IQ4_NL: {kindScale, 32, 32 + nibbles, 32, nibbles, 128, packQ4_0},
	quant.Q4_1:   {kindMin, 32, 64 + nibbles, 64, nibbles, 0, packQ4_1},
	quant.Q5_0:   {kindScale, 32, 32 + nibbles + 64, 32, nibbles + 64, 16, packQ5_0},
	quant.Q5_1:   {kindMin, 32, 64 + nibbles + 64, 64, nibbles + 64, 0, packQ5_1},
	quant.Q8_0:   {kindScale, 32, 32 + 2*nibbles, 32, 2 * nibbles, 128, packQ8_0},
	quant.Q4_K:   {kindMin, 256, 320 + 8*nibbles, 320, nibbles, 0, packQ4_K},
	quant.Q5_K:   {kindMin, 256, 320 + 8*(nibbles+64), 320, nibbles + 64, 0, packQ5_K},
	quant.IQ4_XS: {kindScale, 256, 160 + 8*nibbles, 160, nibbles, 128, packIQ4_XS},
	quant.Q6_K:   {kindHalf, 256, 288 + 8*(nibbles+128), 288, nibbles + 128, 32, packQ6_K},
}

var le = binary.LittleEndian

// level returns the unsigned level of element k (0..31) of row r from the levels of one block.
func (l *layout) level(levels []byte, r, k int) uint8 {
	if l.sub == 2*nibbles {
		return levels[64*(k/4)+4*r+k%4]
	}
	q := levels[64*(k%16/4)+4*r+k%4] >> (4 * (k / 16)) & 15
	switch l.sub {
	case nibbles + 64:
		q |= levels[nibbles+4*r+k%4] >> (k / 4) & 1 << 4
	case nibbles + 128:
		q |= levels[nibbles+64*(k/16)+4*r+k%4] >> (2 * (k % 16 / 4)) & 3 << 4
	}
	if l.table() {
		q = iq4Levels[q]
	}
	return q
}

// table reports whether the levels are indices into iq4Levels: the only nibbles with that zero point.
func (l *layout) table() bool { return l.sub == nibbles && l.zero == 128 }

// iq4Levels is the table of IQ4_NL and IQ4_XS with an offset of 128.
var iq4Levels = [16]uint8{
	128 - 127, 128 - 104, 128 - 83, 128 - 65, 128 - 49, 128 - 35, 128 - 22, 128 - 10,
	128 + 1, 128 + 13, 128 + 25, 128 + 38, 128 + 53, 128 + 69, 128 + 89, 128 + 113,
}

// scales returns the factors of 32-element block b of row r of a panel: its scale (of both halves, for kindHalf) and
// the minimum that is added.
func (l *layout) scales(panel []byte, b, r int) (scale [2]float32, minimum float32) {
	perBlock := l.elems / blockElems
	block, s := panel[b/perBlock*l.nbytes:], b%perBlock
	d := half(block[2*r:])
	switch {
	case l.kind == kindHalf:
		scale[0] = d * float32(int8(block[32+32*s+r]))
		scale[1] = d * float32(int8(block[32+32*s+16+r]))
	case l.elems == superElems && l.kind == kindScale:
		scale[0] = d * float32(int8(block[32+16*s+r]))
	case l.elems == superElems:
		scale[0] = d * float32(block[64+16*s+r])
		minimum = -(half(block[32+2*r:]) * float32(block[192+16*s+r]))
	case l.kind == kindMin:
		scale[0], minimum = d, half(block[32+2*r:])
	default:
		scale[0] = d
	}
	return scale, minimum
}

// levels returns the levels of 32-element block b of a panel.
func (l *layout) levels(panel []byte, b int) []byte {
	perBlock := l.elems / blockElems
	at := b/perBlock*l.nbytes + l.head + b%perBlock*l.sub
	return panel[at : at+l.sub]
}

func half(b []byte) float32 { return quant.F16ToF32(le.Uint16(b)) }

func float(b []byte) float32 { return math.Float32frombits(le.Uint32(b)) }
