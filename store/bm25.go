package store

import (
	"cmp"
	"math"
	"slices"

	"ragd/retrieve"
)

// The parameters of BM25: saturation of term counts and weight of the passage's length. Documents that are cut into passages of a few hundred tokens
// rank a little better with a later saturation than Lucene's 1.2 (docs/eval.md).
const (
	bm25K1 = 1.5
	bm25B  = 0.75
)

// termBlocks are the posting blocks of one term of a question, of all corpora asked.
type termBlocks struct {
	term      string
	documents int64 // document frequency
	blocks    [][]byte
}

// idf is the weight of a term that df of n passages have, always positive.
func idf(n, df int64) float64 {
	return math.Log(1 + (float64(n)-float64(df)+0.5)/(float64(df)+0.5))
}

// scorer adds up BM25 for the passages of posting lists.
type scorer struct {
	n            int64              // passages that the statistics count: those in the corpora, or the allowed ones
	narrow       bool               // the statistics count the allowed passages
	short, slope float64            // what the count of a term is weighed against: short, and slope for each term of the passage
	allowed      map[int64]struct{} // nil: all
	pages        map[int64]*scorePage
}

func newScorer(counted size) *scorer {
	return &scorer{n: counted.passages, short: bm25K1 * (1 - bm25B), slope: bm25K1 * bm25B / counted.average(), pages: map[int64]*scorePage{}}
}

// weight is more than what a term that documents passages have adds to any score.
func (s *scorer) weight(documents int64) float64 { return idf(s.n, documents) * (bm25K1 + 1) }

// part is what a term adds to the score of a passage of length terms that has it count times.
func (s *scorer) part(weight float64, count, length uint64) float64 {
	tf := float64(count)
	return weight * tf / (tf + s.short + float64(s.slope*float64(length))) // the conversion forbids a fused multiplication: one result on every machine
}

// scorePage holds the scores of 2^pageBits passages with neighbouring ids. Postings come in ascending order of ids, so that a page is looked up
// once for many of them: four times faster than a map entry for each passage.
const pageBits = 10

type scorePage [1 << pageBits]float64

// add scores the postings of one term. It decodes in place rather than through decodeBlock: this loop is the whole cost of the lexical leg.
func (s *scorer) add(t termBlocks) error {
	documents := t.documents
	if s.narrow {
		var err error
		if documents, err = s.count(t.blocks); err != nil {
			return err
		}
	}
	weight := s.weight(documents)
	page, pageID := (*scorePage)(nil), int64(-1)
	for _, data := range t.blocks {
		passage := int64(0)
		for at := 0; at < len(data); {
			delta, count, length, next := readPosting(data, at)
			if passage += int64(delta); next < 0 || passage < 0 || count|length > math.MaxUint32 {
				return errDamaged
			}
			at = next
			if s.allowed != nil {
				if _, ok := s.allowed[passage]; !ok {
					continue
				}
			}
			if id := passage >> pageBits; id != pageID {
				pageID = id
				if page = s.pages[id]; page == nil {
					page = new(scorePage)
					s.pages[id] = page
				}
			}
			page[passage&(1<<pageBits-1)] += s.part(weight, count, length)
		}
	}
	return nil
}

// count returns how many of the postings are of allowed passages.
func (s *scorer) count(blocks [][]byte) (n int64, err error) {
	var postings []posting
	for _, data := range blocks {
		if postings, err = decodeBlock(postings[:0], data); err != nil {
			return 0, err
		}
		for _, p := range postings {
			if _, ok := s.allowed[p.passage]; ok {
				n++
			}
		}
	}
	return n, nil
}

// top returns the k best passages; equal scores by id.
func (s *scorer) top(k int) []retrieve.Hit {
	hits := make([]retrieve.Hit, 0, 2*k)
	floor := 0.0 // scores of passages without a term
	for id, page := range s.pages {
		for i, score := range page {
			if score <= 0 || score < floor {
				continue
			}
			hits = append(hits, retrieve.Hit{ID: retrieve.PassageID(id<<pageBits | int64(i)), Score: score})
			if len(hits) == cap(hits) { // keep the better half: amortised, each hit is compared O(log k) times
				slices.SortFunc(hits, byScore)
				hits = hits[:k]
				floor = hits[k-1].Score
			}
		}
	}
	slices.SortFunc(hits, byScore)
	hits = hits[:min(k, len(hits))]
	for i := range hits {
		hits[i].Rank = i + 1
	}
	return hits
}

// byScore orders hits, the best first; equal scores by id.
func byScore(a, b retrieve.Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID))
}
