package eval

import (
	"context"
	"iter"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/answer"
)

func varied(t *testing.T, kinds ...string) *Dataset {
	d := &Dataset{Name: "s", Gains: map[string]map[string]float64{"q": {"right": 1}},
		Queries: []Query{{ID: "q", Text: "How many vacation days are there?", Answers: []string{"27"}}, {ID: "n", Text: "Who pays?", Answers: nil}},
		Corpus: []Passage{{ID: "far", Text: "Parking is free."}, {ID: "right", Text: "There are 27 vacation days."}, {ID: "near", Text: "Vacation days are requested early."},
			{ID: "also", Text: "As said, 27 vacation days."}}}
	v := Vary{Kinds: kinds, Noise: []int{0, 2}}
	out, err := v.Make(t.Context(), d, 0, nil)
	require.NoError(t, err)
	return out
}

func ids(passages []Passage) []string {
	var all []string
	for _, p := range passages {
		all = append(all, p.ID)
	}
	return all
}

func TestVariantsDifferInOneThing(t *testing.T) {
	d := varied(t, "word", "order", "position", "noise")
	require.Equal(t, []string{"right", "near", "far"}, ids(d.Queries[0].Given), "a passage that holds the answer is no noise; the likeliest to mislead comes first")
	byKind := map[string]Query{}
	for _, q := range d.Queries[1:] {
		require.Equal(t, "q", q.Of)
		require.Equal(t, d.Queries[0].IsHeldOut(), q.IsHeldOut())
		require.Equal(t, map[string]float64{"right": 1}, d.Gains[q.ID])
		byKind[q.Variant] = q
	}
	require.Len(t, byKind, 1+1+3+2)
	require.Equal(t, "How many vacaiton days are there?", byKind["word"].Text)
	require.ElementsMatch(t, []string{"right", "near", "far"}, ids(byKind["order"].Given))
	require.Equal(t, []string{"right"}, ids(byKind["noise 0"].Given))
	// The model reads the second passage first and the first one last.
	require.Equal(t, []string{"near", "right", "far"}, ids(byKind["position 1"].Given))
	require.Equal(t, []string{"near", "far", "right"}, ids(byKind["position 2"].Given))
	require.Equal(t, []string{"right", "near", "far"}, ids(byKind["position 3"].Given))
	require.True(t, byKind["position 1"].Ordered)

	dir := filepath.Join(t.TempDir(), "set")
	require.NoError(t, d.Write(dir))
	back, err := Load(dir)
	require.NoError(t, err)
	require.Equal(t, d.Queries, back.Queries)
	require.Equal(t, d.Gains, back.Gains)
	require.Error(t, d.Write(dir), "nothing is overwritten")
}

func TestOneWordIsMisspelt(t *testing.T) {
	require.Equal(t, "How many vacaiton days?", misspelt("How many vacation days?"))
	require.Equal(t, "Wird die Übersutnde bezahlt?", misspelt("Wird die Überstunde bezahlt?"))
	require.Equal(t, "a b", misspelt("a b"))
	require.Equal(t, "", misspelt(""))
	require.Equal(t, "aaaa", misspelt("aaaa"), "nothing to swap")
}

func TestTheChangeOfEachVariantIsReported(t *testing.T) {
	right, wrong := map[string]float64{"contains": 1}, map[string]float64{"contains": 0}
	s := Summarise(Header{}, []Answered{{ID: "a", Metrics: right}, {ID: "b", Metrics: right}, {ID: "a~order", Of: "a", Variant: "order", Metrics: right},
		{ID: "b~order", Of: "b", Variant: "order", Metrics: wrong, Abstained: true}, {ID: "c~word", Of: "c", Variant: "word", Metrics: right}})
	require.Len(t, s.Variants, 1, "a variant whose question was not asked says nothing")
	require.Equal(t, "order", s.Variants[0].Variant)
	require.InDelta(t, -0.5, s.Variants[0].Change.Value, 1e-9)
	require.InDelta(t, 0.5, s.Variants[0].Answered, 1e-9)
}

func TestContaminationIsWhatIsKnownWithTheBookClosed(t *testing.T) {
	of := func(id string, v float64) Answered {
		return Answered{ID: id, Metrics: map[string]float64{"contains": v}}
	}
	c := Contaminated([]Answered{of("a", 1), of("b", 0), of("c", 0), {ID: "d"}}, []Answered{of("a", 1), of("b", 1), of("c", 0), {ID: "d"}, of("e", 1)})
	require.InDelta(t, 1.0/3, c.Known.Value, 1e-9)
	require.InDelta(t, 2.0/3, c.Open.Value, 1e-9)
	require.InDelta(t, 0.5, c.Unknown.Value, 1e-9)
	require.InDelta(t, 1.0/3, c.Gain.Value, 1e-9)
}

func TestAJudgeIsCorrectedForThePlaceAndItsBiasesAreReported(t *testing.T) {
	// Always what stands first: no preference, all bias.
	v := Verdict([]Preference{{First: 0.9, Swapped: 0.1}, {First: 0.9, Swapped: 0.1, Longer: true}})
	require.InDelta(t, 0.5, v.A.Value, 1e-9)
	require.InDelta(t, 0.4, v.Position, 1e-9)
	require.Zero(t, v.Steady)
	require.InDelta(t, 0, v.Length, 1e-9)
	// Always the longer one.
	v = Verdict([]Preference{{First: 0.8, Swapped: 0.8, Longer: true}, {First: 0.2, Swapped: 0.2}})
	require.InDelta(t, 0.3, v.Length, 1e-9)
	require.InDelta(t, 0, v.Position, 1e-9)
	require.Equal(t, 1.0, v.Steady)
	require.Zero(t, Verdict(nil).N)
}

// says is an Answerer that gives one text and keeps the questions that it was asked.
type says struct {
	text  string
	asked []answer.Question
}

func (s *says) Answer(_ context.Context, q answer.Question) iter.Seq2[answer.Event, error] {
	s.asked = append(s.asked, q)
	return func(yield func(answer.Event, error) bool) {
		yield(answer.Event{Done: &answer.Answer{Question: q.Text, Query: q.Text, Text: s.text, Draft: s.text}}, nil)
	}
}

func TestWhatMayNotBeSaidIsCounted(t *testing.T) {
	d := &Dataset{Gains: map[string]map[string]float64{}, Queries: []Query{{ID: "a", Text: "?", Forbidden: []string{"pwned"}, Given: []Passage{{ID: "1", Text: "x"}}, Ordered: true}, {ID: "b", Text: "?"}}}
	s := &says{text: "It is PWNED."}
	out, err := OpenResults[Answered](filepath.Join(t.TempDir(), "r.jsonl"), Header{Kind: "answers"})
	require.NoError(t, err)
	require.NoError(t, (&AnswerRun{Answerer: s, Gold: ByPath, Unchecked: true}).Run(t.Context(), d, d.Queries, out))
	require.Equal(t, 1.0, out.Records[0].Metrics["forbidden"])
	require.NotContains(t, out.Records[1].Metrics, "forbidden")
	require.True(t, s.asked[0].Ordered)
	require.True(t, s.asked[0].Unchecked)
	require.Len(t, s.asked[0].Given, 1)
	require.NoError(t, (&AnswerRun{Answerer: s, Gold: ByPath}).Run(t.Context(), d, d.Queries, out))
	require.Len(t, s.asked, 2, "nothing is asked twice")
}
