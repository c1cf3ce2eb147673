package retrieve_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/embed"
	"ragd/retrieve"
)

func TestFuseGivesAMissingLegNothing(t *testing.T) {
	fused := retrieve.Fuse(
		retrieve.Ranking{Hits: []retrieve.Hit{{ID: 1, Rank: 1}, {ID: 2, Rank: 2}}, Weight: 1},
		retrieve.Ranking{Hits: []retrieve.Hit{{ID: 2, Rank: 1}, {ID: 3, Rank: 7}}, Weight: 0.5},
	)
	require.Equal(t, []retrieve.Hit{
		{ID: 2, Score: 1.0/62 + 0.5/61, Rank: 1},
		{ID: 1, Score: 1.0 / 61, Rank: 2},
		{ID: 3, Score: 0.5 / 67, Rank: 3},
	}, fused)
}

func TestFuseOrdersTiesByID(t *testing.T) {
	a := retrieve.Ranking{Hits: []retrieve.Hit{{ID: 9, Rank: 1}}, Weight: 1}
	b := retrieve.Ranking{Hits: []retrieve.Hit{{ID: 4, Rank: 1}}, Weight: 1}
	require.Equal(t, retrieve.Fuse(a, b), retrieve.Fuse(b, a))
	require.Equal(t, retrieve.PassageID(4), retrieve.Fuse(a, b)[0].ID)
}

// index is a retrieve.Index that answers with fixed rankings and records the filters it saw.
type index struct {
	dense, lexical []retrieve.Hit
	texts          map[retrieve.PassageID]string
	filters        []retrieve.Filter
	err            error
}

func (x *index) Dense(_ context.Context, _ embed.Vector, _ int, f retrieve.Filter) ([]retrieve.Hit, error) {
	return x.dense, x.err
}

func (x *index) Lexical(_ context.Context, _ string, _ int, f retrieve.Filter) ([]retrieve.Hit, error) {
	return x.lexical, nil
}

func (x *index) Passages(_ context.Context, ids []retrieve.PassageID, f retrieve.Filter) ([]retrieve.Passage, error) {
	x.filters = append(x.filters, f)
	var all []retrieve.Passage
	for _, id := range ids {
		if text, ok := x.texts[id]; ok {
			all = append(all, retrieve.Passage{ID: id, Text: text})
		}
	}
	return all, nil
}

type embedder struct{}

func (embedder) Model() string { return "test" }
func (embedder) Dim() int      { return 1 }
func (embedder) Embed(_ context.Context, role embed.Role, texts []string) ([]embed.Vector, error) {
	if role != embed.Query {
		return nil, errors.New("a question must be embedded as one")
	}
	return make([]embed.Vector, len(texts)), nil
}

// reranker prefers longer passages.
type reranker struct{}

func (reranker) Score(_ context.Context, _ string, passages []string) ([]float32, error) {
	scores := make([]float32, len(passages))
	for i, p := range passages {
		scores[i] = float32(len(p))
	}
	return scores, nil
}

func corpus() *index {
	return &index{
		dense:   []retrieve.Hit{{ID: 1, Score: 0.9, Rank: 1}, {ID: 2, Score: 0.8, Rank: 2}, {ID: 7, Score: 0.1, Rank: 3}},
		lexical: []retrieve.Hit{{ID: 3, Score: 12, Rank: 1}, {ID: 2, Score: 9, Rank: 2}},
		texts:   map[retrieve.PassageID]string{1: "the longest text", 2: "bb", 3: "a"},
	}
}

func ids(r retrieve.Result) []retrieve.PassageID {
	var all []retrieve.PassageID
	for _, s := range r.Ranked {
		all = append(all, s.Passage.ID)
	}
	return all
}

func TestLegsAndFusion(t *testing.T) {
	x := corpus()
	r := retrieve.New(x, embedder{}, nil, retrieve.Config{})
	for leg, want := range map[retrieve.Leg][]retrieve.PassageID{
		retrieve.LegDense:   {1, 2}, // 7 was deleted since: its text is gone, so is its place
		retrieve.LegLexical: {3, 2},
		retrieve.LegHybrid:  {2, 1, 3},
	} {
		result, err := r.RetrieveLeg(t.Context(), leg, "q", retrieve.Filter{}, 10)
		require.NoError(t, err)
		require.Equal(t, want, ids(result), leg)
	}
	result, err := r.Retrieve(t.Context(), "q", retrieve.Filter{Tenant: "acme", Corpora: []string{"c"}}, 1)
	require.NoError(t, err)
	require.Equal(t, []retrieve.PassageID{2}, ids(result))
	require.Equal(t, 0.8, result.Ranked[0].Dense.Score)
	require.Equal(t, 9.0, result.Ranked[0].Lexical.Score)
	require.Nil(t, result.Ranked[0].Rerank)
	require.Equal(t, retrieve.Filter{Tenant: "acme", Corpora: []string{"c"}}, x.filters[len(x.filters)-1], "access is checked where text is read")
}

func TestRerankLeads(t *testing.T) {
	r := retrieve.New(corpus(), embedder{}, reranker{}, retrieve.Config{})
	result, err := r.Retrieve(t.Context(), "q", retrieve.Filter{}, 10)
	require.NoError(t, err)
	require.Equal(t, []retrieve.PassageID{1, 2, 3}, ids(result), "2 leads by the legs alone")
	require.NotNil(t, result.Ranked[0].Rerank)
	require.Nil(t, result.Ranked[0].Lexical, "the lexical leg did not hold it")
}

func TestErrorsNameTheLeg(t *testing.T) {
	x := corpus()
	x.err = errors.New("connection lost")
	_, err := retrieve.New(x, embedder{}, nil, retrieve.Config{}).Retrieve(t.Context(), "q", retrieve.Filter{}, 3)
	require.ErrorContains(t, err, "dense leg: connection lost")
}

// lexicalStudent ranks by BM25 alone.
type lexicalStudent struct{}

func (lexicalStudent) Turn(q []float32) []float32 { return q }
func (lexicalStudent) Score(f [4]float64) float64 { return f[1] }

func TestStudentDecidesForItsCorpusOnly(t *testing.T) {
	config := retrieve.Config{Rerank: 1, Student: func(f retrieve.Filter) retrieve.Student {
		if len(f.Corpora) == 1 && f.Corpora[0] == "c" {
			return lexicalStudent{}
		}
		return nil
	}}
	mine, other := retrieve.Filter{Corpora: []string{"c"}}, retrieve.Filter{}
	r := retrieve.New(corpus(), embedder{}, reranker{}, config)
	for _, c := range []struct {
		leg    retrieve.Leg
		filter retrieve.Filter
		want   []retrieve.PassageID
	}{
		{retrieve.LegHybrid, mine, []retrieve.PassageID{3, 2, 1}},
		{retrieve.LegHybrid, other, []retrieve.PassageID{2, 1, 3}},
		{retrieve.LegRerank, mine, []retrieve.PassageID{3, 2, 1}}, // the cross-encoder read the student's first
		{retrieve.LegRerank, other, []retrieve.PassageID{2, 1, 3}},
		{retrieve.LegDense, mine, []retrieve.PassageID{1, 2}},
	} {
		result, err := r.RetrieveLeg(t.Context(), c.leg, "q", c.filter, 10)
		require.NoError(t, err)
		require.Equal(t, c.want, ids(result), "%s of %v", c.leg, c.filter.Corpora)
	}
}

func TestACombinationGivesAMissingLegNothing(t *testing.T) {
	dense := []retrieve.Hit{{ID: 1, Score: 1}, {ID: 2, Score: 0.75}, {ID: 4, Score: 0.5}}
	lexical := []retrieve.Hit{{ID: 3, Score: 8}, {ID: 2, Score: 4}}
	require.Equal(t, []retrieve.Hit{
		{ID: 1, Score: 1, Rank: 1},
		{ID: 2, Score: 0.5 + 0.5*0.5, Rank: 2},
		{ID: 3, Score: 0.5, Rank: 3}, // lexical only: no credit from the dense leg
		{ID: 4, Score: 0, Rank: 4},
	}, retrieve.Weights{Dense: 1, Lexical: 0.5}.Combine(dense, lexical))
}

func TestOrderPutsWhatNobodyReadBehind(t *testing.T) {
	logit := func(x float32) *float32 { return &x }
	hit := func(id retrieve.PassageID, score float64) *retrieve.Hit { return &retrieve.Hit{ID: id, Score: score} }
	c := []retrieve.Scored{
		{Passage: retrieve.Passage{ID: 1}, Lexical: hit(1, 10)},
		{Passage: retrieve.Passage{ID: 2}, Lexical: hit(2, 5), Rerank: logit(-9)},
		{Passage: retrieve.Passage{ID: 3}, Lexical: hit(3, 4), Rerank: logit(3)},
	}
	retrieve.Weights{Lexical: 1, Rerank: 1}.Order(c)
	require.Equal(t, []retrieve.PassageID{3, 2, 1}, []retrieve.PassageID{c[0].Passage.ID, c[1].Passage.ID, c[2].Passage.ID})
	require.InDelta(t, 1.4, c[0].Fused, 1e-9)
	require.InDelta(t, 0.5, c[1].Fused, 1e-9, "twelve logits below the best are worth nothing")
}

func TestModelsOfEnglishHaveNoSayInOtherLanguages(t *testing.T) {
	r := retrieve.New(corpus(), embedder{}, reranker{}, retrieve.Config{English: true})
	for question, want := range map[string][]retrieve.PassageID{
		"which one":        {1, 2, 3}, // the cross-encoder leads
		"который из них":   {3, 2, 1}, // words, then what the embedder alone found
		"哪一个":              {3, 2, 1},
		"который из Go, C": {3, 2, 1},
	} {
		result, err := r.Retrieve(t.Context(), question, retrieve.Filter{}, 10)
		require.NoError(t, err)
		require.Equal(t, want, ids(result), question)
		require.Equal(t, question == "which one", result.Ranked[0].Rerank != nil)
	}
	result, err := r.Retrieve(t.Context(), "welcher davon", retrieve.Filter{Languages: []string{"de"}}, 10)
	require.NoError(t, err)
	require.Equal(t, []retrieve.PassageID{3, 2, 1}, ids(result), "the filter says that the passages are German")
	result, err = r.RetrieveLeg(t.Context(), retrieve.LegDense, "который", retrieve.Filter{}, 10)
	require.NoError(t, err)
	require.Equal(t, []retrieve.PassageID{1, 2}, ids(result), "the dense leg alone stays what it is")
}
