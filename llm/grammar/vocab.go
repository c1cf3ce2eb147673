package grammar

import (
	"bytes"
	"slices"
)

// Vocab is the vocabulary of a tokenizer as a trie over bytes. Build it once per tokenizer.
type Vocab struct {
	nodes []trieNode // depth first; children of a node follow it
	same  []Token    // per token: the next token with the same bytes, -1
	text  []byte     // bytes of all tokens, concatenated
	ends  []int32    // text[ends[t-1]:ends[t]] belongs to token t
	end   []uint64   // bit set of end-of-generation tokens
	depth int        // longest token
}

// trieNode is reached from its parent by b.
type trieNode struct {
	skip  int32 // index of the first node that is not below this one
	token Token // a token that ends here, -1
	depth uint16
	b     byte
}

// maxTokenBytes is the longest token that is considered; real vocabularies stay below 512.
const maxTokenBytes = 1 << 12

// NewVocab builds the trie of the tokens [0, size). text returns the bytes of a token; tokens without bytes and tokens
// for which control is true are never produced. end marks the tokens that end a generation.
func NewVocab(size int, text func(Token) []byte, control, end func(Token) bool) *Vocab {
	v := &Vocab{same: make([]Token, size), ends: make([]int32, size), end: make([]uint64, words(size))}
	ids := make([]Token, 0, size)
	for id := range Token(size) {
		v.same[id] = -1
		if end(id) {
			v.end[id/64] |= 1 << (id % 64)
		} else if !control(id) {
			if b := text(id); len(b) > 0 && len(b) <= maxTokenBytes {
				v.text = append(v.text, b...)
				v.depth = max(v.depth, len(b))
				ids = append(ids, id)
			}
		}
		v.ends[id] = int32(len(v.text))
	}
	slices.SortStableFunc(ids, func(a, b Token) int { return bytes.Compare(v.bytes(a), v.bytes(b)) })
	var path []int32 // nodes from the root to the last one
	closeTo := func(depth int) {
		for _, i := range path[depth:] {
			v.nodes[i].skip = int32(len(v.nodes))
		}
		path = path[:depth]
	}
	var last []byte
	for _, id := range ids {
		b := v.bytes(id)
		common := 0
		for common < min(len(last), len(b)) && last[common] == b[common] {
			common++
		}
		closeTo(common)
		for d := common; d < len(b); d++ {
			path = append(path, int32(len(v.nodes)))
			v.nodes = append(v.nodes, trieNode{b: b[d], depth: uint16(d + 1), token: -1})
		}
		n := &v.nodes[path[len(path)-1]]
		v.same[id], n.token = n.token, id
		last = b
	}
	closeTo(0)
	return v
}

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
	for i := int32(0); int(i) < len(v.nodes); {
		n := &v.nodes[i]
		next, ok := a.step(states[n.depth-1], n.b)
		if !ok {
			i = n.skip
			continue
		}
		states[n.depth] = next
		for t := n.token; t >= 0; t = v.same[t] {
			dst[t/64] |= 1 << (t % 64)
		}
		i++
	}
}
