package retrieve

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"ragd/embed"
	"ragd/retrieve/analysis"
)

// Reranker reads question and passage together and scores how well the passage answers; higher is better, the unit is the model's own logit.
type Reranker interface {
	Score(ctx context.Context, query string, passages []string) ([]float32, error)
}

// Config tunes a [Retriever]. Its zero value is the documented default.
type Config struct {
	Candidates int // passages asked of each leg; 0 means 100
	Rerank     int // fused candidates that the cross-encoder reads; 0 means 10: more cost time and gain nothing (docs/eval.md)
	Weights    Weights
	English    bool // embedder and cross-encoder know English alone: questions in other languages are ranked by WordsFirst
	// Follow is asked when the index refuses the embedder's vectors: it returns the embedder of the model that the corpora which f selects are made with
	// now, because a migration may have switched them while the process ran; nil: the refusal stands. nil: nothing is followed.
	Follow func(ctx context.Context, f Filter) (embed.Embedder, error)
	// Student returns the way to rank that was learned for what f selects, nil for none. It decides the hybrid leg and which candidates the
	// cross-encoder reads. nil: there are no students.
	Student func(f Filter) Student
}

// Leg names one way to rank; a [Result] can be asked for the ranking of each.
type Leg string

// The legs, from the cheapest to the most careful.
const (
	LegLexical Leg = "bm25"
	LegDense   Leg = "dense"
	LegHybrid  Leg = "hybrid"
	LegRerank  Leg = "rerank"
)

// Scored is a passage with all that is known about its rank.
type Scored struct {
	Passage Passage
	Dense   *Hit     // nil when the dense leg does not hold it
	Lexical *Hit     // nil when the lexical leg does not hold it
	Fused   float64  // fused score of both legs
	Rerank  *float32 // the cross-encoder's logit; nil when it did not read the passage
}

// Timings says where the time of one retrieval went.
type Timings struct {
	Embed, Dense, Lexical, Fetch, Rerank time.Duration
}

// Result is what one question found.
type Result struct {
	Ranked  []Scored // best first
	Weights Weights  // in force for this question
	Timings Timings
}

// Retriever answers "which passages belong to this question".
type Retriever struct {
	index    Index
	embedder atomic.Pointer[embed.Embedder] // replaced by what Config.Follow returns
	reranker Reranker
	config   Config
}

// New returns a retriever over index. reranker may be nil: then the fused order is final.
func New(index Index, embedder embed.Embedder, reranker Reranker, config Config) *Retriever {
	if config.Candidates <= 0 {
		config.Candidates = 100
	}
	if config.Rerank <= 0 {
		config.Rerank = 10
	}
	if config.Weights == (Weights{}) {
		config.Weights = DefaultWeights
	}
	r := &Retriever{index: index, reranker: reranker, config: config}
	r.embedder.Store(&embedder)
	return r
}

// Retrieve returns at most k passages for query, best first, by the most careful leg there is.
func (r *Retriever) Retrieve(ctx context.Context, query string, f Filter, k int) (Result, error) {
	if r.reranker == nil {
		return r.RetrieveLeg(ctx, LegHybrid, query, f, k)
	}
	return r.RetrieveLeg(ctx, LegRerank, query, f, k)
}

// RetrieveLeg returns at most k passages for query as leg ranks them; evaluation compares the legs with it.
func (r *Retriever) RetrieveLeg(ctx context.Context, leg Leg, query string, f Filter, k int) (Result, error) {
	var result Result
	var student Student
	if r.config.Student != nil {
		student = r.config.Student(f)
	}
	dense, lexical, err := r.legs(ctx, leg, student, query, f, max(k, r.config.Candidates), &result.Timings)
	if err != nil {
		return Result{}, err
	}
	weights, leg := r.weigh(leg, query, f)
	if weights == WordsFirst {
		student = nil
	}
	result.Weights = weights
	fused := weights.Combine(dense, lexical)
	if student != nil && (leg == LegHybrid || leg == LegRerank) {
		fused = fuseBy(student, dense, lexical, fused)
	}
	keep := k
	if leg == LegRerank {
		keep = max(k, r.config.Rerank)
	}
	started := time.Now()
	result.Ranked, err = r.fetch(ctx, fused[:min(keep, len(fused))], dense, lexical, f)
	if err != nil {
		return Result{}, err
	}
	result.Timings.Fetch = time.Since(started)
	if leg == LegRerank {
		started = time.Now()
		if err := r.rerank(ctx, query, result.Ranked); err != nil {
			return Result{}, err
		}
		result.Timings.Rerank = time.Since(started)
	}
	result.Ranked = result.Ranked[:min(k, len(result.Ranked))]
	return result, nil
}

// weigh returns the weights for a question, and the leg that ranks it: a cross-encoder that does not know the language has no say.
func (r *Retriever) weigh(leg Leg, query string, f Filter) (Weights, Leg) {
	if !r.config.English || analysis.IsEnglish(query, f.Languages) {
		return r.config.Weights, leg
	}
	if leg == LegRerank {
		leg = LegHybrid
	}
	return WordsFirst, leg
}

// Unknown returns those of words that occur nowhere in what f admits.
func (r *Retriever) Unknown(ctx context.Context, words []string, f Filter) ([]string, error) {
	var unknown []string
	for _, w := range words {
		hits, err := r.index.Lexical(ctx, w, 1, f)
		if err != nil {
			return nil, fmt.Errorf("retrieve: look up a word: %w", err)
		}
		if len(hits) == 0 {
			unknown = append(unknown, w)
		}
	}
	return unknown, nil
}

// legs asks the legs that leg is made of, both at once.
func (r *Retriever) legs(ctx context.Context, leg Leg, student Student, query string, f Filter, k int, t *Timings) (dense, lexical []Hit, err error) {
	group, ctx := errgroup.WithContext(ctx)
	if leg != LegLexical {
		group.Go(func() (err error) {
			embedder := *r.embedder.Load()
			dense, err = r.dense(ctx, embedder, student, query, k, f, t)
			if err == nil || r.config.Follow == nil || ctx.Err() != nil {
				return err
			}
			followed, failed := r.config.Follow(ctx, f)
			if failed != nil {
				return fmt.Errorf("%w; and its model cannot be opened: %w", err, failed)
			}
			if followed == nil || followed.Model() == embedder.Model() {
				return err
			}
			r.embedder.Store(&followed)
			dense, err = r.dense(ctx, followed, nil, query, k, f, t) // the student learned from the old vectors
			return err
		})
	}
	if leg != LegDense {
		group.Go(func() (err error) {
			started := time.Now()
			if lexical, err = r.index.Lexical(ctx, query, k, f); err != nil {
				return fmt.Errorf("retrieve: lexical leg: %w", err)
			}
			t.Lexical = time.Since(started)
			return nil
		})
	}
	return dense, lexical, group.Wait()
}

// dense asks the dense leg, with vectors of one model from the question to the index.
func (r *Retriever) dense(ctx context.Context, e embed.Embedder, student Student, query string, k int, f Filter, t *Timings) ([]Hit, error) {
	started := time.Now()
	vectors, err := e.Embed(ctx, embed.Query, []string{query})
	if err != nil {
		return nil, fmt.Errorf("retrieve: embed the question: %w", err)
	}
	t.Embed = time.Since(started)
	started = time.Now()
	f.Model = e.Model()
	hits, err := r.index.Dense(ctx, turn(student, vectors[0]), k, f)
	if err != nil {
		return nil, fmt.Errorf("retrieve: dense leg: %w", err)
	}
	t.Dense = time.Since(started)
	return hits, nil
}

// fetch reads the passages of hits and joins them with what each leg said.
func (r *Retriever) fetch(ctx context.Context, hits, dense, lexical []Hit, f Filter) ([]Scored, error) {
	ids := make([]PassageID, len(hits))
	for i, h := range hits {
		ids[i] = h.ID
	}
	passages, err := r.index.Passages(ctx, ids, f)
	if err != nil {
		return nil, fmt.Errorf("retrieve: read passages: %w", err)
	}
	byID := make(map[PassageID]Passage, len(passages))
	for _, p := range passages {
		byID[p.ID] = p
	}
	inDense, inLexical := hitsByID(dense), hitsByID(lexical)
	scored := make([]Scored, 0, len(hits))
	for _, h := range hits {
		// A passage deleted between the ranking and this read is simply gone.
		if p, ok := byID[h.ID]; ok {
			scored = append(scored, Scored{Passage: p, Dense: inDense[h.ID], Lexical: inLexical[h.ID], Fused: h.Score})
		}
	}
	return scored, nil
}

func hitsByID(hits []Hit) map[PassageID]*Hit {
	byID := make(map[PassageID]*Hit, len(hits))
	for i := range hits {
		byID[hits[i].ID] = &hits[i]
	}
	return byID
}

// rerank lets the cross-encoder read the first candidates and reorders them in place; the others keep their place behind.
func (r *Retriever) rerank(ctx context.Context, query string, ranked []Scored) error {
	n := min(r.config.Rerank, len(ranked))
	texts := make([]string, n)
	for i, s := range ranked[:n] {
		texts[i] = s.Passage.ForRanking()
	}
	logits, err := r.reranker.Score(ctx, query, texts)
	if err != nil {
		return fmt.Errorf("retrieve: rerank: %w", err)
	}
	for i := range n {
		ranked[i].Rerank = &logits[i]
	}
	r.config.Weights.vote(ranked) // Fused is of all candidates, not of those that were fetched
	return nil
}
