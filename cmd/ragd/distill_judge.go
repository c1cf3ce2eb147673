package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"ragd/eval"
	"ragd/llm/distill"
	"ragd/retrieve"
)

// memo remembers the scores of pairs, so that rankings which read the same passages pay once, and keeps them on disk, so that an interrupted run goes on.
type memo struct {
	reranker
	scores map[string]judgement
	file   *eval.Results[judgement]
	spent  time.Duration // what the pairs asked for since it was set to 0 take, remembered or not
}

type reranker interface {
	retrieve.Reranker
	Model() string
}

// judgement is the score of a pair, which a digest stands for: no text is kept.
type judgement struct {
	Pair  string        `json:"pair"`
	Logit float32       `json:"logit"`
	Took  time.Duration `json:"ns"`
}

// openMemo takes up what is in dir.
func openMemo(dir string, r retrieve.Reranker) (*memo, error) {
	m := &memo{reranker: r.(reranker), scores: map[string]judgement{}}
	var err error
	m.file, err = eval.OpenResults[judgement](filepath.Join(dir, digest(m.Model())+".jsonl"), eval.Header{Kind: "judgements", Settings: map[string]string{"teacher": m.Model()}})
	if err != nil {
		return nil, err
	}
	for _, j := range m.file.Records {
		m.scores[j.Pair] = j
	}
	return m, nil
}

func (m *memo) close() { m.file.Close() }

// Score implements retrieve.Reranker.
func (m *memo) Score(ctx context.Context, query string, passages []string) ([]float32, error) {
	var unknown, pairs []string
	for _, p := range passages {
		if pair := digest(query, p); m.scores[pair].Pair == "" {
			unknown, pairs = append(unknown, p), append(pairs, pair)
		}
	}
	started := time.Now()
	logits, err := m.reranker.Score(ctx, query, unknown)
	if err != nil {
		return nil, err
	}
	for i, pair := range pairs {
		j := judgement{pair, logits[i], time.Since(started) / time.Duration(len(pairs))}
		if err := m.file.Add(j); err != nil {
			return nil, err
		}
		m.scores[pair] = j
	}
	all := make([]float32, len(passages))
	for i, p := range passages {
		j := m.scores[digest(query, p)]
		all[i], m.spent = j.Logit, m.spent+j.Took
	}
	return all, nil
}

// way is one way to rank held-out questions.
type way struct {
	Name    string       `json:"name"`
	NDCG    float64      `json:"ndcg@10"`
	Recall  float64      `json:"recall@10"`
	MS      float64      `json:"ms"` // mean per question
	Against string       `json:"against,omitempty"`
	Gain    distill.Gain `json:"gain"`

	leg     retrieve.Leg
	student bool
	reread  int
	each    []float64 // nDCG@10 by question
}

// judgedRun is what the held-out questions say.
type judgedRun struct {
	Questions string `json:"questions"`
	Training  int    `json:"training"`
	Heldout   int    `json:"heldout"`
	Ways      []way  `json:"ways"`
	Pass      bool   `json:"pass"`
	Verdict   string `json:"verdict"`
}

// few is how many passages the cross-encoder reads when the student has chosen them: does it need fewer?
const few = 8

// judge ranks the held-out questions in every way, with and without the student.
func (r *rankingRun) judge(ctx context.Context, student *distill.Ranker, heldout []asked) (*judgedRun, error) {
	j := &judgedRun{Questions: r.set, Heldout: len(heldout), Ways: []way{
		{Name: "dense", leg: retrieve.LegDense}, {Name: "dense, student", leg: retrieve.LegDense, student: true, Against: "dense"},
		{Name: "hybrid", leg: retrieve.LegHybrid}, {Name: "hybrid, student", leg: retrieve.LegHybrid, student: true, Against: "hybrid"},
		{Name: "8 reread", leg: retrieve.LegRerank, reread: few}, {Name: "8 reread, student", leg: retrieve.LegRerank, student: true, reread: few, Against: "8 reread"},
		{Name: "20 reread", leg: retrieve.LegRerank}, {Name: "20 reread, student", leg: retrieve.LegRerank, student: true, Against: "20 reread"},
	}}
	choose := func(retrieve.Filter) retrieve.Student { return student }
	bar := r.app.progress.bar("judging", items)
	defer bar.done()
	for i, q := range heldout {
		rankings := make([][]string, len(j.Ways))
		for w := range j.Ways {
			config := retrieve.Config{Rerank: j.Ways[w].reread}
			if j.Ways[w].student {
				config.Student = choose
			}
			ranked, took, err := r.rank(ctx, config, j.Ways[w].leg, q)
			if err != nil {
				return nil, err
			}
			rankings[w], j.Ways[w].MS = ranked, j.Ways[w].MS+took.Seconds()*1000/float64(len(heldout))
		}
		gains, err := r.gains(ctx, q, rankings)
		if err != nil {
			return nil, err
		}
		for w := range j.Ways {
			way := &j.Ways[w]
			ndcg := eval.NDCG(rankings[w], gains, 10)
			way.each = append(way.each, ndcg)
			way.NDCG += ndcg / float64(len(heldout))
			way.Recall += eval.Recall(rankings[w], gains, 10) / float64(len(heldout))
		}
		bar.set(int64(i+1), int64(len(heldout)))
	}
	j.compare(r.command.Seed)
	return j, nil
}

// rank returns the gold ids in the order of one way, and how long a question takes that way.
func (r *rankingRun) rank(ctx context.Context, config retrieve.Config, leg retrieve.Leg, q asked) ([]string, time.Duration, error) {
	r.reranker.spent = 0
	result, err := retrieve.New(r.db, r.embedder, r.reranker, config).RetrieveLeg(ctx, leg, q.Text, r.filter(q), 20)
	if err != nil {
		return nil, 0, err
	}
	t := result.Timings
	seen := map[string]bool{}
	var ids []string
	for i := range result.Ranked {
		if id := r.gold(&result.Ranked[i].Passage); !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, t.Embed + max(t.Dense, t.Lexical) + t.Fetch + r.reranker.spent, nil
}

// gains returns what is right for q. Where nobody said, it is the cross-encoder's probability, of all passages that any way put among the first ten.
func (r *rankingRun) gains(ctx context.Context, q asked, rankings [][]string) (map[string]float64, error) {
	if q.Gains != nil {
		return q.Gains, nil
	}
	pool := map[string]bool{}
	var ids []retrieve.PassageID
	for _, ranking := range rankings {
		for _, id := range ranking[:min(len(ranking), 10)] {
			var passage retrieve.PassageID
			if _, err := fmt.Sscan(id, &passage); err == nil && !pool[id] {
				pool[id] = true
				ids = append(ids, passage)
			}
		}
	}
	passages, err := r.db.Passages(ctx, ids, r.filter(q))
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(passages))
	for i := range passages {
		texts[i] = passages[i].ForRanking()
	}
	logits, err := r.reranker.Score(ctx, q.Text, texts)
	if err != nil {
		return nil, err
	}
	gains := map[string]float64{}
	for i := range passages {
		gains[goldPassage(&passages[i])] = 1 / (1 + math.Exp(-float64(logits[i])))
	}
	return gains, nil
}

// tolerance is how much nDCG the ranking with the cross-encoder may lose at the lower end of the interval.
const tolerance = 0.01

// compare computes the gains and the verdict.
func (j *judgedRun) compare(seed uint64) {
	by := map[string]*way{}
	for i := range j.Ways {
		by[j.Ways[i].Name] = &j.Ways[i]
	}
	for i := range j.Ways {
		if w := &j.Ways[i]; w.Against != "" {
			w.Gain = distill.Compare(by[w.Against].each, w.each, seed)
		}
	}
	hybrid, reread := by["hybrid, student"].Gain, by["20 reread, student"].Gain
	j.Pass = hybrid.Low > 0 && reread.Low > -tolerance
	switch {
	case j.Pass:
		j.Verdict = fmt.Sprintf("gains %+.4f nDCG@10 [%+.4f, %+.4f] without the cross-encoder and %+.4f [%+.4f, %+.4f] with it, on %d held-out questions",
			hybrid.Mean, hybrid.Low, hybrid.High, reread.Mean, reread.Low, reread.High, j.Heldout)
	case hybrid.Low <= 0:
		j.Verdict = fmt.Sprintf("no gain: %+.4f nDCG@10 [%+.4f, %+.4f] on %d held-out questions; the lower end must be above 0", hybrid.Mean, hybrid.Low, hybrid.High, j.Heldout)
	default:
		j.Verdict = fmt.Sprintf("with the cross-encoder it may lose: %+.4f nDCG@10 [%+.4f, %+.4f] on %d held-out questions; the lower end must be above %.2f",
			reread.Mean, reread.Low, reread.High, j.Heldout, -tolerance)
	}
}

func (j *judgedRun) print() {
	fmt.Printf("%d held-out questions\n%-20s %8s %10s %9s   %s\n", j.Heldout, "ranking", "nDCG@10", "recall@10", "ms", "gain of the student, 95% interval")
	for _, w := range j.Ways {
		fmt.Printf("%-20s %8.4f %10.4f %9.1f", w.Name, w.NDCG, w.Recall, w.MS)
		if w.Against != "" {
			fmt.Printf("   %+.4f [%+.4f, %+.4f]", w.Gain.Mean, w.Gain.Low, w.Gain.High)
		}
		fmt.Println()
	}
}

// keep writes the student's folder and puts it in force if asked to and deserved.
func (r *rankingRun) keep(student *distill.Ranker, j *judgedRun, curves []distill.Curve) error {
	weights, err := student.Marshal()
	if err != nil {
		return err
	}
	about, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	k := r.command
	e := distill.Entry{
		ID:   "retrieval-" + digest(r.tenant, r.corpus, r.embedder.Model(), r.reranker.Model(), r.set, k.Limit, k.Candidates, k.Rank, k.Temperature, k.Seed),
		Slot: rankingSlot(r.embedder.Model(), r.tenant, r.corpus), Gain: j.Verdict, Pass: j.Pass,
	}
	err = r.app.students().Add(e, map[string][]byte{
		rankerFile: weights, "report.json": append(about, '\n'),
		"curve.svg": []byte(distill.SVG("divergence from the cross-encoder while training", "nats per question", curves...)),
	})
	if err != nil {
		return err
	}
	fmt.Printf("\n%s: %s\n", e.ID, e.Gain)
	if !j.Pass || !k.Install {
		return nil
	}
	return r.app.install(e)
}
