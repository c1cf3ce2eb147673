package verify

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/clipperhouse/uax29/v2/words"

	"ragd/arith"
)

// Misplaced is a number of a statement that its source has in another row or column than the one that the statement is about.
type Misplaced struct {
	Fact
	Place string // the row, or the header of the column, that the statement is about
	Row   string // the source's row that the statement is about, as a reader would say it
}

// token is a word of a text as it is compared, bytes [start, end) of the text.
type token struct {
	text       string
	start, end int
}

// tokensOf are the words of text that carry meaning, in order.
func tokensOf(text string) []token {
	var all []token
	at := 0
	for w := words.FromString(text); w.Next(); {
		word, start := w.Value(), at
		at += len(word)
		if !strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
			continue
		}
		stems := terms(shortNames.Replace(word))
		if len(stems) == 0 && word[0] < 0x80 {
			continue // a stop word
		}
		if len(stems) != 1 { // an ideograph, or a chain like 2.5
			stems = []string{strings.ToLower(word)}
		}
		all = append(all, token{stems[0], start, at})
	}
	return all
}

// mention is a place where a text names rows.
type mention struct {
	start, end int
	rows       []int
}

var (
	// parts of a label that stand for it: "Oslo, Bergen"; "accounts and payroll".
	parts = regexp.MustCompile(`\s*[,;/()]\s*|\s+(?:and|or|und|oder|et|ou|y|o|e|og|och|en|eller|&)\s+`)
	// but is what names something to leave it out.
	but = regexp.MustCompile(`(?i)(?:\b(?:outside|except|excluding|excepting|other than|apart from|aside from|besides|unlike|without|beyond|rest of|außerhalb|außer|ohne|hors|sauf|excepto|salvo|utenfor|unntatt|buiten|behalve)(?: (?:of|for|in|the|in der|von|de|for|i))?|\bnot (?:in|for)|\bnicht (?:in|für))\s+$`)
)

// mentions finds where tokens name one of the labels, the longest first: "Elsewhere in Norway" does not name "Norway".
func mentions(text string, tokens []token, labels [][]string) (found []mention, without bool) {
	for i, all := range labels {
		for _, label := range all {
			want := tokensOf(label)
			if len(want) == 0 || len(want) == 1 && len([]rune(want[0].text)) < 2 && want[0].text[0] < 0x80 {
				continue
			}
			for at := 0; at+len(want) <= len(tokens); at++ {
				k := 0
				for k < len(want) && tokens[at+k].text == want[k].text {
					k++
				}
				if k < len(want) {
					continue
				}
				m := mention{tokens[at].start, tokens[at+k-1].end, []int{i}}
				if same := slices.IndexFunc(found, func(o mention) bool { return o.start == m.start && o.end == m.end }); same >= 0 {
					if !slices.Contains(found[same].rows, i) {
						found[same].rows = append(found[same].rows, i)
					}
				} else {
					found = append(found, m)
				}
			}
		}
	}
	found = slices.DeleteFunc(slices.Clone(found), func(m mention) bool {
		return slices.ContainsFunc(found, func(o mention) bool { return o.start <= m.start && m.end <= o.end && o.end-o.start > m.end-m.start })
	})
	kept := found[:0]
	for _, m := range found {
		if but.MatchString(text[:m.start]) {
			without = true
		} else {
			kept = append(kept, m)
		}
	}
	return kept, without
}

// labelsOf are the spellings of each row's label: whole, without what is in brackets, and its parts.
func labelsOf(t table) [][]string {
	all := make([][]string, len(t.rows))
	for i, r := range t.rows {
		all[i] = spellings(r.cells[0])
		if r.also != "" { // the end of this label, or the beginning of the next
			more := append(spellings(r.also), spellings(r.cells[0]+" "+r.also)...)
			all[i] = append(all[i], more...)
		}
		if i > 0 && t.rows[i-1].also != "" {
			all[i] = append(all[i], spellings(t.rows[i-1].also)...)
			all[i] = append(all[i], t.rows[i-1].also+" "+r.cells[0])
		}
	}
	return all
}

var brackets = regexp.MustCompile(`\s*\([^)]*\)`)

func spellings(label string) []string {
	all := []string{label, brackets.ReplaceAllString(label, "")}
	if !strings.ContainsAny(label, "0123456789") { // "4 to 6 and 8" falls apart into nothing that means anything
		all = append(all, parts.Split(label, -1)...)
	}
	return slices.DeleteFunc(all, func(s string) bool { return strings.TrimSpace(s) == "" })
}

// otherCells are the words of each row's other cells, which name it when no label does: "Ingrid Solheim".
func otherCells(t table) [][]string {
	all := make([][]string, len(t.rows))
	for i, r := range t.rows {
		for _, c := range r.cells[1:] {
			if c != "" && !holdsDigit([]string{c}) && len(c) <= 60 && strings.ContainsFunc(c[:1], func(r rune) bool { return unicode.IsUpper(r) || r >= 0x80 }) && len([]rune(c)) > 3 {
				all[i] = append(all[i], c)
			}
		}
	}
	return all
}

// named are the rows that a text names; without says that it leaves one out, so that nobody can tell which are left.
func (t table) named(text string) (found []mention, without bool) {
	tokens := tokensOf(text)
	if found, without = mentions(text, tokens, labelsOf(t)); without {
		return nil, true
	}
	labelled := slices.Clone(found)
	for i, r := range t.rows {
		s, ok := spanOf(r.cells[0])
		if !ok {
			continue
		}
		for _, n := range arith.Find(text) {
			inside := slices.ContainsFunc(labelled, func(m mention) bool {
				return m.start <= n.Start && n.End <= m.end && len(m.rows) > 0 && !slices.Contains(m.rows, i)
			})
			if !inside && unitAfter(text, n) == s.unit && slices.ContainsFunc(sides(text, n), func(side int) bool { return s.holds(n.Value, side) }) {
				found = append(found, mention{n.Start, n.End, []int{i}})
			}
		}
	}
	if len(found) == 0 {
		found, without = mentions(text, tokens, otherCells(t))
	}
	if without {
		return nil, true
	}
	return found, false
}

func rowsOf(all []mention) (rows []int) {
	for _, m := range all {
		for _, r := range m.rows {
			if !slices.Contains(rows, r) {
				rows = append(rows, r)
			}
		}
	}
	return rows
}

var (
	gathers = regexp.MustCompile(`(?i)\b(?:total\w*|sum|overall|altogether|average|mean|median|highest|lowest|largest|smallest|range[sd]?|between|combined|depend\w*|var(?:y|ies)|insgesamt|` +
		`summe|gesamt\w*|durchschnitt\w*|zwischen|höchste\w*|niedrigste\w*|somme|moyenne|entre|plus (?:haut|bas)\w*|suma|promedio|tra|media|mellom|gjennomsnitt|tussen|gemiddeld\w*)\b`)
	joins = regexp.MustCompile(`(?i)^\D{0,8}?(?:[-–—]|\bto\b|\bbis\b|\bà\b|\ba\b|\btil\b|\btot\b)\s*[$€£]?\s*$`)
	asks  = regexp.MustCompile(`(?i)^\W*(?:is|are|was|were|does|do|did|can|could|may|must|will|would|should|has|have|ist|sind|war|darf|dürfen|kann|können|muss|gilt|stimmt|est-ce|er|är|kan)\b`)
)

// InOtherRows returns the numbers of statement that stand in the tables of evidence which lie at one of the places [start, end), in other rows than those
// that the statement is about: the rows that it names, or the question when it names none. A number of the right row may stand in
// a wrong column. Everything that makes this uncertain excuses a number: that prose in the places has it too, that the statement compares with it, sums up
// or names a span, that the question has it, or that it is one of computed.
func InOtherRows(statement, question, evidence string, places [][2]int, computed ...arith.Number) []Misplaced {
	numbers := checkable(statement, question, computed)
	if len(numbers) == 0 {
		return nil
	}
	var found []Misplaced
	right := map[int]bool{} // numbers that some table has where they belong
	tables := tablesOf(evidence)
	for _, t := range tables {
		if !slices.ContainsFunc(places, func(p [2]int) bool { return p[0] < t.end && t.start < p[1] }) {
			continue
		}
		wrong, well := t.misplaced(statement, question, numbers)
		found = append(found, wrong...)
		for _, n := range well {
			right[n.Start] = true
		}
	}
	if len(found) == 0 {
		return nil
	}
	prose := arith.Find(proseIn(evidence, places, tables))
	return slices.DeleteFunc(found, func(m Misplaced) bool {
		return right[m.Start] || slices.ContainsFunc(prose, func(n arith.Number) bool {
			return slices.ContainsFunc(numbers, func(k arith.Number) bool { return k.Start == m.Start && k.Value.Cmp(n.Value) == 0 })
		})
	})
}

// checkable are the numbers of a statement that must stand in the right row: none of a date, of a list's own items, of an equation, of a calculation or of
// the question, unless that asks whether the number is right.
func checkable(statement, question string, computed []arith.Number) []arith.Number {
	numbers := arith.Find(statement)
	if len(numbers) == 0 {
		return nil
	}
	if !asks.MatchString(question) {
		computed = append(slices.Clone(computed), arith.Find(question)...)
	}
	var skip [][2]int
	for _, d := range dates(statement) {
		skip = append(skip, [2]int{d.start, d.end})
	}
	skip = append(skip, itemMarks(statement)...)
	for _, e := range arith.Equations(statement) {
		skip = append(skip, [2]int{e.Start, e.End})
	}
	return slices.DeleteFunc(numbers, func(n arith.Number) bool {
		return within(skip, n.Start, n.End) ||
			slices.ContainsFunc(computed, func(k arith.Number) bool { return k.Value.Cmp(n.Value) == 0 })
	})
}

// proseIn is the text at places that belongs to no table.
func proseIn(evidence string, places [][2]int, tables []table) string {
	var prose strings.Builder
	for _, l := range linesOf(evidence) {
		inTable := slices.ContainsFunc(tables, func(t table) bool { return t.start <= l.start && l.start < t.end })
		for _, p := range places {
			if from, to := max(p[0], l.start), min(p[1], l.end); from < to && !inTable {
				prose.WriteString(evidence[from:to] + "\n")
			}
		}
	}
	return prose.String()
}

// misplaced returns the numbers that t has only in rows or columns that the statement is not about, and those that it has where they belong.
func (t table) misplaced(statement, question string, numbers []arith.Number) (wrong []Misplaced, right []arith.Number) {
	named, without := t.named(statement)
	parts := comparedWith(statement, named)
	named = slices.DeleteFunc(named, func(m mention) bool { return within(parts, m.start, m.end) })
	numbers = slices.DeleteFunc(slices.Clone(numbers), func(n arith.Number) bool { return compared(statement, parts, n) })
	asked := len(named) == 0 && !without // only the question says what it is about
	if asked {
		named, without = t.named(question)
	}
	if without || asked && gathers.MatchString(statement) {
		return nil, nil
	}
	var scopes []clause
	if !asked {
		scopes = t.clauses(statement, named, numbers)
	}
	all := rowsOf(named)
	for i, n := range numbers {
		about := all
		for _, c := range scopes {
			if c.start <= n.Start && n.Start < c.end && len(c.rows) > 0 {
				about = c.rows
			}
		}
		in := t.rowsWith(statement, n)
		switch {
		case len(in) == 0, len(about) == 0:
		case !asked && slices.ContainsFunc(named, func(m mention) bool { return m.start <= n.Start && n.End <= m.end }): // a part of a label
		case overlap(in, about):
			right = append(right, n)
		case asked && joined(statement, numbers, i):
		case !asked && t.besides(statement, named, numbers, n):
		default:
			row := t.rows[about[0]].String()
			wrong = append(wrong, Misplaced{Fact{RowFact, n.Start, n.End, statement[n.Start:n.End]}, row, row})
		}
	}
	if len(wrong) == 0 {
		if wrong = t.otherColumn(statement, question, numbers, all); len(wrong) > 0 {
			right = nil
		}
	}
	return wrong, right
}

// within reports whether one of the parts holds [start, end).
func within(parts [][2]int, start, end int) bool {
	return slices.ContainsFunc(parts, func(p [2]int) bool { return p[0] <= start && end <= p[1] })
}

func overlap(a, b []int) bool {
	return slices.ContainsFunc(a, func(x int) bool { return slices.Contains(b, x) })
}

// rowsWith are the rows that have a number of the statement as a value.
func (t table) rowsWith(statement string, n arith.Number) (in []int) {
	unit := unitAfter(statement, n)
	for i, r := range t.rows {
		if slices.ContainsFunc(r.valuesOf(), func(v value) bool { return same(n, unit, v.Number, v.unit) }) {
			in = append(in, i)
		}
	}
	return in
}

// String is the row on one line.
func (r row) String() string {
	return strings.TrimSpace(strings.Join(r.cells, " ") + " " + r.also)
}

// joined reports a number that is an end of a range: "1,500 to 2,600".
func joined(statement string, numbers []arith.Number, i int) bool {
	return i > 0 && joins.MatchString(statement[numbers[i-1].End:numbers[i].Start]) ||
		i+1 < len(numbers) && joins.MatchString(statement[numbers[i].End:numbers[i+1].Start])
}

// clause is a part of a statement that names rows of its own.
type clause struct {
	start, end int
	rows       []int
}

var breaks = regexp.MustCompile(`[,;:.()–—]\s+|\s+(?:and|but|while|whereas|und|aber|während|wohingegen|sowie|et|mais|tandis que|alors que|y|pero|mientras(?: que)?|e|ma|mentre|og|men|mens|en|maar|terwijl)\s+`)

// pieces cuts a statement where one clause may end, but inside no label and no number.
func pieces(statement string, named []mention, numbers []arith.Number) (all []clause) {
	start := 0
	for _, at := range append(breaks.FindAllStringIndex(statement, -1), []int{len(statement), len(statement)}) {
		if slices.ContainsFunc(named, func(m mention) bool { return m.start < at[1] && at[0] < m.end }) ||
			slices.ContainsFunc(numbers, func(n arith.Number) bool { return n.Start < at[1] && at[0] < n.End }) {
			continue
		}
		c := clause{start: start, end: at[0]}
		for _, m := range named {
			if c.start <= m.start && m.end <= c.end {
				c.rows = append(c.rows, m.rows...)
			}
		}
		all, start = append(all, c), at[1]
	}
	return all
}

// clauses are those of a statement that says of one row after the other what it has: each names rows and has numbers of the table, or neither. None
// when it is written in another way; then every number may stand in any row that the statement names.
func (t table) clauses(statement string, named []mention, numbers []arith.Number) []clause {
	all := pieces(statement, named, numbers)
	for _, c := range all {
		valued := slices.ContainsFunc(numbers, func(n arith.Number) bool {
			inLabel := slices.ContainsFunc(named, func(m mention) bool { return m.start <= n.Start && n.End <= m.end })
			return c.start <= n.Start && n.End <= c.end && !inLabel && len(t.rowsWith(statement, n)) > 0
		})
		if valued != (len(c.rows) > 0) {
			return nil
		}
	}
	return all
}

// besides reports a number that a clause without a row of its own gathers from all rows or from the others, beside one that stands in a named row:
// "limits go up to 2,600, in Oslo it is 1,900", "while others get 2,600".
func (t table) besides(statement string, named []mention, numbers []arith.Number, n arith.Number) bool {
	rows := rowsOf(named)
	if !slices.ContainsFunc(numbers, func(k arith.Number) bool { return overlap(t.rowsWith(statement, k), rows) }) {
		return false
	}
	for _, c := range pieces(statement, named, numbers) {
		if c.start <= n.Start && n.End <= c.end {
			text := statement[c.start:c.end]
			return len(c.rows) == 0 && (gathers.MatchString(text) || upTo.MatchString(text) || reaches.MatchString(text) || others.MatchString(text) ||
				contrasts.MatchString(text) || contrasted.MatchString(statement[:c.start]))
		}
	}
	return false
}

// contrast is a word that opens a clause about something else.
const contrast = `whereas|while|wohingegen|während|alors que|tandis que|mientras que|mentre|mens|terwijl`

var (
	others     = regexp.MustCompile(`(?i)\b(?:others?|elsewhere|rest|remaining|andere[rsnm]?|übrige[rsnm]?|autres?|ailleurs|otr[oa]s?|altr[ieoa]|andre|overige)\b`)
	contrasts  = regexp.MustCompile(`(?i)^(?:` + contrast + `)\s`)
	contrasted = regexp.MustCompile(`(?i)\b(?:` + contrast + `)\s+$`) // the clause before ends where the word begins that opens this one
)

var reaches = regexp.MustCompile(`(?i)\b(?:up to|at (?:most|least)|maximum|minimum|bis zu|höchstens|mindestens|jusqu.à|hasta|fino a|opptil)\b`)
