package ingest

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"strings"
	"unicode/utf16"

	"github.com/richardlehane/mscfb"
	"golang.org/x/text/encoding/charmap"
)

// readDoc reads the text of a Word 97-2003 document through its piece table
// ([MS-DOC] 2.4.1): main text, then notes, headers and text boxes as they are
// stored. Structure other than paragraphs and tables' cells is not read.
func readDoc(ctx context.Context, s *source, b *builder) error {
	streams, err := oleStreams(ctx, s, "WordDocument", "0Table", "1Table")
	if err != nil {
		return err
	}
	fib := streams["WordDocument"]
	damaged := failf(Corrupt, "%s is a damaged Word 97 document; open it in a word processor and save it as .docx", s.name)
	if len(fib) < 0x1aa || binary.LittleEndian.Uint16(fib) != 0xa5ec {
		return damaged
	}
	flags := binary.LittleEndian.Uint16(fib[0x0a:])
	if flags&0x0100 != 0 {
		return failf(Encrypted, "%s is encrypted; remove the password in the program that made it and ingest it again", s.name)
	}
	table := streams["0Table"]
	if flags&0x0200 != 0 {
		table = streams["1Table"]
	}
	start := int64(binary.LittleEndian.Uint32(fib[0x1a2:])) // fcClx, lcbClx
	end := start + int64(binary.LittleEndian.Uint32(fib[0x1a6:]))
	if start >= end || end > int64(len(table)) {
		return damaged
	}
	text, ok := pieces(fib, table[start:end])
	if !ok {
		return damaged
	}
	addWord97(b, text)
	return nil
}

// pieces assembles the text from the piece table in clx.
func pieces(stream, clx []byte) (string, bool) {
	for len(clx) > 3 && clx[0] == 1 { // property modifiers come first
		n := 3 + int(binary.LittleEndian.Uint16(clx[1:]))
		if n > len(clx) {
			return "", false
		}
		clx = clx[n:]
	}
	if len(clx) < 5 || clx[0] != 2 {
		return "", false
	}
	plc := clx[5:]
	n := (len(plc) - 4) / 12 // n+1 positions of 4 bytes, n descriptors of 8
	if n < 1 {
		return "", false
	}
	var out strings.Builder
	for i := range n {
		from, to := binary.LittleEndian.Uint32(plc[4*i:]), binary.LittleEndian.Uint32(plc[4*i+4:])
		fc := binary.LittleEndian.Uint32(plc[4*(n+1)+8*i+2:])
		if to < from {
			return "", false
		}
		chars := int64(to - from)
		if fc&0x40000000 != 0 { // one byte a character
			at := int64(fc&0x3fffffff) / 2
			if at+chars > int64(len(stream)) {
				return "", false
			}
			decoded, _ := charmap.Windows1252.NewDecoder().Bytes(stream[at : at+chars]) // every byte has a meaning
			out.Write(decoded)
			continue
		}
		at := int64(fc)
		if at+2*chars > int64(len(stream)) {
			return "", false
		}
		units := make([]uint16, chars)
		for j := range units {
			units[j] = binary.LittleEndian.Uint16(stream[at+2*int64(j):])
		}
		out.WriteString(string(utf16.Decode(units)))
	}
	return out.String(), true
}

// addWord97 turns the special characters of [MS-DOC] 2.4.1 into structure.
func addWord97(b *builder, text string) {
	var rows [][]string
	var row []string
	var para strings.Builder
	field := 0 // depth of field instructions, which are not shown
	flush := func() {
		b.table(rows, min(len(rows), 1))
		rows = nil
	}
	for _, r := range text {
		switch {
		case r == 0x13:
			field++
		case r == 0x14, r == 0x15 && field > 0:
			field = max(field-1, 0)
		case field > 0, r == 0x01, r == 0x02, r == 0x05, r == 0x08, r == 0x15:
		case r == 0x07: // a cell's end; an empty one more ends the row
			if para.Len() == 0 && len(row) > 0 {
				rows, row = append(rows, row), nil
				continue
			}
			row = append(row, para.String())
			para.Reset()
		case r == '\r', r == '\f', r == 0x0e:
			if len(row) > 0 {
				para.WriteByte('\n')
				continue
			}
			flush()
			b.add(Paragraph, 0, para.String())
			para.Reset()
		case r == 0x1e:
			para.WriteByte('-')
		case r == 0x1f:
		default:
			para.WriteRune(r)
		}
	}
	flush()
	b.add(Paragraph, 0, para.String())
}

// oleStreams reads the named streams of a compound file.
func oleStreams(ctx context.Context, s *source, names ...string) (map[string][]byte, error) {
	c, err := mscfb.New(bytes.NewReader(s.data))
	if err != nil {
		return nil, failf(Corrupt, "%s is a damaged OLE compound file (%v); get a fresh copy", s.name, err)
	}
	streams := make(map[string][]byte)
	for e, err := c.Next(); err == nil; e, err = c.Next() {
		for _, name := range names {
			if e.Name != name || e.Size > int64(len(s.data)) || streams[name] != nil {
				continue
			}
			data, err := io.ReadAll(s.limited(ctx, e, e.Size, name))
			if err != nil {
				return nil, failf(Corrupt, "%s: stream %s cannot be read (%v); get a fresh copy", s.name, name, err)
			}
			streams[name] = data
		}
		if err := s.entry(); err != nil {
			return nil, err
		}
	}
	return streams, nil
}
