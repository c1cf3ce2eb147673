package ingest

import (
	"context"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
)

// readRTF reads Rich Text Format: paragraphs, tables' cells, notes. Pictures,
// styles, fields' instructions and hidden text are left out.
func readRTF(ctx context.Context, s *source, b *builder) error {
	r := &rtfReader{b: b, data: s.data, group: rtfGroup{skipUnicode: 1}, fonts: make(map[int]encoding.Encoding)}
	r.page = codePage(1252)
	r.utf8 = !isASCII(s.data) && utf8.Valid(s.data) // 8-bit bytes should not be there at all; those who write them mean UTF-8
	if err := r.run(ctx, s); err != nil {
		return err
	}
	r.endParagraph()
	r.endTable()
	return nil
}

// rtfGroup is the state that braces save and restore.
type rtfGroup struct {
	skip        bool // inside a destination that is not text
	hidden      bool
	deleted     bool // by a tracked change
	fontTable   bool
	info        bool // document properties
	title       bool
	skipUnicode int // characters of fallback text after \u
	font        int
	heading     int
	inTable     bool
}

type rtfReader struct {
	b        *builder
	data     []byte
	pos      int
	group    rtfGroup
	stack    []rtfGroup
	page     encoding.Encoding
	utf8     bool // bytes outside ASCII are UTF-8
	fonts    map[int]encoding.Encoding
	defining int    // font whose entry of the font table is read
	raw      []byte // bytes in the current code page not yet decoded
	high     rune   // first half of a surrogate pair
	fallback int    // characters still to skip after \u
	text     strings.Builder
	title    strings.Builder
	row      []string
	rows     [][]string
}

// rtfDestinations are groups whose text is not the document's.
var rtfDestinations = set("stylesheet colortbl pict object filetbl listtable listoverridetable revtbl rsidtbl generator themedata colorschememapping " +
	"datastore latentstyles fldinst xe tc bkmkstart bkmkend mmathPr xmlnstbl header footer headerl headerr headerf footerl footerr footerf " +
	"pntext pntxta pntxtb listtext nonesttables background shpinst formfield do nonshppict private objdata")

func (r *rtfReader) run(ctx context.Context, s *source) error {
	for r.pos < len(r.data) {
		if r.pos&0xffff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		c := r.data[r.pos]
		r.pos++
		switch c {
		case '{':
			r.decodeRaw()
			if len(r.stack) >= 1000 {
				return failf(TooDeep, "%s nests groups more than 1000 deep", s.name)
			}
			r.stack = append(r.stack, r.group)
			r.fallback = 0
		case '}':
			r.decodeRaw()
			if n := len(r.stack); n > 0 {
				r.group, r.stack = r.stack[n-1], r.stack[:n-1]
			}
			r.fallback = 0
		case '\\':
			r.control()
		case '\r', '\n', 0:
		default:
			if c >= 0x80 && r.utf8 {
				r.character()
				continue
			}
			r.byte(c)
		}
		if r.b.err != nil {
			return r.b.err
		}
	}
	r.decodeRaw()
	return nil
}

// character is one of UTF-8, whose first byte has been read.
func (r *rtfReader) character() {
	_, n := utf8.DecodeRune(r.data[r.pos-1:])
	text := string(r.data[r.pos-1 : r.pos-1+n])
	r.pos += n - 1
	if r.fallback > 0 {
		r.fallback--
		return
	}
	r.decodeRaw()
	r.put(text)
}

// control reads a control word or symbol.
func (r *rtfReader) control() {
	if r.pos >= len(r.data) {
		return
	}
	c := r.data[r.pos]
	if c < 'A' || c > 'z' || c > 'Z' && c < 'a' {
		r.pos++
		r.symbol(c)
		return
	}
	start := r.pos
	for r.pos < len(r.data) && isLetter(r.data[r.pos]) {
		r.pos++
	}
	word := string(r.data[start:r.pos])
	start = r.pos
	if r.pos < len(r.data) && r.data[r.pos] == '-' {
		r.pos++
	}
	for r.pos < len(r.data) && r.data[r.pos] >= '0' && r.data[r.pos] <= '9' {
		r.pos++
	}
	n, err := strconv.Atoi(string(r.data[start:r.pos]))
	if r.pos < len(r.data) && r.data[r.pos] == ' ' {
		r.pos++
	}
	if word == "bin" { // raw bytes follow
		r.pos = min(len(r.data), r.pos+max(n, 0))
		return
	}
	r.decodeRaw()
	if r.fallback > 0 && word != "u" && word != "uc" && word != "par" { // a word counts as one character
		r.fallback--
		return
	}
	r.word(word, n, err == nil)
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func (r *rtfReader) symbol(c byte) {
	switch c {
	case '\'':
		if r.pos+2 <= len(r.data) {
			if v, err := strconv.ParseUint(string(r.data[r.pos:r.pos+2]), 16, 8); err == nil {
				r.byte(byte(v))
			}
			r.pos += 2
		}
	case '*': // a destination that readers may not know
		r.group.skip = true
	case '~':
		r.put("\u00a0")
	case '_':
		r.put("-")
	case '\\', '{', '}':
		r.byte(c)
	case '\r', '\n':
		r.decodeRaw()
		r.endParagraph()
	}
}

func (r *rtfReader) word(word string, n int, has bool) {
	g := &r.group
	switch word {
	case "par", "sect", "page":
		r.endParagraph()
	case "line", "lbr":
		r.put("\n")
	case "tab":
		r.put("\t")
	case "cell", "nestcell":
		if !g.skip {
			r.row = append(r.row, r.text.String())
			r.text.Reset()
		}
	case "row", "nestrow":
		if !g.skip {
			r.rows = append(r.rows, r.row)
			r.row = nil
		}
	case "pard":
		g.heading, g.inTable, g.hidden = 0, false, false
	case "intbl":
		g.inTable = true
	case "outlinelevel":
		g.heading = min(max(n, -1), 8) + 1
	case "plain":
		g.hidden, g.deleted = false, false
	case "v":
		g.hidden = !has || n != 0
	case "ansicpg":
		r.page = codePage(n)
	case "mac":
		r.page = charmap.Macintosh
	case "fonttbl":
		g.fontTable, g.skip = true, true
	case "f":
		if g.fontTable {
			r.defining = n
		}
		g.font = n
	case "fcharset":
		if g.fontTable {
			if enc := fontCharset(n); enc != nil {
				r.fonts[r.defining] = enc
			}
		}
	case "info":
		g.info, g.skip = true, true
	case "title":
		g.title = g.info
	case "u":
		r.unicode(n)
	case "uc":
		g.skipUnicode = max(n, 0)
	case "footnote", "annotation":
		r.put(" ")
	case "emdash":
		r.put("—")
	case "endash":
		r.put("–")
	case "lquote":
		r.put("‘")
	case "rquote":
		r.put("’")
	case "ldblquote":
		r.put("“")
	case "rdblquote":
		r.put("”")
	case "bullet":
		r.put("•")
	case "shptxt", "fldrslt", "ud":
		g.skip = false
	case "upr": // the same text twice: for old readers, then, in a group \ud, for those that know Unicode
		g.skip = true
	case "deleted":
		g.deleted = !has || n != 0
	default:
		if rtfDestinations[word] {
			g.skip = true
		}
	}
}

// unicode is one UTF-16 unit, followed by fallback text for old readers.
func (r *rtfReader) unicode(n int) {
	u := rune(uint16(n))
	r.fallback = r.group.skipUnicode
	switch {
	case utf16.IsSurrogate(u) && u < 0xdc00:
		r.high = u
	case utf16.IsSurrogate(u):
		r.put(string(utf16.DecodeRune(r.high, u)))
	default:
		r.put(string(u))
	}
}

// byte is one byte of text in the current code page.
func (r *rtfReader) byte(c byte) {
	if r.fallback > 0 {
		r.fallback--
		return
	}
	r.raw = append(r.raw, c)
}

func (r *rtfReader) decodeRaw() {
	if len(r.raw) == 0 {
		return
	}
	enc := r.page
	if f := r.fonts[r.group.font]; f != nil {
		enc = f
	}
	out, _ := enc.NewDecoder().Bytes(r.raw) // undecodable bytes become U+FFFD
	r.raw = r.raw[:0]
	r.put(string(out))
}

func (r *rtfReader) put(s string) {
	switch {
	case r.group.title:
		r.title.WriteString(s)
		r.b.title = r.title.String()
	case r.group.skip || r.group.hidden || r.group.deleted:
	default:
		r.text.WriteString(s)
	}
}

func (r *rtfReader) endParagraph() {
	if r.group.skip {
		return
	}
	text := r.text.String()
	if r.group.inTable || len(r.row) > 0 { // a line within a cell
		if text != "" {
			r.text.WriteByte('\n')
		}
		return
	}
	r.endTable()
	r.text.Reset()
	if r.group.heading > 0 {
		r.b.add(Heading, r.group.heading, lineWhite.Replace(text))
		return
	}
	r.b.add(Paragraph, 0, text)
}

func (r *rtfReader) endTable() {
	if len(r.rows) > 0 {
		header := 0
		if len(r.rows) > 1 {
			header = 1
		}
		r.b.table(r.rows, header)
		r.rows = nil
	}
}

// codePage is the encoding of a Windows code page; 1252 for unknown ones.
func codePage(n int) encoding.Encoding {
	name := map[int]string{
		866: "ibm866", 874: "windows-874", 932: "shift_jis", 936: "gb18030", 949: "euc-kr", 950: "big5", 65001: "utf-8",
		10000: "macintosh", 1250: "windows-1250", 1251: "windows-1251", 1253: "windows-1253", 1254: "windows-1254", 1255: "windows-1255",
		1256: "windows-1256", 1257: "windows-1257", 1258: "windows-1258",
	}[n]
	switch n {
	case 437:
		return charmap.CodePage437
	case 850:
		return charmap.CodePage850
	case 852:
		return charmap.CodePage852
	}
	if enc, err := htmlindex.Get(name); err == nil {
		return enc
	}
	return charmap.Windows1252
}

// fontCharset follows the RTF specification's table of \fcharset.
func fontCharset(n int) encoding.Encoding {
	page, ok := map[int]int{
		77: 10000, 128: 932, 129: 949, 134: 936, 136: 950, 161: 1253, 162: 1254, 163: 1258, 177: 1255, 178: 1256, 186: 1257, 204: 1251, 222: 874, 238: 1250,
	}[n]
	if !ok {
		return nil // ANSI, default, symbol: the document's own page
	}
	return codePage(page)
}
