package indextest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ragd/embed"
	"ragd/retrieve"
	"ragd/retrieve/analysis"
)

// Document is what a [Loader] puts into an index.
type Document struct {
	Tenant, Corpus, Path, Title string
	Tags                        []string
	Modified                    time.Time
	Passages                    []Passage
}

// Passage is a passage of a Document. Its text is the document's; Start and End follow from joining the texts by newlines.
type Passage struct {
	Text, Context, Heading, Language string
	Page                             int
	Vector                           embed.Vector
}

// Memory is an index in memory.
type Memory struct {
	mu        sync.RWMutex
	passages  []*stored
	documents map[string]retrieve.DocumentID // by tenant, corpus and path
	lastID    int64
}

type stored struct {
	retrieve.Passage
	tenant, language string
	tags             []string
	modified         time.Time
	vector           embed.Vector
	counts           map[string]int // of terms
	length           int
}

// Load adds a document; one at the same path is replaced.
func (m *Memory) Load(t testing.TB, d Document) retrieve.DocumentID {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.documents == nil {
		m.documents = map[string]retrieve.DocumentID{}
	}
	key := strings.Join([]string{tenantOf(d.Tenant), d.Corpus, d.Path}, "\x00")
	id, ok := m.documents[key]
	if ok {
		m.remove(id)
	} else {
		id = retrieve.DocumentID(len(m.documents) + 1)
		m.documents[key] = id
	}
	start := 0
	for _, p := range d.Passages {
		m.lastID++
		s := &stored{tenant: tenantOf(d.Tenant), language: p.Language, tags: d.Tags, modified: d.Modified, vector: p.Vector, counts: map[string]int{}}
		s.Passage = retrieve.Passage{ID: retrieve.PassageID(m.lastID), Document: id, Corpus: d.Corpus, Path: d.Path, Title: d.Title, Text: p.Text,
			Heading: p.Heading, Start: start, End: start + len(p.Text), Page: p.Page}
		for _, term := range analysis.Terms(p.Context+"\n"+p.Text, p.Language) {
			s.counts[term]++
			s.length++
		}
		m.passages = append(m.passages, s)
		start += len(p.Text) + 1
	}
	return id
}

// Delete removes a document.
func (m *Memory) Delete(t testing.TB, _ string, id retrieve.DocumentID) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(id)
}

func (m *Memory) remove(id retrieve.DocumentID) {
	m.passages = slices.DeleteFunc(m.passages, func(s *stored) bool { return s.Document == id })
}

func tenantOf(name string) string { return cmp.Or(name, "default") }

// in reports whether the corpora of f hold s: what BM25 counts.
func in(s *stored, f retrieve.Filter) bool {
	return s.tenant == tenantOf(f.Tenant) && (len(f.Corpora) == 0 || slices.Contains(f.Corpora, s.Corpus))
}

func admits(f retrieve.Filter, s *stored) bool {
	return in(s, f) &&
		(len(f.Documents) == 0 || slices.Contains(f.Documents, s.Document)) &&
		strings.HasPrefix(s.Path, f.PathPrefix) &&
		(len(f.Tags) == 0 || slices.ContainsFunc(f.Tags, func(tag string) bool { return slices.Contains(s.tags, tag) })) &&
		(len(f.Languages) == 0 || slices.Contains(f.Languages, s.language)) &&
		(f.Since.IsZero() || !s.modified.IsZero() && !s.modified.Before(f.Since)) &&
		(f.Until.IsZero() || !s.modified.IsZero() && s.modified.Before(f.Until))
}

// Dense implements [retrieve.Index].
func (m *Memory) Dense(_ context.Context, q embed.Vector, k int, f retrieve.Filter) ([]retrieve.Hit, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var hits []retrieve.Hit
	for _, s := range m.passages {
		if !in(s, f) {
			continue
		}
		if len(q) != len(s.vector) {
			return nil, fmt.Errorf("indextest: the question has %d dimensions, passage %d has %d", len(q), s.ID, len(s.vector))
		}
		if admits(f, s) {
			hits = append(hits, retrieve.Hit{ID: s.ID, Score: cosine(q, s.vector)})
		}
	}
	return best(hits, k), nil
}

func cosine(a, b embed.Vector) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}

// Lexical implements [retrieve.Index].
func (m *Memory) Lexical(_ context.Context, q string, k int, f retrieve.Filter) ([]retrieve.Hit, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var n, passages, total float64 // of those that are counted; of all in the languages asked for
	byLanguage := map[string]int{}
	counted := func(s *stored) bool { return in(s, f) && (len(f.Languages) == 0 || admits(f, s)) }
	for _, s := range m.passages {
		if counted(s) {
			n++
			byLanguage[s.language]++
		}
		if in(s, f) && (len(f.Languages) == 0 || slices.Contains(f.Languages, s.language)) {
			passages++
			total += float64(s.length)
		}
	}
	languages := f.Languages
	if len(languages) == 0 {
		for language, count := range byLanguage {
			if float64(count) >= 0.02*n {
				languages = append(languages, language)
			}
		}
		slices.SortFunc(languages, func(a, b string) int { return cmp.Or(byLanguage[b]-byLanguage[a], strings.Compare(a, b)) })
	}
	terms := map[string]float64{} // idf
	languages = analysis.Readings(q, languages)
	for _, language := range languages[:min(4, len(languages))] {
		for _, term := range analysis.Terms(q, language) {
			terms[term] = 0
		}
	}
	for term := range terms {
		df := 0.0
		for _, s := range m.passages {
			if counted(s) && s.counts[term] > 0 {
				df++
			}
		}
		terms[term] = math.Log(1 + (n-df+0.5)/(df+0.5))
	}
	const k1, b = 1.5, 0.75
	average := max(1, total/max(1, passages))
	var hits []retrieve.Hit
	for _, s := range m.passages {
		if !admits(f, s) {
			continue
		}
		score, found := 0.0, false
		for term, idf := range terms {
			if tf := float64(s.counts[term]); tf > 0 {
				score += idf * tf * (k1 + 1) / (tf + k1*(1-b+b*float64(s.length)/average))
				found = true
			}
		}
		if found {
			hits = append(hits, retrieve.Hit{ID: s.ID, Score: score})
		}
	}
	return best(hits, k), nil
}

// Passages implements [retrieve.Index].
func (m *Memory) Passages(_ context.Context, ids []retrieve.PassageID, f retrieve.Filter) ([]retrieve.Passage, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var found []retrieve.Passage
	for _, id := range ids {
		for _, s := range m.passages {
			if s.ID == id && in(s, f) {
				found = append(found, s.Passage)
			}
		}
	}
	return found, nil
}

// best returns the k best hits, equal scores by id, numbered from 1.
func best(hits []retrieve.Hit, k int) []retrieve.Hit {
	slices.SortFunc(hits, func(a, b retrieve.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID))
	})
	hits = hits[:min(k, len(hits))]
	for i := range hits {
		hits[i].Rank = i + 1
	}
	return hits
}

var _ retrieve.Index = (*Memory)(nil)
