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

// tinyRanker repeats the formulas of testdata/ranker.py.
func tinyRanker() (*Ranker, []Question) {
	const dim, rank = 6, 2
	wave := func(i, n int, phase float64) []float32 {
		x := make([]float32, n)
		for j := range x {
			x[j] = float32(math.Sin(float64(i)*1.9 + float64(j)*0.7 + phase))
		}
		return x
	}
	r := &Ranker{Dim: dim, Rank: rank, Weights: [Features]float32{3, 0.5, -1, 2}, Up: wave(1, dim*rank, 0.2), Down: wave(2, dim*rank, 0.4)}
	questions := make([]Question, 3)
	for i := range questions {
		questions[i].Vector = wave(i, dim, 1)
		for c := range 4 {
			f := wave(10*i+c, Features, 2)
			candidate := Candidate{Vector: wave(10*i+c, dim, 3), Teacher: 4 * math.Sin(float64(10*i+c))}
			for k := range f {
				candidate.Features[k] = float64(f[k])
			}
			questions[i].Candidates = append(questions[i].Candidates, candidate)
		}
	}
	return r, questions
}

func TestRankerLossAndGradientsEqualAutograd(t *testing.T) {
	var want struct {
		Loss              float64
		Weights, Up, Down []float32
	}
	data, err := os.ReadFile("testdata/ranker.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &want))
	r, questions := tinyRanker()
	g := r.clone()
	clear(g.Weights[:])
	clear(g.Up)
	clear(g.Down)
	require.InDelta(t, want.Loss, r.loss(questions, 2, g), 1e-6)
	require.InDeltaSlice(t, want.Weights, g.Weights[:], 1e-6)
	require.InDeltaSlice(t, want.Up, g.Up, 1e-6)
	require.InDeltaSlice(t, want.Down, g.Down, 1e-6)
}

func TestRankerGradientsEqualFiniteDifferences(t *testing.T) {
	r, questions := tinyRanker()
	g := r.clone()
	clear(g.Weights[:])
	clear(g.Up)
	clear(g.Down)
	r.loss(questions, 1.5, g)
	const h = 1.0 / 256
	for _, part := range [][2][]float32{{r.Weights[:], g.Weights[:]}, {r.Up, g.Up}, {r.Down, g.Down}} {
		for i := range part[0] {
			before := part[0][i]
			part[0][i] = before + h
			up := r.loss(questions, 1.5, nil)
			part[0][i] = before - h
			down := r.loss(questions, 1.5, nil)
			part[0][i] = before
			require.InDelta(t, (up-down)/(2*h), part[1][i], 1e-3)
		}
	}
}

// The teacher ranks by a direction that the embedder's vectors hide behind a larger one; the student has to find it.
func TestRankerFindsTheTeachersDirection(t *testing.T) {
	p := kernel.NewPool(2)
	defer p.Close()
	const dim = 16
	r := rand.New(rand.NewPCG(1, 1))
	unit := func() []float32 {
		x := make([]float32, dim)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		kernel.Scale(x, 1/float32(math.Sqrt(float64(kernel.Dot(x, x)))))
		return x
	}
	questions := make([]Question, 60)
	for i := range questions {
		q := unit()
		questions[i].Vector = q
		for range 12 {
			v := unit()
			questions[i].Candidates = append(questions[i].Candidates, Candidate{Vector: v, Teacher: 20 * float64(q[1]*v[0]-q[0]*v[1])})
		}
	}
	o := RankerOptions{Rank: 4, Steps: 400, Temperature: 1, Rate: 0.1, Decay: 0.01, Seed: 1}
	trained, curve, err := TrainRanker(p, questions, o)
	require.NoError(t, err)
	require.Equal(t, 4, trained.Rank)
	start := Ranker{Dim: dim, Weights: [Features]float32{10, 1, 2, 2}}
	require.Less(t, trained.loss(questions, 1, nil), start.loss(questions, 1, nil)/2)
	require.Equal(t, len(curve.Train), len(curve.Kept))

	data, err := trained.Marshal()
	require.NoError(t, err)
	again, err := ReadRanker(data)
	require.NoError(t, err)
	require.Equal(t, trained, again)
	q := questions[0].Vector
	turned := again.Turn(q)
	require.NotEqual(t, q, turned)
	require.InDelta(t, 1, kernel.Dot(turned, turned), 1e-5)
	require.Equal(t, q[:3], again.Turn(q[:3]), "another embedder's vector is left to the index to refuse")

	same, _, err := TrainRanker(p, questions, o)
	require.NoError(t, err)
	require.Equal(t, trained, same)
	_, _, err = TrainRanker(p, questions[:19], o)
	require.ErrorIs(t, err, ErrTooLittle)
	for _, bad := range []string{"", "{}", `{"dim":2,"rank":1,"up":[1,2],"down":[1]}`, `{"dim":-1}`, "[]"} {
		_, err := ReadRanker([]byte(bad))
		require.Error(t, err, bad)
	}
}

func TestCompare(t *testing.T) {
	before, after := make([]float64, 200), make([]float64, 200)
	r := rand.New(rand.NewPCG(5, 5))
	for i := range before {
		before[i] = r.Float64()
		after[i] = before[i] + r.NormFloat64()*0.2
	}
	g := Compare(before, after, 1)
	require.Less(t, g.Low, 0.0)
	require.Greater(t, g.High, 0.0)
	require.InDelta(t, 2*1.96*0.2/math.Sqrt(200), g.High-g.Low, 0.01, "as wide as the normal approximation says")
	for i := range after {
		after[i] += 0.1
	}
	require.Greater(t, Compare(before, after, 1).Low, 0.0)
	require.Equal(t, Gain{}, Compare(nil, nil, 1))
}
