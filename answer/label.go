package answer

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// labels are the ways in which sources are called: titles, headings, file names. A model that has nothing to say copies the line over a passage,
// "Travel and Expense Policy, page 1", which stands in the source and says nothing.
type labels struct {
	all   [][]string // the words of each label, the longest first
	prose [][]string // the words of each line of the sources that is no label
}

// wordsOf are the words of a text as they are compared.
func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
}

func labelsOf(sources []Source) (l labels) {
	add := func(text string) {
		bare := numbering.ReplaceAllString(text, "")
		if strings.ContainsFunc(text, unicode.IsLetter) && !strings.ContainsAny(bare, "0123456789") && !claims.MatchString(text) {
			l.all = append(l.all, wordsOf(text))
		}
	}
	for i := range sources {
		p := &sources[i].Passage
		file := path.Base(p.Path)
		for _, text := range []string{p.Title, p.Heading, file, strings.TrimSuffix(file, path.Ext(file))} {
			add(text)
		}
		for _, heading := range strings.Split(p.Heading, " > ") {
			add(heading)
		}
	}
	for i := range sources {
		for line := range strings.Lines(sources[i].Passage.Text) {
			if heading := strings.TrimLeft(line, "#"); heading != line {
				add(heading)
			} else if words := wordsOf(line); len(words) > 0 && !slices.ContainsFunc(l.all, func(label []string) bool { return slices.Equal(label, words) }) {
				l.prose = append(l.prose, words)
			}
		}
	}
	slices.SortStableFunc(l.all, func(a, b []string) int { return len(b) - len(a) })
	return l
}

var (
	// pointers are the words that lead to a place; they say nothing of what stands there.
	pointers = map[string]bool{"see": true, "source": true, "sources": true, "document": true, "documents": true, "section": true, "chapter": true, "heading": true, "title": true, "from": true, "in": true, "on": true,
		"of": true, "the": true, "according": true, "to": true, "and": true, "siehe": true, "quelle": true, "dokument": true, "abschnitt": true, "kapitel": true, "laut": true, "der": true, "die": true, "das": true, "auf": true}
	pages = map[string]bool{"page": true, "pages": true, "p": true, "pp": true, "seite": true, "seiten": true, "s": true, "página": true, "pagina": true, "side": true}
	// seeks is a question that a place answers.
	seeks = regexp.MustCompile(`(?i)\b(?:which|what|whose|welche\w*|quel\w*|qué|cuál\w*|hvilke\w*)\s+(?:\pL+\s+){0,2}(?:documents?|files?|pages?|sections?|chapters?|polic(?:y|ies)|handbooks?|guides?|manuals?|` +
		`dokumente?|datei(?:en)?|seiten?|abschnitte?|kapitel|richtlinien?|handb\w+)\b|\b(?:titles?|titled|headings?|called|named?|titel|heißt|heissen)\b|` +
		`\b(?:where|wo|où|dónde|hvor)\b.*\b(?:written|described|stated|defined|documented|explained|mentioned|find|found|read|look|steht|stehen|beschrieben|finde)\b`)
)

var (
	numbering = regexp.MustCompile(`^\W*[\d.]+\s|\b(?:19|20)\d\d\b|(?i:\bversion \d+)`)
	// claims is a title that is a sentence: "The north gate is closed". Some formats have no title but their first line.
	claims = regexp.MustCompile(`(?i)\b(?:is|are|was|were|has|have|had|must|may|can|cannot|will|should|not|ist|sind|war|hat|haben|muss|darf|kann|wird)\b`)
)

// offers is a question that names the answers to choose from.
var offers = regexp.MustCompile(`(?i)\b(?:or|oder|ou|eller)\b`)

// label reads as many words as one label has; 0 when none begins there.
func (l labels) label(words []string) int {
	for _, label := range l.all {
		if len(label) <= len(words) && slices.Equal(label, words[:len(label)]) {
			return len(label)
		}
	}
	return 0
}

// only reports a statement that is nothing but the name of a place in the sources. One that is only a title may be an answer nevertheless, a person or
// a river that a document is about: it counts when the sources speak of it in a sentence, and the question does not name it already.
func (l labels) only(statement, question string) bool {
	if seeks.MatchString(question) {
		return false
	}
	words := wordsOf(statement)
	points, named := false, [][]string{}
	for at := 0; at < len(words); {
		n := l.label(words[at:])
		switch {
		case pages[words[at]] && at+1 < len(words) && strings.Trim(words[at+1], "0123456789") == "":
			points, n = true, 2
		case n > 0:
			named = append(named, words[at:at+n])
		case pointers[words[at]] || at > 0 && strings.Trim(words[at], "0123456789") == "" && (points || pointers[words[at-1]]): // pages 1 and 2, section 2
			n = 1
		default:
			return false
		}
		at += n
	}
	if points {
		return true
	}
	asked := wordsOf(question)
	for _, label := range named {
		said := slices.ContainsFunc(l.prose, func(line []string) bool { return len(line) > len(label) && holdsRun(line, label) })
		repeated := len(label) > 1 && holdsRun(asked, label) && !offers.MatchString(question)
		if said && !repeated {
			return false
		}
	}
	return len(named) > 0
}

// holdsRun reports whether run stands in words, in order and without a gap.
func holdsRun(words, run []string) bool {
	for at := 0; at+len(run) <= len(words); at++ {
		if slices.Equal(words[at:at+len(run)], run) {
			return true
		}
	}
	return false
}
