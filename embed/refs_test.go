package embed

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/internal/modeltest"
	"ragd/llm/model"
)

// modelPath finds a model.
func modelPath(t testing.TB, name string) string { return modeltest.Path(t, name) }

// refs is the folder of handed references.
func refs(t testing.TB) string {
	dir := os.Getenv("RAGD_REFS")
	if dir == "" {
		t.Skip("RAGD_REFS is not set: the folder that holds refs/")
	}
	return filepath.Join(dir, "refs", "encoder")
}

// Vectors agree with onnxruntime's (llama.cpp's float path for nomic): on the float
// path up to the order of sums, on the product's own path up to the rounding of
// activations and of half floats. The int8 reference rounds activations, too.
func TestRealEmbedders(t *testing.T) {
	for name, limit := range map[string]struct{ float, own float64 }{
		"bge-small-en-v1.5-int8":    {0.99, 0.99},
		"nomic-embed-text-v1.5-f16": {0.9999, 0.997},
		"bge-small-en-v1.5-fp32":    {0.9999, 0.9999},
		"e5-small-v2-fp32":          {0.9999, 0.9999},
		"all-MiniLM-L6-v2-fp32":     {0.9999, 0.9999},
	} {
		t.Run(name, func(t *testing.T) {
			var ref struct {
				Pooling string
				Cases   []struct {
					Text   string
					Vector []float32
				}
			}
			readJSON(t, filepath.Join(refs(t), name+".json"), &ref)
			e := open1(t, modelPath(t, name), Profile{Pooling: ref.Pooling, MaxTokens: 512})
			exact, err := open(modelPath(t, name), newPool(t), 512, model.Options{Float: true})
			require.NoError(t, err)
			t.Cleanup(exact.Close)
			float := &Encoder{texts: *exact, profile: e.profile, pooling: e.pooling}
			texts := make([]string, len(ref.Cases))
			for i, c := range ref.Cases {
				texts[i] = c.Text
			}
			lowest := func(e *Encoder) float64 {
				vectors, err := e.Embed(context.Background(), Passage, texts)
				require.NoError(t, err)
				worst := 1.0
				for i, c := range ref.Cases {
					dot := 0.0
					for j, x := range c.Vector {
						dot += float64(x) * float64(vectors[i][j])
					}
					worst = min(worst, dot)
				}
				return worst
			}
			f, own := lowest(float), lowest(e)
			t.Logf("%s: lowest cosine %.5f float, %.5f own", name, f, own)
			require.Greater(t, f, limit.float)
			require.Greater(t, own, limit.own)
		})
	}
}

// Scores of the product's own path agree with onnxruntime's. Both quantize
// activations, in different ways, on a scale of about -12 to 10.
func TestRealReranker(t *testing.T) {
	var ref struct {
		Cases []struct {
			Query, Document string
			Score           float32
		}
	}
	const name = "ms-marco-MiniLM-L12-int8"
	readJSON(t, filepath.Join(refs(t), name+".json"), &ref)
	r, err := OpenReranker(modelPath(t, name), newPool(t), Profile{MaxTokens: 512})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	for _, c := range ref.Cases {
		scores, err := r.Score(context.Background(), c.Query, []string{c.Document})
		require.NoError(t, err)
		t.Logf("%q: %.3f, reference %.3f", c.Query, scores[0], c.Score)
		require.InDelta(t, c.Score, scores[0], 0.6)
	}
}

// BenchmarkEmbed embeds passages of 256 tokens.
func BenchmarkEmbed(b *testing.B) {
	for _, name := range []string{"bge-small-en-v1.5-int8", "nomic-embed-text-v1.5-f16"} {
		b.Run(name, func(b *testing.B) {
			e := open1(b, modelPath(b, name), Profile{Pooling: "cls"})
			passage, tokens := "", 0
			for tokens < 254 {
				passage += "the committee approved the revised travel policy for all regional offices "
				tokens = e.Tokens(passage)
			}
			passages := make([]string, 16)
			for i := range passages {
				passages[i] = passage
			}
			for b.Loop() {
				_, err := e.Embed(context.Background(), Passage, passages)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(len(passages)*(tokens+2)*b.N)/b.Elapsed().Seconds(), "tok/s")
		})
	}
}
