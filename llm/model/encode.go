package model

import (
	"fmt"
	"math"

	"ragd/llm/kernel"
)

// encoderBuffers are the activations of one packed batch; grown to the largest
// batch seen.
type encoderBuffers struct {
	rows    int       // what the buffers hold room for
	x       []float32 // [T][E]  residual stream
	normed  []float32 // [T][E]
	q, k, v []float32 // [T][E]
	heads   []float32 // [T][E]
	gate    []float32 // [T][F]
	up      []float32 // [T][F]

	ids, segs, pos []int32 // [T]
	starts         []int   // [B+1] text i is rows [starts[i], starts[i+1])
	input          kernel.Input
	products       [3]kernel.Product

	layer                                   *encoderLayer
	norm                                    norm
	src, dst                                []float32
	rowRunner                               *rowRunner
	embedRow, ropeRow, activateRow, normRow func(row int)
}

func (e *Encoder) bind() {
	e.rowRunner = newRowRunner(e.pool)
	e.embedRow, e.ropeRow, e.activateRow, e.normRow = e.embed, e.rotate, e.activate, e.normalise
}

// pack checks the texts and lays them behind each other.
func (e *Encoder) pack(ids, types [][]int32) error {
	c := e.config
	if types != nil && len(types) != len(ids) {
		return fmt.Errorf("model: %d texts but segments for %d", len(ids), len(types))
	}
	e.ids, e.segs, e.pos, e.starts = e.ids[:0], e.segs[:0], e.pos[:0], append(e.starts[:0], 0)
	for i, text := range ids {
		if len(text) == 0 || len(text) > c.Context {
			return fmt.Errorf("model: text %d has %d tokens; the encoder takes 1 to %d", i, len(text), c.Context)
		}
		if types != nil && types[i] != nil && len(types[i]) != len(text) {
			return fmt.Errorf("model: text %d has %d tokens but %d segment ids", i, len(text), len(types[i]))
		}
		for j, id := range text {
			if id < 0 || int(id) >= c.Vocab {
				return fmt.Errorf("model: token %d of text %d is %d, outside the vocabulary of %d", j, i, id, c.Vocab)
			}
			seg := int32(0)
			if types != nil && types[i] != nil {
				seg = types[i][j]
			}
			if seg < 0 || int(seg) >= max(c.Types, 1) {
				return fmt.Errorf("model: segment id %d of text %d; the model knows %d segments", seg, i, c.Types)
			}
			e.ids, e.segs, e.pos = append(e.ids, id), append(e.segs, seg), append(e.pos, int32(j))
		}
		e.starts = append(e.starts, len(e.ids))
	}
	return nil
}

func (e *Encoder) grow(rows int) {
	if rows <= e.rows {
		return
	}
	c := e.config
	e.rows = rows
	for _, b := range []*[]float32{&e.x, &e.normed, &e.q, &e.k, &e.v, &e.heads} {
		*b = make([]float32, rows*c.Embd)
	}
	e.up = make([]float32, rows*c.FFN)
	if c.Gated {
		e.gate = make([]float32, rows*c.FFN)
	}
}

// forward leaves the final hidden states of the packed texts in e.x: of every token,
// or with PoolCLS and PoolLast of the one that pooling reads. The caller holds e.mu.
func (e *Encoder) forward(ids, types [][]int32, pooling Pooling) error {
	if err := e.pack(ids, types); err != nil {
		return err
	}
	c, p, rows := e.config, e.pool, len(e.ids)
	if rows == 0 {
		return nil
	}
	e.grow(rows)
	p.Begin()
	defer p.End()
	e.rowRunner.each(rows, e.embedRow)
	for i := range e.layers {
		w := &e.layers[i]
		e.layer = w
		in := e.x
		if c.PreNorm && w.attnNorm.w != nil {
			in = e.applyNorm(e.normed, w.attnNorm, rows)
		}
		e.input.Set(p, in, c.Embd, rows, c.Embd, w.q, w.k, w.v)
		e.products = [3]kernel.Product{
			{W: w.q, Dst: e.q, Stride: c.Embd, Bias: w.qBias},
			{W: w.k, Dst: e.k, Stride: c.Embd, Bias: w.kBias},
			{W: w.v, Dst: e.v, Stride: c.Embd, Bias: w.vBias},
		}
		p.MatMul(&e.input, e.products[:]...)
		if w.rope != nil {
			e.rowRunner.each(rows, e.ropeRow)
		}
		kernel.AttendBidirectional(p, e.q, e.k, e.v, e.heads, e.starts, c.Heads, c.Heads, c.HeadDim, c.scale(), w.window)
		if i == len(e.layers)-1 && (pooling == PoolCLS || pooling == PoolLast) {
			rows = e.narrow(pooling)
		}
		e.addBranch(e.heads, c.Embd, w.o, w.oBias, rows)
		in = e.x
		if c.PreNorm {
			in = e.applyNorm(e.normed, w.ffnNorm, rows)
		} else {
			e.applyNorm(e.x, w.attnNorm, rows)
		}
		e.feedForward(in, rows)
		if !c.PreNorm {
			e.applyNorm(e.x, w.ffnNorm, rows)
		}
	}
	if c.PreNorm {
		e.applyNorm(e.x, e.outNorm, rows)
	}
	return nil
}

// narrow keeps one row of each text: after the last attention the others are not
// needed, and what follows is three quarters of a layer.
func (e *Encoder) narrow(pooling Pooling) (rows int) {
	n := e.config.Embd
	for i := range len(e.starts) - 1 {
		row := e.starts[i]
		if pooling == PoolLast {
			row = e.starts[i+1] - 1
		}
		copy(e.x[i*n:][:n], e.x[row*n:]) // ascending, so no row is overwritten before it moves
		copy(e.heads[i*n:][:n], e.heads[row*n:])
		e.starts[i] = i
	}
	last := len(e.starts) - 1
	e.starts[last] = last
	return last
}

// feedForward adds the feed-forward branch of in to the residual stream.
func (e *Encoder) feedForward(in []float32, rows int) {
	c, p, w := e.config, e.pool, e.layer
	e.products[0] = kernel.Product{W: w.up, Dst: e.up, Stride: c.FFN, Bias: w.upBias}
	if w.gate == nil {
		e.input.Set(p, in, c.Embd, rows, c.Embd, w.up)
		p.MatMul(&e.input, e.products[:1]...)
	} else {
		e.input.Set(p, in, c.Embd, rows, c.Embd, w.up, w.gate)
		e.products[1] = kernel.Product{W: w.gate, Dst: e.gate, Stride: c.FFN}
		p.MatMul(&e.input, e.products[:2]...)
	}
	e.rowRunner.each(rows, e.activateRow)
	e.addBranch(e.up, c.FFN, w.down, w.dnBias, rows)
}

// addBranch adds w·in + bias to the residual stream.
func (e *Encoder) addBranch(in []float32, cols int, w *kernel.Matrix, bias []float32, rows int) {
	e.input.Set(e.pool, in, cols, rows, cols, w)
	e.products[0] = kernel.Product{W: w, Dst: e.x, Stride: e.config.Embd, Bias: bias, Add: true}
	e.pool.MatMul(&e.input, e.products[:1]...)
}

// applyNorm writes the norm of the residual stream to dst, which may be it.
func (e *Encoder) applyNorm(dst []float32, n norm, rows int) []float32 {
	e.norm, e.src, e.dst = n, e.x, dst
	e.rowRunner.each(rows, e.normRow)
	return dst
}

func (e *Encoder) normalise(row int) {
	n := e.config.Embd
	kernel.LayerNorm(e.dst[row*n:][:n], e.src[row*n:][:n], e.norm.w, e.norm.b, e.config.NormEps)
}

// embed sums the embeddings of one row and norms them.
func (e *Encoder) embed(row int) {
	n := e.config.Embd
	x := e.x[row*n:][:n]
	e.tokens.row(x, int(e.ids[row]))
	if e.types != nil {
		kernel.Add(x, e.types[int(e.segs[row])*n:][:n])
	}
	if e.positions != nil {
		kernel.Add(x, e.positions[int(e.pos[row])*n:][:n])
	}
	kernel.LayerNorm(x, x, e.embdNorm.w, e.embdNorm.b, e.config.NormEps)
}

func (e *Encoder) rotate(row int) {
	c, at := e.config, row*e.config.Embd
	e.layer.rope.Apply(e.q[at:][:c.Embd], c.Heads, c.HeadDim, int(e.pos[row]))
	e.layer.rope.Apply(e.k[at:][:c.Embd], c.Heads, c.HeadDim, int(e.pos[row]))
}

// activate leaves the activated row in up.
func (e *Encoder) activate(row int) {
	f := e.config.FFN
	up := e.up[row*f:][:f]
	switch {
	case !e.config.Gated:
		kernel.GELU(up)
	case e.config.Activation == SiLU:
		kernel.SiLUMul(up, e.gate[row*f:][:f], up)
	default:
		gate := e.gate[row*f:][:f]
		kernel.GELU(gate)
		for i, g := range gate {
			up[i] *= g
		}
	}
}

// Hidden returns the final hidden states of each text, [tokens][E] row-major.
// types are segment ids; nil = all 0, for all texts or for one.
func (e *Encoder) Hidden(ids, types [][]int32) ([][]float32, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.forward(ids, types, PoolNone); err != nil {
		return nil, err
	}
	out := make([][]float32, len(ids))
	for i := range out {
		out[i] = append([]float32(nil), e.hidden(i)...)
	}
	return out, nil
}

// hidden is the rows of text i that forward left.
func (e *Encoder) hidden(i int) []float32 {
	return e.x[e.starts[i]*e.config.Embd : e.starts[i+1]*e.config.Embd]
}

// Embed returns one vector of Dim numbers per text, scaled to unit length if
// normalise. A zero vector stays zero.
func (e *Encoder) Embed(ids, types [][]int32, pooling Pooling, normalise bool) ([][]float32, error) {
	if pooling == PoolNone || pooling > PoolLast {
		return nil, fmt.Errorf("model: pooling %s gives no vector; use mean, cls or last", pooling)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.forward(ids, types, pooling); err != nil {
		return nil, err
	}
	out := make([][]float32, len(ids))
	for i := range out {
		out[i] = pool(e.hidden(i), e.config.Embd, pooling)
		if normalise {
			unit(out[i])
		}
	}
	return out, nil
}

// pool reduces hidden states [T][dim] to one vector. Means are summed in float64:
// a long text must not lose digits to its length.
func pool(hidden []float32, dim int, pooling Pooling) []float32 {
	v := make([]float32, dim)
	switch pooling {
	case PoolCLS:
		copy(v, hidden)
	case PoolLast:
		copy(v, hidden[len(hidden)-dim:])
	default:
		sum := make([]float64, dim)
		for row := hidden; len(row) > 0; row = row[dim:] {
			for i := range sum {
				sum[i] += float64(row[i])
			}
		}
		n := float64(len(hidden) / dim)
		for i := range v {
			v[i] = float32(sum[i] / n)
		}
	}
	return v
}

func unit(v []float32) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum > 0 {
		inv := 1 / math.Sqrt(sum)
		for i, x := range v {
			v[i] = float32(float64(x) * inv)
		}
	}
}

// Score returns the raw score of each pair: higher = more relevant.
func (e *Encoder) Score(ids, types [][]int32) ([]float32, error) {
	if e.rank == nil {
		return nil, fmt.Errorf("model: the encoder has no rank head (tensor cls.output.weight): it embeds texts, it does not score pairs")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.forward(ids, types, PoolCLS); err != nil {
		return nil, err
	}
	scores := make([]float32, len(ids))
	for i := range scores {
		scores[i] = e.rank.score(e.hidden(i))[0]
	}
	return scores, nil
}
