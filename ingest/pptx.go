package ingest

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
)

// readPptx reads a presentation, one page per slide: the title as a heading,
// text shapes, tables, diagrams and charts' labels, then speaker notes and comments.
func readPptx(ctx context.Context, s *source, b *builder) error {
	z, err := s.openZip()
	if err != nil {
		return err
	}
	main, err := z.mainPart(ctx, "ppt/presentation.xml")
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
	var slides []string
	root.each("p:sldId", func(n *node) {
		if target := rels[n.attr("r:id")].target; target != "" {
			slides = append(slides, target)
		}
	})
	b.title = z.coreTitle(ctx)
	for i, part := range slides {
		b.page(i + 1)
		if err := readSlide(ctx, z, part, b); err != nil {
			return err
		}
	}
	return nil
}

func readSlide(ctx context.Context, z *zipFile, part string, b *builder) error {
	data, err := z.need(ctx, part)
	if err != nil {
		return err
	}
	root, err := xmlRoot(ctx, z.s, data)
	if err != nil {
		return err
	}
	slideShapes(root, b, false)
	rels, err := z.relations(ctx, part)
	if err != nil {
		return err
	}
	var attached []relation
	for _, r := range rels {
		attached = append(attached, r)
	}
	slices.SortFunc(attached, func(a, b relation) int {
		return cmp.Or(strings.Compare(a.kind, b.kind), strings.Compare(a.target, b.target))
	})
	for _, r := range attached {
		switch r.kind {
		case "diagramData", "chart", "notesSlide", "comments":
		default:
			continue
		}
		root, err := z.tree(ctx, r.target)
		if err != nil {
			return err
		}
		switch {
		case root == nil:
		case r.kind == "notesSlide":
			slideShapes(root, b, true)
		case r.kind == "comments":
			for _, name := range []string{"p:text", "a:t"} { // legacy and threaded comments
				root.each(name, func(n *node) { b.add(Footnote, 0, "Comment: "+n.allText()) })
			}
		case r.kind == "chart":
			root.each("c:v", func(n *node) {
				if _, err := strconv.ParseFloat(n.allText(), 64); err != nil { // labels, not the plotted numbers
					b.add(ListItem, 1, n.allText())
				}
			})
			slideParagraphs(root, b)
		default:
			slideParagraphs(root, b)
		}
	}
	return nil
}

// slideShapes writes the shapes of a slide, or of its notes page.
func slideShapes(n *node, b *builder, notes bool) {
	for _, k := range n.kids {
		switch k.name {
		case "p:sp":
			kind := attrOf(k.child("p:nvSpPr", "p:nvPr", "p:ph"), "type")
			switch {
			case kind == "sldNum", kind == "dt", notes && kind != "body": // the page number, the date, the slide's picture
			case kind == "title", kind == "ctrTitle":
				text := lineWhite.Replace(strings.Join(paragraphTexts(k), " "))
				if b.title == "" {
					b.title = text
				}
				b.add(Heading, 1, text)
			default:
				slideParagraphs(k, b)
			}
		case "a:tbl":
			slideTable(k, b)
		case "mc:AlternateContent":
			if alt := alternative(k); alt != nil {
				slideShapes(alt, b, notes)
			}
		default:
			slideShapes(k, b, notes)
		}
	}
}

// slideParagraphs writes the paragraphs below n. Slides are lists by nature;
// a shape with one paragraph is that paragraph.
func slideParagraphs(n *node, b *builder) {
	var paras []*node
	n.each("a:p", func(p *node) {
		if strings.TrimSpace(slideText(p)) != "" {
			paras = append(paras, p)
		}
	})
	for _, p := range paras {
		if len(paras) == 1 {
			b.add(Paragraph, 0, slideText(p))
			continue
		}
		level, _ := strconv.Atoi(attrOf(p.child("a:pPr"), "lvl"))
		b.listItem(min(level, 8)+1, "-", slideText(p))
	}
}

func paragraphTexts(n *node) []string {
	var texts []string
	n.each("a:p", func(p *node) { texts = append(texts, slideText(p)) })
	return texts
}

func slideText(p *node) string {
	var out strings.Builder
	var walk func(*node)
	walk = func(n *node) {
		for _, k := range n.kids {
			switch k.name {
			case "a:t", "m:t":
				out.WriteString(lineWhite.Replace(k.allText()))
			case "a:br":
				out.WriteByte('\n')
			case "a:pPr", "a:rPr", "a:endParaRPr":
			case "mc:AlternateContent":
				if alt := alternative(k); alt != nil {
					walk(alt)
				}
			default:
				walk(k)
			}
		}
	}
	walk(p)
	return out.String()
}

func slideTable(t *node, b *builder) {
	var rows [][]string
	t.each("a:tr", func(tr *node) {
		var row []string
		tr.each("a:tc", func(tc *node) { row = append(row, strings.Join(paragraphTexts(tc), " ")) })
		rows = append(rows, row)
	})
	header := 0
	if attrOf(t.child("a:tblPr"), "firstRow") == "1" && len(rows) > 1 {
		header = 1
	}
	b.table(rows, header)
}
