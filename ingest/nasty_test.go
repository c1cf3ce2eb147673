package ingest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/charmap"
)

// zipWith makes an archive of members in order: name, content, name, content.
func zipWith(t *testing.T, method uint16, members ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for i := 0; i < len(members); i += 2 {
		w, err := z.CreateHeader(&zip.FileHeader{Name: members[i], Method: method})
		require.NoError(t, err)
		_, err = w.Write([]byte(members[i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return out.Bytes()
}

func utf16le(s string) []byte {
	var out []byte
	for _, u := range utf16.Encode([]rune(s)) {
		out = binary.LittleEndian.AppendUint16(out, u)
	}
	return out
}

// TestNasty: files that are read although something is unusual about them. What must be in the text is compared with its white space collapsed.
func TestNasty(t *testing.T) {
	const mail = "From: a@firm.org\r\nTo: b@firm.org\r\nSubject: s\r\nMIME-Version: 1.0\r\n"
	const invitation = "BEGIN:VCALENDAR\r\nUID:x1\r\nBEGIN:VEVENT\r\nSUMMARY;LANGUAGE=en:Board meeting\r\nLOCATION:Room 12\\, Harbour\r\nDESCRIPTION:Agenda is fol\r\n ded\\nby programs\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
	docx := zipWith(t, zip.Deflate, "[Content_Types].xml", `<Types><Override ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>`,
		`word\document.xml`, "\xff\xfe"+string(utf16le(`<?xml version="1.0" encoding="UTF-16"?><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>Größe in UTF-16</w:t></w:r></w:p></w:body></w:document>`)))
	pdf := string(LongPDF(1))
	var old bytes.Buffer // a tar from before the mark "ustar"
	w := tar.NewWriter(&old)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "a.txt", Size: 9, Mode: 0o600, Format: tar.FormatUSTAR, Typeflag: tar.TypeReg}))
	_, err := w.Write([]byte("old words"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	v7 := old.Bytes()
	clear(v7[257:265])
	copy(v7[148:156], "        ")
	sum := 0
	for _, c := range v7[:512] {
		sum += int(c)
	}
	copy(v7[148:156], fmt.Sprintf("%06o\x00 ", sum))

	for _, c := range []struct {
		name string
		data string
		kind string
		want []string
		must []string // not in the text
	}{
		{"nul.txt", "Hello\x00 world\x00", "txt", []string{"Hello world"}, nil},
		{"padded.csv", "a,b" + strings.Repeat("\x00", 100) + "\n1,Größe", "csv", []string{"1,Größe"}, nil},
		{"surrogate.txt", "half \xed\xa0\x80, pair \xed\xa0\xbd\xed\xb8\x80, käse", "txt", []string{"half \uFFFD, pair 😀, käse"}, nil},
		{"overlong.txt", "abc \xc0\xaf café garçon", "txt", []string{"café garçon"}, nil},
		{"wide.txt", string(utf16le("吾輩は猫である。名前はまだ無い。\r\n")), "txt", []string{"名前はまだ無い。"}, nil},

		{"calendar.ics", invitation, "ics", []string{"Summary: Board meeting", "Room 12, Harbour", "Agenda is folded by programs"}, []string{"x1", "VEVENT", "LANGUAGE"}},
		{"card.vcf", "BEGIN:VCARD\nVERSION:3.0\nFN:Jörg\nitem1.TITLE:Head\nEND:VCARD\n", "ics", []string{"Fn: Jörg", "Title: Head"}, []string{"VCARD"}},
		{"export.xls", "<html><body><table><tr><td>Html export<td>12</table>", "html", []string{"Html export 12"}, nil},
		{"export2.xls", "a\tb\nvalue\t17\n", "tsv", []string{"value 17"}, nil},
		{"export.doc", "<?xml version='1.0'?><w:wordDocument xmlns:w='x'><w:t>Word 2003</w:t></w:wordDocument>", "xml", []string{"Word 2003"}, nil},
		{"strange.docx", string(docx), "docx", []string{"Größe in UTF-16"}, nil},
		{"first.zip", string(zipWith(t, zip.Store, "a.pdf", pdf, "b.md", "# Second member")), "zip", []string{"of page 0", "Second member"}, nil},
		{"twice.zip", string(zipWith(t, zip.Deflate, "same.txt", "first copy", "same.txt", "second copy")), "zip", []string{"first copy", "second copy"}, nil},
		{"old.tar", string(v7), "tar", []string{"old words"}, nil},

		{"meta.html", "<html><head><meta http-equiv=\"Content-Type\" content=\"text/html; charset=windows-1251\"></head><body><p>\xcf\xf0\xe8\xe2\xe5\xf2</p>", "html", []string{"Привет"}, nil},
		{"lines.jsonl", "{\"q\":\"one\"}\nno JSON\n{\"q\":\"two\"}\n{\"q\": {\"in\":\"three\", cut", "jsonl", []string{"q: one", "no JSON", "q: two", "in: three", "cut"}, nil},
		{"colour.ipynb", `{"nbformat":4,"cells":[{"cell_type":"code","source":"x","outputs":[{"text":["\u001b[31mred\u001b[0m"]},{"ename":"ValueError","evalue":"bad value"}]}]}`, "ipynb", []string{"red", "ValueError: bad value"}, []string{"\x1b", "[31m"}},

		{"change.rtf", `{\rtf1\ansi kept {\deleted removed}{\upr{ANSI}{\*\ud{UNI}}} \u8226\bullet  item \u8364\'80}`, "rtf", []string{"kept UNI • item €"}, []string{"removed", "ANSI", "••", "€€"}},
		{"utf8.rtf", `{\rtf1\ansi Größe \u228?}`, "rtf", []string{"Größe ä"}, nil},

		{"raw.eml", mail + "\r\nRoh: Größe\r\n", "eml", []string{"Roh: Größe"}, nil},
		{"raw1252.eml", mail + "Content-Type: text/plain\r\n\r\nRoh: Gr\xf6\xdfe f\xfcr M\xfcller in K\xf6ln\r\n", "eml", []string{"Größe für Müller in Köln"}, nil},
		{"lie.eml", mail + "Content-Type: text/plain; charset=us-ascii\r\n\r\nRoh: Größe\r\n", "eml", []string{"Roh: Größe"}, nil},
		{"quoted.eml", mail + "Content-Type: text/plain; charset=koi8-r\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=F0=D2=C9=D7=C5=D4 a=\r\nb =ZZ =3D\r\n", "eml", []string{"Привет ab =ZZ ="}, nil},
		{"broken64.eml", mail + "Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\nSGVs!bG8g\r\n d29ybGQ\r\n", "eml", []string{"Hello world"}, nil},
		{"flowed.eml", mail + "Content-Type: text/plain; charset=utf-8; format=flowed; delsp=yes\r\n\r\na long paragr \r\naph flows\r\n From stuffed\r\n> quoted te \r\n> xt\r\n-- \r\nname\r\n", "eml",
			[]string{"a long paragraph flows From stuffed > quoted text -- name"}, nil},
		{"mime.eml", mail + "\r\n" + strings.Repeat("about multipart/mixed\r\n", 300) + "final words", "eml", []string{"final words"}, nil},
		{"lists.eml", mail + "Content-Type: multipart/mixed; boundary=B\r\n\r\n--B\r\nContent-Type: text/plain\r\n\r\nfirst\r\n--B\r\nContent-Type: text/html\r\n\r\n<p>second</p>\r\n--B\r\nContent-Type: text/plain\r\n\r\nfooter\r\n--B--\r\n", "eml", []string{"first", "second", "footer"}, nil},
		{"invite.eml", mail + "Content-Type: multipart/alternative; boundary=B\r\n\r\n--B\r\nContent-Type: text/plain\r\n\r\nplain\r\n--B\r\nContent-Type: multipart/related; boundary=C\r\n\r\n--C\r\nContent-Type: text/html\r\n\r\n<p>twin</p>\r\n--C\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename=n.txt\r\n\r\nattached inside\r\n--C--\r\n--B\r\nContent-Type: text/calendar\r\n\r\n" + invitation + "--B--\r\n", "eml",
			[]string{"plain", "attached inside", "Board meeting"}, []string{"twin"}},
		{"saved.mht", mail + "Content-Type: multipart/related; boundary=B\r\n\r\n--B\r\nContent-Type: text/html\r\n\r\n<p>Saved page</p>\r\n--B\r\nContent-Type: text/css\r\n\r\nbody{color:red}\r\n--B--\r\n", "eml", []string{"Saved page"}, []string{"color:red"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := parseBytes(t, c.name, []byte(c.data))
			require.Equal(t, c.kind, d.Kind)
			text := strings.Join(strings.Fields(d.Text), " ")
			for _, want := range c.want {
				require.Contains(t, text, want)
			}
			for _, bad := range c.must {
				require.NotContains(t, text, bad)
			}
		})
	}
}

// TestRareCharsets: encodings that statistics don't know are found by how odd their text looks in those that they do.
func TestRareCharsets(t *testing.T) {
	const russian, ukrainian = "Все люди рождаются свободными и равными в своём достоинстве и правах. Они наделены разумом.", "Всі люди народжуються вільними і рівними у своїй гідності та правах. Їжак, єдність."
	const german, french = "Käse, Größe, Übermut, Straße und Frühstück im Grünen kosten viel.", "L'été dernier, l'élève a reçu des œuvres à Noël ; ça coûte 20 € environ où ?"
	for _, c := range []struct {
		set  *charmap.Charmap
		text string
	}{
		{charmap.CodePage866, russian}, {charmap.MacintoshCyrillic, russian}, {charmap.KOI8R, russian}, {charmap.Windows1251, russian}, {charmap.ISO8859_5, russian}, {charmap.KOI8U, ukrainian},
		{charmap.CodePage850, german}, {charmap.Windows1252, german}, {charmap.Macintosh, german}, {charmap.ISO8859_15, french}, {charmap.Windows1252, french},
	} {
		for n := range 3 {
			data, err := c.set.NewEncoder().Bytes([]byte(strings.Repeat(c.text+"\n", n+1)))
			require.NoError(t, err)
			got, name := decode(data, "")
			require.Equal(t, c.text, strings.SplitN(string(got), "\n", 2)[0], "%s read as %s", c.set, name)
		}
	}
}

// TestMisnamed: a signature that says what a file is, or a name that promises something else, is no text.
func TestMisnamed(t *testing.T) {
	for _, c := range []struct {
		name, data string
		class      Class
	}{
		{"page.pdf", "<html><body>404 not found</body></html>", Corrupt},
		{"cut.doc", "\x00\x01\x02\x03" + strings.Repeat("\x05\x06", 50), Corrupt},
		{"deep.json", strings.Repeat("[", 20000) + strings.Repeat("]", 20000), TooDeep},
		{"deep.eml", "From: a@x.org\nTo: b@x.org" + strings.Repeat("\nContent-Type: multipart/mixed; boundary=B\n\n--B", 300), TooDeep},
	} {
		_, err := Parse(t.Context(), c.name, []byte(c.data), Limits{})
		var e *Error
		require.ErrorAs(t, err, &e, c.name)
		require.Equal(t, c.class, e.Class, c.name)
	}
}

// TestNarrowTable: rows are found by the gaps between their cells, however little room the table takes.
func TestNarrowTable(t *testing.T) {
	var page strings.Builder
	page.WriteString("BT /F1 10 Tf ")
	for i := range 4 {
		fmt.Fprintf(&page, "1 0 0 1 72 %d Tm (Long name of widget %d) Tj 1 0 0 1 205 %[1]d Tm (%[2]d long centimetres) Tj ", 700-14*i, i)
	}
	page.WriteString("ET")
	d := parseBytes(t, "a.pdf", pdfOf(page.String()))
	require.Equal(t, "Long name of widget 0\t0 long centimetres\nLong name of widget 1\t1 long centimetres\nLong name of widget 2\t2 long centimetres\nLong name of widget 3\t3 long centimetres", d.Text)
	require.Equal(t, Table, d.Blocks[0].Kind)
}
