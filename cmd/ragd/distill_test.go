package main

import (
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/distill"
	"ragd/retrieve"
)

// judged makes a run in which the student changes nDCG of the hybrid ranking and of the one with the cross-encoder by these amounts.
func judged(hybrid, reread float64) *judgedRun {
	j := &judgedRun{Heldout: 40}
	for _, w := range []way{{Name: "hybrid"}, {Name: "hybrid, student", Against: "hybrid"}, {Name: "20 reread"}, {Name: "20 reread, student", Against: "20 reread"}} {
		for i := range j.Heldout {
			v := 0.5 + 0.01*float64(i%3)
			switch w.Name {
			case "hybrid, student":
				v += hybrid + 0.005*float64(i%2)
			case "20 reread, student":
				v += reread
			}
			w.each = append(w.each, v)
		}
		j.Ways = append(j.Ways, w)
	}
	j.compare(1)
	return j
}

func TestStudentThatDoesNotGainIsRefused(t *testing.T) {
	require.True(t, judged(0.02, 0).Pass)
	require.True(t, judged(0.02, -0.005).Pass)
	none := judged(-0.0025, 0)
	require.False(t, none.Pass)
	require.Contains(t, none.Verdict, "no gain")
	loses := judged(0.02, -0.02)
	require.False(t, loses.Pass)
	require.Contains(t, loses.Verdict, "may lose")

	a := &app{globals: globals{DataDir: t.TempDir()}}
	slot := rankingSlot("e", "", "handbook")
	weights, err := (&distill.Ranker{Dim: 2, Weights: [distill.Features]float32{0, 0, 1, 1}}).Marshal()
	require.NoError(t, err)
	for _, e := range []distill.Entry{{ID: "bad", Slot: slot, Gain: loses.Verdict}, {ID: "good", Slot: slot, Gain: "gains", Pass: true}} {
		require.NoError(t, a.students().Add(e, map[string][]byte{rankerFile: weights}))
	}
	require.ErrorContains(t, distillInstallCmd{ID: "bad"}.Run(a), "may lose")
	choose, err := a.rankers("e")
	require.NoError(t, err)
	require.Nil(t, choose)

	require.NoError(t, distillInstallCmd{ID: "good"}.Run(a))
	choose, err = a.rankers("e")
	require.NoError(t, err)
	require.NotNil(t, choose(retrieve.Filter{Corpora: []string{"handbook"}}))
	for _, f := range []retrieve.Filter{{}, {Corpora: []string{"other"}}, {Corpora: []string{"handbook", "other"}}, {Tenant: "acme", Corpora: []string{"handbook"}}} {
		require.Nil(t, choose(f), "%+v", f)
	}
	other, err := a.rankers("another embedder")
	require.NoError(t, err)
	require.Nil(t, other(retrieve.Filter{Corpora: []string{"handbook"}}))

	require.NoError(t, os.WriteFile(filepath.Join(a.students().Path("good"), rankerFile), []byte("{}"), 0o600))
	_, err = a.rankers("e")
	require.ErrorContains(t, err, "ragd distill revert "+slot)
	require.NoError(t, distillRevertCmd{}.Run(a))
	choose, err = a.rankers("e")
	require.NoError(t, err)
	require.Nil(t, choose)
}

// TestDistillRefusesEarly: what could only fail after the teacher's minutes, or worse, is refused before anything is opened.
func TestDistillRefusesEarly(t *testing.T) {
	nan := math.NaN()
	for message, change := range map[string]func(*distillCausalCmd){
		"context must be positive": func(k *distillCausalCmd) { k.Window = 0 },
		"width, layers":            func(k *distillCausalCmd) { k.Window = -3 },
		"less than a window":       func(k *distillCausalCmd) { k.Tokens = -1 },
		"steps, batch":             func(k *distillCausalCmd) { k.Steps = 0 },
		"steps, batch and":         func(k *distillCausalCmd) { k.Batch = -1 },
		"too many for a step":      func(k *distillCausalCmd) { k.Batch = 1e9 },
		"no token to learn":        func(k *distillCausalCmd) { k.Vocabulary = 0 },
		"too large to train":       func(k *distillCausalCmd) { k.Layers = 1e6 },
		"feed-forward width":       func(k *distillCausalCmd) { k.Width = 0 },
		"temperature is NaN":       func(k *distillCausalCmd) { k.Temperature = float32(nan) },
		"temperature is +Inf":      func(k *distillCausalCmd) { k.Temperature = float32(math.Inf(1)) },
		"share is 2":               func(k *distillCausalCmd) { k.Soft = 2 },
		"learning rate is NaN":     func(k *distillCausalCmd) { k.Rate = nan },
		"cannot be split":          func(k *distillCausalCmd) { k.Width = 200 },
	} {
		k := distillCausalCmd{Tokens: 65536, Steps: 600, Batch: 8, Window: 128, Vocabulary: 4096, Width: 192, Layers: 4, Rate: 0.002, Temperature: 1, Soft: 0.9}
		require.NoError(t, k.check())
		change(&k)
		err := k.Run(ctxBinding{t.Context()}, nil)
		require.ErrorIs(t, err, errUsage)
		require.ErrorContains(t, err, message)
	}
	for message, change := range map[string]func(*distillRetrievalCmd){
		"either a corpus":       func(k *distillRetrievalCmd) { k.Set = "x" },
		"too few questions":     func(k *distillRetrievalCmd) { k.Limit = -5 },
		"too few questions; at": func(k *distillRetrievalCmd) { k.Limit = 19 },
		"--candidates 1":        func(k *distillRetrievalCmd) { k.Candidates = 1 },
		"--candidates -1":       func(k *distillRetrievalCmd) { k.Candidates = -1 },
		"--candidates 1000":     func(k *distillRetrievalCmd) { k.Candidates = 1000 },
		"rank must not":         func(k *distillRetrievalCmd) { k.Rank = -1 },
		"temperature, rate":     func(k *distillRetrievalCmd) { k.Temperature = nan },
	} {
		k := distillRetrievalCmd{Corpus: "c", Limit: 200, Candidates: 20, Temperature: 2}
		require.NoError(t, k.check())
		change(&k)
		err := k.Run(ctxBinding{t.Context()}, nil)
		require.ErrorIs(t, err, errUsage)
		require.ErrorContains(t, err, message)
	}
	r := &rankingRun{command: distillRetrievalCmd{Temperature: 2}, app: &app{progress: &progress{out: io.Discard}}}
	err := r.run(t.Context(), make([]asked, 19), make([]asked, 20)) // no database, no teacher
	require.ErrorIs(t, err, distill.ErrTooLittle)
	require.ErrorContains(t, err, "19 training questions")
}

func TestReadQuestions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "asked.txt")
	require.NoError(t, os.WriteFile(path, []byte("How  many days?\n\nHow many days?\r\nWho\xff?\n"), 0o600))
	all, err := readQuestions(path)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "How many days?", all[0].Text)
	require.Equal(t, "Who\uFFFD?", all[1].Text)
	r := &rankingRun{command: distillRetrievalCmd{Limit: 100, Seed: 1}}
	train, heldout := r.halves(all)
	require.Len(t, append(train, heldout...), 2)
}

// counted is a cross-encoder that counts the pairs it reads.
type counted struct{ read *int }

func (counted) Model() string { return "counted" }

func (c counted) Score(_ context.Context, query string, passages []string) ([]float32, error) {
	*c.read += len(passages)
	scores := make([]float32, len(passages))
	for i, p := range passages {
		scores[i] = float32(len(p) + len(query))
	}
	return scores, nil
}

func TestPairsAreReadOnce(t *testing.T) {
	read := 0
	dir := t.TempDir()
	m, err := openMemo(dir, counted{&read})
	require.NoError(t, err)
	for _, passages := range [][]string{{"a", "bb"}, {"bb", "ccc", "a"}, {}} {
		scores, err := m.Score(t.Context(), "q", passages)
		require.NoError(t, err)
		for i, p := range passages {
			require.Equal(t, float32(1+len(p)), scores[i])
		}
	}
	require.Equal(t, 3, read)
	m.close()
	m, err = openMemo(dir, counted{&read})
	require.NoError(t, err)
	defer m.close()
	_, err = m.Score(t.Context(), "q", []string{"ccc", "dddd"})
	require.NoError(t, err)
	require.Equal(t, 4, read, "after a kill")
}

func TestDocumentTexts(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.md"), []byte("# Leave\n\nThirty days.\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.docx"), []byte("PK\x03\x04 broken"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "corpus.jsonl"), []byte(`{"id":"1","title":"T","text":"one"}`+"\n"+`{"id":"2","title":"","text":"two"}`+"\n"), 0o600))
	var told strings.Builder
	a := &app{progress: &progress{out: &told}}
	texts, err := a.documentTexts(t.Context(), nil, []string{dir})
	require.NoError(t, err)
	require.Len(t, texts, 3)
	require.Contains(t, texts[0], "Thirty days.")
	require.Equal(t, []string{"T\none", "\ntwo"}, texts[1:])
	require.Contains(t, told.String(), "left out")
	_, err = a.documentTexts(t.Context(), nil, nil)
	require.ErrorContains(t, err, "no text")
}
