package retrieve

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// weighing is a student that weighs by the numbers and turns the vector around.
type weighing [4]float64

func (w weighing) Turn(q []float32) []float32 {
	out := make([]float32, len(q))
	for i, v := range q {
		out[i] = -v
	}
	return out
}

func (w weighing) Score(f [4]float64) (s float64) {
	for i := range w {
		s += w[i] * f[i]
	}
	return s
}

func TestCandidatesHoldWhatTheLegsSay(t *testing.T) {
	dense := []Hit{{ID: 7, Score: 0.9, Rank: 1}, {ID: 3, Score: 0.5, Rank: 2}}
	lexical := []Hit{{ID: 4, Score: 8, Rank: 1}, {ID: 7, Score: 2, Rank: 2}}
	require.Equal(t, []Candidate{
		{7, [4]float64{0.9, 0.25, 60. / 61, 60. / 62}},
		{3, [4]float64{0.5, 0, 60. / 62, 0}},
		{4, [4]float64{0.5, 1, 0, 60. / 61}},
	}, Candidates(dense, lexical))
	require.Empty(t, Candidates(nil, nil))
	require.Equal(t, []Candidate{{4, [4]float64{0, 0, 0, 60. / 61}}}, Candidates(nil, []Hit{{ID: 4, Rank: 1}}))
}

func TestStudentWithFusionWeightsIsFusion(t *testing.T) {
	dense := []Hit{{ID: 7, Score: 0.9, Rank: 1}, {ID: 3, Score: 0.5, Rank: 2}, {ID: 9, Score: 0.4, Rank: 3}}
	lexical := []Hit{{ID: 9, Score: 8, Rank: 1}, {ID: 7, Score: 2, Rank: 2}, {ID: 5, Score: 1, Rank: 3}}
	var want, got []PassageID
	for _, h := range Fuse(Ranking{dense, 1}, Ranking{lexical, 1}) {
		want = append(want, h.ID)
	}
	both := DefaultWeights.Combine(dense, lexical)
	learned := fuseBy(weighing{0, 0, 1, 1}, dense, lexical, both)
	require.Equal(t, both[0].Score, learned[0].Score, "the range of both legs")
	require.Equal(t, both[3].Score, learned[3].Score)
	for i, h := range learned {
		require.Equal(t, i+1, h.Rank)
		got = append(got, h.ID)
	}
	require.Equal(t, want, got)
	require.Equal(t, PassageID(7), fuseBy(weighing{1, 0, 0, 0}, dense, lexical, both)[0].ID)
	require.Equal(t, PassageID(9), fuseBy(weighing{0, 1, 0, 0}, dense, lexical, both)[0].ID)
}
