package kvcache

// pageKey is the content of a page. As a map key it is compared token by token.
type pageKey [PageTokens]Token

// node is one page of the tree; a root has no page. While no lease holds its page it is linked into Cache.idle.
type node struct {
	ns       string // of a root
	parent   *node
	key      pageKey
	page     Page
	children map[pageKey]*node

	prev, next *node
}

// child returns the child that holds the first page of tokens.
func (n *node) child(tokens []Token) *node { return n.children[pageKey(tokens[:PageTokens])] }

// add makes page the child of n for the first page of tokens. The tree takes its own reference.
func (c *Cache) add(n *node, tokens []Token, page Page) *node {
	x := &node{parent: n, key: pageKey(tokens[:PageTokens]), page: page}
	if n.children == nil {
		n.children = map[pageKey]*node{}
	}
	n.children[x.key] = x
	c.nodes[page] = x
	c.refs[page]++
	return x
}

// remove takes a node that is already cut off from its parent out of the books.
func (c *Cache) remove(n *node) {
	c.idle.remove(n)
	c.nodes[n.page] = nil
	c.drop(n.page)
}

// evict frees the least recently used page that is a leaf. A release links a path deepest page first, so the first node
// in line nearly always is a leaf; it is not when a lease holds a page below it.
func (c *Cache) evict() bool {
	for n := c.idle.first(); n != nil; n = c.idle.after(n) {
		if len(n.children) > 0 {
			continue
		}
		delete(n.parent.children, n.key)
		if root := n.parent; root.parent == nil && len(root.children) == 0 {
			delete(c.roots, root.ns) // a tenant that went away costs nothing
		}
		c.remove(n)
		c.stats.Evictions++
		return true
	}
	return false
}

// removeBelow takes every descendant of n out of the books.
func (c *Cache) removeBelow(n *node) {
	for _, x := range n.children {
		c.removeBelow(x)
		c.remove(x)
	}
	n.children = nil
}

// list is a circular doubly linked list of nodes with a sentinel.
type list struct {
	root node
	len  int
}

func (l *list) init() { l.root.prev, l.root.next = &l.root, &l.root }

func (l *list) first() *node { return l.after(&l.root) }

func (l *list) after(n *node) *node {
	if n.next == &l.root {
		return nil
	}
	return n.next
}

func (l *list) push(n *node) {
	n.prev, n.next = l.root.prev, &l.root
	n.prev.next, n.next.prev = n, n
	l.len++
}

// pushFirst links n as the least recently used.
func (l *list) pushFirst(n *node) {
	n.prev, n.next = &l.root, l.root.next
	n.prev.next, n.next.prev = n, n
	l.len++
}

// remove unlinks n; a node that is not linked is left alone.
func (l *list) remove(n *node) {
	if n.next == nil {
		return
	}
	n.prev.next, n.next.prev = n.next, n.prev
	n.prev, n.next = nil, nil
	l.len--
}
