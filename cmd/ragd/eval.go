package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"ragd/answer"
	"ragd/eval"
	"ragd/ingest"
	"ragd/retrieve"
)

type evalCmd struct {
	Retrieval evalRetrievalCmd `cmd:"" help:"Recall, nDCG and MRR of each leg on a set of questions with known passages."`
	Run       evalRunCmd       `cmd:"" help:"Answer the questions of a set and judge answers, citations and refusals."`
	Compare   evalCompareCmd   `cmd:"" help:"Compare two runs question by question, with significance."`
	Gate      evalGateCmd      `cmd:"" help:"Fail when a run is worse than it must be."`
	Report    evalReportCmd    `cmd:"" help:"Summarise a run; as a page with plots and every question, where people label statements."`
	Make      evalMakeCmd      `cmd:"" help:"Draft a set of questions over your own documents, for review."`
	Vary      evalVaryCmd      `cmd:"" help:"Put the questions of a set differently: other words, a misspelt word, passages in another order or among others."`
	Judge     evalJudgeCmd     `cmd:"" help:"Let the model say which of two runs answers better, in both orders, and report its biases."`
	Fit       evalFitCmd       `cmd:"" help:"Fit the coefficients of abstention or of the groundedness checker on the tuning part of results."`
	Latency   evalLatencyCmd   `cmd:"" help:"How long searching takes in corpora of several sizes, made for it."`
	Grounded  evalGroundedCmd  `cmd:"" help:"Measure statements that people judged against their sources."`
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
	return r.Answerer.Rewrite(ctx, question, eval.Turns(history), eval.Tenant)
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
