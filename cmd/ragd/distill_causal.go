package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"ragd/llm/distill"
	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/quant"
	"ragd/llm/tokenizer"
)

type distillCausalCmd struct {
	Paths       []string `arg:"" optional:"" help:"Files and folders to learn from, of any format that ragd reads; a corpus.jsonl counts passage by passage." type:"existingpath"`
	Corpus      []string `help:"Learn from these corpora." short:"c"`
	Tokens      int      `help:"Training tokens, spread over the text; the teacher reads each once." default:"65536"`
	Steps       int      `help:"Training steps." default:"600"`
	Batch       int      `help:"Windows per step." default:"8"`
	Window      int      `help:"Tokens of a window, and the student's context." default:"128"`
	Vocabulary  int      `help:"Tokens that the student can tell apart; the most frequent ones of the text." default:"4096"`
	Width       int      `help:"Width of the student." default:"192"`
	Layers      int      `help:"Layers of the student." default:"4"`
	Rate        float64  `help:"Highest learning rate." default:"0.002"`
	Temperature float32  `help:"Softens the teacher's distribution in training." default:"1"`
	Soft        float32  `help:"Share of the teacher in the objective; the rest is the text itself." default:"0.9"`
	Seed        uint64   `help:"Seed of everything random." default:"1"`
	NoBaseline  bool     `help:"Do not train the same student on the text alone for comparison."`
	KeepLabels  bool     `help:"Keep the teacher's distributions for another run on the same text."`
}

// Help is shown by ragd distill causal --help.
func (distillCausalCmd) Help() string {
	return `The teacher is the answer model (--model). It reads windows of your text and writes down its whole next-token distribution, which a small llama with
the same tokenizer learns. The same student is trained on the text alone, with the same seed and steps, and both are measured on documents that neither has
seen. The result is a GGUF file that every command of ragd loads; docs/distillation.md says what it is good for.

The teacher's distributions take two bytes per token and known token: half a gigabyte by default, removed at the end. Interrupted or killed, the same command
goes on and gives the same student.

  ragd distill causal ~/documents
  ragd distill causal -c handbook --model SmolLM2-135M-Instruct.Q4_1 --steps 300`
}

// causalReport is what a run measured.
type causalReport struct {
	Teacher  string           `json:"teacher"`
	Options  distill.Options  `json:"options"`
	Params   int              `json:"params"`
	Train    int              `json:"train_tokens"`
	Coverage float64          `json:"coverage"` // share of held-out tokens that the student has a row for
	Soft     distill.Quality  `json:"distilled"`
	Hard     *distill.Quality `json:"hard_labels,omitempty"`
}

func (k distillCausalCmd) options() distill.Options {
	return distill.Options{
		Shape:     distill.Shape{Width: k.Width, Layers: k.Layers, Heads: max(1, k.Width/32), FFN: (k.Width*8/3 + 31) / 32 * 32, Context: k.Window},
		Objective: distill.Objective{Temperature: k.Temperature, Soft: k.Soft},
		Steps:     k.Steps, Batch: k.Batch, Rate: k.Rate, WeightDecay: 0.1, Seed: k.Seed, Checkpoint: 50,
	}
}

// check refuses what would fail after minutes.
func (k distillCausalCmd) check() error {
	o := k.options()
	switch {
	case k.Tokens < k.Window:
		return fmt.Errorf("--tokens %d is less than a window of %d", k.Tokens, k.Window)
	case k.Vocabulary < 1:
		return fmt.Errorf("--vocabulary %d leaves no token to learn", k.Vocabulary)
	}
	return o.Check()
}

func (k distillCausalCmd) Run(ctx ctxBinding, a *app) error {
	if err := k.check(); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	texts, err := a.documentTexts(ctx, k.Corpus, k.Paths)
	if err != nil {
		return err
	}
	path, err := a.answerModelPath(ctx)
	if err != nil {
		return err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	text, teacher, err := k.prepare(a, f, texts)
	if err != nil {
		return err
	}
	defer teacher.Close()
	o := k.options()
	identity := distill.Identity(f, text)
	dir, err := a.workDir("causal-" + identity)
	if err != nil {
		return err
	}
	r := causalRun{command: k, app: a, text: text, teacher: teacher, file: f, dir: dir}
	report := causalReport{Teacher: filepath.Base(path), Options: o, Train: len(text.Train) * k.Window, Coverage: text.Coverage(text.Heldout)}
	if err := r.run(ctx, o, &report); err != nil {
		return err
	}
	if !k.KeepLabels {
		return os.RemoveAll(dir)
	}
	return nil
}

// prepare tokenizes the text and loads the teacher.
func (k distillCausalCmd) prepare(a *app, f *gguf.File, texts []string) (*distill.Text, *distill.Teacher, error) {
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		return nil, nil, err
	}
	teacher, err := distill.OpenTeacher(f, a.workers(), k.Window)
	if err != nil {
		return nil, nil, err
	}
	documents := make([][]int32, len(texts))
	for i, s := range texts {
		documents[i] = tok.Encode(strings.ToValidUTF8(s, "\uFFFD"), false, false)
		if end, ok := tok.EOS(); ok {
			documents[i] = append(documents[i], end)
		}
	}
	text, err := distill.NewText(documents, teacher.Vocab(), k.Vocabulary, k.Window, k.Tokens/k.Window, k.Seed)
	if err != nil {
		teacher.Close()
		return nil, nil, err
	}
	if text.OneDoc {
		a.progress.step("one document: its last tenth is held out, which says less than documents of their own would")
	}
	return text, teacher, nil
}

// causalRun is a run with everything opened.
type causalRun struct {
	command distillCausalCmd
	app     *app
	text    *distill.Text
	teacher *distill.Teacher
	file    *gguf.File
	dir     string
}

func (r *causalRun) run(ctx context.Context, o distill.Options, report *causalReport) error {
	a, k := r.app, r.command
	a.progress.step("teacher %s; %d training and %d held-out tokens, of which the student's %d known tokens cover %.1f%%", report.Teacher, report.Train,
		len(r.text.Heldout)*k.Window, len(r.text.Known), 100*report.Coverage)
	train, err := r.labels(ctx, "train", r.text.Train, k.Temperature)
	if err != nil {
		return err
	}
	defer train.Close()
	heldout, err := r.labels(ctx, "heldout", r.text.Heldout, 1)
	if err != nil {
		return err
	}
	defer heldout.Close()

	soft, curve, err := r.train(ctx, "distilled", train, o)
	if err != nil {
		return err
	}
	report.Params = soft.Params()
	if report.Soft, err = distill.Measure(a.workers(), soft, r.text, heldout); err != nil {
		return err
	}
	curves := []distill.Curve{{Name: "distilled", Values: hardLosses(curve)}}
	if !k.NoBaseline {
		hard := o
		hard.Soft = 0
		student, curve, err := r.train(ctx, "hard labels", nil, hard)
		if err != nil {
			return err
		}
		quality, err := distill.Measure(a.workers(), student, r.text, heldout)
		if err != nil {
			return err
		}
		report.Hard = &quality
		curves = append(curves, distill.Curve{Name: "hard labels", Values: hardLosses(curve)})
	}
	printCausal(report, curves)
	return r.keep(soft, report, curves)
}

// labels has the teacher read windows.
func (r *causalRun) labels(ctx context.Context, name string, windows [][]int32, temperature float32) (*distill.Labels, error) {
	bar := r.app.progress.bar("teacher reads "+name, items)
	defer bar.done()
	path := filepath.Join(r.dir, fmt.Sprintf("%s-%g.labels", name, temperature))
	l, err := distill.OpenLabels(ctx, path, r.text, windows, r.teacher, temperature, func(done, total int) { bar.set(int64(done), int64(total)) })
	if err != nil {
		return nil, fmt.Errorf("%w (the file takes %d MiB; --tokens and --vocabulary make it smaller)", err,
			len(windows)*r.text.Context*2*r.text.Classes()>>20)
	}
	return l, nil
}

// train trains one student; labels is nil for the baseline.
func (r *causalRun) train(ctx context.Context, name string, labels *distill.Labels, o distill.Options) (*distill.Student, []distill.Point, error) {
	bar := r.app.progress.bar("training, "+name, items)
	defer bar.done()
	checkpoint := filepath.Join(r.dir, runName(o)+".checkpoint")
	return distill.Train(ctx, r.app.workers(), r.text, labels, o, checkpoint, func(curve []distill.Point) {
		last := curve[len(curve)-1]
		bar.at(fmt.Sprintf("loss %.3f", last.Hard))
		bar.set(int64(len(curve)), int64(o.Steps))
	})
}

// runName tells runs over the same text apart.
func runName(o distill.Options) string {
	return fmt.Sprintf("w%d-l%d-h%d-f%d-b%d-n%d-r%g-t%g-s%g-seed%d", o.Width, o.Layers, o.Heads, o.FFN, o.Batch, o.Steps, o.Rate, o.Temperature, o.Soft, o.Seed)
}

func hardLosses(curve []distill.Point) []float64 {
	losses := make([]float64, len(curve))
	for i, p := range curve {
		losses[i] = float64(p.Hard)
	}
	return losses
}

// keep writes the student's folder.
func (r *causalRun) keep(m *distill.Student, report *causalReport, curves []distill.Curve) error {
	a := r.app
	id := fmt.Sprintf("causal-%s-%s", strings.TrimPrefix(filepath.Base(r.dir), "causal-"), runName(report.Options))
	if err := os.MkdirAll(a.students().Path(id), 0o755); err != nil {
		return fmt.Errorf("distill: %w", err)
	}
	path := filepath.Join(a.students().Path(id), "student.gguf")
	if err := m.Save(path, id, r.text, r.file, quant.Q8_0); err != nil {
		return err
	}
	about, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	e := distill.Entry{ID: id, Slot: "draft/" + strings.TrimSuffix(report.Teacher, ".gguf"), Gain: causalGain(report)}
	err = a.students().Add(e, map[string][]byte{
		"report.json": append(about, '\n'),
		"curve.svg":   []byte(distill.SVG("cross-entropy to the text while training", "nats per token", curves...)),
	})
	if err == nil {
		fmt.Printf("\nstudent: %s\n", path)
	}
	return err
}

func causalGain(r *causalReport) string {
	if r.Hard == nil {
		return fmt.Sprintf("accepted as draft: %.1f%% of tokens; no baseline was trained", 100*r.Soft.Greedy)
	}
	return fmt.Sprintf("accepted as draft: %.1f%% of tokens, against %.1f%% of a student trained on the text alone", 100*r.Soft.Greedy, 100*r.Hard.Greedy)
}

func printCausal(r *causalReport, curves []distill.Curve) {
	for _, c := range curves {
		fmt.Printf("%-12s %s\n", c.Name, c.Sparkline(60))
	}
	fmt.Printf("\nheld-out, %d tokens (nats per token; the teacher's own entropy is %.3f)\n%-14s %10s %12s %8s %16s %16s\n", r.Soft.Tokens, r.Soft.Entropy,
		"student", "to text", "to teacher", "KL", "accepted greedy", "accepted sampled")
	row := func(name string, q distill.Quality) {
		fmt.Printf("%-14s %10.4f %12.4f %8.4f %15.1f%% %15.1f%%\n", name, q.Hard, q.Soft, q.Soft-q.Entropy, 100*q.Greedy, 100*q.Sampled)
	}
	row("distilled", r.Soft)
	if r.Hard != nil {
		row("hard labels", *r.Hard)
	}
	fmt.Printf("%d weights, %s kernels\n", r.Params, kernel.Active())
}
