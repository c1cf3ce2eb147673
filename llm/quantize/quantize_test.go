package quantize

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/model"
	"ragd/llm/quant"
)

const archDir = "../model/testdata/arch/"

func open(t testing.TB, path string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func mix(t testing.TB, name string) Mix {
	t.Helper()
	m, err := ParseMix(name)
	require.NoError(t, err)
	return m
}

func newPool(t testing.TB) *kernel.Pool {
	p := kernel.NewPool(2)
	t.Cleanup(p.Close)
	return p
}

// writeWide writes a llama of nine layers whose rows are multiples of 256, from one seed: the model that testdata/make.py had
// the reference tool quantize.
func writeWide(t testing.TB, path string) {
	t.Helper()
	const embd, ffn, kv, vocab, layers = 256, 512, 128, 384, 9
	shapes := [][]any{{"token_embd.weight", embd, vocab}, {"output.weight", embd, vocab}, {"output_norm.weight", embd}}
	for i := range layers {
		p := fmt.Sprintf("blk.%d.", i)
		shapes = append(shapes, []any{p + "attn_norm.weight", embd}, []any{p + "ffn_norm.weight", embd}, []any{p + "attn_q.weight", embd, embd},
			[]any{p + "attn_k.weight", embd, kv}, []any{p + "attn_v.weight", embd, kv}, []any{p + "attn_output.weight", embd, embd},
			[]any{p + "ffn_gate.weight", embd, ffn}, []any{p + "ffn_up.weight", embd, ffn}, []any{p + "ffn_down.weight", ffn, embd})
	}
	base := open(t, archDir+"llama.f32.gguf")
	rng := rand.New(rand.NewPCG(20, 26))
	require.NoError(t, gguf.Create(path, "llama", func(w *gguf.Writer) error {
		for key, n := range map[string]int{
			"block_count": layers, "embedding_length": embd, "feed_forward_length": ffn, "attention.head_count": 4, "attention.head_count_kv": 2,
			"rope.dimension_count": 64, "attention.key_length": 64, "attention.value_length": 64,
		} {
			w.SetUint("llama."+key, n)
		}
		w.Copy(base)
		for _, s := range shapes {
			var shape []int
			for _, n := range s[1:] {
				shape = append(shape, n.(int))
			}
			w.Declare(s[0].(string), quant.F32, shape...)
		}
		if err := w.Begin(); err != nil {
			return err
		}
		for _, s := range shapes {
			n := 1
			for _, d := range s[1:] {
				n *= d.(int)
			}
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(rng.Float64()+rng.Float64()+rng.Float64()-1.5) / 8
				if rng.IntN(500) == 0 {
					x[i] *= 12
				}
				if len(s) == 2 {
					x[i] += 1
				}
			}
			data := make([]byte, 4*n)
			if err := quant.Encode(quant.F32, data, x); err != nil {
				return err
			}
			if err := w.Write(s[0].(string), data); err != nil {
				return err
			}
		}
		return nil
	}))
}

// TestReferenceTool: types and bytes of every tensor are those that llama.cpp's quantize tool makes of the same model.
func TestReferenceTool(t *testing.T) {
	source := filepath.Join(t.TempDir(), "wide.gguf")
	writeWide(t, source)
	if keep := os.Getenv("RAGD_WRITE_WIDE"); keep != "" { // for testdata/make.py
		writeWide(t, keep)
	}
	raw, err := os.ReadFile("testdata/reference.json")
	require.NoError(t, err)
	var reference map[string]map[string]struct{ Type, SHA256 string }
	require.NoError(t, json.Unmarshal(raw, &reference))
	require.Len(t, reference, len(Mixes()))
	f := open(t, source)
	for name, want := range reference {
		t.Run(name, func(t *testing.T) {
			counts := []int{3}
			if name == "Q4_K_M" {
				counts = []int{1, 3}
			}
			for _, threads := range counts {
				out := filepath.Join(t.TempDir(), "out.gguf")
				_, err := File(context.Background(), f, out, Options{Mix: mix(t, name), Threads: threads})
				require.NoError(t, err)
				got := open(t, out)
				require.Len(t, got.Tensors(), len(want))
				for _, x := range got.Tensors() {
					require.Equal(t, want[x.Name].Type, x.Type.String(), x.Name)
					sum := sha256.Sum256(x.Data)
					require.Equal(t, want[x.Name].SHA256, hex.EncodeToString(sum[:]), x.Name)
				}
			}
		})
	}
}

// TestNarrowModels: rows that are no multiple of 256 take blocks of 32, the report says so, and every result runs.
func TestNarrowModels(t *testing.T) {
	pool := newPool(t)
	for _, name := range []string{"llama", "phi3", "gemma3", "qwen2"} {
		for _, m := range Mixes() {
			t.Run(name+"/"+m.Name, func(t *testing.T) {
				f := open(t, archDir+name+".f32.gguf")
				out := filepath.Join(t.TempDir(), "out.gguf")
				r, err := File(context.Background(), f, out, Options{Mix: m, Threads: 2})
				require.NoError(t, err)
				for _, x := range r.Tensors {
					if x.Rounded && m.Name != "F16" {
						elems, _ := x.To.Block()
						require.Equal(t, 32, elems, x.Name)
						require.Positive(t, x.RelError, x.Name)
						require.Less(t, x.RelError, 0.2, x.Name)
						require.Greater(t, x.Outlier, 1.0, x.Name)
					}
				}
				require.Less(t, r.Bytes, r.SourceBytes)
				loaded, err := model.Load(open(t, out), pool, model.Options{})
				require.NoError(t, err)
				loaded.Close()
			})
		}
	}
}

// TestRefusals: what is rounded already, unknown mixes, an interrupted run. Nothing is left behind.
func TestRefusals(t *testing.T) {
	_, err := ParseMix("Q4_K_XL")
	require.ErrorContains(t, err, `"Q4_K_XL" is not offered; choose one of: F16, Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q4_0`)
	dir := t.TempDir()
	first := filepath.Join(dir, "q8.gguf")
	f := open(t, archDir+"llama.f32.gguf")
	_, err = File(context.Background(), f, first, Options{Mix: mix(t, "q8_0")})
	require.NoError(t, err)

	q8 := open(t, first)
	second := filepath.Join(dir, "q4.gguf")
	_, err = File(context.Background(), q8, second, Options{Mix: mix(t, "Q4_0")})
	require.ErrorIs(t, err, ErrQuantized)
	require.ErrorContains(t, err, "token_embd.weight is Q8_0")
	_, err = File(context.Background(), q8, second, Options{Mix: mix(t, "Q4_0"), Requantize: true})
	require.NoError(t, err)
	r, err := File(context.Background(), q8, filepath.Join(dir, "same.gguf"), Options{Mix: mix(t, "Q8_0")})
	require.NoError(t, err, "what has the type already is copied")
	require.Zero(t, r.Tensors[0].RelError)

	ctx, cancel := context.WithCancel(context.Background())
	_, err = File(ctx, f, filepath.Join(dir, "cancelled.gguf"), Options{Mix: mix(t, "Q8_0"), Progress: func(int64, int64) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)
	_, err = File(context.Background(), f, filepath.Join(dir, "missing", "out.gguf"), Options{Mix: mix(t, "Q8_0")})
	require.Error(t, err)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 3)
}

// TestImportance: for the first layer's projections the importance is Σ(norm(embedding))²/n, computed here from the file.
func TestImportance(t *testing.T) {
	f := open(t, archDir+"llama.f32.gguf")
	text := strings.Repeat("a cab, a bad dab; ", 40)
	imp, err := MeasureImportance(context.Background(), f, newPool(t), strings.NewReader(text), nil)
	require.NoError(t, err)
	require.Contains(t, imp, "output.weight")
	tok := tokensOf(t, f, text)
	embd, cols := decoded(t, f, "token_embd.weight"), 64
	norm := decoded(t, f, "blk.0.attn_norm.weight")
	eps, _ := f.Float("llama.attention.layer_norm_rms_epsilon")
	want := make([]float64, cols)
	for _, id := range tok {
		row := embd[int(id)*cols:][:cols]
		square := 0.0
		for _, v := range row {
			square += float64(v) * float64(v)
		}
		inv := 1 / math.Sqrt(square/float64(cols)+eps)
		for i, v := range row {
			x := float64(v) * inv * float64(norm[i])
			want[i] += x * x / float64(len(tok))
		}
	}
	for _, name := range []string{"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"} {
		require.Len(t, imp[name], cols)
		for i := range want {
			require.InEpsilon(t, want[i], imp[name][i], 1e-4, "%s column %d", name, i)
		}
	}
	require.Len(t, imp["blk.2.ffn_down.weight"], 160)

	out := filepath.Join(t.TempDir(), "out.gguf")
	r, err := File(context.Background(), f, out, Options{Mix: mix(t, "Q4_K_M"), Importance: imp, Threads: 2})
	require.NoError(t, err)
	plain, err := File(context.Background(), f, out, Options{Mix: mix(t, "Q4_K_M"), Threads: 2})
	require.NoError(t, err)
	require.NotEqual(t, plain.Tensors, r.Tensors, "the importance changes the rounding")

	_, err = MeasureImportance(context.Background(), f, newPool(t), strings.NewReader("ab"), nil)
	require.ErrorContains(t, err, "at least 16")
	_, err = MeasureImportance(context.Background(), open(t, archDir+"bert.f32.gguf"), newPool(t), strings.NewReader(text), nil)
	require.Error(t, err)
	_, err = MeasureImportance(context.Background(), f, newPool(t), iotest.ErrReader(io.ErrClosedPipe), nil)
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

// TestCompare: a model compared with itself differs by the rounding of activations alone, and less exact files differ more.
func TestCompare(t *testing.T) {
	f, pool, dir := open(t, archDir+"llama.f32.gguf"), newPool(t), t.TempDir()
	last := 0.0
	for _, name := range []string{"F16", "Q8_0", "Q4_0"} {
		out := filepath.Join(dir, name+".gguf")
		_, err := File(context.Background(), f, out, Options{Mix: mix(t, name), Threads: 2})
		require.NoError(t, err)
		q, err := Compare(context.Background(), f, open(t, out), pool, Text[:4000], nil)
		require.NoError(t, err)
		require.Positive(t, q.Tokens)
		require.Greater(t, q.MeanKL, last, name)
		require.LessOrEqual(t, q.MedianKL, q.P99KL)
		require.LessOrEqual(t, q.P99KL, q.MaxKL)
		require.InEpsilon(t, q.BasePerplexity, q.Perplexity, 0.1)
		require.Greater(t, q.SameTop, 0.3) // the logits of random weights are close to each other
		require.Positive(t, q.Speed)
		last = q.MeanKL
	}
	_, err := Compare(context.Background(), f, f, pool, "short", nil)
	require.ErrorContains(t, err, "at least")
	bert := open(t, archDir+"bert.f32.gguf")
	out := filepath.Join(dir, "bert.gguf")
	_, err = File(context.Background(), bert, out, Options{Mix: mix(t, "Q8_0"), Threads: 2})
	require.NoError(t, err)
	q, err := CompareEncoders(context.Background(), bert, open(t, out), pool, Text[:2000])
	require.NoError(t, err)
	require.Greater(t, q.MinCosine, 0.99)
	require.LessOrEqual(t, q.MeanCosine, 1.0001)
}

// TestDivergence: Σ p ln(p/q) by hand, and the percentiles of a known list.
func TestDivergence(t *testing.T) {
	ln := func(p ...float64) []float32 {
		out := make([]float32, len(p))
		for i, x := range p {
			out[i] = float32(math.Log(x)) + 3 // logits are known up to a constant
		}
		return out
	}
	require.InDelta(t, 0.5*math.Log(0.5/0.25)+0.5*math.Log(0.5/0.75), divergence(ln(0.5, 0.5), ln(0.25, 0.75)), 1e-6)
	require.Zero(t, divergence(ln(0.1, 0.9), ln(0.1, 0.9)))
	s := &scores{same: 150}
	for i := range 200 {
		s.log, s.baseLog = append(s.log, -math.Ln2), append(s.baseLog, -math.Ln2/2)
		s.divergence = append(s.divergence, float64(199-i))
	}
	var q Quality
	s.summarise(&q)
	require.InDelta(t, 2, q.Perplexity, 1e-12)
	require.InDelta(t, math.Sqrt2, q.BasePerplexity, 1e-12)
	require.InDelta(t, math.Sqrt2/2-0.5, q.RMSDeltaP, 1e-12)
	require.Equal(t, Quality{Tokens: 200, Perplexity: q.Perplexity, BasePerplexity: q.BasePerplexity, MeanKL: 99.5, MedianKL: 100, P99KL: 198, MaxKL: 199,
		SameTop: 0.75, RMSDeltaP: q.RMSDeltaP}, q)
}
