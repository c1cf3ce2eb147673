package tokenizer

import (
	"slices"
	"strings"
)

// trie maps byte strings to ids and is walked one byte at a time. The children of a node are adjacent and sorted.
type trie struct {
	nodes []trieNode
}

type trieNode struct {
	first int32 // index of the first child
	count int16 // number of children, at most 256
	label byte  // the byte that leads here
	id    int32 // -1: no key ends here
}

// newTrie builds the trie of the given keys; a later duplicate of a key is ignored, an empty key too.
func newTrie(keys []string, ids []int32) *trie {
	order := make([]int, 0, len(keys))
	for i, k := range keys {
		if k != "" {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(keys[a], keys[b]) })

	t := &trie{nodes: []trieNode{{id: -1}}}
	type pending struct{ node, lo, hi, depth int } // order[lo:hi] share depth bytes, those that lead to node
	queue := []pending{{0, 0, len(order), 0}}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		lo := p.lo
		for lo < p.hi && len(keys[order[lo]]) == p.depth {
			if t.nodes[p.node].id < 0 {
				t.nodes[p.node].id = ids[order[lo]]
			}
			lo++
		}
		t.nodes[p.node].first = int32(len(t.nodes))
		for lo < p.hi {
			b := keys[order[lo]][p.depth]
			hi := lo + 1
			for hi < p.hi && keys[order[hi]][p.depth] == b {
				hi++
			}
			queue = append(queue, pending{len(t.nodes), lo, hi, p.depth + 1})
			t.nodes = append(t.nodes, trieNode{label: b, id: -1})
			t.nodes[p.node].count++
			lo = hi
		}
	}
	return t
}

// step follows byte b from a node (the root is 0); it returns -1 where no key goes on like that.
func (t *trie) step(node int32, b byte) int32 {
	n := &t.nodes[node]
	lo, hi := n.first, n.first+int32(n.count)
	for hi-lo > 8 {
		mid := (lo + hi) / 2
		if t.nodes[mid].label <= b {
			lo = mid
		} else {
			hi = mid
		}
	}
	for ; lo < hi; lo++ {
		if t.nodes[lo].label == b {
			return lo
		}
	}
	return -1
}
