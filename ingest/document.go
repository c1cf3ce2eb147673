package ingest

import (
	"fmt"
	"sort"
	"strings"
	"unicode"
)

// Document is what a reader makes of one file.
type Document struct {
	Kind     string   // format found in the content: "txt", "md", "html", "pdf", ...
	Title    string   // the document's own title, "" when it states none
	Language string   // ISO 639-1 code of the main language, "" when unsure
	Text     string   // normalised text; see the package's invariants
	Pages    []Page   // cover Text in order; a format without pages has one with Number 0
	Blocks   []Block  // in order of Start, not overlapping; text between blocks is white space
	Geometry Geometry // where the words of PDF pages lie
	Warnings []string // stable codes such as WarnGarbled, each at most once
}

// Page is a page, slide or sheet.
type Page struct {
	Number     int  // 1-based; 0 in formats without pages
	Start, End int  // bytes of Document.Text
	OCR        bool `json:",omitempty"` // read from its picture, so there may be mistakes
}

// BlockKind says what a stretch of text is.
type BlockKind uint8

// The kinds of Block.
const (
	Paragraph BlockKind = iota
	Heading             // Level 1..9
	ListItem            // Level = nesting depth, from 1
	Table               // one row per line
	Code
	Footnote
)

var blockKindNames = [...]string{"paragraph", "heading", "list", "table", "code", "footnote"}

func (k BlockKind) String() string { return blockKindNames[k] }

// Block is a stretch of text with one structural role.
type Block struct {
	Kind       BlockKind
	Level      int // of a Heading or ListItem, else 0
	Start, End int // bytes of Document.Text
	// HeaderEnd, in a Table, is where its header rows end; Start when it has none.
	HeaderEnd int
	// SrcStart and SrcEnd are bytes of the file, where the format allows to say
	// (plain text, Markdown, source code in UTF-8); both 0 otherwise.
	SrcStart, SrcEnd int
	// Origin is the place inside the file of a part that has a name or number of
	// its own: an archive's member, a message's part, a page within these. "" for
	// what is the file's own.
	Origin string `json:",omitempty"`
	Cells  *Cells `json:",omitempty"` // of a spreadsheet's block; else nil
}

// Cells tells which cell of a sheet each field of a block is: its lines are
// rows that follow each other, its fields, set apart by tabs, are in Columns.
type Cells struct {
	Sheet   string
	Row     int   // of the block's first line, from 1
	Columns []int // ascending, from 0
}

// name is the cell that holds byte at of the block's text, as in Sheet1!B3.
func (c *Cells) name(text string, at int) string {
	before := text[:at]
	line := before[strings.LastIndexByte(before, '\n')+1:]
	column := min(strings.Count(line, "\t"), len(c.Columns)-1)
	return fmt.Sprintf("%s!%s%d", sheetName(c.Sheet), columnName(c.Columns[column]), c.Row+strings.Count(before, "\n"))
}

// sheetName quotes a name as spreadsheets do.
func sheetName(s string) string {
	for _, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '.' {
			return "'" + strings.ReplaceAll(s, "'", "''") + "'"
		}
	}
	return s
}

func columnName(i int) string {
	name := ""
	for i++; i > 0; i = (i - 1) / 26 {
		name = string(rune('A'+(i-1)%26)) + name
	}
	return name
}

// Origin is where byte at of the text comes from, in the file's own terms: the
// member of an archive or part of a message, the page, the cell, the bytes.
// "" when the whole file is all that can be said.
func (d *Document) Origin(at int) string {
	var parts []string
	if i := sort.Search(len(d.Blocks), func(i int) bool { return d.Blocks[i].End > at }); i < len(d.Blocks) && d.Blocks[i].Start <= at {
		k := &d.Blocks[i]
		if k.Origin != "" {
			parts = append(parts, k.Origin)
		}
		if k.Cells != nil {
			return strings.Join(append(parts, k.Cells.name(d.Text[k.Start:k.End], at-k.Start)), originSep)
		}
		if k.SrcEnd > k.SrcStart {
			return strings.Join(append(parts, fmt.Sprintf("bytes %d-%d", k.SrcStart, k.SrcEnd)), originSep)
		}
	}
	if page := d.page(at); page.Number > 0 {
		parts = append(parts, pageName(d.Kind, page.Number))
	}
	return strings.Join(parts, originSep)
}

// originSep stands between a container and what is in it.
const originSep = " > "

// page is the page that holds byte at.
func (d *Document) page(at int) Page {
	i := sort.Search(len(d.Pages), func(i int) bool { return d.Pages[i].End > at })
	if i == len(d.Pages) {
		return Page{}
	}
	return d.Pages[i]
}

// pageName is what a format calls its pages.
func pageName(kind string, n int) string {
	switch kind {
	case "pptx", "odp":
		return fmt.Sprintf("slide %d", n)
	case "xlsx", "ods":
		return fmt.Sprintf("sheet %d", n)
	}
	return fmt.Sprintf("page %d", n)
}

// Warning codes of Document.Warnings.
const (
	WarnGarbled     = "garbled"     // a page's characters have no trustworthy Unicode meaning
	WarnNUL         = "nul_removed" // NUL bytes were removed
	WarnEncoding    = "encoding"    // bytes that are invalid in the file's encoding became U+FFFD
	WarnEmptyPages  = "empty_pages" // some pages have no text layer
	WarnTruncated   = "truncated"   // a limit left content out
	WarnAttachments = "attachments" // attached or embedded files were not read
	WarnOCR         = "ocr"         // some text was read from pictures: there may be mistakes
)

// Passage is a piece of a document, small enough to embed and to cite.
type Passage struct {
	Start, End int    // bytes of Document.Text
	Page       int    // number of the page on which the passage starts; 0 unpaged
	Heading    string // path of headings over it, "Handbook > Leave > Sick leave"
	Text       string // Document.Text[Start:End]: what may be quoted
	// Context precedes Text when the passage is embedded or indexed: title,
	// heading path, header of the table it continues. It must never be quoted.
	Context  string
	Language string   // ISO 639-1, "" when unsure
	Tokens   int      // of Indexed()
	Personal []string // kinds of personal data in Text, see package personal
}

// Indexed is the text that is embedded and indexed: context, then passage.
func (p *Passage) Indexed() string {
	if p.Context == "" {
		return p.Text
	}
	return p.Context + "\n" + p.Text
}
