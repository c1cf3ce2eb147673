package answer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/retrieve"
)

func TestPassagesAboutSomethingElseAreNotRead(t *testing.T) {
	logit := func(x float32) *float32 { return &x }
	ranked := []retrieve.Scored{{Fused: 1, Rerank: logit(4)}, {Fused: 2, Rerank: logit(-9)}, {Fused: 3, Rerank: logit(-11)}, {Fused: 4, Rerank: logit(0)}, {Fused: 5}}
	r := &run{Answerer: &Answerer{config: Config{MinRelevance: DefaultMinRelevance}}}
	var kept []float64
	for _, s := range r.worthReading(ranked) {
		kept = append(kept, s.Fused)
	}
	require.Equal(t, []float64{1, 2, 4, 5}, kept, "at least two, and what nobody judged")
}

func TestTheSentencesNearestToAQuestion(t *testing.T) {
	s := sources(leave, study, leave+"\nIt holds\nfor  everyone.")
	require.Equal(t, []string{"Up to 10 unused days may be carried over to June.", "Every employee has 27 paid vacation days per year."},
		sentencesAbout("How many unused vacation days can be carried over?", s)[:2])
	require.Len(t, sentencesAbout("x", s), 5, "each once")
	require.Contains(t, sentencesAbout("x", s), "It holds for everyone.")
	require.Empty(t, sentencesAbout("x", nil))
}
