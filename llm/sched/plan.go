package sched

import (
	"cmp"
	"fmt"
	"slices"

	"ragd/llm/grammar"
	"ragd/llm/kvcache"
	"ragd/llm/model"
)

// item is one sequence's part of a batch: n tokens from position pos, the last of which may be a draft.
type item struct {
	seq    *sequence
	pos, n int
	out    int // rows with logits: the last ones of the part
	draft  []Token
}

// maxScoreRows bounds the memory for logits of a scoring request: a row of 151936 takes 600 KiB.
const maxScoreRows = 32

// plan fills s.items.
func (s *Scheduler) plan() {
	s.items = s.items[:0]
	preemptions := s.stats.Preemptions
	var decoding, prefilling []*sequence
	for _, q := range s.running {
		if q.decoding() {
			decoding = append(decoding, q)
		} else {
			prefilling = append(prefilling, q)
		}
	}
	slices.SortStableFunc(decoding, rank)
	for _, q := range decoding {
		s.extend(q, 1)
	}
	if len(prefilling) == 0 && len(s.waiting) == 0 { // prompts make better use of rows than guesses
		s.speculate()
	}
	budget := s.pace.chunk(len(s.items))
	slices.SortStableFunc(prefilling, func(a, b *sequence) int { return cmp.Or(s.served(a, b), rank(a, b)) })
	for _, q := range prefilling {
		budget -= s.prefill(q, budget)
	}
	for budget > 0 && s.stats.Preemptions == preemptions {
		q := s.next()
		if q == nil || !s.admit(q) {
			break
		}
		budget -= s.prefill(q, budget)
	}
}

func rank(a, b *sequence) int {
	switch {
	case a.before(b):
		return -1
	case b.before(a):
		return 1
	}
	return 0
}

// served orders by priority, then by how little the namespace has received.
func (s *Scheduler) served(a, b *sequence) int {
	return cmp.Or(cmp.Compare(b.req.Priority, a.req.Priority),
		cmp.Compare(s.share.served[a.req.Namespace], s.share.served[b.req.Namespace]))
}

// prefill plans up to budget of q's pending tokens and returns how many.
func (s *Scheduler) prefill(q *sequence, budget int) int {
	n := min(q.pending(), budget)
	if len(q.req.Score) > 0 {
		n = min(n, max(0, len(q.req.Prompt)-1-q.computed)+maxScoreRows)
	}
	if n <= 0 || !s.extend(q, n) {
		return 0
	}
	return n
}

// extend plans n tokens of q, preempting lower-ranked sequences while there are too few pages. It returns false when
// q itself had to give way.
func (s *Scheduler) extend(q *sequence, n int) bool {
	for q.lease != nil {
		if q.lease.Extend(n) == nil {
			it := item{seq: q, pos: q.computed, n: n}
			switch end := q.computed + n; {
			case len(q.req.Score) > 0:
				it.out = min(n, max(0, end-(len(q.req.Prompt)-1+q.scored)))
			case end == len(q.tokens):
				it.out = 1
			}
			s.items = append(s.items, it)
			return true
		}
		victim := slices.MaxFunc(s.running, rank)
		if victim == q && len(s.running) == q.members() { // alone and still too large: Submit should have refused it
			s.fail(q.req, fmt.Errorf("llm: %w: the cache has %d pages", ErrTooLong, s.cache.Stats().Pages))
			s.unplan()
			return false
		}
		s.preempt(victim)
	}
	return false
}

// speculate adds drafts to the planned decoding steps. Drafts are checked against what the sampler chooses from the
// model's own logits, so they never change a result. Pages for them are taken only if they are to be had.
func (s *Scheduler) speculate() {
	rows := len(s.items)
	for i := range s.items {
		it := &s.items[i]
		q := it.seq
		most := min(s.config.MaxDraft, q.maxTokens-q.generated()-1)
		if most <= 0 || q.group != nil {
			continue
		}
		if q.history == nil {
			q.history = newHistory(q.tokens)
		}
		q.history.extend(q.tokens)
		if q.history.length == 0 {
			continue
		}
		n := s.guess.size(q.history.length, rows-1, most)
		if n == 0 {
			s.guess.rest(q.history.length)
			continue
		}
		draft := q.history.draft(nil, n)
		if q.matcher != nil {
			draft = legal(q.matcher, draft)
		}
		if n = len(draft); n == 0 || q.lease.Extend(n) != nil {
			continue
		}
		it.n, it.out, it.draft = 1+n, 1+n, draft
		rows += n
	}
}

// legal cuts a draft before the first token that the grammar does not allow.
func legal(m *grammar.Matcher, draft []Token) []Token {
	m = m.Clone()
	for i, t := range draft {
		if m.Done() || m.Accept(t) != nil {
			return draft[:i]
		}
	}
	return draft
}

// next picks the waiting sequence to admit, or nil.
func (s *Scheduler) next() *sequence {
	width := 0
	for _, q := range s.running {
		width += q.slots()
	}
	var best *sequence
	for _, q := range s.waiting {
		if best != nil && cmp.Or(s.served(q, best), cmp.Compare(q.order, best.order)) >= 0 {
			continue
		}
		if !s.awaited(q) {
			best = q
		}
	}
	if best == nil || width+best.slots() > s.config.MaxSeqs {
		return nil
	}
	return best
}

// awaited reports whether a running sequence is computing pages that q will find in the cache if it waits.
func (s *Scheduler) awaited(q *sequence) bool {
	cached := -1
	for _, r := range s.running {
		if r.req.Namespace != q.req.Namespace || r.pending() <= 1 {
			continue
		}
		common := commonPages(q.lookup(), r.tokens[:r.target()])
		if common <= r.computed {
			continue
		}
		if cached < 0 {
			cached = s.cache.Match(q.req.Namespace, q.lookup())
		}
		if common > cached {
			return true
		}
	}
	return false
}

// commonPages returns how many leading tokens of a, in whole pages and leaving one, b shares.
func commonPages(a, b []Token) int {
	n := 0
	for n < min(len(a)-1, len(b)) && a[n] == b[n] {
		n++
	}
	return n / kvcache.PageTokens * kvcache.PageTokens
}

// build turns the items into the batch and counts its rows.
func (s *Scheduler) build() (prefill, decoding int) {
	b := &s.batch
	b.Tokens, b.Seqs, b.Out = b.Tokens[:0], b.Seqs[:0], b.Out[:0]
	for _, it := range s.items {
		start := len(b.Tokens)
		b.Tokens = append(b.Tokens, it.seq.tokens[it.pos:it.pos+it.n-len(it.draft)]...)
		b.Tokens = append(b.Tokens, it.draft...)
		b.Seqs = append(b.Seqs, model.Seq{Start: start, N: it.n, Pos: it.pos, Pages: it.seq.lease.Pages()})
		for row := start + it.n - it.out; row < start+it.n; row++ {
			b.Out = append(b.Out, row)
		}
		if it.seq.decoding() {
			decoding += it.n
			s.stats.Drafted += int64(len(it.draft))
		} else {
			prefill += it.n
		}
	}
	return prefill, decoding
}
