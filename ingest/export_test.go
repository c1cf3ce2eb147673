package ingest

import (
	"fmt"
	"testing"
)

// For the tests of package ingest_test, which run against Postgres.

// TextEmbedder is textEmbedder.
type TextEmbedder = textEmbedder

// OtherEmbedder is another model than TextEmbedder.
type OtherEmbedder = otherEmbedder

// Handbook is a folder with files of several formats, some of them broken.
func Handbook(t testing.TB) string { return handbook(t) }

// LongPDF is a PDF with so many pages of text.
func LongPDF(pages int) []byte {
	all := make([]string, pages)
	for i := range all {
		var lines []string
		for j := range 40 {
			lines = append(lines, fmt.Sprintf("Line %d of page %d holds a few words, so that the page is full.", j, i))
		}
		all[i] = pdfLines(lines...)
	}
	return pdfOf(all...)
}
