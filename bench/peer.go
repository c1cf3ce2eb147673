package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Peer is a build of llama.cpp or of a program with the same tools: llama-bench, llama-batched-bench, llama-server.
type Peer struct {
	Name    string
	dir     string
	depth   bool // llama-bench knows -d; otherwise -gp
	threads int
}

// NewPeer returns the build in dir; spec is DIR or NAME=DIR.
func NewPeer(ctx context.Context, spec string, threads int) (*Peer, error) {
	name, dir, named := strings.Cut(spec, "=")
	if !named {
		name, dir = "llama.cpp", spec
	}
	p := &Peer{Name: name, dir: dir, threads: threads}
	if !p.has("llama-bench") {
		return nil, fmt.Errorf("bench: --against %s: there is no llama-bench in %s: build it with "+
			"cmake --build build --target llama-bench llama-batched-bench llama-server and name its bin folder", spec, dir)
	}
	help, err := p.output(ctx, "llama-bench", "--help")
	if err != nil {
		return nil, err
	}
	p.depth = bytes.Contains(help, []byte("--n-depth"))
	return p, nil
}

// has reports whether the build has that tool.
func (p *Peer) has(tool string) bool {
	_, err := os.Stat(filepath.Join(p.dir, tool))
	return err == nil
}

func (p *Peer) output(ctx context.Context, tool string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(p.dir, tool), args...).Output()
	if err == nil {
		return out, nil
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("bench: %s of %s: %w: %s", tool, p.Name, err, tail(exit.Stderr))
	}
	return nil, fmt.Errorf("bench: %s of %s: %w", tool, p.Name, err)
}

// tail is the end of a program's complaints, where the reason is.
func tail(b []byte) string {
	const most = 300
	return strings.TrimSpace(string(b[max(0, len(b)-most):]))
}

// Run does c once (llama-bench warms up by itself) and returns tokens per second.
func (p *Peer) Run(ctx context.Context, model string, c Case) (float64, error) {
	out, err := p.output(ctx, "llama-bench", p.caseArgs(model, c)...)
	if err != nil {
		return 0, err
	}
	return parseLlamaBench(out, c)
}

// caseArgs are llama-bench's arguments. Forks without -d measure decoding at a depth with -gp, and cannot measure prefill there.
func (p *Peer) caseArgs(model string, c Case) []string {
	args := []string{"-m", model, "-t", strconv.Itoa(p.threads), "-r", "1", "-o", "json"}
	if c.Depth > 0 && !p.depth {
		return append(args, "-p", "0", "-n", "0", "-gp", fmt.Sprintf("%d,%d", c.Depth, c.Decode))
	}
	args = append(args, "-p", strconv.Itoa(c.Prompt), "-n", strconv.Itoa(c.Decode))
	if c.Depth > 0 {
		args = append(args, "-d", strconv.Itoa(c.Depth))
	}
	return args
}

// parseLlamaBench reads what llama-bench -o json prints for one case.
func parseLlamaBench(out []byte, c Case) (float64, error) {
	var rows []struct {
		Prompt int     `json:"n_prompt"`
		Decode int     `json:"n_gen"`
		AvgTS  float64 `json:"avg_ts"`
	}
	if err := json.Unmarshal(out, &rows); err != nil {
		return 0, fmt.Errorf("bench: llama-bench printed no JSON: %w", err)
	}
	for _, r := range rows {
		if r.Decode == c.Decode && (r.Prompt == c.Prompt || c.Decode > 0) && r.AvgTS > 0 {
			return r.AvgTS, nil
		}
	}
	return 0, fmt.Errorf("bench: llama-bench printed no row for %s", c)
}

// RunBatch is Model.RunBatch for several numbers of streams in one run of llama-batched-bench.
func (p *Peer) RunBatch(ctx context.Context, model string, streams []int, prompt, decode int) ([]float64, error) {
	var counts []string
	most := 0
	for _, n := range streams {
		counts = append(counts, strconv.Itoa(n))
		most = max(most, n)
	}
	threads := strconv.Itoa(p.threads)
	out, err := p.output(ctx, "llama-batched-bench", "-m", model, "-t", threads, "-tb", threads, "-c", strconv.Itoa(most*(prompt+decode)),
		"-b", "2048", "-ub", "512", "-npp", strconv.Itoa(prompt), "-ntg", strconv.Itoa(decode), "-npl", strings.Join(counts, ","), "-pps", "--output-format", "jsonl")
	if err != nil {
		return nil, err
	}
	return parseBatchedBench(out, streams)
}

// parseBatchedBench reads the decoding rates that llama-batched-bench --output-format jsonl prints among its log.
func parseBatchedBench(out []byte, streams []int) ([]float64, error) {
	rates := map[int]float64{}
	for line := range bytes.Lines(out) {
		var row struct {
			Streams int     `json:"pl"`
			Rate    float64 `json:"speed_tg"`
		}
		if json.Unmarshal(line, &row) == nil && row.Streams > 0 {
			rates[row.Streams] = row.Rate
		}
	}
	list := make([]float64, len(streams))
	for i, n := range streams {
		if list[i] = rates[n]; list[i] <= 0 {
			return nil, fmt.Errorf("bench: llama-batched-bench printed nothing for %d streams: does it know --output-format jsonl?", n)
		}
	}
	return list, nil
}
