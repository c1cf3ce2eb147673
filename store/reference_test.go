package store_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/retrieve"
	"ragd/retrieve/indextest"
)

// On a real corpus, the lexical leg on PostgreSQL ranks exactly as the index in memory, whose quality package analysis tests against reference runs.
func TestLexicalLegOnRealText(t *testing.T) {
	refs := os.Getenv("RAGD_REFS")
	if refs == "" {
		t.Skip("RAGD_REFS names no folder with reference data")
	}
	dir := filepath.Join(refs, "data", "qa", "northwind")
	s := open(t)
	var memory indextest.Memory
	byDocument := map[string]*indextest.Document{}
	var order []string
	eachLine(t, filepath.Join(dir, "corpus.jsonl"), func(line []byte) {
		var p struct {
			Title, Text, Doc string
			Page             int
		}
		require.NoError(t, json.Unmarshal(line, &p))
		if byDocument[p.Doc] == nil {
			byDocument[p.Doc] = &indextest.Document{Corpus: "northwind", Path: p.Doc, Title: p.Title}
			order = append(order, p.Doc)
		}
		d := byDocument[p.Doc]
		d.Passages = append(d.Passages, indextest.Passage{Context: p.Title, Text: p.Text, Page: p.Page, Language: "en", Vector: unit(len(d.Passages) % indextest.Dim)})
	})
	passages := 0
	for _, name := range order {
		memory.Load(t, *byDocument[name])
		loader{s}.Load(t, *byDocument[name])
		passages += len(byDocument[name].Passages)
	}
	asked := 0
	eachLine(t, filepath.Join(dir, "queries.jsonl"), func(line []byte) {
		var q struct{ Text string }
		require.NoError(t, json.Unmarshal(line, &q))
		want, err := memory.Lexical(context.Background(), q.Text, 20, retrieve.Filter{})
		require.NoError(t, err)
		got, err := s.Lexical(context.Background(), q.Text, 20, retrieve.Filter{})
		require.NoError(t, err)
		require.Len(t, got, len(want))
		for i := range want {
			require.InDelta(t, want[i].Score, got[i].Score, 1e-9)
		}
		asked++
	})
	t.Logf("%d questions, %d passages, %d bytes of postings a passage", asked, passages, count(t, s, `SELECT pg_total_relation_size('postings')`)/int64(passages))
}

func eachLine(t *testing.T, path string, fn func([]byte)) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		fn(lines.Bytes())
	}
	require.NoError(t, lines.Err())
}
