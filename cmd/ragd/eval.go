package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"ragd/answer"
	"ragd/eval"
	"ragd/ingest"
	"ragd/retrieve"
)

type evalCmd struct {
	Retrieval evalRetrievalCmd `cmd:"" help:"Recall, nDCG and MRR of each leg on a set of questions with known passages."`
}

type evalRetrievalCmd struct {
	Dir  string   `arg:"" help:"Folder with corpus.jsonl, queries.jsonl and qrels.tsv." type:"existingdir"`
	Legs []string `help:"Legs to measure." default:"bm25,dense,hybrid,rerank" enum:"bm25,dense,hybrid,rerank"`
	Docs bool     `help:"Ingest the documents in DIR/docs instead of corpus.jsonl; a passage counts for FILE#page=N of the page on which it starts."`
	JSON bool     `help:"Print one JSON object." name:"json"`
}

// Help is shown by ragd eval retrieval --help.
func (evalRetrievalCmd) Help() string {
	return `The set goes through ragd's own store into a scratch corpus (kept, so that a second run does not embed again), then every question that has a
right passage is asked of each leg. nDCG has linear gains.

  ragd eval retrieval sets/handbook
  ragd eval retrieval sets/handbook --docs --legs hybrid,rerank --json`
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
	retriever, err := a.openRetriever(ctx)
	if err != nil {
		return err
	}
	var rewriter eval.Rewriter
	if hasHistory(set) {
		answerer, err := a.openAnswerer(ctx)
		if err != nil {
			return err
		}
		rewriter = rewriting{answerer}
	}
	bar := a.progress.bar("asking", items)
	report, err := eval.Retrieval(ctx, set, retriever, rewriter, corpus, gold, legs(k.Legs), func(done, total int) { bar.set(int64(done), int64(total)) })
	bar.done()
	if err != nil {
		return err
	}
	if k.JSON {
		return json.NewEncoder(os.Stdout).Encode(report)
	}
	printLegs(report, k.Legs)
	return nil
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
	corpus = scratchName(set, "corpus", pipeline)
	bar := a.progress.bar("indexing "+set.Name, items)
	x := eval.Indexer{Store: pipeline.Store, Splitter: pipeline.Splitter, Embedder: pipeline.Embedder, Progress: func(done, total int) { bar.set(int64(done), int64(total)) }}
	err = x.Index(ctx, set, corpus)
	bar.done()
	return corpus, eval.ByPath, err
}

// byPage is eval.ByPage for documents that were ingested from a folder named docs.
func byPage(p *retrieve.Passage) string {
	named := *p
	named.Path = strings.TrimPrefix(p.Path, "docs/")
	return eval.ByPage(&named)
}

// scratchName names the corpus of a set after all that decides what is in it, so that another model or another set with the same name gets its own.
func scratchName(set *eval.Dataset, kind string, p *ingest.Pipeline) string {
	h := sha256.New()
	fmt.Fprintln(h, kind, p.Embedder.Model(), p.Splitter.Fingerprint())
	for _, passage := range set.Corpus {
		fmt.Fprintf(h, "%q %q %q\n", passage.ID, passage.Title, passage.Text)
	}
	return fmt.Sprintf("%s-%s-%s", set.Name, kind, hex.EncodeToString(h.Sum(nil))[:12])
}

func hasHistory(set *eval.Dataset) bool {
	for _, q := range set.Queries {
		if len(q.History) > 0 {
			return true
		}
	}
	return false
}

// rewriting makes the answerer's rewriting known to eval.
type rewriting struct{ *answer.Answerer }

func (r rewriting) Rewrite(ctx context.Context, question string, history []eval.Turn) (string, error) {
	var turns []answer.Turn
	for _, m := range history {
		if m.Role == "user" || len(turns) == 0 {
			turns = append(turns, answer.Turn{})
		}
		if last := &turns[len(turns)-1]; m.Role == "user" {
			last.Question = m.Text
		} else {
			last.Answer = m.Text
		}
	}
	return r.Answerer.Rewrite(ctx, question, turns, eval.Tenant)
}

func legs(names []string) []retrieve.Leg {
	all := make([]retrieve.Leg, len(names))
	for i, n := range names {
		all[i] = retrieve.Leg(n)
	}
	return all
}

func printLegs(r eval.Report, names []string) {
	fmt.Printf("%s, %d questions\n%-8s %8s %8s %10s %11s %12s %8s %8s\n", r.Set, r.N, "leg", "nDCG@10", "MRR@10", "recall@10", "recall@100", "all gold@10", "p50 ms", "p95 ms")
	for _, name := range names {
		m := r.Legs[retrieve.Leg(name)]
		fmt.Printf("%-8s %8.4f %8.4f %10.4f %11.4f %12.4f %8.1f %8.1f\n", name, m.NDCG10, m.MRR10, m.Recall10, m.Recall100, m.AllGold10, m.P50, m.P95)
	}
}
