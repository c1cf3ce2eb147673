package store

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/jackc/pgx/v5"

	"ragd/retrieve"
)

// list is where the postings of a term are, of all corpora asked.
type list struct {
	term      string
	documents int64 // document frequency
	blocks    []span
}

// span is the number of a block, and the least and greatest passage in it.
type span struct {
	block       int32
	first, last int64
}

// rarestFirst finds the k best passages with as few postings as it needs. Common terms have nearly all postings of a question and little weight; so the
// rarest are read first, and when what is left weighs less than the k-th best passage has, no passage without a term so far can be among the k best: what
// is left is only looked up for those that have one and can still get there. Scores are added in the same order as without this, and come out the same.
func (r reader) rarestFirst(ctx context.Context, tx pgx.Tx, sc scope, terms []string, s *scorer, k int) ([]retrieve.Hit, error) {
	lists, err := listsOf(ctx, tx, sc, terms)
	if err != nil {
		return nil, err
	}
	if len(lists) == 0 {
		return nil, nil
	}
	rest := make([]float64, len(lists)+1) // more than what the lists from one on can add to a score
	for i := len(lists) - 1; i >= 0; i-- {
		// A passage is as long as it has terms, so that part stays below this, however often it has this one. The last factor is for rounding.
		rest[i] = rest[i+1] + s.weight(lists[i].documents)/(1+s.slope)*(1+1e-9)
	}
	for at := 0; at < len(lists); {
		stage, blocks := lists[at:at+1], len(lists[at].blocks)
		for _, next := range lists[at+1:] {
			if blocks += len(next.blocks); blocks > r.blocks {
				break
			}
			stage = lists[at : at+len(stage)+1]
		}
		names := make([]string, len(stage))
		for i, l := range stage {
			names[i] = l.term
		}
		found, err := blocksOf(ctx, tx, sc, names)
		if err != nil {
			return nil, err
		}
		for _, t := range found {
			if err := s.add(t); err != nil {
				return nil, err
			}
		}
		if at += len(stage); at == len(lists) {
			break
		}
		if best := s.top(k); len(best) == k && best[k-1].Score > rest[at] {
			return contest(ctx, tx, sc, lists[at:], rest[at:], s, k, best[k-1].Score)
		}
	}
	return s.top(k), nil
}

// contest looks the lists that are left up for the passages that can still be among the k best, the worst of which has floor so far.
func contest(ctx context.Context, tx pgx.Tx, sc scope, lists []list, rest []float64, s *scorer, k int, floor float64) ([]retrieve.Hit, error) {
	contenders := s.above(floor - rest[0])
	for i, l := range lists {
		data, err := chosenBlocks(ctx, tx, sc, l, contenders)
		if err != nil {
			return nil, err
		}
		weight := s.weight(l.documents)
		for _, block := range data {
			if err := s.addTo(contenders, weight, block); err != nil {
				return nil, err
			}
		}
		floor = kthScore(contenders, k) // those that had floor before are among them, so there are k
		contenders = slices.DeleteFunc(contenders, func(c retrieve.Hit) bool { return c.Score < floor-rest[i+1] })
	}
	slices.SortFunc(contenders, byScore)
	contenders = contenders[:k]
	for i := range contenders {
		contenders[i].Rank = i + 1
	}
	return contenders, nil
}

// listsOf returns the lists of terms, without their postings, the rarest first.
func listsOf(ctx context.Context, tx pgx.Tx, sc scope, terms []string) ([]list, error) {
	rows, err := tx.Query(ctx, `SELECT term, sum(count)::bigint, array_agg(block), array_agg(first), array_agg(last) FROM postings
		WHERE tenant = $1 AND corpus = ANY ($2) AND term = ANY ($3) GROUP BY term`, sc.tenant, sc.corpora, terms)
	if err != nil {
		return nil, err
	}
	lists, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l list, err error) {
		var blocks []int32
		var firsts, lasts []int64
		err = row.Scan(&l.term, &l.documents, &blocks, &firsts, &lasts)
		for i, block := range blocks {
			l.blocks = append(l.blocks, span{block, firsts[i], lasts[i]})
		}
		return l, err
	})
	slices.SortFunc(lists, func(a, b list) int { return cmp.Or(cmp.Compare(a.documents, b.documents), cmp.Compare(a.term, b.term)) })
	return lists, err
}

// chosenBlocks reads those blocks of a list that can hold one of passages, which are in the order of their ids.
func chosenBlocks(ctx context.Context, tx pgx.Tx, sc scope, l list, passages []retrieve.Hit) ([][]byte, error) {
	var numbers []int32
	for _, b := range l.blocks {
		if i := firstFrom(passages, b.first); i < len(passages) && int64(passages[i].ID) <= b.last {
			numbers = append(numbers, b.block)
		}
	}
	rows, err := tx.Query(ctx, `SELECT data FROM postings WHERE tenant = $1 AND corpus = ANY ($2) AND term = $3 AND block = ANY ($4)`, sc.tenant, sc.corpora, l.term, numbers)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[[]byte])
}

// firstFrom is the index of the first of passages, which are in the order of their ids, whose id is at least id.
func firstFrom(passages []retrieve.Hit, id int64) int {
	return sort.Search(len(passages), func(i int) bool { return int64(passages[i].ID) >= id })
}

// above returns the passages that score at least floor, in the order of their ids, without ranks.
func (s *scorer) above(floor float64) []retrieve.Hit {
	var hits []retrieve.Hit
	for _, id := range slices.Sorted(maps.Keys(s.pages)) {
		for i, score := range s.pages[id] {
			if score > 0 && score >= floor {
				hits = append(hits, retrieve.Hit{ID: retrieve.PassageID(id<<pageBits | int64(i)), Score: score})
			}
		}
	}
	return hits
}

// kthScore is the k-th best score of at least k hits.
func kthScore(hits []retrieve.Hit, k int) float64 {
	best, floor := make([]float64, 0, 2*k), 0.0
	for _, h := range hits {
		if h.Score < floor {
			continue
		}
		if best = append(best, h.Score); len(best) == cap(best) { // keep the better half, as top does
			slices.Sort(best)
			best = append(best[:0], best[k:]...)
			floor = best[0]
		}
	}
	slices.Sort(best)
	return best[len(best)-k]
}

// addTo adds a block of a term's postings to the scores of passages, which are in the order of their ids, and leaves all others out.
func (s *scorer) addTo(passages []retrieve.Hit, weight float64, data []byte) error {
	in, passage := 0, int64(0)
	for at := 0; at < len(data); {
		delta, count, length, next := readPosting(data, at)
		if passage += int64(delta); next < 0 || passage < 0 || count|length > math.MaxUint32 {
			return errDamaged
		}
		if at == 0 {
			in = firstFrom(passages, passage)
		}
		at = next
		for in < len(passages) && int64(passages[in].ID) < passage {
			in++
		}
		if in == len(passages) {
			return nil
		}
		if int64(passages[in].ID) == passage {
			passages[in].Score += s.part(weight, count, length)
		}
	}
	return nil
}
