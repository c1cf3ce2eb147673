package eval

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/retrieve"
	"ragd/verify"
)

func TestResultsGoOnAfterAKill(t *testing.T) {
	path, h := filepath.Join(t.TempDir(), "r.jsonl"), Header{Kind: "answers", Set: "s", Settings: map[string]string{"model": "m"}}
	r, err := OpenResults[Answered](path, h)
	require.NoError(t, err)
	require.NoError(t, r.Add(Answered{ID: "a", Metrics: map[string]float64{"f1": 0.5}}))
	require.NoError(t, r.Add(Answered{ID: "b"}))
	require.NoError(t, r.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, whole[:len(whole)-5], 0o600)) // killed while writing
	r, err = OpenResults[Answered](path, h)
	require.NoError(t, err)
	require.Len(t, r.Records, 1)
	require.NoError(t, r.Add(Answered{ID: "b"}))
	require.NoError(t, r.Close())
	again, err := ReadResults[Answered](path)
	require.NoError(t, err)
	require.Len(t, again.Records, 2)
	_, err = OpenResults[Answered](path, Header{Kind: "answers", Set: "s"})
	require.ErrorContains(t, err, `other settings (model "m", now "")`)
}

func searched(id string, right int) Searched {
	s := Searched{ID: id, Gains: map[string]float64{"gold": 1}}
	for i := range 3 {
		gold, score := "other", float64(10-i)
		if i == right {
			gold = "gold"
		}
		s.Candidates = append(s.Candidates, Candidate{Passage: retrieve.PassageID(i + 1), Gold: gold, Lexical: &score})
	}
	return s
}

func write[T any](t *testing.T, h Header, records []T) string {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	r, err := OpenResults[T](path, h)
	require.NoError(t, err)
	for _, x := range records {
		require.NoError(t, r.Add(x))
	}
	require.NoError(t, r.Close())
	return path
}

func TestGateSeesARegression(t *testing.T) {
	var before, after []Searched
	for i := range 40 {
		id := string(rune('a' + i))
		before, after = append(before, searched(id, 0)), append(after, searched(id, 2))
	}
	h := Header{Kind: "retrieval", Set: "s"}
	a, err := ReadTable(write(t, h, before))
	require.NoError(t, err)
	b, err := ReadTable(write(t, h, after))
	require.NoError(t, err)
	var worse []string
	for _, c := range Regressions(Compare(a, b), 0.01) {
		worse = append(worse, c.Metric)
	}
	require.Equal(t, []string{"mrr@10", "ndcg@10"}, worse)
	require.Empty(t, Regressions(Compare(a, a), 0.01))
	require.Empty(t, Floors{Least: map[string]float64{"ndcg@10": 1}}.Failures(a))
	require.Len(t, Floors{Least: map[string]float64{"ndcg@10": 1, "f1": 0.1}}.Failures(b), 2, "what is not measured fails, too")
}

func TestLegsAreRankedFromTheKeptScores(t *testing.T) {
	s := searched("q", 2)
	near, best := 0.9, float32(5)
	s.Candidates[2].Dense, s.Candidates[2].Rerank = &near, &best
	w := retrieve.DefaultWeights
	require.Equal(t, []string{"other", "gold"}, s.Rank(retrieve.LegLexical, w))
	require.Equal(t, []string{"gold"}, s.Rank(retrieve.LegDense, w))
	require.Equal(t, []string{"gold", "other"}, s.Rank(retrieve.LegRerank, w))
}

func TestTuningNeverSeesTheHeldOutPart(t *testing.T) {
	sets := [][]Answered{{{ID: "a", HeldOut: true, Answerable: true}, {ID: "b", Answerable: true}, {ID: "c"}}}
	tune, held, err := AbstentionExamples(sets)
	require.NoError(t, err)
	require.Len(t, tune, 2)
	require.Len(t, held, 1)
	_, _, err = AbstentionExamples([][]Answered{{{ID: "a", HeldOut: true}}})
	require.ErrorContains(t, err, "held-out part is not tuned on")
	_, _, err = GroundedExamples([][]Checked{{{ID: "a", HeldOut: true, Features: verify.Features{}}}})
	require.Error(t, err)
}

func TestReportHoldsEveryQuestionAndNoScriptOfADocument(t *testing.T) {
	records := []Answered{{ID: "a", Question: "Why <script>alert(1)</script>?", Answerable: true, Confidence: 0.9, Text: "Because [1].",
		Statements: []StatementResult{{Text: "Because.", Supported: true, Quotes: []string{"since </script>"}}}, Metrics: map[string]float64{"f1": 1}},
		{ID: "b", Question: "Who?", Abstained: true, Metrics: map[string]float64{}}}
	var out bytes.Buffer
	require.NoError(t, WriteReport(&out, Header{Set: "s"}, records))
	page := out.String()
	require.NotContains(t, page, "<script>alert")
	require.Equal(t, 1, strings.Count(page, "</script>"))
	require.Contains(t, page, "Who?")
	require.Contains(t, page, "<svg")
	require.NotContains(t, page, "http", "nothing is fetched")
}

func TestLabelsJudgeVerification(t *testing.T) {
	path := filepath.Join(t.TempDir(), "labels.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"id":"a","statement":0,"label":"supported"}
{"id":"a","statement":1,"label":"supported"}
{"id":"a","statement":1,"label":"unsupported"}
{"id":"a","statement":2,"label":"unsupported"}
{"id":"b","statement":0,"label":"supported"}
`), 0o600))
	labels, err := ReadLabels(path)
	require.NoError(t, err)
	require.Len(t, labels, 4, "a later label replaces an earlier one")
	j := Judge([]Answered{
		{ID: "a", Statements: []StatementResult{{Supported: true, Checked: 0.9}, {Checked: 0.1}, {Supported: true, Doubtful: true, Checked: 0.5}}},
		{ID: "b", Abstained: true, Statements: []StatementResult{{Supported: true, Checked: 0.8}}},
	}, labels)
	require.Equal(t, Judgement{Labelled: 4, Draft: 0.5, Kept: 0.5, Unmarked: 0, Marked: 1, FalseAlarms: 1, Missed: 1, AUROCChecked: 1}, j)
}

func TestDraftsAreChecked(t *testing.T) {
	const passage = "Every employee has 27 paid vacation days per year."
	d := readDraft("Question: How many vacation days does an employee have?\nAnswer: 27", passage)
	require.Equal(t, "How many vacation days does an employee have?", d.Text)
	require.Equal(t, []string{"27"}, d.Answers)
	require.Empty(t, d.Warnings)
	require.Empty(t, readDraft("How many?\n31 days of holiday", passage).Text, "its answer is not in the passage")
	require.NotEmpty(t, readDraft("How many days at Contoso?\n27", passage).Warnings)
	require.Empty(t, readDraft("no question", passage).Text)
}

func TestNearDuplicatesAcrossTheParts(t *testing.T) {
	yes, no := true, false
	d := &Dataset{Queries: []Query{{ID: "a", Text: "How many vacation days are there?", HeldOut: &yes}, {ID: "b", Text: "How many vacation days are there", HeldOut: &no},
		{ID: "c", Text: "Who pays for parking?", HeldOut: &no}}}
	require.Equal(t, [][2]string{{"a", "b"}}, NearDuplicates(d, 0.8))
}

func TestGivenSetsAskWithAndWithoutTheAnswer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rgb.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"id":"r","question":"Where?","answer":"Oslo","positive":["In Oslo."],"negative":["a","b","c","d","e","f"]}
{"id":"l","question":"When?","answer":[["July 2017","Jul 2017"]],"positive":["July 2017"],"negative":[]}
{"id":"n","question":"Who?","contexts":[{"id":"p","text":"Anna."}],"label":"unanswerable"}
`), 0o600))
	d, err := LoadGiven(path)
	require.NoError(t, err)
	require.Len(t, d.Queries, 5)
	require.True(t, d.IsAnswerable(&d.Queries[0]))
	require.Len(t, d.Queries[0].Given, 4)
	require.False(t, d.IsAnswerable(&d.Queries[1]))
	require.Len(t, d.Queries[1].Given, 5)
	require.Equal(t, []string{"July 2017", "Jul 2017"}, d.Queries[2].Answers)
	require.False(t, d.IsAnswerable(&d.Queries[4]))
	require.Equal(t, d.Queries[0].IsHeldOut(), d.Queries[1].IsHeldOut())
}
