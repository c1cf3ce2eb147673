package ingest

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/klippa-app/go-pdfium/references"
)

// Some programs draw a page of prose in columns row by row: the first line of
// each column, then the second of each. PDFium keeps that order, in which
// sentences are torn. Such rows are told from those of a table by their text.

// pdfPiece is the part of a line that stands in one row and one column.
type pdfPiece struct {
	line           int // its index
	from, to       int // bytes of the line's text
	words          []pdfWord
	foreign        bool // a whole line that does not run to the right: it is left alone
	hyphen         bool // PDFium took its last hyphen away and joined it to what was drawn next
	x0, y0, x1, y1 float64
}

func (k *pdfPiece) middle() float64 { return (k.y0 + k.y1) / 2 }
func (k *pdfPiece) height() float64 { return k.y1 - k.y0 }

func newPiece(line, from, to int, words []pdfWord) pdfPiece {
	k := pdfPiece{line: line, from: from, to: to, words: words, x0: math.Inf(1), x1: math.Inf(-1), y0: float64(words[0].y0), y1: float64(words[0].y1)}
	for _, w := range words {
		k.x0, k.x1 = min(k.x0, float64(w.x0)), max(k.x1, float64(w.x1))
	}
	return k
}

// rowPieces cuts lines where they go on in another row or back to the left.
func rowPieces(lines []pdfLine) (pieces []pdfPiece) {
	for i, l := range lines {
		if len(l.words) == 0 || l.size == 0 || l.vertical || slices.ContainsFunc(l.words, func(w pdfWord) bool { return w.runs != RunsRight }) {
			pieces = append(pieces, pdfPiece{line: i, foreign: true})
			continue
		}
		starts := wordStarts(l)
		first := 0
		for j := 1; j <= len(l.words); j++ {
			if j < len(l.words) {
				a, b := l.words[j-1], l.words[j]
				if abs(float64(b.y1-a.y1)) < 0.6*l.size && b.x0 >= a.x0 {
					continue
				}
			}
			k := newPiece(i, starts[first], starts[j], l.words[first:j])
			k.hyphen = strings.HasSuffix(l.text[k.from:k.to], pdfHyphen) || strings.HasSuffix(l.text[k.from:k.to], "\x02")
			pieces = append(pieces, k)
			first = j
		}
	}
	return pieces
}

// wordStarts is where each word of a line begins in its text, and where that ends.
func wordStarts(l pdfLine) []int {
	starts := make([]int, 0, len(l.words)+1)
	at := 0
	for _, w := range l.words {
		if i := strings.Index(l.text[at:], w.text); i >= 0 {
			at += i
		}
		starts = append(starts, at)
		at += len(w.text)
		at = min(at, len(l.text))
	}
	starts[0] = 0
	return append(starts, len(l.text))
}

// gutter is a stretch of a page's width that no word touches.
type gutter struct{ left, right float64 }

// free are the gaps of a piece, and what lies beside it.
func (k *pdfPiece) free(narrowest float64) []gutter {
	var gaps []gutter
	reach := math.Inf(-1)
	for _, w := range k.words {
		if float64(w.x0)-reach >= narrowest {
			gaps = append(gaps, gutter{reach, float64(w.x0)})
		}
		reach = max(reach, float64(w.x1))
	}
	return append(gaps, gutter{reach, math.Inf(1)})
}

func intersect(a, b []gutter, narrowest float64) (both []gutter) {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if g := (gutter{max(a[i].left, b[j].left), min(a[i].right, b[j].right)}); g.right-g.left >= narrowest {
			both = append(both, g)
		}
		if a[i].right < b[j].right {
			i++
		} else {
			j++
		}
	}
	return both
}

// wovenRows finds how many of the pieces, from the first, go down the page on
// both sides of the same gutters.
func wovenRows(lines []pdfLine, pieces []pdfPiece) (n int, gutters []gutter) {
	if pieces[0].foreign {
		return 1, nil
	}
	size, bold := lines[pieces[0].line].size, lines[pieces[0].line].bold
	narrowest := 0.8 * size
	common := []gutter{{math.Inf(-1), math.Inf(1)}}
	left, right := math.Inf(1), math.Inf(-1)
	for i := range pieces {
		k := &pieces[i]
		if k.foreign {
			break
		}
		firstRow := abs(k.middle()-pieces[0].middle()) < 0.75*k.height()
		if i > 0 {
			step := k.middle() - pieces[i-1].middle()
			if step < -0.6*k.height() || step > 2.5*max(k.height(), pieces[i-1].height()) {
				break
			}
			if l := lines[k.line]; step > 0.6*k.height() && (l.size > 1.1*size || l.bold && !bold) && alone(pieces, i) { // a heading over all columns
				break
			}
		}
		next := intersect(common, k.free(narrowest), narrowest)
		l, r := min(left, k.x0), max(right, k.x1)
		inner := slices.DeleteFunc(slices.Clone(next), func(g gutter) bool { return g.left < l || g.right > r })
		if len(inner) == 0 && !firstRow {
			break
		}
		common, left, right, gutters, n = next, l, r, inner, i+1
	}
	return n, wideColumns(gutters, left, right, 5*size)
}

// alone: nothing else stands in the piece's row.
func alone(pieces []pdfPiece, i int) bool {
	for _, j := range [...]int{i - 1, i + 1} {
		if j < len(pieces) && abs(pieces[j].middle()-pieces[i].middle()) < 0.6*pieces[i].height() {
			return false
		}
	}
	return true
}

// wideColumns keeps the gutters between columns that are wide enough for prose:
// what follows a bullet or a number is none.
func wideColumns(gutters []gutter, left, right, width float64) (kept []gutter) {
	for _, g := range gutters {
		if g.left-left >= width && right-g.right >= width {
			kept = append(kept, g)
			left = g.right
		}
	}
	return kept
}

// intoColumns cuts pieces at the gutters and collects those of each column.
func intoColumns(lines []pdfLine, pieces []pdfPiece, gutters []gutter) [][]pdfPiece {
	columns := make([][]pdfPiece, len(gutters)+1)
	column := func(w pdfWord) int {
		i := 0
		for i < len(gutters) && float64(w.x0) > gutters[i].left {
			i++
		}
		return i
	}
	for _, k := range pieces {
		starts := wordStarts(lines[k.line])
		base := slices.IndexFunc(starts, func(at int) bool { return at >= k.from })
		first := 0
		for j := 1; j <= len(k.words); j++ {
			c := column(k.words[first])
			if j < len(k.words) && column(k.words[j]) == c {
				continue
			}
			part := newPiece(k.line, starts[base+first], k.to, k.words[first:j])
			if j < len(k.words) {
				part.to = starts[base+j]
			} else {
				part.hyphen = k.hyphen
			}
			columns[c] = append(columns[c], part)
			first = j
		}
	}
	return columns
}

// text is what the piece says, with its hyphen.
func (k *pdfPiece) text(lines []pdfLine) string {
	s := strings.TrimSpace(strings.ReplaceAll(lines[k.line].text[k.from:k.to], "\t", " "))
	if k.hyphen {
		s = strings.TrimRight(s, pdfHyphen+"\x02") + "-"
	}
	return s
}

// isProse: the columns have about the same width, most of their lines fill
// them and go on in the next line, hardly any is short without an end, and few
// words are numbers.
func isProse(lines []pdfLine, columns [][]pdfPiece) bool {
	narrowest, widest := math.Inf(1), 0.0
	flowing, broken, sentences, all, words, numbers := 0, 0, 0, 0, 0, 0
	for _, column := range columns {
		if len(column) < 3 {
			return false
		}
		left, right := math.Inf(1), math.Inf(-1)
		for _, k := range column {
			left, right = min(left, k.x0), max(right, k.x1)
			for _, w := range k.words {
				words++
				if strings.ContainsFunc(w.text, unicode.IsDigit) {
					numbers++
				} else if sentenceEnd.MatchString(w.text) {
					sentences++
				}
			}
		}
		narrowest, widest = min(narrowest, right-left), max(widest, right-left)
		flows := 0
		for i := 1; i < len(column); i++ {
			reach := (column[i-1].x1 - left) / (right - left)
			switch goesOn := flowsOn(column[i-1].text(lines), column[i].text(lines)); {
			case goesOn && reach >= 0.75:
				flows++
			case goesOn && reach < 0.65:
				broken++
			}
		}
		if 4*flows < len(column)-1 {
			return false
		}
		flowing, all = flowing+flows, all+len(column)-1
	}
	rows := all + len(columns)
	return sentences > 0 && 20*flowing >= 9*all && 8*broken <= all && narrowest >= 0.6*widest && numbers*5 <= words && words >= 3*rows
}

// flowsOn: line b goes on with a's sentence, as far as one can tell.
func flowsOn(a, b string) bool {
	if sentenceEnd.MatchString(a) {
		return false
	}
	r, _ := utf8.DecodeRuneInString(b)
	return unicode.IsLower(r) || unicode.Is(unicode.Lo, r) || strings.HasSuffix(a, "-") || strings.HasSuffix(a, ",")
}

// bands cuts columns that are the cells of a table of long texts, or a text
// beside its translation: all columns begin anew at the same heights, more often
// than elsewhere. One band else.
func bands(lines []pdfLine, columns [][]pdfPiece) [][][]pdfPiece {
	starts := make([][]int, len(columns)) // of paragraphs set off by a gap
	breaks := 0
	for c, column := range columns {
		var steps []float64
		for i := 1; i < len(column); i++ {
			steps = append(steps, column[i].middle()-column[i-1].middle())
		}
		slices.Sort(steps)
		for i := 1; i < len(column); i++ {
			if column[i].middle()-column[i-1].middle() > 1.25*steps[len(steps)/4] && !flowsOn(column[i-1].text(lines), column[i].text(lines)) {
				starts[c] = append(starts[c], i)
			}
		}
		breaks += len(starts[c])
	}
	cuts := [][]int{make([]int, len(columns))} // a line of each column
	for _, i := range starts[0] {
		cut := []int{i}
		for c := 1; c < len(columns); c++ {
			for _, j := range starts[c] {
				if abs(columns[c][j].middle()-columns[0][i].middle()) < 0.3*columns[0][i].height() {
					cut = append(cut, j)
				}
			}
		}
		if len(cut) == len(columns) {
			cuts = append(cuts, cut)
		}
	}
	if shared := (len(cuts) - 1) * len(columns); shared < 2*len(columns) || 10*shared < 7*breaks {
		return [][][]pdfPiece{columns}
	}
	var cells [][][]pdfPiece
	for n, cut := range cuts {
		band := make([][]pdfPiece, len(columns))
		for c, column := range columns {
			end := len(column)
			if n+1 < len(cuts) {
				end = cuts[n+1][c]
			}
			band[c] = column[cut[c]:end]
		}
		cells = append(cells, band)
	}
	return cells
}

// unweave reads columns of prose that were drawn row by row one after the other;
// units is where each line begins in the page's text, in UTF-16 units.
func (p *pdfReader) unweave(tp references.FPDF_TEXTPAGE, lines []pdfLine, units []int) []pdfLine {
	pieces := rowPieces(lines)
	type region struct {
		columns [][]pdfPiece
		end     int
	}
	found := make(map[int]region) // by first piece
	woven := make(map[int]bool)   // lines that a region has parts of
	for i := 0; i < len(pieces); {
		n, gutters := wovenRows(lines, pieces[i:])
		if len(gutters) > 0 {
			if columns := intoColumns(lines, pieces[i:i+n], gutters); isProse(lines, columns) {
				found[i] = region{columns, i + n}
				for _, k := range pieces[i : i+n] {
					woven[k.line] = true
				}
			}
		}
		i += max(n, 1)
	}
	if len(found) == 0 {
		return lines
	}
	var out []pdfLine
	last := -1
	for i := 0; i < len(pieces); i++ {
		k := pieces[i]
		if r, ok := found[i]; ok {
			for _, band := range bands(lines, r.columns) {
				for _, column := range band {
					out = append(out, p.columnLines(tp, lines, units, column)...)
				}
			}
			i = r.end - 1
		} else if woven[k.line] {
			out = append(out, p.columnLines(tp, lines, units, pieces[i:i+1])...)
		} else if k.line != last {
			out = append(out, lines[k.line])
		}
		last = k.line
	}
	return out
}

// columnLines makes lines of a column's pieces, those that a hyphen joins as one, as PDFium does.
func (p *pdfReader) columnLines(tp references.FPDF_TEXTPAGE, lines []pdfLine, units []int, column []pdfPiece) (out []pdfLine) {
	for i, k := range column {
		raw := strings.TrimRight(lines[k.line].text[k.from:k.to], " \t"+pdfHyphen+"\x02")
		from := units[k.line] + utf16Len(lines[k.line].text[:k.from])
		l := pdfLine{text: k.text(lines), words: slices.Clone(k.words)}
		p.measure(tp, &l, from, from+utf16Len(raw)-1)
		if i == 0 || !splitWord(column[i-1].text(lines), l.text) {
			out = append(out, l)
			continue
		}
		open := &out[len(out)-1]
		open.text = strings.TrimSuffix(open.text, "-") + pdfHyphen + l.text
		open.words[len(open.words)-1].text = strings.TrimSuffix(open.words[len(open.words)-1].text, "-")
		open.words = append(open.words, l.words...)
		open.left, open.right, open.last = min(open.left, l.left), max(open.right, l.right), l.last
	}
	return out
}

// splitWord: line b begins with the rest of a's last word.
func splitWord(a, b string) bool {
	before, _ := utf8.DecodeLastRuneInString(strings.TrimSuffix(a, "-"))
	return strings.HasSuffix(a, "-") && unicode.IsLetter(before) && startsLower(b)
}
