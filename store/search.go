package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pgvector/pgvector-go"

	"ragd/embed"
	"ragd/personal"
	"ragd/retrieve"
	"ragd/retrieve/analysis"
)

// reader answers searches within the transactions that read makes for what a filter selects.
type reader struct {
	read func(context.Context, retrieve.Filter, func(pgx.Tx) error) error
	limits
}

// limits say from where on more is done to read less.
type limits struct {
	exact  int64 // vectors up to which a scan of all is the better plan
	plain  int64 // passages up to which all postings of a question are read at once
	blocks int   // of postings that are read, about, between two looks at whether the rest can be left out
}

// exact: 20,000 vectors of 384 dimensions take 9 ms of CPU, and the result is complete whatever the filter. plain and blocks: docs/decisions/0031.
var ordinary = limits{exact: 20_000, plain: 200_000, blocks: 512}

// Snapshot calls fn with an index on which every call sees the same state of the database, the primary. Its calls take turns; it is not to be used
// after fn.
func (s *Store) Snapshot(ctx context.Context, fn func(retrieve.Index) error) error {
	return s.read(ctx, func(tx pgx.Tx) error {
		var turn sync.Mutex
		return fn(reader{limits: s.limits, read: func(_ context.Context, _ retrieve.Filter, fn func(pgx.Tx) error) error {
			turn.Lock()
			defer turn.Unlock()
			return fn(tx)
		}})
	})
}

// scope is what a filter's tenant and corpora stand for.
type scope struct {
	tenant    string
	corpora   []int64
	space     int
	dim       int
	model     string
	passages  int64
	counted   size     // what BM25 counts: the passages in the languages that the filter names, else all
	languages []string // in which to read a question
}

// size is how much text there is.
type size struct{ passages, terms int64 }

// average is the length of a passage in terms.
func (s size) average() float64 { return max(1, float64(s.terms)/float64(max(1, s.passages))) }

// maxLanguages bounds in how many languages a question is read. Detection is unsure about short passages, so that every larger corpus seems to hold
// a few in odd languages; reading the question in those would only add noise.
const maxLanguages, minLanguageShare = 4, 0.02

// scopeOf resolves the corpora of f and checks that they can be searched together.
func scopeOf(ctx context.Context, tx pgx.Tx, f retrieve.Filter) (scope, error) {
	sc := scope{tenant: tenantOf(f.Tenant)}
	rows, err := tx.Query(ctx, `SELECT c.id, c.name, c.space, e.model, e.dim, c.analyzer, coalesce(l.lang, ''), coalesce(l.passages, 0), coalesce(l.terms, 0)
		FROM corpora c JOIN embedding_spaces e ON e.id = c.space LEFT JOIN corpus_languages l ON l.tenant = c.tenant AND l.corpus = c.id
		WHERE c.tenant = $1 AND ($2::text[] IS NULL OR c.name = ANY($2)) ORDER BY c.id, l.passages DESC, l.lang`, sc.tenant, orNull(f.Corpora))
	if err != nil {
		return sc, err
	}
	var (
		id, passages, terms  int64
		space, dim, analyzer int
		name, model, lang    string
		names                []string
		all                  size
		byLanguage           = map[string]int64{}
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &name, &space, &model, &dim, &analyzer, &lang, &passages, &terms}, func() error {
		if analyzer != analysis.Version {
			return fmt.Errorf("corpus %q was indexed by analyzer %d, this ragd has %d: rebuild its lexical index: %w", name, analyzer, analysis.Version, ErrIndexMismatch)
		}
		if len(names) > 0 && space != sc.space {
			return fmt.Errorf("corpus %q is embedded by %s (%d), corpus %q by %s (%d); they cannot be searched together: %w", names[0], sc.model, sc.dim, name, model, dim, ErrIndexMismatch)
		}
		if len(sc.corpora) == 0 || sc.corpora[len(sc.corpora)-1] != id {
			sc.corpora, names = append(sc.corpora, id), append(names, name)
			sc.space, sc.model, sc.dim = space, model, dim
		}
		all.passages, all.terms = all.passages+passages, all.terms+terms
		byLanguage[lang] += passages
		if slices.Contains(f.Languages, lang) {
			sc.counted.passages, sc.counted.terms = sc.counted.passages+passages, sc.counted.terms+terms
		}
		return nil
	})
	if err != nil {
		return sc, err
	}
	if f.Model != "" && len(names) > 0 && f.Model != sc.model {
		return sc, fmt.Errorf("corpus %q is made with embedding model %s, this process asks with %s: start it with --embedder %s, or change the corpus with 'ragd ingest migrate-model --embed %s': %w",
			names[0], sc.model, f.Model, sc.model, f.Model, ErrIndexMismatch)
	}
	for _, want := range f.Corpora {
		if !slices.Contains(names, clean(want)) {
			return sc, fmt.Errorf("corpus %q: %w", want, ErrNotFound)
		}
	}
	if sc.passages = all.passages; sc.counted.passages == 0 {
		sc.counted = all
	}
	sc.languages = questionLanguages(byLanguage, sc.passages)
	return sc, nil
}

// questionLanguages returns the languages of byLanguage that have a share worth reading the question in, the most common first.
func questionLanguages(byLanguage map[string]int64, total int64) []string {
	var languages []string
	for lang, n := range byLanguage {
		if float64(n) >= minLanguageShare*float64(total) {
			languages = append(languages, lang)
		}
	}
	slices.SortFunc(languages, func(a, b string) int {
		if n := byLanguage[b] - byLanguage[a]; n != 0 {
			return int(max(-1, min(1, n)))
		}
		return strings.Compare(a, b)
	})
	return languages
}

// condition is a WHERE clause on passage_vectors v with its arguments, which are the first of the statement.
type condition struct {
	sql  string
	args []any
}

// corporaArgs is how many arguments a condition has that admits all of its corpora.
const corporaArgs = 2

// and adds a condition in which ? stands for arg.
func (c *condition) and(sql string, arg any) {
	c.args = append(c.args, arg)
	c.sql += " AND " + strings.ReplaceAll(sql, "?", fmt.Sprintf("$%d", len(c.args)))
}

// conditionOf writes down f. What a filter does not ask for is not in the statement, so that each combination gets the plan that suits it.
func conditionOf(sc scope, f retrieve.Filter) condition {
	c := condition{sql: `v.tenant = $1 AND v.corpus = ANY ($2)`, args: []any{sc.tenant, sc.corpora}}
	if len(f.Documents) > 0 {
		c.and(`v.document = ANY (?)`, f.Documents)
	}
	if len(f.Languages) > 0 {
		c.and(`v.lang = ANY (?)`, cleanAll(f.Languages))
	}
	if f.PathPrefix == "" && len(f.Tags) == 0 && f.Since.IsZero() && f.Until.IsZero() {
		return c
	}
	c.sql += ` AND v.document IN (SELECT d.id FROM documents d WHERE d.tenant = $1 AND d.corpus = ANY ($2)`
	if f.PathPrefix != "" {
		c.and(`starts_with(d.path, ?)`, clean(f.PathPrefix))
	}
	if len(f.Tags) > 0 {
		c.and(`d.tags && ?`, cleanAll(f.Tags))
	}
	if !f.Since.IsZero() {
		c.and(`d.modified_at >= ?`, f.Since)
	}
	if !f.Until.IsZero() {
		c.and(`d.modified_at < ?`, f.Until)
	}
	c.sql += `)`
	return c
}

// orNull is the names of a filter, or null where any will do.
func orNull(names []string) any {
	if len(names) == 0 {
		return nil
	}
	return cleanAll(names)
}

func orNullTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// Dense implements [retrieve.Index].
func (r reader) Dense(ctx context.Context, q embed.Vector, k int, f retrieve.Filter) (hits []retrieve.Hit, err error) {
	err = r.read(ctx, f, func(tx pgx.Tx) error {
		sc, err := scopeOf(ctx, tx, f)
		if err != nil || sc.passages == 0 || k <= 0 {
			return err
		}
		if len(q) != sc.dim {
			return fmt.Errorf("the question's vector has %d dimensions, the corpora were embedded by %s with %d: %w", len(q), sc.model, sc.dim, ErrIndexMismatch)
		}
		where, vector := conditionOf(sc, f), pgvector.NewHalfVector(q)
		if sc.passages > r.exact {
			if hits, err = nearestByGraph(ctx, tx, sc, where, vector, k); err != nil || len(hits) == k {
				return err
			}
		}
		// The vectors' column has no dimension, so no index on an expression with one can be used for this order.
		hits, err = nearest(ctx, tx, `v.embedding`, `, v.passage`, where, vector, k)
		return err
	})
	return hits, wrap("dense search", err)
}

// nearestByGraph asks the HNSW index of the space; no hits when there is none yet. The filter is applied to what the index yields, which goes on
// until there are k or it has looked at hnsw.max_scan_tuples.
func nearestByGraph(ctx context.Context, tx pgx.Tx, sc scope, where condition, q pgvector.HalfVector, k int) ([]retrieve.Hit, error) {
	var ready bool
	err := tx.QueryRow(ctx, `SELECT coalesce(bool_and(indisvalid), false), set_config('hnsw.ef_search', $2, true)
		FROM pg_index WHERE indexrelid = to_regclass($1)`, graphName(sc.space), fmt.Sprint(min(1000, max(100, 2*k)))).Scan(&ready, nil)
	if err != nil || !ready {
		return nil, err
	}
	// The planner recognises an index on an expression under a condition only by constants; space and dim are our own numbers.
	where.sql = fmt.Sprintf(`v.space = %d AND `, sc.space) + where.sql
	return nearest(ctx, tx, fmt.Sprintf(`v.embedding::halfvec(%d)`, sc.dim), ``, where, q, k)
}

// nearest returns the k passages under a condition whose embedding, an SQL expression, is nearest to q. thenBy orders those that are equally near; an
// index scan cannot.
func nearest(ctx context.Context, tx pgx.Tx, embedding, thenBy string, where condition, q pgvector.HalfVector, k int) ([]retrieve.Hit, error) {
	n := len(where.args)
	sql := fmt.Sprintf(`SELECT v.passage, 1 - (%[1]s <=> $%[3]d) FROM passage_vectors v WHERE %[2]s ORDER BY %[1]s <=> $%[3]d%[5]s LIMIT $%[4]d`, embedding, where.sql, n+1, n+2, thenBy)
	rows, err := tx.Query(ctx, sql, append(where.args[:n:n], q, k)...)
	if err != nil {
		return nil, err
	}
	hits, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h retrieve.Hit, err error) {
		err = row.Scan(&h.ID, &h.Score)
		if math.IsNaN(h.Score) { // a vector of zeros is near to nothing
			h.Score = 0
		}
		return h, err
	})
	if err != nil {
		return nil, err
	}
	// The graph yields nearly in order.
	slices.SortFunc(hits, byScore)
	for i := range hits {
		hits[i].Rank = i + 1
	}
	return hits, nil
}

// graphName is the HNSW index of a space.
func graphName(space int) string { return fmt.Sprintf("passage_vectors_hnsw_%d", space) }

// Lexical implements [retrieve.Index].
func (r reader) Lexical(ctx context.Context, q string, k int, f retrieve.Filter) (hits []retrieve.Hit, err error) {
	err = r.read(ctx, f, func(tx pgx.Tx) error {
		sc, err := scopeOf(ctx, tx, f)
		if err != nil || sc.passages == 0 || k <= 0 {
			return err
		}
		terms, s := questionTerms(clean(q), sc.languages, f.Languages), newScorer(sc.counted)
		if where := conditionOf(sc, f); len(where.args) > corporaArgs {
			if s.allowed, err = admitted(ctx, tx, where); err != nil {
				return err
			}
			// A common word of a language that is rare in the corpora would pass for a rare word.
			if s.narrow = len(f.Languages) > 0; s.narrow {
				s.n = int64(len(s.allowed))
			}
		}
		k := int(min(int64(k), sc.passages))
		if sc.passages > r.plain && !s.narrow { // the filter's own statistics need every posting
			hits, err = r.rarestFirst(ctx, tx, sc, terms, s, k)
			return err
		}
		blocks, err := blocksOf(ctx, tx, sc, terms)
		if err != nil || len(blocks) == 0 {
			return err
		}
		for _, t := range blocks {
			if err := s.add(t); err != nil {
				return err
			}
		}
		hits = s.top(k)
		return nil
	})
	return hits, wrap("lexical search", err)
}

// questionTerms reads a question in those of the corpora's languages that it may be in, and that the filter names where it names any; each term counts
// once.
func questionTerms(q string, languages, filter []string) []string {
	if len(filter) > 0 {
		languages = filter
	}
	languages = analysis.Readings(q, languages)
	var terms []string
	for _, lang := range languages[:min(maxLanguages, len(languages))] {
		terms = append(terms, analysis.Terms(q, lang)...)
	}
	slices.Sort(terms)
	return slices.Compact(terms)
}

// blocksOf reads the posting blocks of terms, the rarest term first.
func blocksOf(ctx context.Context, tx pgx.Tx, sc scope, terms []string) ([]termBlocks, error) {
	rows, err := tx.Query(ctx, `SELECT term, count, data FROM postings WHERE tenant = $1 AND corpus = ANY ($2) AND term = ANY ($3) ORDER BY term, corpus, block`,
		sc.tenant, sc.corpora, terms)
	if err != nil {
		return nil, err
	}
	var found []termBlocks
	var term string
	var count int64
	var data []byte
	_, err = pgx.ForEachRow(rows, []any{&term, &count, &data}, func() error {
		if len(found) == 0 || found[len(found)-1].term != term {
			found = append(found, termBlocks{term: term})
		}
		t := &found[len(found)-1]
		t.documents += count
		t.blocks = append(t.blocks, data)
		data = nil // Scan would reuse it
		return nil
	})
	slices.SortStableFunc(found, func(a, b termBlocks) int { return cmp.Compare(a.documents, b.documents) })
	return found, err
}

// admitted returns the live passages under a condition.
func admitted(ctx context.Context, tx pgx.Tx, where condition) (map[int64]struct{}, error) {
	rows, err := tx.Query(ctx, `SELECT v.passage FROM passage_vectors v WHERE `+where.sql, where.args...)
	if err != nil {
		return nil, err
	}
	ids := map[int64]struct{}{}
	var id int64
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		ids[id] = struct{}{}
		return nil
	})
	return ids, err
}

// Passages implements [retrieve.Index]. Passages of retired versions are found by their ids, so that older answers can be followed.
func (r reader) Passages(ctx context.Context, ids []retrieve.PassageID, f retrieve.Filter) (passages []retrieve.Passage, err error) {
	err = r.read(ctx, f, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT p.id, d.id, c.name, d.path, v.title, p.text, p.heading, p.start_byte, p.end_byte, p.page, c.personal_data = 'mask'
			FROM unnest($2::bigint[]) WITH ORDINALITY AS q (id, n)
			JOIN passages p ON p.tenant = $1 AND p.id = q.id
			JOIN document_versions v ON v.tenant = $1 AND v.id = p.version AND v.live_at IS NOT NULL
			JOIN documents d ON d.tenant = $1 AND d.id = v.document
			JOIN corpora c ON c.tenant = $1 AND c.id = d.corpus
			WHERE $3::text[] IS NULL OR c.name = ANY ($3) ORDER BY q.n`, tenantOf(f.Tenant), ids, orNull(f.Corpora))
		if err != nil {
			return err
		}
		passages, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p retrieve.Passage, err error) {
			var masked bool
			err = row.Scan(&p.ID, &p.Document, &p.Corpus, &p.Path, &p.Title, &p.Text, &p.Heading, &p.Start, &p.End, &p.Page, &masked)
			if masked {
				p.Text, p.Heading, p.Title = personal.Hide(p.Text), personal.Hide(p.Heading), personal.Hide(p.Title)
			}
			return p, err
		})
		return err
	})
	return passages, wrap("read passages", err)
}

// Excerpt is a passage with the document's text around it.
type Excerpt struct {
	retrieve.Passage
	Around      string // bytes [AroundStart, AroundStart+len(Around)) of the document's text, whole characters
	AroundStart int
	Version     int64
	Live        bool // the passage is of the document's current version
}

// Excerpt returns passage id with up to margin bytes of the document before and after it. ErrNotFound when f's tenant and corpora do not admit it.
func (s *Store) Excerpt(ctx context.Context, id retrieve.PassageID, margin int, f retrieve.Filter) (Excerpt, error) {
	found, err := s.Passages(ctx, []retrieve.PassageID{id}, f)
	if err != nil {
		return Excerpt{}, err
	}
	if len(found) == 0 {
		return Excerpt{}, wrap("read passage", fmt.Errorf("passage %d: %w", id, ErrNotFound))
	}
	e := Excerpt{Passage: found[0], AroundStart: max(0, found[0].Start-margin)}
	var around []byte
	var masked bool
	// Byte positions of SQL begin at 1.
	err = s.pool.QueryRow(ctx, `SELECT v.id, v.state = 'live', substring(t.text FROM $3 FOR $4), c.personal_data = 'mask'
		FROM passages p JOIN document_versions v ON v.tenant = $1 AND v.id = p.version JOIN document_texts t ON t.tenant = $1 AND t.version = v.id
		JOIN documents d ON d.tenant = $1 AND d.id = v.document JOIN corpora c ON c.tenant = $1 AND c.id = d.corpus
		WHERE p.tenant = $1 AND p.id = $2`, tenantOf(f.Tenant), id, e.AroundStart+1, e.End+margin-e.AroundStart).Scan(&e.Version, &e.Live, &around, &masked)
	if errors.Is(err, pgx.ErrNoRows) { // deleted since
		err = fmt.Errorf("passage %d: %w", id, ErrNotFound)
	}
	if err != nil {
		return Excerpt{}, wrap("read passage", err)
	}
	skipped, text := wholeCharacters(around)
	e.AroundStart += skipped
	e.Around = text
	if masked {
		e.Around = personal.Hide(text)
	}
	return e, nil
}

// wholeCharacters cuts the parts of characters at both ends of a slice of UTF-8.
func wholeCharacters(b []byte) (skipped int, text string) {
	start := 0
	for start < len(b) && start < 4 && b[start]&0xC0 == 0x80 {
		start++
	}
	return start, strings.ToValidUTF8(string(b[start:]), "")
}
