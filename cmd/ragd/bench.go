package main

import (
	"context"
	"fmt"
	"path/filepath"

	"ragd/bench"
	"ragd/llm/kernel"
)

type benchCmd struct {
	Prompt  int    `help:"Tokens of the prefill case." default:"512"`
	Decode  int    `help:"Tokens of the decoding case." default:"64"`
	Depth   int    `help:"Tokens in the cache before the decoding case." default:"0"`
	Repeat  int    `help:"Repetitions; the median counts." default:"3"`
	Against string `help:"Folder of a llama.cpp build: its llama-bench runs on the same file in turns with ragd." type:"existingdir" placeholder:"DIR"`
}

// Help is shown by ragd bench --help.
func (benchCmd) Help() string {
	return `Prefill is reading a prompt, many tokens at once: limited by arithmetic. Decoding is writing, one token after the other: limited by how fast memory
delivers the weights. The time to the first token of an answer is its prompt's length divided by the prefill rate.

Close everything else that runs: a busy machine halves the figures. To compare with llama.cpp, build it (cmake -B build && cmake --build build --target
llama-bench) and pass --against build/bin; both engines then run in turns on the same file with the same number of threads.

  ragd bench --model Qwen2.5-Coder-0.5B-Instruct-Q4_K_M
  ragd bench --model ./model.gguf --depth 2048 --against ~/llama.cpp/build/bin
  RAGD_ISA=avx2 ragd bench`
}

func (b benchCmd) Run(ctx ctxBinding, a *app) error {
	path, err := a.answerModelPath(ctx)
	if err != nil {
		return err
	}
	m, err := bench.Open(path, a.Threads, max(b.Prompt, b.Depth+b.Decode)+kernel.PageTokens, a.kv())
	if err != nil {
		return err
	}
	defer m.Close()
	var peer *bench.Peer
	if b.Against != "" {
		if peer, err = bench.NewPeer(b.Against, path, m.Threads()); err != nil {
			return err
		}
	}
	fmt.Printf("%s, %d threads, %s kernels, %s key/value cache, median of %d\n\n", filepath.Base(path), m.Threads(), kernel.Active(), a.kv(), b.Repeat)
	fmt.Printf("%-16s %12s", "work", "ragd tok/s")
	if peer != nil {
		fmt.Printf(" %16s %8s", "llama.cpp tok/s", "ratio")
	}
	fmt.Println()
	for _, c := range []bench.Case{{Prompt: b.Prompt}, {Decode: b.Decode, Depth: b.Depth}} {
		if err := b.measure(ctx, m, peer, c); err != nil {
			return err
		}
	}
	return nil
}

// measure repeats one case, in turns with the peer, and prints its row.
func (b benchCmd) measure(ctx context.Context, m *bench.Model, peer *bench.Peer, c bench.Case) error {
	if _, err := m.Run(c); err != nil { // the first run touches the memory
		return err
	}
	var ours, theirs []float64
	for range b.Repeat {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rate, err := m.Run(c)
		if err != nil {
			return err
		}
		ours = append(ours, rate)
		if peer == nil {
			continue
		}
		if rate, err = peer.Run(ctx, c); err != nil {
			return err
		}
		theirs = append(theirs, rate)
	}
	fmt.Printf("%-16s %12.1f", c, bench.Median(ours))
	if peer != nil {
		fmt.Printf(" %16.1f %8.2f", bench.Median(theirs), bench.Median(ours)/bench.Median(theirs))
	}
	if c.Prompt > 0 {
		fmt.Printf("   (first token of such a prompt after %.2f s)", float64(c.Prompt)/bench.Median(ours))
	}
	fmt.Println()
	return nil
}
