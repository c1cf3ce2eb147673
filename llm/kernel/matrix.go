package kernel

import (
	"fmt"
	"math"

	"ragd/llm/quant"
)

// Matrix is a weight matrix [rows][cols], repacked into panels of 16 rows. It is immutable and safe for concurrent use.
type Matrix struct {
	typ        quant.Type
	layout     *layout
	rows, cols int
	panelBytes int
	data       []byte // [panels][panelBytes], in the arena; rows beyond the last are zero
}

// NewMatrix repacks data, the rows*cols weights of a tensor of type t in row-major order, on the pool, into memory of
// the arena; data is not kept. float stores the weights as float32, so that products use float32 activations: exact, but
// slow. Tensors of type F32, F16 and BF16 are always multiplied that way.
func NewMatrix(p *Pool, a *Arena, t quant.Type, rows, cols int, data []byte, float bool) (*Matrix, error) {
	rowBytes, err := t.RowBytes(cols)
	if err != nil {
		return nil, fmt.Errorf("kernel: matrix of %d rows: %w", rows, err)
	}
	if rows <= 0 || cols <= 0 || len(data)/rowBytes < rows || rowBytes*rows != len(data) {
		return nil, fmt.Errorf("kernel: a %s matrix of %d x %d does not take %d bytes", t, rows, cols, len(data))
	}
	stored := t
	if float {
		stored = quant.F32
	}
	l := layouts[stored]
	if l == nil || !t.Decodes() {
		return nil, fmt.Errorf("kernel: tensor type %s has no kernel: convert the file to Q8_0, Q6_K, Q5_K or Q4_K", t)
	}
	m := &Matrix{typ: stored, layout: l, rows: rows, cols: cols, panelBytes: cols / l.elems * l.nbytes}
	m.data = a.Alloc(m.panels() * m.panelBytes)
	p.Run(m.panels(), func(panel, _ int) {
		n := min(panelRows, rows-panel*panelRows)
		m.pack(m.panel(panel), t, data[panel*panelRows*rowBytes:][:n*rowBytes], n)
	})
	return m, nil
}

// pack fills a panel from n rows of type t. Rows that the matrix does not have are zero.
func (m *Matrix) pack(dst []byte, t quant.Type, src []byte, n int) {
	if m.typ != t {
		src = decodeToF32(t, src, n*m.cols)
	}
	stride := len(src) / n
	if n < panelRows {
		src = append(make([]byte, 0, panelRows*stride), src...)[:panelRows*stride]
	}
	if m.layout.kind == kindFloat {
		packFloats(dst, src, stride, m.cols, m.layout.nbytes/panelRows)
		return
	}
	_, nbytes := t.Block()
	for b := range stride / nbytes {
		m.layout.pack(dst[b*m.layout.nbytes:(b+1)*m.layout.nbytes], src[b*nbytes:], stride)
	}
}

// decodeToF32 returns n elements of type t as F32.
func decodeToF32(t quant.Type, src []byte, n int) []byte {
	values, dst := make([]float32, n), make([]byte, 4*n)
	if err := quant.Decode(t, values, src); err != nil {
		panic(err) // lengths were checked by NewMatrix
	}
	for i, x := range values {
		le.PutUint32(dst[4*i:], math.Float32bits(x))
	}
	return dst
}

// Rows returns the number of outputs.
func (m *Matrix) Rows() int { return m.rows }

// Cols returns the number of inputs.
func (m *Matrix) Cols() int { return m.cols }

// Bytes returns the memory that the panels take.
func (m *Matrix) Bytes() int { return len(m.data) }

// Type returns the type the weights are stored in: that of the tensor, or F32.
func (m *Matrix) Type() quant.Type { return m.typ }

func (m *Matrix) panels() int { return (m.rows + panelRows - 1) / panelRows }

func (m *Matrix) panel(i int) []byte { return m.data[i*m.panelBytes : (i+1)*m.panelBytes] }

// DecodeRow writes the weights of a row, cols of them, to dst: exactly what quant.Decode gives for the tensor.
func (m *Matrix) DecodeRow(dst []float32, row int) {
	if row < 0 || row >= m.rows || len(dst) != m.cols {
		panic(fmt.Sprintf("kernel: DecodeRow of row %d of %d into %d of %d elements", row, m.rows, len(dst), m.cols))
	}
	panel, r := m.panel(row/panelRows), row%panelRows
	switch m.typ {
	case quant.F32:
		for k := range dst {
			dst[k] = float(panel[64*k+4*r:])
		}
	case quant.F16:
		for k := range dst {
			dst[k] = half(panel[32*k+2*r:])
		}
	case quant.BF16:
		for k := range dst {
			dst[k] = quant.BF16ToF32(le.Uint16(panel[32*k+2*r:]))
		}
	default:
		m.decodeLevels(dst, panel, r)
	}
}

// decodeLevels is DecodeRow for row r of a panel of a quantized type.
func (m *Matrix) decodeLevels(dst []float32, panel []byte, r int) {
	l := m.layout
	for b := range m.cols / blockElems {
		levels := l.levels(panel, b)
		scale, minimum := l.scales(panel, b, r)
		for k := range blockElems {
			s := scale[0]
			if l.kind == kindHalf {
				s = scale[k/16]
			}
			x := s * float32(int32(l.level(levels, r, k))-l.zero)
			if l.kind == kindMin {
				x = float32(x) + minimum
			}
			dst[b*blockElems+k] = x
		}
	}
}
