package distill

import (
	"math"

	"ragd/llm/kernel"
)

// pass holds the activations of one forward pass over windows of T tokens, which the backward pass needs again. N = windows·T rows.
type pass struct {
	m       *Student
	pool    *kernel.Pool
	mul     *products
	windows int
	rope    *kernel.Rope
	unrope  *kernel.Rope // the opposite rotation
	tokens  []int32      // [N] classes
	layers  []activations
	x       []float32 // [N][E] after the last layer
	h       []float32 // [N][E] its norm
	Logits  []float32 // [N][Classes], of which the last is one token of those that share the row

	dx, dh, dq, dk, dv, dgate, dup []float32 // gradients of the activation of that name
}

// activations are those of one layer.
type activations struct {
	x, h1, q, k, v []float32 // [N][E]; q and k rotated
	probs          []float32 // [windows][H][T][T]; beyond the diagonal unused
	heads          []float32 // [N][E]
	mid, h2        []float32 // [N][E]
	gate, up, act  []float32 // [N][F]
}

func newPass(m *Student, p *kernel.Pool, windows int) *pass {
	s := m.Shape
	n := windows * s.Context
	a := &pass{m: m, pool: p, mul: newProducts(p), windows: windows, layers: make([]activations, s.Layers)}
	a.rope = kernel.NewRope(s.headDim(), ropeBase, 1, nil, false, 1, s.Context)
	a.unrope = kernel.NewRope(s.headDim(), ropeBase, -1, nil, false, 1, s.Context)
	rows := func(width int) []float32 { return make([]float32, n*width) }
	for i := range a.layers {
		l := &a.layers[i]
		for _, x := range []*[]float32{&l.x, &l.h1, &l.q, &l.k, &l.v, &l.heads, &l.mid, &l.h2} {
			*x = rows(s.Width)
		}
		l.gate, l.up, l.act = rows(s.FFN), rows(s.FFN), rows(s.FFN)
		l.probs = make([]float32, windows*s.Heads*s.Context*s.Context)
	}
	a.x, a.h, a.Logits = rows(s.Width), rows(s.Width), rows(m.Classes)
	for _, x := range []*[]float32{&a.dx, &a.dh, &a.dq, &a.dk, &a.dv} {
		*x = rows(s.Width)
	}
	a.dgate, a.dup = rows(s.FFN), rows(s.FFN)
	return a
}

func (a *pass) close() { a.mul.close() }

// rowsPerTask is fixed, not a share of the threads, so that sums over tasks do not depend on the machine.
const rowsPerTask = 32

// each runs f for every row.
func (a *pass) each(f func(row int)) {
	n := a.windows * a.m.Shape.Context
	a.pool.Run((n+rowsPerTask-1)/rowsPerTask, func(task, _ int) {
		for row := task * rowsPerTask; row < min(n, (task+1)*rowsPerTask); row++ {
			f(row)
		}
	})
}

// Forward fills Logits for tokens, [windows][T] classes.
func (a *pass) Forward(tokens []int32) {
	m, s := a.m, a.m.Shape
	e, f, n := s.Width, s.FFN, a.windows*s.Context
	a.tokens = tokens
	x := a.layers[0].x
	a.each(func(row int) { copy(x[row*e:][:e], m.embd[int(tokens[row])*e:]) })
	for i := range a.layers {
		l, w := &a.layers[i], &m.layers[i]
		a.rmsNorm(l.h1, l.x, w.attnNorm)
		a.mul.forward(l.q, l.h1, w.q, n, e, e, false)
		a.mul.forward(l.k, l.h1, w.k, n, e, e, false)
		a.mul.forward(l.v, l.h1, w.v, n, e, e, false)
		a.rotate(a.rope, l.q)
		a.rotate(a.rope, l.k)
		a.attend(l)
		copy(l.mid, l.x)
		a.mul.forward(l.mid, l.heads, w.o, n, e, e, true)
		a.rmsNorm(l.h2, l.mid, w.ffnNorm)
		a.mul.forward(l.gate, l.h2, w.gate, n, e, f, false)
		a.mul.forward(l.up, l.h2, w.up, n, e, f, false)
		a.each(func(row int) { kernel.SiLUMul(l.act[row*f:][:f], l.gate[row*f:][:f], l.up[row*f:][:f]) })
		next := a.x
		if i+1 < len(a.layers) {
			next = a.layers[i+1].x
		}
		copy(next, l.mid)
		a.mul.forward(next, l.act, w.down, n, f, e, true)
	}
	a.rmsNorm(a.h, a.x, m.norm)
	a.mul.forward(a.Logits, a.h, m.embd, n, e, m.Classes, false)
}

func (a *pass) rmsNorm(dst, x, w []float32) {
	e := len(w)
	a.each(func(row int) { kernel.RMSNorm(dst[row*e:][:e], x[row*e:][:e], w, normEps) })
}

func (a *pass) rotate(r *kernel.Rope, x []float32) {
	s := a.m.Shape
	a.each(func(row int) { r.Apply(x[row*s.Width:][:s.Width], s.Heads, s.headDim(), row%s.Context) })
}

// head is one head of one window.
type head struct {
	a     *pass
	first int // row
	from  int // column
	probs []float32
}

func (a *pass) head(l *activations, task int) head {
	s := a.m.Shape
	w, h := task/s.Heads, task%s.Heads
	return head{a: a, first: w * s.Context, from: h * s.headDim(), probs: l.probs[task*s.Context*s.Context:][:s.Context*s.Context]}
}

// row returns the head's part of row t of the window.
func (h head) row(x []float32, t int) []float32 {
	s := h.a.m.Shape
	return x[(h.first+t)*s.Width+h.from:][:s.headDim()]
}

// transpose returns the head's part of x as [D][T].
func (h head) transpose(x []float32) []float32 {
	d, t := h.a.m.Shape.headDim(), h.a.m.Shape.Context
	y := make([]float32, d*t)
	for i := range t {
		for j, v := range h.row(x, i) {
			y[j*t+i] = v
		}
	}
	return y
}

// attend computes causal attention of every head.
func (a *pass) attend(l *activations) {
	s := a.m.Shape
	scale, n := a.scale(), s.Context
	a.pool.Run(a.windows*s.Heads, func(task, _ int) {
		h := a.head(l, task)
		values := h.transpose(l.v)
		for t := range n {
			p, q := h.probs[t*n:][:t+1], h.row(l.q, t)
			for j := range p {
				p[j] = kernel.Dot(q, h.row(l.k, j)) * scale
			}
			kernel.Softmax(p)
			for d, dst := 0, h.row(l.heads, t); d < len(dst); d++ {
				dst[d] = kernel.Dot(p, values[d*n:][:t+1])
			}
		}
	})
}

func (a *pass) scale() float32 { return float32(1 / math.Sqrt(float64(a.m.Shape.headDim()))) }
