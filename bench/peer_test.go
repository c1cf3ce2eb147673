package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The files in testdata were printed by llama-bench, llama-batched-bench and llama-server of late 2026 (shortened).
func captured(t *testing.T, name string) []byte {
	b, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return b
}

func TestParseLlamaBench(t *testing.T) {
	out := captured(t, "llama-bench.json")
	rate, err := parseLlamaBench(out, Case{Prompt: 64})
	require.NoError(t, err)
	require.InDelta(t, 6.13076, rate, 1e-9)
	rate, err = parseLlamaBench(out, Case{Decode: 8})
	require.NoError(t, err)
	require.InDelta(t, 0.871822, rate, 1e-9)
	_, err = parseLlamaBench(out, Case{Prompt: 512})
	require.ErrorContains(t, err, "no row for prefill 512")
	for _, bad := range []string{"", "build: 1", "{}", `[{"n_gen": "x"}]`} {
		_, err = parseLlamaBench([]byte(bad), Case{Decode: 8})
		require.ErrorContains(t, err, "no JSON", bad)
	}
}

func TestParseBatchedBench(t *testing.T) {
	out := append([]byte("main: n_kv_max = 512\n"), captured(t, "llama-batched-bench.jsonl")...)
	rates, err := parseBatchedBench(out, []int{1, 2})
	require.NoError(t, err)
	require.Equal(t, []float64{3.094038, 0.905260}, rates)
	_, err = parseBatchedBench(out, []int{1, 4})
	require.ErrorContains(t, err, "nothing for 4 streams")
}

func TestReadCompletion(t *testing.T) {
	clock := time.Unix(0, 0)
	tick := func() time.Time { clock = clock.Add(time.Second); return clock }
	a, err := readCompletion(strings.NewReader(string(captured(t, "llama-server.sse"))), time.Unix(0, 0), tick)
	require.NoError(t, err)
	require.Equal(t, Answer{First: time.Second, Total: 2 * time.Second, Tokens: 4, Cached: 4}, a)
	_, err = readCompletion(strings.NewReader("data: {\"content\": \"a\"}\n\n"), time.Unix(0, 0), tick)
	require.ErrorContains(t, err, "ended early")
	_, err = readCompletion(strings.NewReader("data: error\n\n"), time.Unix(0, 0), tick)
	require.ErrorContains(t, err, `event "error"`)
}

func TestCaseArgs(t *testing.T) {
	args := func(depth bool, c Case) string {
		return strings.Join((&Peer{depth: depth, threads: 2}).caseArgs("m.gguf", c), " ")
	}
	const common = "-m m.gguf -t 2 -r 1 -o json "
	require.Equal(t, common+"-p 512 -n 0", args(true, Case{Prompt: 512}))
	require.Equal(t, common+"-p 0 -n 128 -d 2048", args(true, Case{Decode: 128, Depth: 2048}))
	require.Equal(t, common+"-p 0 -n 128", args(false, Case{Decode: 128}))
	require.Equal(t, common+"-p 0 -n 0 -gp 2048,128", args(false, Case{Decode: 128, Depth: 2048}))
}

// TestPeer runs against shell scripts that print what the programs print.
func TestPeer(t *testing.T) {
	dir := t.TempDir()
	_, err := NewPeer(t.Context(), "mine="+dir, 2)
	require.ErrorContains(t, err, "no llama-bench")
	script := func(tool, body string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, tool), []byte("#!/bin/sh\n"+body), 0o755))
	}
	testdata, err := filepath.Abs("testdata")
	require.NoError(t, err)
	script("llama-bench", `case "$*" in --help) echo "-d, --n-depth <n>";; *"-n 9"*) echo "no such model" >&2; exit 3;; *) cat `+testdata+`/llama-bench.json;; esac`)
	script("llama-batched-bench", "cat "+testdata+"/llama-batched-bench.jsonl")
	p, err := NewPeer(t.Context(), "mine="+dir, 2)
	require.NoError(t, err)
	require.Equal(t, "mine", p.Name)
	require.True(t, p.depth)
	rate, err := p.Run(t.Context(), "m.gguf", Case{Prompt: 64})
	require.NoError(t, err)
	require.InDelta(t, 6.13076, rate, 1e-9)
	_, err = p.Run(t.Context(), "m.gguf", Case{Decode: 9})
	require.ErrorContains(t, err, "no such model")
	rates, err := p.RunBatch(t.Context(), "m.gguf", []int{2}, 32, 4)
	require.NoError(t, err)
	require.Equal(t, []float64{0.905260}, rates)
	require.False(t, p.has("llama-server"))
	script("llama-server", "echo cannot bind >&2; exit 1")
	_, err = p.Serve(t.Context(), "m.gguf", 1, 512)
	require.ErrorContains(t, err, "cannot bind")
}

func TestParseEmbedPeer(t *testing.T) {
	name, rate, err := parseEmbedPeer([]byte(`{"name": "onnxruntime 1.32", "tokens_per_second": 2971.5}` + "\n"))
	require.NoError(t, err)
	require.Equal(t, "onnxruntime 1.32", name)
	require.InDelta(t, 2971.5, rate, 0)
	for _, bad := range []string{"", "{}", `{"name": "x"}`, `{"name": "x", "tokens_per_second": -1}`} {
		_, _, err := parseEmbedPeer([]byte(bad))
		require.ErrorContains(t, err, "must print", bad)
	}
}
