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

// parallelRows is the least number of rows whose elementwise work is spread over
// the pool: below it a barrier costs more than the work.
const parallelRows = 4

// buffers are the activations of one block, allocated once.
type buffers struct {
	x      []float32 // [T][E]     residual stream
	q      []float32 // [T][H*D]
	k, v   []float32 // [T][KV*D]
	heads  []float32 // [T][H*D]   attention output
	gate   []float32 // [T][F]
	up     []float32 // [T][F]
	branch []float32 // [T][E]     a branch that is normed or scaled before it is added
	outs   []float32 // [T][E]     rows whose logits are wanted

	input    kernel.Input // prepared activations, shared by the matrices of a stage
	products [3]kernel.Product
	step     step
	layer    *layer // the one being run

	// Row functions bound once, so that a step allocates no closures.
	embedRow, positionRow, activateRow, branchRow func(row, worker int)
	post                                          []float32 // norm that branchRow applies
}

func (m *Model) allocate() {
	c := m.config
	floats := func(width int) []float32 {
		return kernel.Float32s(m.arena.Alloc(4 * blockRows * width))
	}
	qCols, kvCols := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	m.x, m.q, m.k, m.v = floats(c.Embd), floats(qCols), floats(kvCols), floats(kvCols)
	m.heads, m.gate, m.up = floats(qCols), floats(c.FFN), floats(c.FFN)
	m.branch, m.outs = floats(c.Embd), floats(c.Embd)
	m.embedRow, m.positionRow, m.activateRow, m.branchRow = m.embed, m.position, m.activate, m.addBranchRow
}

// Forward runs the batch through the model, writes the keys and values of its
// rows into their pages and fills b.Logits for the rows of b.Out. It fails only
// for a malformed batch, before anything is written.
func (m *Model) Forward(b *Batch) error {
	if err := m.check(b); err != nil {
		return err
	}
	n := len(b.Out) * m.config.Vocab
	if cap(b.Logits) < n {
		b.Logits = make([]float32, n)
	}
	b.Logits = b.Logits[:n]
	for lo := 0; lo < len(b.Tokens); lo += blockRows {
		m.forwardBlock(b, lo, min(lo+blockRows, len(b.Tokens)))
	}
	return nil
}

// forwardBlock runs rows [lo, hi) through all layers.
func (m *Model) forwardBlock(b *Batch, lo, hi int) {
	c, p, rows := m.config, m.pool, hi-lo
	s := &m.step
	s.plan(b, lo, hi)
	qCols, kvCols := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	row := 0
	for i := range s.seqs {
		q := &s.seqs[i]
		q.Q, q.Dst, q.Stride = m.q[row*qCols:], m.heads[row*qCols:], qCols
		row += q.N
	}

	m.eachRow(rows, m.embedRow)
	for i := range m.layers {
		w := &m.layers[i]
		m.layer = w

		m.input.SetRMSNorm(p, m.x, c.Embd, rows, c.Embd, w.attnNorm, c.NormEps, w.q, w.k, w.v)
		m.products = [3]kernel.Product{
			{W: w.q, Dst: m.q, Stride: qCols, Bias: w.qBias},
			{W: w.k, Dst: m.k, Stride: kvCols, Bias: w.kBias},
			{W: w.v, Dst: m.v, Stride: kvCols, Bias: w.vBias},
		}
		p.MatMul(&m.input, m.products[:]...)
		m.eachRow(rows, m.positionRow)
		w.attend.Run(p, s.seqs)
		m.addBranch(m.heads, rows, qCols, w.o, w.postAttnNorm)

		m.input.SetRMSNorm(p, m.x, c.Embd, rows, c.Embd, w.ffnNorm, c.NormEps, w.gate, w.up)
		m.products[0] = kernel.Product{W: w.gate, Dst: m.gate, Stride: c.FFN}
		m.products[1] = kernel.Product{W: w.up, Dst: m.up, Stride: c.FFN}
		p.MatMul(&m.input, m.products[:2]...)
		m.eachRow(rows, m.activateRow)
		m.addBranch(m.gate, rows, c.FFN, w.down, w.postFFNNorm)
	}
	m.logits(b, lo, hi)
}

// logits fills the rows of b.Logits that belong to rows [lo, hi).
func (m *Model) logits(b *Batch, lo, hi int) {
	first := sort.SearchInts(b.Out, lo)
	last := sort.SearchInts(b.Out, hi)
	if first == last {
		return
	}
	c, p, n := m.config, m.pool, last-first
	for i, row := range b.Out[first:last] {
		copy(m.outs[i*c.Embd:][:c.Embd], m.x[(row-lo)*c.Embd:])
	}
	m.input.SetRMSNorm(p, m.outs, c.Embd, n, c.Embd, m.norm, c.NormEps, m.head)
	dst := b.Logits[first*c.Vocab : last*c.Vocab]
	m.products[0] = kernel.Product{W: m.head, Dst: dst, Stride: c.Vocab}
	p.MatMul(&m.input, m.products[:1]...)
	if c.LogitScale != 1 {
		kernel.Scale(dst, c.LogitScale)
	}
	if c.LogitSoftCap != 0 {
		kernel.SoftCap(dst, c.LogitSoftCap)
	}
}

// eachRow calls fn for rows [0, n), on the pool when that pays.
func (m *Model) eachRow(n int, fn func(row, worker int)) {
	if n >= parallelRows {
		m.pool.Run(n, fn)
		return
	}
	for row := range n {
		fn(row, 0)
	}
}

// embed looks up the embedding of one token.
func (m *Model) embed(row, _ int) {
	c := m.config
	x := m.x[row*c.Embd:][:c.Embd]
	m.embd.row(x, int(m.step.tokens[row]))
	if c.EmbdScale != 1 {
		kernel.Scale(x, c.EmbdScale)
	}
}

// position norms and rotates the heads of one row's q and k and stores k and v in
// the cache.
func (m *Model) position(row, _ int) {
	c, w, s := m.config, m.layer, &m.step
	q := m.q[row*c.Heads*c.HeadDim:][:c.Heads*c.HeadDim]
	k := m.k[row*c.KVHeads*c.HeadDim:][:c.KVHeads*c.HeadDim]
	v := m.v[row*c.KVHeads*c.HeadDim:][:c.KVHeads*c.HeadDim]
	if w.qNorm != nil {
		normHeads(q, w.qNorm, c.NormEps)
		normHeads(k, w.kNorm, c.NormEps)
	}
	if w.rope != nil {
		w.rope.Apply(q, c.Heads, c.HeadDim, int(s.pos[row]))
		w.rope.Apply(k, c.KVHeads, c.HeadDim, int(s.pos[row]))
	}
	w.attend.KV.Put(int(s.page[row]), int(s.slot[row]), k, v)
}

func normHeads(x, w []float32, eps float32) {
	for ; len(x) > 0; x = x[len(w):] {
		kernel.RMSNorm(x[:len(w)], x[:len(w)], w, eps)
	}
}

// activate computes act(gate)*up of one row in place.
func (m *Model) activate(row, _ int) {
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
	m.eachRow(rows, m.branchRow)
}

func (m *Model) addBranchRow(row, _ int) {
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
