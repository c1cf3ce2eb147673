package kvcache

import (
	"errors"
	"maps"
	"slices"
)

// PageTokens is the number of tokens in a page. It must match kernel.PageTokens: the attention kernels address memory
// in these units.
const PageTokens = 16

// Token is a token id, Page the number of a page.
type (
	Token = int32
	Page  = int32
)

// ErrFull reports that every page is held by a lease.
var ErrFull = errors.New("kvcache: every page is in use")

// Cache hands out pages and remembers what they hold.
type Cache struct {
	copyPage func(dst, src Page)
	free     []Page
	refs     []int32 // per page: leases that hold it, plus one for the tree
	nodes    []*node // per page: its tree node, nil while it has none
	roots    map[string]*node
	leases   map[*Lease]struct{}
	idle     list // tree nodes that no lease holds, least recently used first
	stats    Stats
}

// Stats counts pages by state, and events since the cache was made.
type Stats struct {
	Pages, Free, Cached, Leased int
	LookupTokens, HitTokens     int64 // prompt tokens asked for, and found
	Evictions                   int64 // pages
}

// New returns a cache of pages pages. copyPage duplicates the contents of a page; it is called when a lease is about to
// write to a page it shares.
func New(pages int, copyPage func(dst, src Page)) *Cache {
	c := &Cache{
		copyPage: copyPage,
		free:     make([]Page, pages),
		refs:     make([]int32, pages),
		nodes:    make([]*node, pages),
		roots:    map[string]*node{},
		leases:   map[*Lease]struct{}{},
	}
	for i := range c.free {
		c.free[i] = Page(pages - 1 - i) // so that page 0 is handed out first
	}
	c.idle.init()
	c.stats.Pages = pages
	return c
}

// PagesFor returns how many pages hold n tokens.
func PagesFor(n int) int { return (n + PageTokens - 1) / PageTokens }

// Match returns how many leading tokens of a prompt Acquire would find. It changes nothing.
func (c *Cache) Match(ns string, tokens []Token) int {
	n, hit := c.roots[ns], 0
	for n != nil && hit+PageTokens < len(tokens) {
		if n = n.child(tokens[hit:]); n != nil {
			hit += PageTokens
		}
	}
	return hit
}

// Acquire leases the longest cached prefix of tokens in namespace ns, at most len(tokens)-1 of them. The pages stay
// until the lease is released.
func (c *Cache) Acquire(ns string, tokens []Token) *Lease {
	l := &Lease{cache: c, ns: ns}
	n := c.roots[ns]
	for n != nil && l.len+PageTokens < len(tokens) {
		if n = n.child(tokens[l.len:]); n != nil {
			c.hold(n.page)
			l.pages = append(l.pages, n.page)
			l.len += PageTokens
		}
	}
	c.leases[l] = struct{}{}
	c.stats.LookupTokens += int64(len(tokens))
	c.stats.HitTokens += int64(l.len)
	return l
}

// Available returns how many pages a lease could get at most: free ones and those that no lease holds.
func (c *Cache) Available() int { return len(c.free) + c.idle.len }

// Drop forgets everything cached for a namespace; pages that a lease holds follow when the lease is released. What those
// leases commit later is not kept either: it may be what was to be forgotten.
func (c *Cache) Drop(ns string) {
	for l := range c.leases {
		if l.ns == ns {
			l.stale = true
		}
	}
	root := c.roots[ns]
	if root == nil {
		return
	}
	delete(c.roots, ns)
	c.removeBelow(root)
}

// Namespaces lists those that have something cached or leased.
func (c *Cache) Namespaces() []string {
	names := slices.Collect(maps.Keys(c.roots))
	for l := range c.leases {
		names = append(names, l.ns)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Stats returns the current counts.
func (c *Cache) Stats() Stats {
	s := c.stats
	s.Free, s.Cached = len(c.free), c.idle.len
	s.Leased = s.Pages - s.Free - s.Cached
	return s
}

// hold adds a lease's reference to a page.
func (c *Cache) hold(p Page) {
	c.refs[p]++
	if n := c.nodes[p]; n != nil {
		c.idle.remove(n)
	}
}

// drop takes a reference away: the page becomes free, or evictable when only the tree is left.
func (c *Cache) drop(p Page) {
	c.refs[p]--
	switch {
	case c.refs[p] == 0:
		c.free = append(c.free, p)
	case c.refs[p] == 1 && c.nodes[p] != nil:
		c.idle.push(c.nodes[p])
	}
}

// reserve makes n pages free, evicting least recently used leaves; false if they cannot be had.
func (c *Cache) reserve(n int) bool {
	for len(c.free) < n {
		if !c.evict() {
			return false
		}
	}
	return true
}

func (c *Cache) take() Page {
	p := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	c.refs[p] = 1
	return p
}
