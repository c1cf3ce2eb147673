//go:build !purego

package kernel

import (
	"unsafe"

	"ragd/llm/quant"
)

// vectorRows is the number of activation rows up to which weights are streamed through registers (gemv), which hides
// the latency of memory; with more, they are unpacked into tiles (gemm), which takes fewer instructions per row.
func vectorRows(m *Matrix) int {
	switch {
	case active == AVX512 && m.layout.kind != kindFloat:
		return 24
	case active == Generic:
		return 0
	}
	return 1
}

// gemv multiplies panels with all rows of in, at most vectorRows. Row r of the outputs begins at dst[r*stride].
func gemv(m *Matrix, in *Input, panel, panels int, dst []float32, stride int) {
	if m.layout.kind == kindFloat {
		gemvFloat(m, &in.floats[0], panel, panels, dst)
		return
	}
	n, s := m.cols/m.layout.elems, &m.panel(panel)[0]
	if active == AVX2 {
		gemvAVX2(m, &dst[0], s, (*byte)(unsafe.Pointer(&in.records[0])), n, panels)
		return
	}
	for r := 0; r < in.rows; {
		rows := m.gemvRows(in.rows - r)
		gemvAVX512(m, rows, &dst[r*stride], 4*stride, s, (*byte)(unsafe.Pointer(&in.records[r])), in.rows*recordBytes, n, panels)
		r += rows
	}
}

// gemvRows returns how many of the remaining rows the next kernel takes.
func (m *Matrix) gemvRows(rows int) int {
	switch {
	case rows >= 8 && m.layout.kind != kindHalf:
		return 8
	case rows >= 4:
		return 4
	}
	return rows
}

func gemvAVX512(m *Matrix, rows int, d *float32, ds int, s, rec *byte, rs, n, panels int) {
	switch m.typ {
	case quant.Q4_0:
		switch rows {
		case 8:
			gemvQ4_0x8AVX512(d, ds, s, rec, rs, n, panels)
		case 4:
			gemvQ4_0x4AVX512(d, ds, s, rec, rs, n, panels)
		case 3:
			gemvQ4_0x3AVX512(d, ds, s, rec, rs, n, panels)
		case 2:
			gemvQ4_0x2AVX512(d, ds, s, rec, rs, n, panels)
		default:
			gemvQ4_0x1AVX512(d, ds, s, rec, rs, n, panels)
		}
	case quant.IQ4_NL:
		switch rows {
		case 8:
			gemvIQ4_NLx8AVX512(d, ds, s, rec, rs, n, panels)
		case 4:
			gemvIQ4_NLx4AVX512(d, ds, s, rec, rs, n, panels)
		case 3:
			gemvIQ4_NLx3AVX512(d, ds, s, rec, rs, n, panels)
		case 2:
			gemvIQ4_NLx2AVX512(d, ds, s, rec, rs, n, panels)
		default:
			gemvIQ4_NLx1AVX512(d, ds, s, rec, rs, n, panels)
		}
	case quant.IQ4_XS:
		switch rows {
		case 8:
			gemvIQ4_XSx8AVX512(d, ds, s, rec, rs, n, panels)
		case 4:
			gemvIQ4_XSx4AVX512(d, ds, s, rec, rs, n, panels)
		case 3:
			gemvIQ4_XSx3AVX512(d, ds, s, rec, rs, n, panels)
		case 2:
			gemvIQ4_XSx2AVX512(d, ds, s, rec, rs, n, panels)
		default:
			gemvIQ4_XSx1AVX512(d, ds, s, rec, rs, n, panels)
		}
	case quant.Q4_1:
		switch rows {
		case 8:
			gemvQ4_1x8AVX512(d, ds, s, rec, rs, n, panels)
		case 4:
			gemvQ4_1x4AVX512(d, ds, s, rec, rs, n, panels)
		case 3:
			gemvQ4_1x3AVX512(d, ds, s, rec, rs, n, panels)
		case 2:
			gemvQ4_1x2AVX512(d, ds, s, rec, rs, n, panels)
		default:
			gemvQ4_1x1AVX512(d, ds, s, rec, rs, n, panels)
		}
	case quant.Q5_0:
		switch rows {
		case 8:
			gemvQ5_0x8AVX512(d, ds, s, rec, rs, n, panels)
		case 4:
			gemvQ5_0x4AVX512(d, ds, s, rec, rs, n, panels)
		case 3:
			gemvQ5_0x3AVX512(d, ds, s, rec, rs, n, panels)
		case 2:
			gemvQ5_0x2AVX512(d, ds, s, rec, rs, n, panels)
		default:
			gemvQ5_0x1AVX512(d, ds, s, rec, rs, n, panels)
		}
	case quant.Q5_1:
		switch rows {
		case 8:
			gemvQ5_1x8AVX512(d, ds, s, rec, rs, n, panels)
		case 4:
			gemvQ5_1x4AVX512(d, ds, s, rec, rs, n, panels)
		case 3:
			gemvQ5_1x3AVX512(d, ds, s, rec, rs, n, panels)
		case 2:
			gemvQ5_1x2AVX512(d, ds, s, rec, rs, n, panels)
		default:
			gemvQ5_1x1AVX512(d, ds, s, rec, rs, n, panels)
		}
	case quant.Q8_0:
		switch rows {
		case 8:
			gemvQ8_0x8AVX512(d, ds, s, rec, rs, n, panels)
		case 4:
			gemvQ8_0x4AVX512(d, ds, s, rec, rs, n, panels)
		case 3:
			gemvQ8_0x3AVX512(d, ds, s, rec, rs, n, panels)
		case 2:
			gemvQ8_0x2AVX512(d, ds, s, rec, rs, n, panels)
		default:
			gemvQ8_0x1AVX512(d, ds, s, rec, rs, n, panels)
		}
	case quant.Q4_K:
		switch rows {
		case 8:
			gemvQ4_Kx8AVX512(d, ds, s, rec, rs, n, panels)
		case 4:
			gemvQ4_Kx4AVX512(d, ds, s, rec, rs, n, panels)
		case 3:
			gemvQ4_Kx3AVX512(d, ds, s, rec, rs, n, panels)
		case 2:
			gemvQ4_Kx2AVX512(d, ds, s, rec, rs, n, panels)
		default:
			gemvQ4_Kx1AVX512(d, ds, s, rec, rs, n, panels)
		}
	case quant.Q5_K:
		switch rows {
		case 8:
			gemvQ5_Kx8AVX512(d, ds, s, rec, rs, n, panels)
		case 4:
			gemvQ5_Kx4AVX512(d, ds, s, rec, rs, n, panels)
		case 3:
			gemvQ5_Kx3AVX512(d, ds, s, rec, rs, n, panels)
		case 2:
			gemvQ5_Kx2AVX512(d, ds, s, rec, rs, n, panels)
		default:
			gemvQ5_Kx1AVX512(d, ds, s, rec, rs, n, panels)
		}
	case quant.Q6_K:
		switch rows {
		case 4:
			gemvQ6_Kx4AVX512(d, ds, s, rec, rs, n, panels)
		case 3:
			gemvQ6_Kx3AVX512(d, ds, s, rec, rs, n, panels)
		case 2:
			gemvQ6_Kx2AVX512(d, ds, s, rec, rs, n, panels)
		default:
			gemvQ6_Kx1AVX512(d, ds, s, rec, rs, n, panels)
		}
	}
}

func gemvVNNI(m *Matrix, d *float32, s, rec *byte, n, panels int) {
	switch m.typ {
	case quant.Q4_0:
		gemvQ4_0VNNI(d, s, rec, n, panels)
	case quant.IQ4_NL:
		gemvIQ4_NLVNNI(d, s, rec, n, panels)
	case quant.IQ4_XS:
		gemvIQ4_XSVNNI(d, s, rec, n, panels)
	case quant.Q4_1:
		gemvQ4_1VNNI(d, s, rec, n, panels)
	case quant.Q5_0:
		gemvQ5_0VNNI(d, s, rec, n, panels)
	case quant.Q5_1:
		gemvQ5_1VNNI(d, s, rec, n, panels)
	case quant.Q8_0:
		gemvQ8_0VNNI(d, s, rec, n, panels)
	case quant.Q4_K:
		gemvQ4_KVNNI(d, s, rec, n, panels)
	case quant.Q5_K:
		gemvQ5_KVNNI(d, s, rec, n, panels)
	case quant.Q6_K:
		gemvQ6_KVNNI(d, s, rec, n, panels)
	}
}

func gemvAVX2(m *Matrix, d *float32, s, rec *byte, n, panels int) {
	if hasVNNI {
		gemvVNNI(m, d, s, rec, n, panels)
		return
	}
	switch m.typ {
	case quant.Q4_0:
		gemvQ4_0AVX2(d, s, rec, n, panels)
	case quant.IQ4_NL:
		gemvIQ4_NLAVX2(d, s, rec, n, panels)
	case quant.IQ4_XS:
		gemvIQ4_XSAVX2(d, s, rec, n, panels)
	case quant.Q4_1:
		gemvQ4_1AVX2(d, s, rec, n, panels)
	case quant.Q5_0:
		gemvQ5_0AVX2(d, s, rec, n, panels)
	case quant.Q5_1:
		gemvQ5_1AVX2(d, s, rec, n, panels)
	case quant.Q8_0:
		gemvQ8_0AVX2(d, s, rec, n, panels)
	case quant.Q4_K:
		gemvQ4_KAVX2(d, s, rec, n, panels)
	case quant.Q5_K:
		gemvQ5_KAVX2(d, s, rec, n, panels)
	case quant.Q6_K:
		gemvQ6_KAVX2(d, s, rec, n, panels)
	}
}

// gemvFloat is gemv for floats: four panels at a time, which hides the latency of their chains of additions.
func gemvFloat(m *Matrix, x *float32, panel, panels int, dst []float32) {
	wide := active == AVX512
	for panels > 0 {
		take := 1
		if panels >= 4 {
			take = 4
		}
		d, s, n, stride := &dst[0], &m.panel(panel)[0], m.cols, m.panelBytes
		switch {
		case m.typ == quant.F32 && take == 4 && wide:
			gemvF32x4AVX512(d, s, x, n, stride)
		case m.typ == quant.F32 && take == 4:
			gemvF32x4AVX2(d, s, x, n, stride)
		case m.typ == quant.F32 && wide:
			gemvF32x1AVX512(d, s, x, n, stride)
		case m.typ == quant.F32:
			gemvF32x1AVX2(d, s, x, n, stride)
		case m.typ == quant.F16 && take == 4 && wide:
			gemvF16x4AVX512(d, s, x, n, stride)
		case m.typ == quant.F16 && take == 4:
			gemvF16x4AVX2(d, s, x, n, stride)
		case m.typ == quant.F16 && wide:
			gemvF16x1AVX512(d, s, x, n, stride)
		case m.typ == quant.F16:
			gemvF16x1AVX2(d, s, x, n, stride)
		case take == 4 && wide:
			gemvBF16x4AVX512(d, s, x, n, stride)
		case take == 4:
			gemvBF16x4AVX2(d, s, x, n, stride)
		case wide:
			gemvBF16x1AVX512(d, s, x, n, stride)
		default:
			gemvBF16x1AVX2(d, s, x, n, stride)
		}
		panel, panels, dst = panel+take, panels-take, dst[take*panelRows:]
	}
}
