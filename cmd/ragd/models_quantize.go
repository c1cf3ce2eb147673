package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/model"
	"ragd/llm/quantize"
)

type modelsQuantizeCmd struct {
	Source     string `arg:"" help:"A GGUF file, best with F16, BF16 or F32 weights, or a name from 'ragd models list'."`
	Out        string `arg:"" help:"The GGUF file to write." type:"path"`
	Type       string `help:"Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q4_0 or F16." default:"Q4_K_M"`
	Imatrix    string `help:"A text like those the model will work on: rounding then spares what the text uses. Read as a stream." type:"existingfile" placeholder:"TEXT"`
	Text       string `help:"Evaluation text for the quality report; default: a text of 1,300 words that ragd carries." type:"existingfile" placeholder:"FILE"`
	Requantize bool   `help:"Accept a source whose weights are rounded already. The errors add up; the report counts only those of this step."`
	Force      bool   `help:"Replace the output when it is there."`
	JSON       bool   `help:"Print the report as one JSON object." name:"json"`
}

// Help is shown by ragd models quantize --help.
func (modelsQuantizeCmd) Help() string {
	var b strings.Builder
	b.WriteString("Types, the most exact first:\n\n")
	for _, m := range quantize.Mixes() {
		fmt.Fprintf(&b, "  %-7s %s\n", m.Name, m.About)
	}
	b.WriteString(`
After writing, both files run over an evaluation text, and the report says what the rounding cost: perplexity (how surprised the model is by each next
token), the divergence between the two models' next-token distributions, how often both prefer the same token, size and speed, and the tensors that lost
most. The output appears when it is complete, never in part.

  ragd models quantize smollm2-f16.gguf smollm2-q4.gguf --type Q4_K_M
  ragd models quantize smollm2-f16.gguf smollm2-q4i.gguf --imatrix handbook.txt --text minutes.txt
  ragd models quantize nomic-embed-text-v1.5-f16 nomic-q8.gguf --type Q8_0`)
	return b.String()
}

// quantizeReport is what the command prints.
type quantizeReport struct {
	Source        string                   `json:"source"`
	Out           string                   `json:"out"`
	Type          string                   `json:"type"`
	Importance    string                   `json:"importance,omitempty"` // the text
	SourceBytes   int64                    `json:"source_bytes"`
	Bytes         int64                    `json:"bytes"`
	BitsPerWeight float64                  `json:"bits_per_weight"`
	Seconds       float64                  `json:"seconds"` // of rounding and writing
	Types         map[string]int           `json:"types"`   // tensors
	Fallbacks     []string                 `json:"fallbacks,omitempty"`
	Quality       *quantize.Quality        `json:"quality,omitempty"`
	Encoder       *quantize.EncoderQuality `json:"encoder_quality,omitempty"`
	Worst         []worstTensor            `json:"worst_tensors"`
}

type worstTensor struct {
	Name     string  `json:"name"`
	Type     string  `json:"type"`
	RelError float64 `json:"relative_error"`
	MaxError float64 `json:"largest_error"`
	Outlier  float64 `json:"largest_weight"`
}

func (k modelsQuantizeCmd) Run(ctx ctxBinding, a *app) error {
	mix, err := quantize.ParseMix(k.Type)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	path, err := a.modelPath(ctx, k.Source)
	if err != nil {
		return err
	}
	if err := freeOutput(k.Out, path, k.Force); err != nil {
		return err
	}
	text := quantize.Text
	if k.Text != "" {
		if text, err = readEvaluationText(k.Text); err != nil {
			return err
		}
	}
	source, err := gguf.Open(path)
	if err != nil {
		return err
	}
	defer source.Close()
	pool := a.workers()
	o := quantize.Options{Mix: mix, Requantize: k.Requantize, Threads: pool.Threads()}
	if err := quantize.Check(source, o, text); err != nil { // what would fail after minutes is refused before them
		return cannotQuantize(err)
	}
	if k.Imatrix != "" {
		if o.Importance, err = k.importance(ctx, a, source, pool); err != nil {
			return err
		}
	}
	start := time.Now()
	bar := a.progress.bar("quantizing", byteCount)
	o.Progress = bar.set
	result, err := quantize.File(ctx, source, k.Out, o)
	bar.done()
	if err != nil {
		return cannotQuantize(err)
	}
	report := newQuantizeReport(k, mix, path, result, time.Since(start))
	if err := report.measure(ctx, a, source, k.Out, pool, text); err != nil {
		return fmt.Errorf("%s is written, but its quality could not be measured: %w", k.Out, err)
	}
	if k.JSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(report)
	}
	report.print(os.Stdout)
	if k.Requantize {
		fmt.Println("\nThe source was rounded before: compared with the original weights the loss is larger than these figures.")
	}
	return nil
}

// cannotQuantize names the flag that an error asks for.
func cannotQuantize(err error) error {
	if errors.Is(err, quantize.ErrQuantized) {
		return fmt.Errorf("%w (--requantize)", err)
	}
	return err
}

// maxEvaluationBytes bounds the text: the report needs a sample, and every token costs two forward passes.
const maxEvaluationBytes = 1 << 20

func readEvaluationText(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxEvaluationBytes))
	return strings.ToValidUTF8(string(b), "\uFFFD"), err
}

// importance reads the calibration text with a progress bar.
func (k modelsQuantizeCmd) importance(ctx ctxBinding, a *app, source *gguf.File, pool *kernel.Pool) (quantize.Importance, error) {
	text, err := os.Open(k.Imatrix)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	info, err := text.Stat()
	if err != nil {
		return nil, err
	}
	bar := a.progress.bar("reading "+filepath.Base(k.Imatrix), byteCount)
	defer bar.done()
	return quantize.MeasureImportance(ctx, source, pool, text, func(n int64) { bar.set(n, info.Size()) })
}

func newQuantizeReport(k modelsQuantizeCmd, mix quantize.Mix, path string, r *quantize.Result, took time.Duration) *quantizeReport {
	report := &quantizeReport{
		Source: path, Out: k.Out, Type: mix.Name, Importance: k.Imatrix, SourceBytes: r.SourceBytes, Bytes: r.Bytes,
		BitsPerWeight: r.BitsPerWeight(), Seconds: took.Seconds(), Types: map[string]int{},
	}
	var rounded []quantize.Tensor
	fallbacks := map[string]int{}
	for _, t := range r.Tensors {
		report.Types[t.To.String()]++
		if t.To != t.Wanted {
			fallbacks[fmt.Sprintf("%s instead of %s", t.To, t.Wanted)]++
		}
		if t.Rounded {
			rounded = append(rounded, t)
		}
	}
	for what, n := range fallbacks {
		report.Fallbacks = append(report.Fallbacks, fmt.Sprintf("%d tensors are %s, because their rows are no multiple of 256", n, what))
	}
	slices.Sort(report.Fallbacks)
	slices.SortStableFunc(rounded, func(a, b quantize.Tensor) int { return cmp.Compare(b.RelError, a.RelError) })
	for _, t := range rounded[:min(len(rounded), 5)] {
		report.Worst = append(report.Worst, worstTensor{t.Name, t.To.String(), t.RelError, t.MaxError, t.Outlier})
	}
	return report
}

// measure runs both files.
func (r *quantizeReport) measure(ctx ctxBinding, a *app, source *gguf.File, out string, pool *kernel.Pool, text string) error {
	candidate, err := gguf.Open(out)
	if err != nil {
		return err
	}
	defer candidate.Close()
	bar := a.progress.bar("measuring", items)
	defer bar.done()
	shape, err := model.ReadConfig(source)
	if err != nil || shape.Labels != nil { // an encoder, or a reranker that answers yes or no
		r.Encoder, err = quantize.CompareEncoders(ctx, source, candidate, pool, text)
		return err
	}
	r.Quality, err = quantize.Compare(ctx, source, candidate, pool, text, func(done, total int) { bar.set(int64(done), int64(total)) })
	return err
}

// print shows the report to people.
func (r *quantizeReport) print(w io.Writer) {
	fmt.Fprintf(w, "%s\n  %s, %.2f bits per weight, %.1f MB of %.1f MB, %.1f s\n", r.Out, r.Type, r.BitsPerWeight, float64(r.Bytes)/1e6,
		float64(r.SourceBytes)/1e6, r.Seconds)
	var mix []string
	for name, n := range r.Types {
		mix = append(mix, fmt.Sprintf("%d %s", n, name))
	}
	slices.Sort(mix)
	fmt.Fprintf(w, "  tensors: %s\n", strings.Join(mix, ", "))
	for _, f := range r.Fallbacks {
		fmt.Fprintf(w, "  %s\n", f)
	}
	if q := r.Quality; q != nil {
		fmt.Fprintf(w, "\nquality, over %d tokens\n", q.Tokens)
		fmt.Fprintf(w, "  perplexity           %.3f, was %.3f (%+.2f %%)\n", q.Perplexity, q.BasePerplexity, 100*(q.Perplexity/q.BasePerplexity-1))
		fmt.Fprintf(w, "  divergence (nats)    mean %.5f, median %.5f, 99 %% below %.4f, largest %.3f\n", q.MeanKL, q.MedianKL, q.P99KL, q.MaxKL)
		fmt.Fprintf(w, "  same first choice    %.1f %%\n", 100*q.SameTop)
		fmt.Fprintf(w, "  change of p (rms)    %.2f %%\n", 100*q.RMSDeltaP)
		fmt.Fprintf(w, "  decoding             %.1f tokens/s, was %.1f\n", q.Speed, q.BaseSpeed)
	}
	if q := r.Encoder; q != nil {
		fmt.Fprintf(w, "\nquality, over %d sentences\n", q.Texts)
		if q.MeanCosine > 0 {
			fmt.Fprintf(w, "  cosine of the vectors   mean %.5f, lowest %.5f\n  same nearest sentence   %.1f %%\n", q.MeanCosine, q.MinCosine, 100*q.SameNearest)
		} else {
			fmt.Fprintf(w, "  change of a score       mean %.4f, largest %.4f\n", q.MeanScore, q.MaxScore)
		}
	}
	if len(r.Worst) > 0 {
		fmt.Fprintf(w, "\n%-34s %-6s %10s %14s %15s\n", "tensors that lost most", "type", "rms error", "largest error", "largest weight")
	}
	for _, t := range r.Worst {
		fmt.Fprintf(w, "%-34s %-6s %9.2f%% %13.2f× %14.1f×\n", t.Name, t.Type, 100*t.RelError, t.MaxError, t.Outlier)
	}
	if len(r.Worst) > 0 {
		fmt.Fprintln(w, "(errors and weights relative to the root mean square of the tensor's weights)")
	}
}
