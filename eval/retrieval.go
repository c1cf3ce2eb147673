package eval

import (
	"context"
	"fmt"
	"time"

	"ragd/retrieve"
)

// Report is the outcome of Retrieval.
type Report struct {
	Set  string                   `json:"set"`
	N    int                      `json:"n"` // questions with a right passage
	Legs map[retrieve.Leg]Metrics `json:"legs"`
}

// depth is how many passages are asked for: a set's passage may be cut into several of ours, and recall@100 needs a hundred of the set's.
const depth = 200

// Searcher ranks passages by one leg. *retrieve.Retriever implements it.
type Searcher interface {
	RetrieveLeg(ctx context.Context, leg retrieve.Leg, query string, f retrieve.Filter, k int) (retrieve.Result, error)
}

// Rewriter makes a question independent of its history.
type Rewriter interface {
	Rewrite(ctx context.Context, question string, history []Turn) (string, error)
}

// GoldID maps a passage of ours to the id under which the set's qrels know it.
type GoldID func(p *retrieve.Passage) string

// ByPath is the GoldID of a corpus indexed by [Indexer].
func ByPath(p *retrieve.Passage) string { return p.Path }

// ByPage is the GoldID of a set's own documents: FILE#page=N of the page on which the passage starts.
func ByPage(p *retrieve.Passage) string { return fmt.Sprintf("%s#page=%d", p.Path, p.Page) }

// Retrieval asks every question of d that has a right passage, once for each leg, of the passages in corpus. rewriter may be nil when no question has a
// history. progress may be nil.
func Retrieval(ctx context.Context, d *Dataset, s Searcher, rewriter Rewriter, corpus string, gold GoldID, legs []retrieve.Leg, progress func(done, total int)) (Report, error) {
	report := Report{Set: d.Name, Legs: map[retrieve.Leg]Metrics{}}
	totals, took := make([]Metrics, len(legs)), make([][]time.Duration, len(legs))
	for i, q := range d.Queries {
		gains := d.Gains[q.ID]
		if len(gains) == 0 {
			continue
		}
		text, err := standalone(ctx, q, rewriter)
		if err != nil {
			return Report{}, fmt.Errorf("eval: rewrite question %s: %w", q.ID, err)
		}
		filter := retrieve.Filter{Tenant: Tenant, Corpora: []string{corpus}}
		if q.Lang != "" {
			filter.Tags = []string{"lang:" + q.Lang}
		}
		for l, leg := range legs {
			started := time.Now()
			result, err := s.RetrieveLeg(ctx, leg, text, filter, depth)
			if err != nil {
				return Report{}, fmt.Errorf("eval: question %s, leg %s: %w", q.ID, leg, err)
			}
			took[l] = append(took[l], time.Since(started))
			totals[l].add(goldRanking(result.Ranked, gold), gains)
		}
		report.N++
		if progress != nil {
			progress(i+1, len(d.Queries))
		}
	}
	for l, leg := range legs {
		totals[l].mean(report.N, took[l])
		report.Legs[leg] = totals[l]
	}
	return report, nil
}

func standalone(ctx context.Context, q Query, rewriter Rewriter) (string, error) {
	if len(q.History) == 0 || rewriter == nil {
		return q.Text, nil
	}
	return rewriter.Rewrite(ctx, q.Text, q.History)
}

// goldRanking turns a ranking of our passages into one of the set's ids, each at its best place.
func goldRanking(ranked []retrieve.Scored, gold GoldID) []string {
	seen := map[string]bool{}
	var ids []string
	for i := range ranked {
		if id := gold(&ranked[i].Passage); !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}
