package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ragd/embed"
	"ragd/ingest"
	"ragd/internal/pgtest"
	"ragd/retrieve"
	"ragd/retrieve/indextest"
	"ragd/store"
)

var quiet = slog.New(slog.DiscardHandler)

func open(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), pgtest.New(t), quiet)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

var testIndex = ingest.Index{Model: "test", Dim: indextest.Dim, Splitter: "test/1"}

// loader fills a Store through the steps of ingestion.
type loader struct{ *store.Store }

func (l loader) Load(t testing.TB, d indextest.Document) retrieve.DocumentID {
	t.Helper()
	var texts []string
	doc := ingest.Document{Kind: "txt", Title: d.Title, Pages: []ingest.Page{}, Blocks: []ingest.Block{}}
	var passages []ingest.Passage
	var vectors []embed.Vector
	var seqs []int
	at := 0
	for i, p := range d.Passages {
		passages = append(passages, ingest.Passage{Start: at, End: at + len(p.Text), Page: p.Page, Heading: p.Heading, Text: p.Text, Context: p.Context, Language: p.Language, Tokens: len(p.Text)})
		texts, vectors, seqs = append(texts, p.Text), append(vectors, p.Vector), append(seqs, i)
		at += len(p.Text) + 1
	}
	doc.Text = strings.Join(texts, "\n")
	l.ingest(t, candidate(d.Tenant, d.Corpus, d.Path, doc.Text+d.Title, d.Tags, d.Modified), doc.Text+d.Title, &doc, passages, seqs, vectors)
	found, err := l.DocumentByPath(context.Background(), d.Tenant, d.Corpus, d.Path)
	require.NoError(t, err)
	return found.ID
}

func candidate(tenant, corpus, path, content string, tags []string, modified time.Time) ingest.Candidate {
	return ingest.Candidate{Source: ingest.Source{Tenant: tenant, Corpus: corpus, Path: path}, SHA256: sha256.Sum256([]byte(content)),
		Size: int64(len(content)), Modified: modified, Tags: tags, Index: testIndex}
}

func (l loader) ingest(t testing.TB, c ingest.Candidate, content string, doc *ingest.Document, passages []ingest.Passage, seqs []int, vectors []embed.Vector) {
	t.Helper()
	ctx := context.Background()
	outcome, _, err := l.Receive(ctx, c, strings.NewReader(content))
	require.NoError(t, err)
	if outcome == ingest.Unchanged {
		return
	}
	job, err := l.Claim(ctx, c.Tenant, c.Corpus, testIndex, time.Minute)
	require.NoError(t, err)
	require.NotNil(t, job)
	require.Equal(t, c.Path, job.Path)
	require.NoError(t, l.SaveDocument(ctx, job, doc))
	require.NoError(t, l.SavePassages(ctx, job, passages))
	require.NoError(t, l.SaveVectors(ctx, job, seqs, vectors))
	require.NoError(t, l.Publish(ctx, job))
}

func (l loader) Delete(t testing.TB, tenant string, id retrieve.DocumentID) {
	t.Helper()
	require.NoError(t, l.DeleteDocument(context.Background(), tenant, id))
}

func TestIndex(t *testing.T) {
	indextest.Run(t, func(t *testing.T) indextest.Loader { return loader{open(t)} })
}

// The same promises hold when the lexical leg reads the rarest terms first.
func TestIndexRarestFirst(t *testing.T) {
	indextest.Run(t, func(t *testing.T) indextest.Loader {
		s := open(t)
		s.SetPlainLimits(0, 0)
		return loader{s}
	})
}

// The same promises hold when the dense leg goes through an HNSW index.
func TestIndexWithGraph(t *testing.T) {
	indextest.Run(t, func(t *testing.T) indextest.Loader {
		s := open(t)
		s.SetExactLimit(0)
		// A vector makes the space known, so that its index can be built before the suite fills it.
		loader{s}.Load(t, indextest.Document{Tenant: "warm-up", Corpus: "x", Path: "x", Passages: []indextest.Passage{{Text: "x", Vector: unit(0)}}})
		require.NoError(t, s.Maintain(context.Background(), store.Retention{}))
		require.Equal(t, int64(1), count(t, s, `SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'passage_vectors_hnsw_%'`))
		return loader{s}
	})
}

func unit(i int) embed.Vector {
	v := make(embed.Vector, indextest.Dim)
	v[i] = 1
	return v
}

func count(t testing.TB, s *store.Store, sql string, args ...any) (n int64) {
	t.Helper()
	require.NoError(t, s.Pool().QueryRow(context.Background(), sql, args...).Scan(&n))
	return n
}

func page(path string, texts ...string) indextest.Document {
	d := indextest.Document{Corpus: "c", Path: path, Title: "T"}
	for i, s := range texts {
		d.Passages = append(d.Passages, indextest.Passage{Text: s, Language: "en", Vector: unit(i % indextest.Dim)})
	}
	return d
}

func TestExcerpt(t *testing.T) {
	s := open(t)
	loader{s}.Load(t, page("p", "première été", "zwölf Bären", "dritte"))
	hits, err := s.Lexical(context.Background(), "bären", 1, retrieve.Filter{})
	require.NoError(t, err)
	require.Len(t, hits, 1)
	whole := "première été\nzwölf Bären\ndritte"
	for margin := range 20 {
		e, err := s.Excerpt(context.Background(), hits[0].ID, margin, retrieve.Filter{})
		require.NoError(t, err)
		require.Equal(t, "zwölf Bären", e.Text)
		require.Equal(t, e.Around, whole[e.AroundStart:e.AroundStart+len(e.Around)])
		require.Contains(t, e.Around, e.Text)
		require.True(t, e.Live)
	}
	_, err = s.Excerpt(context.Background(), hits[0].ID, 10, retrieve.Filter{Tenant: "other"})
	require.ErrorIs(t, err, store.ErrNotFound)
}

// Nothing of a deleted document is left in any table, and what others have in common with it stays.
func TestDeleteLeavesNothing(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	l := loader{s}
	kept := l.Load(t, page("kept", "apples and pears"))
	before := everything(t, s)
	gone := l.Load(t, page("gone", "apples and plums", "secret words"))
	l.Load(t, page("gone", "apples and cherries", "other words")) // a retired version, too
	require.NoError(t, s.SaveAnswer(ctx, "", "a1", []retrieve.DocumentID{gone, kept}, []byte(`{"quote": "plums"}`)))
	require.NoError(t, s.SaveAnswer(ctx, "", "a2", []retrieve.DocumentID{kept}, []byte(`{"quote": "pears"}`)))
	_, _, err := s.Receive(ctx, candidate("", "c", "gone", "third version", nil, time.Time{}), strings.NewReader("third version")) // and one that waits
	require.NoError(t, err)
	job, err := s.Claim(ctx, "", "c", testIndex, time.Minute)
	require.NoError(t, err)

	require.NoError(t, s.DeleteDocument(ctx, "", gone))

	require.ErrorIs(t, s.SaveDocument(ctx, job, &ingest.Document{Text: "x"}), ingest.ErrLeaseLost)
	_, err = s.Answer(ctx, "", "a1")
	require.ErrorIs(t, err, store.ErrNotFound)
	record, err := s.Answer(ctx, "", "a2")
	require.NoError(t, err)
	require.Equal(t, `{"quote": "pears"}`, string(record))
	_, err = s.Pool().Exec(ctx, `DELETE FROM answers`)
	require.NoError(t, err)
	require.Equal(t, before, everything(t, s))
	require.ErrorIs(t, s.DeleteDocument(ctx, "", gone), store.ErrNotFound)

	require.NoError(t, s.DeleteCorpus(ctx, "", "c"))
	for table, rows := range everything(t, s) {
		if table != "embedding_spaces" && table != "goose_db_version" {
			require.Empty(t, rows, table)
		}
	}
}

// everything returns all rows of all tables, but for the counters that only grow.
func everything(t *testing.T, s *store.Store) map[string][]string {
	t.Helper()
	ctx := context.Background()
	rows, err := s.Pool().Query(ctx, `SELECT tablename FROM pg_tables WHERE schemaname = 'public'`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	content := map[string][]string{}
	for _, table := range tables {
		rows, err := s.Pool().Query(ctx, `SELECT (to_jsonb(x) - 'revision')::text FROM `+table+` x ORDER BY 1`)
		require.NoError(t, err)
		content[table], err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
	}
	return content
}

func TestSnapshotHoldsStill(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	l := loader{s}
	doc := l.Load(t, page("p", "whale song"))
	err := s.Snapshot(ctx, func(x retrieve.Index) error {
		hits, err := x.Lexical(ctx, "whale", 5, retrieve.Filter{})
		require.NoError(t, err)
		require.Len(t, hits, 1)
		l.Load(t, page("q", "another whale"))
		l.Delete(t, "", doc)
		again, err := x.Lexical(ctx, "whale", 5, retrieve.Filter{})
		require.NoError(t, err)
		require.Equal(t, hits, again)
		ps, err := x.Passages(ctx, []retrieve.PassageID{hits[0].ID}, retrieve.Filter{})
		require.NoError(t, err)
		require.Len(t, ps, 1)
		return nil
	})
	require.NoError(t, err)
	hits, err := s.Lexical(ctx, "whale", 5, retrieve.Filter{})
	require.NoError(t, err)
	require.Len(t, hits, 1)
}

func TestReindexEqualsIncremental(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	l := loader{s}
	words := strings.Fields("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu")
	for i := range 30 {
		var texts []string
		for j := range 1 + i%4 {
			texts = append(texts, strings.Join(words[(i+j)%6:6+(i*j)%6], " ")+" common")
		}
		l.Load(t, page("doc"+words[i%7], texts...))
	}
	search := func() [][]retrieve.Hit {
		var all [][]retrieve.Hit
		for _, w := range append(words, "common") {
			hits, err := s.Lexical(ctx, w, 100, retrieve.Filter{})
			require.NoError(t, err)
			all = append(all, hits)
		}
		return all
	}
	before := search()
	_, err := s.Pool().Exec(ctx, `UPDATE corpora SET analyzer = 0`)
	require.NoError(t, err)
	_, err = s.Lexical(ctx, "alpha", 1, retrieve.Filter{})
	require.ErrorIs(t, err, store.ErrIndexMismatch)
	require.NoError(t, s.Reindex(ctx, "", "c"))
	require.Equal(t, before, search())
}

// Reading the rarest terms first, and only what can still matter of the others, finds what reading everything finds, to the last bit of each score.
func TestRarestFirstFindsTheSame(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	r := rand.New(rand.NewPCG(5, 6))
	words := func(n int) string {
		var text []string
		for range n {
			// Half of the vocabulary's logarithm: a few words in nearly all passages, most in one or two.
			text = append(text, fmt.Sprintf("w%dx", int(math.Exp(r.Float64()*math.Log(20_000)))))
		}
		return strings.Join(text, " ")
	}
	for i := range 24 { // 20 documents; four are replaced
		d := page(fmt.Sprintf("folder%d/doc%d", i%2, i%20))
		d.Corpus = fmt.Sprintf("c%d", i%3)
		if i >= 20 {
			d.Corpus = fmt.Sprintf("c%d", (i-20)%3)
		}
		for range 150 {
			d.Passages = append(d.Passages, indextest.Passage{Text: words(30 + r.IntN(60)), Language: "en", Vector: unit(0)})
		}
		loader{s}.Load(t, d)
	}
	filters := []retrieve.Filter{{}, {Corpora: []string{"c1"}}, {PathPrefix: "folder1"}, {Languages: []string{"en"}}}
	for i := range 300 {
		q, k, f := words(1+i%9), []int{1, 10, 100, 5000}[i%4], filters[r.IntN(len(filters))]
		s.SetPlainLimits(1<<40, 0)
		want, err := s.Lexical(ctx, q, k, f)
		require.NoError(t, err)
		s.SetPlainLimits(0, []int{0, 8, 64}[i%3])
		got, err := s.Lexical(ctx, q, k, f)
		require.NoError(t, err)
		require.Equal(t, want, got, "%q, %d of %+v", q, k, f)
	}
}

func TestMixedIndexesAreRefused(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	loader{s}.Load(t, page("p", "text"))
	c := candidate("", "c", "q", "q", nil, time.Time{})
	c.Index.Model = "another"
	_, _, err := s.Receive(ctx, c, bytes.NewReader([]byte("q")))
	require.ErrorIs(t, err, store.ErrIndexMismatch)
	require.ErrorContains(t, err, "another")
	require.ErrorContains(t, err, "test")
	// Two corpora of different spaces cannot be searched as one.
	require.NoError(t, s.CreateCorpus(ctx, "", "d", c.Index))
	_, err = s.Dense(ctx, unit(0), 1, retrieve.Filter{})
	require.ErrorIs(t, err, store.ErrIndexMismatch)
	_, err = s.Dense(ctx, unit(0), 1, retrieve.Filter{Corpora: []string{"c"}})
	require.NoError(t, err)
	_, err = s.Dense(ctx, unit(0), 1, retrieve.Filter{Corpora: []string{"c", "nope"}})
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestMaintainKeepsWhatRetentionSays(t *testing.T) {
	ctx := context.Background()
	s := open(t)
	l := loader{s}
	l.Load(t, page("p", "first"))
	hits, err := s.Lexical(ctx, "first", 1, retrieve.Filter{})
	require.NoError(t, err)
	l.Load(t, page("p", "second"))
	require.NoError(t, s.Maintain(ctx, store.Retention{}))
	e, err := s.Excerpt(ctx, hits[0].ID, 0, retrieve.Filter{})
	require.NoError(t, err, "a retired version can be cited")
	require.False(t, e.Live)
	_, err = s.Pool().Exec(ctx, `UPDATE document_versions SET live_at = now() - interval '2 days'; UPDATE contents SET stored_at = now() - interval '2 days'`)
	require.NoError(t, err)
	require.NoError(t, s.Maintain(ctx, store.Retention{Retired: 24 * time.Hour}))
	_, err = s.Excerpt(ctx, hits[0].ID, 0, retrieve.Filter{})
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Equal(t, int64(1), count(t, s, `SELECT count(*) FROM contents`))
}
