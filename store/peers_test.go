package store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/retrieve"
	"ragd/retrieve/analysis"
)

// Other systems build their lexical index anew for a question, share it between questions with other filters, or scan whole tables. Here a question
// writes nothing, reads no more posting blocks when the corpus has grown by passages that do not hold its words, and sees only what its filter admits,
// whatever others ask meanwhile.
func TestQuestionsWriteNothingAndDoNotDisturbEachOther(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	const corpora = 4
	load := func(from, to int) {
		for c := range corpora {
			for i := from; i < to; i++ {
				text := fmt.Sprintf("filler %d of nothing", i)
				if i == 0 {
					text = fmt.Sprintf("the needle number%d lies here", c)
				}
				d := page(fmt.Sprintf("c%d-%d.txt", c, i), text)
				d.Corpus = fmt.Sprintf("corpus%d", c)
				loader{s}.Load(t, d)
			}
		}
	}
	// What the leg reads of a question's terms: see blocksOf.
	read := func() int64 {
		return count(t, s, `SELECT sum(octet_length(data)) FROM postings WHERE term = ANY ($1)`, analysis.Terms("needle", "en"))
	}
	load(0, 4)
	before := read()
	require.Positive(t, before)
	load(4, 12)
	require.Equal(t, before, read(), "what a question reads does not grow with passages that do not hold its words")

	state := func() (sum string) {
		require.NoError(t, s.Pool().QueryRow(ctx, `SELECT md5(string_agg(concat_ws(' ', xmin, tenant, corpus, term, block, encode(data, 'hex')), E'\n' ORDER BY tenant, corpus, term, block))
			FROM postings`).Scan(&sum))
		return sum
	}
	rest := state()
	var group sync.WaitGroup
	for c := range corpora {
		for range 3 {
			group.Go(func() {
				f := retrieve.Filter{Corpora: []string{fmt.Sprintf("corpus%d", c)}}
				for range 10 {
					hits, err := s.Lexical(ctx, "needle", 5, f)
					if err != nil || len(hits) != 1 {
						t.Errorf("corpus %d: %d hits, %v", c, len(hits), err)
						return
					}
					found, err := s.Passages(ctx, []retrieve.PassageID{hits[0].ID}, f)
					if err != nil || len(found) != 1 || found[0].Text != fmt.Sprintf("the needle number%d lies here", c) {
						t.Errorf("corpus %d: %v, %v", c, found, err)
						return
					}
				}
			})
		}
	}
	group.Wait()
	require.Equal(t, rest, state(), "no row of the index was written again")
}
