package embed

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/convert"
	"ragd/llm/kernel"
)

// tiny is an encoder with random weights, WordPiece and 128 positions.
const tiny = "../llm/model/testdata/arch/bert.f32.gguf"

func newPool(t testing.TB) *kernel.Pool {
	p := kernel.NewPool(2)
	t.Cleanup(p.Close)
	return p
}

func open1(t testing.TB, path string, profile Profile) *Encoder {
	t.Helper()
	e, err := Open(path, newPool(t), profile)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	return e
}

func openTinyReranker(t testing.TB, maxTokens int) *Reranker {
	t.Helper()
	path := filepath.Join(t.TempDir(), "reranker.gguf")
	require.NoError(t, convert.HuggingFace("../llm/model/testdata/hf/bert-reranker", path, convert.Options{}))
	r, err := OpenReranker(path, newPool(t), Profile{MaxTokens: maxTokens})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// awkward texts: none may fail, none may depend on its neighbours.
var awkward = []string{
	"the quick brown fox",
	"",
	" \t\n",
	"\x00",
	"\xff\xfe broken \xc3",
	"[CLS] [SEP] [MASK]",
	strings.Repeat("word ", 40),
	strings.Repeat("long", 5000),
	"Grüße aus 東京 🎉",
	strings.Repeat("many words in a text ", 20000),
	strings.Repeat(" ", 300000) + "x",
}

func TestEmbedIsIndependentOfBatching(t *testing.T) {
	e := open1(t, tiny, Profile{Name: "tiny"})
	require.Equal(t, "tiny", e.Model())
	require.Equal(t, 64, e.Dim())
	ctx := context.Background()
	all, err := e.Embed(ctx, Passage, awkward)
	require.NoError(t, err)
	require.Len(t, all, len(awkward))
	for i, text := range awkward {
		alone, err := e.Embed(ctx, Passage, []string{text})
		require.NoError(t, err)
		require.Equal(t, alone[0], all[i], "text %d", i)
		norm := 0.0
		for _, x := range all[i] {
			norm += float64(x) * float64(x)
		}
		require.InDelta(t, 1, math.Sqrt(norm), 1e-5, "text %d", i)
	}
	none, err := e.Embed(ctx, Passage, nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

// A role's prefix is part of the text that is embedded.
func TestPrefixes(t *testing.T) {
	ctx := context.Background()
	e := open1(t, tiny, Profile{QueryPrefix: "query: ", PassagePrefix: "passage: "})
	require.Equal(t, "bert.f32", e.Model())
	plain := open1(t, tiny, Profile{})
	q, err := e.Embed(ctx, Query, []string{"text"})
	require.NoError(t, err)
	p, err := e.Embed(ctx, Passage, []string{"text"})
	require.NoError(t, err)
	want, err := plain.Embed(ctx, Query, []string{"query: text", "passage: text"})
	require.NoError(t, err)
	require.Equal(t, want, []Vector{q[0], p[0]})
	require.Equal(t, plain.MaxPassageTokens()-plain.Tokens("passage: "), e.MaxPassageTokens())
}

// Texts are cut after as many tokens as fit, before the closing special token, and
// looking only at the head of a huge text changes nothing.
func TestTruncation(t *testing.T) {
	e := open1(t, tiny, Profile{MaxTokens: 10})
	for i, text := range awkward {
		whole := e.tok.Encode(strings.ToValidUTF8(text, "\uFFFD"), true, false)
		ids := e.encode(text)
		if len(whole) <= 10 {
			require.Equal(t, whole, ids, "text %d", i)
			continue
		}
		require.Equal(t, append(whole[:9:9], whole[len(whole)-1]), ids, "text %d", i)
	}
	// The text of a control token stays text.
	sep, ok := e.tok.SEP()
	require.True(t, ok)
	ids := e.tok.Encode("[SEP]", false, false)
	require.NotContains(t, ids, sep)
}

func TestSplitOffsets(t *testing.T) {
	e := open1(t, tiny, Profile{})
	text := "Ein Text, in Stücke geteilt."
	ends := e.SplitOffsets(text)
	require.Len(t, ends, e.Tokens(text))
	last := 0
	for _, end := range ends {
		require.GreaterOrEqual(t, end, last)
		last = end
	}
	require.LessOrEqual(t, last, len(text))
}

// countdown is a context that ends after its Err was looked at n times: a
// cancellation between batches, without clocks.
type countdown struct {
	context.Context
	n int
}

func (c *countdown) Err() error {
	if c.n--; c.n < 0 {
		return context.Canceled
	}
	return nil
}

// A cancelled call returns the vectors it finished.
func TestCancellation(t *testing.T) {
	e := open1(t, tiny, Profile{})
	texts := make([]string, 40)
	for i := range texts {
		texts[i] = strings.Repeat("some words here ", 40)
	}
	want, err := e.Embed(context.Background(), Passage, texts)
	require.NoError(t, err)
	got, err := e.Embed(&countdown{context.Background(), 2}, Passage, texts)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, got, 2*(batchTokens/128))
	require.Equal(t, want[:len(got)], got)

	cause := context.Canceled
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	got, err = e.Embed(ctx, Passage, texts)
	require.ErrorIs(t, err, cause)
	require.Empty(t, got)
}

func TestOpenRefuses(t *testing.T) {
	p := newPool(t)
	for _, c := range []struct {
		message string
		profile Profile
	}{
		{"asks for 129 tokens; the model takes 128", Profile{MaxTokens: 129}},
		{`pooling "max" is not known`, Profile{Pooling: "max"}},
		{"scores pairs", Profile{Pooling: "rank"}},
		{"the prefix", Profile{MaxTokens: 4, QueryPrefix: "a long instruction before every query: "}},
	} {
		_, err := Open(tiny, p, c.profile)
		require.ErrorContains(t, err, c.message)
	}
	_, err := OpenReranker(tiny, p, Profile{})
	require.ErrorContains(t, err, "cls.output.weight")
	_, err = Open(filepath.Join(t.TempDir(), "absent.gguf"), p, Profile{})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Open("../llm/model/testdata/arch/llama.f32.gguf", p, Profile{})
	require.ErrorContains(t, err, `"llama" is not a supported encoder`)
}

func TestRerank(t *testing.T) {
	ctx := context.Background()
	for _, maxTokens := range []int{0, 16} {
		r := openTinyReranker(t, maxTokens)
		for _, query := range []string{"what is a fox", "", strings.Repeat("a long question ", 1000), "\xff\x00"} {
			all, err := r.Score(ctx, query, awkward)
			require.NoError(t, err)
			require.Len(t, all, len(awkward))
			for i, passage := range awkward {
				alone, err := r.Score(ctx, query, []string{passage})
				require.NoError(t, err)
				require.Equal(t, alone[0], all[i], "query %.10q passage %d", query, i)
			}
		}
		scores, err := r.Score(&countdown{context.Background(), 0}, "q", awkward)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, scores)
	}
}

func TestEmptyScore(t *testing.T) {
	scores, err := openTinyReranker(t, 0).Score(context.Background(), "q", nil)
	require.NoError(t, err)
	require.Empty(t, scores)
}

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, v), path)
}
