package store

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBlockRoundTrip(t *testing.T) {
	for name, ps := range map[string][]posting{
		"none":  nil,
		"one":   {{passage: 1, count: 1, length: 1}},
		"large": {{passage: 0, count: 1, length: 0}, {passage: 1 << 40, count: 32767, length: 1 << 30}, {passage: math.MaxInt64, count: 1, length: math.MaxUint32}},
	} {
		got, err := decodeBlock(nil, encodeBlock(nil, ps))
		require.NoError(t, err, name)
		require.Equal(t, ps, got, name)
	}
}

func TestMergePostings(t *testing.T) {
	of := func(ids ...int64) (ps []posting) {
		for _, id := range ids {
			ps = append(ps, posting{passage: id})
		}
		return ps
	}
	require.Equal(t, of(1, 2, 3, 4), mergePostings(of(1, 2), of(3, 4)))
	require.Equal(t, of(1, 2, 3, 4), mergePostings(of(2, 4), of(1, 3)))
	require.Equal(t, of(1), mergePostings(nil, of(1)))
}

// The scorer decodes by itself; it must agree with decodeBlock and the formula, on whatever bytes.
func FuzzBlock(f *testing.F) {
	f.Add(encodeBlock(nil, []posting{{1, 1, 1}, {5, 2, 100}, {1 << 20, 3, 7}}))
	f.Add([]byte{0x80})
	f.Add([]byte{1, 2})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 3*blockPostings {
			return
		}
		ps, decodeErr := decodeBlock(nil, data)
		s := newScorer(size{passages: 10, terms: 50})
		err := s.add(termBlocks{documents: 3, blocks: [][]byte{data}})
		require.Equal(t, decodeErr == nil, err == nil)
		if err != nil || !slices.IsSortedFunc(ps, byPassage) {
			return
		}
		want := map[int64]float64{}
		for _, p := range ps {
			tf, length := float64(p.count), float64(p.length)
			want[p.passage] += idf(10, 3) * tf * (1.5 + 1) / (tf + 1.5*(1-0.75+0.75*length/5))
		}
		for _, h := range s.top(1000) {
			require.InEpsilon(t, want[int64(h.ID)], h.Score, 1e-9)
		}
	})
}

func TestTopKeepsTheBest(t *testing.T) {
	s := newScorer(size{passages: 5000, terms: 50_000})
	var ps []posting
	for i := range int64(5000) {
		ps = append(ps, posting{passage: 1 + i*7, count: uint32(1 + (i*7919)%100), length: 10})
	}
	require.NoError(t, s.add(termBlocks{documents: 100, blocks: [][]byte{encodeBlock(nil, ps)}}))
	all := s.top(len(ps))
	require.Len(t, all, len(ps))
	require.True(t, slices.IsSortedFunc(all, byScore))
	for _, k := range []int{1, 2, 100, 4999} {
		require.Equal(t, all[:k], s.top(k))
	}
}
