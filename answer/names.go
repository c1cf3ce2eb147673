package answer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
)

// names returns the words of a question that are written like names: with a capital inside the sentence, or in capitals and digits. The first word of
// a sentence does not count, and neither does any word in a question written in title case, in capitals.
func names(question string) []string {
	var found []string
	first, all, capital := true, 0, 0
	for segments := words.FromString(question); segments.Next(); {
		w := segments.Value()
		r, _ := utf8.DecodeRuneInString(w)
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			first = first || strings.ContainsAny(w, ".!?:")
			continue
		}
		all++
		if unicode.IsUpper(r) {
			capital++
			if !first && utf8.RuneCountInString(w) > 1 {
				found = append(found, strings.TrimSuffix(strings.TrimSuffix(w, "'s"), "’s"))
			}
		}
		first = false
	}
	if 4*capital > 3*all || german(question) {
		return nil
	}
	return found
}

// german reports whether a question is in German, where every noun has a capital and says nothing about names.
func german(question string) bool {
	for _, w := range strings.Fields(strings.ToLower(question)) {
		switch strings.Trim(w, "?,.") {
		case "der", "das", "ist", "sind", "wie", "wer", "wann", "wo", "welche", "welcher", "welches", "wird", "für", "und", "ein", "eine", "kann", "ich", "wir":
			return true
		}
	}
	return false
}
