package ingest

import (
	"slices"
	"strconv"
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
func (b *builder) addSheet(rows []sheetRow) {
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].index == rows[n-1].index+1 {
			n++
		}
		b.addRegion(rows[:n])
		rows = rows[n:]
	}
}

func (b *builder) addRegion(rows []sheetRow) {
	for len(rows) > 1 && len(rows[0].cells) == 1 && len(rows[1].cells) > 1 {
		b.add(Paragraph, 0, rows[0].cells[0].text)
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
	b.table(table, header)
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
