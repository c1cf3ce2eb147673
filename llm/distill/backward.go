package distill

import (
	"math"

	"ragd/llm/kernel"
)

// Backward adds to g, laid out like the student, the gradient of a loss whose derivative by Logits is dz, [N][Classes]. It follows a Forward.
func (a *pass) Backward(dz []float32, g *Student) {
	m, s := a.m, a.m.Shape
	e, f, n := s.Width, s.FFN, a.windows*s.Context
	a.mul.weight(g.embd, dz, a.h, n, e, m.Classes)
	a.mul.input(a.dh, dz, m.embd, n, e, m.Classes, false)
	a.rmsNormBackward(a.dx, a.dh, a.x, m.norm, g.norm, false)
	for i := len(a.layers) - 1; i >= 0; i-- {
		l, w, dw := &a.layers[i], &m.layers[i], &g.layers[i]
		a.mul.weight(dw.down, a.dx, l.act, n, f, e)
		a.mul.input(a.dgate, a.dx, w.down, n, f, e, false) // of act; the next line makes it that of gate
		a.each(func(row int) {
			siluMulBackward(a.dgate[row*f:][:f], a.dup[row*f:][:f], l.gate[row*f:][:f], l.up[row*f:][:f])
		})
		a.mul.weight(dw.gate, a.dgate, l.h2, n, e, f)
		a.mul.weight(dw.up, a.dup, l.h2, n, e, f)
		a.mul.input(a.dh, a.dgate, w.gate, n, e, f, false)
		a.mul.input(a.dh, a.dup, w.up, n, e, f, true)
		a.rmsNormBackward(a.dx, a.dh, l.mid, w.ffnNorm, dw.ffnNorm, true)

		a.mul.weight(dw.o, a.dx, l.heads, n, e, e)
		a.mul.input(a.dh, a.dx, w.o, n, e, e, false)
		a.attendBackward(l)
		a.rotate(a.unrope, a.dq)
		a.rotate(a.unrope, a.dk)
		a.mul.weight(dw.q, a.dq, l.h1, n, e, e)
		a.mul.weight(dw.k, a.dk, l.h1, n, e, e)
		a.mul.weight(dw.v, a.dv, l.h1, n, e, e)
		a.mul.input(a.dh, a.dq, w.q, n, e, e, false)
		a.mul.input(a.dh, a.dk, w.k, n, e, e, true)
		a.mul.input(a.dh, a.dv, w.v, n, e, e, true)
		a.rmsNormBackward(a.dx, a.dh, l.x, w.attnNorm, dw.attnNorm, true)
	}
	for row, token := range a.tokens { // one after another: rows of the same token add in a fixed order
		kernel.Add(g.embd[int(token)*e:][:e], a.dx[row*e:][:e])
	}
}

// siluMulBackward turns dact, the gradient of silu(gate)·up, into that of gate, in place, and sets dup.
func siluMulBackward(dact, dup, gate, up []float32) {
	for i, g := range gate {
		sigmoid := float32(1 / (1 + math.Exp(-float64(g))))
		d := dact[i]
		dup[i] = d * g * sigmoid
		dact[i] = d * up[i] * sigmoid * (1 + g*(1-sigmoid))
	}
}

// rmsNormBackward sets (or adds to) dx the gradient of the norm's input and adds to dw that of its weight.
func (a *pass) rmsNormBackward(dx, dy, x, w, dw []float32, add bool) {
	e := len(w)
	tasks := (a.windows*a.m.Shape.Context + rowsPerTask - 1) / rowsPerTask
	sums := make([]float32, tasks*e)
	a.pool.Run(tasks, func(task, _ int) {
		sum := sums[task*e:][:e]
		for row := task * rowsPerTask; row < min(len(x)/e, (task+1)*rowsPerTask); row++ {
			x, dy, dx := x[row*e:][:e], dy[row*e:][:e], dx[row*e:][:e]
			inv := 1 / math.Sqrt(float64(kernel.Dot(x, x))/float64(e)+normEps)
			var along float64
			for i := range x {
				along += float64(x[i] * w[i] * dy[i])
			}
			along *= inv * inv * inv / float64(e)
			for i := range x {
				d := float32(inv*float64(w[i]*dy[i]) - along*float64(x[i]))
				if add {
					d += dx[i]
				}
				dx[i] = d
				sum[i] += float32(inv) * x[i] * dy[i]
			}
		}
	})
	for task := range tasks {
		kernel.Add(dw, sums[task*e:][:e])
	}
}

// attendBackward sets dq, dk and dv from dh, the gradient of the heads' outputs. Every sum is a dot product along memory, for which rows or columns
// are transposed first.
func (a *pass) attendBackward(l *activations) {
	s := a.m.Shape
	scale, n := a.scale(), s.Context
	a.pool.Run(a.windows*s.Heads, func(task, _ int) {
		h := a.head(l, task)
		keys, queries, douts := h.transpose(l.k), h.transpose(l.q), h.transpose(a.dh)
		ds := make([]float32, n)
		dsT, probsT := make([]float32, n*n), make([]float32, n*n) // [s][t]
		for t := range n {
			p, dout := h.probs[t*n:][:t+1], h.row(a.dh, t)
			d := ds[:t+1]
			for j := range p {
				d[j] = kernel.Dot(dout, h.row(l.v, j))
			}
			mean := kernel.Dot(p, d)
			for j := range p {
				d[j] = p[j] * (d[j] - mean) * scale
				dsT[j*n+t], probsT[j*n+t] = d[j], p[j]
			}
			for i, dst := 0, h.row(a.dq, t); i < len(dst); i++ {
				dst[i] = kernel.Dot(d, keys[i*n:][:t+1])
			}
		}
		for j := range n {
			dk, dv := h.row(a.dk, j), h.row(a.dv, j)
			for i := range dk {
				dk[i] = kernel.Dot(dsT[j*n+j:j*n+n], queries[i*n+j:i*n+n])
				dv[i] = kernel.Dot(probsT[j*n+j:j*n+n], douts[i*n+j:i*n+n])
			}
		}
	})
}
