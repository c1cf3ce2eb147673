package grammar

import (
	"strings"
	"unicode"
)

// dotted is a trie of the words that have full stops inside, from their beginning to the character behind their last stop. Node 0 is the root, and stands
// for no word.
type dotted []map[rune]uint16

// maxDotted is how many nodes a state can tell apart; words for which there is no room count as words without a stop.
const maxDotted = 1023

func newDotted(words []string) dotted {
	d := dotted{{}}
	for _, w := range words {
		d = d.add(w)
		d = d.add(strings.ToLower(w))
	}
	return d
}

func (d dotted) add(word string) dotted {
	runes, last := []rune(word), -1
	for i, r := range runes {
		if isStop(r) {
			last = i
		}
	}
	if last < 0 || last+1 >= len(runes) || len(d)+last+2 > maxDotted {
		return d
	}
	at := uint16(0)
	for _, r := range runes[:last+2] {
		next, ok := d[at][r]
		if !ok {
			next = uint16(len(d))
			d[at][r] = next
			d = append(d, map[rune]uint16{})
		}
		at = next
	}
	return d
}

// step returns the node after r, 0 when r does not lead to a dotted word, or away from one.
func (d dotted) step(p spot, r rune) int {
	from := p.number
	switch {
	case len(d) == 1:
		return 0
	case isStop(r):
		if p.mode != text || from == 0 {
			return 0
		}
	case !unicode.IsLetter(r) && !unicode.IsNumber(r):
		return 0
	case p.mode == stop && from == 0, p.mode == text && from == 0 && p.word != wordStart && p.word != lineStart:
		return 0
	case p.mode != text && p.mode != stop:
		from = 0
	}
	return int(d[from][r])
}
