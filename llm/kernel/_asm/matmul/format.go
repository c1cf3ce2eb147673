package main

// The sizes below must match layout.go, tile.go and input.go of package kernel.
const (
	nibbleBytes = 256  // 4-bit levels of 16 rows x 32 elements
	tileStride  = 1280 // from a block of the tile to the next: two panels
	tileScale   = 512  // float32 scales of 16 rows, after the levels of a tile block
	tileSecond  = 576  // minima, or scales of elements 16-31

	recordBytes  = 64
	recordScale  = 32
	recordOffset = 36
	recordSum    = 40
	recordStart  = 44 // for zero points 8, 16, 128
	recordHalves = 56 // for zero point 32, elements 0-15 and 16-31
)

// prefetchBytes is how far ahead of its reads a kernel that streams weights asks for them. A core needs two to four KiB in
// flight to hide the latency of DRAM, and the hardware's own prefetchers stop at every 4 KiB.
const prefetchBytes = 8192

// kind groups formats by the arithmetic of their products; see layout.go.
type kind int

const (
	kindScale kind = iota
	kindMin
	kindHalf
)

// format is a quantized type as its panels store it; see layout.go.
type format struct {
	name  string
	kind  kind
	head  int  // bytes before the levels of a block
	super bool // K-quant: eight sub-blocks with byte scales
	bits  int  // 4, 5, 6 or 8
	table bool // levels are indices into the table of IQ4_NL
	start int  // offset in the record of the start value for the zero point; 0: none
}

var formats = []format{
	{name: "Q4_0", kind: kindScale, head: 32, bits: 4, start: recordStart},
	{name: "IQ4_NL", kind: kindScale, head: 32, bits: 4, table: true, start: recordStart + 8},
	{name: "Q4_1", kind: kindMin, head: 64, bits: 4},
	{name: "Q5_0", kind: kindScale, head: 32, bits: 5, start: recordStart + 4},
	{name: "Q5_1", kind: kindMin, head: 64, bits: 5},
	{name: "Q8_0", kind: kindScale, head: 32, bits: 8, start: recordStart + 8},
	{name: "Q4_K", kind: kindMin, head: 320, super: true, bits: 4},
	{name: "Q5_K", kind: kindMin, head: 320, super: true, bits: 5},
	{name: "IQ4_XS", kind: kindScale, head: 160, super: true, bits: 4, table: true, start: recordStart + 8},
	{name: "Q6_K", kind: kindHalf, head: 288, super: true, bits: 6, start: recordHalves},
}

// subBytes is the size of the levels of 16 rows x 32 elements.
func (f format) subBytes() int {
	switch f.bits {
	case 5:
		return nibbleBytes + 64
	case 6:
		return nibbleBytes + 128
	case 8:
		return 2 * nibbleBytes
	}
	return nibbleBytes
}

// blockBytes is the size of a block that is no super-block.
func (f format) blockBytes() int { return f.head + f.subBytes() }
