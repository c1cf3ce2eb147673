package ingest

import (
	"context"
	"strings"
)

// readCSV keeps the text as it is: one table whose first record is its header.
// A record is a line, or several where a quoted field holds line ends.
func readCSV(ctx context.Context, s *source, b *builder) error {
	text, offsets := s.plain(b, "")
	start := len(text) - len(strings.TrimLeft(text, " \t\n"))
	end := len(strings.TrimRight(text, " \t\n"))
	if start >= end {
		return nil
	}
	k := Block{Kind: Table, Start: start, End: end, HeaderEnd: start}
	if header := start + recordEnd(text[start:end]); header < end {
		k.HeaderEnd = header
	}
	b.verbatim(text, offsets.trace([]Block{k}))
	return nil
}

// recordEnd is where the first record ends: a line end outside quotes.
func recordEnd(text string) int {
	quoted := false
	for i := range len(text) {
		switch text[i] {
		case '"':
			quoted = !quoted
		case '\n':
			if !quoted {
				return i
			}
		}
		if i > 64<<10 { // a stray quote, not a record
			break
		}
	}
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		return i
	}
	return len(text)
}
