package ingest

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
)

// rareSets are single-byte encodings that statistics of letters don't know, or
// take for a neighbour that shares most of its letters.
var rareSets = []struct {
	enc  encoding.Encoding
	name string
}{
	{charmap.ISO8859_15, "iso-8859-15"}, {charmap.KOI8U, "koi8-u"}, {charmap.CodePage866, "ibm866"}, {charmap.MacintoshCyrillic, "x-mac-cyrillic"},
	{charmap.Macintosh, "macintosh"}, {charmap.CodePage850, "cp850"}, {charmap.CodePage852, "cp852"},
}

// oddEnough is the oddness from which on an encoding is doubted.
const oddEnough = 0.02

// lessOdd replaces a guess that makes odd text of sample by one of the rare sets that makes much less odd text of it.
func lessOdd(sample []byte, enc encoding.Encoding, name string) (encoding.Encoding, string) {
	least := oddness(sample, enc)
	if least < oddEnough {
		return enc, name
	}
	least /= 2
	for _, set := range rareSets {
		if odd := oddness(sample, set.enc); odd < least {
			enc, name, least = set.enc, set.name, odd
		}
	}
	return enc, name
}

// oddness is how much in sample, read as enc, no language has: small letters before a capital one in a word, symbols inside words, words of two
// scripts, lines and boxes. Of a character outside ASCII on average.
func oddness(sample []byte, enc encoding.Encoding) float64 {
	out, _ := enc.NewDecoder().Bytes(sample) // undecodable bytes become U+FFFD, which is odd
	odd, all := 0, 0
	before, r := ' ', ' '
	for len(out) > 0 {
		next, n := utf8.DecodeRune(out)
		out = out[n:]
		if r >= 0x80 {
			all++
		}
		odd += oddAt(before, r, next)
		before, r = r, next
	}
	return float64(odd) / float64(max(all, 1))
}

// oddAt judges r between its neighbours.
func oddAt(before, r, next rune) int {
	switch {
	case r < 0x80 && before < 0x80:
		return 0
	case r == utf8.RuneError, r >= 0x80 && r < 0xa0, unicode.Is(unicode.Co, r), r >= 0x2500 && r < 0x25a0:
		return 5
	case unicode.IsUpper(r) && unicode.IsLower(before):
		return 2
	case unicode.IsLetter(r) && unicode.IsLetter(before) && latin(before) != latin(r) && (latin(before) == latin(next) && unicode.IsLetter(next) || alphabetic(r) && alphabetic(before)):
		return 3
	case r < 0x80 || unicode.IsLetter(r) || unicode.IsMark(r):
		return 0
	case r == '¤':
		return 2
	case r == '’', r == '‘', r == '·', r == '\u00ad', r == '\u00a0', unicode.Is(unicode.Pd, r), unicode.IsDigit(r):
		return 0
	case unicode.IsLetter(before) && unicode.IsLetter(next) && r < 0x3000:
		return 2
	case (unicode.IsLetter(before) || unicode.IsLetter(next)) && unicode.Is(unicode.No, r):
		return 2
	}
	return 0
}

func latin(r rune) bool { return r < 0x80 || unicode.Is(unicode.Latin, r) }

// alphabetic: of scripts that never mix within a word.
func alphabetic(r rune) bool { return unicode.In(r, unicode.Latin, unicode.Cyrillic, unicode.Greek) }
