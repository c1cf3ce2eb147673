package kernel

import (
	"fmt"

	"ragd/llm/quant"
)

// Product is one multiplication of an Input with a matrix: Dst[t*Stride+r] (+)= W[r]·x[t] + Bias[r].
type Product struct {
	W      *Matrix
	Dst    []float32 // [T][Stride], Stride >= W.Rows(); may not overlap other products' elements
	Stride int
	Bias   []float32 // [W.Rows()] or nil
	Add    bool      // add to Dst instead of replacing it
}

// MatMul computes all products of one input. Each output element is computed by the same sequence of operations however
// many rows the input has, however the work is split and on however many threads: the results are the same bits. (They
// differ in the last digits from one instruction set to another.)
func (p *Pool) MatMul(in *Input, ps ...Product) {
	if in.rows == 0 {
		return
	}
	for i := range ps {
		ps[i].check(in)
	}
	tasks := 0
	for i := range ps {
		tasks += ps[i].W.panels()
	}
	p.Run(tasks, func(task, worker int) {
		i := 0
		for task >= ps[i].W.panels() {
			task -= ps[i].W.panels()
			i++
		}
		ps[i].generic(in, task)
	})
}

// check panics when the product does not fit the input: a bug in the caller.
func (pr *Product) check(in *Input) {
	m := pr.W
	if m.cols != in.cols {
		panic(fmt.Sprintf("kernel: product of %d columns with an input of %d", m.cols, in.cols))
	}
	if m.layout.kind == kindFloat && !in.hasFloats || m.layout.kind != kindFloat && !in.hasRecords {
		panic("kernel: product with an input that was not set for its matrix")
	}
	if len(pr.Dst) < (in.rows-1)*pr.Stride+m.rows || pr.Bias != nil && len(pr.Bias) < m.rows {
		panic(fmt.Sprintf("kernel: product of %d x %d outputs at stride %d into %d elements", in.rows, m.rows, pr.Stride, len(pr.Dst)))
	}
}

// generic computes all outputs of one panel in plain Go.
func (pr *Product) generic(in *Input, panel int) {
	m := pr.W
	for r := range min(panelRows, m.rows-panel*panelRows) {
		row := panel*panelRows + r
		for t := range in.rows {
			y := m.dot(in, panel, r, t)
			if pr.Bias != nil {
				y += pr.Bias[row]
			}
			if pr.Add {
				y += pr.Dst[t*pr.Stride+row]
			}
			pr.Dst[t*pr.Stride+row] = y
		}
	}
}

// dot is the reference product of row r of a panel with activation row t: the order of operations is that of the
// assembly, which fuses each multiply-add.
func (m *Matrix) dot(in *Input, panel, r, t int) float32 {
	start, rows, row := in.tile(t)
	data, l := m.panel(panel), m.layout
	var acc float32
	if l.kind == kindFloat {
		x := in.floats[start*in.cols:]
		for k := range m.cols {
			acc += float32(m.float(data, r, k) * x[k*rows+row])
		}
		return acc
	}
	records := in.records[start*(in.cols/blockElems):]
	for b := range m.cols / blockElems {
		rec := &records[b*rows+row]
		levels := l.levels(data, b)
		scale, minimum := l.scales(data, b, r)
		var sums [2]int32
		for k := range blockElems {
			sums[k/16] += (int32(l.level(levels, r, k)) - l.zero) * int32(rec.levels[k])
		}
		if l.kind == kindHalf {
			acc += float32(float32(float32(sums[0])*rec.scale) * scale[0])
			acc += float32(float32(float32(sums[1])*rec.scale) * scale[1])
			continue
		}
		acc += float32(float32(float32(sums[0]+sums[1])*rec.scale) * scale[0])
		if l.kind == kindMin {
			acc += float32(minimum * rec.sum)
		}
	}
	return acc
}

// float returns element k of row r of a panel of floats.
func (m *Matrix) float(panel []byte, r, k int) float32 {
	switch m.typ {
	case quant.F32:
		return float(panel[64*k+4*r:])
	case quant.F16:
		return half(panel[32*k+2*r:])
	}
	return quant.BF16ToF32(le.Uint16(panel[32*k+2*r:]))
}

// scratch is the memory of one worker.
type scratch struct{}
