package ingest

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// builder collects a Document while a reader walks its file.
type builder struct {
	text     strings.Builder
	whole    string // all the text, while it is one verbatim piece: not copied
	limit    int64  // bytes of text
	blocks   []Block
	pages    []Page
	geometry Geometry
	warnings []string
	title    string
	err      error // first limit that was hit; everything after it is dropped
}

// warn notes a warning code, once.
func (b *builder) warn(code string) {
	if !slices.Contains(b.warnings, code) {
		b.warnings = append(b.warnings, code)
	}
}

// page ends the current page and begins page n.
func (b *builder) page(n int) {
	b.endPage()
	b.separate("\n\n")
	b.pages = append(b.pages, Page{Number: n, Start: b.len(), End: -1})
}

func (b *builder) endPage() {
	if last := len(b.pages) - 1; last >= 0 && b.pages[last].End < 0 {
		b.pages[last].End = b.len()
	}
}

// separate writes sep unless nothing was written yet or the text already ends in it.
func (b *builder) separate(sep string) {
	if b.len() > 0 && !strings.HasSuffix(b.string(), sep) {
		b.write(sep)
	}
}

// len is the length of the text so far.
func (b *builder) len() int { return len(b.whole) + b.text.Len() }

// string is the text so far.
func (b *builder) string() string {
	if b.whole != "" {
		return b.whole
	}
	return b.text.String()
}

func (b *builder) write(s string) bool {
	if b.err == nil && int64(b.len()+len(s)) > b.limit {
		b.err = failf(TooLarge, "holds more than %s of text; split it into smaller files", sizeString(b.limit))
	}
	if b.err != nil {
		return false
	}
	if b.len() == 0 && len(s) > 1<<20 {
		b.whole = s
		return true
	}
	b.text.WriteString(b.whole)
	b.whole = ""
	b.text.WriteString(s)
	return true
}

// add appends one block. Blocks are set apart by an empty line, list items by a line end.
func (b *builder) add(kind BlockKind, level int, text string) {
	if kind != Code {
		text = cleanLines(text)
	} else {
		text = strings.TrimRight(cleanControls(text), " \t\n")
	}
	b.addClean(kind, level, text)
}

// addClean is add for text that keeps its indentation.
func (b *builder) addClean(kind BlockKind, level int, text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	sep := "\n\n"
	if n := len(b.blocks); kind == ListItem && n > 0 && b.blocks[n-1].Kind == ListItem && b.blocks[n-1].End == b.len() {
		sep = "\n"
	}
	b.separate(sep)
	start := b.len()
	if b.write(text) {
		b.blocks = append(b.blocks, Block{Kind: kind, Level: level, Start: start, End: b.len()})
	}
}

// listItem appends an item with its visible marker.
func (b *builder) listItem(level int, marker, text string) {
	text = cleanLines(text)
	if text != "" {
		b.addClean(ListItem, max(level, 1), strings.Repeat("  ", min(max(level-1, 0), 8))+marker+" "+text)
	}
}

// table appends rows, one a line, cells set apart by tabs: no character that
// the author did not write, and none that costs an embedding model tokens. The
// first header rows are the table's header.
func (b *builder) table(rows [][]string, header int) {
	width := 0
	for _, row := range rows {
		for i, cell := range row {
			row[i] = strings.ReplaceAll(cleanLines(cell), "\n", " ")
			if row[i] != "" {
				width = max(width, i+1)
			}
		}
	}
	if width == 0 {
		return
	}
	if width == 1 { // a box drawn with a table: plain paragraphs
		for _, row := range rows {
			b.add(Paragraph, 0, strings.Join(row, ""))
		}
		return
	}
	b.separate("\n\n")
	k := Block{Kind: Table, Start: b.len()}
	k.HeaderEnd = k.Start
	for i, row := range rows {
		line := strings.TrimRight(strings.Join(row, "\t"), "\t")
		if line == "" {
			continue
		}
		if b.len() > k.Start {
			b.write("\n")
		}
		if !b.write(line) {
			return
		}
		if i < header && i < len(rows)-1 {
			k.HeaderEnd = b.len()
		}
	}
	k.End = b.len()
	b.blocks = append(b.blocks, k)
}

// verbatim appends text as it stands, with blocks relative to its start.
func (b *builder) verbatim(text string, blocks []Block) {
	b.separate("\n\n")
	base := b.len()
	if !b.write(text) {
		return
	}
	for _, k := range blocks {
		k.Start += base
		k.End += base
		k.HeaderEnd += base
		b.blocks = append(b.blocks, k)
	}
}

// within puts the blocks from index first on inside a named part of the file.
func (b *builder) within(name string, first int) {
	if first == len(b.blocks) {
		return
	}
	for i := range b.geometry.Pages {
		if p := &b.geometry.Pages[i]; p.Words[0].Start >= b.blocks[first].Start {
			p.Part = strings.TrimSuffix(name+originSep+p.Part, originSep)
		}
	}
	for i := first; i < len(b.blocks); i++ {
		if k := &b.blocks[i]; k.Origin == "" {
			k.Origin = name
		} else {
			k.Origin = name + originSep + k.Origin
		}
	}
}

// document is the finished document. Unpaged text becomes one page numbered 0.
func (b *builder) document(kind string) *Document {
	d := &Document{Kind: kind, Title: cleanLines(b.title), Text: b.string(), Blocks: b.blocks, Geometry: b.geometry, Warnings: b.warnings}
	b.endPage()
	if d.Pages = b.pages; len(d.Pages) == 0 {
		d.Pages = []Page{{End: len(d.Text)}}
	}
	d.Pages[0].Start = 0 // text before the first slide or sheet
	return d
}

// cleanLines makes text from a markup format readable: blanks in a line become
// one, lines are trimmed, control characters and invisible hyphens go.
func cleanLines(s string) string {
	s = cleanControls(s)
	var out strings.Builder
	out.Grow(len(s))
	pending, started := byte(0), false // white space owed before the next character
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\n':
			pending = '\n'
		case unicode.IsSpace(r):
			if pending == 0 {
				pending = ' '
			}
		default:
			if pending != 0 && started {
				out.WriteByte(pending)
			}
			pending, started = 0, true
			out.WriteString(s[i : i+n])
		}
		i += n
	}
	return out.String()
}

// cleanControls drops what no author typed: C0 controls, soft hyphens, stray
// byte order marks; and makes s valid UTF-8 with LF line ends.
func cleanControls(s string) string {
	clean := true
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 && c != '\n' && c != '\t' || c == 0x7f || c >= 0x80 {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r', r == '\v', r == '\f', r == '\u0085', r == '\u2028', r == '\u2029':
			return '\n'
		case r < 0x20, r == 0x7f, r == '\u00ad', r == '\ufeff':
			return -1
		}
		return r // strings.Map yields U+FFFD for invalid bytes
	}, s)
}
