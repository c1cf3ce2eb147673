package tokenizer

import "sync"

// symbol is a piece of the text that is being merged.
type symbol struct {
	start, end int
	prev, next int32 // neighbours in the list; -1: none. end is -1 once a left neighbour took the symbol over
	id         int32
	priority   uint32 // of merging it with the next symbol; only the short path keeps it here
	merged     int32
}

// noMerge is the priority of two symbols that do not merge.
const noMerge = ^uint32(0)

// pairer says what two adjacent symbols merge to. The pair with the lowest priority merges first, of equal ones the leftmost.
type pairer interface {
	pair(text string, a, b *symbol) (priority uint32, id int32)
}

// merger is the scratch space of one merge; it is taken from a pool and holds no state between calls.
type merger struct {
	symbols []symbol
	heap    []candidate
	steps   int // pairs looked up and candidates popped: tests bound it, because time is not a test
}

type candidate struct {
	priority uint32
	left     int32
	id       int32
	mid, end int // ends of both symbols when the pair was found: another value now means that it is stale
}

var mergers = sync.Pool{New: func() any { return new(merger) }}

// maxShort is the number of symbols up to which scanning for the best pair beats the heap. It bounds the quadratic part.
const maxShort = 32

// merge merges m.symbols, which lie side by side in text, until no pair is left. The result replaces m.symbols.
func (m *merger) merge(text string, p pairer) {
	if len(m.symbols) <= maxShort {
		m.mergeShort(text, p)
	} else {
		m.mergeLong(text, p)
	}
}

func (m *merger) mergeShort(text string, p pairer) {
	s := m.symbols
	look := func(i int) {
		s[i].priority = noMerge
		if i+1 < len(s) {
			m.steps++
			s[i].priority, s[i].merged = p.pair(text, &s[i], &s[i+1])
		}
	}
	for i := range s {
		look(i)
	}
	for {
		best := -1
		lowest := noMerge
		for i := range s {
			if s[i].priority < lowest {
				best, lowest = i, s[i].priority
			}
		}
		if best < 0 {
			break
		}
		s[best].end, s[best].id = s[best+1].end, s[best].merged
		s = append(s[:best+1], s[best+2:]...)
		look(best)
		if best > 0 {
			look(best - 1)
		}
	}
	m.symbols = s
}

func (m *merger) mergeLong(text string, p pairer) {
	s := m.symbols
	for i := range s {
		s[i].prev, s[i].next = int32(i)-1, int32(i)+1
	}
	s[len(s)-1].next = -1
	m.heap = m.heap[:0]
	for i := range s[:len(s)-1] {
		m.push(text, p, int32(i))
	}
	for len(m.heap) > 0 {
		c := m.pop()
		left := &s[c.left]
		if left.end != c.mid || left.next < 0 || s[left.next].end != c.end {
			continue
		}
		right := &s[left.next]
		left.end, left.id, left.next = right.end, c.id, right.next
		right.end = -1
		if left.next >= 0 {
			s[left.next].prev = c.left
			m.push(text, p, c.left)
		}
		if left.prev >= 0 {
			m.push(text, p, left.prev)
		}
	}
	n := 0
	for i := int32(0); i >= 0; i = s[i].next {
		s[n] = s[i]
		n++
	}
	m.symbols = s[:n]
}

// push adds the pair that begins at left, if it merges.
func (m *merger) push(text string, p pairer, left int32) {
	a := &m.symbols[left]
	b := &m.symbols[a.next]
	m.steps++
	priority, id := p.pair(text, a, b)
	if priority == noMerge {
		return
	}
	c := candidate{priority: priority, left: left, id: id, mid: a.end, end: b.end}
	m.heap = append(m.heap, c)
	i := len(m.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !c.before(m.heap[up]) {
			break
		}
		m.heap[i] = m.heap[up]
		i = up
	}
	m.heap[i] = c
}

func (m *merger) pop() candidate {
	m.steps++
	top := m.heap[0]
	c := m.heap[len(m.heap)-1]
	m.heap = m.heap[:len(m.heap)-1]
	i, n := 0, len(m.heap)
	for {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && m.heap[down+1].before(m.heap[down]) {
			down++
		}
		if !m.heap[down].before(c) {
			break
		}
		m.heap[i] = m.heap[down]
		i = down
	}
	if n > 0 {
		m.heap[i] = c
	}
	return top
}

func (c candidate) before(d candidate) bool {
	return c.priority < d.priority || c.priority == d.priority && c.left < d.left
}

// release returns m to the pool, without the memory of an unusually long word.
func (m *merger) release() {
	const keep = 1 << 16
	if cap(m.symbols) > keep {
		m.symbols = nil
	}
	if cap(m.heap) > keep {
		m.heap = nil
	}
	m.steps = 0
	mergers.Put(m)
}
