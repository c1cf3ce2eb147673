package ingest

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// plain decodes a text file and normalises it. offsets is nil when byte ranges
// of the text cannot be traced to bytes of the file.
func (s *source) plain(b *builder, declared string) (text string, offsets *sourceMap) {
	utf, name := decode(s.data, declared)
	text, nuls, invalid := normalise(utf)
	if nuls > 0 {
		b.warn(WarnNUL)
	}
	if invalid > 0 {
		b.warn(WarnEncoding)
	}
	if name == utf8Name && s.depth == 0 {
		offsets = &sourceMap{data: utf}
	}
	return text, offsets
}

// normalise makes utf valid UTF-8 without NUL, carriage returns and byte order
// mark. Everything else stays as the author wrote it.
func normalise(utf []byte) (text string, nuls, invalid int) {
	utf = bytes.TrimPrefix(utf, []byte("\xef\xbb\xbf"))
	if utf8.Valid(utf) && bytes.IndexByte(utf, 0) < 0 && bytes.IndexByte(utf, '\r') < 0 {
		return string(utf), 0, bytes.Count(utf, []byte("\uFFFD"))
	}
	var out strings.Builder
	out.Grow(len(utf))
	for i := 0; i < len(utf); {
		n, repl := step(utf[i:])
		if utf[i] == 0 {
			nuls++
		}
		if repl == "\uFFFD" {
			invalid++
		}
		out.WriteString(repl)
		i += n
	}
	return out.String(), nuls, invalid
}

// step is one unit of normalise: how many source bytes become what.
func step(p []byte) (n int, repl string) {
	switch {
	case p[0] == 0:
		return 1, ""
	case p[0] == '\r':
		if len(p) > 1 && p[1] == '\n' {
			return 2, "\n"
		}
		return 1, "\n"
	case p[0] < 0x80:
		return 1, asciiStrings[p[0]]
	}
	r, n := utf8.DecodeRune(p)
	if r == utf8.RuneError {
		if high, ok := surrogate(p); ok { // some programs write UTF-16's halves as if they were characters
			if low, ok := surrogate(p[3:]); ok && utf16.DecodeRune(high, low) != utf8.RuneError {
				return 6, string(utf16.DecodeRune(high, low))
			}
			return 3, "\uFFFD"
		}
		return n, "\uFFFD"
	}
	return n, string(p[:n])
}

// surrogate is the half of a UTF-16 pair that p begins with, written in three bytes.
func surrogate(p []byte) (rune, bool) {
	if len(p) < 3 || p[0] != 0xed || p[1] < 0xa0 || p[1] > 0xbf || p[2]&0xc0 != 0x80 {
		return 0, false
	}
	return 0xd000 | rune(p[1]&0x3f)<<6 | rune(p[2]&0x3f), true
}

var asciiStrings = func() (t [0x80]string) {
	for i := range t {
		t[i] = string(rune(i))
	}
	return t
}()

// sourceMap finds the file's bytes behind offsets of the normalised text, by
// walking both once: offsets must be asked for in ascending order.
type sourceMap struct {
	data      []byte
	pos, text int // the same place in both
}

func (m *sourceMap) at(text int) int {
	if m.pos == 0 && bytes.HasPrefix(m.data, []byte("\xef\xbb\xbf")) {
		m.pos = 3
	}
	for m.text < text && m.pos < len(m.data) {
		n, repl := step(m.data[m.pos:])
		m.pos += n
		m.text += len(repl)
	}
	return m.pos
}

// trace fills in SrcStart and SrcEnd of blocks in ascending order.
func (m *sourceMap) trace(blocks []Block) []Block {
	if m != nil {
		for i := range blocks {
			blocks[i].SrcStart = m.at(blocks[i].Start)
			blocks[i].SrcEnd = m.at(blocks[i].End)
		}
	}
	return blocks
}

// readTxt keeps the text as it is. Blocks are its paragraphs; underlined,
// numbered and capital lines that stand over a paragraph are headings.
func readTxt(ctx context.Context, s *source, b *builder) error {
	text, offsets := s.plain(b, "")
	blocks := paragraphs(text)
	if len(blocks) > 0 {
		b.title = plainTitle(text[blocks[0].Start:blocks[0].End])
	}
	b.verbatim(text, offsets.trace(blocks))
	return nil
}

// plainTitle is the first line of a text if it looks like its title.
func plainTitle(first string) string {
	line, _, more := strings.Cut(first, "\n")
	if line = strings.TrimSpace(line); utf8.RuneCountInString(line) > 100 || sentenceEnd.MatchString(line) || more && !isCapital(line) && underline(first) == 0 {
		return ""
	}
	return line
}

// paragraphs finds runs of lines between empty lines, and the headings among them.
func paragraphs(text string) []Block {
	var blocks []Block
	start, end, pos := -1, 0, 0 // of the open paragraph; of the line
	flush := func() {
		if start >= 0 {
			blocks = append(blocks, headed(text, start, end)...)
		}
		start = -1
	}
	for line := range strings.Lines(text) {
		if trimmed := strings.TrimRight(line, " \t\n\f\v"); trimmed == "" {
			flush()
		} else {
			if start < 0 {
				start = pos
			}
			end = pos + len(trimmed)
		}
		pos += len(line)
	}
	flush()
	return blocks
}

// headed splits a paragraph whose first line is a heading.
func headed(text string, start, end int) []Block {
	para := text[start:end]
	title, rest, more := strings.Cut(para, "\n")
	level, n := underline(para), len(title)
	switch {
	case level > 0:
		n += 1 + len(strings.SplitN(rest, "\n", 2)[0])
	case len(title) > 80 || sentenceEnd.MatchString(title):
	case isCapital(title):
		level = 1
	case plainHeading.MatchString(title) && !plainHeading.MatchString(rest): // not the first item of a list
		dots := strings.Count(strings.TrimRight(strings.Fields(title)[0], "."), ".")
		if more || dots > 0 {
			level = 2 + dots
		}
	}
	if level == 0 {
		return []Block{{Kind: Paragraph, Start: start, End: end}}
	}
	blocks := []Block{{Kind: Heading, Level: min(level, 9), Start: start, End: start + n}}
	if start+n < end {
		blocks = append(blocks, Block{Kind: Paragraph, Start: start + n + 1, End: end})
	}
	return blocks
}

var plainHeading = regexp.MustCompile(`^\d{1,2}(\.\d{1,2})*\.?[ \t]+\pL`)

// underline is the level of a heading whose second line is a rule, else 0.
func underline(para string) int {
	title, rest, _ := strings.Cut(para, "\n")
	rule, _, _ := strings.Cut(rest, "\n")
	rule = strings.TrimSpace(rule)
	if len(title) > 200 || len(rule) < 3 || strings.Trim(rule, rule[:1]) != "" {
		return 0
	}
	return 1 + strings.Index("=-~", rule[:1])
}

// isCapital: a line without small letters, of a word or more.
func isCapital(line string) bool {
	letters := 0
	for _, r := range line {
		if unicode.IsLower(r) {
			return false
		}
		if unicode.IsUpper(r) {
			letters++
		}
	}
	return letters >= 4
}
