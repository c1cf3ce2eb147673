package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"ragd/bench"
	"ragd/embed"
	"ragd/eval"
	"ragd/ingest"
	"ragd/retrieve"
	"ragd/store"
)

type evalLatencyCmd struct {
	Passages  []int `help:"Sizes of the corpora that are made." default:"10000,100000"`
	Questions int   `help:"Questions of each measurement." default:"100"`
	Load      bool  `help:"Only load the corpora; the next run without it measures them, on a machine that is quiet again."`
}

// Help is shown by ragd eval latency --help.
func (evalLatencyCmd) Help() string {
	return `Makes corpora of text whose words are as unevenly common as those of a language, with vectors around random topics, and asks each leg of the index:
p50 and p95 in milliseconds of 100 passages. The nearest vectors are looked for exactly first, then, above 20,000, with the HNSW index that is built then; the
recall is the share of the exact ten that it finds. No model is asked. A million passages take about 5 GB of disk, and most of an hour on two cores.

  ragd eval latency
  ragd eval latency --passages 1000000 --load && ragd eval latency --passages 1000000`
}

func (k evalLatencyCmd) Run(ctx ctxBinding, a *app) error {
	db, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "passages\tloaded in s\tindex in s\tbm25 p50\tp95\texact p50\tp95\thnsw p50\tp95\trecall@10\tfetch p50\tp95\t")
	for _, n := range k.Passages {
		if err := errors.Join(k.measure(ctx, a, db, n, table), table.Flush()); err != nil {
			return err
		}
	}
	return nil
}

// syntheticDim is the dimension of the default embedding model.
const syntheticDim = 384

// synthetic makes passages, questions and vectors; the same ones for a size.
type synthetic struct {
	rng    *rand.Rand
	topics []embed.Vector
}

func newSynthetic(n int) *synthetic {
	s := &synthetic{rng: rand.New(rand.NewPCG(uint64(n), 11))}
	for range max(20, n/500) {
		s.topics = append(s.topics, s.near(nil, 1))
	}
	return s
}

// near is a unit vector, as far from centre as spread says.
func (s *synthetic) near(centre embed.Vector, spread float64) embed.Vector {
	v, length := make(embed.Vector, syntheticDim), 0.0
	for i := range v {
		x := spread * s.rng.NormFloat64() / math.Sqrt(syntheticDim)
		if centre != nil {
			x += float64(centre[i])
		}
		v[i] = float32(x)
		length += x * x
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(length))
	}
	return v
}

func (s *synthetic) vector() embed.Vector { return s.near(s.topics[s.rng.IntN(len(s.topics))], 0.8) }

// perDocument is how many passages a document has.
const perDocument = 200

// document makes the passages [from, from+perDocument) of n.
func (s *synthetic) document(from, n int) (d *ingest.Document, passages []ingest.Passage, seqs []int, vectors []embed.Vector) {
	d = &ingest.Document{Kind: "txt", Language: "en"}
	for i := range min(perDocument, n-from) {
		text := prose(s.rng, 600)
		passages = append(passages, ingest.Passage{Text: text, Start: len(d.Text), End: len(d.Text) + len(text), Page: 1})
		d.Text += text
		seqs, vectors = append(seqs, i), append(vectors, s.vector())
	}
	d.Pages, d.Blocks = []ingest.Page{{End: len(d.Text)}}, []ingest.Block{{Kind: ingest.Paragraph, End: len(d.Text)}}
	return d, passages, seqs, vectors
}

// load makes n passages live in corpus; what a run before has loaded stays.
func (s *synthetic) load(ctx context.Context, db *store.Store, corpus string, n int, progress func(done int)) error {
	index := ingest.Index{Model: fmt.Sprintf("random (%d)", n), Dim: syntheticDim, Splitter: "synthetic"}
	have, err := db.Corpora(ctx, eval.Tenant, corpus)
	if err != nil {
		return err
	}
	for done := 0; done < n; done += perDocument {
		if len(have) > 0 && int64(done) < have[0].Passages {
			s.document(done, n) // so that what follows is the same
			continue
		}
		content := fmt.Sprintf("%s %d", corpus, done)
		if _, _, err := db.Receive(ctx, ingest.Candidate{Source: ingest.Source{Tenant: eval.Tenant, Corpus: corpus, Path: fmt.Sprint(done)},
			SHA256: sha256.Sum256([]byte(content)), Size: int64(len(content)), Index: index}, strings.NewReader(content)); err != nil {
			return err
		}
		job, err := db.Claim(ctx, eval.Tenant, corpus, index, time.Hour)
		if err != nil || job == nil {
			return err
		}
		d, passages, seqs, vectors := s.document(done, n)
		if err := db.SaveDocument(ctx, job, d); err != nil {
			return err
		}
		if err := db.SavePassages(ctx, job, passages); err != nil {
			return err
		}
		if err := db.SaveVectors(ctx, job, seqs, vectors); err != nil {
			return err
		}
		if err := db.Publish(ctx, job); err != nil {
			return err
		}
		progress(min(n, done+perDocument))
	}
	return nil
}

// measure makes a corpus of n passages, asks it and writes a row.
func (k evalLatencyCmd) measure(ctx context.Context, a *app, db *store.Store, n int, table *tabwriter.Writer) error {
	corpus, s := fmt.Sprintf("latency-%d", n), newSynthetic(n)
	began, bar := time.Now(), a.progress.bar("loading "+corpus, items)
	err := s.load(ctx, db, corpus, n, func(done int) { bar.set(int64(done), int64(n)) })
	bar.done()
	loaded := time.Since(began)
	if err != nil || k.Load {
		return err
	}
	defer db.DeleteCorpus(context.WithoutCancel(ctx), eval.Tenant, corpus)
	questions, vectors := make([]string, k.Questions), make([]embed.Vector, k.Questions)
	for i := range questions {
		questions[i], vectors[i] = strings.Join(strings.Fields(prose(s.rng, 60))[:8], " "), s.vector()
	}
	f := retrieve.Filter{Tenant: eval.Tenant, Corpora: []string{corpus}}
	var found [][]retrieve.Hit
	lexical, _, err := timed(questions, func(q string) ([]retrieve.Hit, error) { return db.Lexical(ctx, q, 100, f) })
	if err != nil {
		return err
	}
	exact, found, err := timed(vectors, func(v embed.Vector) ([]retrieve.Hit, error) { return db.Dense(ctx, v, 100, f) })
	if err != nil {
		return err
	}
	fetch, _, err := timed(found, func(hits []retrieve.Hit) ([]retrieve.Hit, error) {
		ids := make([]retrieve.PassageID, 0, 20)
		for _, h := range hits[:min(20, len(hits))] {
			ids = append(ids, h.ID)
		}
		_, err := db.Passages(ctx, ids, f)
		return nil, err
	})
	if err != nil {
		return err
	}
	began = time.Now()
	if err := db.Maintain(ctx, store.Retention{}); err != nil {
		return err
	}
	built := time.Since(began)
	graph, near, err := timed(vectors, func(v embed.Vector) ([]retrieve.Hit, error) { return db.Dense(ctx, v, 100, f) })
	if err != nil {
		return err
	}
	fmt.Fprintf(table, "%d\t%.0f\t%.0f\t%s\t%s\t%s\t%.3f\t%s\t\n", n, loaded.Seconds(), built.Seconds(), spread(lexical), spread(exact), spread(graph), overlap(found, near), spread(fetch))
	return nil
}

// timed asks each question and returns the milliseconds and the answers.
func timed[Q any](questions []Q, ask func(Q) ([]retrieve.Hit, error)) (ms []float64, answers [][]retrieve.Hit, err error) {
	for _, q := range questions {
		began := time.Now()
		hits, err := ask(q)
		if err != nil {
			return nil, nil, err
		}
		ms = append(ms, float64(time.Since(began).Microseconds())/1000)
		answers = append(answers, hits)
	}
	return ms, answers, nil
}

func spread(ms []float64) string {
	return fmt.Sprintf("%.1f\t%.1f", bench.Percentile(ms, 0.5), bench.Percentile(ms, 0.95))
}

// overlap is the share of the first ten of each of want that got has among its first ten.
func overlap(want, got [][]retrieve.Hit) float64 {
	same, all := 0, 0
	for i := range want {
		in := map[retrieve.PassageID]bool{}
		for _, h := range got[i][:min(10, len(got[i]))] {
			in[h.ID] = true
		}
		for _, h := range want[i][:min(10, len(want[i]))] {
			all++
			if in[h.ID] {
				same++
			}
		}
	}
	return float64(same) / float64(max(1, all))
}
