package verify

import (
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/clipperhouse/uax29/v2/words"

	"ragd/arith"
)

// Misplaced is a number of a statement that its source has in another row than the one that the statement is about.
type Misplaced struct {
	Fact
	Row string // the source's row that the statement is about, as it stands there
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

// span is what a label says of the numbers that it is about: "5 to 10 years".
type span struct {
	low, high         *big.Rat // nil: open
	unit              string
	aboveLow, belowHi bool // the bounds are not in it
}

var (
	upTo  = regexp.MustCompile(`(?i)^\W*(?:up to|until|at most|max(?:imum)?|(?:the )?first|bis(?: zu)?|höchstens|jusqu.à|hasta|fino a|opptil|inntil|tot)\b`)
	under = regexp.MustCompile(`(?i)^\W*(?:less than|under|below|fewer than|weniger als|unter|moins de|menos de|meno di|mindre enn|under|minder dan|<)`)
	over  = regexp.MustCompile(`(?i)^\W*(?:more than|over|above|mehr als|über|plus de|más de|oltre|più di|mer enn|over|meer dan|>)`)
	from  = regexp.MustCompile(`(?i)^\W*(?:from|at least|min(?:imum)?|ab|mindestens|à partir de|desde|fra|vanaf|≥)\s`)
	more  = regexp.MustCompile(`(?i)\+|\bor more\b|\band (?:more|above|over)\b|\bund mehr\b|\boder mehr\b|\bet plus\b|\by más\b|\bog mer\b`)
)

// spanOf reads a label as a span of numbers with a unit.
func spanOf(label string) (s span, ok bool) {
	label = brackets.ReplaceAllString(label, "")
	numbers := arith.Find(label)
	if len(numbers) == 0 || len(numbers) > 2 {
		return s, false
	}
	last := numbers[len(numbers)-1]
	if s.unit = unitAfter(label, last); s.unit == "" {
		return s, false
	}
	if len(numbers) == 2 {
		s.low, s.high = new(big.Rat).Abs(numbers[0].Value), new(big.Rat).Abs(last.Value)
		return s, s.low.Cmp(s.high) < 0
	}
	switch {
	case upTo.MatchString(label):
		s.high = last.Value
	case under.MatchString(label):
		s.high, s.belowHi = last.Value, true
	case over.MatchString(label):
		s.low, s.aboveLow = last.Value, true
	case from.MatchString(label), more.MatchString(label):
		s.low = last.Value
	default:
		return s, false
	}
	return s, true
}

func (s span) holds(x *big.Rat) bool {
	if s.low != nil && (x.Cmp(s.low) < 0 || s.aboveLow && x.Cmp(s.low) == 0) {
		return false
	}
	return s.high == nil || x.Cmp(s.high) < 0 || !s.belowHi && x.Cmp(s.high) == 0
}

// named are the rows that a text names; without says that it leaves one out, so that nobody can tell which are left.
func (t table) named(text string) (found []mention, without bool) {
	tokens := tokensOf(text)
	if found, without = mentions(text, tokens, labelsOf(t)); without {
		return nil, true
	}
	spans := 0
	for i, r := range t.rows {
		s, ok := spanOf(r.cells[0])
		if !ok {
			continue
		}
		spans++
		for _, n := range arith.Find(text) {
			inside := slices.ContainsFunc(found, func(m mention) bool {
				return m.start <= n.Start && n.End <= m.end && len(m.rows) > 0 && !slices.Contains(m.rows, i)
			})
			if !inside && unitAfter(text, n) == s.unit && s.holds(n.Value) {
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
	notMore  = regexp.MustCompile(`(?i)\b(?:no|not|nicht) (?:more|higher|greater|less|fewer|mehr|höher|weniger) (?:than|als)\b`)
	compares = regexp.MustCompile(`(?i)\b(?:than|as opposed to|instead of|compared|versus|vs|rather|whereas|als|statt|gegenüber|verglichen|que|plutôt|au lieu|en lugar|invece|enn|istedenfor|dan|difference|unterschied|más|menos)\b`)
	gathers  = regexp.MustCompile(`(?i)\b(?:total\w*|sum|overall|altogether|average|mean|median|highest|lowest|largest|smallest|range[sd]?|between|combined|depend\w*|var(?:y|ies)|insgesamt|` +
		`summe|gesamt\w*|durchschnitt\w*|zwischen|höchste\w*|niedrigste\w*|somme|moyenne|entre|plus (?:haut|bas)\w*|suma|promedio|tra|media|mellom|gjennomsnitt|tussen|gemiddeld\w*)\b`)
	joins = regexp.MustCompile(`(?i)^\D{0,8}?(?:[-–—]|\bto\b|\bbis\b|\bà\b|\ba\b|\btil\b|\btot\b)\s*[$€£]?\s*$`)
	asks  = regexp.MustCompile(`(?i)^\W*(?:is|are|was|were|does|do|did|can|could|may|must|will|would|should|has|have|ist|sind|war|darf|dürfen|kann|können|muss|gilt|stimmt|est-ce|er|är|kan)\b`)
)

// InOtherRows returns the numbers of statement that stand in the tables of evidence which lie at one of the places [start, end), in other rows than those
// that the statement is about: the rows that it names, or the question when it names none. Everything that makes this uncertain excuses a number: that prose
// in the places has it too, that the statement compares, sums up or names a span, that the question has it, or that it is one of computed.
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
		return slices.ContainsFunc(skip, func(s [2]int) bool { return s[0] <= n.Start && n.End <= s[1] }) ||
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
	asked := len(named) == 0 && !without // only the question says what it is about
	if asked {
		named, without = t.named(question)
	}
	if without || asked && gathers.MatchString(statement) || comparesBeside(statement, named, asked) {
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
			wrong = append(wrong, Misplaced{Fact{RowFact, n.Start, n.End, statement[n.Start:n.End]}, t.rows[about[0]].String()})
		}
	}
	if len(wrong) == 0 {
		if wrong = t.otherColumn(statement, question, numbers, all); len(wrong) > 0 {
			right = nil
		}
	}
	return wrong, right
}

// comparesBeside reports a statement that compares, other than in the labels that it names: "more than 10 years" is one.
func comparesBeside(statement string, named []mention, asked bool) bool {
	if !asked {
		for i := len(named) - 1; i >= 0; i-- {
			m := named[i]
			start := m.start
			if at := beyond.FindStringIndex(statement[:start]); at != nil {
				start = at[0]
			}
			statement = statement[:start] + strings.Repeat(" ", m.end-start) + statement[m.end:]
		}
	}
	return compares.MatchString(notMore.ReplaceAllString(statement, ""))
}

// beyond is what stands before the number of a label that begins there.
var beyond = regexp.MustCompile(`(?i)\b(?:more|less|fewer|longer|mehr|weniger|länger|plus|más|più|mer|meer) (?:than|als|de|que|di|enn|dan) $`)

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

var breaks = regexp.MustCompile(`[,;:.()–—]\s+|\s+(?:and|but|while|und|aber|während|sowie|et|mais|tandis que|y|pero|mientras|e|ma|mentre|og|men|en|maar)\s+`)

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

// besides reports a number that a clause without a row of its own gathers from all rows, beside one that stands in a named row: "limits go up to 2,600,
// in Oslo it is 1,900".
func (t table) besides(statement string, named []mention, numbers []arith.Number, n arith.Number) bool {
	rows := rowsOf(named)
	if !slices.ContainsFunc(numbers, func(k arith.Number) bool { return overlap(t.rowsWith(statement, k), rows) }) {
		return false
	}
	for _, c := range pieces(statement, named, numbers) {
		if c.start <= n.Start && n.End <= c.end {
			text := statement[c.start:c.end]
			return len(c.rows) == 0 && (gathers.MatchString(text) || upTo.MatchString(text) || reaches.MatchString(text))
		}
	}
	return false
}

var reaches = regexp.MustCompile(`(?i)\b(?:up to|at (?:most|least)|maximum|minimum|bis zu|höchstens|mindestens|jusqu.à|hasta|fino a|opptil)\b`)

// otherColumn returns the numbers that stand in other columns than the one that the statement names by its header, or the question when it names none.
// A statement that has a number of that column, too, is taken to speak of both.
func (t table) otherColumn(statement, question string, numbers []arith.Number, rows []int) (wrong []Misplaced) {
	if len(t.header) < 3 {
		return nil
	}
	labels := make([][]string, len(t.header))
	for j, h := range t.header[1:] {
		if h != "" {
			labels[j+1] = []string{h, brackets.ReplaceAllString(h, "")}
		}
	}
	named, without := mentions(statement, tokensOf(statement), labels)
	if len(named) == 0 && !without {
		named, without = mentions(question, tokensOf(question), labels)
	}
	columns := rowsOf(named)
	if without || len(columns) != 1 {
		return nil
	}
	for _, n := range numbers {
		unit := unitAfter(statement, n)
		there, elsewhere, place := false, false, -1
		for i, r := range t.rows {
			if len(rows) > 0 && !slices.Contains(rows, i) {
				continue
			}
			for _, v := range r.valuesOf() {
				fits := same(n, unit, v.Number, v.unit)
				switch {
				case v.column == columns[0]:
					there = there || fits || slices.ContainsFunc(numbers, func(k arith.Number) bool { return k.Value.Cmp(v.Value) == 0 })
					if unit == "" || v.unit == "" || unit == v.unit {
						place = i
					}
				case fits:
					elsewhere = true
				}
			}
		}
		if elsewhere && !there && place >= 0 {
			wrong = append(wrong, Misplaced{Fact{RowFact, n.Start, n.End, statement[n.Start:n.End]}, t.rows[place].String()})
		}
	}
	return wrong
}
