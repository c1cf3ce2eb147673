package verify

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"ragd/arith"
)

// opposites are words of which a text that says one does not mean the other: a table with a column for the employee answers a question for the employer
// in another one, whatever that is called.
var opposites = func() map[string]string {
	all := map[string]string{}
	for _, pair := range [][2]string{
		{"employee", "employer"}, {"buyer", "seller"}, {"tenant", "landlord"}, {"lender", "borrower"}, {"minimum", "maximum"}, {"adult", "child"}, {"arrival", "departure"}, {"indoor", "outdoor"},
		{"weekday", "weekend"}, {"arbeitnehmer", "arbeitgeber"}, {"käufer", "verkäufer"}, {"mieter", "vermieter"}, {"salarié", "employeur"}, {"acheteur", "vendeur"}, {"locataire", "bailleur"},
		{"empleado", "empleador"}, {"comprador", "vendedor"}, {"arbeidstaker", "arbeidsgiver"}, {"kjøper", "selger"}, {"werknemer", "werkgever"}, {"koper", "verkoper"},
	} {
		all[pair[0]], all[pair[1]] = pair[1], pair[0]
	}
	return all
}()

var year = regexp.MustCompile(`^(?:19|20)\d\d$`)

// yearsOnTop takes a first row of years for the header, which alone has no other numbers.
func (t table) yearsOnTop() table {
	years := func(r row) bool {
		return len(r.cells) > 1 && !slices.ContainsFunc(r.cells[1:], func(c string) bool { return !year.MatchString(c) })
	}
	if len(t.header) < 2 && len(t.rows) > 2 && years(t.rows[0]) && !slices.ContainsFunc(t.rows[1:], years) {
		t.header, t.rows = t.rows[0].cells, t.rows[1:]
	}
	return t
}

// splitHeader cuts the line over a table without gaps into the headers of n columns of values and of the labels before them; nil when it can be cut in more
// than one way.
func splitHeader(text string, n int) []string {
	words := strings.Fields(text)
	if len(words) == n+1 && len(tokensOf(text)) == n+1 {
		return words
	}
	var starts []int // words that begin with a capital, outside of brackets
	depth := 0
	for i, w := range words {
		if r := []rune(w)[0]; depth == 0 && (unicode.IsUpper(r) || i == 0) {
			starts = append(starts, i)
		}
		depth += strings.Count(w, "(") - strings.Count(w, ")")
	}
	if len(starts) != n+1 { // "Length of employment Notice by the employee Notice by Halden"
		counts := map[string]int{}
		for _, i := range starts {
			counts[words[i]]++
		}
		again := slices.DeleteFunc(slices.Clone(starts), func(i int) bool { return i == 0 || counts[words[i]] != n || n < 2 })
		if len(again) != n {
			return nil
		}
		starts = append([]int{0}, again...)
	}
	var cells []string
	for k, from := range starts {
		to := len(words)
		if k+1 < len(starts) {
			to = starts[k+1]
		}
		cells = append(cells, strings.Join(words[from:to], " "))
	}
	return cells
}

// bareWords are the words of text that carry meaning, not stemmed: "employment" and "employer" have one stem.
func bareWords(text string) []token {
	all := tokensOf(text)
	for i := range all {
		word := strings.ToLower(shortNames.Replace(text[all[i].start:all[i].end]))
		if len(word) > 3 {
			word = strings.TrimSuffix(word, "s")
		}
		all[i].text = word
	}
	return all
}

// telling are the words of each column's header that no other header and no label has.
func (t table) telling() []map[string]bool {
	holders := map[string]int{}
	count := func(text string) map[string]bool {
		words := map[string]bool{}
		for _, w := range bareWords(brackets.ReplaceAllString(text, "")) {
			words[w.text] = true
		}
		for w := range words {
			holders[w]++
		}
		return words
	}
	all := make([]map[string]bool, len(t.header))
	for j, h := range t.header {
		all[j] = count(h)
	}
	for _, r := range t.rows {
		count(r.cells[0] + " " + r.also)
	}
	for _, words := range all {
		for w := range words {
			if holders[w] > 1 {
				delete(words, w)
			}
		}
	}
	return all
}

// columnsIn finds where a text names columns: by all words that tell a header from the others, or by the opposite of one. The rows of a mention are columns
// here. None when it leaves a column out.
func (t table) columnsIn(text string) (found []mention) {
	telling, words := t.telling(), bareWords(text)
	has := func(word string) bool {
		return slices.ContainsFunc(words, func(w token) bool { return w.text == word })
	}
	for j := 1; j < len(t.header); j++ {
		whole := len(telling[j]) > 0
		for w := range telling[j] {
			whole = whole && has(w)
		}
		for _, w := range words {
			switch opposite := opposites[w.text]; {
			case whole && telling[j][w.text]:
				found = append(found, mention{w.start, w.end, []int{j}})
			case opposite != "" && telling[j][opposite] && !has(opposite):
				var others []int
				for k := 1; k < len(t.header); k++ {
					if k != j {
						others = append(others, k)
					}
				}
				found = append(found, mention{w.start, w.end, others})
			}
		}
	}
	slices.SortFunc(found, func(a, b mention) int { return a.start - b.start })
	if slices.ContainsFunc(found, func(m mention) bool { return but.MatchString(text[:m.start]) }) {
		return nil
	}
	return found
}

// agreed is what all mentions name; nil when they differ.
func agreed(all []mention) []int {
	for _, m := range all {
		if !slices.Equal(m.rows, all[0].rows) {
			return nil
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[0].rows
}

// otherColumn returns the numbers that stand in other columns than the one that the statement names by its header, or the question when it names none. Of a
// statement that names several each clause is looked at.
func (t table) otherColumn(statement, question string, numbers []arith.Number, rows []int) (wrong []Misplaced) {
	if len(t.header) < 3 {
		return nil
	}
	named := t.columnsIn(statement)
	if len(named) == 0 {
		named = t.columnsIn(question)
		return t.outside(agreed(named), statement, numbers, rows)
	}
	if columns := agreed(named); columns != nil {
		return t.outside(columns, statement, numbers, rows)
	}
	all := pieces(statement, named, nil)
	for i, c := range all {
		mine := slices.DeleteFunc(slices.Clone(named), func(m mention) bool { return m.start < c.start || c.end < m.end })
		columns := agreed(mine)
		valued := len(c.numbers(numbers)) > 0
		if valued != (columns != nil) {
			return nil
		}
		all[i].rows = columns
	}
	for _, c := range all {
		wrong = append(wrong, t.outside(c.rows, statement, c.numbers(numbers), rows)...)
	}
	return wrong
}

// numbers are those inside the clause.
func (c clause) numbers(all []arith.Number) []arith.Number {
	return slices.DeleteFunc(slices.Clone(all), func(n arith.Number) bool { return n.Start < c.start || c.end < n.End })
}

// outside returns the numbers that rows (all when there are none) have in other columns only, where they have one of the same kind in these. When one of
// the numbers stands in these columns the statement is taken to speak of both.
func (t table) outside(columns []int, statement string, numbers []arith.Number, rows []int) (wrong []Misplaced) {
	if len(columns) == 0 {
		return nil
	}
	var in, out []value
	place := map[int]row{} // of a value in out: its row
	for i, r := range t.rows {
		if len(rows) > 0 && !slices.Contains(rows, i) {
			continue
		}
		values := r.valuesOf()
		for _, v := range values {
			if slices.Contains(columns, v.column) {
				in = append(in, v)
			} else if slices.ContainsFunc(values, func(w value) bool { return slices.Contains(columns, w.column) && w.unit == v.unit }) {
				place[len(out)] = r
				out = append(out, v)
			}
		}
	}
	for _, n := range numbers {
		if slices.ContainsFunc(in, func(v value) bool { return same(n, unitAfter(statement, n), v.Number, v.unit) }) {
			return nil
		}
	}
	for _, n := range numbers {
		i := slices.IndexFunc(out, func(v value) bool { return same(n, unitAfter(statement, n), v.Number, v.unit) })
		if i >= 0 {
			f := Fact{ColumnFact, n.Start, n.End, statement[n.Start:n.End]}
			wrong = append(wrong, Misplaced{Fact: f, Place: t.header[columns[0]], Row: t.under(place[i])})
		}
	}
	return wrong
}

// under is a row on one line with the headers of its cells.
func (t table) under(r row) string {
	cells := []string{r.cells[0]}
	for j := 1; j < len(r.cells) && j < len(t.header); j++ {
		cells = append(cells, t.header[j]+": "+r.cells[j])
	}
	return strings.Join(cells, "; ")
}
