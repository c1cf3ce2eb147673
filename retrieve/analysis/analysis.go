package analysis

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/unicode/norm"
)

// Version grows with every change of what Terms returns; an index made by another version is refused until it is rebuilt.
const Version = 1

// maxTermBytes bounds a term: what is longer is no word, and index entries have a limit.
const maxTermBytes = 64

// Terms returns the terms of text, each as often as it occurs, nearly in the order of the text. lang is the ISO 639-1 code of the text's language; "" means that it is not
// known and is read as English, which stems little of what is not English.
func Terms(text, lang string) []string {
	if !norm.NFKC.IsNormalString(text) {
		text = norm.NFKC.String(text) // ligatures, full-width letters, superscripts
	}
	r := reader{language: languageOf(lang), terms: make([]string, 0, len(text)/6)}
	tokens := words.FromString(text)
	for tokens.Next() {
		r.token(tokens.Value(), tokens.Start(), tokens.End(), text)
	}
	r.flushRun()
	r.flushChain(text)
	return r.terms
}

// reader collects the terms of one text.
type reader struct {
	language *language
	terms    []string

	run    []rune // characters of a script without blanks between words, so far
	runEnd int    // byte position after run

	// A chain is words joined by single signs, as in "ORA-00942", "2024-01-15", "a/b": bytes [chainStart, chainEnd) of the text.
	chainStart, chainEnd int
	chainWords           int
	chainDigit           bool
}

// token reads the text's bytes [start, end), which UAX #29 holds for one word or one sign.
func (r *reader) token(token string, start, end int, text string) {
	first, _ := utf8.DecodeRuneInString(token)
	if first < utf8.RuneSelf && !isWord(first) || first >= utf8.RuneSelf && !hasWord(token) {
		r.sign(token, start, end, text)
		return
	}
	if first >= 0x0E00 && unspaced(first) { // nothing below Thai is written without blanks
		if start != r.runEnd {
			r.flushRun()
		}
		for _, c := range token {
			if !unicode.Is(unicode.Cf, c) {
				r.run = append(r.run, c)
			}
		}
		r.runEnd = end
		return
	}
	if start != r.chainEnd || r.chainWords == 0 {
		r.flushChain(text)
		r.chainStart = start
	}
	r.chainEnd = end
	r.chainWords++
	r.chainDigit = r.chainDigit || strings.ContainsAny(token, "0123456789")
	r.word(token)
}

// joiners are the signs that may join the words of a chain.
const joiners = "-/:.@+\u2010\u2011"

// sign reads a token that is no word.
func (r *reader) sign(token string, start, end int, text string) {
	if r.chainWords > 0 && start == r.chainEnd && len(token) <= 3 && strings.Contains(joiners, token) {
		next, _ := utf8.DecodeRuneInString(text[end:])
		if isWord(next) && !unspaced(next) {
			r.chainEnd = end
			return
		}
	}
	// C++, C#, F#
	if r.chainWords == 1 && start == r.chainEnd && (token == "#" || strings.HasPrefix(text[start:], "++")) {
		name := text[r.chainStart:r.chainEnd]
		if len(name) <= 2 {
			suffix := "#"
			if token == "+" {
				suffix = "++"
			}
			r.add(strings.ToLower(name) + suffix)
		}
	}
}

// flushChain adds a chain as a whole where it names something: a code, a date, a version, which have digits.
func (r *reader) flushChain(text string) {
	if r.chainWords > 1 && r.chainDigit && r.chainEnd-r.chainStart <= maxTermBytes {
		whole := strings.ToLower(text[r.chainStart:r.chainEnd])
		r.add(strings.NewReplacer("\u2010", "-", "\u2011", "-").Replace(whole))
	}
	r.chainWords, r.chainDigit = 0, false
}

// flushRun adds the pairs of neighbouring characters of a run; a single character as it is.
func (r *reader) flushRun() {
	if len(r.run) == 1 {
		r.add(string(r.run))
	}
	for i := 1; i < len(r.run); i++ {
		r.add(string(r.run[i-1 : i+1]))
	}
	r.run = r.run[:0]
}

// word reads a word: as it is when it is plain, else as a whole and in its parts.
func (r *reader) word(token string) {
	if plain(token) {
		r.addWord(strings.ToLower(token))
		return
	}
	token = dropFormat(token)
	if number, ok := ungrouped(token); ok {
		r.add(number)
		return
	}
	parts := split(token)
	if len(parts) == 1 {
		r.addWord(strings.ToLower(parts[0]))
		return
	}
	if strings.ContainsAny(token, "'\u2019") { // elision and possessive: "l'homme", "company's"
		for _, part := range parts {
			if utf8.RuneCountInString(part) > 1 {
				r.addWord(strings.ToLower(part))
			}
		}
		return
	}
	r.add(strings.ToLower(token))
	for _, part := range parts {
		r.addWord(strings.ToLower(part))
	}
}

// addWord adds a lower-case word as its stem, unless it is a stop word.
func (r *reader) addWord(w string) {
	if r.language.stop[w] {
		return
	}
	if r.language.stem != nil && len(w) > 2 && len(w) <= maxTermBytes && !strings.ContainsAny(w, "0123456789") {
		w = r.language.stemOf(w)
	}
	r.add(fold(w))
}

func (r *reader) add(term string) {
	if len(term) > maxTermBytes {
		cut := maxTermBytes
		for !utf8.RuneStart(term[cut]) {
			cut--
		}
		term = term[:cut]
	}
	if term = strings.ToValidUTF8(term, ""); term != "" {
		r.terms = append(r.terms, term)
	}
}

func isWord(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }

func hasWord(token string) bool { return strings.IndexFunc(token, isWord) >= 0 }

// unspaced reports whether c belongs to a script that does not put blanks between words, or, Korean, puts many grammatical endings on them.
func unspaced(c rune) bool {
	return unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) || c == 'ー'
}

// plain reports whether the token is letters only, in a case that hides no parts: "word", "Word", "WORD".
func plain(token string) bool {
	upper, lower := 0, 0
	for i := 0; i < len(token); i++ {
		switch c := token[i]; {
		case 'a' <= c && c <= 'z':
			lower++
		case 'A' <= c && c <= 'Z':
			upper++
			if lower > 0 {
				return false
			}
		case c >= utf8.RuneSelf:
			return plainUnicode(token)
		default:
			return false
		}
	}
	return upper <= 1 || lower == 0
}

func plainUnicode(token string) bool {
	upper, lower := 0, 0
	for _, c := range token {
		switch {
		case unicode.IsUpper(c):
			upper++
			if lower > 0 {
				return false
			}
		case unicode.IsLetter(c):
			lower++
		case !unicode.IsMark(c):
			return false
		}
	}
	return upper <= 1 || lower == 0
}

// ungrouped recognises a number and drops the commas between its thousands: "1,234.50" is "1234.50".
func ungrouped(token string) (string, bool) {
	dots := 0
	for i := 0; i < len(token); i++ {
		switch c := token[i]; {
		case c == '.':
			dots++
		case c == ',':
			if i+3 >= len(token) || i+4 < len(token) && token[i+4] >= '0' && token[i+4] <= '9' {
				return "", false
			}
		case c < '0' || c > '9':
			return "", false
		}
	}
	return strings.ReplaceAll(token, ",", ""), dots <= 1
}

// split cuts a token at signs, at changes of case ("fooBar", "HTTPServer") and between letters and digits.
func split(token string) []string {
	var parts []string
	start := -1
	var previous rune
	for i, c := range token {
		if !isWord(c) && !unicode.IsMark(c) {
			if start >= 0 {
				parts = append(parts, token[start:i])
			}
			start, previous = -1, 0
			continue
		}
		if start >= 0 && cutBetween(previous, c, token[i:]) {
			parts = append(parts, token[start:i])
			start = i
		}
		if start < 0 {
			start = i
		}
		if !unicode.IsMark(c) {
			previous = c
		}
	}
	if start >= 0 {
		parts = append(parts, token[start:])
	}
	return parts
}

// cutBetween reports whether a part ends between two neighbouring characters; rest begins with b.
func cutBetween(a, b rune, rest string) bool {
	if unicode.IsMark(b) {
		return false
	}
	if unicode.IsDigit(a) != unicode.IsDigit(b) {
		return true
	}
	if !unicode.IsUpper(b) {
		return false
	}
	if unicode.IsLower(a) {
		return true
	}
	// the last capital of "HTTPServer" begins the next part
	next, _ := utf8.DecodeRuneInString(rest[utf8.RuneLen(b):])
	return unicode.IsUpper(a) && unicode.IsLower(next)
}

// dropFormat removes characters that only guide typesetting, such as the soft hyphen.
func dropFormat(token string) string {
	if strings.IndexFunc(token, func(c rune) bool { return unicode.Is(unicode.Cf, c) }) < 0 {
		return token
	}
	return strings.Map(func(c rune) rune {
		if unicode.Is(unicode.Cf, c) {
			return -1
		}
		return c
	}, token)
}

// fold drops accents of Latin and Greek letters, the dots of Cyrillic ё, and the optional vowel marks of Arabic and Hebrew: people search without
// them. Marks that other scripts cannot do without stay.
func fold(w string) string {
	ascii := true
	for i := 0; i < len(w); i++ {
		if w[i] >= utf8.RuneSelf {
			ascii = false
			break
		}
	}
	if ascii {
		return w
	}
	var b strings.Builder
	base := rune(0)
	for _, c := range norm.NFD.String(w) {
		if unicode.Is(unicode.Mn, c) {
			if unicode.In(base, unicode.Latin, unicode.Greek, unicode.Arabic, unicode.Hebrew) || base == 'е' {
				continue
			}
		} else {
			base = c
		}
		b.WriteRune(c)
	}
	return norm.NFC.String(b.String())
}
