package ingest

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"
)

// Sentences gives the byte ends of text's sentences, trailing white space
// included: UAX #29 with the breaks undone that it makes after abbreviations,
// initials and ordinals. A single line end counts as a blank (text is often
// wrapped), an empty line ends a sentence.
func Sentences(text string) []int {
	var ends []int
	flat := flatten(text)
	it := sentences.FromString(flat)
	start, pos := 0, 0
	for it.Next() {
		pos += len(it.Value())
		if pos < len(flat) && joinsNext(flat[start:pos], flat[pos:]) {
			continue
		}
		ends = append(ends, pos)
		start = pos
	}
	return ends
}

// flatten replaces single line ends by blanks, byte for byte.
func flatten(text string) string {
	if strings.IndexByte(text, '\n') < 0 {
		return text
	}
	flat := []byte(text)
	for i, c := range flat {
		if c == '\n' && (i == 0 || text[i-1] != '\n') && (i+1 == len(text) || text[i+1] != '\n') {
			flat[i] = ' '
		}
	}
	return string(flat)
}

// abbreviations whose full stop does not end a sentence, whatever follows.
var abbreviations = set("mr mrs ms dr prof st sr jr rev hon gen col capt lt sgt vs etc e.g i.e eg ie cf al fig figs sec secs eq eqs ch chap app no nos nr art arts " +
	"approx ca est max min dept div inc ltd co corp bros vol vols ed eds pp p para paras ref refs ver resp incl excl tel ext " +
	"jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun " +
	"u.s u.k u.n e.u a.m p.m ph.d b.sc m.sc " +
	"z.b d.h u.a o.ä bzw usw ggf evtl inkl exkl vgl abs str hr fr dipl ing nr bd s " +
	"m mme mlle mm av env n° sra srta ud uds dott sig")

// joinsNext reports that the break between sentence and rest is none.
func joinsNext(sentence, rest string) bool {
	trimmed := strings.TrimRight(sentence, " \t\n\u00a0")
	if len(trimmed) == len(sentence) && !strings.HasSuffix(trimmed, ".") || strings.Contains(sentence[len(trimmed):], "\n") {
		return false
	}
	if !strings.HasSuffix(trimmed, ".") {
		return false
	}
	next, _ := utf8.DecodeRuneInString(strings.TrimLeft(rest, " \t\"'“‘(["))
	word := trimmed[strings.LastIndexAny(trimmed, " \t(\n\u00a0")+1 : len(trimmed)-1]
	word = strings.TrimLeft(word, "\"'“‘([")
	lower := strings.ToLower(word)
	switch {
	case strings.HasSuffix(trimmed, ".."):
		return unicode.IsLower(next)
	case lower == "etc" || lower == "inc" || lower == "ltd" || lower == "co" || lower == "corp" || lower == "a.m" || lower == "p.m" || lower == "u.s" || lower == "al" || lower == "usw":
		return !unicode.IsUpper(next) // these do end sentences
	case abbreviations[lower]:
		return true
	case isInitial(word):
		return true
	case isNumber(word): // "on the 3. May", "Section 4. 2": an ordinal unless it ends a long sentence
		return unicode.IsLower(next) || len(trimmed) < 8
	}
	return unicode.IsLower(next)
}

// isInitial: one capital letter, as in "J. Smith"; "I." ends sentences.
func isInitial(word string) bool {
	r, n := utf8.DecodeRuneInString(word)
	return n == len(word) && n > 0 && unicode.IsUpper(r) && r != 'I'
}

func isNumber(word string) bool {
	return word != "" && strings.Trim(word, "0123456789") == ""
}
