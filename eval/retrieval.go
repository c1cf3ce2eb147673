package eval

import (
	"context"
	"fmt"
	"slices"
	"time"

	"ragd/retrieve"
)

// Report is the outcome of a retrieval run.
type Report struct {
	Set  string                   `json:"set"`
	N    int                      `json:"n"` // questions with a right passage
	Legs map[retrieve.Leg]Metrics `json:"legs"`
}

// depth is how many passages are asked for: a set's passage may be cut into several of ours, and recall@100 needs a hundred of the set's.
const depth = 200

// Searcher finds candidates with all that is known about each. *retrieve.Retriever implements it.
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

// Searched is one question of a retrieval run: every candidate with what each leg said, so that any ranking of them can be computed again without
// asking the models.
type Searched struct {
	ID         string                   `json:"id"`
	Query      string                   `json:"query"` // as searched
	HeldOut    bool                     `json:"held_out"`
	Gains      map[string]float64       `json:"gains"`
	Candidates []Candidate              `json:"candidates"`
	WordsFirst bool                     `json:"words_first,omitempty"` // the models do not know the question's language
	Took       map[retrieve.Leg]float64 `json:"ms"`
}

// Candidate is a passage that some leg found.
type Candidate struct {
	Passage retrieve.PassageID `json:"p"`
	Gold    string             `json:"g"`           // the set's id of it
	Dense   *float64           `json:"d,omitempty"` // cosine similarity
	Lexical *float64           `json:"l,omitempty"` // BM25
	Rerank  *float32           `json:"r,omitempty"` // the cross-encoder's logit
}

// RetrievalRun asks the questions of a set.
type RetrievalRun struct {
	Searcher Searcher
	Rewriter Rewriter // nil: questions are searched as they stand
	Corpus   string
	Gold     GoldID
	Leg      retrieve.Leg // the most careful leg that is asked; it holds what the others say
	Progress func(done, total int)
}

// Run asks every question of questions that has a right passage and is not in out yet, and appends to out.
func (x *RetrievalRun) Run(ctx context.Context, d *Dataset, questions []Query, out *Results[Searched]) error {
	answerable := slices.DeleteFunc(slices.Clone(questions), func(q Query) bool { return len(d.Gains[q.ID]) == 0 })
	return out.each(answerable, func(s *Searched) string { return s.ID }, 1, x.Progress, func(q *Query) (Searched, error) { return x.search(ctx, d, q) })
}

// Filter is how a question's passages are narrowed: to the set's corpus, and to its language where the set has several.
func Filter(corpus string, q *Query) retrieve.Filter {
	f := retrieve.Filter{Tenant: Tenant, Corpora: []string{corpus}}
	if q.Lang != "" {
		f.Languages = []string{q.Lang}
	}
	return f
}

func (x *RetrievalRun) search(ctx context.Context, d *Dataset, q *Query) (Searched, error) {
	text, err := standalone(ctx, q, x.Rewriter)
	if err != nil {
		return Searched{}, fmt.Errorf("rewrite: %w", err)
	}
	result, err := x.Searcher.RetrieveLeg(ctx, x.Leg, text, Filter(x.Corpus, q), depth)
	if err != nil {
		return Searched{}, err
	}
	s := Searched{ID: q.ID, Query: text, HeldOut: q.IsHeldOut(), Gains: d.Gains[q.ID], Took: legTimes(result.Timings),
		WordsFirst: result.Weights == retrieve.WordsFirst}
	for i := range result.Ranked {
		r := &result.Ranked[i]
		c := Candidate{Passage: r.Passage.ID, Gold: x.Gold(&r.Passage), Rerank: r.Rerank}
		if r.Dense != nil {
			c.Dense = &r.Dense.Score
		}
		if r.Lexical != nil {
			c.Lexical = &r.Lexical.Score
		}
		s.Candidates = append(s.Candidates, c)
	}
	return s, nil
}

// legTimes is what each leg would have taken alone. The two cheap legs run at the same time.
func legTimes(t retrieve.Timings) map[retrieve.Leg]float64 {
	hybrid := max(t.Embed+t.Dense, t.Lexical) + t.Fetch
	times := map[retrieve.Leg]time.Duration{
		retrieve.LegLexical: t.Lexical + t.Fetch, retrieve.LegDense: t.Embed + t.Dense + t.Fetch, retrieve.LegHybrid: hybrid, retrieve.LegRerank: hybrid + t.Rerank,
	}
	ms := make(map[retrieve.Leg]float64, len(times))
	for leg, d := range times {
		ms[leg] = milliseconds(d)
	}
	return ms
}

func standalone(ctx context.Context, q *Query, rewriter Rewriter) (string, error) {
	if len(q.History) == 0 || rewriter == nil {
		return q.Text, nil
	}
	return rewriter.Rewrite(ctx, q.Text, q.History)
}

// Rank orders the candidates of a question as leg does under w, as the set's ids, each at its best place.
func (s *Searched) Rank(leg retrieve.Leg, w retrieve.Weights) []string {
	scored, gold := make([]retrieve.Scored, 0, len(s.Candidates)), make(map[retrieve.PassageID]string, len(s.Candidates))
	for _, c := range s.Candidates {
		r := retrieve.Scored{Passage: retrieve.Passage{ID: c.Passage}}
		if c.Dense != nil && leg != retrieve.LegLexical {
			r.Dense = &retrieve.Hit{ID: c.Passage, Score: *c.Dense}
		}
		if c.Lexical != nil && leg != retrieve.LegDense {
			r.Lexical = &retrieve.Hit{ID: c.Passage, Score: *c.Lexical}
		}
		if r.Dense == nil && r.Lexical == nil {
			continue
		}
		if leg == retrieve.LegRerank {
			r.Rerank = c.Rerank
		}
		gold[c.Passage] = c.Gold
		scored = append(scored, r)
	}
	if s.WordsFirst {
		w = retrieve.WordsFirst
	}
	w.Order(scored)
	seen := map[string]bool{}
	var ids []string
	for _, r := range scored {
		if id := gold[r.Passage.ID]; !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// Summarize computes the metrics of legs over records.
func Summarize(set string, records []Searched, legs []retrieve.Leg, w retrieve.Weights) Report {
	report := Report{Set: set, N: len(records), Legs: map[retrieve.Leg]Metrics{}}
	for _, leg := range legs {
		var m Metrics
		var took []time.Duration
		for i := range records {
			m.add(records[i].Rank(leg, w), records[i].Gains)
			took = append(took, time.Duration(records[i].Took[leg]*float64(time.Millisecond)))
		}
		m.mean(len(records), took)
		report.Legs[leg] = m
	}
	return report
}
