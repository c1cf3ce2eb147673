package retrieve

import (
	"cmp"
	"slices"
)

// rrfK is the rank offset of reciprocal rank fusion; 60 is the value of the paper and of every engine we compare with.
const rrfK = 60

// Ranking is one list of passages with the weight that it has in a fusion.
type Ranking struct {
	Hits   []Hit
	Weight float64
}

// Fuse merges rankings by weighted reciprocal rank: score = Σ weight / (60 + rank) over the rankings that hold the passage. A passage that a
// ranking lacks gets nothing from it. The result is ordered by score, equal scores by id, and carries ranks from 1.
func Fuse(rankings ...Ranking) []Hit {
	scores := map[PassageID]float64{}
	for _, r := range rankings {
		for _, h := range r.Hits {
			scores[h.ID] += r.Weight / float64(rrfK+h.Rank)
		}
	}
	fused := make([]Hit, 0, len(scores))
	for id, score := range scores {
		fused = append(fused, Hit{ID: id, Score: score})
	}
	order(fused)
	return fused
}

// order sorts hits by descending score, ties by id, and numbers the ranks from 1.
func order(hits []Hit) {
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID))
	})
	for i := range hits {
		hits[i].Rank = i + 1
	}
}
