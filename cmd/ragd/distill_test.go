package main

import (
	"context"
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
