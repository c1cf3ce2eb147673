package ingest

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
)

// readDocx reads a Word document paragraph by paragraph: headings by style or
// outline level, lists with the numbers Word would show, tables, text boxes,
// equations, notes and comments after the paragraph they belong to, headers
// and footers once, at the end. Of tracked changes, insertions are text and
// deletions are not.
func readDocx(ctx context.Context, s *source, b *builder) error {
	z, err := s.openZip()
	if err != nil {
		return err
	}
	main, err := z.mainPart(ctx, "word/document.xml")
	if err != nil {
		return err
	}
	body, err := z.need(ctx, main)
	if err != nil {
		return err
	}
	w := &docxWalk{b: b, notes: make(map[string]*node)}
	rels, err := z.relations(ctx, main)
	if err != nil {
		return err
	}
	margins, err := w.loadParts(ctx, z, rels)
	if err != nil {
		return err
	}
	b.title = z.coreTitle(ctx)
	descend := func(name string) bool {
		switch name {
		case "w:document", "w:body", "w:sdt", "w:sdtContent", "w:customXml", "w:smartTag", "w:ins", "w:moveTo":
			return true
		}
		return false
	}
	if err := xmlElements(ctx, s, body, descend, func(n *node) error {
		w.block(n)
		return b.err
	}); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for _, root := range margins {
		text := w.cell(root)
		if !seen[text] {
			b.add(Paragraph, 0, text)
		}
		seen[text] = true
	}
	return nil
}

// docxWalk holds what a document's paragraphs refer to.
type docxWalk struct {
	b       *builder
	styles  map[string]docxStyle
	numbers docxNumbers
	notes   map[string]*node // "footnote 3", "endnote 1", "comment 0"
	after   []*node          // text boxes and notes met in the open paragraph
}

type docxStyle struct {
	level   int // of a heading; 0
	title   bool
	basedOn string
	numID   string
	ilvl    int
}

// loadParts reads styles, numbering, notes and comments; it returns the roots
// of headers and footers in a stable order.
func (w *docxWalk) loadParts(ctx context.Context, z *zipFile, rels map[string]relation) (margins []*node, err error) {
	var targets []relation
	for _, r := range rels {
		targets = append(targets, r)
	}
	slices.SortFunc(targets, func(a, b relation) int {
		return cmp.Or(-strings.Compare(a.kind, b.kind), strings.Compare(a.target, b.target))
	})
	for _, r := range targets {
		switch r.kind {
		case "styles", "numbering", "footnotes", "endnotes", "comments", "header", "footer":
		default:
			continue
		}
		root, err := z.tree(ctx, r.target)
		if err != nil {
			return nil, err
		}
		if root == nil {
			continue
		}
		switch r.kind {
		case "styles":
			w.styles = docxStyles(root)
		case "numbering":
			w.numbers = newDocxNumbers(root)
		case "header", "footer":
			margins = append(margins, root)
		default:
			kind := strings.TrimSuffix(r.kind, "s")
			root.each("w:"+kind, func(n *node) {
				if t := n.attr("w:type"); t == "" || t == "normal" { // not the separator line
					w.notes[kind+" "+n.attr("w:id")] = n
				}
			})
		}
	}
	return margins, nil
}

func docxStyles(root *node) map[string]docxStyle {
	styles := make(map[string]docxStyle)
	root.each("w:style", func(n *node) {
		var st docxStyle
		name := strings.ToLower(attrOf(n.child("w:name"), "w:val"))
		if level, ok := strings.CutPrefix(name, "heading "); ok {
			st.level, _ = strconv.Atoi(level)
		}
		st.title = name == "title"
		if v := attrOf(n.child("w:pPr", "w:outlineLvl"), "w:val"); v != "" && st.level == 0 {
			if level, err := strconv.Atoi(v); err == nil && level < 9 {
				st.level = level + 1
			}
		}
		st.basedOn = attrOf(n.child("w:basedOn"), "w:val")
		st.numID = attrOf(n.child("w:pPr", "w:numPr", "w:numId"), "w:val")
		st.ilvl, _ = strconv.Atoi(attrOf(n.child("w:pPr", "w:numPr", "w:ilvl"), "w:val"))
		styles[n.attr("w:styleId")] = st
	})
	for id, st := range styles { // inherit, at most as deep as there are styles
		for base, n := st.basedOn, 0; base != "" && n < 20; n++ {
			parent := styles[base]
			if st.level == 0 {
				st.level = parent.level
			}
			if st.numID == "" {
				st.numID, st.ilvl = parent.numID, parent.ilvl
			}
			base = parent.basedOn
		}
		st.level = min(max(st.level, 0), 9)
		styles[id] = st
	}
	return styles
}

func attrOf(n *node, name string) string {
	if n == nil {
		return ""
	}
	return n.attr(name)
}

// block writes a paragraph or table, and then what hung on it.
func (w *docxWalk) block(n *node) {
	switch n.name {
	case "w:p":
		w.paragraph(n)
	case "w:tbl":
		w.table(n)
	case "w:sectPr", "w:del", "w:moveFrom":
	case "mc:AlternateContent":
		w.blocks(alternative(n))
	default:
		w.blocks(n)
	}
}

func (w *docxWalk) blocks(n *node) {
	if n == nil {
		return
	}
	for _, k := range n.kids {
		if k.name != "" {
			w.block(k)
		}
	}
}

// alternative picks one of the renderings that a file offers for the same
// thing; reading both would duplicate every text box.
func alternative(n *node) *node {
	if choice := n.child("mc:Choice"); choice != nil {
		return choice
	}
	return n.child("mc:Fallback")
}

func (w *docxWalk) paragraph(p *node) {
	var out strings.Builder
	w.inline(p, &out)
	after := w.after
	w.after = nil
	text := out.String()
	style := w.styles[attrOf(p.child("w:pPr", "w:pStyle"), "w:val")]
	level := style.level
	if v := attrOf(p.child("w:pPr", "w:outlineLvl"), "w:val"); v != "" {
		if n, err := strconv.Atoi(v); err == nil && n < 9 {
			level = n + 1
		}
	}
	numID, ilvl := style.numID, style.ilvl
	if num := p.child("w:pPr", "w:numPr"); num != nil {
		numID = cmp.Or(attrOf(num.child("w:numId"), "w:val"), numID)
		if v := attrOf(num.child("w:ilvl"), "w:val"); v != "" {
			ilvl, _ = strconv.Atoi(v)
		}
	}
	blank := strings.TrimSpace(text) == ""
	marker := ""
	if !blank {
		marker = w.numbers.next(numID, ilvl)
	}
	switch {
	case blank:
	case style.title:
		if w.b.title == "" {
			w.b.title = text
		}
		w.b.add(Heading, 1, lineWhite.Replace(text))
	case level > 0:
		if marker != "" && marker != "-" {
			text = marker + " " + text
		}
		w.b.add(Heading, level, lineWhite.Replace(text))
	case marker != "":
		w.b.listItem(min(ilvl, 8)+1, marker, text)
	default:
		w.b.add(Paragraph, 0, text)
	}
	w.hung(after)
}

// hung writes the text boxes and notes collected from a paragraph or table.
func (w *docxWalk) hung(after []*node) {
	for _, n := range after {
		switch n.name {
		case "w:txbxContent":
			w.blocks(n)
		case "w:comment":
			w.b.add(Footnote, 0, "Comment by "+cmp.Or(n.attr("w:author"), "unknown")+": "+w.cell(n))
		default:
			w.b.add(Footnote, 0, w.cell(n))
		}
	}
}

// inline writes the text of a paragraph's content.
func (w *docxWalk) inline(n *node, out *strings.Builder) {
	for _, k := range n.kids {
		switch k.name {
		case "", "w:pPr", "w:rPr", "w:del", "w:moveFrom", "w:delText", "w:instrText", "w:rt", "w:softHyphen", "w:fldData":
		case "w:t", "m:t":
			out.WriteString(lineWhite.Replace(k.allText()))
		case "w:tab", "w:ptab":
			out.WriteByte('\t')
		case "w:br", "w:cr":
			out.WriteByte('\n')
		case "w:noBreakHyphen":
			out.WriteByte('-')
		case "w:r":
			if v := k.child("w:rPr", "w:vanish"); v == nil || v.attr("w:val") == "0" || v.attr("w:val") == "false" {
				w.inline(k, out)
			}
		case "w:footnoteReference", "w:endnoteReference", "w:commentReference":
			kind := strings.TrimSuffix(strings.TrimPrefix(k.name, "w:"), "Reference")
			if note := w.notes[kind+" "+k.attr("w:id")]; note != nil {
				w.after = append(w.after, note)
			}
		case "w:txbxContent":
			w.after = append(w.after, k)
		case "mc:AlternateContent":
			if alt := alternative(k); alt != nil {
				w.inline(alt, out)
			}
		case "w:p": // within a cell, a note, a header
			w.inline(k, out)
			out.WriteByte('\n')
		case "m:f":
			out.WriteString(w.operand(k.child("m:num")) + "/" + w.operand(k.child("m:den")))
		case "m:sSup":
			out.WriteString(w.operand(k.child("m:e")) + "^" + w.operand(k.child("m:sup")))
		case "m:sSub":
			out.WriteString(w.operand(k.child("m:e")) + "_" + w.operand(k.child("m:sub")))
		case "m:rad":
			out.WriteString("√" + w.operand(k.child("m:e")))
		case "m:nary":
			out.WriteString(cmp.Or(attrOf(k.child("m:naryPr", "m:chr"), "m:val"), "∫"))
			for _, limit := range [...]struct{ mark, name string }{{"_", "m:sub"}, {"^", "m:sup"}} {
				if text := w.operand(k.child(limit.name)); text != "" {
					out.WriteString(limit.mark + text)
				}
			}
			out.WriteString(" " + w.cell(k.child("m:e")))
		case "m:d":
			out.WriteString(cmp.Or(attrOf(k.child("m:dPr", "m:begChr"), "m:val"), "("))
			w.inline(k, out)
			out.WriteString(cmp.Or(attrOf(k.child("m:dPr", "m:endChr"), "m:val"), ")"))
		default:
			w.inline(k, out)
		}
	}
}

// operand is a part of a formula, in brackets when it is more than one symbol.
func (w *docxWalk) operand(n *node) string {
	if n == nil {
		return ""
	}
	var out strings.Builder
	w.inline(n, &out)
	if text := out.String(); len([]rune(text)) <= 1 {
		return text
	}
	return "(" + out.String() + ")"
}

// cell is the text of everything in n, paragraphs as lines.
func (w *docxWalk) cell(n *node) string {
	if n == nil {
		return ""
	}
	var out strings.Builder
	w.inline(n, &out)
	return cleanLines(out.String())
}

// cellLayout is the size above which a table's cell holds a page's text rather than a datum.
const cellLayout = 2000

func (w *docxWalk) table(t *node) {
	var rows [][]string
	header, layout := 0, false
	above := make(map[int]string) // by column, for cells merged downwards
	rowsOf(t, func(tr *node) {
		var row []string
		cellsOf(tr, func(tc *node) {
			text := w.cell(tc)
			layout = layout || len(text) > cellLayout
			if m := tc.child("w:tcPr", "w:vMerge"); m != nil && m.attr("w:val") != "restart" && text == "" {
				text = above[len(row)]
			}
			above[len(row)] = text
			row = append(row, text)
			if n, err := strconv.Atoi(attrOf(tc.child("w:tcPr", "w:gridSpan"), "w:val")); err == nil && n > 1 && n <= 100 {
				row = append(row, make([]string, n-1)...)
			}
		})
		if tr.child("w:trPr", "w:tblHeader") != nil && header == len(rows) {
			header++
		}
		rows = append(rows, row)
	})
	after := w.after
	w.after = nil
	if layout {
		rowsOf(t, func(tr *node) { cellsOf(tr, w.blocks) })
		return
	}
	if header == 0 && len(rows) > 1 { // Word's "header row" box is seldom ticked; the look nearly always means it
		header = 1
	}
	w.b.table(rows, header)
	w.hung(after)
}

// rowsOf and cellsOf look through the wrappers of content controls and
// insertions, but not into nested tables.
func rowsOf(n *node, fn func(*node)) { wrapped(n, "w:tr", fn) }

func cellsOf(n *node, fn func(*node)) { wrapped(n, "w:tc", fn) }

func wrapped(n *node, name string, fn func(*node)) {
	for _, k := range n.kids {
		switch k.name {
		case name:
			if k.child("w:trPr", "w:del") == nil {
				fn(k)
			}
		case "w:sdt", "w:sdtContent", "w:ins", "w:customXml", "w:smartTag":
			wrapped(k, name, fn)
		}
	}
}
