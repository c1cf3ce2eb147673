package sched

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/llm/grammar"
	"ragd/llm/kvcache"
	"ragd/llm/model"
	"ragd/llm/sample"
)

const (
	testVocab   = 97
	testContext = 512
	endToken    = 0
)

// fakeModel is a language model whose logits are a hash of all tokens before them. It keeps its "keys and values" in
// pages like a real one, so a wrong page table, a page overwritten too early or a missing copy changes its output. It
// also keeps a clock that advances with the work done.
type fakeModel struct {
	slots  []uint64 // [pages*16] hash of the prefix up to this token
	said   []Token  // [pages*16] the token itself
	order  int      // >0: the logits depend on this many last tokens only, so that the text repeats itself
	clock  time.Time
	tokens int64 // computed
	rows   []int // per step
	fail   error
	ends   bool // whether the end token can win
}

func newFakeModel(pages int) *fakeModel {
	return &fakeModel{slots: make([]uint64, pages*kvcache.PageTokens), said: make([]Token, pages*kvcache.PageTokens), clock: time.Unix(1000, 0), ends: true}
}

func (m *fakeModel) copyPage(dst, src kvcache.Page) {
	copy(m.slots[int(dst)*kvcache.PageTokens:][:kvcache.PageTokens], m.slots[int(src)*kvcache.PageTokens:][:kvcache.PageTokens])
	copy(m.said[int(dst)*kvcache.PageTokens:][:kvcache.PageTokens], m.said[int(src)*kvcache.PageTokens:][:kvcache.PageTokens])
}

func (m *fakeModel) now() time.Time { return m.clock }

func step(h uint64, t Token) uint64 {
	h = (h + uint64(t) + 1) * 0x9e3779b97f4a7c15
	h ^= h >> 29
	return h * 0xbf58476d1ce4e5b9
}

func (m *fakeModel) logits(h uint64, dst []float32) {
	for i := range dst {
		h = step(h, Token(i))
		dst[i] = float32(h>>40) / (1 << 21)
	}
	if !m.ends {
		dst[endToken] = -1e9
	}
}

func (m *fakeModel) Forward(b *model.Batch) error {
	m.clock = m.clock.Add(20*time.Millisecond + time.Duration(len(b.Tokens))*2*time.Millisecond)
	if m.fail != nil {
		return m.fail
	}
	m.tokens += int64(len(b.Tokens))
	m.rows = append(m.rows, len(b.Tokens))
	b.Logits = slices.Grow(b.Logits[:0], len(b.Out)*testVocab)[:len(b.Out)*testVocab]
	out := 0
	for _, s := range b.Seqs {
		at := func(pos int) int {
			return int(s.Pages[pos/kvcache.PageTokens])*kvcache.PageTokens + pos%kvcache.PageTokens
		}
		for i := range s.N {
			pos, h := s.Pos+i, uint64(7)
			if pos > 0 {
				h = m.slots[at(pos-1)]
			}
			h = step(h, b.Tokens[s.Start+i])
			m.slots[at(pos)], m.said[at(pos)] = h, b.Tokens[s.Start+i]
			if m.order > 0 {
				h = 7
				for p := max(0, pos-m.order+1); p <= pos; p++ {
					h = step(h, m.said[at(p)])
				}
			}
			if out < len(b.Out) && b.Out[out] == s.Start+i {
				m.logits(h, b.Logits[out*testVocab:][:testVocab])
				out++
			}
		}
	}
	if out != len(b.Out) {
		return fmt.Errorf("out rows %v are not ascending rows of the batch", b.Out)
	}
	return nil
}

func (m *fakeModel) after(tokens []Token) []float32 {
	h := uint64(7)
	if m.order > 0 {
		tokens = tokens[max(0, len(tokens)-m.order):]
	}
	for _, t := range tokens {
		h = step(h, t)
	}
	row := make([]float32, testVocab)
	m.logits(h, row)
	return row
}

// alone is the plain run: the whole prompt at once, one token at a time, no cache.
func alone(m *fakeModel, r *Request, answer int) (out []Token, why Finish) {
	s := sample.New(r.Sampling, answer, new(sample.Workspace))
	var g *grammar.Matcher
	if r.Grammar != nil {
		g = r.Grammar.Matcher()
	}
	for {
		var mask []uint64
		if g != nil {
			mask = g.Mask()
		}
		t := s.Sample(m.after(slices.Concat(r.Prompt, out)), mask, len(out))
		if g != nil && g.Accept(t) != nil {
			panic("masked token sampled")
		}
		if t == endToken {
			return out, Stop
		}
		s.Accept(t)
		out = append(out, t)
		if g != nil && g.Done() {
			return out, Stop
		}
		if len(out) == r.MaxTokens {
			return out, Length
		}
	}
}

type result struct {
	tokens [][]Token // per answer
	finish []Finish
	usage  []Usage
	scores []float32
	err    error
}

// rig runs requests and collects their events.
type rig struct {
	t       *testing.T
	model   *fakeModel
	cache   *kvcache.Cache
	sched   *Scheduler
	results map[*Request]*result
}

func newRig(t *testing.T, pages, seqs int) *rig {
	m := newFakeModel(pages)
	c := kvcache.New(pages, m.copyPage)
	return &rig{t, m, c, New(m, c, Config{
		Vocab: testVocab, ContextTokens: testContext, MaxSeqs: seqs, MaxQueue: 1000,
		End: func(t Token) bool { return t == endToken }, Now: m.now,
	}), map[*Request]*result{}}
}

func (g *rig) submit(r *Request) error {
	err := g.sched.Submit(r)
	if err == nil {
		n := r.answers()
		g.results[r] = &result{tokens: make([][]Token, n), finish: make([]Finish, n), usage: make([]Usage, n)}
	}
	return err
}

func (g *rig) step() {
	for _, e := range g.sched.Step() {
		r := g.results[e.Request]
		require.NotNil(g.t, r, "event for a request that was cancelled or never submitted")
		require.NoError(g.t, r.err, "event after failure")
		require.Empty(g.t, r.finish[e.Answer], "event after the end")
		r.err = e.Err
		if e.Token >= 0 {
			r.tokens[e.Answer] = append(r.tokens[e.Answer], e.Token)
			if len(e.Request.Score) > 0 {
				r.scores = append(r.scores, e.LogProb)
			}
		}
		r.finish[e.Answer], r.usage[e.Answer] = e.Finish, e.Usage
	}
}

func (g *rig) run() {
	for steps := 0; !g.sched.Idle(); steps++ {
		require.Less(g.t, steps, 200_000, "no end in sight")
		g.step()
	}
	require.Zero(g.t, g.cache.Stats().Leased, "idle engine holds pages")
}

func (g *rig) requireAlone(r *Request) {
	for a := range r.answers() {
		tokens, why := alone(g.model, r, a)
		require.Equal(g.t, tokens, g.results[r].tokens[a])
		require.Equal(g.t, why, g.results[r].finish[a])
		require.Equal(g.t, len(tokens), g.results[r].usage[a].OutputTokens)
	}
}

func prompt(n int, seed uint64) []Token {
	rng := rand.New(rand.NewPCG(seed, 1))
	out := make([]Token, n)
	for i := range out {
		out[i] = Token(1 + rng.IntN(testVocab-1))
	}
	return out
}

// The course counts 1,000 token passes with a cache and 500,500 without for 1,000 tokens.
func TestTokenPasses(t *testing.T) {
	g := newRig(t, 80, 1)
	g.model.ends = false
	g.sched.config.ContextTokens = 1100
	r := &Request{Prompt: prompt(1, 1), MaxTokens: 1000}
	require.NoError(t, g.submit(r))
	g.run()
	require.EqualValues(t, 1000, g.model.tokens, "with cache")

	without := int64(0)
	for n := 1; n <= 1000; n++ { // token n without a cache: the prompt of n tokens from the start
		without += int64(n)
		if n%100 == 0 { // what one costs is exact, so a sample of the runs is enough
			g := newRig(t, 80, 1)
			g.sched.config.ContextTokens = 1100
			require.NoError(t, g.submit(&Request{Prompt: prompt(n, 1), MaxTokens: 1}))
			g.run()
			require.EqualValues(t, n, g.model.tokens)
		}
	}
	require.EqualValues(t, 500500, without)
}

func TestSharedPrefixIsComputedOnce(t *testing.T) {
	g := newRig(t, 200, 8)
	system := prompt(96, 1)
	var all []*Request
	for i := range 8 {
		r := &Request{Prompt: slices.Concat(system, prompt(20, uint64(10+i))), MaxTokens: 4}
		require.NoError(t, g.submit(r))
		all = append(all, r)
	}
	g.run()
	for i, r := range all {
		g.requireAlone(r)
		want := 96
		if i == 0 {
			want = 0
		}
		require.Equal(t, want, g.results[r].usage[0].CachedTokens, "request %d", i)
	}
	require.EqualValues(t, 96+8*20, g.sched.Stats().PrefillTokens)

	other := &Request{Prompt: slices.Concat(system, prompt(20, 10)), MaxTokens: 4, Namespace: "somebody else"}
	require.NoError(t, g.submit(other))
	g.run()
	g.requireAlone(other)
	require.Zero(t, g.results[other].usage[0].CachedTokens)
}

func TestLongPromptDoesNotStallStreams(t *testing.T) {
	g := newRig(t, 200, 4)
	g.model.ends = false
	stream := &Request{Prompt: prompt(10, 1), MaxTokens: 100}
	require.NoError(t, g.submit(stream))
	for range 10 {
		g.step()
	}
	long := &Request{Prompt: prompt(400, 2), MaxTokens: 5}
	require.NoError(t, g.submit(long))
	for len(g.results[long].tokens[0]) == 0 {
		before, begin := len(g.results[stream].tokens[0]), g.model.clock
		g.step()
		require.Equal(t, before+1, len(g.results[stream].tokens[0]), "every step carries the stream on")
		require.LessOrEqual(t, g.model.clock.Sub(begin), streamStep+20*time.Millisecond)
	}
	g.run()
	g.requireAlone(stream)
	g.requireAlone(long)
}

func TestFairnessBetweenNamespaces(t *testing.T) {
	g := newRig(t, 400, 2)
	for i := range 40 {
		require.NoError(t, g.submit(&Request{Prompt: prompt(60, uint64(i)), MaxTokens: 10, Namespace: "flood"}))
	}
	for range 5 {
		g.step()
	}
	small := &Request{Prompt: prompt(60, 99), MaxTokens: 10, Namespace: "small"}
	require.NoError(t, g.submit(small))
	for g.results[small].finish[0] == "" {
		g.step()
	}
	done := 0
	for r, res := range g.results {
		if r.Namespace == "flood" && res.finish[0] != "" {
			done++
		}
	}
	require.Less(t, done, 8, "the newcomer did not wait for the flood")
	g.run()
}

func TestPriority(t *testing.T) {
	g := newRig(t, 400, 1)
	low := &Request{Prompt: prompt(60, 1), MaxTokens: 3}
	high := &Request{Prompt: prompt(60, 2), MaxTokens: 3, Priority: 1}
	require.NoError(t, g.submit(&Request{Prompt: prompt(60, 3), MaxTokens: 3}))
	g.step()
	require.NoError(t, g.submit(low))
	require.NoError(t, g.submit(high))
	for g.results[high].finish[0] == "" {
		g.step()
	}
	require.Empty(t, g.results[low].tokens[0])
	g.run()
	g.requireAlone(low)
}

// Two answers that together need more pages than there are: one gives way, both come out right, nobody gets an error.
func TestPreemption(t *testing.T) {
	for _, beams := range []int{0, 2} {
		g := newRig(t, 24, 8)
		g.model.ends = false
		var all []*Request
		for i := range 4 {
			r := &Request{Prompt: prompt(30, uint64(i)), MaxTokens: 110, Beams: beams}
			require.NoError(t, g.submit(r))
			all = append(all, r)
		}
		g.run()
		for _, r := range all {
			if beams > 1 {
				g.requireAloneBeams(r)
			} else {
				g.requireAlone(r)
			}
		}
		require.Positive(t, g.sched.Stats().Preemptions)
	}
}

func TestRefusals(t *testing.T) {
	g := newRig(t, 20, 4)
	for name, r := range map[string]*Request{
		"empty prompt":     {},
		"negative token":   {Prompt: []Token{-1}},
		"token too large":  {Prompt: []Token{testVocab}},
		"score too large":  {Prompt: []Token{1}, Score: []Token{testVocab}},
		"negative max":     {Prompt: []Token{1}, MaxTokens: -1},
		"bad sampling":     {Prompt: []Token{1}, Sampling: sample.Params{TopP: 2}},
		"too many answers": {Prompt: []Token{1}, Answers: 5},
		"too many beams":   {Prompt: []Token{1}, Beams: 5},
		"answers of beams": {Prompt: []Token{1}, Beams: 2, Answers: 3},
		"log-probs":        {Prompt: []Token{1}, LogProbs: 21},
		"length penalty":   {Prompt: []Token{1}, Beams: 2, LengthPenalty: math.NaN()},
		"biased beams":     {Prompt: []Token{1}, Beams: 2, Sampling: sample.Params{LogitBias: map[int32]float32{1: 2}}},
		"penalised beams":  {Prompt: []Token{1}, Beams: 2, Sampling: sample.Params{FrequencyPenalty: 1}},
		"length reward":    {Prompt: []Token{1}, Beams: 2, LengthPenalty: -1},
	} {
		err := g.submit(r)
		require.Error(t, err, name)
		require.False(t, errors.Is(err, ErrTooLong) || errors.Is(err, ErrBusy), name)
	}
	for name, r := range map[string]*Request{
		"longer than the cache":   {Prompt: prompt(320, 1)},
		"answer does not fit":     {Prompt: prompt(300, 1), MaxTokens: 21},
		"score does not fit":      {Prompt: prompt(300, 1), Score: prompt(21, 1)},
		"beams do not fit":        {Prompt: prompt(100, 1), MaxTokens: 60, Beams: 4},
		"longer than the context": {Prompt: prompt(600, 1)},
	} {
		require.ErrorIs(t, g.submit(r), ErrTooLong, name)
	}
	require.NoError(t, g.submit(&Request{Prompt: prompt(300, 1), MaxTokens: 20}))
	g.sched.config.MaxQueue = 1
	var busy *BusyError
	err := g.submit(&Request{Prompt: prompt(3, 1)})
	require.ErrorIs(t, err, ErrBusy)
	require.ErrorAs(t, err, &busy)
	require.GreaterOrEqual(t, busy.RetryAfter, time.Second)
	g.run()
}

func TestAForwardErrorFailsTheBatchOnly(t *testing.T) {
	g := newRig(t, 100, 1)
	a, b := &Request{Prompt: prompt(30, 1), MaxTokens: 5}, &Request{Prompt: prompt(30, 2), MaxTokens: 5}
	require.NoError(t, g.submit(a))
	require.NoError(t, g.submit(b))
	g.model.fail = errors.New("broken")
	g.step()
	g.model.fail = nil
	g.run()
	require.ErrorContains(t, g.results[a].err, "broken")
	g.requireAlone(b)
	require.Zero(t, g.cache.Match("", append(a.Prompt, 1)), "what was not computed is not cached")
}

func TestUnusableLogits(t *testing.T) {
	g := newRig(t, 100, 2)
	v := grammar.NewVocab(testVocab, func(Token) []byte { return nil }, func(Token) bool { return false }, func(t Token) bool { return t == endToken })
	choice, err := grammar.Choice(v, []string{"x"})
	require.NoError(t, err)
	r := &Request{Prompt: prompt(3, 1), Grammar: choice, Answers: 2}
	require.NoError(t, g.submit(r))
	g.run()
	require.ErrorContains(t, g.results[r].err, "no token is possible")
}

func TestCancel(t *testing.T) {
	g := newRig(t, 100, 2)
	g.model.ends = false
	a, b, c := &Request{Prompt: prompt(40, 1), MaxTokens: 50}, &Request{Prompt: prompt(40, 2), MaxTokens: 50, Answers: 2}, &Request{Prompt: prompt(40, 3), MaxTokens: 5}
	for _, r := range []*Request{a, b, c} {
		require.NoError(t, g.submit(r))
	}
	for range 5 {
		g.step()
	}
	g.sched.Cancel(a)
	g.sched.Cancel(a)
	delete(g.results, a)
	require.Equal(t, 32, g.cache.Match("", a.Prompt), "computed pages stay")
	for range 5 {
		g.step()
	}
	u, ok := g.sched.CancelAnswer(b, 1)
	require.True(t, ok)
	require.Positive(t, u.OutputTokens)
	g.results[b].finish[1] = Stop
	_, ok = g.sched.CancelAnswer(b, 1)
	require.False(t, ok)
	g.run()
	g.requireAlone(c)
	want, _ := alone(g.model, b, 0)
	require.Equal(t, want, g.results[b].tokens[0])
}

func TestScore(t *testing.T) {
	g := newRig(t, 100, 4)
	p, continuation := prompt(40, 1), prompt(100, 2)
	for range 2 { // the second time with a warm cache
		r := &Request{Prompt: p, Score: continuation}
		require.NoError(t, g.submit(r))
		require.NoError(t, g.submit(&Request{Prompt: slices.Concat(p, continuation), MaxTokens: 3}))
		g.run()
		got := g.results[r]
		require.Equal(t, continuation, got.tokens[0])
		for i, lp := range got.scores {
			row := g.model.after(slices.Concat(p, continuation[:i]))
			require.Equal(t, sample.LogProb(row, continuation[i]), lp, "token %d", i)
		}
	}
	require.Equal(t, 32, g.cache.Match("", p), "sanity: the prompt was cached")
}

// aloneBeams is a beam search without a cache. Matchers start anew for every hypothesis.
func aloneBeams(m *fakeModel, r *Request) []sample.Hypothesis {
	b := sample.Beams{Width: r.Beams, LengthPenalty: r.LengthPenalty, End: func(t Token) bool { return t == endToken }}
	matcher := func(tokens []Token) *grammar.Matcher {
		g := r.Grammar.Matcher()
		for _, t := range tokens {
			if err := g.Accept(t); err != nil {
				panic(err)
			}
		}
		return g
	}
	for n := 0; n < r.MaxTokens && !b.Done(); n++ {
		var rows [][]float32
		var masks [][]uint64
		for _, h := range b.Live() {
			rows = append(rows, m.after(slices.Concat(r.Prompt, h.Tokens)))
			if r.Grammar != nil {
				masks = append(masks, matcher(h.Tokens).Mask())
			}
		}
		b.Step(rows, masks)
		for i := len(b.Live()) - 1; r.Grammar != nil && i >= 0; i-- {
			if matcher(b.Live()[i].Tokens).Done() {
				b.Finish(i)
			}
		}
	}
	return b.Best()
}

func (g *rig) requireAloneBeams(r *Request) {
	best := aloneBeams(g.model, r)
	for a := range r.answers() {
		var want []Token
		for _, t := range best[a].Tokens {
			if t != endToken {
				want = append(want, t)
			}
		}
		require.Equal(g.t, want, g.results[r].tokens[a])
		require.Equal(g.t, best[a].Ended, g.results[r].finish[a] == Stop)
	}
}

// TestRandomTrace is the model-based test: whatever the scheduler does with batches, chunks, cache, forks, preemption
// and cancellation, every request produces what it produces alone.
func TestRandomTrace(t *testing.T) {
	v := grammar.NewVocab(testVocab, func(t Token) []byte { return []byte{'a' + byte(t%26)} }, func(Token) bool { return false }, func(t Token) bool { return t == endToken })
	choice, err := grammar.Choice(v, []string{"abc", "abcdefgh", "zz", "hello"})
	require.NoError(t, err)
	for _, tc := range []struct{ pages, seqs, requests int }{{14, 3, 60}, {24, 6, 150}, {60, 8, 200}, {400, 16, 200}} {
		preemptions, accepted := int64(0), int64(0)
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("pages=%d/seqs=%d/seed=%d", tc.pages, tc.seqs, seed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 5))
				g := newRig(t, tc.pages, tc.seqs)
				g.model.ends = seed%2 == 0
				if seed >= 2 { // texts that repeat themselves, with speculation
					g.model.order, g.sched.config.MaxDraft = int(seed)%3, 6
				}
				var live []*Request
				limit := tc.pages * kvcache.PageTokens
				for submitted := 0; submitted < tc.requests || !g.sched.Idle(); {
					if submitted < tc.requests && rng.IntN(3) == 0 {
						submitted++
						r := &Request{
							Prompt:    slices.Concat(prompt(rng.IntN(min(limit/3, 200)), uint64(rng.IntN(3))), prompt(1+rng.IntN(30), rng.Uint64())),
							MaxTokens: 1 + rng.IntN(min(80, limit/3)),
							Namespace: []string{"a", "b"}[rng.IntN(2)],
							Priority:  rng.IntN(2),
						}
						switch rng.IntN(6) {
						case 0:
							r.Sampling = sample.Params{Temperature: 1, Seed: rng.Uint64(), TopP: 0.9}
							r.Answers = 1 + rng.IntN(3)
						case 1:
							r.Sampling = sample.Params{Temperature: 0.7, FrequencyPenalty: 0.5, Seed: rng.Uint64(), LogitBias: map[int32]float32{endToken: 3}}
						case 2:
							r.Beams, r.LengthPenalty = 2+rng.IntN(2), rng.Float64()
							r.Answers = 1 + rng.IntN(2)
							if rng.IntN(2) == 0 {
								r.Grammar = choice
							}
						case 3:
							r.Grammar = choice
						case 4:
							r.Score, r.MaxTokens = prompt(1+rng.IntN(60), rng.Uint64()), 0
						}
						if err := g.submit(r); err != nil {
							require.ErrorIs(t, err, ErrTooLong)
							continue
						}
						live = append(live, r)
					}
					g.step()
					if rng.IntN(40) == 0 && len(live) > 0 {
						r := live[rng.IntN(len(live))]
						if g.results[r] != nil && g.results[r].finish[0] == "" {
							g.sched.Cancel(r)
							delete(g.results, r)
						}
					}
				}
				require.Zero(t, g.cache.Stats().Leased)
				for r, res := range g.results {
					require.NoError(t, res.err)
					switch {
					case len(r.Score) > 0:
						require.Equal(t, r.Score, res.tokens[0])
						for i, lp := range res.scores {
							require.Equal(t, sample.LogProb(g.model.after(slices.Concat(r.Prompt, r.Score[:i])), r.Score[i]), lp)
						}
					case r.Beams > 1:
						g.requireAloneBeams(r)
					default:
						g.requireAlone(r)
					}
				}
				preemptions += g.sched.Stats().Preemptions
				accepted += g.sched.Stats().Accepted
			})
		}
		if tc.pages < 100 {
			require.Positive(t, preemptions, "%d pages are meant to be too few", tc.pages)
		}
		require.Positive(t, accepted, "drafts are meant to be right now and then")
	}
}
