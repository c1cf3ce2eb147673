package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"ragd/eval"
)

type evalVaryCmd struct {
	Set   string   `arg:"" help:"Folder of a set, or a file of questions that come with their passages." type:"path"`
	Dir   string   `arg:"" help:"Folder for the varied set; it must not exist."`
	Kinds []string `help:"Ways to vary." default:"word,order,position,noise" enum:"paraphrase,word,order,position,noise"`
	Noise []int    `help:"How many wrong passages stand beside the right ones; the second number is used wherever noise is not what varies." default:"0,5,10"`
	Limit int      `help:"Vary only so many questions: a fixed random sample. 0: all." default:"50"`
}

// Help is shown by ragd eval vary --help.
func (evalVaryCmd) Help() string {
	return `Writes a set in which every question comes with its passages, once as it is and once in each way of being different: "paraphrase" (the model says it
in other words; review these), "word" (one word misspelt), "order" (passages shuffled), "position" (one right passage at each place, as the model reads
them), "noise" (none, some, many wrong passages). A run over it reports the change of each way.

  ragd eval vary sets/handbook sets/handbook-varied --limit 20
  ragd eval run sets/handbook-varied --out varied.jsonl`
}

func (k evalVaryCmd) Run(ctx ctxBinding, a *app) error {
	set, err := k.load()
	if err != nil {
		return err
	}
	vary := eval.Vary{Kinds: k.Kinds, Noise: k.Noise}
	if slices.Contains(k.Kinds, "paraphrase") {
		if vary.Engine, err = a.openEngine(ctx); err != nil {
			return err
		}
	}
	bar := a.progress.bar("varying", items)
	varied, err := vary.Make(ctx, set, k.Limit, func(done, total int) { bar.set(int64(done), int64(total)) })
	bar.done()
	if err != nil {
		return err
	}
	if err := varied.Write(k.Dir); err != nil {
		return err
	}
	fmt.Printf("%d questions with their variants in %s\n", len(varied.Queries), k.Dir)
	return nil
}

func (k evalVaryCmd) load() (*eval.Dataset, error) {
	info, err := os.Stat(k.Set)
	switch {
	case err != nil:
		return nil, fmt.Errorf("eval: the set: %w", err)
	case info.IsDir():
		return eval.Load(k.Set)
	}
	return eval.LoadGiven(k.Set)
}

type evalJudgeCmd struct {
	A    string `arg:"" help:"Results of one run." type:"existingfile"`
	B    string `arg:"" help:"Results of another run on the same set." type:"existingfile"`
	Out  string `help:"Results file; a second run with it asks only what is missing." required:"" type:"path"`
	JSON bool   `help:"Print JSON." name:"json"`
}

// Help is shown by ragd eval judge --help.
func (evalJudgeCmd) Help() string {
	return `Asks the model (--model) which of two answers is better, each pair in both orders. It is used only here: no other number rests on a model's opinion. How
often both orders agree, and how much the place and the length of an answer sway the judge, stands beside its verdict. A model that judges its own
answers favours them: use another one.

  ragd eval judge yesterday.jsonl today.jsonl --model Qwen2.5-Coder-0.5B-Instruct-Q4_K_M --out judged.jsonl`
}

func (k evalJudgeCmd) Run(ctx ctxBinding, a *app) error {
	before, err := eval.ReadResults[eval.Answered](k.A)
	if err != nil {
		return err
	}
	after, err := eval.ReadResults[eval.Answered](k.B)
	if err != nil {
		return err
	}
	engine, err := a.openEngine(ctx)
	if err != nil {
		return err
	}
	out, err := eval.OpenResults[eval.Preference](k.Out, eval.Header{Kind: "preferences", Set: after.Header.Set,
		Settings: map[string]string{"judge": engine.Name(), "fingerprint": engine.Fingerprint(), "a": before.Header.Settings["model"], "b": after.Header.Settings["model"]}})
	if err != nil {
		return err
	}
	defer out.Close()
	bar := a.progress.bar("judging", items)
	err = eval.Prefer(ctx, engine, before.Records, after.Records, out, func(done, total int) { bar.set(int64(done), int64(total)) })
	bar.done()
	if err != nil {
		return err
	}
	v := eval.Verdict(out.Records)
	if k.JSON {
		return json.NewEncoder(os.Stdout).Encode(v)
	}
	fmt.Printf("%d pairs that differ: the first run is better with probability %.3f [%.3f, %.3f]\n", v.N, v.A.Value, v.A.Low, v.A.High)
	fmt.Printf("judge %s: both orders agree on %.1f %% of the pairs; bias for what stands first %+.3f, for the longer answer %+.3f\n", engine.Name(), 100*v.Steady, v.Position, v.Length)
	return nil
}
