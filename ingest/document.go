package ingest

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
	Language string // ISO 639-1, "" when unsure
	Tokens   int    // of Indexed()
}

// Indexed is the text that is embedded and indexed: context, then passage.
func (p *Passage) Indexed() string {
	if p.Context == "" {
		return p.Text
	}
	return p.Context + "\n" + p.Text
}
