package kernel

import (
	"fmt"
	"unsafe"
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
// differ in the last digits between plain Go and the assembly, which fuses multiplications and additions.)
func (p *Pool) MatMul(in *Input, ps ...Product) {
	if in.rows == 0 {
		return
	}
	for i := range ps {
		ps[i].check(in)
	}
	w := newWork(p, in, ps)
	p.Run(w.count(), w.do)
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
	if pr.Stride < m.rows || len(pr.Dst) < (in.rows-1)*pr.Stride+m.rows || pr.Bias != nil && len(pr.Bias) < m.rows {
		panic(fmt.Sprintf("kernel: product of %d x %d outputs at stride %d into %d elements", in.rows, m.rows, pr.Stride, len(pr.Dst)))
	}
}

// work is a MatMul cut into tasks.
type work struct {
	pool     *Pool
	in       *Input
	products []Product
	panels   []int // panels per task, by product
	tasks    []int // tasks per tile of rows, by product
	total    int   // the sum of tasks
	rows     int   // activation rows per task
}

// Sizes of tasks: vectorBytes of weights keep the hand-out of tasks rare and their ends balanced, and stay in the L2 cache
// when several kernels pass over them; gemmBytes of prepared activations fit in half an L2 cache together with a tile and
// its outputs.
const (
	vectorBytes = 128 << 10
	gemmBytes   = 768 << 10
)

func newWork(p *Pool, in *Input, ps []Product) *work {
	w := &work{pool: p, in: in, products: ps, panels: make([]int, len(ps)), tasks: make([]int, len(ps))}
	perRow := 1
	if in.hasRecords {
		perRow += in.cols / blockElems * recordBytes
	}
	if in.hasFloats {
		perRow += 4 * in.cols
	}
	w.rows = min(in.rows, max(2, gemmBytes/perRow/inputTile)*inputTile)
	for i := range ps {
		m := ps[i].W
		w.panels[i] = tilePanels
		if in.rows <= vectorRows(m) {
			// Even shares for all threads when the matrix is small.
			share := (m.panels() + 3*p.threads - 1) / (3 * p.threads)
			w.panels[i] = max(1, min(share, vectorBytes/m.panelBytes))
			if m.layout.kind == kindFloat {
				w.panels[i] = (w.panels[i] + 3) &^ 3 // the kernels take four panels at a time
			}
		}
		w.tasks[i] = (m.panels() + w.panels[i] - 1) / w.panels[i]
		w.total += w.tasks[i]
	}
	return w
}

// count returns the number of tasks.
func (w *work) count() int { return w.total * ((w.in.rows + w.rows - 1) / w.rows) }

// do computes one task: some panels of one product for some rows. Tasks of the same rows follow each other, so that the
// activations are read from the cache.
func (w *work) do(task, worker int) {
	t0 := task / w.total * w.rows
	t1 := min(t0+w.rows, w.in.rows)
	i := 0
	for task %= w.total; task >= w.tasks[i]; i++ {
		task -= w.tasks[i]
	}
	pr, s := &w.products[i], &w.pool.scratch[worker]
	first := task * w.panels[i]
	last := min(first+w.panels[i], pr.W.panels())
	if w.in.rows <= vectorRows(pr.W) {
		pr.vector(w.in, s, first, last)
	} else {
		pr.matrix(w.in, s, first, last, t0, t1)
	}
}

// scratch is the memory of one worker.
type scratch struct {
	quant *quantTile
	float *floatTile
	c     []float32 // [rows][tileRows], or [rows][panels][panelRows] for few rows
}

// outputs returns n zeroed floats, aligned.
func (s *scratch) outputs(n int) []float32 {
	if len(s.c) < n {
		s.c = Float32s(alignedBytes(4 * n))
	}
	clear(s.c[:n])
	return s.c[:n]
}

// tiles makes the memory of the tiles.
func (s *scratch) tiles() {
	if s.quant == nil {
		s.quant = (*quantTile)(unsafe.Pointer(unsafe.SliceData(alignedBytes(int(unsafe.Sizeof(quantTile{}))))))
		s.float = (*floatTile)(unsafe.Pointer(unsafe.SliceData(alignedBytes(int(unsafe.Sizeof(floatTile{}))))))
	}
}

// vector computes the outputs of panels [first, last) for all rows of an input of few.
func (pr *Product) vector(in *Input, s *scratch, first, last int) {
	m := pr.W
	from, to := first*panelRows, min(last*panelRows, m.rows)
	if pr.Bias == nil && !pr.Add && to == last*panelRows {
		gemv(m, in, first, last-first, pr.Dst[from:], pr.Stride)
		return
	}
	stride := (last - first) * panelRows
	c := s.outputs(in.rows * stride)
	gemv(m, in, first, last-first, c, stride)
	for t := range in.rows {
		pr.store(c[t*stride:], t, from, to)
	}
}

// store adds the bias and the old output, where asked for, to the sums c of outputs [from, to) of activation row t.
func (pr *Product) store(c []float32, t, from, to int) {
	dst := pr.Dst[t*pr.Stride+from : t*pr.Stride+to]
	c = c[:len(dst)]
	if pr.Bias != nil {
		bias := pr.Bias[from:to]
		for i := range c {
			c[i] += bias[i]
		}
	}
	if pr.Add {
		for i := range dst {
			dst[i] += c[i]
		}
	} else {
		copy(dst, c)
	}
}

// storeTileGeneric is store for rows [t0, t1) of a whole tile of outputs.
func (pr *Product) storeTileGeneric(c []float32, t0, t1, from int) {
	for t := t0; t < t1; t++ {
		pr.store(c[(t-t0)*tileRows:], t, from, from+tileRows)
	}
}

// matrix computes the outputs of panels [panel, last), two at most, for activation rows [t0, t1): chunk after chunk, the
// weights are unpacked once and meet all rows. The sums of a chunk continue those of the one before.
func (pr *Product) matrix(in *Input, s *scratch, panel, last, t0, t1 int) {
	m := pr.W
	c := s.outputs((t1 - t0) * tileRows)
	s.tiles()
	panels := last - panel
	if m.layout.kind == kindFloat {
		for k := 0; k < m.cols; k += chunkFloats {
			n := min(chunkFloats, m.cols-k)
			for p := range panels {
				unpackFloat(m, s.float, p, panel+p, k, n)
			}
			in.eachTile(t0, t1, func(start, rows, row, t, take int) {
				gemmFloat(s.float, in.floats[start*in.cols+k*rows+row:], rows, n, c[(t-t0)*tileRows:], take)
			})
		}
	} else {
		blocks := m.cols / blockElems
		for b := 0; b < blocks; b += chunkBlocks {
			n := min(chunkBlocks, blocks-b)
			for p := range panels {
				unpack(m, s.quant, p, panel+p, b, n)
			}
			in.eachTile(t0, t1, func(start, rows, row, t, take int) {
				gemm(m, s.quant, in.records[start*blocks+b*rows+row:], rows, n, c[(t-t0)*tileRows:], take)
			})
		}
	}
	from, to := panel*panelRows, min((panel+panels)*panelRows, m.rows)
	if to-from == tileRows {
		pr.storeTile(c, t0, t1, from)
		return
	}
	for t := t0; t < t1; t++ {
		pr.store(c[(t-t0)*tileRows:], t, from, to)
	}
}

// eachTile calls f for the parts of rows [t0, t1) that lie in one tile of the input: where the tile starts and how many
// rows lie in it, the first row of the part within the tile and altogether, and how many rows it has.
func (in *Input) eachTile(t0, t1 int, f func(start, rows, row, t, take int)) {
	for t := t0; t < t1; {
		start, rows, row := in.tile(t)
		take := min(inputTile-row, t1-t)
		f(start, rows, row, t, take)
		t += take
	}
}

// gemmRowsGeneric is gemm in plain Go.
func gemmRowsGeneric(l *layout, tile *quantTile, recs []record, stride, n int, c []float32, rows int) {
	for r := range rows {
		l.gemmGeneric(tile, recs[r:], stride, n, (*[tileRows]float32)(c[r*tileRows:]))
	}
}

// gemmFloatRowsGeneric is gemmFloat in plain Go.
func gemmFloatRowsGeneric(tile *floatTile, xs []float32, stride, n int, c []float32, rows int) {
	for r := range rows {
		gemmFloatGeneric(tile, xs[r:], stride, n, (*[tileRows]float32)(c[r*tileRows:]))
	}
}
