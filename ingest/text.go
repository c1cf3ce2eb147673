package ingest

import (
	"bytes"
	"context"
	"strings"
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
		return n, "\uFFFD"
	}
	return n, string(p[:n])
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

// readTxt keeps the text as it is. Blocks are its paragraphs; an underlined line is a heading.
func readTxt(ctx context.Context, s *source, b *builder) error {
	text, offsets := s.plain(b, "")
	b.verbatim(text, offsets.trace(paragraphs(text)))
	return nil
}

// paragraphs finds runs of lines between empty lines.
func paragraphs(text string) []Block {
	var blocks []Block
	start := -1 // of the open paragraph
	pos := 0
	close := func(end int) {
		if start >= 0 {
			blocks = append(blocks, underlined(text, start, end)...)
		}
		start = -1
	}
	end := 0
	for line := range strings.Lines(text) {
		switch {
		case strings.TrimSpace(line) == "":
			close(end)
		case start < 0:
			start = pos
		}
		pos += len(line)
		if strings.TrimSpace(line) != "" {
			end = pos - len(line) + len(strings.TrimRight(line, " \t\n\f\v"))
		}
	}
	close(end)
	return blocks
}

// underlined splits a paragraph whose second line underlines the first.
func underlined(text string, start, end int) []Block {
	whole := Block{Kind: Paragraph, Start: start, End: end}
	title, rest, found := strings.Cut(text[start:end], "\n")
	if !found || len(title) > 200 || strings.TrimSpace(title) == "" {
		return []Block{whole}
	}
	rule, _, more := strings.Cut(rest, "\n")
	rule = strings.TrimSpace(rule)
	if len(rule) < 3 || strings.Trim(rule, rule[:1]) != "" || !strings.Contains("=-~", rule[:1]) {
		return []Block{whole}
	}
	level := 1
	if rule[0] != '=' {
		level = 2
	}
	cut := start + len(title) + 1 + strings.IndexByte(rest+"\n", '\n')
	heading := Block{Kind: Heading, Level: level, Start: start, End: cut}
	if !more {
		return []Block{heading}
	}
	whole.Start = cut + 1 // never empty: a paragraph ends in text
	return []Block{heading, whole}
}
