package analysis_test

import (
	"bufio"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"ragd/retrieve"
	"ragd/retrieve/indextest"
)

// The analyzer inside plain BM25 must rank as well as the reference BM25 of the question sets handed to us. Two sets run by default; RAGD_FULL=1
// runs all.
func TestBM25MatchesReferenceRuns(t *testing.T) {
	refs := os.Getenv("RAGD_REFS")
	if refs == "" {
		t.Skip("RAGD_REFS names no folder with reference data")
	}
	sets := []string{"northwind", "squad2"}
	if os.Getenv("RAGD_FULL") != "" {
		sets = append(sets, "scifact", "pgdocs", "techfaq", "claude-docs", "codebase", "vaswani", "2wiki", "mtrag-un", "xquad")
	}
	reference := referenceRuns(t, filepath.Join(refs, "data", "baselines.jsonl"))
	for _, set := range sets {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(refs, "data", "qa", set)
			got := ndcg(t, dir)
			t.Logf("nDCG@10 %.4f, reference %.4f, difference %+.4f", got, reference[set], got-reference[set])
			require.GreaterOrEqual(t, got, reference[set]-0.01)
		})
	}
}

func referenceRuns(t *testing.T, path string) map[string]float64 {
	runs := map[string]float64{}
	eachLine(t, path, func(line []byte) {
		var run struct {
			Set, Variant, System string
			NDCG                 float64 `json:"ndcg@10"`
		}
		require.NoError(t, json.Unmarshal(line, &run))
		if run.System == "bm25" && (run.Variant == "query" || run.Variant == "last turn") {
			runs[strings.TrimPrefix(run.Set, "public/")] = run.NDCG
		}
	})
	return runs
}

// ndcg is the mean nDCG@10 with linear gains of a set's questions that have relevant passages.
func ndcg(t *testing.T, dir string) float64 {
	var index indextest.Memory
	var owner []string // corpus id of each loaded passage; ids count from 1
	eachLine(t, filepath.Join(dir, "corpus.jsonl"), func(line []byte) {
		var p struct{ ID, Title, Text, Lang string }
		require.NoError(t, json.Unmarshal(line, &p))
		d := indextest.Document{Corpus: "c", Path: p.ID, Title: p.Title}
		for _, window := range windows(p.Text) {
			d.Passages = append(d.Passages, indextest.Passage{Context: p.Title, Text: window, Language: p.Lang})
			owner = append(owner, p.ID)
		}
		index.Load(t, d)
	})
	gains := map[string]map[string]float64{}
	eachLine(t, filepath.Join(dir, "qrels.tsv"), func(line []byte) {
		f := strings.Split(string(line), "\t")
		if gain, err := strconv.ParseFloat(f[2], 64); err == nil && gain > 0 {
			if gains[f[0]] == nil {
				gains[f[0]] = map[string]float64{}
			}
			gains[f[0]][f[1]] = gain
		}
	})
	sum, n := 0.0, 0.0
	eachLine(t, filepath.Join(dir, "queries.jsonl"), func(line []byte) {
		var q struct{ ID, Text, Lang string }
		require.NoError(t, json.Unmarshal(line, &q))
		if gains[q.ID] == nil {
			return
		}
		var f retrieve.Filter
		if q.Lang != "" {
			f.Languages = []string{q.Lang}
		}
		hits, err := index.Lexical(context.Background(), q.Text, 100, f)
		require.NoError(t, err)
		var ranked []string
		seen := map[string]bool{}
		for _, h := range hits {
			if id := owner[h.ID-1]; !seen[id] {
				seen[id] = true
				ranked = append(ranked, id)
			}
		}
		sum += ndcgOf(ranked, gains[q.ID])
		n++
	})
	return sum / n
}

func ndcgOf(ranked []string, gains map[string]float64) float64 {
	dcg, ideal := 0.0, 0.0
	for i, id := range ranked[:min(10, len(ranked))] {
		dcg += gains[id] / math.Log2(float64(i)+2)
	}
	var sorted []float64
	for _, g := range gains {
		sorted = append(sorted, g)
	}
	for i := range min(10, len(sorted)) {
		best := i
		for j := i + 1; j < len(sorted); j++ {
			if sorted[j] > sorted[best] {
				best = j
			}
		}
		sorted[i], sorted[best] = sorted[best], sorted[i]
		ideal += sorted[i] / math.Log2(float64(i)+2)
	}
	return dcg / ideal
}

// windows cuts a long passage as the reference runs do: over 2,400 characters, into pieces of about 1,200 at blanks.
func windows(text string) []string {
	if utf8.RuneCountInString(text) <= 2400 {
		return []string{text}
	}
	var parts []string
	var b strings.Builder
	for _, word := range strings.SplitAfter(text, " ") {
		if b.Len() > 0 && utf8.RuneCountInString(b.String())+utf8.RuneCountInString(word) > 1200 {
			parts = append(parts, b.String())
			b.Reset()
		}
		b.WriteString(word)
	}
	return append(parts, b.String())
}

func eachLine(t *testing.T, path string, fn func([]byte)) {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		fn(s.Bytes())
	}
	require.NoError(t, s.Err())
}
