package eval

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Metrics are the means over the questions that have a right passage.
type Metrics struct {
	NDCG10    float64 `json:"ndcg@10"`
	MRR10     float64 `json:"mrr@10"`
	Recall10  float64 `json:"recall@10"`
	Recall100 float64 `json:"recall@100"`
	AllGold10 float64 `json:"all_gold@10"` // share of questions with every right passage among the first ten
	P50       float64 `json:"p50_ms"`
	P95       float64 `json:"p95_ms"`
}

// NDCG returns the normalised discounted cumulated gain of the first k of ranked, with linear gains; 0 when nothing is right.
func NDCG(ranked []string, gains map[string]float64, k int) float64 {
	ideal := make([]float64, 0, len(gains))
	for _, g := range gains {
		ideal = append(ideal, g)
	}
	slices.SortFunc(ideal, func(a, b float64) int { return cmp.Compare(b, a) })
	var got, best float64
	for i, id := range ranked[:min(k, len(ranked))] {
		got += gains[id] / math.Log2(float64(i+2))
	}
	for i, g := range ideal[:min(k, len(ideal))] {
		best += g / math.Log2(float64(i+2))
	}
	if best == 0 {
		return 0
	}
	return got / best
}

// ReciprocalRank returns 1/rank of the first right passage among the first k of ranked, else 0.
func ReciprocalRank(ranked []string, gains map[string]float64, k int) float64 {
	for i, id := range ranked[:min(k, len(ranked))] {
		if gains[id] > 0 {
			return 1 / float64(i+1)
		}
	}
	return 0
}

// Recall returns the share of the right passages that are among the first k of ranked.
func Recall(ranked []string, gains map[string]float64, k int) float64 {
	found, all := 0, 0
	for _, g := range gains {
		if g > 0 {
			all++
		}
	}
	for _, id := range ranked[:min(k, len(ranked))] {
		if gains[id] > 0 {
			found++
		}
	}
	if all == 0 {
		return 0
	}
	return float64(found) / float64(all)
}

// add counts one question into m; mean divides.
func (m *Metrics) add(ranked []string, gains map[string]float64) {
	m.NDCG10 += NDCG(ranked, gains, 10)
	m.MRR10 += ReciprocalRank(ranked, gains, 10)
	m.Recall10 += Recall(ranked, gains, 10)
	m.Recall100 += Recall(ranked, gains, 100)
	if Recall(ranked, gains, 10) == 1 {
		m.AllGold10++
	}
}

func (m *Metrics) mean(n int, took []time.Duration) {
	if n == 0 {
		return
	}
	for _, v := range []*float64{&m.NDCG10, &m.MRR10, &m.Recall10, &m.Recall100, &m.AllGold10} {
		*v /= float64(n)
	}
	slices.Sort(took)
	m.P50, m.P95 = milliseconds(percentile(took, 50)), milliseconds(percentile(took, 95))
}

// percentile returns the p-th percentile of sorted durations, by the nearest rank.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

func milliseconds(d time.Duration) float64 { return math.Round(float64(d)/1e4) / 100 }
