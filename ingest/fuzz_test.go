package ingest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// fuzzLimits keep one input cheap; the time is far above what any input of the
// fuzzer's size may take.
var fuzzLimits = Limits{FileBytes: 1 << 20, TextBytes: 4 << 20, ExpandBytes: 8 << 20, Entries: 200, Time: 20 * time.Second}

// fuzzReader parses data under a name; whatever it is, the outcome must be a
// sound document or an *Error, without a panic, in time.
func fuzzReader(f *testing.F, name string, seeds ...[]byte) {
	for _, s := range seeds {
		f.Add(s)
		f.Add(s[:len(s)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Parse(context.Background(), name, data, fuzzLimits)
		var e *Error
		switch {
		case err == nil:
			requireSound(t, d)
			if len(d.Text) < 64<<10 {
				requireSplit(t, &Splitter{MaxTokens: 50, Ends: wordEnds}, d)
			}
		case !errors.As(err, &e):
			t.Fatalf("not an *Error: %v", err)
		case e.Stack != nil:
			t.Fatalf("%v\n%s", err, e.Stack)
		case strings.Contains(e.Message, "took longer"):
			t.Fatal(err)
		}
	})
}

func FuzzText(f *testing.F) {
	fuzzReader(f, "a.txt", []byte("Title\n=====\r\n\r\nOne\x00 two.\n\nÜber \xff\xfe"), []byte("\xff\xfea\x00b\x00"), []byte("\x1b$B$3$s\x1b(B"), []byte("\x83\x65\x83\x58\x83\x67 and more"))
}

func FuzzMarkdown(f *testing.F) {
	fuzzReader(f, "a.md", []byte("---\ntitle: x\n---\n# A\n\n> - b\n>   1. c\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nx\n```\n[^1]: note\n"))
}

func FuzzHTML(f *testing.F) {
	fuzzReader(f, "a.html", []byte("<!doctype html><meta charset=gbk><title>t</title><h1>a</h1><ul><li>b<ol start=3><li>c</ol></ul><table><tr><th>k<td rowspan=9 colspan=9>v</table><pre>x</pre>"))
}

func FuzzXML(f *testing.F) {
	fuzzReader(f, "a.xml", []byte("<?xml version='1.0' encoding='windows-1251'?><!DOCTYPE r [<!ENTITY e 'x'>]><r><title>t</title><a>&lt;p&gt;b&lt;/p&gt;&e;</a></r>"))
}

func FuzzDocx(f *testing.F) {
	fuzzReader(f, "a.docx", docxOf(styled("Heading1", "Head")+para("text")+`<w:tbl><w:tr><w:tc>`+para("cell")+`</w:tc></w:tr></w:tbl>`,
		"word/_rels/document.xml.rels", relsOf("styles", "styles.xml"), "word/styles.xml", `<w:styles `+wordNS+`><w:style w:styleId="Heading1"><w:name w:val="heading 1"/></w:style></w:styles>`))
}

// FuzzDocxBody changes the document's XML rather than its container's bytes.
func FuzzDocxBody(f *testing.F) {
	f.Add(styled("Heading1", "Head") + para("text") + `<w:p><w:r><w:footnoteReference w:id="1"/></w:r></w:p><w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="3"/><w:vMerge/></w:tcPr>` + para("cell") + `</w:tc></w:tr></w:tbl><m:oMath><m:f><m:num/><m:den/></m:f></m:oMath>`)
	f.Fuzz(func(t *testing.T, body string) {
		d, err := Parse(context.Background(), "a.docx", docxOf(body), fuzzLimits)
		requireParsed(t, d, err)
	})
}

func requireParsed(t *testing.T, d *Document, err error) {
	t.Helper()
	var e *Error
	if err == nil {
		requireSound(t, d)
	} else if !errors.As(err, &e) || e.Stack != nil {
		t.Fatalf("%v", err)
	}
}

func FuzzSlideBody(f *testing.F) {
	f.Add(`<p:sp><p:nvSpPr><p:nvPr><p:ph type="title"/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>Title</a:t></a:r></a:p></p:txBody></p:sp><a:tbl><a:tr><a:tc><a:txBody><a:p><a:r><a:t>cell</a:t></a:r></a:p></a:txBody></a:tc></a:tr></a:tbl>`)
	f.Fuzz(func(t *testing.T, body string) {
		d, err := Parse(context.Background(), "a.pptx", pptxOf(body), fuzzLimits)
		requireParsed(t, d, err)
	})
}

func FuzzSheetBody(f *testing.F) {
	f.Add(`<row r="1"><c r="A1" t="inlineStr"><is><t>name</t></is></c><c r="XFD1" s="1"><v>45000.5</v></c></row><row><c t="s"><v>0</v></c><c t="b"><v>1</v></c></row>`)
	f.Fuzz(func(t *testing.T, body string) {
		d, err := Parse(context.Background(), "a.xlsx", xlsxOf(body), fuzzLimits)
		requireParsed(t, d, err)
	})
}

func FuzzODFBody(f *testing.F) {
	f.Add(`<text:h text:outline-level="2">H</text:h><text:list><text:list-item><text:p>i<text:s text:c="3"/></text:p></text:list-item></text:list><table:table><table:table-row><table:table-cell table:number-columns-repeated="9999"><text:p>x</text:p></table:table-cell></table:table-row></table:table>`)
	f.Fuzz(func(t *testing.T, body string) {
		d, err := Parse(context.Background(), "a.odt", odfOf("text", body), fuzzLimits)
		requireParsed(t, d, err)
		d, err = Parse(context.Background(), "a.ods", odfOf("spreadsheet", body), fuzzLimits)
		requireParsed(t, d, err)
	})
}

func FuzzRTF(f *testing.F) {
	fuzzReader(f, "a.rtf", []byte(`{\rtf1\ansi\ansicpg932{\fonttbl{\f0\fcharset128 x;}}\f0 \'83\'65 \u12354?\uc2\u-3913xx\par{\*\x y}\trowd a\cell b\cell\row \bin3 abc\outlinelevel1 H\par}`))
}

func FuzzMail(f *testing.F) {
	fuzzReader(f, "a.eml", []byte("From: a@x\r\nSubject: =?iso-2022-jp?B?GyRCJDMbKEI=?=\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n--B\r\nContent-Type: text/html\r\n\r\n<p>x\r\n--B\r\nContent-Disposition: attachment; filename=a.txt\r\nContent-Transfer-Encoding: base64\r\n\r\nYWJj\r\n--B--\r\n"),
		[]byte("From a@x Mon Jan  2 15:04:05 2006\nFrom: a@x\nSubject: s\n\nb\n"))
}

func FuzzCalendar(f *testing.F) {
	fuzzReader(f, "a.ics", []byte("BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY;X=\"a:b\":Meet\\, all\r\n ing\r\nEND:VEVENT\r\nitem1.TEL:+1\r\n"))
}

func FuzzData(f *testing.F) {
	fuzzReader(f, "data", []byte(`{"nbformat":4,"cells":[{"cell_type":"code","source":["a"],"outputs":[{"text":"b"}]}]}`), []byte("{\"a\":[1,{\"b\":\"\\u0000\"}]}\n{\"c\":null}\n"), []byte(`[["x",1e999],{}]`))
}

func FuzzCSV(f *testing.F) { fuzzReader(f, "a.csv", []byte("a;b\n\"x\ny\";2\n\n3")) }

func FuzzArchive(f *testing.F) {
	fuzzReader(f, "a.zip", zipOf("a/b.txt", "text", "c.md", "# h"), tarOf("x.txt", "text"), gzipOf([]byte("text")))
}

func FuzzEPUB(f *testing.F) {
	fuzzReader(f, "a.epub", zipOf("mimetype", "application/epub+zip", "META-INF/container.xml", `<container><rootfile full-path="o.opf"/></container>`,
		"o.opf", `<package><manifest><item id="a" href="a.xhtml"/></manifest><spine><itemref idref="a"/></spine></package>`, "a.xhtml", "<?xml version='1.0'?><html><title/><p>x</p></html>"))
}

func FuzzDoc(f *testing.F) {
	clx := append([]byte{2, 0, 0, 0, 0}, make([]byte, 20)...)
	f.Add(make([]byte, 64), clx)
	f.Fuzz(func(t *testing.T, stream, clx []byte) {
		text, ok := pieces(stream, clx)
		if ok {
			addWord97(&builder{limit: 1 << 20}, text)
		}
	})
}

func FuzzPDF(f *testing.F) {
	fuzzReader(f, "a.pdf", pdfOf(pdfLines("# Head", "", "Some text.", "* bold")))
}
