package ingest

import (
	"cmp"
	"context"
	"strconv"
	"strings"
)

// readODF reads OpenDocument text, spreadsheets and presentations. Sheets and
// slides are pages. Tracked deletions are left out; notes follow their
// paragraph; repeated empty rows and cells are not multiplied.
func readODF(ctx context.Context, s *source, b *builder) error {
	z, err := s.openZip()
	if err != nil {
		return err
	}
	manifest, err := z.tree(ctx, "META-INF/manifest.xml")
	if err != nil {
		return err
	}
	encrypted := false
	manifest.each("manifest:encryption-data", func(*node) { encrypted = true })
	if encrypted {
		return failf(Encrypted, "%s is encrypted; remove the password in the program that made it and ingest it again", s.name)
	}
	if meta, err := z.tree(ctx, "meta.xml"); err == nil {
		meta.each("dc:title", func(n *node) { b.title = n.allText() })
	}
	content, err := z.need(ctx, "content.xml")
	if err != nil {
		return err
	}
	w := &odfWalk{b: b}
	descend := func(name string) bool {
		w.sheets = w.sheets || name == "office:spreadsheet"
		switch name {
		case "office:document-content", "office:body", "office:text", "office:spreadsheet", "office:presentation", "text:section":
			return true
		}
		return false
	}
	return xmlElements(ctx, s, content, descend, func(n *node) error {
		w.block(n, 0)
		return b.err
	})
}

type odfWalk struct {
	b      *builder
	sheets bool // tables are pages
	page   int
	after  []*node // notes and text boxes of the open paragraph
}

func (w *odfWalk) blocks(n *node, list int) {
	for _, k := range n.kids {
		w.block(k, list)
	}
}

// block writes one element of the body; list is the depth of lists around it.
func (w *odfWalk) block(n *node, list int) {
	switch n.name {
	case "", "text:tracked-changes", "office:automatic-styles", "office:font-face-decls", "office:scripts", "office:forms",
		"table:calculation-settings", "text:sequence-decls", "text:variable-decls", "text:user-field-decls",
		"presentation:settings", "table:named-expressions", "table:database-ranges", "office:annotation-end":
	case "text:h":
		level, _ := strconv.Atoi(n.attr("text:outline-level"))
		text, after := w.paragraph(n)
		w.b.add(Heading, min(max(level, 1), 9), lineWhite.Replace(text))
		w.hung(after)
	case "text:p":
		text, after := w.paragraph(n)
		if list > 0 {
			w.b.listItem(list, "-", text)
		} else {
			w.b.add(Paragraph, 0, text)
		}
		w.hung(after)
	case "text:list":
		w.blocks(n, list+1)
	case "table:table":
		if w.sheets {
			w.sheet(n)
		} else {
			w.table(n)
		}
	case "draw:page":
		w.page++
		w.b.page(w.page)
		w.slide(n)
	default:
		w.blocks(n, list)
	}
}

// paragraph is an element's text and the notes in it.
func (w *odfWalk) paragraph(n *node) (string, []*node) {
	var out strings.Builder
	w.inline(n, &out)
	after := w.after
	w.after = nil
	return out.String(), after
}

func (w *odfWalk) hung(after []*node) {
	for _, n := range after {
		switch n.name {
		case "text:note":
			w.b.add(Footnote, 0, w.cell(n.child("text:note-body")))
		case "office:annotation":
			var text []string
			n.each("text:p", func(p *node) { text = append(text, w.cell(p)) })
			w.b.add(Footnote, 0, "Comment: "+strings.Join(text, "\n"))
		default:
			w.blocks(n, 0)
		}
	}
}

func (w *odfWalk) inline(n *node, out *strings.Builder) {
	for _, k := range n.kids {
		switch k.name {
		case "":
			out.WriteString(lineWhite.Replace(k.text))
		case "text:s":
			out.WriteByte(' ')
		case "text:tab":
			out.WriteByte('\t')
		case "text:line-break":
			out.WriteByte('\n')
		case "text:note", "office:annotation", "draw:text-box":
			w.after = append(w.after, k)
		case "text:ruby-text", "text:change", "text:change-start", "text:change-end", "office:annotation-end", "text:bookmark-start":
		case "text:p", "text:h":
			w.inline(k, out)
			out.WriteByte('\n')
		default:
			w.inline(k, out)
		}
	}
}

// cell is the text of everything in n, paragraphs as lines.
func (w *odfWalk) cell(n *node) string {
	if n == nil {
		return ""
	}
	var out strings.Builder
	w.inline(n, &out)
	return cleanLines(out.String())
}

func (w *odfWalk) slide(page *node) {
	for _, k := range page.kids {
		switch {
		case k.name == "presentation:notes":
			k.each("draw:text-box", func(n *node) { w.blocks(n, 0) })
		case k.attr("presentation:class") == "title":
			var title []string
			k.each("text:p", func(n *node) { title = append(title, w.cell(n)) })
			w.b.add(Heading, 1, lineWhite.Replace(strings.Join(title, " ")))
		default:
			w.blocks(k, 0)
		}
	}
}

// repeatLimit bounds how often a filled row or cell is repeated: formats are
// applied to a million rows with one attribute.
const repeatLimit = 100

// tableColumns is more than any page shows; the rest is a repeat count gone wild.
const tableColumns = 1024

// table writes a text document's table.
func (w *odfWalk) table(t *node) {
	var rows [][]string
	header := 0
	var walk func(n *node, inHeader bool)
	walk = func(n *node, inHeader bool) {
		for _, k := range n.kids {
			switch k.name {
			case "table:table-row":
				var row []string
				for _, c := range w.sheetCells(k) {
					if c.col >= tableColumns {
						break
					}
					row = append(row, make([]string, c.col-len(row))...)
					row = append(row, c.text)
				}
				if inHeader && header == len(rows) {
					header++
				}
				rows = append(rows, row)
			case "table:table-header-rows":
				walk(k, true)
			case "table:table-rows", "table:table-row-group":
				walk(k, inHeader)
			}
		}
	}
	walk(t, false)
	after := w.after
	w.after = nil
	if header == 0 && len(rows) > 1 {
		header = 1
	}
	w.b.table(rows, header)
	w.hung(after)
}

// sheet writes a spreadsheet's table as a page.
func (w *odfWalk) sheet(t *node) {
	w.page++
	w.b.page(w.page)
	var rows []sheetRow
	index := 0
	var walk func(n *node)
	walk = func(n *node) {
		for _, k := range n.kids {
			switch k.name {
			case "table:table-row":
				repeat := repeated(k, "table:number-rows-repeated")
				cells := w.sheetCells(k)
				if len(cells) > 0 {
					for i := range min(repeat, repeatLimit) {
						rows = append(rows, sheetRow{index + i, cells})
					}
				}
				index += repeat
			case "table:table-header-rows", "table:table-rows", "table:table-row-group":
				walk(k)
			}
		}
	}
	walk(t)
	after := w.after
	w.after = nil
	if len(rows) > 0 {
		w.b.add(Heading, 1, t.attr("table:name"))
	}
	w.b.addSheet(t.attr("table:name"), rows)
	w.hung(after)
}

func repeated(n *node, attr string) int {
	if v, err := strconv.Atoi(n.attr(attr)); err == nil && v > 1 {
		return min(v, 1<<24)
	}
	return 1
}

// cellValue is what a spreadsheet's cell holds, for those that don't say how it is shown.
func cellValue(c *node) string {
	if c.attr("office:value-type") == "percentage" {
		if v, err := strconv.ParseFloat(c.attr("office:value"), 64); err == nil {
			return strconv.FormatFloat(100*v, 'g', 15, 64) + "%"
		}
	}
	return cmp.Or(c.attr("office:string-value"), c.attr("office:date-value"), c.attr("office:time-value"), c.attr("office:boolean-value"), c.attr("office:value"))
}

// sheetCells are a row's cells that hold something.
func (w *odfWalk) sheetCells(row *node) []sheetCell {
	var cells []sheetCell
	col := 0
	for _, c := range row.kids {
		if c.name != "table:table-cell" && c.name != "table:covered-table-cell" {
			continue
		}
		repeat := repeated(c, "table:number-columns-repeated")
		if text := cmp.Or(w.cell(c), cellValue(c)); text != "" {
			for i := range min(repeat, repeatLimit) {
				cells = append(cells, sheetCell{col + i, text})
			}
		}
		col += repeat
	}
	return cells
}
