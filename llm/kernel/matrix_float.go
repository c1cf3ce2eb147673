package kernel

import (
	"fmt"
	"unsafe"

	"ragd/llm/quant"
)

// NewFloatMatrix returns a float32 matrix of zeros whose weights SetFloats replaces: for training, where they change with every step.
func NewFloatMatrix(a *Arena, rows, cols int) *Matrix {
	if rows <= 0 || cols <= 0 {
		panic(fmt.Sprintf("kernel: float matrix of %d x %d", rows, cols))
	}
	l := layouts[quant.F32]
	m := &Matrix{typ: quant.F32, layout: l, rows: rows, cols: cols, panelBytes: cols / l.elems * l.nbytes}
	m.data = a.Alloc(m.panels() * m.panelBytes)
	return m
}

// SetFloats replaces the weights of a matrix of NewFloatMatrix by w, [Rows][Cols]. No product with m may run meanwhile.
func (m *Matrix) SetFloats(p *Pool, w []float32) {
	if m.typ != quant.F32 || len(w) != m.rows*m.cols {
		panic(fmt.Sprintf("kernel: %d floats for a %s matrix of %d x %d", len(w), m.typ, m.rows, m.cols))
	}
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), 4*len(w))
	rowBytes := 4 * m.cols
	p.Run(m.panels(), func(panel, _ int) {
		n := min(panelRows, m.rows-panel*panelRows)
		m.pack(m.panel(panel), quant.F32, data[panel*panelRows*rowBytes:][:n*rowBytes], n)
	})
}

// SetTransposed is SetFloats of the transpose of w, [Cols][Rows].
func (m *Matrix) SetTransposed(p *Pool, w []float32) {
	if m.typ != quant.F32 || len(w) != m.rows*m.cols {
		panic(fmt.Sprintf("kernel: %d floats for a %s matrix of %d x %d, transposed", len(w), m.typ, m.rows, m.cols))
	}
	p.Run(m.panels(), func(panel, _ int) {
		n := min(panelRows, m.rows-panel*panelRows)
		dst := Float32s(m.panel(panel)) // [cols][panelRows]
		for k := range m.cols {
			copy(dst[k*panelRows:][:n], w[k*m.rows+panel*panelRows:])
		}
	})
}

// SetTransposed prepares the columns of x as activation rows: row t of cols values is x[t], x[stride+t], …
func (in *Input) SetTransposed(p *Pool, x []float32, stride, rows, cols int) {
	in.rows, in.cols, in.hasFloats, in.hasRecords = rows, cols, true, false
	n := rows * cols
	if len(in.floatMem) < 4*n {
		in.floatMem = alignedBytes(4 * n)
	}
	in.floats = Float32s(in.floatMem[:4*n])
	p.Run((rows+inputTile-1)/inputTile, func(tile, _ int) {
		start, take, _ := in.tile(tile * inputTile)
		dst := in.floats[start*cols:]
		for k := range cols {
			copy(dst[k*take:][:take], x[k*stride+start:])
		}
	})
}
