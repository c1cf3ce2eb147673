package kernel

import "ragd/llm/quant"

// A tile is a piece of two neighbouring panels, unpacked so that one kernel serves every format: chunkBlocks blocks of
// levels in bytes with their scales, or chunkFloats columns of float32 weights. It stays in the L1 cache while all
// activation rows pass over it.
const (
	tilePanels  = 2
	tileRows    = tilePanels * panelRows
	chunkBlocks = 16
	chunkFloats = 128
)

// tileBlock is 32 elements of 16 rows. The sizes must match _asm/matmul/format.go.
type tileBlock struct {
	levels [panelRows * blockElems]uint8 // vector i, row r, element 4*i+j at 64*i+4*r+j
	scale  [panelRows]float32
	second [panelRows]float32 // kindMin: minimum; kindHalf: scale of elements 16-31
}

// quantTile and floatTile are the two kinds of tiles. Panels alternate.
type (
	quantTile [chunkBlocks][tilePanels]tileBlock
	floatTile [chunkFloats][tilePanels][panelRows]float32
)

// unpackGeneric unpacks n blocks of 32 elements of a panel, from block b, into panel p of the tile.
func (m *Matrix) unpackGeneric(dst *quantTile, p, panel, b, n int) {
	data, l := m.panel(panel), m.layout
	for i := range n {
		t, levels := &dst[i][p], l.levels(data, b+i)
		for r := range panelRows {
			scale, minimum := l.scales(data, b+i, r)
			t.scale[r], t.second[r] = scale[0], minimum
			if l.kind == kindHalf {
				t.second[r] = scale[1]
			}
		}
		l.expand(&t.levels, levels)
	}
}

// expand unpacks the levels of one block.
func (l *layout) expand(dst *[panelRows * blockElems]uint8, levels []byte) {
	if l.sub == 2*nibbles {
		copy(dst[:], levels)
		return
	}
	for i, q := range levels[:nibbles] {
		dst[i] = q & 15
		dst[i+nibbles] = q >> 4
	}
	switch l.sub {
	case nibbles + 64:
		for v := range 8 {
			to := dst[64*v : 64*v+64]
			for i, q := range levels[nibbles : nibbles+64] {
				to[i] |= q >> v & 1 << 4
			}
		}
	case nibbles + 128:
		for v := range 8 {
			to, from := dst[64*v:64*v+64], nibbles+64*(v/4)
			for i, q := range levels[from : from+64] {
				to[i] |= q >> (2 * (v % 4)) & 3 << 4
			}
		}
	}
	if l.table() {
		for i, q := range dst {
			dst[i] = iq4Levels[q&15]
		}
	}
}

// unpackFloatGeneric converts n columns of a panel of floats, from column k, into panel p of the tile.
func (m *Matrix) unpackFloatGeneric(dst *floatTile, p, panel, k, n int) {
	data := m.panel(panel)
	for i := range n {
		to, column := &dst[i][p], data[(k+i)*m.layout.nbytes:]
		switch m.typ {
		case quant.F32:
			for r := range to {
				to[r] = float(column[4*r:])
			}
		case quant.F16:
			for r := range to {
				to[r] = half(column[2*r:])
			}
		default:
			for r := range to {
				to[r] = quant.BF16ToF32(le.Uint16(column[2*r:]))
			}
		}
	}
}

// gemmGeneric adds the products of n tile blocks with one activation row to c. recs holds the row's records, stride
// apart. It is the reference of the assembly, which differs in fusing each multiplication with the addition.
func (l *layout) gemmGeneric(tile *quantTile, recs []record, stride, n int, c *[tileRows]float32) {
	for b := range n {
		rec := &recs[b*stride]
		for p := range tilePanels {
			t, y := &tile[b][p], (*[panelRows]float32)(c[p*panelRows:])
			first, second := t.dots(rec, l.zero)
			for r := range y {
				if l.kind == kindHalf {
					y[r] += float32(float32(float32(first[r])*rec.scale) * t.scale[r])
					y[r] += float32(float32(float32(second[r])*rec.scale) * t.second[r])
					continue
				}
				y[r] += float32(float32(float32(first[r]+second[r])*rec.scale) * t.scale[r])
				if l.kind == kindMin {
					y[r] += float32(rec.sum * t.second[r])
				}
			}
		}
	}
}

// dots returns the exact dot products of the rows with elements 0-15 and 16-31 of the record.
func (t *tileBlock) dots(rec *record, zero int32) (first, second [panelRows]int32) {
	for i := range 8 {
		a := (*[4]int8)(rec.levels[4*i:])
		a0, a1, a2, a3 := int32(a[0]), int32(a[1]), int32(a[2]), int32(a[3])
		shift := zero * (a0 + a1 + a2 + a3)
		w, sums := (*[64]uint8)(t.levels[64*i:]), &first
		if i >= 4 {
			sums = &second
		}
		for r := range sums {
			q := le.Uint32(w[4*r:])
			sums[r] += int32(q&255)*a0 + int32(q>>8&255)*a1 + int32(q>>16&255)*a2 + int32(q>>24)*a3 - shift
		}
	}
	return first, second
}

// gemmFloatGeneric adds the products of n columns with one activation row to c. xs holds the row's values, stride apart.
func gemmFloatGeneric(tile *floatTile, xs []float32, stride, n int, c *[tileRows]float32) {
	for p := range tilePanels {
		for r := 0; r < panelRows; r += 4 { // four chains of additions hide the latency of each
			y := (*[4]float32)(c[p*panelRows+r:])
			y0, y1, y2, y3 := y[0], y[1], y[2], y[3]
			for k := range n {
				x, w := xs[k*stride], (*[4]float32)(tile[k][p][r:])
				y0 += float32(w[0] * x)
				y1 += float32(w[1] * x)
				y2 += float32(w[2] * x)
				y3 += float32(w[3] * x)
			}
			*y = [4]float32{y0, y1, y2, y3}
		}
	}
}
