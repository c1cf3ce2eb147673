package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"

	"ragd/bench"
	"ragd/llm/kernel"
)

type benchCmd struct {
	Models  []string `arg:"" optional:"" help:"Answer models: names from 'ragd models list' or GGUF files. None: the one of --model."`
	Quick   bool     `help:"Under two minutes for one model without --against. This is the default." xor:"size"`
	Full    bool     `help:"All works, longer ones, more lengths, the serving load: about ten minutes per model, and as much again per --against." xor:"size"`
	Work    []string `help:"Only these works, comma separated: see the list above." placeholder:"WORK,…"`
	Repeat  int      `help:"Repetitions, in turns; the median counts." default:"3"`
	Prompts []int    `help:"Lengths of the prompts that are prefilled." placeholder:"TOKENS,…"`
	Depths  []int    `help:"Tokens in the cache before prefill and decoding." placeholder:"TOKENS,…"`
	Streams []int    `help:"Sizes of the batches." placeholder:"N,…"`
	Clients int      `help:"Clients of the serving load." default:"8"`
	Against []string `help:"Compare with this llama.cpp build (its folder of programs) in the same run; may be given several times, and NAME=DIR names it." placeholder:"DIR" sep:"none"`
	Out     string   `help:"Folder of the table and the plot. Rows are added; the plot shows the latest of each." default:"docs/bench" type:"path"`
	Machine string   `help:"Name of the table's file. Empty: made from the processor's name." placeholder:"NAME"`
	Profile string   `help:"Write a processor profile of the works to this file, for 'go tool pprof -top FILE'." type:"path" placeholder:"FILE"`

	EmbedReference string `help:"The embedding model in float32; the smallest cosine to its vectors is reported." type:"existingfile" placeholder:"FILE"`
	EmbedAgainst   string `help:"A command that embeds the same amount of text and prints its rate, such as 'python3 docs/bench/onnx_embed.py MODEL.onnx'." placeholder:"COMMAND"`
}

// Help is shown by ragd bench --help.
func (benchCmd) Help() string {
	var works strings.Builder
	for _, w := range bench.Works {
		mark := " "
		if w.Quick {
			mark = "*"
		}
		fmt.Fprintf(&works, "  %s %-12s %s\n", mark, w.Name, w.Help)
	}
	return `What is measured, works with * also in a quick run:

` + works.String() + `
Prefill is reading a prompt, many tokens at once: limited by arithmetic. Decoding is writing, one token after the other: limited by how fast memory delivers
the weights. Each row names the limit of this machine, from a bandwidth and a peak measured in the same run, and the share of it that is reached. A ratio
says how many times better ragd is than the peer, whatever the unit.

Close everything else that runs: a busy machine halves the figures. The column "others" says how much of the processor other programs took.

To compare with llama.cpp, build it (cmake -B build && cmake --build build --target llama-bench llama-batched-bench llama-server) and pass --against
build/bin: llama-bench, llama-batched-bench and llama-server then run on the same file with the same number of threads, in turns with ragd. A build without
AVX-512 (-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON) is the match for RAGD_ISA=avx2.

  ragd bench                                                     the default answer model, under two minutes
  ragd bench ./a.gguf ./b.gguf --work prefill,decode             two files, two works
  ragd bench --full --against ~/llama.cpp/build/bin              everything, beside llama.cpp
  ragd bench --against llama.cpp=DIR --against ik_llama.cpp=DIR  beside two engines
  RAGD_ISA=avx2 ragd bench --against llama.cpp-avx2=DIR          without AVX-512
  RAGD_THREADS=1 ragd bench --work prefill,decode                on one thread
  ragd bench --work prefill,decode --prompts 512,2048 --depths 0,2048
  ragd bench --work decode --profile decode.pprof && go tool pprof -top decode.pprof
  ragd bench --work embed --embed-against 'python3 docs/bench/onnx_embed.py model.onnx'`
}

func (b benchCmd) Run(ctx ctxBinding, a *app) error {
	works, err := b.works()
	if err != nil {
		return err
	}
	if err := b.check(); err != nil {
		return err
	}
	s := bench.Suite{
		Threads: threadsOf(a), KV: a.kv(), Full: b.Full, Prompts: b.Prompts, Depths: b.Depths, Streams: b.Streams,
		Repeat: b.Repeat, Clients: b.Clients, Commit: commit(), CPU: bench.CPUName(),
	}
	for _, spec := range b.Against {
		p, err := bench.NewPeer(ctx, spec, s.Threads)
		if err != nil {
			return err
		}
		s.Peers = append(s.Peers, p)
	}
	stop, err := b.profile()
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("%s, %d threads, %s kernels, %s key/value cache, median of %d\n\n", s.CPU, s.Threads, kernel.Active(), a.kv(), b.Repeat)
	fmt.Printf("%-42s %11s %-10s %-18s %10s %6s %9s %6s %6s\n", "work", "ragd", "", "peer", "", "ratio", "limit", "share", "others")
	if err := os.MkdirAll(b.Out, 0o755); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	table := filepath.Join(b.Out, cmp.Or(b.Machine, machineName(s.CPU))+".csv")
	s.Report = func(r bench.Row) error {
		printRow(r)
		return bench.Append(table, r)
	}
	if err := b.measure(ctx, a, &s, works); err != nil {
		return err
	}
	return draw(table)
}

// works are those that the command line asks for.
func (b benchCmd) works() ([]bench.Work, error) {
	for _, name := range b.Work {
		if !slices.ContainsFunc(bench.Works, func(w bench.Work) bool { return w.Name == name }) {
			return nil, fmt.Errorf("%w: --work %s: there is no such work; 'ragd bench --help' lists them", errUsage, name)
		}
	}
	var works []bench.Work
	for _, w := range bench.Works {
		if slices.Contains(b.Work, w.Name) || len(b.Work) == 0 && (w.Quick || b.Full) {
			works = append(works, w)
		}
	}
	return works, nil
}

// check refuses numbers that make no sense, before minutes are spent.
func (b benchCmd) check() error {
	const most = 1 << 20
	for _, flag := range []struct {
		name   string
		values []int
		least  int
	}{
		{"repeat", []int{b.Repeat}, 1}, {"clients", []int{b.Clients}, 1}, {"prompts", b.Prompts, 1}, {"depths", b.Depths, 0}, {"streams", b.Streams, 1},
	} {
		for _, v := range flag.values {
			if v < flag.least || v > most {
				return fmt.Errorf("%w: --%s %d: it must be between %d and %d", errUsage, flag.name, v, flag.least, most)
			}
		}
	}
	return nil
}

// measure does the works for every model; what does not depend on the answer model is done once.
func (b benchCmd) measure(ctx context.Context, a *app, s *bench.Suite, works []bench.Work) error {
	names := b.Models
	if len(names) == 0 {
		names = []string{""}
	}
	for i, name := range names {
		for _, w := range works {
			switch {
			case (w.Encoder || w.Name == "limits") && i > 0:
				continue
			case w.Encoder:
				if err := b.encoder(ctx, a, s); err != nil {
					return err
				}
			case w.Name == "limits":
			default:
				path, err := a.benchModel(ctx, name)
				if err != nil {
					return err
				}
				s.Path = path
			}
			if err := s.Run(ctx, w.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// benchModel is the model of that name, or the default one.
func (a *app) benchModel(ctx context.Context, name string) (string, error) {
	if name == "" {
		return a.answerModelPath(ctx)
	}
	return a.modelPath(ctx, name)
}

// encoder sets what the embedding work needs.
func (b benchCmd) encoder(ctx context.Context, a *app, s *bench.Suite) error {
	set, _ := a.defaults()
	name := cmp.Or(a.Embedder, set.Embed)
	path, err := a.modelPath(ctx, name)
	if err != nil {
		return err
	}
	s.Embed = bench.Embedding{Path: path, Profile: profile(name), Reference: b.EmbedReference, Against: strings.Fields(b.EmbedAgainst)}
	return nil
}

// profile starts a processor profile where one is asked for.
func (b benchCmd) profile() (stop func(), err error) {
	if b.Profile == "" {
		return func() {}, nil
	}
	f, err := os.Create(b.Profile)
	if err != nil {
		return nil, fmt.Errorf("bench: --profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, fmt.Errorf("bench: --profile: %w", err)
	}
	return func() {
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			fmt.Fprintf(os.Stderr, "ragd: bench: --profile: %v\n", err)
		}
	}, nil
}

// draw makes the plot beside the table.
func draw(table string) error {
	rows, err := bench.ReadTable(table)
	if err != nil {
		return err
	}
	plot := strings.TrimSuffix(table, ".csv") + ".svg"
	if err := os.WriteFile(plot, bench.Plot(rows), 0o644); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	fmt.Printf("\n%s\n%s\n", table, plot)
	return nil
}

func printRow(r bench.Row) {
	peer, ratio, limit, share := "", "", "", ""
	if r.Peer != "" {
		peer, ratio = number(r.PeerValue), fmt.Sprintf("%.2f", r.Ratio)
	}
	if r.Limit > 0 {
		limit, share = number(r.Limit), fmt.Sprintf("%.0f %%", 100*r.Share)
	}
	name := r.Work
	if r.Model != "" {
		name = shorten(r.Model, 14) + " " + r.Work
	}
	fmt.Printf("%-42s %11s %-10s %-18s %10s %6s %9s %6s %5.0f%%\n", name, number(r.Value), r.Unit, r.Peer, peer, ratio, limit, share, 100*r.Others)
	if r.Note != "" {
		fmt.Printf("    %s\n", r.Note)
	}
}

func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n]
}

// number has three digits at least.
func number(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.3f", x)
}

// threadsOf is the number of workers that a pool of this configuration has.
func threadsOf(a *app) int {
	p := kernel.NewPool(a.Threads)
	defer p.Close()
	return p.Threads()
}

// machineName makes a file name of the processor's name and its threads.
func machineName(cpu string) string {
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(cpu), "-"), "-")
	return cmp.Or(name, "machine") + "-" + strconv.Itoa(runtime.NumCPU()) + "-cores"
}
