package kernel

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
	for i := range nibbles {
		dst[i] = levels[i] & 15
		dst[i+nibbles] = levels[i] >> 4
	}
	switch l.sub {
	case nibbles + 64:
		for i := range dst {
			dst[i] |= levels[nibbles+i%64] >> (i / 64) & 1 << 4
		}
	case nibbles + 128:
		for i := range dst {
			dst[i] |= levels[nibbles+i/256*64+i%64] >> (i % 256 / 64 * 2) & 3 << 4
		}
	}
	if l.table() {
		for i := range dst {
			dst[i] = iq4Levels[dst[i]]
		}
	}
}

// unpackFloatGeneric converts n columns of a panel of floats, from column k, into panel p of the tile.
func (m *Matrix) unpackFloatGeneric(dst *floatTile, p, panel, k, n int) {
	data := m.panel(panel)
	for i := range n {
		for r := range panelRows {
			dst[i][p][r] = m.float(data, r, k+i)
		}
	}
}

// dotGenericTile adds the products of n tile blocks with one activation row to c. recs holds the row's records, stride
// apart.
func (l *layout) gemmGeneric(tile *quantTile, recs []record, stride, n int, c *[tileRows]float32) {
	for b := range n {
		rec := &recs[b*stride]
		for p := range tilePanels {
			t := &tile[b][p]
			for r := range panelRows {
				sums := t.dot(rec, r, l.zero)
				y := c[p*panelRows+r]
				if l.kind == kindHalf {
					y += float32(float32(float32(sums[0])*rec.scale) * t.scale[r])
					y += float32(float32(float32(sums[1])*rec.scale) * t.second[r])
				} else {
					y += float32(float32(float32(sums[0]+sums[1])*rec.scale) * t.scale[r])
				}
				if l.kind == kindMin {
					y += float32(rec.sum * t.second[r])
				}
				c[p*panelRows+r] = y
			}
		}
	}
}

// dot returns the exact dot products of row r with elements 0-15 and 16-31 of the record.
func (t *tileBlock) dot(rec *record, r int, zero int32) (sums [2]int32) {
	for i := range 8 {
		w, a := t.levels[64*i+4*r:][:4], rec.levels[4*i:][:4]
		sums[i/4] += (int32(w[0])-zero)*int32(a[0]) + (int32(w[1])-zero)*int32(a[1]) +
			(int32(w[2])-zero)*int32(a[2]) + (int32(w[3])-zero)*int32(a[3])
	}
	return sums
}

// gemmFloatGeneric adds the products of n columns with one activation row to c. xs holds the row's values, stride apart.
func gemmFloatGeneric(tile *floatTile, xs []float32, stride, n int, c *[tileRows]float32) {
	for k := range n {
		x := xs[k*stride]
		for p := range tilePanels {
			w := &tile[k][p]
			for r := range panelRows {
				c[p*panelRows+r] += float32(w[r] * x)
			}
		}
	}
}
