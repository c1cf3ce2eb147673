package store

import (
	"cmp"
	"encoding/binary"
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
	n       int64              // passages that the statistics count: those in the corpora, or the allowed ones
	narrow  bool               // the statistics count the allowed passages
	average float64            // their length in terms
	allowed map[int64]struct{} // nil: all
	pages   map[int64]*scorePage
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
	weight := idf(s.n, documents) * (bm25K1 + 1)
	short, slope := bm25K1*(1-bm25B), bm25K1*bm25B/s.average
	page, pageID := (*scorePage)(nil), int64(-1)
	for _, data := range t.blocks {
		passage := int64(0)
		for len(data) > 0 {
			delta, n1 := binary.Uvarint(data)
			count, n2 := binary.Uvarint(data[max(n1, 0):])
			length, n3 := binary.Uvarint(data[max(n1, 0)+max(n2, 0):])
			if n1 <= 0 || n2 <= 0 || n3 <= 0 {
				return errDamaged
			}
			data = data[n1+n2+n3:]
			if passage += int64(delta); passage < 0 || count|length > math.MaxUint32 {
				return errDamaged
			}
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
			tf := float64(count)
			page[passage&(1<<pageBits-1)] += weight * tf / (tf + short + slope*float64(length))
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
