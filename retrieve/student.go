package retrieve

import "ragd/embed"

// Student is a way to rank that was learned for one corpus; package llm/distill trains one. Safe for concurrent use.
type Student interface {
	// Turn returns the question's vector as the dense leg is to be asked with. It does not change q.
	Turn(q []float32) []float32
	// Score weighs the features of a candidate; higher is better.
	Score(features [4]float64) float64
}

// Candidate is a passage that at least one leg found, with what a student sees of it: the cosine of question and passage, BM25 as a share of the
// question's best, and 60/(60+rank) in the dense and in the lexical leg. A passage that a leg does not hold has no rank there, BM25 0 and the cosine of
// the last passage of the dense leg.
type Candidate struct {
	ID       PassageID
	Features [4]float64
}

// Candidates joins both legs, in the order in which they name passages.
func Candidates(dense, lexical []Hit) []Candidate {
	var all []Candidate
	at := map[PassageID]int{}
	floor := 0.0
	if len(dense) > 0 {
		floor = dense[len(dense)-1].Score
	}
	candidate := func(id PassageID) *[4]float64 {
		i, known := at[id]
		if !known {
			i = len(all)
			at[id] = i
			all = append(all, Candidate{ID: id, Features: [4]float64{floor}})
		}
		return &all[i].Features
	}
	for _, h := range dense {
		f := candidate(h.ID)
		f[0], f[2] = h.Score, rrfK/float64(rrfK+h.Rank)
	}
	for _, h := range lexical {
		f := candidate(h.ID)
		if best := lexical[0].Score; best > 0 {
			f[1] = h.Score / best
		}
		f[3] = rrfK / float64(rrfK+h.Rank)
	}
	return all
}

// fuseBy merges both legs as a student weighs them. Its scores are brought to the range of both, the candidates as they are ranked without it: then the
// cross-encoder's vote counts as much beside the student as beside the legs.
func fuseBy(s Student, dense, lexical, both []Hit) []Hit {
	candidates := Candidates(dense, lexical)
	hits := make([]Hit, len(candidates))
	for i, c := range candidates {
		hits[i] = Hit{ID: c.ID, Score: s.Score(c.Features)}
	}
	order(hits)
	if len(hits) == 0 {
		return hits
	}
	most, least, low := hits[0].Score, hits[len(hits)-1].Score, both[len(both)-1].Score
	for i := range hits {
		share := 0.0
		if most > least {
			share = (hits[i].Score - least) / (most - least)
		}
		hits[i].Score = low + (both[0].Score-low)*share
	}
	return hits
}

// turn is what a student, if any, makes of the question's vector.
func turn(s Student, q embed.Vector) embed.Vector {
	if s == nil {
		return q
	}
	return s.Turn(q)
}
