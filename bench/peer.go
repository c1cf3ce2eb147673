package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Peer is llama-bench of a llama.cpp build.
type Peer struct {
	binary  string
	model   string
	threads int
}

// NewPeer returns the llama-bench in dir, for the model at path.
func NewPeer(dir, path string, threads int) (*Peer, error) {
	binary := filepath.Join(dir, "llama-bench")
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("bench: --against %s: there is no llama-bench in it: %w", dir, err)
	}
	return &Peer{binary: binary, model: path, threads: threads}, nil
}

// Run does c once (llama-bench warms up by itself) and returns tokens per second.
func (p *Peer) Run(ctx context.Context, c Case) (float64, error) {
	cmd := exec.CommandContext(ctx, p.binary, "-m", p.model, "-t", strconv.Itoa(p.threads), "-p", strconv.Itoa(c.Prompt), "-n", strconv.Itoa(c.Decode),
		"-d", strconv.Itoa(c.Depth), "-r", "1", "-o", "json")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return 0, fmt.Errorf("bench: llama-bench: %w: %s", err, exit.Stderr)
	} else if err != nil {
		return 0, fmt.Errorf("bench: llama-bench: %w", err)
	}
	var rows []struct {
		AvgTS float64 `json:"avg_ts"`
	}
	if err := json.Unmarshal(out, &rows); err != nil || len(rows) != 1 {
		return 0, fmt.Errorf("bench: llama-bench printed %d rows, want 1: %w", len(rows), err)
	}
	return rows[0].AvgTS, nil
}
