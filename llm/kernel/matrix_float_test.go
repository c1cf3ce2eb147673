package kernel

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Training multiplies by matrices that change and by transposes; every form must give the sums of the definition.
func TestFloatMatrixForms(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	a := NewArena()
	defer a.Close()
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range [][3]int{{1, 1, 1}, {3, 5, 7}, {50, 33, 129}, {97, 16, 40}, {49, 100, 300}} {
		rows, outs, inner := n[0], n[1], n[2]
		x, w := make([]float32, rows*inner), make([]float32, outs*inner)
		xT, wT := make([]float32, len(x)), make([]float32, len(w))
		want := make([]float32, rows*outs)
		for i := range x {
			x[i] = r.Float32() - 0.5
			xT[i%inner*rows+i/inner] = x[i]
		}
		for i := range w {
			w[i] = r.Float32() - 0.5
			wT[i%inner*outs+i/inner] = w[i]
		}
		for i := range rows {
			for j := range outs {
				var s float64
				for k := range inner {
					s += float64(x[i*inner+k]) * float64(w[j*inner+k])
				}
				want[i*outs+j] = float32(s)
			}
		}
		m := NewFloatMatrix(a, outs, inner)
		for form := range 4 {
			var in Input
			if form&1 == 0 {
				in.Set(p, x, inner, rows, inner, m)
			} else {
				in.SetTransposed(p, xT, rows, rows, inner)
			}
			if form&2 == 0 {
				m.SetFloats(p, w)
			} else {
				m.SetTransposed(p, wT)
			}
			got := make([]float32, rows*outs)
			p.MatMul(&in, Product{W: m, Dst: got, Stride: outs})
			require.InDeltaSlice(t, want, got, 1e-4, "%v, form %d", n, form)
		}
	}
}
