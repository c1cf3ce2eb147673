package indextest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/embed"
	"ragd/retrieve"
)

// Loader is an index that a test can fill.
type Loader interface {
	retrieve.Index
	// Load makes a document searchable; one at the same path is replaced.
	Load(t testing.TB, d Document) retrieve.DocumentID
	Delete(t testing.TB, tenant string, id retrieve.DocumentID)
}

// Dim is the dimension of the suite's vectors.
const Dim = 8

// Run checks an implementation; empty makes an index without documents.
func Run(t *testing.T, empty func(t *testing.T) Loader) {
	tests := map[string]func(*testing.T, Loader){
		"empty index finds nothing":       testEmpty,
		"dense order is by cosine":        testDense,
		"lexical ranks by BM25":           testLexical,
		"filters narrow both legs":        testFilters,
		"questions in many languages":     testLanguages,
		"a filter never shortens":         testSelectiveFilter,
		"passages keep the order asked":   testPassages,
		"replacing and deleting":          testReplace,
		"tenants never meet":              testTenants,
		"equal to the index in memory":    testRandom,
		"wrong dimension is an error":     testDimension,
		"hostile questions are harmless":  testHostile,
		"safe for concurrent use":         testConcurrent,
		"statistics follow the corpora":   testStatistics,
		"unknown ids and corpora of none": testUnknown,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, empty(t)) })
	}
}

// axis is the unit vector between axis i and the first, at the angle whose cosine is c.
func axis(i int, c float64) embed.Vector {
	v := make(embed.Vector, Dim)
	v[0] = float32(c)
	v[i] += float32(math.Sqrt(1 - c*c))
	return v
}

func text(corpus, path string, texts ...string) Document {
	d := Document{Corpus: corpus, Path: path, Title: path}
	for i, s := range texts {
		d.Passages = append(d.Passages, Passage{Text: s, Language: "en", Vector: axis(1+i%(Dim-1), 0.5)})
	}
	return d
}

// found returns the texts of hits, checking that ranks count from 1 and scores descend.
func found(t *testing.T, x retrieve.Index, hits []retrieve.Hit, f retrieve.Filter) []string {
	t.Helper()
	ids := make([]retrieve.PassageID, len(hits))
	for i, h := range hits {
		require.Equal(t, i+1, h.Rank)
		if i > 0 {
			require.LessOrEqual(t, h.Score, hits[i-1].Score)
		}
		ids[i] = h.ID
	}
	ps, err := x.Passages(context.Background(), ids, f)
	require.NoError(t, err)
	texts := []string{}
	for _, p := range ps {
		texts = append(texts, p.Text)
	}
	require.Len(t, texts, len(hits))
	return texts
}

func dense(t *testing.T, x retrieve.Index, q embed.Vector, k int, f retrieve.Filter) []string {
	t.Helper()
	hits, err := x.Dense(context.Background(), q, k, f)
	require.NoError(t, err)
	return found(t, x, hits, f)
}

func lexical(t *testing.T, x retrieve.Index, q string, k int, f retrieve.Filter) []string {
	t.Helper()
	hits, err := x.Lexical(context.Background(), q, k, f)
	require.NoError(t, err)
	return found(t, x, hits, f)
}

func testEmpty(t *testing.T, x Loader) {
	require.Empty(t, dense(t, x, axis(1, 1), 5, retrieve.Filter{}))
	require.Empty(t, lexical(t, x, "anything", 5, retrieve.Filter{}))
}

func testDense(t *testing.T, x Loader) {
	d := Document{Corpus: "c", Path: "p"}
	for i, c := range []float64{0.1, 0.9, 0.5, -0.7} {
		d.Passages = append(d.Passages, Passage{Text: fmt.Sprint(c), Language: "en", Vector: axis(1+i, c)})
	}
	x.Load(t, d)
	require.Equal(t, []string{"0.9", "0.5", "0.1"}, dense(t, x, axis(1, 1), 3, retrieve.Filter{}))
	hits, err := x.Dense(context.Background(), axis(1, 1), 10, retrieve.Filter{})
	require.NoError(t, err)
	require.Len(t, hits, 4)
	require.InDelta(t, 0.9, hits[0].Score, 2e-3) // half precision
	require.InDelta(t, -0.7, hits[3].Score, 2e-3)
}

func testLexical(t *testing.T, x Loader) {
	x.Load(t, text("c", "a.md", "The reimbursement of travel costs needs a receipt.", "Travel is booked by the office.", "Sick leave is reported by phone."))
	require.Equal(t, []string{"The reimbursement of travel costs needs a receipt.", "Travel is booked by the office."}, lexical(t, x, "reimburse travelling", 5, retrieve.Filter{}))
	require.Empty(t, lexical(t, x, "the of a", 5, retrieve.Filter{}))
	require.Len(t, lexical(t, x, "travel", 1, retrieve.Filter{}), 1)
	// "travel" in two of three passages, of lengths that differ
	hits, err := x.Lexical(context.Background(), "travel", 5, retrieve.Filter{})
	require.NoError(t, err)
	require.Len(t, hits, 2)
	require.Greater(t, hits[0].Score, 0.0)
}

// A corpus of more languages than a question is read in: the letters of the question say which those are.
func testLanguages(t *testing.T, x Loader) {
	for lang, words := range map[string]string{
		"ar": "كتب المعلم", "de": "Die Überstunden werden bezahlt", "en": "Reimbursements are paid", "es": "las canciones españolas", "fr": "les congés payés",
		"hi": "हिन्दी भाषा", "ru": "Отпуска сотрудников оплачиваются", "tr": "çalışanların izinleri", "zh": "东京大学",
	} {
		d := text("c", lang, words)
		d.Passages[0].Language = lang
		x.Load(t, d)
	}
	for lang, question := range map[string]string{
		"de": "uberstunden", "en": "reimbursement", "es": "canciones", "hi": "भाषा", "ru": "отпуск сотрудника", "tr": "izinleri", "zh": "大学", "ar": "المعلم",
	} {
		hits, err := x.Lexical(context.Background(), question, 1, retrieve.Filter{})
		require.NoError(t, err, lang)
		require.Len(t, hits, 1, lang)
		passages, err := x.Passages(context.Background(), []retrieve.PassageID{hits[0].ID}, retrieve.Filter{})
		require.NoError(t, err, lang)
		require.Equal(t, lang, passages[0].Path)
	}
	require.Len(t, lexical(t, x, "congé payé", 1, retrieve.Filter{Languages: []string{"fr"}}), 1)
}

func testFilters(t *testing.T, x Loader) {
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	load := func(corpus, path, lang string, modified time.Time, tags ...string) retrieve.DocumentID {
		d := text(corpus, path, "zebra at "+corpus+"/"+path)
		d.Tags, d.Modified, d.Passages[0].Language = tags, modified, lang
		return x.Load(t, d)
	}
	one := load("c", "hr/one", "en", day(1), "red", "blue")
	load("c", "hr/two", "de", day(2), "blue")
	load("c", "it/three", "en", time.Time{})
	load("d", "four", "en", day(4))
	tests := map[string]struct {
		f    retrieve.Filter
		want []string
	}{
		"none":      {retrieve.Filter{}, []string{"c/hr/one", "c/hr/two", "c/it/three", "d/four"}},
		"corpus":    {retrieve.Filter{Corpora: []string{"d"}}, []string{"d/four"}},
		"corpora":   {retrieve.Filter{Corpora: []string{"d", "c"}, Tags: []string{"blue"}}, []string{"c/hr/one", "c/hr/two"}},
		"document":  {retrieve.Filter{Documents: []retrieve.DocumentID{one}}, []string{"c/hr/one"}},
		"path":      {retrieve.Filter{PathPrefix: "hr/"}, []string{"c/hr/one", "c/hr/two"}},
		"path_":     {retrieve.Filter{PathPrefix: "hr_"}, nil},
		"tags":      {retrieve.Filter{Tags: []string{"red", "green"}}, []string{"c/hr/one"}},
		"language":  {retrieve.Filter{Languages: []string{"de", "fr"}}, []string{"c/hr/two"}},
		"since":     {retrieve.Filter{Since: day(2)}, []string{"c/hr/two", "d/four"}},
		"until":     {retrieve.Filter{Until: day(2)}, []string{"c/hr/one"}},
		"all at it": {retrieve.Filter{Since: day(1), PathPrefix: "hr", Tags: []string{"blue"}, Languages: []string{"en"}}, []string{"c/hr/one"}},
		"nothing":   {retrieve.Filter{Tags: []string{"green"}}, nil},
	}
	for name, test := range tests {
		want := []string{}
		for _, s := range test.want {
			want = append(want, "zebra at "+s)
		}
		require.ElementsMatch(t, want, dense(t, x, axis(1, 1), 10, test.f), name)
		require.ElementsMatch(t, want, lexical(t, x, "zebra", 10, test.f), name)
	}
}

// An index that looks for the nearest first and filters afterwards would find nothing here.
func testSelectiveFilter(t *testing.T, x Loader) {
	var wanted retrieve.DocumentID
	for i := range 60 {
		d := Document{Corpus: "c", Path: fmt.Sprint(i)}
		for j := range 10 {
			c := 0.99
			if i == 40 {
				c = -0.9 + float64(j)/100
			}
			d.Passages = append(d.Passages, Passage{Text: fmt.Sprintf("word %d %d", i, j), Language: "en", Vector: axis(1+(i+j)%(Dim-1), c)})
		}
		id := x.Load(t, d)
		if i == 40 {
			wanted = id
		}
	}
	f := retrieve.Filter{Documents: []retrieve.DocumentID{wanted}}
	require.Len(t, dense(t, x, axis(1, 1), 10, f), 10)
	require.Len(t, lexical(t, x, "word", 10, f), 10)
}

func testPassages(t *testing.T, x Loader) {
	d := text("c", "dir/a.md", "first", "second", "third")
	d.Title, d.Passages[1].Heading, d.Passages[1].Page = "The Title", "One > Two", 7
	doc := x.Load(t, d)
	hits, err := x.Dense(context.Background(), axis(1, 1), 3, retrieve.Filter{})
	require.NoError(t, err)
	ids := []retrieve.PassageID{hits[2].ID, hits[0].ID, hits[1].ID}
	ps, err := x.Passages(context.Background(), ids, retrieve.Filter{Corpora: []string{"c"}})
	require.NoError(t, err)
	require.Len(t, ps, 3)
	for i, p := range ps {
		require.Equal(t, ids[i], p.ID)
		require.Equal(t, doc, p.Document)
		require.Equal(t, p.Text, "first\nsecond\nthird"[p.Start:p.End])
		require.Equal(t, "The Title", p.Title)
		require.Equal(t, "dir/a.md", p.Path)
		require.Equal(t, "c", p.Corpus)
		if p.Text == "second" {
			require.Equal(t, "One > Two", p.Heading)
			require.Equal(t, 7, p.Page)
		}
	}
}

func testReplace(t *testing.T, x Loader) {
	id := x.Load(t, text("c", "a", "old apple", "old pear"))
	x.Load(t, text("c", "b", "other apple"))
	require.ElementsMatch(t, []string{"old apple", "other apple"}, lexical(t, x, "apple", 5, retrieve.Filter{}))
	require.Equal(t, id, x.Load(t, text("c", "a", "new apple")))
	require.ElementsMatch(t, []string{"new apple", "other apple"}, lexical(t, x, "apple", 5, retrieve.Filter{}))
	require.Empty(t, lexical(t, x, "pear", 5, retrieve.Filter{}))
	require.ElementsMatch(t, []string{"new apple", "other apple"}, dense(t, x, axis(1, 1), 5, retrieve.Filter{}))
	x.Delete(t, "", id)
	require.Equal(t, []string{"other apple"}, lexical(t, x, "apple old new", 5, retrieve.Filter{}))
	require.Equal(t, []string{"other apple"}, dense(t, x, axis(1, 1), 5, retrieve.Filter{}))
}

func testTenants(t *testing.T, x Loader) {
	for _, tenant := range []string{"", "acme", "globex"} {
		d := text("c", "same/path", "secret of "+tenant)
		d.Tenant = tenant
		x.Load(t, d)
	}
	everyID := []retrieve.PassageID{}
	for _, tenant := range []string{"", "acme", "globex"} {
		f := retrieve.Filter{Tenant: tenant}
		require.Equal(t, []string{"secret of " + tenant}, dense(t, x, axis(1, 1), 10, f))
		require.Equal(t, []string{"secret of " + tenant}, lexical(t, x, "secret", 10, f))
		hits, err := x.Lexical(context.Background(), "secret", 10, f)
		require.NoError(t, err)
		everyID = append(everyID, hits[0].ID)
	}
	require.Equal(t, []string{"secret of "}, dense(t, x, axis(1, 1), 10, retrieve.Filter{Tenant: "default"}))
	ps, err := x.Passages(context.Background(), everyID, retrieve.Filter{Tenant: "acme"})
	require.NoError(t, err)
	require.Len(t, ps, 1)
	require.Equal(t, "secret of acme", ps[0].Text)
	require.Empty(t, dense(t, x, axis(1, 1), 10, retrieve.Filter{Tenant: "nobody"}))
}

// testRandom loads, replaces and deletes at random, here and in a Memory, and compares what both find.
func testRandom(t *testing.T, x Loader) {
	r := rand.New(rand.NewPCG(7, 11))
	var m Memory
	vocabulary := []string{"lease", "rent", "notice", "deposit", "tenant", "landlord", "repair", "heating", "window", "floor", "contract", "month"}
	vector := func() embed.Vector {
		v := make(embed.Vector, Dim)
		for i := range v {
			v[i] = float32(r.IntN(64)-32) / 32 // exact in half precision
		}
		v[0] += 2
		return v
	}
	ids := map[string][2]retrieve.DocumentID{}
	for step := range 40 {
		path := fmt.Sprintf("doc%d", r.IntN(12))
		if pair, ok := ids[path]; ok && r.IntN(4) == 0 {
			m.Delete(t, "", pair[0])
			x.Delete(t, "", pair[1])
			delete(ids, path)
			continue
		}
		d := Document{Corpus: []string{"one", "two"}[len(path)%2], Path: path}
		for range 1 + r.IntN(5) {
			words := ""
			for range 1 + r.IntN(20) {
				words += vocabulary[min(r.IntN(len(vocabulary)), r.IntN(len(vocabulary)))] + " "
			}
			d.Passages = append(d.Passages, Passage{Text: fmt.Sprintf("%s(%d)", words, step), Language: []string{"en", "de"}[r.IntN(2)], Vector: vector()})
		}
		ids[path] = [2]retrieve.DocumentID{m.Load(t, d), x.Load(t, d)}
		for _, f := range []retrieve.Filter{{}, {Corpora: []string{d.Corpus}}, {PathPrefix: "doc1"}, {Languages: []string{"de"}, PathPrefix: "doc"}} {
			q := vocabulary[r.IntN(len(vocabulary))] + " " + vocabulary[r.IntN(len(vocabulary))]
			same(t, func(i retrieve.Index) ([]retrieve.Hit, error) { return i.Lexical(context.Background(), q, 100, f) }, &m, x, f)
			v := vector()
			same(t, func(i retrieve.Index) ([]retrieve.Hit, error) { return i.Dense(context.Background(), v, 100, f) }, &m, x, f)
		}
	}
}

// same asks two indexes, whose ids differ, and compares texts and scores.
func same(t *testing.T, ask func(retrieve.Index) ([]retrieve.Hit, error), a, b retrieve.Index, f retrieve.Filter) {
	t.Helper()
	scores := func(x retrieve.Index) map[string]float64 {
		hits, err := ask(x)
		require.NoError(t, err)
		byText := map[string]float64{}
		for i, s := range found(t, x, hits, f) {
			byText[s] = hits[i].Score
		}
		return byText
	}
	want, got := scores(a), scores(b)
	require.Len(t, got, len(want))
	for s, score := range want {
		require.Contains(t, got, s)
		require.InDelta(t, score, got[s], 1e-6, s)
	}
}

func testDimension(t *testing.T, x Loader) {
	x.Load(t, text("c", "a", "something"))
	_, err := x.Dense(context.Background(), make(embed.Vector, Dim+1), 5, retrieve.Filter{})
	require.ErrorContains(t, err, "dimension")
}

func testHostile(t *testing.T, x Loader) {
	x.Load(t, text("c", "a", "Robert'); DROP TABLE passages;-- 50% _ \\"))
	for _, q := range []string{"", " ", "\x00", "\xff\xfe", "'; DROP TABLE passages; --", "%_\\", "((((\"&|!:*", string(make([]byte, 10000)), "\U0010FFFF\u202E"} {
		_, err := x.Lexical(context.Background(), q, 5, retrieve.Filter{PathPrefix: ""})
		require.NoError(t, err, "%q", q)
		_, err = x.Lexical(context.Background(), "robert", 5, retrieve.Filter{PathPrefix: q, Tags: []string{q}, Languages: []string{q}, Tenant: q})
		require.NoError(t, err, "%q", q)
	}
	require.Len(t, lexical(t, x, "robert", 5, retrieve.Filter{}), 1)
	for _, k := range []int{0, 1, 1000} {
		require.LessOrEqual(t, len(dense(t, x, axis(1, 1), k, retrieve.Filter{})), k)
		require.LessOrEqual(t, len(lexical(t, x, "robert", k, retrieve.Filter{})), k)
	}
}

func testConcurrent(t *testing.T, x Loader) {
	x.Load(t, text("c", "fixed", "lighthouse keeper"))
	var group sync.WaitGroup
	for n := range 4 {
		group.Go(func() {
			for i := range 5 {
				if n == 0 {
					x.Load(t, text("c", "moving", fmt.Sprintf("ship number %d", i)))
					continue
				}
				hits, err := x.Lexical(context.Background(), "lighthouse", 5, retrieve.Filter{})
				if err != nil || len(hits) != 1 {
					t.Errorf("lexical: %v, %v", hits, err)
				}
				hits, err = x.Dense(context.Background(), axis(1, 1), 1, retrieve.Filter{PathPrefix: "fixed"})
				if err != nil || len(hits) != 1 {
					t.Errorf("dense: %v, %v", hits, err)
				}
			}
		})
	}
	group.Wait()
}

// The idf of a term is that of the corpora asked, not of all there are.
func testStatistics(t *testing.T, x Loader) {
	x.Load(t, text("rare", "a", "falcon", "sparrow", "pigeon", "crow"))
	x.Load(t, text("common", "b", "falcon one", "falcon two", "falcon three", "crow"))
	score := func(corpora ...string) float64 {
		hits, err := x.Lexical(context.Background(), "falcon", 1, retrieve.Filter{Corpora: corpora})
		require.NoError(t, err)
		require.Len(t, hits, 1)
		return hits[0].Score
	}
	// One term in passages of one term: score = idf * 2.5 / (1 + 1.5*(0.25+0.75)).
	require.InDelta(t, math.Log(1+(4-1+.5)/(1+.5)), score("rare"), 1e-9)
	require.Less(t, score("common"), score("rare", "common"))
	require.Less(t, score("rare", "common"), score("rare"))
}

func testUnknown(t *testing.T, x Loader) {
	x.Load(t, text("c", "a", "something"))
	ps, err := x.Passages(context.Background(), []retrieve.PassageID{-1, 0, 1 << 60}, retrieve.Filter{})
	require.NoError(t, err)
	require.Empty(t, ps)
	ps, err = x.Passages(context.Background(), nil, retrieve.Filter{})
	require.NoError(t, err)
	require.Empty(t, ps)
}
