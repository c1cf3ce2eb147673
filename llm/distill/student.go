package distill

import (
	"fmt"
	"math"
	"math/rand/v2"

	"ragd/llm/kernel"
)

// Shape is the size of a causal student.
type Shape struct {
	Width   int // E
	Layers  int
	Heads   int
	FFN     int // F
	Context int // T: tokens of a training window
}

const (
	normEps  = 1e-5
	ropeBase = 10000
)

func (s Shape) headDim() int { return s.Width / s.Heads }

// check refuses shapes that cannot be trained or saved.
func (s Shape) check() error {
	switch {
	case s.Width <= 0 || s.Layers <= 0 || s.Heads <= 0 || s.FFN <= 0 || s.Context < 2:
		return fmt.Errorf("distill: width, layers, heads, feed-forward width and context must be positive: %+v", s)
	case s.Width > 2048 || s.FFN > 8192 || s.Layers > 64 || s.Context > 2048:
		return fmt.Errorf("distill: a student of width %d, %d layers, feed-forward width %d and context %d is too large to train on a CPU", s.Width, s.Layers, s.FFN, s.Context)
	case s.Width%s.Heads != 0 || s.headDim()%2 != 0:
		return fmt.Errorf("distill: width %d cannot be split into %d heads of an even size", s.Width, s.Heads)
	case s.Width%32 != 0 || s.FFN%32 != 0:
		return fmt.Errorf("distill: width %d and feed-forward width %d must be multiples of 32, the block of the file's weights", s.Width, s.FFN)
	}
	return nil
}

// Student holds the weights of a causal student. All views point into one flat slice, so that the optimiser, the checkpoint and the gradient test see
// a list of numbers.
type Student struct {
	Shape   Shape
	Classes int // rows of the embedding: the known tokens, then one for all others
	flat    []float32
	embd    []float32 // [Classes][E], tied: also the output matrix
	layers  []block
	norm    []float32 // [E]
}

// block is one layer.
type block struct {
	attnNorm, ffnNorm []float32 // [E]
	q, k, v, o        []float32 // [E][E]
	gate, up          []float32 // [F][E]
	down              []float32 // [E][F]
}

// newStudent lays out a student of zeros.
func newStudent(s Shape, classes int) *Student {
	e, f := s.Width, s.FFN
	n := classes*e + s.Layers*(2*e+4*e*e+3*e*f) + e
	m := &Student{Shape: s, Classes: classes, flat: make([]float32, n), layers: make([]block, s.Layers)}
	rest := m.flat
	take := func(n int) []float32 {
		part := rest[:n:n]
		rest = rest[n:]
		return part
	}
	m.embd = take(classes * e)
	for i := range m.layers {
		m.layers[i] = block{
			attnNorm: take(e), q: take(e * e), k: take(e * e), v: take(e * e), o: take(e * e),
			ffnNorm: take(e), gate: take(f * e), up: take(f * e), down: take(e * f),
		}
	}
	m.norm = take(e)
	return m
}

// Params is the number of trained weights.
func (m *Student) Params() int { return len(m.flat) }

// init fills the weights from the seed: normal with deviation 0.02, the matrices that write to the residual stream smaller with depth (GPT-2).
func (m *Student) init(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	normal := func(x []float32, deviation float64) {
		for i := range x {
			x[i] = float32(r.NormFloat64() * deviation)
		}
	}
	ones := func(x []float32) {
		for i := range x {
			x[i] = 1
		}
	}
	const deviation = 0.02
	out := deviation / math.Sqrt(2*float64(len(m.layers)))
	normal(m.embd, deviation)
	for i := range m.layers {
		b := &m.layers[i]
		ones(b.attnNorm)
		ones(b.ffnNorm)
		normal(b.q, deviation)
		normal(b.k, deviation)
		normal(b.v, deviation)
		normal(b.o, out)
		normal(b.gate, deviation)
		normal(b.up, deviation)
		normal(b.down, out)
	}
	ones(m.norm)
}

// decayed marks the weights that weight decay applies to: matrices, not norms.
func (m *Student) decayed() []bool {
	d := make([]bool, len(m.flat))
	at := 0
	mark := func(n int, decay bool) {
		for i := range n {
			d[at+i] = decay
		}
		at += n
	}
	e := m.Shape.Width
	mark(len(m.embd), true)
	for range m.layers {
		mark(e, false)
		mark(4*e*e, true)
		mark(e, false)
		mark(3*e*m.Shape.FFN, true)
	}
	mark(e, false)
	return d
}

// products multiplies matrices that change from step to step, on the pool. Operands are repacked for the kernels, in memory kept by shape.
type products struct {
	pool  *kernel.Pool
	arena *kernel.Arena
	by    map[[2]int]*kernel.Matrix
	in    kernel.Input
}

func newProducts(p *kernel.Pool) *products {
	return &products{pool: p, arena: kernel.NewArena(), by: map[[2]int]*kernel.Matrix{}}
}

func (g *products) close() { g.arena.Close() }

func (g *products) matrix(rows, cols int) *kernel.Matrix {
	m := g.by[[2]int{rows, cols}]
	if m == nil {
		m = kernel.NewFloatMatrix(g.arena, rows, cols)
		g.by[[2]int{rows, cols}] = m
	}
	return m
}

// forward sets (or adds to) y [n][out] the product x [n][in] · w [out][in]ᵀ.
func (g *products) forward(y, x, w []float32, n, in, out int, add bool) {
	m := g.matrix(out, in)
	m.SetFloats(g.pool, w)
	g.in.Set(g.pool, x, in, n, in, m)
	g.pool.MatMul(&g.in, kernel.Product{W: m, Dst: y, Stride: out, Add: add})
}

// input sets (or adds to) dx [n][in] the product dy [n][out] · w [out][in].
func (g *products) input(dx, dy, w []float32, n, in, out int, add bool) {
	m := g.matrix(in, out)
	m.SetTransposed(g.pool, w)
	g.in.Set(g.pool, dy, out, n, out, m)
	g.pool.MatMul(&g.in, kernel.Product{W: m, Dst: dx, Stride: in, Add: add})
}

// weight adds to dw [out][in] the product dy [n][out]ᵀ · x [n][in].
func (g *products) weight(dw, dy, x []float32, n, in, out int) {
	m := g.matrix(in, n)
	m.SetTransposed(g.pool, x)
	g.in.SetTransposed(g.pool, dy, out, out, n)
	g.pool.MatMul(&g.in, kernel.Product{W: m, Dst: dw, Stride: in, Add: true})
}
