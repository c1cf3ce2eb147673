package analysis

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/kljensen/snowball/english"
	"github.com/kljensen/snowball/french"
	"github.com/kljensen/snowball/hungarian"
	"github.com/kljensen/snowball/norwegian"
	"github.com/kljensen/snowball/russian"
	"github.com/kljensen/snowball/spanish"
	"github.com/kljensen/snowball/swedish"
)

// language is what is known about one language.
type language struct {
	stem func(word string, stemStopWords bool) string // nil: words as they are
	stop map[string]bool                              // words that carry no meaning of their own
}

// The stop lists are small: BM25 gives frequent words little weight anyway, and a list that is too long loses "who", "it" and "may" where they matter.
// They keep the longest posting lists out of the index.
var languages = map[string]*language{
	"en": {english.Stem, set("a an and are as at be but by for from had has have he her his i if in into is it its me my no not of on or our she so such that the their them then there these they this to was we were will with you your what which who how when where why do does did can could should would ll ve re don")},
	"fr": {french.Stem, set("à au aux avec ce ces cette dans de des du elle en est et il ils je la le les leur lui mais me ne nous on ou par pas pour qu que qui sa se ses son sont sur un une vous")},
	"es": {spanish.Stem, set("a al con de del el ella en es esta este la las lo los no o para pero por que se sin son su sus un una y")},
	"ru": {stemRussian, set("а без более бы был была были было в во вы где да для до его ее если есть и из или им их к как ко который ли мы на не но о об он она они от по при с со так то у что это")},
	"sv": {swedish.Stem, set("att av de den det du en ett från för han har hon i inte jag med men när och om på som till var är")},
	"no": {norwegian.Stem, set("av de den det du en et for fra han har hun i ikke jeg med men når og om på som til var er")},
	"hu": {hungarian.Stem, set("a az azt csak de egy és ez ezt hogy is már meg mint nem van vagy volt")},
	"de": {nil, set("aber als am an auch auf aus bei das dass dem den der des die durch ein eine einem einen einer eines er es für hat ich ihr im in ist man mit nach nicht noch nur oder sich sie sind so über um und uns unter vom von vor war wie wir wird zu zum zur")},
	"it": {nil, set("a ad al alla che con da dal del della di e gli ha i il in la le lo nel nella non o per più si sono su un una")},
	"pt": {nil, set("a ao as com da das de do dos e em na nas no nos não o os ou para pela pelo por que se sua um uma é")},
	"nl": {nil, set("aan als bij dat de die dit door een en er had heeft het hij ik in is je maar met na niet nog of om ook op over te uit van voor was wat we zijn ze zich")},
}

// stems remembers stems: stemming is most of the work of reading a text, and most words of a text have been in it before. A slot holds the last of the
// words that share it; all slots together take some 4 MB.
var stems [1 << 15]atomic.Pointer[stemmed]

type stemmed struct {
	language   *language
	word, stem string
}

var stemSeed = maphash.MakeSeed()

// stemOf returns the stem of a word in a language that has them.
func (l *language) stemOf(word string) string {
	slot := &stems[maphash.String(stemSeed, word)%uint64(len(stems))]
	if s := slot.Load(); s != nil && s.language == l && s.word == word {
		return s.stem
	}
	word = strings.Clone(word) // not the whole text with it
	s := &stemmed{language: l, word: word, stem: l.stem(word, true)}
	slot.Store(s)
	return s.stem
}

// stemRussian reads ё as е, as most people write it; the stemmer knows only the latter.
func stemRussian(word string, stemStopWords bool) string {
	return russian.Stem(strings.ReplaceAll(word, "ё", "е"), stemStopWords)
}

func init() {
	languages["nb"], languages["nn"] = languages["no"], languages["no"]
}

var unknown = &language{}

// languageOf returns what is known about the language with an ISO 639-1 code, which may have a region: "pt-BR".
func languageOf(code string) *language {
	code, _, _ = strings.Cut(strings.ToLower(code), "-")
	if code == "" {
		code = "en"
	}
	if l, ok := languages[code]; ok {
		return l
	}
	return unknown
}

// Readings returns those of languages in which Terms reads q differently and to some purpose, in their order: nobody asks in Russian without a
// Cyrillic letter, and languages of which nothing is known are all read the same way. At least one comes back where there is one.
func Readings(q string, languages []string) []string {
	var kept []string
	var seen []*language
	for _, code := range languages {
		l := languageOf(code)
		if slices.Contains(seen, l) || l != unknown && !writes(l, q) {
			continue
		}
		kept, seen = append(kept, code), append(seen, l)
	}
	if len(kept) == 0 && len(languages) > 0 {
		return languages[:1]
	}
	return kept
}

// writes reports whether q has a letter of the script of l, one of the known languages.
func writes(l *language, q string) bool {
	script := unicode.Latin
	if l == languages["ru"] {
		script = unicode.Cyrillic
	}
	return strings.ContainsFunc(q, func(c rune) bool { return unicode.Is(script, c) })
}

// IsEnglish reports whether q may be a question in English to passages in languages (ISO 639-1; none: any): most of its letters are Latin, and English
// or an unknown language is among them.
func IsEnglish(q string, languages []string) bool {
	if len(languages) > 0 && !slices.ContainsFunc(languages, isEnglish) {
		return false
	}
	letters, latin := 0, 0
	for _, c := range q {
		if unicode.IsLetter(c) {
			letters++
			if unicode.Is(unicode.Latin, c) {
				latin++
			}
		}
	}
	return 2*latin >= letters
}

func isEnglish(code string) bool { return languageOf(code) == languageOf("en") }

func set(list string) map[string]bool {
	members := map[string]bool{}
	for _, w := range strings.Fields(list) {
		members[w] = true
	}
	return members
}
