package distill

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/kernel"
)

// tiny repeats the formulas of testdata/autograd.py.
func tiny(t *testing.T) (m *Student, tokens, labels []int32, teacher []float32) {
	t.Helper()
	m = newStudent(Shape{Width: 32, Layers: 2, Heads: 2, FFN: 64, Context: 6}, 9)
	decayed := m.decayed()
	for i := range m.flat {
		w := 0.15 * math.Sin(1.3*float64(i)+0.5*math.Sin(float64(i)))
		if !decayed[i] {
			w++
		}
		m.flat[i] = float32(w)
	}
	for i := range 12 {
		tokens = append(tokens, int32((i*5+i/3)%9))
		labels = append(labels, int32((i*7+2)%9))
		row := make([]float32, 9)
		for c := range row {
			row[c] = float32(math.Sin(float64(i)*3+float64(c)*1.7) * 2)
		}
		kernel.Softmax(row)
		teacher = append(teacher, row...)
	}
	return m, tokens, labels, teacher
}

// lossOf returns the mean cross-entropies and, where g is not nil, adds the gradient of the objective to it.
func lossOf(a *pass, o Objective, tokens, labels []int32, teacher []float32, shared int, g *Student) (soft, hard float64) {
	a.Forward(tokens)
	c, n := a.m.Classes, len(tokens)
	dz, tmp := make([]float32, n*c), make([]float32, c)
	for i := range n {
		s, h := o.row(a.Logits[i*c:][:c], teacher[i*c:][:c], labels[i], shared, 1/float32(n), dz[i*c:][:c], tmp)
		soft, hard = soft+s/float64(n), hard+h/float64(n)
	}
	if g != nil {
		a.Backward(dz, g)
	}
	return soft, hard
}

func TestLossAndGradientsEqualAutograd(t *testing.T) {
	var want struct {
		Soft, Hard       float64
		Logits, Gradient []float32
	}
	data, err := os.ReadFile("testdata/autograd.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &want))
	p := kernel.NewPool(2)
	defer p.Close()
	m, tokens, labels, teacher := tiny(t)
	a := newPass(m, p, 2)
	defer a.close()
	g := newStudent(m.Shape, m.Classes)
	soft, hard := lossOf(a, Objective{Temperature: 2, Soft: 0.7}, tokens, labels, teacher, 5, g)
	require.InDelta(t, want.Soft, soft, 1e-6)
	require.InDelta(t, want.Hard, hard, 1e-6)
	require.InDeltaSlice(t, want.Logits, a.Logits, 2e-6)
	var norm float64
	for _, v := range want.Gradient {
		norm += float64(v) * float64(v)
	}
	require.Greater(t, math.Sqrt(norm), 0.1)
	require.InDeltaSlice(t, want.Gradient, g.flat, 2e-6)
}

// Finite differences see every kind of weight, and the corner cases of the objective.
func TestGradientsEqualFiniteDifferences(t *testing.T) {
	p := kernel.NewPool(2)
	defer p.Close()
	for _, o := range []Objective{{Temperature: 1, Soft: 1}, {Temperature: 1, Soft: 0.5}, {Temperature: 3, Soft: 1}, {Temperature: 2, Soft: 0}} {
		m, tokens, labels, teacher := tiny(t)
		a := newPass(m, p, 2)
		g := newStudent(m.Shape, m.Classes)
		lossOf(a, o, tokens, labels, teacher, 5, g)
		value := func() float64 {
			soft, hard := lossOf(a, o, tokens, labels, teacher, 5, nil)
			return float64(o.Soft*o.Temperature*o.Temperature)*soft + float64(1-o.Soft)*hard
		}
		r := rand.New(rand.NewPCG(7, 7))
		// Directions rather than single weights: float32 hides the effect of one. Each part of the student has its own.
		parts := [][2][]float32{{m.embd, g.embd}, {m.norm, g.norm}}
		for i := range m.layers {
			w, d := &m.layers[i], &g.layers[i]
			parts = append(parts, [2][]float32{w.attnNorm, d.attnNorm}, [2][]float32{w.ffnNorm, d.ffnNorm}, [2][]float32{w.q, d.q}, [2][]float32{w.k, d.k},
				[2][]float32{w.v, d.v}, [2][]float32{w.o, d.o}, [2][]float32{w.gate, d.gate}, [2][]float32{w.up, d.up}, [2][]float32{w.down, d.down})
		}
		for i, part := range parts {
			w, d := part[0], part[1]
			// Along the gradient, mixed with chance so that a wrong direction of the right length fails too.
			direction, before := make([]float32, len(w)), append([]float32(nil), w...)
			var length, slope float64
			for j := range direction {
				direction[j] = d[j] + float32(r.NormFloat64())*float32(math.Sqrt(float64(kernel.Dot(d, d))/float64(len(d))))
				length += float64(direction[j]) * float64(direction[j])
			}
			length = math.Sqrt(length)
			for j := range direction {
				slope += float64(d[j]) * float64(direction[j]) / length
			}
			const h = 2e-2
			at := func(step float64) float64 {
				for j := range w {
					w[j] = before[j] + float32(step*float64(direction[j])/length)
				}
				return value()
			}
			measured := (8*(at(h)-at(-h)) - (at(2*h) - at(-2*h))) / (12 * h)
			copy(w, before)
			require.InDelta(t, slope, measured, 2e-4+0.01*math.Abs(slope), "objective %+v, part %d", o, i)
		}
		a.close()
	}
}

// The shared row is exact: the loss over the classes equals the loss over the vocabulary that the file spells out.
func TestSharedRowEqualsWholeVocabulary(t *testing.T) {
	z, p := []float32{0.3, -1, 2, 0.5}, []float32{0.2, 0.1, 0.4, 0.3}
	const shared = 6
	full, pFull := append([]float32(nil), z[:3]...), append([]float32(nil), p[:3]...)
	for range shared {
		full, pFull = append(full, z[3]), append(pFull, p[3]/shared)
	}
	o := Objective{Temperature: 2, Soft: 1}
	dz, tmp, dzFull, tmpFull := make([]float32, 4), make([]float32, 4), make([]float32, 9), make([]float32, 9)
	soft, hard := o.row(z, p, 3, shared, 1, dz, tmp)
	softFull, hardFull := o.row(full, pFull, 5, 1, 1, dzFull, tmpFull)
	require.InDelta(t, softFull, soft, 1e-6)
	require.InDelta(t, hardFull, hard, 1e-6)
	require.InDeltaSlice(t, dzFull[:3], dz[:3], 1e-6)
	var sum float32
	for _, d := range dzFull[3:] {
		sum += d
	}
	require.InDelta(t, sum, dz[3], 1e-6)
}
