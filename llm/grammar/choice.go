package grammar

import (
	"errors"
	"fmt"
)

// Choice returns the grammar whose texts are exactly the given options.
func Choice(v *Vocab, options []string) (*Grammar, error) {
	if len(options) == 0 {
		return nil, errors.New("grammar: a choice needs at least one option")
	}
	c := &choice{nodes: []choiceNode{{}}}
	for i, o := range options {
		if o == "" {
			return nil, fmt.Errorf("grammar: option %d of the choice is empty", i)
		}
		c.add(o)
	}
	return newGrammar(v, c), nil
}

// choice is a trie of the options; a state is the number of a node.
type choice struct{ nodes []choiceNode }

type choiceNode struct {
	next map[byte]int
	end  bool
}

func (c *choice) add(option string) {
	at := 0
	for i := range len(option) {
		n := &c.nodes[at]
		if n.next == nil {
			n.next = map[byte]int{}
		}
		next, ok := n.next[option[i]]
		if !ok {
			next = len(c.nodes)
			n.next[option[i]] = next
			c.nodes = append(c.nodes, choiceNode{})
		}
		at = next
	}
	c.nodes[at].end = true
}

func (c *choice) start() state { return state{} }

func (c *choice) step(s state, b byte) (state, bool) {
	next, ok := c.nodes[s.lo].next[b]
	return state{lo: uint64(next)}, ok
}

func (c *choice) accepting(s state) bool { return c.nodes[s.lo].end }

func (c *choice) loops(state) bool { return false }
