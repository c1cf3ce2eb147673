package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

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
	Load      bool  `help:"Only load the corpus; the next run without it measures it, on a machine that is quiet again."`
}

// Help is shown by ragd eval latency --help.
func (evalLatencyCmd) Help() string {
	return `Makes corpora of text whose words are as unevenly common as those of a language, with vectors around random topics, and asks each leg of the index:
p50 and p95 in milliseconds of 100 passages. Each question is asked three times, and its quickest time counts. The nearest vectors are looked for exactly
first, then, above 20,000, with the HNSW index that is built then; the recall is the share of the exact ten that it finds. No model is asked. A million
passages take some 5 GB of disk and a core about 12 minutes to load, and about as long again for the HNSW index.

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

// synthetic makes a corpus of n passages and questions about it; the same ones for a size.
type synthetic struct {
	n      int
	topics []embed.Vector
}

// Streams of random numbers: the topics, the questions, and from documentStream on one for each document, so that they can be made in any order.
const (
	topicStream = iota
	questionStream
	documentStream
)

func newSynthetic(n int) *synthetic {
	s := &synthetic{n: n}
	rng := s.random(topicStream)
	for range max(20, n/500) {
		s.topics = append(s.topics, near(rng, nil, 1))
	}
	return s
}

func (s *synthetic) random(stream int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(s.n), uint64(stream)))
}

// near is a unit vector, as far from centre as spread says.
func near(rng *rand.Rand, centre embed.Vector, spread float64) embed.Vector {
	v, length := make(embed.Vector, syntheticDim), 0.0
	for i := range v {
		x := spread * rng.NormFloat64() / math.Sqrt(syntheticDim)
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

func (s *synthetic) vector(rng *rand.Rand) embed.Vector {
	return near(rng, s.topics[rng.IntN(len(s.topics))], 0.8)
}

// question is eight words and a vector.
func (s *synthetic) question(rng *rand.Rand) (string, embed.Vector) {
	return strings.Join(strings.Fields(prose(rng, 60))[:8], " "), s.vector(rng)
}

// latencyPrefix begins the names of the corpora.
const latencyPrefix = "latency-"

// perDocument is how many passages a document has.
const perDocument = 200

// document makes the passages [from, from+perDocument).
func (s *synthetic) document(from int) (d *ingest.Document, passages []ingest.Passage, seqs []int, vectors []embed.Vector) {
	rng := s.random(documentStream + from/perDocument)
	d = &ingest.Document{Kind: "txt", Language: "en"}
	for i := range min(perDocument, s.n-from) {
		text := prose(rng, 600)
		passages = append(passages, ingest.Passage{Text: text, Start: len(d.Text), End: len(d.Text) + len(text), Page: 1})
		d.Text += text
		seqs, vectors = append(seqs, i), append(vectors, s.vector(rng))
	}
	d.Pages, d.Blocks = []ingest.Page{{End: len(d.Text)}}, []ingest.Block{{Kind: ingest.Paragraph, End: len(d.Text)}}
	return d, passages, seqs, vectors
}

// load makes the passages live in corpus, unless a run before has; what that has not brought to its end is loaded anew.
func (s *synthetic) load(ctx context.Context, db *store.Store, corpus string, progress func(done int)) error {
	all, err := db.Corpora(ctx, eval.Tenant)
	if err != nil {
		return err
	}
	var have *store.Corpus
	for i, c := range all {
		if size, ours := strings.CutPrefix(c.Name, latencyPrefix); c.Name == corpus {
			have = &all[i]
		} else if ours { // the HNSW indexes of all corpora are built at once
			return fmt.Errorf("the corpus %s is loaded, and each is measured alone: measure it first with 'ragd eval latency --passages %s', which deletes it", c.Name, size)
		}
	}
	if have != nil {
		if have.Passages == int64(s.n) {
			progress(s.n)
			return nil
		}
		if err := db.DeleteCorpus(ctx, eval.Tenant, corpus); err != nil {
			return err
		}
	}
	// Many documents at a time: those that wait to be published go into one transaction, in which a posting block is written once for all of them.
	const together = 128
	group, unlessFailed := errgroup.WithContext(ctx)
	group.SetLimit(together)
	var done atomic.Int64
	for from := 0; from < s.n && unlessFailed.Err() == nil; from += perDocument {
		group.Go(func() error {
			passages, err := s.ingest(unlessFailed, db, corpus, from)
			progress(int(done.Add(int64(passages))))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// ingest receives the document that begins with passage from, and makes one that was received live; it returns how many passages that has.
func (s *synthetic) ingest(ctx context.Context, db *store.Store, corpus string, from int) (int, error) {
	index := ingest.Index{Model: fmt.Sprintf("random (%d)", s.n), Dim: syntheticDim, Splitter: "synthetic"}
	content := fmt.Sprintf("%s %d", corpus, from)
	if _, _, err := db.Receive(ctx, ingest.Candidate{Source: ingest.Source{Tenant: eval.Tenant, Corpus: corpus, Path: strconv.Itoa(from)},
		SHA256: sha256.Sum256([]byte(content)), Size: int64(len(content)), Index: index}, strings.NewReader(content)); err != nil {
		return 0, err
	}
	job, err := db.Claim(ctx, eval.Tenant, corpus, index, time.Hour)
	if err != nil {
		return 0, err
	}
	if job == nil {
		return 0, fmt.Errorf("another process works on the corpus %s: wait until it has ended, or delete the corpus", corpus)
	}
	if from, err = strconv.Atoi(job.Path); err != nil {
		return 0, fmt.Errorf("the corpus %s has a document %q that is not of its making: delete the corpus", corpus, job.Path)
	}
	d, passages, seqs, vectors := s.document(from)
	if err := db.SaveDocument(ctx, job, d); err != nil {
		return 0, err
	}
	if err := db.SavePassages(ctx, job, passages); err != nil {
		return 0, err
	}
	if err := db.SaveVectors(ctx, job, seqs, vectors); err != nil {
		return 0, err
	}
	return len(passages), db.Publish(ctx, job)
}

// measure makes a corpus of n passages, asks it and writes a row.
func (k evalLatencyCmd) measure(ctx context.Context, a *app, db *store.Store, n int, table *tabwriter.Writer) error {
	corpus, s := fmt.Sprintf("%s%d", latencyPrefix, n), newSynthetic(n)
	began, bar := time.Now(), a.progress.bar("loading "+corpus, items)
	err := s.load(ctx, db, corpus, func(done int) { bar.set(int64(done), int64(n)) })
	bar.done()
	loaded := time.Since(began)
	if err != nil || k.Load {
		return err
	}
	defer db.DeleteCorpus(context.WithoutCancel(ctx), eval.Tenant, corpus)
	questions, vectors := make([]string, k.Questions), make([]embed.Vector, k.Questions)
	rng := s.random(questionStream)
	for i := range questions {
		questions[i], vectors[i] = s.question(rng)
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

// rounds is how often each question is asked. The quickest time counts: what is left is how hard the questions are, not what else the machine did.
const rounds = 3

// timed asks each question and returns its milliseconds and the answers.
func timed[Q any](questions []Q, ask func(Q) ([]retrieve.Hit, error)) (ms []float64, answers [][]retrieve.Hit, err error) {
	ms, answers = make([]float64, len(questions)), make([][]retrieve.Hit, len(questions))
	for round := range rounds {
		for i, q := range questions {
			began := time.Now()
			if answers[i], err = ask(q); err != nil {
				return nil, nil, err
			}
			took := float64(time.Since(began).Microseconds()) / 1000
			if round == 0 || took < ms[i] {
				ms[i] = took
			}
		}
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
