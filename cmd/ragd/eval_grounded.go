package main

import (
	"context"

	"ragd/answer"
	"ragd/eval"
	"ragd/verify"
)

type evalGroundedCmd struct {
	File    string   `arg:"" help:"Statements with their sources and people's labels, one JSON object per line." type:"existingfile"`
	Out     string   `help:"Results file; a second run with it measures only what is missing." required:"" type:"path"`
	Limit   int      `help:"Measure only so many: a fixed random sample. 0: all."`
	Helpers []string `help:"Which helpers to ask beside the words." default:"cross,embed,language" enum:"cross,embed,language,none"`
}

// Help is shown by ragd eval grounded --help.
func (evalGroundedCmd) Help() string {
	return `Measures what the groundedness checker sees of statements that people have judged: {"id","context" or "contexts","question","response","label"}
with the labels supported and unsupported; others are left out. 'ragd eval fit' turns the tuning part of such files into coefficients.

  ragd eval grounded begin.jsonl --out begin.results.jsonl`
}

func (k evalGroundedCmd) Run(ctx ctxBinding, a *app) error {
	gauge, settings, err := k.gauge(ctx, a)
	if err != nil {
		return err
	}
	out, err := eval.OpenResults[eval.Checked](k.Out, eval.Header{Kind: "grounded", Set: eval.SetName(k.File), Settings: settings})
	if err != nil {
		return err
	}
	defer out.Close()
	bar := a.progress.bar("checking", items)
	err = eval.Grounded(ctx, k.File, k.Limit, gauge, out, func(done, total int) { bar.set(int64(done), int64(total)) })
	bar.done()
	return err
}

func (k evalGroundedCmd) gauge(ctx context.Context, a *app) (*verify.Gauge, map[string]string, error) {
	c, settings := &verify.Gauge{}, map[string]string{}
	for _, helper := range k.Helpers {
		switch helper {
		case "cross":
			reranker, err := a.openReranker(ctx)
			if err != nil {
				return nil, nil, err
			}
			c.Cross, settings["cross"] = reranker, a.Reranker
		case "embed":
			embedder, err := a.openEmbedder(ctx)
			if err != nil {
				return nil, nil, err
			}
			c.Embedder, settings["embed"] = embedder, embedder.Model()
		case "language":
			engine, err := a.openEngine(ctx)
			if err != nil {
				return nil, nil, err
			}
			c.Language, settings["language"] = language{answer.New(nil, engine, answer.Config{})}, engine.Fingerprint()
		}
	}
	return c, settings, nil
}

// language makes the answer model known to verify.
type language struct{ *answer.Answerer }

func (l language) States(ctx context.Context, statement string, texts []string) (float64, error) {
	return l.Answerer.States(ctx, statement, texts, eval.Tenant)
}
