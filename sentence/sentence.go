package sentence

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"
)

// Span is one sentence: bytes [Start, End) of the text.
type Span struct{ Start, End int }

// Split returns the sentences of text.
func Split(text string) []Span {
	var spans []Span
	for lineStart := 0; lineStart < len(text); {
		lineEnd := blockEnd(text, lineStart)
		spans = appendBlock(spans, text, lineStart, lineEnd)
		lineStart = lineEnd
	}
	return spans
}

// blockEnd returns where the block that begins at start ends: before a blank line, a list item, a table row or a heading, or after one of these.
func blockEnd(text string, start int) int {
	for at := start; at < len(text); {
		nl := strings.IndexByte(text[at:], '\n')
		if nl < 0 {
			return len(text)
		}
		line, next := text[at:at+nl], at+nl+1
		if strings.TrimSpace(line) == "" || standsAlone(line) || standsAlone(firstLine(text[next:])) {
			return next
		}
		at = next
	}
	return len(text)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// standsAlone reports whether a line is a statement of its own whatever its last character: an item, a table row (bars or tabs), a
// heading, or a blank line.
func standsAlone(line string) bool {
	line = strings.TrimSpace(line)
	if line == "" || strings.Contains(line, "\t") {
		return true
	}
	switch line[0] {
	case '|', '#', '>', '*', '-', '+':
		return true
	}
	if r, _ := utf8.DecodeRuneInString(line); r == '•' || r == '–' || r == '▪' || r == '●' || r == '◦' {
		return true
	}
	digits := len(line) - len(strings.TrimLeft(line, "0123456789"))
	return digits > 0 && digits <= 3 && len(line) > digits+1 && (line[digits] == '.' || line[digits] == ')') && line[digits+1] == ' '
}

// appendBlock appends the sentences of text[start:end], a piece of running text.
func appendBlock(spans []Span, text string, start, end int) []Span {
	open := -1 // start of a sentence that an abbreviation kept open
	// Line ends inside a block are soft: for the rules they are spaces. The replacement keeps every offset.
	block := strings.NewReplacer("\n", " ", "\r", " ").Replace(text[start:end])
	at := start
	for segments := sentences.FromString(block); segments.Next(); {
		from, to := at, at+len(segments.Value())
		at = to
		if open >= 0 {
			from = open
		}
		if to < end && continues(text[from:to], text[to:end]) {
			open = from
			continue
		}
		open = -1
		if s := trim(text, from, to); s.Start < s.End {
			spans = append(spans, s)
		}
	}
	if open >= 0 {
		if s := trim(text, open, end); s.Start < s.End {
			spans = append(spans, s)
		}
	}
	return spans
}

func trim(text string, start, end int) Span {
	s := text[start:end]
	left := len(s) - len(strings.TrimLeftFunc(s, unicode.IsSpace))
	return Span{start + left, start + max(left, len(strings.TrimRightFunc(s, unicode.IsSpace)))}
}

// abbreviations never end a sentence when a word follows; the ones in mayEnd do when that word begins with a capital.
var abbreviations = set("mr mrs ms dr prof st sr jr fig figs eq eqs sec secs ch vol no nos nr pp p art al vs cf e.g i.e ca approx resp incl excl max min " +
	"tel ext hr fr bzw z.b d.h u.a ggf vgl abs nr str dept inc ltd co corp gen col lt capt sgt rev hon jan feb mar apr jun jul aug sep sept oct nov dec")

var mayEnd = set("inc ltd co corp etc al max min ext no jr sr p")

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// continues reports whether the boundary between a and b is none: a ends in an abbreviation or an initial, or b goes on in lower case.
func continues(a, b string) bool {
	a = strings.TrimRightFunc(a, unicode.IsSpace)
	b = strings.TrimLeftFunc(b, unicode.IsSpace)
	next, _ := utf8.DecodeRuneInString(b)
	if !strings.HasSuffix(a, ".") {
		return false
	}
	if unicode.IsLower(next) || strings.Trim(a, "0123456789.") == "" { // "approx. ten"; the number of a list item
		return true
	}
	word := strings.ToLower(a[strings.LastIndexFunc(a[:len(a)-1], func(r rune) bool { return unicode.IsSpace(r) || r == '(' || r == '[' })+1:])
	word = strings.TrimSuffix(word, ".")
	if utf8.RuneCountInString(word) == 1 && unicode.IsLetter([]rune(word)[0]) {
		return unicode.IsUpper(next) // "J. Smith"; "plan B. 3 days" is a boundary
	}
	return abbreviations[word] && !(mayEnd[word] && unicode.IsUpper(next))
}
