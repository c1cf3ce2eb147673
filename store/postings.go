package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
)

// indexed is what the lexical index holds of a passage.
type indexed struct {
	id     int64
	lang   string
	length int
	terms  []string
	counts []int16
}

// indexedAtOnce is how many passages are read together: the terms of a hundred thousand would take half a gigabyte.
const indexedAtOnce = 4096

// eachIndexed calls fn with the passages of a version in the order of their ids, some at a time, and returns how many there are.
func eachIndexed(ctx context.Context, tx pgx.Tx, tenant string, version int64, fn func([]indexed) error) (n int, err error) {
	for {
		rows, err := tx.Query(ctx, `SELECT id, lang, length, terms, counts FROM passages WHERE tenant = $1 AND version = $2 AND seq >= $3 AND seq < $4 ORDER BY seq`,
			tenant, version, n, n+indexedAtOnce)
		if err != nil {
			return n, err
		}
		ps, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p indexed, err error) {
			return p, row.Scan(&p.id, &p.lang, &p.length, &p.terms, &p.counts)
		})
		if err != nil || len(ps) == 0 {
			return n, err
		}
		if err := fn(ps); err != nil {
			return n, err
		}
		if n += len(ps); len(ps) < indexedAtOnce {
			return n, nil
		}
	}
}

// block is a row of postings. A block without data is one to delete.
type block struct {
	term     string
	number   int32
	postings []posting
}

// gathered are postings that go into the lexical index together.
type gathered struct {
	lists    map[string][]posting
	postings int
	counted  byLanguage
}

// byLanguage is how much text there is of each language.
type byLanguage map[string]size

func (b byLanguage) add(p indexed) {
	n := b[p.lang]
	b[p.lang] = size{passages: n.passages + 1, terms: n.terms + int64(p.length)}
}

// gatheredAtOnce is how many postings are gathered, of some 10,000 passages. Each flush writes the last block of every term that it has, and most terms
// of a text are rare ones: the more that is gathered, the fewer blocks are written twice. A posting takes 16 bytes.
const gatheredAtOnce = 1 << 20

func (g *gathered) add(ps []indexed) {
	if g.lists == nil {
		g.lists, g.counted = map[string][]posting{}, byLanguage{}
	}
	for _, p := range ps {
		for i, term := range p.terms {
			g.lists[term] = append(g.lists[term], posting{passage: p.id, count: uint32(p.counts[i]), length: uint32(p.length)})
		}
		g.postings += len(p.terms)
		g.counted.add(p)
	}
}

// addPostings puts what is gathered into the lexical index of a corpus, whose row the caller has locked.
func addPostings(ctx context.Context, tx pgx.Tx, tenant string, corpus int64, g *gathered) error {
	if len(g.counted) == 0 {
		return nil
	}
	// In the order of the index, so that neighbouring rows are touched together.
	terms := slices.Sorted(maps.Keys(g.lists))
	tails, err := readBlocks(ctx, tx, `SELECT b.term, b.block, b.data FROM unnest($3::text[]) AS t(term)
		CROSS JOIN LATERAL (SELECT * FROM postings p WHERE p.tenant = $1 AND p.corpus = $2 AND p.term = t.term ORDER BY p.block DESC LIMIT 1) b`,
		tenant, corpus, terms)
	if err != nil {
		return err
	}
	tailOf := make(map[string]block, len(tails))
	for _, b := range tails {
		tailOf[b.term] = b
	}
	var changed []block
	for _, term := range terms {
		list, number := g.lists[term], int32(0)
		if !slices.IsSortedFunc(list, byPassage) { // versions that were saved at the same time have ids that mix
			slices.SortFunc(list, byPassage)
		}
		if tail, ok := tailOf[term]; ok {
			number = tail.number
			if len(tail.postings) < blockPostings {
				list = mergePostings(tail.postings, list)
			} else {
				number++
			}
		}
		for part := range slices.Chunk(list, blockPostings) {
			changed = append(changed, block{term: term, number: number, postings: part})
			number++
		}
	}
	if err := writeBlocks(ctx, tx, tenant, corpus, changed); err != nil {
		return err
	}
	return countLanguages(ctx, tx, tenant, corpus, g.counted, 1)
}

// removePostings takes passages, in the order of their ids, out of the lexical index of a corpus, whose row the caller has locked. It reads only the
// blocks that can hold them.
func removePostings(ctx context.Context, tx pgx.Tx, tenant string, corpus int64, ps []indexed) error {
	if len(ps) == 0 {
		return nil
	}
	gone, terms, counted := map[int64]bool{}, map[string]bool{}, byLanguage{}
	for _, p := range ps {
		gone[p.id] = true
		counted.add(p)
		for _, term := range p.terms {
			terms[term] = true
		}
	}
	blocks, err := readBlocks(ctx, tx, `SELECT term, block, data FROM postings WHERE tenant = $1 AND corpus = $2 AND term = ANY($3) AND first <= $4 AND last >= $5`,
		tenant, corpus, slices.Sorted(maps.Keys(terms)), ps[len(ps)-1].id, ps[0].id)
	if err != nil {
		return err
	}
	var changed []block
	for _, b := range blocks {
		n := len(b.postings)
		b.postings = slices.DeleteFunc(b.postings, func(p posting) bool { return gone[p.passage] })
		if len(b.postings) < n {
			changed = append(changed, b)
		}
	}
	if err := writeBlocks(ctx, tx, tenant, corpus, changed); err != nil {
		return err
	}
	return countLanguages(ctx, tx, tenant, corpus, counted, -1)
}

func readBlocks(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]block, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (b block, err error) {
		var data []byte
		if err = row.Scan(&b.term, &b.number, &data); err == nil {
			b.postings, err = decodeBlock(nil, data)
		}
		return b, err
	})
}

// writeBlocks stores blocks and deletes the empty ones.
func writeBlocks(ctx context.Context, tx pgx.Tx, tenant string, corpus int64, blocks []block) error {
	var terms, emptyTerms []string
	var numbers, emptyNumbers []int32
	var counts []int16
	var firsts, lasts []int64
	var data [][]byte
	for _, b := range blocks {
		n := len(b.postings)
		if n == 0 {
			emptyTerms, emptyNumbers = append(emptyTerms, b.term), append(emptyNumbers, b.number)
			continue
		}
		terms, numbers, counts = append(terms, b.term), append(numbers, b.number), append(counts, int16(n))
		firsts, lasts = append(firsts, b.postings[0].passage), append(lasts, b.postings[n-1].passage)
		data = append(data, encodeBlock(nil, b.postings))
	}
	if len(terms) > 0 {
		_, err := tx.Exec(ctx, `INSERT INTO postings (tenant, corpus, term, block, count, first, last, data)
			SELECT $1, $2, * FROM unnest($3::text[], $4::integer[], $5::smallint[], $6::bigint[], $7::bigint[], $8::bytea[])
			ON CONFLICT (tenant, corpus, term, block) DO UPDATE SET count = EXCLUDED.count, first = EXCLUDED.first, last = EXCLUDED.last, data = EXCLUDED.data`,
			tenant, corpus, terms, numbers, counts, firsts, lasts, data)
		if err != nil {
			return fmt.Errorf("write postings: %w", err)
		}
	}
	if len(emptyTerms) > 0 {
		_, err := tx.Exec(ctx, `DELETE FROM postings p USING unnest($3::text[], $4::integer[]) AS e(term, block)
			WHERE p.tenant = $1 AND p.corpus = $2 AND p.term = e.term AND p.block = e.block`, tenant, corpus, emptyTerms, emptyNumbers)
		if err != nil {
			return fmt.Errorf("delete empty postings: %w", err)
		}
	}
	return nil
}

// countLanguages adds passages, counted by language, to the statistics of a corpus (sign 1) or takes them away (sign -1).
func countLanguages(ctx context.Context, tx pgx.Tx, tenant string, corpus int64, counted byLanguage, sign int64) error {
	for _, lang := range slices.Sorted(maps.Keys(counted)) {
		passages, terms := sign*counted[lang].passages, sign*counted[lang].terms
		// The row is there when something is taken away: INSERT alone would be stopped by the table's check of negative numbers.
		tag, err := tx.Exec(ctx, `UPDATE corpus_languages SET passages = passages + $4, terms = terms + $5 WHERE tenant = $1 AND corpus = $2 AND lang = $3`,
			tenant, corpus, lang, passages, terms)
		if err == nil && tag.RowsAffected() == 0 {
			_, err = tx.Exec(ctx, `INSERT INTO corpus_languages (tenant, corpus, lang, passages, terms) VALUES ($1, $2, $3, $4, $5)`, tenant, corpus, lang, passages, terms)
		}
		if err != nil {
			return fmt.Errorf("count passages: %w", err)
		}
	}
	_, err := tx.Exec(ctx, `DELETE FROM corpus_languages WHERE tenant = $1 AND corpus = $2 AND passages = 0`, tenant, corpus)
	return err
}
