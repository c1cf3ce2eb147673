package embed

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm"
	"ragd/llm/convert"
	"ragd/llm/gguf"
	"ragd/llm/quant"
	"ragd/llm/quantize"
	"ragd/llm/tokenizer"
)

const tinyJudge = "../llm/convert/testdata/hf/qwen3-reranker"

func openJudge(t testing.TB, file string, profile Profile) (*Reranker, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), file)
	require.NoError(t, convert.HuggingFace(tinyJudge, path, convert.Options{Name: "tiny"}))
	return OpenReranker(path, newPool(t), profile)
}

// TestJudge: prompt, tokens and scores are those of transformers.
func TestJudge(t *testing.T) {
	r, err := openJudge(t, "tiny-reranker.gguf", Profile{})
	require.NoError(t, err)
	defer r.Close()
	require.Equal(t, "tiny-reranker", r.Model())
	require.Equal(t, 1024, r.MaxTokens())
	raw, err := os.ReadFile(filepath.Join(tinyJudge, "expected.json"))
	require.NoError(t, err)
	var ref struct {
		Pairs []struct {
			Query, Document string
			Tokens          []int32
			Score           float32
		}
	}
	require.NoError(t, json.Unmarshal(raw, &ref))
	require.NotEmpty(t, ref.Pairs)
	ctx := context.Background()
	for _, p := range ref.Pairs {
		shared := r.judge.shared(p.Query)
		require.Equal(t, p.Tokens, append(shared, r.judge.rest(p.Document, len(shared))...), "%q", p.Document)
		got, err := r.Score(ctx, p.Query, []string{"something else first", p.Document, strings.Repeat("long ", 500), p.Document})
		require.NoError(t, err)
		require.Len(t, got, 4)
		require.Equal(t, got[1], got[3], "a score does not depend on the passages before")
		require.InDelta(t, p.Score, got[1], 0.15, "%q: weights and activations are rounded", p.Document)
	}
	got, err := r.Score(ctx, strings.Repeat("endless query ", 500), []string{"\xff broken", strings.Repeat("x", 1<<20)})
	require.NoError(t, err)
	require.Len(t, got, 2)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	got, err = r.Score(cancelled, "q", []string{"p"})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, got)
}

// rewrite copies the model src and replaces tensors by float32 data; empty data leaves a tensor out.
func rewrite(t testing.TB, src, dst string, labels []string, tensors map[string][]float32) string {
	t.Helper()
	f, err := gguf.Open(src)
	require.NoError(t, err)
	defer f.Close()
	dst = filepath.Join(t.TempDir(), dst)
	require.NoError(t, gguf.Create(dst, f.Architecture(), func(w *gguf.Writer) error {
		w.Copy(f)
		if labels != nil {
			w.SetStrings("qwen3.classifier.output_labels", labels)
		}
		for _, x := range f.Tensors() {
			if _, ok := tensors[x.Name]; !ok {
				w.Declare(x.Name, x.Type, x.Shape...)
			}
		}
		const cols = 64
		names := slices.Sorted(maps.Keys(tensors))
		for _, name := range names {
			if data := tensors[name]; len(data) > 0 {
				w.Declare(name, quant.F32, cols, len(data)/cols)
			}
		}
		require.NoError(t, w.Begin())
		for _, x := range f.Tensors() {
			if _, ok := tensors[x.Name]; !ok {
				require.NoError(t, w.Write(x.Name, x.Data))
			}
		}
		for _, name := range names {
			if data := tensors[name]; len(data) > 0 {
				raw := make([]byte, 4*len(data))
				require.NoError(t, quant.Encode(quant.F32, raw, data))
				require.NoError(t, w.Write(name, raw))
			}
		}
		return nil
	}))
	return dst
}

// TestJudgeClassifier: a file may hold only the output rows of the two answers, in either order, and has the scores of the model with all of its output
// rows, tied to the embeddings or not.
func TestJudgeClassifier(t *testing.T) {
	src := filepath.Join(t.TempDir(), "reranker.gguf")
	require.NoError(t, convert.HuggingFace(tinyJudge, src, convert.Options{Name: "tiny"}))
	f, err := gguf.Open(src)
	require.NoError(t, err)
	defer f.Close()
	tok, err := tokenizer.FromGGUF(f)
	require.NoError(t, err)
	yes, _ := tok.ID("yes")
	no, _ := tok.ID("no")
	embd, ok := f.Tensor("token_embd.weight")
	require.True(t, ok)
	rows := make([]float32, embd.Rows()*embd.Cols())
	require.NoError(t, quant.Decode(embd.Type, rows, embd.Data))
	cols := embd.Cols()
	row := func(x []float32, id int32) []float32 { return x[int(id)*cols:][:cols] }
	other := slices.Clone(rows)
	slices.Reverse(other)

	score := func(path string) []float32 {
		r, err := OpenReranker(path, newPool(t), Profile{})
		require.NoError(t, err)
		defer r.Close()
		got, err := r.Score(context.Background(), "a query", []string{"first", "the second, longer document", ""})
		require.NoError(t, err)
		return got
	}
	head := func(x []float32, ids ...int32) (out []float32) {
		for _, id := range ids {
			out = append(out, row(x, id)...)
		}
		return out
	}
	tied := score(rewrite(t, src, "reranker-f.gguf", nil, map[string][]float32{"token_embd.weight": rows}))
	untied := score(rewrite(t, src, "reranker-u.gguf", nil, map[string][]float32{"token_embd.weight": rows, "output.weight": other}))
	require.NotEqual(t, tied, untied)
	for _, c := range []struct {
		name    string
		want    []float32
		labels  []string
		tensors map[string][]float32
	}{
		{"tied", tied, nil, map[string][]float32{"cls.output.weight": head(rows, yes, no)}},
		{"untied", untied, nil, map[string][]float32{"cls.output.weight": head(other, yes, no)}},
		{"untied, labelled", untied, []string{"no", "yes"}, map[string][]float32{"cls.output.weight": head(other, no, yes)}},
		{"untied, with all rows", untied, nil, map[string][]float32{"cls.output.weight": head(other, yes, no), "output.weight": other}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.tensors["token_embd.weight"] = rows
			require.InDeltaSlice(t, c.want, score(rewrite(t, src, "m-reranker.gguf", c.labels, c.tensors)), 1e-5)
		})
	}
	for message, labels := range map[string][]string{"2 rows for the labels": {"yes", "no", "maybe"}, `no output "yes"`: {"ja", "no"}} {
		path := rewrite(t, src, "reranker.gguf", labels, map[string][]float32{"cls.output.weight": head(rows, yes, no)})
		_, err := OpenReranker(path, newPool(t), Profile{})
		require.ErrorContains(t, err, message)
	}
	path := rewrite(t, src, "reranker.gguf", nil, map[string][]float32{"cls.output.weight": head(other, yes, no)})
	_, err = llm.Open(path, llm.Config{Threads: 1})
	require.ErrorContains(t, err, "only answers yes or no")

	classifier, err := gguf.Open(path)
	require.NoError(t, err)
	defer classifier.Close()
	mix, err := quantize.ParseMix("Q8_0")
	require.NoError(t, err)
	rounded := filepath.Join(t.TempDir(), "reranker-q8.gguf")
	_, err = quantize.File(context.Background(), classifier, rounded, quantize.Options{Mix: mix, Threads: 1, Requantize: true})
	require.NoError(t, err)
	require.InDeltaSlice(t, untied, score(rounded), 0.5)
	candidate, err := gguf.Open(rounded)
	require.NoError(t, err)
	defer candidate.Close()
	q, err := quantize.CompareEncoders(context.Background(), classifier, candidate, newPool(t), quantize.Text)
	require.NoError(t, err)
	require.Greater(t, q.MeanScore, 0.0)
	require.Less(t, q.MeanScore, 0.2)
}

func TestJudgeRefuses(t *testing.T) {
	_, err := openJudge(t, "tiny.gguf", Profile{})
	require.ErrorContains(t, err, "does not say that it is a reranker")
	_, err = openJudge(t, "reranker.gguf", Profile{MaxTokens: 2000})
	require.ErrorContains(t, err, "the model takes 1024")
	_, err = openJudge(t, "reranker.gguf", Profile{MaxTokens: 128})
	require.ErrorContains(t, err, "at least 64 are needed")
}
