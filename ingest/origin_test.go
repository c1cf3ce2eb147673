package ingest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// originOf is where a text that occurs once comes from.
func originOf(t *testing.T, d *Document, text string) string {
	t.Helper()
	require.Equal(t, 1, strings.Count(d.Text, text), "%q in %q", text, d.Text)
	return d.Origin(strings.Index(d.Text, text))
}

func TestOrigin(t *testing.T) {
	book := xlsxOf(`<row r="2"><c r="B2" t="inlineStr"><is><t>caption</t></is></c></row><row r="3"><c r="B3" t="inlineStr"><is><t>name</t></is></c><c r="D3" t="inlineStr"><is><t>price</t></is></c></row>` +
		`<row r="4"><c r="B4" t="inlineStr"><is><t>pen</t></is></c><c r="D4"><v>1.25</v></c></row><row r="9"><c r="AB9" t="inlineStr"><is><t>alone</t></is></c></row>`)
	d := parseBytes(t, "a.xlsx", book)
	for text, want := range map[string]string{"caption": "First!B2", "name": "First!B3", "price": "First!D3", "pen": "First!B4", "1.25": "First!D4", "alone": "First!AB9"} {
		require.Equal(t, want, originOf(t, d, text))
	}
	mail := "From: a@x.org\r\nTo: b@x.org\r\nSubject: Offer\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n--B\r\nContent-Type: text/plain\r\n\r\nSee below.\r\n" +
		"--B\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; filename=terms.pdf\r\n\r\n" + string(pdfOf(pdfLines("First page."), pdfLines("Second page."))) + "\r\n--B--\r\n"
	archive := zipOf("in/b.xlsx", string(book), "in/m.eml", mail, "../../etc/passwd.txt", "outside")
	d = parseBytes(t, "all.zip", archive)
	for text, want := range map[string]string{
		"pen":             "in/b.xlsx > First!B4",
		"See below.":      "in/m.eml > text/plain body",
		"Second page.":    "in/m.eml > terms.pdf > page 2",
		"To: b@x.org":     "in/m.eml > header",
		"outside":         "etc/passwd.txt",
		"etc/passwd.txt":  "etc/passwd.txt",
		"From: a@x.org":   "in/m.eml > header",
		"caption\n\nname": "in/b.xlsx > First!B2",
	} {
		require.Equal(t, want, originOf(t, d, text))
	}
	require.NotContains(t, d.Text, "..")
	at := strings.Index(d.Text, "Second page.")
	boxes := d.Geometry.Boxes(at, at+len("Second page."))
	require.Len(t, boxes, 1)
	require.Equal(t, "in/m.eml > terms.pdf", boxes[0].Part)
	require.Equal(t, 2, boxes[0].Page)
	alone := parseBytes(t, "terms.pdf", pdfOf(pdfLines("First page."), pdfLines("Second page.")))
	at = strings.Index(alone.Text, "Second page.")
	require.Equal(t, alone.Geometry.Boxes(at, at+len("Second page."))[0].Boxes, boxes[0].Boxes)
	d = parseBytes(t, "a.txt", []byte("One.\n\nTwo."))
	require.Equal(t, "bytes 6-10", originOf(t, d, "Two"))
	d = parseBytes(t, "a.pdf", pdfOf(pdfLines("One."), pdfLines("Two.")))
	require.Equal(t, "page 2", originOf(t, d, "Two"))
	var out strings.Builder
	require.NoError(t, d.Report(&out))
	require.Contains(t, out.String(), "page 2: bytes 6-10, 1 blocks, 1 words with a place on 612 x 792 points")
	require.Equal(t, []string{"A", "Z", "AA", "AB", "ZZ", "AAA"}, []string{columnName(0), columnName(25), columnName(26), columnName(27), columnName(701), columnName(702)})
	require.Equal(t, "'It''s'", sheetName("It's"))
}
