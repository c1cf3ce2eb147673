//go:build !purego

package kernel

import (
	"unsafe"

	"ragd/llm/quant"
)

// quantize fills one record per 32 values of x; they are stride apart in dst.
func quantize(dst []record, stride int, x []float32) {
	if active == Generic {
		quantizeGeneric(dst, stride, x)
		return
	}
	quantizeAVX2((*byte)(unsafe.Pointer(&dst[0])), stride*recordBytes, &x[0], len(x)/blockElems)
}

// interleave writes the first n words of 16 rows to dst, word by word: [n][16]. Rows lie stride bytes apart in src.
func interleave(dst, src []byte, stride, n int) {
	quads := n / 4
	if active == Generic || quads == 0 {
		interleaveGeneric(dst, src, stride, n)
		return
	}
	_, _ = dst[cacheLine*n-1], src[(panelRows-1)*stride+4*n-1]
	interleaveAVX2(&dst[0], &src[0], stride, quads)
	if done := 4 * quads; done < n {
		interleaveGeneric(dst[cacheLine*done:], src[4*done:], stride, n-done)
	}
}

// pairNibbles writes the low nibbles of a and b to dst0 and the high ones to dst1, those of a low.
func pairNibbles(dst0, dst1 *[nibbles]byte, a, b *[4]packVector) {
	if active == Generic {
		pairNibblesGeneric(dst0, dst1, a, b)
		return
	}
	pairNibblesAVX2(&dst0[0], &dst1[0], &a[0][0], &b[0][0])
}

// joinPairs joins the bit pairs at bit up of four vectors.
func joinPairs(to *packVector, h *[4]packVector, up int) {
	if active == Generic {
		joinPairsGeneric(to, h, up)
		return
	}
	joinPairsAVX2(&to[0], &h[0][0], up)
}

// unpack unpacks n blocks of 32 elements of a panel, from block b, into panel p of the tile. For K-quants b and n are
// multiples of eight.
func unpack(m *Matrix, dst *quantTile, p, panel, b, n int) {
	per := m.layout.elems / blockElems
	d, s := (*byte)(unsafe.Pointer(&dst[0][p])), &m.panel(panel)[b/per*m.layout.nbytes]
	switch active {
	case AVX512:
		unpackAVX512(m, d, s, n/per)
	case AVX2:
		unpackAVX2(m, d, s, n/per)
	default:
		m.unpackGeneric(dst, p, panel, b, n)
	}
}

func unpackAVX512(m *Matrix, d, s *byte, n int) {
	switch m.typ {
	case quant.Q4_0:
		unpackQ4_0AVX512(d, s, n)
	case quant.IQ4_NL:
		unpackIQ4_NLAVX512(d, s, n)
	case quant.IQ4_XS:
		unpackIQ4_XSAVX512(d, s, n)
	case quant.Q4_1:
		unpackQ4_1AVX512(d, s, n)
	case quant.Q5_0:
		unpackQ5_0AVX512(d, s, n)
	case quant.Q5_1:
		unpackQ5_1AVX512(d, s, n)
	case quant.Q8_0:
		unpackQ8_0AVX512(d, s, n)
	case quant.Q4_K:
		unpackQ4_KAVX512(d, s, n)
	case quant.Q5_K:
		unpackQ5_KAVX512(d, s, n)
	case quant.Q6_K:
		unpackQ6_KAVX512(d, s, n)
	}
}

func unpackAVX2(m *Matrix, d, s *byte, n int) {
	switch {
	case hasVNNI && m.typ == quant.Q8_0:
		unpackQ8_0VNNI(d, s, n)
		return
	case hasVNNI && m.typ == quant.IQ4_NL:
		unpackIQ4_NLVNNI(d, s, n)
		return
	case hasVNNI && m.typ == quant.IQ4_XS:
		unpackIQ4_XSVNNI(d, s, n)
		return
	}
	switch m.typ {
	case quant.Q4_0:
		unpackQ4_0AVX2(d, s, n)
	case quant.IQ4_NL:
		unpackIQ4_NLAVX2(d, s, n)
	case quant.IQ4_XS:
		unpackIQ4_XSAVX2(d, s, n)
	case quant.Q4_1:
		unpackQ4_1AVX2(d, s, n)
	case quant.Q5_0:
		unpackQ5_0AVX2(d, s, n)
	case quant.Q5_1:
		unpackQ5_1AVX2(d, s, n)
	case quant.Q8_0:
		unpackQ8_0AVX2(d, s, n)
	case quant.Q4_K:
		unpackQ4_KAVX2(d, s, n)
	case quant.Q5_K:
		unpackQ5_KAVX2(d, s, n)
	case quant.Q6_K:
		unpackQ6_KAVX2(d, s, n)
	}
}

// unpackFloat converts n columns of a panel of floats, from column k, into panel p of the tile.
func unpackFloat(m *Matrix, dst *floatTile, p, panel, k, n int) {
	if active == Generic {
		m.unpackFloatGeneric(dst, p, panel, k, n)
		return
	}
	d, s := (*byte)(unsafe.Pointer(&dst[0][p])), &m.panel(panel)[k*m.layout.nbytes]
	wide := active == AVX512
	switch {
	case m.typ == quant.F32 && wide:
		unpackF32AVX512(d, s, n)
	case m.typ == quant.F32:
		unpackF32AVX2(d, s, n)
	case m.typ == quant.F16 && wide:
		unpackF16AVX512(d, s, n)
	case m.typ == quant.F16:
		unpackF16AVX2(d, s, n)
	case wide:
		unpackBF16AVX512(d, s, n)
	default:
		unpackBF16AVX2(d, s, n)
	}
}

// gemm adds the products of n tile blocks with rows activation rows to c, [rows][tileRows]; the records of consecutive
// blocks are stride apart.
func gemm(m *Matrix, tile *quantTile, recs []record, stride, n int, c []float32, rows int) {
	for r := 0; r < rows; {
		take := 0
		rec := (*byte)(unsafe.Pointer(&recs[r]))
		switch active {
		case AVX512:
			take = rowsAVX512(rows - r)
			gemmAVX512(m.layout, (*byte)(unsafe.Pointer(tile)), rec, stride*recordBytes, n, &c[r*tileRows], take)
		case AVX2:
			take = m.rowsAVX2(rows - r)
			for p := range tilePanels {
				gemmAVX2(m, (*byte)(unsafe.Pointer(&tile[0][p])), rec, stride*recordBytes, n, &c[r*tileRows+p*panelRows], take)
			}
		default:
			take = rows
			gemmRowsGeneric(m.layout, tile, recs, stride, n, c, rows)
		}
		r += take
	}
}

// rowsAVX512 returns how many of the remaining rows the next kernel takes.
func rowsAVX512(rows int) int {
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

// rowsAVX2 is rowsAVX512 for the kernels of AVX2: three rows with AVX-VNNI or levels of four bits, else two.
func (m *Matrix) rowsAVX2(rows int) int {
	if hasVNNI || m.typ == quant.Q4_0 || m.typ == quant.Q4_1 || m.typ == quant.Q4_K {
		return min(rows, 3)
	}
	return min(rows, 2)
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

func gemmVNNI(l *layout, w, rec *byte, stride, n int, c *float32, rows int) {
	switch start := l.start(); l.kind {
	case kindScale:
		switch rows {
		case 3:
			gemmScalex3VNNI(w, rec, stride, n, c, start)
		case 2:
			gemmScalex2VNNI(w, rec, stride, n, c, start)
		default:
			gemmScalex1VNNI(w, rec, stride, n, c, start)
		}
	case kindMin:
		switch rows {
		case 3:
			gemmMinx3VNNI(w, rec, stride, n, c, start)
		case 2:
			gemmMinx2VNNI(w, rec, stride, n, c, start)
		default:
			gemmMinx1VNNI(w, rec, stride, n, c, start)
		}
	case kindHalf:
		switch rows {
		case 3:
			gemmHalfx3VNNI(w, rec, stride, n, c, start)
		case 2:
			gemmHalfx2VNNI(w, rec, stride, n, c, start)
		default:
			gemmHalfx1VNNI(w, rec, stride, n, c, start)
		}
	}
}

func gemmAVX2(m *Matrix, w, rec *byte, stride, n int, c *float32, rows int) {
	if hasVNNI {
		gemmVNNI(m.layout, w, rec, stride, n, c, rows)
		return
	}
	start := m.layout.start()
	switch m.typ {
	case quant.Q4_0:
		switch rows {
		case 3:
			gemmScale4x3AVX2(w, rec, stride, n, c, start)
		case 2:
			gemmScale4x2AVX2(w, rec, stride, n, c, start)
		default:
			gemmScale4x1AVX2(w, rec, stride, n, c, start)
		}
	case quant.Q4_1, quant.Q4_K:
		switch rows {
		case 3:
			gemmMin4x3AVX2(w, rec, stride, n, c, start)
		case 2:
			gemmMin4x2AVX2(w, rec, stride, n, c, start)
		default:
			gemmMin4x1AVX2(w, rec, stride, n, c, start)
		}
	case quant.Q5_0:
		switch rows {
		case 2:
			gemmScale5x2AVX2(w, rec, stride, n, c, start)
		default:
			gemmScale5x1AVX2(w, rec, stride, n, c, start)
		}
	case quant.Q5_1, quant.Q5_K:
		switch rows {
		case 2:
			gemmMin5x2AVX2(w, rec, stride, n, c, start)
		default:
			gemmMin5x1AVX2(w, rec, stride, n, c, start)
		}
	case quant.Q6_K:
		switch rows {
		case 2:
			gemmHalf6x2AVX2(w, rec, stride, n, c, start)
		default:
			gemmHalf6x1AVX2(w, rec, stride, n, c, start)
		}
	case quant.Q8_0, quant.IQ4_NL, quant.IQ4_XS:
		switch rows {
		case 2:
			gemmScale8x2AVX2(w, rec, stride, n, c, start)
		default:
			gemmScale8x1AVX2(w, rec, stride, n, c, start)
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

// gemmFloat adds the products of n tile columns with rows activation rows to c, [rows][tileRows]; the activations of
// consecutive columns are stride apart.
func gemmFloat(tile *floatTile, xs []float32, stride, n int, c []float32, rows int) {
	if active == Generic {
		gemmFloatRowsGeneric(tile, xs, stride, n, c, rows)
		return
	}
	for r := 0; r < rows; {
		take, x, y := 1, &xs[r], &c[r*tileRows]
		if active == AVX512 {
			w := (*byte)(unsafe.Pointer(tile))
			switch left := rows - r; {
			case left >= 12:
				take = 12
				gemmFloat12AVX512(w, x, 4*stride, n, y)
			case left >= 4:
				take = 4
				gemmFloat4AVX512(w, x, 4*stride, n, y)
			case left >= 2:
				take = 2
				gemmFloat2AVX512(w, x, 4*stride, n, y)
			default:
				gemmFloat1AVX512(w, x, 4*stride, n, y)
			}
			r += take
			continue
		}
		for p := range tilePanels {
			w, y := (*byte)(unsafe.Pointer(&tile[0][p])), &c[r*tileRows+p*panelRows]
			switch left := rows - r; {
			case left >= 6:
				take = 6
				gemmFloat6AVX2(w, x, 4*stride, n, y)
			case left >= 2:
				take = 2
				gemmFloat2AVX2(w, x, 4*stride, n, y)
			default:
				gemmFloat1AVX2(w, x, 4*stride, n, y)
			}
		}
		r += take
	}
}

// storeTile is store for rows [t0, t1) of a whole tile of outputs.
func (pr *Product) storeTile(c []float32, t0, t1, from int) {
	if active == Generic {
		pr.storeTileGeneric(c, t0, t1, from)
		return
	}
	dst, stride, rows := &pr.Dst[t0*pr.Stride+from], 4*pr.Stride, t1-t0
	switch {
	case pr.Bias != nil && pr.Add:
		storeTileBiasAddAVX2(dst, stride, &c[0], rows, &pr.Bias[from])
	case pr.Bias != nil:
		storeTileBiasAVX2(dst, stride, &c[0], rows, &pr.Bias[from])
	case pr.Add:
		storeTileAddAVX2(dst, stride, &c[0], rows)
	default:
		storeTileAVX2(dst, stride, &c[0], rows)
	}
}
