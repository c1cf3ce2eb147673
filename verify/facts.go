package verify

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"

	"ragd/arith"
)

// Kind says what a [Fact] is.
type Kind string

// The kinds of facts that a reader checks first.
const (
	NumberFact   Kind = "number"
	DateFact     Kind = "date"
	NameFact     Kind = "name"
	LinkFact     Kind = "link" // a web or mail address: what a document puts into one, a reader's program may fetch
	NegationFact Kind = "negation"
	RowFact      Kind = "row"    // a number that the source has in another row of its table
	ColumnFact   Kind = "column" // a number that the source has in another column of its table
	ResultFact   Kind = "result" // of a calculation that the statement writes down and that does not hold
)

// Fact is a detail of a statement, bytes [Start, End) of it, that must stand in its source, too.
type Fact struct {
	Kind       Kind
	Start, End int
	Text       string
}

// date is what a text says of a day; 0 where it does not say.
type date struct{ year, month, day int }

var months = []string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}

const monthPattern = `(january|february|march|april|may|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|` +
	`januar|februar|märz|mai|juni|juli|oktober|dezember)\.?`

var (
	isoDate    = regexp.MustCompile(`\b(\d{4})-(\d{2})-(\d{2})\b`)
	dotDate    = regexp.MustCompile(`\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b`)
	dayMonth   = regexp.MustCompile(`(?i)\b(\d{1,2})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?` + monthPattern + `(?:,?\s+(\d{4}))?\b`)
	monthDay   = regexp.MustCompile(`(?i)\b` + monthPattern + `\s+(\d{1,2})(?:st|nd|rd|th)?\b(?:,?\s+(\d{4})\b)?`)
	monthYear  = regexp.MustCompile(`(?i)\b` + monthPattern + `\s+(\d{4})\b`)
	links      = regexp.MustCompile(`(?i)\b(?:[a-z][a-z0-9+.-]{1,15}://|(?:data|javascript|mailto):|www\.)[^\s<>"'“”«»\x60]+|[\pL\pN._%+-]+@[\pL\pN-]+(?:\.[\pL\pN-]+)+`)
	negations  = regexp.MustCompile(`(?i)\b(?:not|no|never|none|nothing|nobody|neither|nor|without|cannot|except|unless|nicht|kein\w*|nie|ohne)\b|n['’]t\b`)
	shortNames = strings.NewReplacer("'s", "", "’s", "")
)

func month(name string) int {
	name = strings.ToLower(name)
	for i, m := range months {
		if strings.HasPrefix(m, name) || len(name) >= 3 && strings.HasPrefix(name, m[:3]) {
			return i + 1
		}
	}
	switch {
	case strings.HasPrefix(name, "mär"):
		return 3
	case name == "mai":
		return 5
	case strings.HasPrefix(name, "okt"):
		return 10
	case strings.HasPrefix(name, "dez"):
		return 12
	}
	return 0
}

// dated is a date with its place.
type dated struct {
	date
	start, end int
}

func dates(text string) []dated {
	var found []dated
	add := func(re *regexp.Regexp, read func(m []string) date) {
		for _, at := range re.FindAllStringSubmatchIndex(text, -1) {
			if slices.ContainsFunc(found, func(d dated) bool { return at[0] < d.end && d.start < at[1] }) {
				continue
			}
			if name := strings.ToLower(text[at[0]:at[1]]); name == text[at[0]:at[1]] && strings.ContainsFunc(name, unicode.IsLetter) {
				continue // "up to 10 may be carried over" is no date
			}
			groups := make([]string, len(at)/2)
			for i := range groups {
				if at[2*i] >= 0 {
					groups[i] = text[at[2*i]:at[2*i+1]]
				}
			}
			found = append(found, dated{read(groups), at[0], at[1]})
		}
	}
	n := func(s string) int { v, _ := strconv.Atoi(s); return v }
	add(isoDate, func(m []string) date { return date{n(m[1]), n(m[2]), n(m[3])} })
	add(dotDate, func(m []string) date { return date{n(m[3]), n(m[2]), n(m[1])} })
	add(dayMonth, func(m []string) date { return date{n(m[3]), month(m[2]), n(m[1])} })
	add(monthDay, func(m []string) date { return date{n(m[3]), month(m[1]), n(m[2])} })
	add(monthYear, func(m []string) date { return date{n(m[2]), month(m[1]), 0} })
	return found
}

// agrees reports whether nothing that a says contradicts b, and b says all that a says.
func (a date) agrees(b date) bool {
	return (a.year == 0 || a.year == b.year) && a.month == b.month && (a.day == 0 || a.day == b.day)
}

// Missing returns the numbers, dates, names and links of statement that stand neither in evidence nor in question, in the order in which they stand.
// computed are values that a calculation gives; a statement may name them.
func Missing(statement, evidence, question string, computed ...arith.Number) []Fact {
	known := evidence + "\n" + question
	var missing []Fact
	knownDates, knownNumbers := dates(known), append(arith.Find(known), computed...)
	for _, e := range arith.Equations(statement) {
		if e.Holds { // then its result is as good as its operands
			knownNumbers = append(knownNumbers, arith.Number{Value: e.Stated})
		} else {
			missing = append(missing, Fact{ResultFact, e.ResultStart, e.End, statement[e.ResultStart:e.End]})
		}
	}
	inDate := map[int]bool{}
	for _, d := range dates(statement) {
		for i := d.start; i < d.end; i++ {
			inDate[i] = true
		}
		if !slices.ContainsFunc(knownDates, func(k dated) bool { return d.agrees(k.date) }) {
			missing = append(missing, Fact{DateFact, d.start, d.end, statement[d.start:d.end]})
		}
	}
	items := itemMarks(statement)
	for _, n := range arith.Find(statement) {
		if slices.ContainsFunc(items, func(at [2]int) bool { return at[0] <= n.Start && n.End <= at[1] }) {
			continue
		}
		if !inDate[n.Start] && !slices.ContainsFunc(knownNumbers, func(k arith.Number) bool { return k.Value.Cmp(n.Value) == 0 }) {
			missing = append(missing, Fact{NumberFact, n.Start, n.End, statement[n.Start:n.End]})
		}
	}
	missing = append(missing, missingNames(statement, known, inDate, items)...)
	missing = append(missing, missingLinks(statement, known)...)
	slices.SortFunc(missing, func(a, b Fact) int { return a.Start - b.Start })
	return missing
}

// missingLinks finds addresses that known does not hold to the last character: one that is longer may carry away what was added to it.
func missingLinks(statement, known string) []Fact {
	var missing []Fact
	var have []string
	for _, at := range links.FindAllStringIndex(statement, -1) {
		link := strings.TrimRight(statement[at[0]:at[1]], trailing)
		if have == nil {
			have = links.FindAllString(known, -1)
		}
		if !slices.ContainsFunc(have, func(k string) bool { return strings.EqualFold(strings.TrimRight(k, trailing), link) }) {
			missing = append(missing, Fact{LinkFact, at[0], at[0] + len(link), link})
		}
	}
	return missing
}

// trailing is what ends a sentence or a bracket rather than an address.
const trailing = ".,;:!?)]}*_"

// missingNames finds words written like names, with a capital inside a sentence or in capitals, that known does not hold.
func missingNames(statement, known string, skip map[int]bool, marks [][2]int) []Fact {
	have := map[string]bool{}
	for w := words.FromString(known); w.Next(); {
		word := strings.ToLower(shortNames.Replace(w.Value()))
		have[word] = true
		have[strings.TrimSuffix(word, "s")] = true
	}
	if germanText(statement) { // every noun has a capital there
		return nil
	}
	var missing []Fact
	starts := itemStarts(statement)
	at, first, all, capital := 0, true, 0, 0
	for w := words.FromString(statement); w.Next(); {
		word, start := w.Value(), at
		at += len(word)
		r, _ := utf8.DecodeRuneInString(word)
		if !unicode.IsLetter(r) {
			first = first || strings.ContainsAny(word, ".!?:\n•\"“„«") || opensQuote(statement, start, word)
			continue
		}
		if slices.ContainsFunc(marks, func(m [2]int) bool { return m[0] <= start && at < m[1] }) { // the "a" of "a) Ask first"
			continue
		}
		first = first || slices.Contains(starts, start) || slices.ContainsFunc(marks, func(m [2]int) bool { return m[1] == start })
		all++
		bare := strings.ToLower(shortNames.Replace(word))
		if unicode.IsUpper(r) {
			capital++
			if !first && !skip[start] && !speaker.MatchString(word) && utf8.RuneCountInString(word) > 1 && !have[bare] && !have[strings.TrimSuffix(bare, "s")] {
				missing = append(missing, Fact{NameFact, start, at, word})
			}
		}
		first = false
	}
	if all > 4 && 4*capital > 3*all { // a title
		return nil
	}
	return missing
}

// opensQuote reports a single quotation mark that begins one.
func opensQuote(text string, at int, word string) bool {
	return word == "‘" || word == "'" && (at == 0 || strings.ContainsAny(text[at-1:at], " \t(:"))
}

// speaker is a word that has a capital in every place.
var speaker = regexp.MustCompile(`^I['’]\pL+$`)

func germanText(text string) bool {
	n := 0
	for _, w := range strings.Fields(strings.ToLower(text)) {
		switch w {
		case "der", "die", "das", "und", "ist", "sind", "nicht", "mit", "für", "von", "ein", "eine", "wird", "werden", "auf":
			n++
		}
	}
	return n >= 2
}

// negated returns the place of the first negation of text, or false.
func negated(text string) (Fact, bool) {
	at := negations.FindStringIndex(text)
	if at == nil {
		return Fact{}, false
	}
	return Fact{NegationFact, at[0], at[1], text[at[0]:at[1]]}, true
}

// Contradicts reports a statement that says with a negation what span says without one, or the other way round. Only where the two otherwise say
// nearly the same can that be told from the words.
func Contradicts(statement, span string) (Fact, bool) {
	a, inStatement := negated(statement)
	_, inSpan := negated(span)
	if inStatement == inSpan || cover(terms(statement), terms(span)) < 0.75 || cover(terms(span), terms(statement)) < 0.5 {
		return Fact{}, false
	}
	if !inStatement {
		a = Fact{NegationFact, 0, len(statement), statement}
	}
	return a, true
}
