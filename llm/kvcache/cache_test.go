package kvcache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// check verifies the package's invariants from the raw structures.
func (c *Cache) check() error {
	refs := make([]int32, len(c.refs))
	leased := make([]bool, len(c.refs))
	for l := range c.leases {
		if len(l.pages) != PagesFor(l.len) {
			return fmt.Errorf("lease of %d tokens has %d pages", l.len, len(l.pages))
		}
		for _, p := range l.pages {
			refs[p]++
			leased[p] = true
		}
	}
	nodes, idle := 0, 0
	var walk func(n *node) error
	walk = func(n *node) error {
		for key, x := range n.children {
			if x.key != key || x.parent != n || c.nodes[x.page] != x {
				return fmt.Errorf("page %d: broken links", x.page)
			}
			nodes++
			refs[x.page]++
			if linked := x.next != nil; linked == leased[x.page] {
				return fmt.Errorf("page %d: leased %v, evictable %v", x.page, leased[x.page], linked)
			}
			if x.next != nil {
				idle++
			}
			if err := walk(x); err != nil {
				return err
			}
		}
		return nil
	}
	for ns, root := range c.roots {
		if root.ns != ns || len(root.children) == 0 {
			return fmt.Errorf("namespace %q: bad or empty root", ns)
		}
		if err := walk(root); err != nil {
			return err
		}
	}
	if idle != c.idle.len {
		return fmt.Errorf("%d evictable pages listed, %d found", c.idle.len, idle)
	}
	free := make([]bool, len(c.refs))
	for _, p := range c.free {
		if free[p] {
			return fmt.Errorf("page %d is free twice", p)
		}
		free[p] = true
	}
	s := Stats{Pages: len(c.refs), Free: len(c.free)}
	for p := range refs {
		if refs[p] != c.refs[p] {
			return fmt.Errorf("page %d: %d references, %d counted", p, refs[p], c.refs[p])
		}
		if free[p] != (refs[p] == 0) {
			return fmt.Errorf("page %d: free %v with %d references", p, free[p], refs[p])
		}
		switch {
		case leased[p]:
			s.Leased++
		case refs[p] > 0:
			s.Cached++
		}
	}
	if s.Free+s.Cached+s.Leased != s.Pages {
		return fmt.Errorf("free %d + cached %d + leased %d != %d", s.Free, s.Cached, s.Leased, s.Pages)
	}
	if got := c.Stats(); got.Free != s.Free || got.Cached != s.Cached || got.Leased != s.Leased {
		return fmt.Errorf("stats %+v, found %+v", got, s)
	}
	return nil
}

// memory plays the model's part: it stores in each slot the hash of all tokens up to it, so a page that holds anything
// but the exact prefix is noticed.
type memory struct{ slots []uint64 }

func newMemory(pages int) *memory { return &memory{make([]uint64, pages*PageTokens)} }

func (m *memory) copyPage(dst, src Page) {
	copy(m.slots[int(dst)*PageTokens:int(dst+1)*PageTokens], m.slots[int(src)*PageTokens:int(src+1)*PageTokens])
}

func prefixHash(tokens []Token) uint64 {
	h := uint64(14695981039346656037)
	for _, t := range tokens {
		h = (h ^ uint64(uint32(t))) * 1099511628211
		h ^= h >> 29
	}
	return h
}

func (m *memory) write(l *Lease, tokens []Token, from int) {
	for i := from; i < l.len; i++ {
		m.slots[int(l.pages[i/PageTokens])*PageTokens+i%PageTokens] = prefixHash(tokens[:i+1])
	}
}

func (m *memory) verify(l *Lease, tokens []Token) error {
	for i := range l.len {
		if m.slots[int(l.pages[i/PageTokens])*PageTokens+i%PageTokens] != prefixHash(tokens[:i+1]) {
			return fmt.Errorf("token %d of a lease of %d does not hold its own prefix", i, l.len)
		}
	}
	return nil
}

func seq(n int, first Token) []Token {
	out := make([]Token, n)
	for i := range out {
		out[i] = first + Token(i)
	}
	return out
}

func compute(t *testing.T, m *memory, c *Cache, ns string, tokens []Token) *Lease {
	t.Helper()
	l := c.Acquire(ns, tokens)
	from := l.Len()
	require.NoError(t, l.Extend(len(tokens)-from))
	m.write(l, tokens, from)
	require.NoError(t, c.check())
	return l
}

func TestHitLeavesOneTokenToCompute(t *testing.T) {
	m := newMemory(16)
	c := New(16, m.copyPage)
	tokens := seq(64, 0)
	compute(t, m, c, "a", tokens).Release(tokens)
	for _, tc := range []struct{ ask, hit int }{{0, 0}, {1, 0}, {16, 0}, {17, 16}, {32, 16}, {33, 32}, {63, 48}, {64, 48}} {
		require.Equal(t, tc.hit, c.Match("a", tokens[:tc.ask]))
		l := c.Acquire("a", tokens[:tc.ask])
		require.Equal(t, tc.hit, l.Len())
		require.NoError(t, m.verify(l, tokens))
		l.Release(nil)
		require.NoError(t, c.check())
	}
	require.Equal(t, 48, c.Match("a", append(seq(64, 0), 7)[:64]))
	require.Equal(t, 64, c.Match("a", append(seq(64, 0), 7)))
	require.Zero(t, c.Match("b", tokens), "another namespace sees nothing")
}

// Peers lose a prefix when another prompt comes between; here it stays while there is room.
func TestPrefixSurvivesOtherPrompts(t *testing.T) {
	m := newMemory(64)
	c := New(64, m.copyPage)
	system := seq(96, 0)
	compute(t, m, c, "a", system).Release(system)
	for i := range 5 {
		other := seq(100, Token(1000*(i+1)))
		compute(t, m, c, "a", other).Release(other)
		require.Equal(t, 96, c.Match("a", append(seq(96, 0), 5, 6, 7)))
	}
}

func TestEvictionTakesLeastRecentlyUsedLeafFirst(t *testing.T) {
	m := newMemory(8)
	c := New(8, m.copyPage)
	long, short := seq(64, 0), seq(32, 500)
	compute(t, m, c, "a", long).Release(long)   // 4 pages
	compute(t, m, c, "a", short).Release(short) // 2 pages
	l := c.Acquire("a", append(seq(64, 0), 1))  // touch long: short is now older
	l.Release(nil)
	fresh := compute(t, m, c, "a", seq(48, 900)) // 3 pages, 2 free: one eviction
	require.Equal(t, 16, c.Match("a", append(seq(32, 500), 1)), "the deepest page of the older prompt went")
	require.Equal(t, 64, c.Match("a", append(seq(64, 0), 1)))
	require.ErrorIs(t, fresh.Extend(16*6), ErrFull)
	require.NoError(t, c.check())
	require.Equal(t, 48, fresh.Len(), "a failed Extend changes nothing")
	fresh.Release(nil)
	require.Equal(t, 8, c.Available())
}

func TestForkCopiesThePartialPageOnce(t *testing.T) {
	m := newMemory(8)
	var copies int
	c := New(8, func(dst, src Page) { copies++; m.copyPage(dst, src) })
	tokens := seq(20, 0)
	a := compute(t, m, c, "a", tokens)
	b := a.Fork()
	ta, tb := append(seq(20, 0), 100), append(seq(20, 0), 200)
	require.NoError(t, a.Extend(1))
	m.write(a, ta, 20)
	require.NoError(t, b.Extend(1))
	m.write(b, tb, 20)
	require.Equal(t, 1, copies)
	require.Equal(t, a.Pages()[0], b.Pages()[0])
	require.NotEqual(t, a.Pages()[1], b.Pages()[1])
	require.NoError(t, m.verify(a, ta))
	require.NoError(t, m.verify(b, tb))
	a.Release(ta)
	b.Release(tb)
	require.NoError(t, c.check())
}

// A draft that was rejected must not be found by anybody, and writing after the rollback must not disturb the tree.
func TestTruncateTakesDraftsBack(t *testing.T) {
	m := newMemory(8)
	c := New(8, m.copyPage)
	tokens := seq(33, 0)
	compute(t, m, c, "a", tokens).Release(tokens)
	l := c.Acquire("a", tokens)
	l.Truncate(20)
	other := append(seq(20, 0), 901, 902, 903, 904, 905, 906, 907, 908, 909, 910, 911, 912)
	require.NoError(t, l.Extend(12))
	m.write(l, other, 20)
	l.Truncate(24)
	l.Release(other[:24])
	require.Equal(t, 16, c.Match("a", append(other, 1)), "the half page is not cached")
	again := c.Acquire("a", tokens)
	require.Equal(t, 32, again.Len())
	require.NoError(t, m.verify(again, tokens), "the tree's page was copied, not overwritten")
	again.Release(nil)
	require.NoError(t, c.check())
}

func TestDropForgetsANamespace(t *testing.T) {
	m := newMemory(8)
	c := New(8, m.copyPage)
	tokens := seq(40, 0)
	compute(t, m, c, "a", tokens).Release(tokens)
	compute(t, m, c, "b", tokens).Release(tokens)
	l := c.Acquire("a", tokens)
	c.Drop("a")
	c.Drop("nobody")
	require.NoError(t, c.check())
	require.Zero(t, c.Match("a", tokens))
	require.Equal(t, 32, c.Match("b", tokens))
	require.NoError(t, m.verify(l, tokens), "a running request keeps its pages")
	fork := l.Fork()
	l.Release(tokens)
	fork.Release(tokens)
	require.Zero(t, c.Match("a", tokens), "what it commits now may be what was to be forgotten")
	require.NoError(t, c.check())
	require.Equal(t, 6, c.Stats().Free)
}

// TestRandomTrace plays random operations against a plain description of what a cache must do: every page of every
// lease holds its own prefix, hits are real, unverified tokens are never found, and the books balance after each step.
func TestRandomTrace(t *testing.T) {
	type held struct {
		l      *Lease
		tokens []Token // tokens[:l.Len()] were computed; the rest is not yet
	}
	steps := 10_000
	for _, pages := range []int{12, 40} {
		t.Run(fmt.Sprintf("pages=%d", pages), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, uint64(pages)))
			m := newMemory(pages)
			c := New(pages, m.copyPage)
			verified := map[string]map[uint64]bool{"a": {}, "b": {}} // prefixes that were ever committed
			var live []*held
			prompt := func() []Token { // few distinct tokens and lengths, so that prefixes meet
				out := make([]Token, 1+rng.IntN(70))
				for i := range out {
					out[i] = Token(i / 24 * rng.IntN(2))
				}
				return out
			}
			commit := func(h *held, n int) {
				for i := PageTokens; i <= min(n, h.l.Len()); i += PageTokens {
					verified[h.l.ns][prefixHash(h.tokens[:i])] = true
				}
			}
			for step := range steps {
				pick := func() (int, *held) { i := rng.IntN(len(live)); return i, live[i] }
				switch op := rng.IntN(10); {
				case op < 3 && len(live) < 8:
					ns := []string{"a", "b"}[rng.IntN(2)]
					tokens := prompt()
					want := c.Match(ns, tokens)
					l := c.Acquire(ns, tokens)
					require.Equal(t, want, l.Len())
					require.Less(t, l.Len(), len(tokens))
					for i := PageTokens; i <= l.Len(); i += PageTokens {
						require.True(t, verified[ns][prefixHash(tokens[:i])], "step %d: hit on unverified tokens", step)
					}
					live = append(live, &held{l, tokens})
				case op < 6 && len(live) > 0:
					_, h := pick()
					n := rng.IntN(20)
					from := h.l.Len()
					for len(h.tokens) < from+n {
						h.tokens = append(h.tokens, Token(rng.IntN(2)))
					}
					if err := h.l.Extend(n); err != nil {
						require.ErrorIs(t, err, ErrFull)
						require.Equal(t, from, h.l.Len())
						break
					}
					m.write(h.l, h.tokens, from)
				case op < 7 && len(live) > 0 && len(live) < 8:
					_, h := pick()
					live = append(live, &held{h.l.Fork(), append([]Token(nil), h.tokens...)})
				case op < 8 && len(live) > 0:
					_, h := pick()
					n := rng.IntN(h.l.Len() + 1)
					h.l.Truncate(n)
					h.tokens = h.tokens[:n]
					if rng.IntN(2) == 0 {
						commit(h, n)
						h.l.Commit(h.tokens)
					}
				case len(live) > 0:
					i, h := pick()
					keep := h.tokens[:min(len(h.tokens), rng.IntN(h.l.Len()+1))]
					commit(h, len(keep))
					h.l.Release(keep)
					live = append(live[:i], live[i+1:]...)
				}
				if rng.IntN(500) == 0 {
					c.Drop("b")
				}
				require.NoError(t, c.check(), "step %d", step)
				for _, h := range live {
					require.NoError(t, m.verify(h.l, h.tokens), "step %d", step)
				}
			}
			for _, h := range live {
				h.l.Release(nil)
			}
			require.NoError(t, c.check())
			require.Zero(t, c.Stats().Leased)
			require.Equal(t, pages, c.Available())
			require.Positive(t, c.Stats().Evictions)
			require.Positive(t, c.Stats().HitTokens)
		})
	}
}

// What was used last moves to another cache, parents first, in the order of use.
func TestExportImport(t *testing.T) {
	m := newMemory(32)
	c := New(32, m.copyPage)
	old, a := seq(64, 900), seq(64, 0)
	branch := append(seq(32, 0), seq(33, 700)...)
	compute(t, m, c, "ns", old).Release(old)
	for _, tokens := range [][]Token{a, branch} {
		compute(t, m, c, "ns", tokens).Release(tokens)
	}
	compute(t, m, c, "other", a).Release(a)

	m2 := newMemory(9)
	c2 := New(9, m2.copyPage)
	imported := 0
	require.NoError(t, c.Export(10, func(e Entry) error {
		p, ok := c2.Import(e.Namespace, e.Prefix)
		require.NoError(t, c2.check())
		if !ok {
			require.Equal(t, 9, imported, "only for want of pages")
			return nil
		}
		imported++
		copy(m2.slots[int(p)*PageTokens:][:PageTokens], m.slots[int(e.Page)*PageTokens:][:PageTokens])
		_, again := c2.Import(e.Namespace, e.Prefix)
		require.False(t, again)
		return nil
	}))
	require.Equal(t, 9, imported)
	require.Equal(t, 64, c2.Match("other", append(a, 1)), "the most recent first")
	require.Zero(t, c2.Match("ns", append(old, 1)), "the oldest has no room")
	require.Positive(t, c2.Match("ns", branch))
	for ns, tokens := range map[string][]Token{"other": a, "ns": branch} {
		l := c2.Acquire(ns, tokens)
		require.NoError(t, m2.verify(l, tokens))
		l.Release(nil)
	}
	_, ok := c2.Import("ns", seq(15, 0))
	require.False(t, ok)
	_, ok = New(4, nil).Import("ns", seq(32, 0))
	require.False(t, ok, "the page before is missing")
	require.NoError(t, c2.check())
	stop := errors.New("stop")
	require.ErrorIs(t, c.Export(10, func(Entry) error { return stop }), stop)
}
