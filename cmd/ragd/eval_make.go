package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"ragd/eval"
	"ragd/retrieve"
	"ragd/verify"
)

type evalMakeCmd struct {
	Dir       string   `arg:"" help:"Folder for the set; it must not exist."`
	Corpus    []string `help:"Draft from these corpora only." short:"c"`
	Questions int      `help:"Passages to draft from." default:"30"`
	About     string   `help:"Draft about this; empty: about anything." default:""`
}

// Help is shown by ragd eval make --help.
func (evalMakeCmd) Help() string {
	return `Drafts questions over your own documents for review: read queries.jsonl, change "review" to "ok" or delete the line, then measure with it.

  ragd eval make sets/mine -c handbook --questions 40
  ragd eval run sets/mine --out mine.jsonl`
}

func (k evalMakeCmd) Run(ctx ctxBinding, a *app) error {
	retriever, err := a.openRetriever(ctx)
	if err != nil {
		return err
	}
	engine, err := a.openModel(ctx)
	if err != nil {
		return err
	}
	about := k.About
	if about == "" {
		about = "which rules, amounts, dates and people does this describe"
	}
	found, err := retriever.RetrieveLeg(ctx, retrieve.LegHybrid, about, retrieve.Filter{Corpora: k.Corpus}, k.Questions)
	if err != nil {
		return err
	}
	var passages []retrieve.Passage
	for _, s := range found.Ranked {
		passages = append(passages, s.Passage)
	}
	if len(passages) == 0 {
		return errors.New("there is no passage to draft from: 'ragd ingest' reads documents in")
	}
	bar := a.progress.bar("drafting", items)
	n, err := eval.Draft(ctx, engine, passages, k.Dir, func(done, total int) { bar.set(int64(done), int64(total)) })
	bar.done()
	if err != nil {
		return err
	}
	fmt.Printf("%d questions drafted from %d passages in %s: review queries.jsonl before measuring with them\n", n, len(passages), k.Dir)
	return nil
}

type evalReportCmd struct {
	Results string `arg:"" help:"Results of 'ragd eval run'." type:"existingfile"`
	HTML    string `help:"Write a page with plots and every question to this file." name:"html" type:"path"`
	Labels  string `help:"People's labels of statements, saved by that page." type:"existingfile"`
	Closed  string `help:"Results of the same questions with 'eval run --closed': report what the model knows by heart." type:"existingfile"`
	Set     string `help:"The set's folder: report questions of the tuning part that the held-out part repeats." type:"existingdir"`
}

// Help is shown by ragd eval report --help.
func (evalReportCmd) Help() string {
	return `The page needs nothing but a browser: open a question, read each statement beside its quotes, press supported or unsupported, and save the labels.

  ragd eval report handbook.jsonl --html handbook.html
  ragd eval report handbook.jsonl --labels labels.jsonl`
}

func (k evalReportCmd) Run(ctxBinding, *app) error {
	results, err := eval.ReadResults[eval.Answered](k.Results)
	if err != nil {
		return err
	}
	if results.Header.Kind != "answers" {
		return fmt.Errorf("%s holds %s results; a report is made of answers", k.Results, results.Header.Kind)
	}
	printSummary(eval.Summarise(results.Header, results.Records))
	if k.Labels != "" {
		labels, err := eval.ReadLabels(k.Labels)
		if err != nil {
			return err
		}
		j := eval.Judge(results.Records, labels)
		fmt.Printf("  labels %d: unsupported before verification %.3f, after %.3f, without a mark of doubt %.3f (%d marked); missed %d, false alarms %d; AUROC of the checker %.3f\n",
			j.Labelled, j.Draft, j.Kept, j.Unmarked, j.Marked, j.Missed, j.FalseAlarms, j.AUROCChecked)
	}
	if k.Set != "" {
		set, err := eval.Load(k.Set)
		if err != nil {
			return err
		}
		printDuplicates(set)
	}
	if k.Closed != "" {
		closed, err := eval.ReadResults[eval.Answered](k.Closed)
		if err != nil {
			return err
		}
		c := eval.Contaminated(closed.Records, results.Records)
		fmt.Printf("  contamination: known by heart %.3f [%.3f, %.3f] of %d; from the documents %.3f, gain %+.3f [%+.3f, %+.3f]; of those not known %.3f of %d\n",
			c.Known.Value, c.Known.Low, c.Known.High, c.Known.N, c.Open.Value, c.Gain.Value, c.Gain.Low, c.Gain.High, c.Unknown.Value, c.Unknown.N)
	}
	if k.HTML == "" {
		return nil
	}
	file, err := os.Create(k.HTML)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return errors.Join(eval.WriteReport(file, results.Header, results.Records), file.Close())
}

// printDuplicates lists the questions that were seen when the other part was tuned on.
func printDuplicates(set *eval.Dataset) {
	const nearly = 0.8
	texts := map[string]string{}
	for _, q := range set.Queries {
		texts[q.ID] = q.Text
	}
	pairs := eval.NearDuplicates(set, nearly)
	fmt.Printf("  questions of one part that nearly repeat one of the other: %d\n", len(pairs))
	for _, p := range pairs {
		fmt.Printf("    %s %s\n    %s %s\n", p[0], texts[p[0]], p[1], texts[p[1]])
	}
}

type evalFitCmd struct {
	Results []string `arg:"" help:"Results of 'ragd eval run' (abstention) or 'ragd eval grounded' (support), several sets." type:"existingfile"`
	Ridge   float64  `help:"How strongly coefficients are drawn to 0." default:"10"`
	Feature []string `help:"Features to use." required:""`
}

// Help is shown by ragd eval fit --help.
func (evalFitCmd) Help() string {
	return `Fits a logistic model on the tuning part of results and prints its coefficients as JSON, with AUROC and calibration error on the held-out part, on which
nothing is fitted.

  ragd eval fit northwind.jsonl squad2.jsonl --feature top,margin,refusal,support`
}

func (k evalFitCmd) Run(ctxBinding, *app) error {
	header, err := eval.ReadHeader(k.Results[0])
	if err != nil {
		return err
	}
	var tune, heldOut []verify.Example
	if header.Kind == "grounded" {
		tune, heldOut, err = splitFiles(k.Results, eval.GroundedExamples, func(c eval.Checked) verify.Example {
			return verify.Example{Values: verify.Values(c.Features), True: c.Supported}
		})
	} else {
		tune, heldOut, err = splitFiles(k.Results, eval.AbstentionExamples, func(r eval.Answered) verify.Example {
			return verify.Example{Values: verify.Values(r.Evidence), True: r.Answerable}
		})
	}
	if err != nil {
		return err
	}
	model, err := verify.Fit(k.Feature, tune, k.Ridge, true)
	if err != nil {
		return err
	}
	threshold, f1 := eval.BestThreshold(eval.Probabilities(model, tune))
	held := eval.Probabilities(model, heldOut)
	fmt.Fprintf(os.Stderr, "tuning part: %d, best threshold %.3f (F1 of the false ones %.3f); held out: %d, AUROC %.3f, F1 %.3f, calibration error %.3f\n",
		len(tune), threshold, f1, len(held), eval.AUROC(held), eval.F1Below(held, threshold), eval.ECE(held))
	return json.NewEncoder(os.Stdout).Encode(model)
}

// splitFiles reads results of one kind and divides them into the part to tune on and the rest.
func splitFiles[T any](paths []string, split func([][]T) ([]verify.Example, []T, error), example func(T) verify.Example) (tune, heldOut []verify.Example, err error) {
	var sets [][]T
	for _, path := range paths {
		r, err := eval.ReadResults[T](path)
		if err != nil {
			return nil, nil, err
		}
		sets = append(sets, r.Records)
	}
	tune, rest, err := split(sets)
	for _, r := range rest {
		heldOut = append(heldOut, example(r))
	}
	return tune, heldOut, err
}
