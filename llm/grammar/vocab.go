package grammar

import (
	"bytes"
	"slices"
)

// Vocab is the vocabulary of a tokenizer as a trie over bytes. Build it once per tokenizer.
type Vocab struct {
	nodes []trieNode // depth first; children of a node follow it; the last one is a sentinel
	order []Token    // producible tokens in the order of their nodes
	text  []byte     // bytes of all tokens, concatenated
	ends  []int32    // text[ends[t-1]:ends[t]] belongs to token t
	end   []uint64   // bit set of end-of-generation tokens
	depth int        // longest token
}

// trieNode is reached from its parent by b.
type trieNode struct {
	skip  int32 // index of the first node that is not below this one
	first int32 // order[first:nodes[i+1].first] are the tokens that end here
	depth uint16
	b     byte
	plain bool // all bytes below are letters or digits
}

// maxTokenBytes is the longest token that is considered; real vocabularies stay below 512.
const maxTokenBytes = 1 << 12

// NewVocab builds the trie of the tokens [0, size). text returns the bytes of a token; tokens without bytes and tokens
// for which control is true are never produced. end marks the tokens that end a generation.
func NewVocab(size int, text func(Token) []byte, control, end func(Token) bool) *Vocab {
	v := &Vocab{ends: make([]int32, size), end: make([]uint64, words(size))}
	for id := range Token(size) {
		if end(id) {
			v.end[id/64] |= 1 << (id % 64)
		} else if !control(id) {
			if b := text(id); len(b) > 0 && len(b) <= maxTokenBytes {
				v.text = append(v.text, b...)
				v.depth = max(v.depth, len(b))
				v.order = append(v.order, id)
			}
		}
		v.ends[id] = int32(len(v.text))
	}
	slices.SortStableFunc(v.order, func(a, b Token) int { return bytes.Compare(v.bytes(a), v.bytes(b)) })
	v.build()
	return v
}

// build makes the trie of the sorted tokens.
func (v *Vocab) build() {
	var path []int32 // nodes from the root to the last one
	closeTo := func(depth int) {
		for len(path) > depth {
			n := &v.nodes[path[len(path)-1]]
			n.skip = int32(len(v.nodes))
			path = path[:len(path)-1]
			if len(path) > 0 && !(n.plain && isPlain(n.b)) {
				v.nodes[path[len(path)-1]].plain = false
			}
		}
	}
	var last []byte
	for i, id := range v.order {
		b := v.bytes(id)
		common := 0
		for common < min(len(last), len(b)) && last[common] == b[common] {
			common++
		}
		closeTo(common)
		for d := common; d < len(b); d++ {
			path = append(path, int32(len(v.nodes)))
			v.nodes = append(v.nodes, trieNode{b: b[d], depth: uint16(d + 1), first: int32(i), plain: true})
		}
		last = b
	}
	closeTo(0)
	v.nodes = append(v.nodes, trieNode{first: int32(len(v.order))})
}

// isPlain reports whether b is a letter or a digit of ASCII.
func isPlain(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9' }

func words(bits int) int { return (bits + 63) / 64 }

// Size returns the number of tokens.
func (v *Vocab) Size() int { return len(v.ends) }

// Words returns the length of a mask.
func (v *Vocab) Words() int { return len(v.end) }

// bytes returns what a token stands for; empty for tokens that are never produced.
func (v *Vocab) bytes(t Token) []byte {
	start := int32(0)
	if t > 0 {
		start = v.ends[t-1]
	}
	return v.text[start:v.ends[t]]
}

func (v *Vocab) isEnd(t Token) bool { return v.end[t/64]>>(t%64)&1 == 1 }

// mask sets in dst the bits of all tokens whose bytes the automaton takes from state s. states is scratch of depth+1.
func (v *Vocab) mask(a automaton, s state, dst []uint64, states []state) {
	states[0] = s
	for i := int32(0); int(i) < len(v.nodes)-1; {
		n := &v.nodes[i]
		next, ok := a.step(states[n.depth-1], n.b)
		if !ok {
			i = n.skip
			continue
		}
		states[n.depth] = next
		last := i + 1
		if n.plain && a.loops(next) {
			last = n.skip
		}
		for _, t := range v.order[n.first:v.nodes[last].first] {
			dst[t/64] |= 1 << (t % 64)
		}
		i = last
	}
}
