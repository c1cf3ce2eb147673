package embed

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/convert"
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

func TestJudgeRefuses(t *testing.T) {
	_, err := openJudge(t, "tiny.gguf", Profile{})
	require.ErrorContains(t, err, "does not say that it is a reranker")
	_, err = openJudge(t, "reranker.gguf", Profile{MaxTokens: 2000})
	require.ErrorContains(t, err, "the model takes 1024")
	_, err = openJudge(t, "reranker.gguf", Profile{MaxTokens: 128})
	require.ErrorContains(t, err, "at least 64 are needed")
}
