package ingest

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Report writes what was found in the document, page by page: how much text,
// what blocks, which words have a place, where in the file each block lies.
func (d *Document) Report(w io.Writer) error {
	p := &printer{w: w}
	p.line("%s, %d bytes of text, language %s", d.Kind, len(d.Text), orNone(d.Language))
	p.line("title: %s", orNone(d.Title))
	p.line("warnings: %s", orNone(strings.Join(d.Warnings, ", ")))
	placed := make(map[int]PageGeometry, len(d.Geometry.Pages))
	for _, g := range d.Geometry.Pages {
		placed[g.Number] = g
	}
	blocks := d.Blocks
	for _, page := range d.Pages {
		n := 0
		for n < len(blocks) && blocks[n].Start < page.End {
			n++
		}
		head := "document"
		if page.Number > 0 {
			head = pageName(d.Kind, page.Number)
		}
		if page.OCR {
			head += ", read by OCR"
		}
		p.line("\n%s: bytes %d-%d, %d blocks%s", head, page.Start, page.End, n, placedWords(placed[page.Number]))
		for _, k := range blocks[:n] {
			p.line("  %-11s%8d-%-8d %-22s %s", blockName(k), k.Start, k.End, cutRunes(d.Origin(k.Start), 40), cutRunes(d.Text[k.Start:k.End], 70))
		}
		blocks = blocks[n:]
	}
	return p.err
}

// printer keeps the first error of a series of lines.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func placedWords(g PageGeometry) string {
	if len(g.Words) == 0 {
		return ""
	}
	return fmt.Sprintf(", %d words with a place on %.0f x %.0f points", len(g.Words), g.Width, g.Height)
}

func blockName(k Block) string {
	if k.Level > 0 {
		return fmt.Sprintf("%s %d", k.Kind, k.Level)
	}
	return k.Kind.String()
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// cutRunes is the beginning of s on one line.
func cutRunes(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
