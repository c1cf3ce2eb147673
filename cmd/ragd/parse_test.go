package main

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestParsedJSON: what is written piece by piece is what encoding/json writes in one.
func TestParsedJSON(t *testing.T) {
	for name, p := range map[string]parsed{
		"no page": {Path: `odd "pages":[] name`, Kind: "text", Pages: []parsedPage{}, Warnings: []string{}},
		"error":   {Pages: []parsedPage{}, Warnings: []string{`"text":""`}, Error: &parsedError{"corrupt", "a <b> & c"}},
		"pages": {Kind: "pdf", Warnings: []string{"x"}, Pages: []parsedPage{
			{Page: 1, Text: `"text":"" ` + "\t\u2028 <é>"},
			{Page: 2, OCR: true, Width: 1, Words: []parsedWord{{0, 1, [4]float64{1, 2, 3, 4}}}},
			{Page: 3, Text: strings.Repeat("€😀\"\n", 40_000)},
		}},
	} {
		want, err := compactJSON(p)
		require.NoError(t, err)
		var got bytes.Buffer
		w := bufio.NewWriter(&got)
		require.NoError(t, p.write(w), name)
		require.NoError(t, w.Flush())
		require.Equal(t, string(want)+"\n", got.String(), name)
	}
}
