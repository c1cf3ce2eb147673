package kvcache

import "slices"

// Lease is the page table of one sequence: page i holds tokens [i*PageTokens, (i+1)*PageTokens).
//
// Who owns which tokens of a lease of length n:
//
//	[0, c)  committed: whole pages that are in the tree; shared, never written
//	[c, n)  private, or shared with forks until one of them writes
//	[n, ∞)  not covered; a page that reaches past n has free slots
type Lease struct {
	cache *Cache
	ns    string
	pages []Page
	len   int
	stale bool // its namespace was dropped: nothing of it enters the tree any more
}

// Len returns the number of tokens that the lease covers. After Acquire it is the length of the hit.
func (l *Lease) Len() int { return l.len }

// Pages returns the page table. The slice is valid until the next call of a method of the lease.
func (l *Lease) Pages() []Page { return l.pages }

// Extend covers n more tokens. If the first of them would go into a page that somebody else sees, that page is copied
// first. Returns ErrFull, with the lease unchanged, when eviction cannot free enough pages.
func (l *Lease) Extend(n int) error {
	c := l.cache
	need := PagesFor(l.len+n) - len(l.pages)
	last := len(l.pages) - 1
	shared := n > 0 && l.len%PageTokens != 0 && c.refs[l.pages[last]] > 1
	if shared {
		need++
	}
	if !c.reserve(need) {
		return ErrFull
	}
	if shared {
		src := l.pages[last]
		l.pages[last] = c.take()
		c.copyPage(l.pages[last], src)
		c.drop(src)
	}
	l.len += n
	for len(l.pages) < PagesFor(l.len) {
		l.pages = append(l.pages, c.take())
	}
	return nil
}

// Fork returns a second lease of the same tokens. Both may be extended: whoever first writes to the shared last page
// gets a copy of it.
func (l *Lease) Fork() *Lease {
	f := &Lease{cache: l.cache, ns: l.ns, pages: slices.Clone(l.pages), len: l.len, stale: l.stale}
	for _, p := range f.pages {
		l.cache.hold(p)
	}
	l.cache.leases[f] = struct{}{}
	return f
}

// Truncate shortens the lease to its first n tokens, for example to take rejected draft tokens back.
func (l *Lease) Truncate(n int) {
	if n >= l.len {
		return
	}
	l.len = n
	keep := PagesFor(n)
	for i := len(l.pages) - 1; i >= keep; i-- {
		l.cache.drop(l.pages[i])
	}
	l.pages = l.pages[:keep]
}

// Commit enters the whole pages of tokens into the tree, where other requests find them. tokens are the sequence from
// its start; the caller vouches that the model has computed them in exactly these pages. Where the tree already has
// such a page the lease changes over to it: both hold the same bits, because results do not depend on batching.
func (l *Lease) Commit(tokens []Token) {
	c := l.cache
	whole := min(len(tokens), l.len) / PageTokens
	if whole == 0 || l.stale {
		return
	}
	n := c.roots[l.ns]
	if n == nil {
		n = &node{ns: l.ns, page: -1}
		c.roots[l.ns] = n
	}
	for i := range whole {
		key := tokens[i*PageTokens:]
		x := n.child(key)
		switch {
		case x == nil:
			x = c.add(n, key, l.pages[i])
		case x.page != l.pages[i]:
			c.hold(x.page)
			c.drop(l.pages[i])
			l.pages[i] = x.page
		}
		n = x
	}
}

// Release commits keep and gives every page back. The lease must not be used afterwards. A nil keep discards what was
// not committed before.
func (l *Lease) Release(keep []Token) {
	l.Commit(keep)
	for i := len(l.pages) - 1; i >= 0; i-- { // deepest first: it is evicted first
		l.cache.drop(l.pages[i])
	}
	l.pages, l.len = nil, 0
	delete(l.cache.leases, l)
}
