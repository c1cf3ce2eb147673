package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"

	"ragd/answer"
	"ragd/eval"
)

type evalRunCmd struct {
	Set       string `arg:"" help:"Folder with corpus.jsonl, queries.jsonl and qrels.tsv, or a file of questions that come with their passages." type:"path"`
	Out       string `help:"Results file; a second run with it asks only what is missing." required:"" type:"path"`
	Limit     int    `help:"Ask only so many questions: a fixed random sample. 0: all."`
	Docs      bool   `help:"Ingest the documents in SET/docs instead of corpus.jsonl."`
	Gold      bool   `help:"The model reads the right passages, whatever retrieval finds: what reading alone is worth."`
	Insist    bool   `help:"Refusals are not allowed: what abstention is worth."`
	Unchecked bool   `help:"What the model writes is the answer, nothing is taken out or withheld: what verification is worth."`
	Closed    bool   `help:"The model answers without any passage: what it knows by heart."`
	Passages  int    `help:"Passages that the model reads; 0 leaves it to ragd."`
	Parallel  int    `help:"Questions asked at a time: a run ends sooner, and the times of its questions say less." default:"1"`
	MaxTokens int    `help:"Longest answer in tokens; 0 leaves it to ragd." default:"160"`
	JSON      bool   `help:"Print one JSON object." name:"json"`
}

// Help is shown by ragd eval run --help.
func (evalRunCmd) Help() string {
	return `Asks the questions of a set and judges the answers: containment, F1, citations, quotes, refusals, times. An interrupted run goes on where it stopped.

  ragd eval run sets/handbook --out handbook.jsonl
  ragd eval run sets/handbook --gold --limit 50 --out gold.jsonl && ragd eval report gold.jsonl --html gold.html
  ragd eval run sets/handbook --closed --out closed.jsonl && ragd eval report handbook.jsonl --closed closed.jsonl`
}

func (k evalRunCmd) Run(ctx ctxBinding, a *app) error {
	if k.Parallel < 1 {
		return fmt.Errorf("%w: --parallel must be 1 or more", errUsage)
	}
	set, corpus, gold, err := k.open(ctx, a)
	if err != nil {
		return err
	}
	run := eval.AnswerRun{Corpus: corpus, Gold: gold, GoldOnly: k.Gold, Passages: k.Passages, MaxTokens: k.MaxTokens, Insist: k.Insist, Unchecked: k.Unchecked,
		Parallel: k.Parallel}
	engine, err := a.openEngine(ctx)
	if err != nil {
		return err
	}
	if k.Closed {
		run.Answerer = eval.ClosedBook{Engine: engine}
	} else if run.Answerer, err = a.openAnswerer(ctx); err != nil {
		return err
	}
	header := eval.Header{Kind: "answers", Set: set.Name, Settings: map[string]string{"model": engine.Name(), "fingerprint": engine.Fingerprint(), "corpus": corpus,
		"mode": k.mode(), "passages": strconv.Itoa(k.Passages), "max_tokens": strconv.Itoa(k.MaxTokens)}}
	out, err := eval.OpenResults[eval.Answered](k.Out, header)
	if err != nil {
		return err
	}
	defer out.Close()
	questions := set.Shuffled()
	if k.Limit > 0 {
		questions = questions[:min(k.Limit, len(questions))]
	}
	bar := a.progress.bar("asking", items)
	run.Progress = func(done, total int) { bar.set(int64(done), int64(total)) }
	err = run.Run(ctx, set, questions, out)
	bar.done()
	if err != nil {
		return err
	}
	summary := eval.Summarise(header, out.Records)
	if k.JSON {
		return json.NewEncoder(os.Stdout).Encode(summary)
	}
	printSummary(summary)
	return nil
}

func (k evalRunCmd) mode() string {
	var parts []string
	for name, on := range map[string]bool{"gold": k.Gold, "insist": k.Insist, "docs": k.Docs, "unchecked": k.Unchecked, "closed": k.Closed} {
		if on {
			parts = append(parts, name)
		}
	}
	sort.Strings(parts)
	return strings.Join(parts, "+")
}

// open reads the set and makes its passages searchable, where it has a corpus.
func (k evalRunCmd) open(ctx context.Context, a *app) (*eval.Dataset, string, eval.GoldID, error) {
	info, err := os.Stat(k.Set)
	if err != nil {
		return nil, "", nil, fmt.Errorf("eval: the set: %w", err)
	}
	if !info.IsDir() {
		set, err := eval.LoadGiven(k.Set)
		return set, "", eval.ByPath, err
	}
	set, err := eval.Load(k.Set)
	if err != nil || k.Closed || len(set.Corpus) == 0 {
		return set, "", eval.ByPath, err
	}
	corpus, gold, err := evalRetrievalCmd{Dir: k.Set, Docs: k.Docs}.index(ctx, a, set)
	return set, corpus, gold, err
}

// printSummary shows a run as a table.
func printSummary(s eval.Summary) {
	fmt.Printf("%s: %d questions, %d of them unanswerable\n", s.Set, s.N, s.Unanswerable)
	names := make([]string, 0, len(s.Metrics))
	for name := range s.Metrics {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		v := s.Metrics[name]
		fmt.Printf("  %-20s %10.4f  [%.4f, %.4f]  n=%d\n", name, v.Value, v.Low, v.High, v.N)
	}
	fmt.Printf("  quotes %d, of them not the source's bytes %d; markers that name no passage %d\n", s.Quotes, s.FalseQuotes, s.FalseMarkers)
	fmt.Printf("  refusals: precision %.3f, recall %.3f, F1 %.3f; answered of those whose evidence was read: %.3f\n", s.Refusal.Precision, s.Refusal.Recall, s.Refusal.F1, s.AnsweredFound)
	for _, name := range []string{"confidence", "rerank", "bm25", "dense", "cover"} {
		if v, ok := s.Refusal.AUROC[name]; ok {
			fmt.Printf("  AUROC %-12s %.3f\n", name, v)
		}
	}
	if s.Steady.N > 0 {
		fmt.Printf("  variants answered as their question: %.3f  [%.3f, %.3f]  n=%d\n", s.Steady.Value, s.Steady.Low, s.Steady.High, s.Steady.N)
	}
	for _, v := range s.Variants {
		fmt.Printf("  %-20s contains %.3f, change %+.3f [%+.3f, %+.3f], answered %.3f, n=%d\n", v.Variant, v.Contains, v.Change.Value, v.Change.Low, v.Change.High, v.Answered, v.Change.N)
	}
	fmt.Printf("  calibration error %.3f, area under risk-coverage %.3f\n", s.Refusal.ECE, s.Refusal.AURC)
}

// answerConfig is how answers are made on this machine.
func (a *app) answerConfig(ctx context.Context) (answer.Config, error) {
	reranker, err := a.openReranker(ctx)
	if err != nil || reranker == nil {
		return answer.Config{}, err
	}
	return answer.Config{Cross: reranker}, nil
}
