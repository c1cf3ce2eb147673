package ingest

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"
)

// readXlsx reads a workbook, one page per sheet, hidden sheets included. Cells
// show their cached values; numbers as stored, dates as ISO 8601, percentages
// with their sign. Formulas, macros and pivot caches are not text.
func readXlsx(ctx context.Context, s *source, b *builder) error {
	z, err := s.openZip()
	if err != nil {
		return err
	}
	main, err := z.mainPart(ctx, "xl/workbook.xml")
	if err != nil {
		return err
	}
	data, err := z.need(ctx, main)
	if err != nil {
		return err
	}
	root, err := xmlRoot(ctx, s, data)
	if err != nil {
		return err
	}
	rels, err := z.relations(ctx, main)
	if err != nil {
		return err
	}
	x := &xlsxWalk{z: z, b: b}
	root.each("x:workbookPr", func(n *node) { x.date1904 = n.attr("date1904") == "1" || n.attr("date1904") == "true" })
	for _, r := range rels {
		switch r.kind {
		case "sharedStrings":
			err = x.loadStrings(ctx, r.target)
		case "styles":
			err = x.loadStyles(ctx, r.target)
		}
		if err != nil {
			return err
		}
	}
	b.title = z.coreTitle(ctx)
	page := 0
	root.each("x:sheet", func(n *node) {
		if err != nil || b.err != nil {
			return
		}
		page++
		b.page(page)
		if part := rels[n.attr("r:id")]; part.kind == "worksheet" || part.kind == "chartsheet" {
			err = x.sheet(ctx, n.attr("name"), part.target)
		}
	})
	return err
}

type xlsxWalk struct {
	z        *zipFile
	b        *builder
	strings  []string
	styles   []numberStyle // by cell style
	date1904 bool
}

type numberStyle uint8

const (
	plainNumber numberStyle = iota
	percentNumber
	dateNumber
	timeNumber
	dateTimeNumber
)

func (x *xlsxWalk) loadStrings(ctx context.Context, part string) error {
	data, err := x.z.part(ctx, part)
	if err != nil {
		return err
	}
	return xmlElements(ctx, x.z.s, data, func(name string) bool { return name == "x:sst" }, func(n *node) error {
		if n.name == "x:si" {
			x.strings = append(x.strings, richText(n))
		}
		return nil
	})
}

// richText joins the runs of a string, without its phonetic guide.
func richText(n *node) string {
	var out strings.Builder
	var walk func(*node)
	walk = func(n *node) {
		for _, k := range n.kids {
			switch k.name {
			case "x:t":
				out.WriteString(k.allText())
			case "x:rPh":
			default:
				walk(k)
			}
		}
	}
	walk(n)
	return out.String()
}

func (x *xlsxWalk) loadStyles(ctx context.Context, part string) error {
	root, err := x.z.tree(ctx, part)
	if err != nil {
		return err
	}
	custom := make(map[string]string)
	root.each("x:numFmt", func(n *node) { custom[n.attr("numFmtId")] = n.attr("formatCode") })
	root.each("x:cellXfs", func(xfs *node) {
		xfs.each("x:xf", func(n *node) {
			id := n.attr("numFmtId")
			if code, ok := custom[id]; ok {
				x.styles = append(x.styles, formatStyle(code))
				return
			}
			x.styles = append(x.styles, builtinStyle(id))
		})
	})
	return nil
}

// builtinStyle follows ISO 29500-1, 18.8.30.
func builtinStyle(id string) numberStyle {
	n, _ := strconv.Atoi(id)
	switch {
	case n == 9 || n == 10:
		return percentNumber
	case n == 22:
		return dateTimeNumber
	case n >= 18 && n <= 21, n >= 45 && n <= 47, n >= 32 && n <= 35:
		return timeNumber
	case n >= 14 && n <= 17, n >= 27 && n <= 31, n == 36, n >= 50 && n <= 58:
		return dateNumber
	}
	return plainNumber
}

// formatStyle classifies a format code by the letters outside quotes, escapes and colour brackets.
func formatStyle(code string) numberStyle {
	code, _, _ = strings.Cut(code, ";")
	var date, clock, percent, quoted, bracket bool
	for i := 0; i < len(code); i++ {
		switch c := code[i]; {
		case c == '\\' || c == '_' || c == '*':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[':
			bracket = !strings.ContainsAny(code[i+1:min(i+2, len(code))], "hHmMsS") // [h]:mm is a duration
		case c == ']':
			bracket = false
		case bracket:
		case strings.IndexByte("yYdD", c) >= 0:
			date = true
		case strings.IndexByte("hHsS", c) >= 0:
			clock = true
		case c == '%':
			percent = true
		}
	}
	switch {
	case date && clock:
		return dateTimeNumber
	case date:
		return dateNumber
	case clock:
		return timeNumber
	case percent:
		return percentNumber
	}
	return plainNumber
}

func (x *xlsxWalk) sheet(ctx context.Context, name, part string) error {
	data, err := x.z.need(ctx, part)
	if err != nil {
		return err
	}
	var rows []sheetRow
	size := 0 // of the sheet so far: text is only counted once it reaches the builder
	descend := func(name string) bool { return name == "x:worksheet" || name == "x:sheetData" }
	err = xmlElements(ctx, x.z.s, data, descend, func(n *node) error {
		if n.name != "x:row" {
			return nil
		}
		row := x.row(n, rows)
		for _, c := range row.cells {
			size += len(c.text)
		}
		if int64(size) > x.b.limit {
			return failf(TooLarge, "%s: sheet %s holds more than %s of text; split it", x.z.s.name, name, sizeString(x.b.limit))
		}
		if len(row.cells) > 0 {
			rows = append(rows, row)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(rows) > 0 {
		x.b.add(Heading, 1, name)
	}
	x.b.addSheet(name, rows)
	return x.attached(ctx, part)
}

// row reads the cells that hold something. Rows and cells may omit their
// references; they then follow the one before.
func (x *xlsxWalk) row(n *node, before []sheetRow) sheetRow {
	row := sheetRow{}
	if i, err := strconv.Atoi(n.attr("r")); err == nil {
		row.index = i - 1
	} else if len(before) > 0 {
		row.index = before[len(before)-1].index + 1
	}
	col := -1
	for _, c := range n.kids {
		if c.name != "x:c" {
			continue
		}
		col++
		if ref := columnOf(c.attr("r")); ref >= col {
			col = ref
		}
		if text := strings.TrimSpace(x.cell(c)); text != "" {
			row.cells = append(row.cells, sheetCell{col, text})
		}
	}
	return row
}

// columnOf is the 0-based column of a reference such as "AB12"; -1 if there is none.
func columnOf(ref string) int {
	col := 0
	for i := 0; i < len(ref) && i < 3 && ref[i] >= 'A' && ref[i] <= 'Z'; i++ {
		col = col*26 + int(ref[i]-'A') + 1
	}
	return col - 1
}

func (x *xlsxWalk) cell(c *node) string {
	value := c.child("x:v").allText()
	switch c.attr("t") {
	case "s":
		if i, err := strconv.Atoi(value); err == nil && i >= 0 && i < len(x.strings) {
			return x.strings[i]
		}
		return ""
	case "inlineStr":
		return richText(c)
	case "b":
		if value == "1" {
			return "TRUE"
		}
		return "FALSE"
	case "str", "e", "d":
		return value
	}
	f, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return value
	}
	style := plainNumber
	if i, err := strconv.Atoi(c.attr("s")); err == nil && i >= 0 && i < len(x.styles) {
		style = x.styles[i]
	}
	return x.number(f, style)
}

// number formats a value; 15 significant digits are what a workbook promises.
func (x *xlsxWalk) number(f float64, style numberStyle) string {
	digits := func(f float64) string {
		s := strconv.FormatFloat(f, 'g', 15, 64)
		if g, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(g) < 1e15 {
			s = strconv.FormatFloat(g, 'f', -1, 64)
		}
		return s
	}
	switch {
	case style == plainNumber || style >= dateNumber && (f < 0 || f > 2958466): // year 10000
		return digits(f)
	case style == percentNumber:
		return digits(f*100) + "%"
	}
	epoch := time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)
	if x.date1904 {
		epoch = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
	} else if f < 60 { // 1900 is a leap year there
		epoch = epoch.AddDate(0, 0, 1)
	}
	day, part := math.Modf(f)
	t := epoch.AddDate(0, 0, int(day)).Add(time.Duration(math.Round(part*86400)) * time.Second)
	switch style {
	case timeNumber:
		if day > 0 { // a duration of more than a day
			return strconv.Itoa(int(day)*24+t.Hour()) + t.Format(":04:05")
		}
		return t.Format(time.TimeOnly)
	case dateNumber:
		return t.Format(time.DateOnly)
	}
	return t.Format(time.DateTime)
}

// attached writes a sheet's cell comments and the text of its drawings.
func (x *xlsxWalk) attached(ctx context.Context, part string) error {
	rels, err := x.z.relations(ctx, part)
	if err != nil {
		return err
	}
	for _, r := range rels {
		if r.kind != "comments" && r.kind != "drawing" {
			continue
		}
		root, err := x.z.tree(ctx, r.target)
		if err != nil {
			return err
		}
		switch {
		case root == nil:
		case r.kind == "drawing":
			slideParagraphs(root, x.b)
		case r.kind == "comments":
			root.each("x:comment", func(n *node) { x.b.add(Footnote, 0, "Comment on "+n.attr("ref")+": "+richText(n)) })
		}
	}
	return nil
}
