package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/embed"
	"ragd/llm/convert"
	"ragd/llm/kernel"
)

const testModels = "../../llm/model/testdata"

// probe answers the lines of requests; every answer is one line.
func probe(t *testing.T, path string, o probeOptions, requests ...string) []probeResponse {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, runProbe(context.Background(), path, strings.NewReader(strings.Join(requests, "\n")), &out, o))
	var answers []probeResponse
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var a probeResponse
		require.NoError(t, json.Unmarshal([]byte(line), &a), line)
		answers = append(answers, a)
	}
	return answers
}

// floats reads the logits of a decoded response.
func floats(v any) (x []float64) {
	for _, n := range v.([]any) {
		x = append(x, n.(float64))
	}
	return x
}

func TestProbeGenerator(t *testing.T) {
	var ref struct {
		Cases []struct {
			Tokens     []int32
			Argmax     []int
			LastLogits []float64 `json:"last_logits"`
		}
		Greedy struct {
			Prompt       []int32
			Continuation []int
		}
	}
	raw, err := os.ReadFile(filepath.Join(testModels, "arch", "qwen2.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &ref))
	line := func(fields map[string]any) string {
		raw, err := json.Marshal(fields)
		require.NoError(t, err)
		return string(raw)
	}
	c := ref.Cases[2]
	model := filepath.Join(testModels, "arch", "qwen2.f32.gguf")
	a := probe(t, model, probeOptions{Float: true, Threads: 2},
		line(map[string]any{"id": "a", "tokens": c.Tokens, "logits": "last"}), "",
		line(map[string]any{"id": 2, "tokens": c.Tokens, "logits": "all", "chunk": 7}),
		line(map[string]any{"tokens": ref.Greedy.Prompt, "greedy": len(ref.Greedy.Continuation)}),
		`{"text":"A small text.","raw":true}`,
		`{"text_hex":"ff00","add_special":false}`,
		`{"id":3,"tokens":[384]}`, `{"id":4}`, `{"id":5,"tokens":[]}`, `{not json`,
		`{"id":6,"tokens":[1],"logits":"some"}`, `{"id":7,"pair":["a","b"]}`, `{"id":8,"tokens":[1],"greedy":1000}`, `{"id":9,"text_hex":"xyz"}`,
		`{"id":10,"tokens":[1]}`)
	require.JSONEq(t, `"a"`, string(a[0].ID))
	require.Equal(t, c.Tokens, a[0].Tokens)
	require.Equal(t, c.Argmax, a[0].Argmax)
	require.InDeltaSlice(t, c.LastLogits, floats(a[0].Logits), 2e-3)
	require.Len(t, a[1].Logits, len(c.Tokens))
	require.Equal(t, a[0].Logits, a[1].Logits.([]any)[len(c.Tokens)-1])
	require.Equal(t, *a[0].LogProbSum, *a[1].LogProbSum)
	sum := 0.0
	for i, row := range a[1].Logits.([]any)[:len(c.Tokens)-1] {
		total := 0.0
		for _, x := range floats(row) {
			total += math.Exp(x)
		}
		sum += floats(row)[c.Tokens[i+1]] - math.Log(total)
	}
	require.InDelta(t, sum, *a[1].LogProbSum, 1e-3)
	require.Equal(t, ref.Greedy.Continuation, a[2].Greedy)
	require.NotEmpty(t, a[3].Tokens)
	require.Len(t, a[4].Tokens, 4, "U+FFFD and NUL")
	for i, message := range []string{"outside the vocabulary", "neither tokens nor text", "no tokens", "not valid JSON", "must be", "needs a reranker", "do not fit the context", "text_hex"} {
		require.Contains(t, a[5+i].Error, message)
		require.Nil(t, a[5+i].Tokens)
	}
	require.JSONEq(t, "10", string(a[13].ID), "later requests are answered")
	require.Len(t, a[13].Argmax, 1)

	for _, kv := range []kernel.KVType{kernel.KVF16, kernel.KVInt8} {
		b := probe(t, model, probeOptions{KV: kv}, line(map[string]any{"tokens": c.Tokens, "logits": "last"}))
		require.InDeltaSlice(t, c.LastLogits, floats(b[0].Logits), 0.5)
	}
}

func TestProbeEncoder(t *testing.T) {
	o := probeOptions{Profile: embed.Profile{PassagePrefix: "p: ", QueryPrefix: "q: ", Pooling: "cls", MaxTokens: 20}}
	a := probe(t, filepath.Join(testModels, "arch", "bert.f32.gguf"), o,
		`{"text":"fox","raw":true}`, `{"text":"p: fox","raw":true}`, `{"text":"fox"}`, `{"text":"q: fox","raw":true}`, `{"text":"fox","role":"query"}`,
		`{"text":"fox","raw":true,"normalise":false,"pooling":"mean"}`,
		`{"text":"`+strings.Repeat("fox ", 100)+`","raw":true}`,
		`{"tokens":[1,2],"token_types":[0,2]}`, `{"text":"fox","pooling":"max"}`, `{"text":"fox","greedy":3}`, `{"text":"fox","role":"other"}`, `{"pair":["a"]}`, `{"text":"a","pooling":"rank"}`)
	require.NotEqual(t, a[0].Vector, a[2].Vector)
	require.Equal(t, a[1].Vector, a[2].Vector)
	require.Equal(t, a[3].Vector, a[4].Vector)
	require.NotEqual(t, a[0].Vector, a[5].Vector)
	require.Len(t, a[6].Tokens, 20)
	require.Equal(t, a[0].Tokens[len(a[0].Tokens)-1], a[6].Tokens[19], "the closing token stays")
	for i, message := range []string{"segment id 2", "not known", "is an encoder", "role must be", "pair has 1", "no rank head"} {
		require.Contains(t, a[7+i].Error, message)
	}
}

func TestProbeReranker(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reranker.gguf")
	require.NoError(t, convert.HuggingFace(filepath.Join(testModels, "hf", "bert-reranker"), path, convert.Options{}))
	a := probe(t, path, probeOptions{Float: true}, `{"pair":["what","this"]}`, `{"pair":["what","`+strings.Repeat("this ", 1000)+`"]}`, `{"text":"x","pooling":"mean"}`)
	require.NotNil(t, a[0].Score)
	require.Contains(t, a[0].TokenTypes, int32(1))
	require.NotNil(t, a[1].Score)
	require.Len(t, a[1].Tokens, 128)
	require.Len(t, a[2].Vector, 64)
}

// TestProbeJudge: a language model that is a reranker scores pairs, too, and still has logits.
func TestProbeJudge(t *testing.T) {
	dir := filepath.Join("..", "..", "llm", "convert", "testdata", "hf", "qwen3-reranker")
	path := filepath.Join(t.TempDir(), "reranker.gguf")
	require.NoError(t, convert.HuggingFace(dir, path, convert.Options{}))
	raw, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	require.NoError(t, err)
	var ref struct {
		Pairs []struct {
			Query, Document string
			Score           float32
		}
	}
	require.NoError(t, json.Unmarshal(raw, &ref))
	line, err := json.Marshal(map[string]any{"pair": []string{ref.Pairs[0].Query, ref.Pairs[0].Document}})
	require.NoError(t, err)
	a := probe(t, path, probeOptions{}, string(line), `{"pair":["what"]}`, `{"tokens":[1,2]}`)
	require.NotNil(t, a[0].Score, a[0].Error)
	require.InDelta(t, ref.Pairs[0].Score, *a[0].Score, 0.15)
	require.Contains(t, a[1].Error, "[query, document]")
	require.Len(t, a[2].Argmax, 2)
}

func TestProbeModelErrors(t *testing.T) {
	err := runProbe(context.Background(), filepath.Join(t.TempDir(), "absent.gguf"), strings.NewReader(""), &bytes.Buffer{}, probeOptions{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err = runProbe(ctx, filepath.Join(testModels, "arch", "bert.f32.gguf"), strings.NewReader("{}"), &bytes.Buffer{}, probeOptions{})
	require.ErrorIs(t, err, context.Canceled)
}
