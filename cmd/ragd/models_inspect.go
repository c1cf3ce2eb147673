package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"ragd/llm/gguf"
	"ragd/llm/inspect"
	"ragd/llm/kernel"
)

type modelsInspectCmd struct {
	Model     string `arg:"" help:"A GGUF file, or a name from 'ragd models list'."`
	Users     []int  `help:"Rows of the memory plan: users with a whole context each." default:"1,4,16"`
	NoMeasure bool   `help:"Do not measure the memory bandwidth (a second); the speed limits are left out."`
	JSON      bool   `help:"Print one JSON object." name:"json"`
}

// Help is shown by ragd models inspect --help.
func (modelsInspectCmd) Help() string {
	return `Nothing is loaded: a file larger than the memory can be inspected. --context sets the tokens per user.

  ragd models inspect Qwen2.5-Coder-0.5B-Instruct-Q4_K_M
  ragd models inspect ./model.gguf --users 1,8,32 --context 8192
  ragd models inspect ./model.gguf --json | jq .kv_cache`
}

func (k modelsInspectCmd) Run(ctx ctxBinding, a *app) error {
	for _, n := range k.Users {
		if n < 1 || n > 1<<20 {
			return fmt.Errorf("%w: --users %d is no number of users", errUsage, n)
		}
	}
	path, err := a.modelPath(ctx, k.Model)
	if err != nil {
		return err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	m := inspect.Machine{KV: a.kv(), Context: a.Context, Users: k.Users}
	if !k.NoMeasure {
		pool := a.workers()
		m.Bandwidth, m.Threads = kernel.MeasureReadBandwidth(pool), pool.Threads()
	}
	d := inspect.File(f, m)
	if k.JSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(d)
	}
	printDescription(os.Stdout, d, m.Threads)
	return nil
}

func printDescription(w io.Writer, d *inspect.Description, threads int) {
	fmt.Fprintf(w, "%s\n  %s, architecture %s", d.File, d.Kind, d.Architecture)
	if d.Licence != "" {
		fmt.Fprintf(w, ", licence %s", d.Licence)
	}
	fmt.Fprintf(w, "\n  %.1f million parameters, %.2f bits each, file of %.1f MB\n", float64(d.Parameters)/1e6, d.BitsPerWeight, float64(d.FileBytes)/1e6)
	if d.Unsupported != "" {
		fmt.Fprintf(w, "  NOT SUPPORTED: %s\n", d.Unsupported)
	}
	var mix []string
	for _, t := range d.Types {
		mix = append(mix, fmt.Sprintf("%s %d tensors, %.1f MB", t.Type, t.Tensors, float64(t.Bytes)/1e6))
	}
	fmt.Fprintf(w, "  types      %s\n", strings.Join(mix, "; "))
	if s := d.Shape; s != nil {
		fmt.Fprintf(w, "  shape      %d layers, width %d, feed-forward %d, %d heads of %d", s.Layers, s.Embedding, s.FeedForward, s.Heads, s.HeadDim)
		if s.KVHeads != s.Heads {
			fmt.Fprintf(w, " sharing %d key-value heads", s.KVHeads)
		}
		fmt.Fprintf(w, ", vocabulary %d, context %d", s.Vocabulary, s.Context)
		if s.WindowLayers > 0 {
			fmt.Fprintf(w, ", %d layers see %d tokens", s.WindowLayers, s.Window)
		}
		fmt.Fprintln(w)
	}
	printTokenizer(w, d)
	if d.KV != nil {
		printCosts(w, d, threads)
	}
}

func printTokenizer(w io.Writer, d *inspect.Description) {
	t := d.Tokenizer
	if t.Error != "" {
		fmt.Fprintf(w, "  tokenizer  %s\n", t.Error)
		return
	}
	fmt.Fprintf(w, "  tokenizer  %s", t.Kind)
	if t.Pre != "" {
		fmt.Fprintf(w, " (%s)", t.Pre)
	}
	fmt.Fprintf(w, ", %d tokens, begin %q", t.Tokens, t.BOS)
	if !t.AddBOS {
		fmt.Fprint(w, " (not added)")
	}
	fmt.Fprintf(w, ", end %q\n", t.EOS)
	if d.Template != "" {
		fmt.Fprintf(w, "  template   %s\n", d.Template)
	}
}

// printCosts shows what a generator costs.
func printCosts(w io.Writer, d *inspect.Description, threads int) {
	k := d.KV
	fmt.Fprintf(w, "\nkeys and values, at 16 bits\n")
	fmt.Fprintf(w, "  %d bytes per token, %s for a context of %d", k.BytesPerToken, size(k.BytesPerContext), k.Context)
	if k.BytesPerTokenNoShare != k.BytesPerToken {
		fmt.Fprintf(w, "; with a key-value head per head it would be %d and %s", k.BytesPerTokenNoShare, size(k.BytesNoShare))
	}
	fmt.Fprintf(w, "\n  ragd keeps %s: %d bytes per token with scales\n", k.EngineType, k.EngineBytesPerToken)
	fmt.Fprintf(w, "\nmemory, every user with a whole context of %d tokens\n  %6s %12s %12s %12s %12s\n", k.Context, "users", "weights", "activations", "cache", "total")
	for _, p := range d.Plan {
		fmt.Fprintf(w, "  %6d %12s %12s %12s %12s\n", p.Users, size(p.Weights), size(p.Activations), size(p.Cache), size(p.Total))
	}
	if x := d.Decode; x != nil {
		fmt.Fprintf(w, "\nwriting\n  %s of weights per token / %.1f GB/s measured with %d threads = %.2f ms: at most %.1f tokens per second for one user\n",
			size(x.BytesPerToken), x.Bandwidth/1e9, threads, 1000*x.SecondsPerToken, x.TokensPerSecond)
	}
	fmt.Fprintf(w, "\nattention, by context\n  %8s %15s %7s %13s %10s  share of the work of reading a prompt\n", "tokens", "scores", "growth", "KV per token", "tokens/s")
	for _, row := range d.Attention {
		limit := "-"
		if row.DecodeLimit > 0 {
			limit = fmt.Sprintf("%.1f", row.DecodeLimit)
		}
		fmt.Fprintf(w, "  %8d %15d %6.0f× %13s %10s  %5.1f%% %s\n", row.Tokens, row.Scores, float64(row.Scores)/float64(d.Attention[0].Scores),
			size(row.KVBytes), limit, 100*row.PrefillShare, strings.Repeat("█", int(40*row.PrefillShare+0.5)))
	}
}

// size formats bytes.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}
