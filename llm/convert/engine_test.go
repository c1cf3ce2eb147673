package convert_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/convert"
	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/model"
	"ragd/llm/tokenizer"
)

// encoder converts a folder of the references and loads the result.
func encoder(t *testing.T, name string) (*model.Encoder, []byte) {
	t.Helper()
	root := os.Getenv("RAGD_REFS")
	if root == "" {
		t.Skip("RAGD_REFS is not set: it names the folder with the handed references")
	}
	dir := filepath.Join(root, "refs", "hf", name)
	out := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, convert.HuggingFace(dir, out, convert.Options{}))
	f, err := gguf.Open(out)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	pool := kernel.NewPool(1)
	t.Cleanup(pool.Close)
	e, err := model.LoadEncoder(f, pool, model.Options{Float: true})
	require.NoError(t, err)
	t.Cleanup(e.Close)
	expected, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	require.NoError(t, err)
	return e, expected
}

// TestModernBERT: the engine computes from the converted file what the original computes.
func TestModernBERT(t *testing.T) {
	e, expected := encoder(t, "modernbert")
	var ref struct {
		Cases []struct {
			Tokens    []int32
			CLS, Mean []float32
		}
	}
	require.NoError(t, json.Unmarshal(expected, &ref))
	require.NotEmpty(t, ref.Cases)
	for _, c := range ref.Cases {
		for pooling, want := range map[model.Pooling][]float32{model.PoolCLS: c.CLS, model.PoolMean: c.Mean} {
			got, err := e.Embed([][]int32{c.Tokens}, nil, pooling, false)
			require.NoError(t, err)
			require.InDeltaSlice(t, want, got[0], 2e-4, "%d tokens, %s", len(c.Tokens), pooling)
		}
	}
}

// TestReranker: pooler, classifier and segments survive.
func TestReranker(t *testing.T) {
	e, expected := encoder(t, "bert-reranker")
	var ref struct {
		Cases []struct {
			Tokens []int32
			Types  []int32 `json:"token_types"`
			Score  float64
		}
	}
	require.NoError(t, json.Unmarshal(expected, &ref))
	require.NotEmpty(t, ref.Cases)
	require.True(t, e.HasRankHead())
	require.Equal(t, model.PoolRank, e.Pooling())
	for _, c := range ref.Cases {
		got, err := e.Score([][]int32{c.Tokens}, [][]int32{c.Types})
		require.NoError(t, err)
		require.InDelta(t, c.Score, got[0], 1e-5)
	}
}

// TestRealEncoders converts the ONNX files of a folder laid out as the catalogue's sources are, and compares with the
// vectors and scores that ONNX Runtime computed from the same files.
func TestRealEncoders(t *testing.T) {
	root, sources := os.Getenv("RAGD_REFS"), os.Getenv("RAGD_ONNX")
	if root == "" || sources == "" {
		t.Skip("RAGD_REFS and RAGD_ONNX (a folder with bge/ and reranker/: model.onnx, tokenizer.json) are not set")
	}
	for _, c := range []struct{ dir, name string }{{"bge", "bge-small-en-v1.5-int8"}, {"reranker", "ms-marco-MiniLM-L12-int8"}} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "m.gguf")
			dir := filepath.Join(sources, c.dir)
			require.NoError(t, convert.ONNX(filepath.Join(dir, "model.onnx"), dir, out, convert.Options{Pooling: "cls", Heads: 12}))
			f, err := gguf.Open(out)
			require.NoError(t, err)
			defer f.Close()
			pool := kernel.NewPool(0)
			defer pool.Close()
			e, err := model.LoadEncoder(f, pool, model.Options{})
			require.NoError(t, err)
			defer e.Close()
			b, err := os.ReadFile(filepath.Join(root, "refs", "encoder", c.name+".json"))
			require.NoError(t, err)
			var ref struct {
				Cases []struct {
					IDs     []int32
					TypeIDs []int32 `json:"type_ids"`
					Vector  []float32
					Score   float64
				}
			}
			require.NoError(t, json.Unmarshal(b, &ref))
			worst := 0.0
			for _, r := range ref.Cases {
				if r.Vector == nil {
					s, err := e.Score([][]int32{r.IDs}, [][]int32{r.TypeIDs})
					require.NoError(t, err)
					worst = max(worst, math.Abs(float64(s[0])-r.Score))
					continue
				}
				v, err := e.Embed([][]int32{r.IDs}, nil, e.Pooling(), true)
				require.NoError(t, err)
				cosine := 0.0
				for i, x := range r.Vector {
					cosine += float64(x) * float64(v[0][i])
				}
				require.GreaterOrEqual(t, cosine, 0.99)
			}
			// ONNX Runtime rounds the activations of a whole tensor to 8 bits with one scale, the engine in blocks of 32.
			require.LessOrEqual(t, worst, 0.5)
			t.Logf("%d cases, largest difference of a score %.3f", len(ref.Cases), worst)
		})
	}
}

// TestONNXEngine: the engine computes from converted ONNX files what ONNX Runtime computes from the originals.
func TestONNXEngine(t *testing.T) {
	b, err := os.ReadFile("testdata/expected.json")
	require.NoError(t, err)
	var cases []struct {
		IDs, Types []int32
		Hidden     [][]float32
		Score      float64
	}
	require.NoError(t, json.Unmarshal(b, &cases))
	pool := kernel.NewPool(1)
	defer pool.Close()
	load := func(name string) *model.Encoder {
		out := filepath.Join(t.TempDir(), "m.gguf")
		require.NoError(t, convert.ONNX("testdata/"+name, "testdata", out, convert.Options{Heads: 2}))
		f, err := gguf.Open(out)
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		e, err := model.LoadEncoder(f, pool, model.Options{Float: true})
		require.NoError(t, err)
		t.Cleanup(e.Close)
		return e
	}
	encoder, reranker := load("encoder.onnx"), load("reranker_int8.onnx")
	for _, c := range cases {
		hidden, err := encoder.Hidden([][]int32{c.IDs}, [][]int32{c.Types})
		require.NoError(t, err)
		var want []float32
		for _, row := range c.Hidden {
			want = append(want, row...)
		}
		require.InDeltaSlice(t, want, hidden[0], 1e-4)
		score, err := reranker.Score([][]int32{c.IDs}, [][]int32{c.Types})
		require.NoError(t, err)
		require.InDelta(t, c.Score, score[0], 0.05, "ONNX Runtime rounds the activations to 8 bits")
	}
}

// TestXLMRoBERTa: positions, classifier and Unigram vocabulary arrive so that text in gives the original's score.
func TestXLMRoBERTa(t *testing.T) {
	b, err := os.ReadFile("testdata/xlmr/expected.json")
	require.NoError(t, err)
	var cases []struct {
		Query, Document string
		QueryIDs        []int32 `json:"query_ids"`
		IDs             []int32
		Score           float64
	}
	require.NoError(t, json.Unmarshal(b, &cases))
	out := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, convert.HuggingFace("testdata/xlmr", out, convert.Options{}))
	f, err := gguf.Open(out)
	require.NoError(t, err)
	defer f.Close()
	pool := kernel.NewPool(1)
	defer pool.Close()
	e, err := model.LoadEncoder(f, pool, model.Options{Float: true})
	require.NoError(t, err)
	defer e.Close()
	require.Equal(t, 32, e.MaxTokens())
	tok, err := tokenizer.FromGGUF(f)
	require.NoError(t, err)
	for _, c := range cases {
		require.Equal(t, c.QueryIDs, tok.Encode(c.Query, true, false))
		ids, types := tok.EncodePair(c.Query, c.Document, e.MaxTokens())
		require.Equal(t, c.IDs, ids)
		score, err := e.Score([][]int32{ids}, [][]int32{types})
		require.NoError(t, err)
		require.InDelta(t, c.Score, score[0], 1e-4)
	}
}

// TestDecoders: the engine computes from converted folders what transformers computes from the originals, on every
// kernel path.
func TestDecoders(t *testing.T) {
	before := kernel.Active()
	t.Cleanup(func() { require.NoError(t, kernel.SetISA(before)) })
	for _, isa := range kernel.Available() {
		for _, name := range []string{"gemma2", "phi4-mini", "qwen3-reranker"} {
			t.Run(isa.String()+"/"+name, func(t *testing.T) {
				require.NoError(t, kernel.SetISA(isa))
				checkDecoder(t, filepath.Join("testdata", "hf", name))
			})
		}
	}
}

// checkDecoder compares logits, best ids and a greedy continuation with expected.json of a folder.
func checkDecoder(t *testing.T, dir string) {
	b, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	require.NoError(t, err)
	var ref struct {
		Cases []struct {
			Tokens     []int32
			Argmax     []int
			LastLogits []float32 `json:"last_logits"`
		}
		Greedy struct{ Prompt, Continuation []int32 }
	}
	require.NoError(t, json.Unmarshal(b, &ref))
	out := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, convert.HuggingFace(dir, out, convert.Options{}))
	f, err := gguf.Open(out)
	require.NoError(t, err)
	defer f.Close()
	pool := kernel.NewPool(2)
	defer pool.Close()
	m, err := model.Load(f, pool, model.Options{Float: true})
	require.NoError(t, err)
	defer m.Close()
	for _, c := range ref.Cases {
		rows := logits(t, m, c.Tokens)
		require.InDeltaSlice(t, c.LastLogits, rows[len(rows)-1], 2e-3, "%d tokens", len(c.Tokens))
		for i, row := range rows {
			require.Equal(t, c.Argmax[i], kernel.ArgMax(row), "position %d of %d", i, len(c.Tokens))
		}
	}
	text := ref.Greedy.Prompt
	for i, want := range ref.Greedy.Continuation {
		rows := logits(t, m, text)
		best := int32(kernel.ArgMax(rows[len(rows)-1]))
		require.Equal(t, want, best, "token %d of the continuation", i)
		text = append(text, best)
	}
}

// logits runs tokens from position 0 and returns one row per token.
func logits(t *testing.T, m *model.Model, tokens []int32) [][]float32 {
	t.Helper()
	b := model.Batch{Tokens: tokens}
	var pages []int32
	for i := range tokens {
		b.Out = append(b.Out, i)
		if i%kernel.PageTokens == 0 {
			pages = append(pages, int32(len(pages)))
		}
	}
	b.Seqs = []model.Seq{{N: len(tokens), Pages: pages}}
	require.NoError(t, m.Forward(&b))
	var rows [][]float32
	for i := range tokens {
		rows = append(rows, b.Logits[i*m.Vocab():][:m.Vocab()])
	}
	return rows
}
