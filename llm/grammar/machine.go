package grammar

import (
	"encoding/binary"
	"slices"
	"sync"
)

// machine is a nondeterministic pushdown automaton over bytes, run as sets of threads. Sets are made when first reached
// and numbered; the number is the state. It serves grammars with recursion, such as JSON.
type machine struct {
	prog []instr

	mu     sync.Mutex
	frames []frame             // frames[0] is the empty stack
	frame  map[frame]int32     // number of a frame
	sets   []threadSet         // sets[0] is the start
	set    map[string]int32    // number of a set, by its threads
	work   []thread            // scratch
	seen   map[thread]struct{} // scratch
	key    []byte              // scratch
}

// instr is one instruction; which fields count depends on op.
type instr struct {
	op    opcode
	class *byteClass // opByte
	next  int32      // opByte, opSplit, opJump, opCall: where to go on (after the return)
	other int32      // opSplit: the other way; opCall: the callee
}

type opcode uint8

const (
	opByte opcode = iota
	opSplit
	opJump
	opCall
	opReturn // from a call; with an empty stack: the text may end
)

// byteClass is a set of bytes.
type byteClass [4]uint64

func (c *byteClass) has(b byte) bool { return c[b>>6]>>(b&63)&1 == 1 }

func (c *byteClass) add(from, to byte) {
	for b := int(from); b <= int(to); b++ {
		c[b>>6] |= 1 << (b & 63)
	}
}

// frame is a cell of a persistent stack.
type frame struct{ resume, parent int32 }

type thread struct{ pc, stack int32 }

// threadSet is a state: threads that wait for a byte.
type threadSet struct {
	threads []thread
	final   bool
	next    map[byte]int32 // computed so far; -1: no way
	loop    int8           // whether letters and digits lead back: 0 unknown, 1 yes, -1 no
}

// newMachine starts prog at instruction start.
func newMachine(prog []instr, start int32) *machine {
	m := &machine{
		prog: prog, frames: []frame{{}}, frame: map[frame]int32{}, set: map[string]int32{}, seen: map[thread]struct{}{},
	}
	m.intern(func(add func(thread) bool) bool { return add(thread{start, 0}) })
	return m
}

func (m *machine) start() state { return state{} }

func (m *machine) step(s state, b byte) (state, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.advance(int32(s.lo), b)
	return state{lo: uint64(max(n, 0))}, n >= 0
}

func (m *machine) accepting(s state) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sets[s.lo].final
}

func (m *machine) loops(s state) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sets[s.lo].loop == 0 {
		loop := int8(1)
		for b := range 128 {
			if isPlain(byte(b)) && m.advance(int32(s.lo), byte(b)) != int32(s.lo) {
				loop = -1
				break
			}
		}
		m.sets[s.lo].loop = loop
	}
	return m.sets[s.lo].loop == 1
}

// advance returns the number of the set after b, or -1.
func (m *machine) advance(n int32, b byte) int32 {
	if next, ok := m.sets[n].next[b]; ok {
		return next
	}
	threads := m.sets[n].threads
	next := m.intern(func(add func(thread) bool) bool {
		any := false
		for _, t := range threads {
			if in := &m.prog[t.pc]; in.class.has(b) {
				any = add(thread{in.next, t.stack}) || any
			}
		}
		return any
	})
	m.sets[n].next[b] = next
	return next
}

// intern follows the threads that seed adds to where they wait for a byte, and returns the number of their set; -1 when
// there is none.
func (m *machine) intern(seed func(add func(thread) bool) bool) int32 {
	m.work = m.work[:0]
	clear(m.seen)
	final := false
	var add func(t thread) bool
	add = func(t thread) bool {
		if _, ok := m.seen[t]; ok {
			return true
		}
		m.seen[t] = struct{}{}
		in := &m.prog[t.pc]
		switch in.op {
		case opByte:
			m.work = append(m.work, t)
		case opSplit:
			add(thread{in.next, t.stack})
			add(thread{in.other, t.stack})
		case opJump:
			add(thread{in.next, t.stack})
		case opCall:
			add(thread{in.other, m.push(in.next, t.stack)})
		case opReturn:
			if t.stack == 0 {
				final = true
			} else {
				add(thread{m.frames[t.stack].resume, m.frames[t.stack].parent})
			}
		}
		return true
	}
	if !seed(add) {
		return -1
	}
	slices.SortFunc(m.work, func(a, b thread) int {
		if a.pc != b.pc {
			return int(a.pc - b.pc)
		}
		return int(a.stack - b.stack)
	})
	m.key = m.key[:0]
	for _, t := range m.work {
		m.key = binary.LittleEndian.AppendUint64(m.key, uint64(uint32(t.pc))<<32|uint64(uint32(t.stack)))
	}
	if final {
		m.key = append(m.key, 1)
	}
	if n, ok := m.set[string(m.key)]; ok {
		return n
	}
	n := int32(len(m.sets))
	m.set[string(m.key)] = n
	m.sets = append(m.sets, threadSet{threads: slices.Clone(m.work), final: final, next: map[byte]int32{}})
	return n
}

// push returns the stack with one more frame. A call directly before a return needs none: that keeps the stack of a
// recursion at the end of a rule from growing.
func (m *machine) push(resume, parent int32) int32 {
	if m.prog[resume].op == opReturn {
		return parent
	}
	f := frame{resume, parent}
	n, ok := m.frame[f]
	if !ok {
		n = int32(len(m.frames))
		m.frames = append(m.frames, f)
		m.frame[f] = n
	}
	return n
}
