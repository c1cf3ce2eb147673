package retrieve

import "slices"

// Weights says how much each leg and the cross-encoder count in a ranking.
type Weights struct {
	Dense, Lexical, Rerank float64
}

// DefaultWeights is what [New] takes for no weights at all.
var DefaultWeights = Weights{Dense: 1, Lexical: 1, Rerank: 1.5}

// Order puts candidates in order, best first, and sets their Fused score. Those that the cross-encoder did not read come after those that it read.
func (w Weights) Order(candidates []Scored) {
	var dense, lexical []Hit
	byID := make(map[PassageID]Scored, len(candidates))
	for _, c := range candidates {
		byID[c.Passage.ID] = c
		if c.Dense != nil {
			dense = append(dense, *c.Dense)
		}
		if c.Lexical != nil {
			lexical = append(lexical, *c.Lexical)
		}
	}
	order(dense)
	order(lexical)
	fused := Fuse(Ranking{Hits: dense, Weight: w.Dense}, Ranking{Hits: lexical, Weight: w.Lexical})
	for i, h := range fused {
		candidates[i] = byID[h.ID]
		candidates[i].Fused = h.Score
	}
	w.reread(candidates[:len(fused)])
}

// reread is Order for candidates that are in the order of their Fused scores.
func (w Weights) reread(candidates []Scored) {
	var read, unread []Hit
	byID := make(map[PassageID]Scored, len(candidates))
	for _, c := range candidates {
		byID[c.Passage.ID] = c
		if h := (Hit{ID: c.Passage.ID, Score: c.Fused}); c.Rerank != nil {
			h.Score = float64(*c.Rerank)
			read = append(read, h)
		} else {
			unread = append(unread, h)
		}
	}
	byFused := slices.Clone(read)
	for i := range byFused {
		byFused[i].Rank = i + 1
	}
	order(read)
	candidates = candidates[:0]
	for _, h := range append(Fuse(Ranking{Hits: byFused, Weight: 1}, Ranking{Hits: read, Weight: w.Rerank}), unread...) {
		c := byID[h.ID]
		c.Fused = h.Score
		candidates = append(candidates, c)
	}
}
