package grammar

import (
	"strings"
	"unicode"
)

// partialRune is the beginning of a UTF-8 sequence; the zero value is between characters.
type partialRune struct {
	left  uint8  // bytes to come
	size  uint8  // bytes of the character, minus one
	value uint32 // bits so far
}

// push takes the next byte. When the result has no bytes left, r is the character. ok is false for what is not UTF-8
// (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
func (p partialRune) push(b byte) (next partialRune, r rune, ok bool) {
	if p.left == 0 {
		switch {
		case b < 0x80:
			return partialRune{}, rune(b), true
		case b >= 0xc2 && b <= 0xdf:
			return partialRune{1, 1, uint32(b & 0x1f)}, 0, true
		case b >= 0xe0 && b <= 0xef:
			return partialRune{2, 2, uint32(b & 0x0f)}, 0, true
		case b >= 0xf0 && b <= 0xf4:
			return partialRune{3, 3, uint32(b & 0x07)}, 0, true
		}
		return p, 0, false
	}
	if b&0xc0 != 0x80 {
		return p, 0, false
	}
	if p.left == p.size {
		switch {
		case p.size == 2 && p.value == 0 && b < 0xa0, p.size == 2 && p.value == 0xd && b >= 0xa0,
			p.size == 3 && p.value == 0 && b < 0x90, p.size == 3 && p.value == 4 && b >= 0x90:
			return p, 0, false
		}
	}
	value := p.value<<6 | uint32(b&0x3f)
	if p.left == 1 {
		return partialRune{}, rune(value), true
	}
	return partialRune{p.left - 1, p.size, value}, 0, true
}

// among reports whether the character can become one of the given ones.
func (p partialRune) among(runes []rune) bool {
	shift := 6 * int(p.left)
	for _, r := range runes {
		if uint32(r)>>shift == p.value && runeSize(r) == int(p.size)+1 {
			return true
		}
	}
	return false
}

// unspacedFrom is where the scripts of China, Japan and Korea begin.
const unspacedFrom = 0x3000

// unspaced reports whether the character will be of those scripts, whatever follows.
func (p partialRune) unspaced() bool {
	return p.size == 2 && p.value<<(6*p.left) >= unspacedFrom || p.size == 3 && p.value<<(6*p.left) >= 0x20000
}

func runeSize(r rune) int { return len(string(r)) }

const (
	stops     = ".!?…।؟۔"
	hardStops = "。！？｡"
	closers   = "\"')”’»›」』）*_`"
	joiners   = ",;:-–—/"      // may follow a marker within a sentence
	openers   = "(（•◦▪●‣·–—-#" // begin what is no part of a sentence that has ended
	brackets  = "]【】［］〔〕〖〗〚〛⟦⟧❲❳⁅⁆"
	invisible = "\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufeff"
)

// afterMarker lists the characters of several bytes that may follow a marker directly.
var afterMarker = []rune(stops + hardStops + closers + joiners)

func isStop(r rune) bool     { return strings.ContainsRune(stops, r) }
func isHardStop(r rune) bool { return r >= 0x80 && strings.ContainsRune(hardStops, r) }
func isCloser(r rune) bool   { return strings.ContainsRune(closers, r) }
func isOpener(r rune) bool   { return strings.ContainsRune(openers, r) }
func isSpace(r rune) bool    { return r == ' ' || r == '\n' }

// isSolid reports whether r makes a sentence: a letter, a digit, or a symbol beyond ASCII.
func isSolid(r rune) bool {
	return r >= 0x80 || r >= '0' && r <= '9' || isLetter(r)
}

// isLetter reports an ASCII letter.
func isLetter(r rune) bool { return r|0x20 >= 'a' && r|0x20 <= 'z' }

// forbidden lists what an answer never contains: brackets that could pass for markers, control characters, spaces other
// than the plain one, and characters that cannot be seen.
func forbidden(r rune) bool {
	if r < 0x80 {
		return r == ']' || r == 0x7f || (r < ' ' && r != '\n')
	}
	switch {
	case r < 0xa1, r == 0xad: // controls, the no-break space, the soft hyphen
		return true
	case r < 0x1680, r >= 0x3100 && r < 0xfe00, r > 0xffff: // most letters of most scripts
		return false
	}
	return strings.ContainsRune(brackets, r) || strings.ContainsRune(invisible, r) || unicode.Is(unicode.White_Space, r)
}

// wordPart is what is known about the word being written: whether a full stop after it could be part of it.
type wordPart uint16

const (
	plainWord wordPart = iota // no abbreviation
	wordStart
	lineStart // like wordStart, but a number here may be a list's
	ordinal   // digits at the start of a line
	firstAbbreviation
)

func wordAfter(space rune) wordPart {
	if space == '\n' {
		return lineStart
	}
	return wordStart
}

// abbreviations that are seldom the last word of a sentence, in lower case, without the final stop. Single letters are
// added, which covers "e.g.", "U.S." and "z.B.".
var abbreviations = strings.Fields(`mr mrs ms dr prof sr jr st vs etc al cf approx ca fig figs eq eqs nos vol vols eds pp ch
	sec sect inc ltd corp dept gov gen sgt capt lt rev jan feb apr aug sept oct nov dec tel ext avg ph op cit ibid
	bzw usw evtl ggf nr str bd hrsg vgl sog inkl zzgl bspw mind env
	a b c d e f g h i j k l m n o p q r s t u v w x y z`)

// wordNode is a node of the trie of abbreviations; wordTrie[part-firstAbbreviation] belongs to part.
type wordNode struct {
	next map[byte]wordPart
	end  bool
}

var wordTrie = func() []wordNode {
	nodes := []wordNode{{next: map[byte]wordPart{}}} // node 0 is the root: its part stands for no word
	for _, w := range abbreviations {
		at := 0
		for i := range len(w) {
			next, ok := nodes[at].next[w[i]]
			if !ok {
				next = firstAbbreviation + wordPart(len(nodes))
				nodes[at].next[w[i]] = next
				nodes = append(nodes, wordNode{next: map[byte]wordPart{}})
			}
			at = int(next - firstAbbreviation)
		}
		nodes[at].end = true
	}
	return nodes
}()

// next is the part after r. solid tells whether the sentence had begun before.
func (w wordPart) next(r rune, solid bool) wordPart {
	switch {
	case r >= '0' && r <= '9':
		if w == ordinal || w == lineStart {
			return ordinal
		}
		return plainWord
	case r >= 0x80:
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			return plainWord
		}
		return wordStart
	case r >= 'A' && r <= 'Z':
		r += 'a' - 'A'
	case r < 'a' || r > 'z':
		if w == lineStart && !solid { // "- 1. …"
			return lineStart
		}
		return wordStart
	}
	switch {
	case w == wordStart || w == lineStart:
		return wordTrie[0].next[byte(r)]
	case w >= firstAbbreviation:
		return wordTrie[w-firstAbbreviation].next[byte(r)]
	}
	return plainWord
}

// abbreviates reports whether a full stop here belongs to the word.
func (w wordPart) abbreviates() bool {
	return w == ordinal || (w >= firstAbbreviation && wordTrie[w-firstAbbreviation].end)
}
