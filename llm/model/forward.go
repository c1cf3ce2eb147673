package model

import (
	"sort"

	"ragd/llm/kernel"
)

// blockRows is how many rows run through the layers together. More rows reuse
// each weight panel more often, but the activations then leave the second-level
// cache; at 256 rows reading the weights costs a few percent of a prefill.
// Longer batches run block after block, which changes no number (invariant 2).
const blockRows = 256

// buffers are the activations of one block, allocated once.
type buffers struct {
	x      []float32 // [T][E]     residual stream
	q      []float32 // [T][H*D]
	k, v   []float32 // [T][KV*D]
	heads  []float32 // [T][H*D]   attention output
	gate   []float32 // [T][F]
	up     []float32 // [T][F]
	branch []float32 // [T][E]     a branch that is normed or scaled before it is added

	input    kernel.Input // prepared activations, shared by the matrices of a stage
	products [3]kernel.Product
	step     step
	layer    *layer // the one being run

	rows                                                                 *rowRunner
	embedRow, positionRow, rotateRow, rotateKRow, activateRow, branchRow func(row int)

	post []float32 // norm that branchRow applies
}

func (m *Model) allocate() {
	c := m.config
	floats := func(width int) []float32 {
		return kernel.Float32s(m.arena.Alloc(4 * blockRows * width))
	}
	qCols, kvCols := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	m.x, m.q, m.k, m.v = floats(c.Embd), floats(qCols), floats(kvCols), floats(kvCols)
	m.heads, m.gate, m.up = floats(qCols), floats(c.FFN), floats(c.FFN)
	m.branch = floats(c.Embd)
	m.rows = newRowRunner(m.pool)
	m.embedRow, m.positionRow, m.rotateRow, m.rotateKRow = m.embed, m.position, m.rotate, m.rotateK
	m.activateRow, m.branchRow = m.activate, m.addBranchRow
}

// Forward runs the batch through the model, writes the keys and values of its
// rows into their pages and fills b.Logits for the rows of b.Out. It fails only
// for a malformed batch, before anything is written.
func (m *Model) Forward(b *Batch) error {
	if err := m.check(b); err != nil {
		return err
	}
	n := len(b.Out) * m.config.Outputs()
	if cap(b.Logits) < n {
		b.Logits = make([]float32, n)
	}
	b.Logits = b.Logits[:n]
	m.pool.Begin()
	defer m.pool.End()
	for lo := 0; lo < len(b.Tokens); lo += blockRows {
		m.forwardBlock(b, lo, min(lo+blockRows, len(b.Tokens)))
	}
	return nil
}

// forwardBlock runs rows [lo, hi) through all layers. The last layer is needed for
// the keys and values of all rows but for the rest only in rows whose logits are
// wanted: of a prompt that is one row, or none.
func (m *Model) forwardBlock(b *Batch, lo, hi int) {
	rows := hi - lo
	outs := b.Out[sort.SearchInts(b.Out, lo):sort.SearchInts(b.Out, hi)]
	m.step.plan(b, lo, hi)
	m.rows.each(rows, m.embedRow)
	last := len(m.layers) - 1
	for i := range m.layers[:last] {
		m.project(&m.layers[i], rows)
		m.finish(&m.layers[i], rows)
	}
	w := &m.layers[last]
	switch {
	case len(outs) == rows:
		m.project(w, rows)
	case len(outs) == 0:
		m.projectKV(w, rows)
		return
	default:
		m.projectKV(w, rows)
		m.narrow(outs, lo)
		rows = len(outs)
		m.projectQ(w, rows)
	}
	m.finish(w, rows)
	m.logits(b.Logits[sort.SearchInts(b.Out, lo)*m.config.Outputs():], rows)
}

// project computes q, k and v of all rows and stores k and v.
func (m *Model) project(w *layer, rows int) {
	c := m.config
	m.layer = w
	m.observe(w.inputs.attention, m.x, w.attnNorm, rows, c.Embd)
	m.input.SetRMSNorm(m.pool, m.x, c.Embd, rows, c.Embd, w.attnNorm, c.NormEps, w.q, w.k, w.v)
	m.products = [3]kernel.Product{m.productQ(w), m.productK(w), m.productV(w)}
	m.pool.MatMul(&m.input, m.products[:]...)
	m.rows.each(rows, m.positionRow)
	m.store(w)
}

// projectKV is the part of project that later tokens need, projectQ the other one.
func (m *Model) projectKV(w *layer, rows int) {
	c := m.config
	m.layer = w
	m.input.SetRMSNorm(m.pool, m.x, c.Embd, rows, c.Embd, w.attnNorm, c.NormEps, w.k, w.v)
	m.products[0], m.products[1] = m.productK(w), m.productV(w)
	m.pool.MatMul(&m.input, m.products[:2]...)
	m.rows.each(rows, m.rotateKRow)
	m.store(w)
}

// store appends k and v of the step to the layer's cache.
func (m *Model) store(w *layer) {
	cols, row := w.k.Rows(), 0
	for i := range m.step.seqs {
		s := &m.step.seqs[i]
		s.K, s.V, s.KVStride = m.k[row*cols:], m.v[row*cols:], cols
		row += s.N
	}
	w.attend.KV.Append(m.pool, m.step.seqs)
}

func (m *Model) projectQ(w *layer, rows int) {
	c := m.config
	m.input.SetRMSNorm(m.pool, m.x, c.Embd, rows, c.Embd, w.attnNorm, c.NormEps, w.q)
	m.products[0] = m.productQ(w)
	m.pool.MatMul(&m.input, m.products[:1]...)
	m.rows.each(rows, m.rotateRow)
}

func (m *Model) productQ(w *layer) kernel.Product {
	return kernel.Product{W: w.q, Dst: m.q, Stride: w.q.Rows(), Bias: w.qBias}
}

func (m *Model) productK(w *layer) kernel.Product {
	return kernel.Product{W: w.k, Dst: m.k, Stride: w.k.Rows(), Bias: w.kBias}
}

func (m *Model) productV(w *layer) kernel.Product {
	return kernel.Product{W: w.v, Dst: m.v, Stride: w.v.Rows(), Bias: w.vBias}
}

// finish attends and runs the feed-forward block.
func (m *Model) finish(w *layer, rows int) {
	c, p, qCols, row := m.config, m.pool, w.q.Rows(), 0
	for i := range m.step.seqs {
		s := &m.step.seqs[i]
		s.Q, s.Dst, s.Stride = m.q[row*qCols:], m.heads[row*qCols:], qCols
		row += s.N
	}
	w.attend.Run(p, m.step.seqs)
	m.observe(w.inputs.output, m.heads, nil, rows, qCols)
	m.addBranch(m.heads, rows, qCols, w.o, w.postAttnNorm)

	m.observe(w.inputs.ffn, m.x, w.ffnNorm, rows, c.Embd)
	m.input.SetRMSNorm(p, m.x, c.Embd, rows, c.Embd, w.ffnNorm, c.NormEps, w.gate, w.up)
	m.products[0] = kernel.Product{W: w.gate, Dst: m.gate, Stride: c.FFN}
	m.products[1] = kernel.Product{W: w.up, Dst: m.up, Stride: c.FFN}
	p.MatMul(&m.input, m.products[:2]...)
	m.rows.each(rows, m.activateRow)
	m.observe(w.inputs.down, m.gate, nil, rows, c.FFN)
	m.addBranch(m.gate, rows, c.FFN, w.down, w.postFFNNorm)
}

// narrow keeps of the step only the rows outs, which count from lo.
func (m *Model) narrow(outs []int, lo int) {
	n := m.config.Embd
	for i, row := range outs { // ascending, so no row is overwritten before it moves
		copy(m.x[i*n:][:n], m.x[(row-lo)*n:])
	}
	m.step.narrow(outs, lo)
}

// logits fills dst [rows][V] from the residual stream.
func (m *Model) logits(dst []float32, rows int) {
	c := m.config
	dst = dst[:rows*c.Outputs()]
	m.observe(headInput, m.x, m.norm, rows, c.Embd)
	m.input.SetRMSNorm(m.pool, m.x, c.Embd, rows, c.Embd, m.norm, c.NormEps, m.head)
	m.products[0] = kernel.Product{W: m.head, Dst: dst, Stride: c.Outputs()}
	m.pool.MatMul(&m.input, m.products[:1]...)
	if c.LogitScale != 1 {
		kernel.Scale(dst, c.LogitScale)
	}
	if c.LogitSoftCap != 0 {
		kernel.SoftCap(dst, c.LogitSoftCap)
	}
}

// embed looks up the embedding of one token.
func (m *Model) embed(row int) {
	c := m.config
	x := m.x[row*c.Embd:][:c.Embd]
	m.embd.row(x, int(m.step.tokens[row]))
	if c.EmbdScale != 1 {
		kernel.Scale(x, c.EmbdScale)
	}
}

// position norms and rotates the heads of one row's q and k.
func (m *Model) position(row int) {
	m.rotate(row)
	m.rotateK(row)
}

func (m *Model) rotate(row int) {
	c, w := m.config, m.layer
	q := m.q[row*c.Heads*c.HeadDim:][:c.Heads*c.HeadDim]
	if w.qNorm != nil {
		normHeads(q, w.qNorm, c.NormEps)
	}
	if w.rope != nil {
		w.rope.Apply(q, c.Heads, c.HeadDim, int(m.step.pos[row]))
	}
}

func (m *Model) rotateK(row int) {
	c, w := m.config, m.layer
	k := m.k[row*c.KVHeads*c.HeadDim:][:c.KVHeads*c.HeadDim]
	if w.kNorm != nil {
		normHeads(k, w.kNorm, c.NormEps)
	}
	if w.rope != nil {
		w.rope.Apply(k, c.KVHeads, c.HeadDim, int(m.step.pos[row]))
	}
}

func normHeads(x, w []float32, eps float32) {
	for ; len(x) > 0; x = x[len(w):] {
		kernel.RMSNorm(x[:len(w)], x[:len(w)], w, eps)
	}
}

// activate computes act(gate)*up of one row in place.
func (m *Model) activate(row int) {
	f := m.config.FFN
	gate, up := m.gate[row*f:][:f], m.up[row*f:][:f]
	switch m.config.Activation {
	case GELUTanh:
		kernel.GELUTanhMul(gate, gate, up)
	default:
		kernel.SiLUMul(gate, gate, up)
	}
}

// addBranch adds w·x to the residual stream, normed by post and scaled where the
// architecture asks for it.
func (m *Model) addBranch(x []float32, rows, cols int, w *kernel.Matrix, post []float32) {
	c := m.config
	m.input.Set(m.pool, x, cols, rows, cols, w)
	if post == nil && c.ResidualScale == 1 {
		m.products[0] = kernel.Product{W: w, Dst: m.x, Stride: c.Embd, Add: true}
		m.pool.MatMul(&m.input, m.products[:1]...)
		return
	}
	m.products[0] = kernel.Product{W: w, Dst: m.branch, Stride: c.Embd}
	m.pool.MatMul(&m.input, m.products[:1]...)
	m.post = post
	m.rows.each(rows, m.branchRow)
}

func (m *Model) addBranchRow(row int) {
	c := m.config
	branch, x := m.branch[row*c.Embd:][:c.Embd], m.x[row*c.Embd:][:c.Embd]
	if m.post != nil {
		kernel.RMSNorm(branch, branch, m.post, c.NormEps)
	}
	if c.ResidualScale != 1 {
		kernel.Scale(branch, c.ResidualScale)
	}
	kernel.Add(x, branch)
}
