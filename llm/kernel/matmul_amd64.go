//go:build !purego

package kernel

import (
	"unsafe"

	"ragd/llm/quant"
)

// unpack unpacks n blocks of 32 elements of a panel, from block b, into panel p of the tile. For K-quants b and n are
// multiples of eight.
func unpack(m *Matrix, dst *quantTile, p, panel, b, n int) {
	if active == Generic {
		m.unpackGeneric(dst, p, panel, b, n)
		return
	}
	per := m.layout.elems / blockElems
	d, s := (*byte)(unsafe.Pointer(&dst[0][p])), &m.panel(panel)[b/per*m.layout.nbytes]
	switch m.typ {
	case quant.Q4_0:
		unpackQ4_0AVX512(d, s, n)
	case quant.IQ4_NL:
		unpackIQ4_NLAVX512(d, s, n)
	case quant.Q4_1:
		unpackQ4_1AVX512(d, s, n)
	case quant.Q5_0:
		unpackQ5_0AVX512(d, s, n)
	case quant.Q5_1:
		unpackQ5_1AVX512(d, s, n)
	case quant.Q8_0:
		unpackQ8_0AVX512(d, s, n)
	case quant.Q4_K:
		unpackQ4_KAVX512(d, s, n/per)
	case quant.Q5_K:
		unpackQ5_KAVX512(d, s, n/per)
	case quant.Q6_K:
		unpackQ6_KAVX512(d, s, n/per)
	}
}

// unpackFloat converts n columns of a panel of floats, from column k, into panel p of the tile.
func unpackFloat(m *Matrix, dst *floatTile, p, panel, k, n int) {
	m.unpackFloatGeneric(dst, p, panel, k, n)
}

// gemm adds the products of n tile blocks with rows activation rows to c, [rows][tileRows]; the records of consecutive
// blocks are stride apart.
func gemm(m *Matrix, tile *quantTile, recs []record, stride, n int, c []float32, rows int) {
	if active == Generic {
		gemmRowsGeneric(m.layout, tile, recs, stride, n, c, rows)
		return
	}
	w, step := (*byte)(unsafe.Pointer(tile)), stride*recordBytes
	for r := 0; r < rows; {
		take := gemmStep(rows - r)
		gemmAVX512(m.layout, w, (*byte)(unsafe.Pointer(&recs[r])), step, n, &c[r*tileRows], take)
		r += take
	}
}

// gemmStep returns how many of the remaining rows the next kernel takes.
func gemmStep(rows int) int {
	switch {
	case rows >= 6:
		return 6
	case rows >= 4:
		return 4
	case rows >= 2:
		return 2
	}
	return 1
}

func gemmAVX512(l *layout, w, rec *byte, stride, n int, c *float32, rows int) {
	switch l.kind {
	case kindScale:
		switch rows {
		case 6:
			gemmScale6AVX512(w, rec, stride, n, c, l.start())
		case 4:
			gemmScale4AVX512(w, rec, stride, n, c, l.start())
		case 2:
			gemmScale2AVX512(w, rec, stride, n, c, l.start())
		default:
			gemmScale1AVX512(w, rec, stride, n, c, l.start())
		}
	case kindMin:
		switch rows {
		case 6:
			gemmMin6AVX512(w, rec, stride, n, c, 0)
		case 4:
			gemmMin4AVX512(w, rec, stride, n, c, 0)
		case 2:
			gemmMin2AVX512(w, rec, stride, n, c, 0)
		default:
			gemmMin1AVX512(w, rec, stride, n, c, 0)
		}
	case kindHalf:
		switch rows {
		case 6:
			gemmHalf6AVX512(w, rec, stride, n, c, l.start())
		case 4:
			gemmHalf4AVX512(w, rec, stride, n, c, l.start())
		case 2:
			gemmHalf2AVX512(w, rec, stride, n, c, l.start())
		default:
			gemmHalf1AVX512(w, rec, stride, n, c, l.start())
		}
	}
}

// start returns the offset in the record of the start values for the layout's zero point.
func (l *layout) start() int {
	switch l.zero {
	case 8:
		return int(unsafe.Offsetof(record{}.start))
	case 16:
		return int(unsafe.Offsetof(record{}.start)) + 4
	case 128:
		return int(unsafe.Offsetof(record{}.start)) + 8
	}
	return int(unsafe.Offsetof(record{}.halves))
}

func gemmFloat(tile *floatTile, xs []float32, stride, n int, c []float32, rows int) {
	gemmFloatRowsGeneric(tile, xs, stride, n, c, rows)
}

// gemv computes panels products with the single activation row of in, into dst.
func gemv(m *Matrix, in *Input, panel, panels int, dst []float32) {
	if m.layout.kind == kindFloat {
		return
	}
	n := m.cols / m.layout.elems
	d, s, rec := &dst[0], &m.panel(panel)[0], (*byte)(unsafe.Pointer(&in.records[0]))
	switch m.typ {
	case quant.Q4_0:
		gemvQ4_0AVX512(d, s, rec, n, panels)
	case quant.IQ4_NL:
		gemvIQ4_NLAVX512(d, s, rec, n, panels)
	case quant.Q4_1:
		gemvQ4_1AVX512(d, s, rec, n, panels)
	case quant.Q5_0:
		gemvQ5_0AVX512(d, s, rec, n, panels)
	case quant.Q5_1:
		gemvQ5_1AVX512(d, s, rec, n, panels)
	case quant.Q8_0:
		gemvQ8_0AVX512(d, s, rec, n, panels)
	case quant.Q4_K:
		gemvQ4_KAVX512(d, s, rec, n, panels)
	case quant.Q5_K:
		gemvQ5_KAVX512(d, s, rec, n, panels)
	case quant.Q6_K:
		gemvQ6_KAVX512(d, s, rec, n, panels)
	}
}
