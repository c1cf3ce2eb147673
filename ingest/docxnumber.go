package ingest

import (
	"strconv"
	"strings"
)

// docxNumbers counts list items and headings the way Word shows them: the
// numbers are not in the text, but "see 4.2" is.
type docxNumbers struct {
	levels   map[string][9]docxLevel // by numId
	list     map[string]string       // numId -> abstractNumId: lists of one abstract share counters
	counters map[string]*[9]int      // by abstractNumId
}

type docxLevel struct {
	format string // "decimal", "bullet", "lowerLetter", ...
	text   string // "%1.%2"
	start  int
}

func newDocxNumbers(root *node) docxNumbers {
	n := docxNumbers{levels: make(map[string][9]docxLevel), list: make(map[string]string), counters: make(map[string]*[9]int)}
	abstract := make(map[string][9]docxLevel)
	root.each("w:abstractNum", func(a *node) {
		var levels [9]docxLevel
		a.each("w:lvl", func(l *node) {
			if i, err := strconv.Atoi(l.attr("w:ilvl")); err == nil && i >= 0 && i < 9 {
				start, err := strconv.Atoi(attrOf(l.child("w:start"), "w:val"))
				if err != nil {
					start = 1
				}
				levels[i] = docxLevel{attrOf(l.child("w:numFmt"), "w:val"), attrOf(l.child("w:lvlText"), "w:val"), start}
			}
		})
		abstract[a.attr("w:abstractNumId")] = levels
	})
	root.each("w:num", func(num *node) {
		id := attrOf(num.child("w:abstractNumId"), "w:val")
		n.list[num.attr("w:numId")] = id
		n.levels[num.attr("w:numId")] = abstract[id]
	})
	return n
}

// next is the marker of the next paragraph of list numID at level ilvl: "-" for
// a bullet, "" when the paragraph is in no list.
func (n docxNumbers) next(numID string, ilvl int) string {
	levels, ok := n.levels[numID]
	if !ok || ilvl < 0 || ilvl > 8 {
		return ""
	}
	counters := n.counters[n.list[numID]]
	if counters == nil {
		counters = new([9]int)
		n.counters[n.list[numID]] = counters
	}
	counters[ilvl]++
	for i := ilvl + 1; i < 9; i++ {
		counters[i] = 0
	}
	switch levels[ilvl].format {
	case "bullet":
		return "-"
	case "none", "":
		return ""
	}
	text := levels[ilvl].text
	for i := range 9 {
		place := "%" + strconv.Itoa(i+1)
		if strings.Contains(text, place) {
			value := max(counters[i], 1) + levels[i].start - 1
			text = strings.ReplaceAll(text, place, ordinal(value, levels[i].format))
		}
	}
	return text
}

// ordinal writes n in one of Word's number formats; the rarer ones as decimal.
func ordinal(n int, format string) string {
	switch format {
	case "lowerLetter":
		return letters(n)
	case "upperLetter":
		return strings.ToUpper(letters(n))
	case "lowerRoman":
		return strings.ToLower(roman(n))
	case "upperRoman":
		return roman(n)
	case "decimalZero":
		if n >= 0 && n < 10 {
			return "0" + strconv.Itoa(n)
		}
	}
	return strconv.Itoa(n)
}

// letters: a, b, ... z, aa, bb, ... as Word counts.
func letters(n int) string {
	if n < 1 || n > 26*20 {
		return strconv.Itoa(n)
	}
	return strings.Repeat(string(rune('a'+(n-1)%26)), (n-1)/26+1)
}

func roman(n int) string {
	if n < 1 || n > 3999 {
		return strconv.Itoa(n)
	}
	var out strings.Builder
	for _, d := range [...]struct {
		n int
		s string
	}{{1000, "M"}, {900, "CM"}, {500, "D"}, {400, "CD"}, {100, "C"}, {90, "XC"}, {50, "L"}, {40, "XL"}, {10, "X"}, {9, "IX"}, {5, "V"}, {4, "IV"}, {1, "I"}} {
		for n >= d.n {
			out.WriteString(d.s)
			n -= d.n
		}
	}
	return out.String()
}
