package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm"
	"ragd/llm/convert"
)

// TestGenerate: every way to choose tokens works from the flags, on a model whose context is shorter than the default.
func TestGenerate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, convert.HuggingFace(filepath.Join("..", "..", "llm", "convert", "testdata", "hf", "qwen3-reranker"), path, convert.Options{}))
	a := &app{globals: globals{Threads: 1, KV: "auto", Context: defaultContext}}
	_, err := llm.Open(path, llm.Config{Threads: 1})
	require.ErrorContains(t, err, "no chat template")
	engine, err := llm.Open(path, llm.Config{ContextTokens: a.contextTokens(), Threads: 1, Base: true})
	require.NoError(t, err)
	t.Cleanup(func() { engine.Close() })
	require.Equal(t, 1024, engine.ContextTokens())
	base := modelsGenerateCmd{Prompt: []string{"one", "two"}, Raw: true, MaxTokens: 12, Answers: 1, LengthPenalty: 1}
	run := func(change func(*modelsGenerateCmd)) string {
		k := base
		change(&k)
		r, err := k.request(engine)
		require.NoError(t, err)
		var out strings.Builder
		require.NoError(t, k.write(t.Context(), engine, r, &out))
		return out.String()
	}
	greedy := run(func(*modelsGenerateCmd) {})
	require.Equal(t, greedy, run(func(k *modelsGenerateCmd) { k.Temperature, k.TopK, k.Seed = 1, 1, 4 }))
	free := run(func(k *modelsGenerateCmd) { k.Temperature, k.Seed = 1, 4 })
	require.NotEqual(t, greedy, free)
	for topP, want := range map[float32]string{0: greedy, 1e-9: greedy, 1: free} {
		require.Equal(t, want, run(func(k *modelsGenerateCmd) { k.Temperature, k.Seed, k.TopP = 1, 4, &topP }), topP)
	}
	require.NotEqual(t, greedy, run(func(k *modelsGenerateCmd) { k.RepetitionPenalty = 5 }))
	require.Equal(t, "yes\n", run(func(k *modelsGenerateCmd) { k.Choice, k.LogitBias = []string{"yes"}, map[int32]float32{5: 3} }))
	several := run(func(k *modelsGenerateCmd) { k.Temperature, k.Answers, k.Logprobs = 1, 2, 3 })
	require.Contains(t, several, "1 (length): ")
	require.Contains(t, several, "2 (length): ")
	require.Contains(t, several, "%")

	schema := filepath.Join(t.TempDir(), "schema.json")
	require.NoError(t, os.WriteFile(schema, []byte(`{"enum":[{"a":1},[true]]}`), 0o600))
	var got struct {
		Answers []generated `json:"answers"`
		Prompt  int         `json:"prompt_tokens"`
	}
	require.NoError(t, json.Unmarshal([]byte(run(func(k *modelsGenerateCmd) {
		k.Schema, k.JSON, k.Beams, k.Answers, k.MaxTokens, k.Logprobs = schema, true, 3, 2, 40, 2
	})), &got))
	require.Len(t, got.Answers, 2)
	for _, x := range got.Answers {
		require.Contains(t, []string{`{"a":1}`, `{"a": 1}`, `[true]`}, x.Text)
		require.Equal(t, "stop", x.Finish)
		require.Len(t, x.Tokens[0].Top, 2)
	}
	require.Positive(t, got.Prompt)

	for message, change := range map[string]func(*modelsGenerateCmd){
		"-n must lie":        func(k *modelsGenerateCmd) { k.Answers = 0 },
		"--beams":            func(k *modelsGenerateCmd) { k.Beams = 1000 },
		"there is no token":  func(k *modelsGenerateCmd) { k.LogitBias = map[int32]float32{384: 1} },
		"no system message":  func(k *modelsGenerateCmd) { k.System = "x" },
		"option 0":           func(k *modelsGenerateCmd) { k.Choice = []string{""} },
		"unexpected end":     func(k *modelsGenerateCmd) { k.Schema = os.DevNull },
		"temperature is NaN": func(k *modelsGenerateCmd) { k.Temperature = float32(math.NaN()) },
		"length penalty":     func(k *modelsGenerateCmd) { k.Beams, k.LengthPenalty = 2, math.NaN() },
		"stop string":        func(k *modelsGenerateCmd) { k.Stop = []string{""} },
		"prompt too long":    func(k *modelsGenerateCmd) { k.Prompt = []string{strings.Repeat("long ", 4000)} },
	} {
		k := base
		change(&k)
		r, err := k.request(engine)
		if err == nil {
			err = k.write(t.Context(), engine, r, &strings.Builder{})
		}
		require.ErrorContains(t, err, message)
	}
}
