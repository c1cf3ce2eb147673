package kvcache

// Entry is a cached page with the whole prefix that it ends.
type Entry struct {
	Namespace string
	Prefix    []Token // a multiple of PageTokens; valid until the next entry
	Page      Page
}

// Export visits up to most cached pages: recently used ones first, and every page after the page before it. Nothing may
// be leased. It stops at the first error.
func (c *Cache) Export(most int, visit func(Entry) error) error {
	var prefix []Token
	for n := c.idle.root.prev; n != &c.idle.root && most > 0; n = n.prev {
		e := Entry{Page: n.page}
		depth := 0
		for x := n; x.parent != nil; x = x.parent {
			depth++
			e.Namespace = x.parent.ns
		}
		prefix = append(prefix[:0], make([]Token, depth*PageTokens)...)
		for x := n; x.parent != nil; x = x.parent {
			depth--
			copy(prefix[depth*PageTokens:], x.key[:])
		}
		e.Prefix = prefix
		if err := visit(e); err != nil {
			return err
		}
		most--
	}
	return nil
}

// Import makes room for the page that ends prefix and returns it, for the caller to fill. ok is false when no page is
// free, when the page before it is missing, or when the page is there already. Imported pages are evicted before all
// that are in use; the order of Export keeps its meaning among them.
func (c *Cache) Import(ns string, prefix []Token) (p Page, ok bool) {
	if len(prefix) == 0 || len(prefix)%PageTokens != 0 || len(c.free) == 0 {
		return 0, false
	}
	n := c.roots[ns]
	if n == nil {
		if len(prefix) > PageTokens {
			return 0, false
		}
		n = &node{ns: ns, page: -1}
		c.roots[ns] = n
	}
	for len(prefix) > PageTokens {
		if n = n.child(prefix); n == nil {
			return 0, false
		}
		prefix = prefix[PageTokens:]
	}
	if n.child(prefix) != nil {
		return 0, false
	}
	p = c.take()
	x := c.add(n, prefix, p)
	c.refs[p]-- // the reference of take: only the tree holds it
	c.idle.pushFirst(x)
	return p, true
}
