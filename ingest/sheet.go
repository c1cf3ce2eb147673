package ingest

import (
	"slices"
	"strconv"
	"strings"
)

// sheetRow is a row of a spreadsheet: only cells that hold something.
type sheetRow struct {
	index int // 0-based, to see gaps
	cells []sheetCell
}

type sheetCell struct {
	col  int
	text string
}

// addSheet writes a sheet's rows. An empty row ends a table; a row with a
// single cell before wider ones is a table's caption; columns that a table
// doesn't use are left out, however far apart the used ones are.
func (b *builder) addSheet(name string, rows []sheetRow) {
	rows = slices.DeleteFunc(rows, sheetRow.blank)
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].index == rows[n-1].index+1 {
			n++
		}
		b.addRegion(name, rows[:n])
		rows = rows[n:]
	}
}

// blank: its cells show nothing.
func (r sheetRow) blank() bool {
	for _, c := range r.cells {
		if cleanLines(c.text) != "" {
			return false
		}
	}
	return true
}

func (b *builder) addRegion(name string, rows []sheetRow) {
	for len(rows) > 1 && len(rows[0].cells) == 1 && len(rows[1].cells) > 1 {
		b.addCell(name, rows[0])
		rows = rows[1:]
	}
	var cols []int
	for _, r := range rows {
		for _, c := range r.cells {
			if i, found := slices.BinarySearch(cols, c.col); !found {
				cols = slices.Insert(cols, i, c.col)
			}
		}
	}
	if len(cols) == 1 { // not a table
		for _, r := range rows {
			b.addCell(name, r)
		}
		return
	}
	table := make([][]string, len(rows))
	for i, r := range rows {
		last, _ := slices.BinarySearch(cols, r.cells[len(r.cells)-1].col)
		table[i] = make([]string, last+1)
		for _, c := range r.cells {
			j, _ := slices.BinarySearch(cols, c.col)
			table[i][j] = c.text
		}
	}
	header := 0
	if len(rows) > 1 && allWords(rows[0]) {
		header = 1
	}
	before := len(b.blocks)
	b.table(table, header)
	if len(b.blocks) == before+1 && b.blocks[before].Kind == Table {
		b.blocks[before].Cells = &Cells{name, rows[0].index + 1, cols}
	}
}

// addCell writes a row's only cell as a paragraph.
func (b *builder) addCell(name string, r sheetRow) {
	before := len(b.blocks)
	b.add(Paragraph, 0, strings.ReplaceAll(cleanLines(r.cells[0].text), "\n", " "))
	if len(b.blocks) > before {
		b.blocks[before].Cells = &Cells{name, r.index + 1, []int{r.cells[0].col}}
	}
}

// allWords: a header row names its columns; numbers are data.
func allWords(r sheetRow) bool {
	for _, c := range r.cells {
		if _, err := strconv.ParseFloat(c.text, 64); err == nil {
			return false
		}
	}
	return true
}
