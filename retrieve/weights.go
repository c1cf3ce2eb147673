package retrieve

import (
	"cmp"
	"math"
	"slices"
)

// Weights says how much each leg and the cross-encoder count in a ranking. Each score is first brought to a scale from 0 to about 1 (see Order): a
// convex combination keeps what ranks throw away, how far apart two passages are.
type Weights struct {
	Dense, Lexical, Rerank float64
}

// DefaultWeights is what [New] takes for no weights at all; fitted on the tuning parts of the sets in docs/eval.md.
var DefaultWeights = Weights{Dense: 1, Lexical: 1, Rerank: 1.5}

// WordsFirst ranks a question whose language the models do not know: by words, then, where words find nothing, by what the embedder makes of it.
var WordsFirst = Weights{Dense: 1e-3, Lexical: 1}

// rerankSpan is how many logits below the best one a passage has lost the cross-encoder's whole vote: a relevant and an irrelevant passage are about
// that far apart.
const rerankSpan = 10

// Order puts candidates in order, best first, and sets their Fused score. BM25 is taken as a share of the best passage's, the cosine similarity as its
// place between the least and the greatest among the candidates, the logit by its distance from the best. A candidate that a leg lacks gets nothing
// from it. Those that the cross-encoder did not read come after those that it read.
func (w Weights) Order(candidates []Scored) {
	w.fuse(candidates)
	w.vote(candidates)
}

// vote adds what the cross-encoder says to the Fused scores and puts candidates in order.
func (w Weights) vote(candidates []Scored) {
	best := math.Inf(-1)
	for i := range candidates {
		if c := &candidates[i]; c.Rerank != nil {
			best = max(best, float64(*c.Rerank))
		}
	}
	for i := range candidates {
		if c := &candidates[i]; c.Rerank != nil {
			c.Fused += w.Rerank * max(0, 1+(float64(*c.Rerank)-best)/rerankSpan)
		}
	}
	slices.SortStableFunc(candidates, func(a, b Scored) int {
		return cmp.Or(boolCompare(b.Rerank != nil, a.Rerank != nil), cmp.Compare(b.Fused, a.Fused), cmp.Compare(a.Passage.ID, b.Passage.ID))
	})
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// fuse sets the Fused score of candidates by the two legs.
func (w Weights) fuse(candidates []Scored) {
	most, near, far := 0.0, math.Inf(-1), math.Inf(1)
	for _, c := range candidates {
		if c.Lexical != nil {
			most = max(most, c.Lexical.Score)
		}
		if c.Dense != nil {
			near, far = max(near, c.Dense.Score), min(far, c.Dense.Score)
		}
	}
	for i := range candidates {
		c := &candidates[i]
		c.Fused = 0
		if c.Lexical != nil && most > 0 {
			c.Fused += w.Lexical * c.Lexical.Score / most
		}
		if c.Dense != nil && near > far {
			c.Fused += w.Dense * (c.Dense.Score - far) / (near - far)
		} else if c.Dense != nil {
			c.Fused += w.Dense // one candidate, or all equally near
		}
	}
}

// Combine merges the two legs by w: every passage of either, best first.
func (w Weights) Combine(dense, lexical []Hit) []Hit {
	at := map[PassageID]int{}
	var all []Scored
	place := func(id PassageID) *Scored {
		if _, ok := at[id]; !ok {
			at[id] = len(all)
			all = append(all, Scored{Passage: Passage{ID: id}})
		}
		return &all[at[id]]
	}
	for i := range dense {
		place(dense[i].ID).Dense = &dense[i]
	}
	for i := range lexical {
		place(lexical[i].ID).Lexical = &lexical[i]
	}
	w.fuse(all)
	hits := make([]Hit, len(all))
	for i, c := range all {
		hits[i] = Hit{ID: c.Passage.ID, Score: c.Fused}
	}
	order(hits)
	return hits
}
