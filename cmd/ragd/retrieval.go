package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"ragd/embed"
	"ragd/eval"
	"ragd/ingest"
	"ragd/retrieve"
)

type evalRetrievalCmd struct {
	Dir   string   `arg:"" help:"Folder with corpus.jsonl, queries.jsonl and qrels.tsv." type:"existingdir"`
	Legs  []string `help:"Legs to measure." default:"bm25,dense,hybrid,rerank" enum:"bm25,dense,hybrid,rerank"`
	Docs  bool     `help:"Ingest the documents in DIR/docs instead of corpus.jsonl; a passage counts for FILE#page=N of the page on which it starts."`
	Out   string   `help:"Keep every question's candidates with their scores in this file; a second run with it asks only what is missing." type:"path"`
	Limit int      `help:"Ask only so many questions: a fixed random sample. 0: all."`
	Depth int      `help:"Candidates that the cross-encoder reads. 0: as many as in use."`
	JSON  bool     `help:"Print one JSON object." name:"json"`
}

// Help is shown by ragd eval retrieval --help.
func (evalRetrievalCmd) Help() string {
	return `The set goes through ragd's own store into a scratch corpus (kept, so that a second run does not embed again), then every question that has a
right passage is asked of each leg. nDCG has linear gains. With --legs bm25 alone nothing is embedded.

  ragd eval retrieval sets/handbook
  ragd eval retrieval sets/handbook --docs --legs hybrid,rerank --json
  ragd eval retrieval sets/handbook --legs bm25
  ragd eval retrieval sets/handbook --out handbook.jsonl && ragd eval compare yesterday.jsonl handbook.jsonl`
}

func (k evalRetrievalCmd) Run(ctx ctxBinding, a *app) error {
	set, err := eval.Load(k.Dir)
	if err != nil {
		return err
	}
	corpus, gold, err := k.index(ctx, a, set)
	if err != nil {
		return err
	}
	run := eval.RetrievalRun{Corpus: corpus, Gold: gold, Leg: careful(k.Legs)}
	if run.Searcher, err = a.retrieverWith(ctx, retrieve.Config{Rerank: k.Depth}); err != nil {
		return err
	}
	if hasHistory(set) {
		answerer, err := a.openAnswerer(ctx)
		if err != nil {
			return err
		}
		run.Rewriter = rewriting{answerer}
	}
	out, err := k.open(set, corpus, run.Leg)
	if err != nil {
		return err
	}
	defer out.Close()
	questions := set.Shuffled()
	if k.Limit > 0 {
		questions = withGold(set, questions)[:min(k.Limit, len(set.Gains))]
	}
	bar := a.progress.bar("asking", items)
	run.Progress = func(done, total int) { bar.set(int64(done), int64(total)) }
	err = run.Run(ctx, set, questions, out)
	bar.done()
	if err != nil {
		return err
	}
	report := eval.Summarize(set.Name, out.Records, legs(k.Legs), retrieve.DefaultWeights)
	if k.JSON {
		return json.NewEncoder(os.Stdout).Encode(report)
	}
	printLegs(report, k.Legs)
	return nil
}

// open opens the file of results; one that nobody asked for is thrown away.
func (k evalRetrievalCmd) open(set *eval.Dataset, corpus string, leg retrieve.Leg) (*eval.Results[eval.Searched], error) {
	path := k.Out
	if path == "" {
		dir, err := os.MkdirTemp("", "ragd-eval-")
		if err != nil {
			return nil, fmt.Errorf("eval: a place for results: %w", err)
		}
		defer os.RemoveAll(dir) // the open file lives on
		path = filepath.Join(dir, "results.jsonl")
	}
	return eval.OpenResults[eval.Searched](path, eval.Header{Kind: "retrieval", Set: set.Name,
		Settings: map[string]string{"corpus": corpus, "leg": string(leg), "depth": strconv.Itoa(k.Depth)}})
}

// careful returns the one of legs that asks most of the models; it holds what the others say.
func careful(names []string) retrieve.Leg {
	asked := map[retrieve.Leg]bool{}
	for _, l := range legs(names) {
		asked[l] = true
	}
	switch {
	case asked[retrieve.LegRerank]:
		return retrieve.LegRerank
	case asked[retrieve.LegHybrid], asked[retrieve.LegDense] && asked[retrieve.LegLexical]:
		return retrieve.LegHybrid
	case asked[retrieve.LegDense]:
		return retrieve.LegDense
	}
	return retrieve.LegLexical
}

// withGold returns the questions that have a right passage.
func withGold(set *eval.Dataset, questions []eval.Query) []eval.Query {
	var all []eval.Query
	for _, q := range questions {
		if len(set.Gains[q.ID]) > 0 {
			all = append(all, q)
		}
	}
	return all
}

// wordsOnly stands for an embedder where only the lexical leg is asked: passages are cut as the model wants them, but nothing is computed.
type wordsOnly struct{ embed.Embedder }

func (wordsOnly) Model() string { return "none" }
func (wordsOnly) Dim() int      { return 1 }
func (wordsOnly) Embed(_ context.Context, _ embed.Role, texts []string) ([]embed.Vector, error) {
	vectors := make([]embed.Vector, len(texts))
	for i := range vectors {
		vectors[i] = embed.Vector{1}
	}
	return vectors, nil
}

// index makes the set searchable and says how its passages are known to the qrels.
func (k evalRetrievalCmd) index(ctx context.Context, a *app, set *eval.Dataset) (corpus string, gold eval.GoldID, err error) {
	pipeline, err := a.openPipeline(ctx)
	if err != nil {
		return "", nil, err
	}
	if k.Docs {
		corpus = scratchName(set, "docs", pipeline)
		bar := a.progress.bar("ingesting "+set.Name+"/docs", items)
		report, err := pipeline.Run(ctx, eval.Tenant, corpus, []string{filepath.Join(k.Dir, "docs")}, func(p ingest.Progress) {
			bar.set(int64(p.Documents+p.Unchanged+p.Failed), int64(p.DocumentsKnown))
		})
		bar.done()
		for _, f := range report.Failed {
			a.progress.step("  failed %s: %s", f.Path, f.Reason)
		}
		return corpus, byPage, err
	}
	if len(k.Legs) > 0 && careful(k.Legs) == retrieve.LegLexical {
		pipeline.Embedder = wordsOnly{pipeline.Embedder}
	}
	corpus = scratchName(set, "corpus", pipeline)
	bar := a.progress.bar("indexing "+set.Name, items)
	x := eval.Indexer{Store: pipeline.Store, Splitter: pipeline.Splitter, Embedder: pipeline.Embedder, Progress: func(done, total int) { bar.set(int64(done), int64(total)) }}
	err = x.Index(ctx, set, corpus)
	bar.done()
	return corpus, eval.ByPath, err
}
