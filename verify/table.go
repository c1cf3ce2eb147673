package verify

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"ragd/arith"
)

// table is what a text states row by row: a table of cells, lines that end in figures as a PDF shows them, or a list of keys and values.
type table struct {
	start, end int // bytes of the text
	header     []string
	rows       []row
}

// row is what one label stands for. The first cell is the label; a cell that went over several lines is joined.
type row struct {
	cells []string
	also  string // a line of which nobody can say whether it ends this row's label or begins the next one's
}

// line is one line of a text, without its line break.
type line struct {
	start, end int
	text       string
}

func linesOf(text string) []line {
	var all []line
	for at := 0; at <= len(text); {
		end := len(text)
		if nl := strings.IndexByte(text[at:], '\n'); nl >= 0 {
			end = at + nl
		}
		all = append(all, line{at, end, strings.TrimRight(text[at:end], "\r")})
		at = end + 1
	}
	return all
}

var (
	rule    = regexp.MustCompile(`^[|\s:+=-]*-[|\s:+=-]*$`) // under the header of a Markdown table
	gaps    = regexp.MustCompile(` {3,}| {2,}\d|\.{4,}|(?: \.){3,}`)
	wide    = regexp.MustCompile(` {2,}|\s*(?:\.{4,}|(?: \.){3,})\s*`)
	keyed   = regexp.MustCompile(`^\s*(?:[-*•·▪●◦–]\s+)?(?:\*\*)?([^:=|\t\n]{1,60}?)(?:\*\*)?(?::(?:\*\*)?\s+| [=–—] )(\S.*)$`)
	closing = regexp.MustCompile(`[.!?;]\s*$`)
	money   = regexp.MustCompile(`(?:\s+[A-Z]{3}|\s*[$€£¥])$`)
	// figures are the numbers in which a line ends, each with at most three words that say what it counts.
	figures = regexp.MustCompile(`(?:^|\s)(?:[A-Z]{3}\s|[$€£¥]\s?)?[-−+]?\d[\d.,'’\x{00a0}\x{202f}]*(?:\s?%|\s?[€$£¥])?(?:\s(?:per|pro|par|por|/)?\s?\pL{1,10}\.?){0,3}$`)
)

// Tables longer than this are read to here; a passage never holds more.
const (
	maxLine = 400
	maxRows = 500
)

// tablesOf finds the tables of a text. What is no table for certain is prose.
func tablesOf(text string) []table {
	var found []table
	lines := linesOf(text)
	for i := 0; i < len(lines); {
		best, used := table{}, 0
		for _, read := range []func([]line) (table, int){readCells, readKeys, readFigures} {
			if t, n := read(lines[i:]); n > used && len(t.rows) > 1 {
				best, used = t, n
			}
		}
		if used == 0 {
			i++
			continue
		}
		best = best.yearsOnTop()
		best.start, best.end = lines[i].start, lines[i+used-1].end
		found = append(found, best)
		i += used
	}
	return found
}

// cellsOf cuts a line at bars, tabs or wide gaps; false when it has none.
func cellsOf(text string) ([]string, bool) {
	var cells []string
	switch {
	case len(text) > maxLine*10:
		return nil, false
	case strings.Contains(text, "|"):
		cells = strings.Split(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(text), "|"), "|"), "|")
	case strings.Contains(strings.TrimSpace(text), "\t"):
		cells = strings.Split(text, "\t")
	case gaps.MatchString(strings.TrimSpace(text)):
		cells = wide.Split(strings.TrimSpace(text), -1)
	default:
		return nil, false
	}
	for i := range cells {
		cells[i] = strings.Trim(strings.ReplaceAll(cells[i], "<br>", " "), " \t*_`")
	}
	return cells, len(cells) > 1
}

// readCells reads a table whose cells are kept apart, and how many lines it takes.
func readCells(lines []line) (t table, n int) {
	ruled := false
	for n < len(lines) && len(t.rows) < maxRows {
		text := lines[n].text
		cells, ok := cellsOf(text)
		switch {
		case rule.MatchString(text) && strings.Contains(text, "|"):
			if len(t.rows) == 1 && t.header == nil {
				t.header, t.rows, ruled = t.rows[0].cells, nil, true
			}
		case ok && cells[0] == "" && len(t.rows) > 0: // the row goes on, or its label spans several
			last := &t.rows[len(t.rows)-1]
			for j, c := range cells {
				for len(last.cells) <= j {
					last.cells = append(last.cells, "")
				}
				last.cells[j] = strings.TrimSpace(last.cells[j] + " " + c)
			}
		case ok:
			t.rows = append(t.rows, row{cells: cells})
		case n > 0 && n+1 < len(lines) && short(text): // a line of a cell with several
			if _, more := cellsOf(lines[n+1].text); !more || len(t.rows) == 0 {
				return t.headed(ruled), n
			}
			t.rows[len(t.rows)-1].also = text
		default:
			return t.headed(ruled), n
		}
		n++
	}
	return t.headed(ruled), n
}

func short(text string) bool {
	return strings.TrimSpace(text) != "" && len(text) <= 60 && !closing.MatchString(text) && !strings.HasPrefix(strings.TrimSpace(text), "#")
}

// headed takes the first row for the header when it alone holds no number.
func (t table) headed(ruled bool) table {
	if ruled || len(t.rows) < 2 || holdsDigit(t.rows[0].cells[1:]) || !holdsDigit(t.rows[1].cells[1:]) {
		if !ruled && len(t.rows) > 2 && t.rows[0].cells[0] == "" { // a corner that is left empty
			t.header, t.rows = t.rows[0].cells, t.rows[1:]
		}
		return t
	}
	t.header, t.rows = t.rows[0].cells, t.rows[1:]
	return t
}

func holdsDigit(cells []string) bool {
	return strings.ContainsAny(strings.Join(cells, " "), "0123456789")
}

// readKeys reads a list of lines "key: value".
func readKeys(lines []line) (t table, n int) {
	valued := 0
	for n < len(lines) && len(t.rows) < maxRows {
		m := keyed.FindStringSubmatch(lines[n].text[:min(len(lines[n].text), maxLine)])
		if m == nil {
			break
		}
		t.rows = append(t.rows, row{cells: []string{m[1], m[2]}})
		if holdsDigit(m[2:]) {
			valued++
		}
		n++
	}
	if valued < 2 {
		return table{}, 0
	}
	return t, n
}

// readFigures reads lines that end in figures, as a PDF's table looks when the gaps between its cells are gone. Every row has as many figures as the
// one with the fewest, because a label may end in one too: "5 to 10 years".
func readFigures(lines []line) (t table, n int) {
	first := 0
	if len(lines) > 1 && short(lines[0].text) && figuresOf(lines[0].text) == nil && figuresOf(lines[1].text) != nil {
		t.header, first = []string{strings.TrimSpace(lines[0].text)}, 1
	}
	n = first
	fewest, length := 0, 0
	for n < len(lines) && len(t.rows) < maxRows {
		text := lines[n].text
		cuts := figuresOf(text)
		if len(cuts) == 0 {
			if n == first || n+1 >= len(lines) || !short(text) || figuresOf(lines[n+1].text) == nil {
				break
			}
			t.rows[len(t.rows)-1].also = text
			n++
			continue
		}
		t.rows = append(t.rows, row{cells: []string{text}})
		if length = max(length, len(text)); fewest == 0 || len(cuts) < fewest {
			fewest = len(cuts)
		}
		n++
	}
	if len(t.rows) < 2 || len(t.rows) == 2 && length > 60 {
		return table{}, 0
	}
	cut := cutFigures(t.rows, fewest)
	for ; fewest > 1; fewest-- {
		labels, longer := map[string]bool{}, cutFigures(t.rows, fewest-1)
		for _, r := range cut {
			labels[r.cells[0]] = true
		}
		if len(labels) == len(cut) && spansOf(longer) <= spansOf(cut) {
			break // else the first figure belongs to the label: "Level 1", "5 to 10 years"
		}
		cut = longer
	}
	t.rows = cut
	if len(t.header) > 0 {
		if cells := splitHeader(t.header[0], fewest); cells != nil {
			t.header = cells
		}
	}
	return t, n
}

// cutFigures cuts n figures off the end of each line.
func cutFigures(lines []row, n int) []row {
	all := slices.Clone(lines)
	for i := range all {
		text := lines[i].cells[0]
		cuts := figuresOf(text)
		cells := []string{money.ReplaceAllString(strings.TrimSpace(text[:cuts[n-1]]), "")}
		for k := n - 1; k >= 0; k-- {
			end := len(text)
			if k > 0 {
				end = cuts[k-1]
			}
			cells = append(cells, strings.TrimSpace(text[cuts[k]:end]))
		}
		all[i].cells = cells
	}
	return all
}

// spansOf counts the rows whose labels are spans of numbers.
func spansOf(rows []row) (n int) {
	for _, r := range rows {
		if _, ok := spanOf(r.cells[0]); ok {
			n++
		}
	}
	return n
}

// figuresOf returns where the figures begin in which a line ends, the last first; nil when it is no such line.
func figuresOf(text string) []int {
	text = strings.TrimRight(text, " \t")
	if len(text) > 120 || closing.MatchString(text) || strings.Contains(text, "|") || strings.Contains(text, "\t") {
		return nil
	}
	var cuts []int
	for end := len(text); ; {
		at := figures.FindStringIndex(text[:end])
		if at == nil || at[0] == 0 {
			break
		}
		label := text[:at[0]]
		if !strings.ContainsFunc(label, isLetter) {
			break
		}
		cuts = append(cuts, at[0])
		end = at[0]
	}
	return cuts
}

func isLetter(r rune) bool { return r|0x20 >= 'a' && r|0x20 <= 'z' || r >= utf8.RuneSelf }

// valuesOf are the numbers of a row that are not its label's, each with its column.
func (r row) valuesOf() (values []value) {
	for j := 1; j < len(r.cells); j++ {
		for _, n := range arith.Find(r.cells[j]) {
			values = append(values, value{n, j, unitAfter(r.cells[j], n)})
		}
	}
	return values
}

// value is a number in a table's cell.
type value struct {
	arith.Number
	column int
	unit   string
}

// units are words that tell one number from another of the same value, by their first letters.
var units = []struct{ prefix, unit string }{
	{"year", "year"}, {"jahr", "year"}, {"année", "year"}, {"ans", "year"}, {"año", "year"}, {"anno", "year"}, {"anni", "year"}, {"år", "year"}, {"jaar", "year"}, {"jaren", "year"},
	{"month", "month"}, {"monat", "month"}, {"mois", "month"}, {"mes", "month"}, {"måned", "month"}, {"månad", "month"}, {"maand", "month"},
	{"week", "week"}, {"woche", "week"}, {"semaine", "week"}, {"semana", "week"}, {"settiman", "week"}, {"uke", "week"},
	{"day", "day"}, {"tag", "day"}, {"jour", "day"}, {"día", "day"}, {"giorn", "day"}, {"dag", "day"},
	{"hour", "hour"}, {"stunde", "hour"}, {"heure", "hour"}, {"hora", "hour"}, {"ore", "hour"}, {"time", "hour"}, {"uur", "hour"},
	{"minut", "minute"}, {"night", "night"}, {"nacht", "night"}, {"nuit", "night"}, {"noche", "night"}, {"percent", "percent"}, {"prozent", "percent"},
}

// unitAfter is what a number counts as far as one of the next three words says it; "" when none does.
func unitAfter(text string, n arith.Number) string {
	if n.Percent {
		return "percent"
	}
	rest, _, _ := strings.Cut(text[n.End:], "\n")
	for i, word := range strings.FieldsFunc(strings.ToLower(rest), func(r rune) bool { return r == ' ' || r == '-' || r == '\u00a0' }) {
		if i > 2 || strings.ContainsAny(word, "0123456789") {
			return ""
		}
		bare := strings.TrimRight(word, ".,;:!?)")
		for _, u := range units {
			if strings.HasPrefix(bare, u.prefix) && len(bare) <= len(u.prefix)+2 {
				return u.unit
			}
		}
		if strings.ContainsAny(word, ".,;:|(") || word == "per" || word == "pro" || word == "par" || word == "a" {
			return ""
		}
	}
	return ""
}

// same reports two numbers that may be one: of equal value, and not in different units.
func same(a arith.Number, unitA string, b arith.Number, unitB string) bool {
	return a.Value.Cmp(b.Value) == 0 && (unitA == "" || unitB == "" || unitA == unitB)
}
