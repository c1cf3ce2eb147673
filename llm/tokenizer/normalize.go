package tokenizer

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// isCJK reports whether BERT treats r as a word of its own: the ideograph blocks, not Hangul or kana.
func isCJK(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF ||
		r >= 0x2A700 && r <= 0x2B73F || r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF ||
		r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}

// isDropped reports whether BERT removes r before anything else: NUL, U+FFFD and the control and format characters.
func isDropped(r rune) bool {
	switch r {
	case '\t', '\n', '\r':
		return false
	case 0, utf8.RuneError:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs)
}

// isPunctuation reports whether BERT isolates r: the Unicode category P and all ASCII symbols.
func isPunctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return r > ' ' && r < 0x7F && !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}
	return unicode.IsPunct(r)
}

// appendFolded appends r in BERT's normal form: canonical decomposition without non-spacing marks, and lower case.
func appendFolded(dst []rune, r rune, stripAccents, lowercase bool) []rune {
	start := len(dst)
	if !stripAccents || r < utf8.RuneSelf {
		dst = append(dst, r)
	} else {
		var buf [utf8.UTFMax]byte
		n := utf8.EncodeRune(buf[:], r)
		for _, d := range string(norm.NFD.Bytes(buf[:n])) {
			if !unicode.Is(unicode.Mn, d) {
				dst = append(dst, d)
			}
		}
	}
	if !lowercase {
		return dst
	}
	for i := start; i < len(dst); i++ {
		if dst[i] == 'İ' { // the only character whose lower case is two
			dst = append(dst[:i], append([]rune{'i', '\u0307'}, dst[i+1:]...)...)
			i++
			continue
		}
		dst[i] = unicode.ToLower(dst[i])
	}
	return dst
}
