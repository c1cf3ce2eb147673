package ingest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
)

// The files of these tests are made here, so that each shows what it tests.

// zipOf makes a container of name, content pairs, in order.
func zipOf(pairs ...string) []byte {
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for i := 0; i < len(pairs); i += 2 {
		w, err := z.Create(pairs[i])
		if err == nil {
			_, err = w.Write([]byte(pairs[i+1]))
		}
		if err != nil {
			panic(err)
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return buf.Bytes()
}

func tarOf(pairs ...string) []byte {
	var buf bytes.Buffer
	t := tar.NewWriter(&buf)
	for i := 0; i < len(pairs); i += 2 {
		h := &tar.Header{Name: pairs[i], Mode: 0o600, Size: int64(len(pairs[i+1]))}
		if err := t.WriteHeader(h); err != nil {
			panic(err)
		}
		if _, err := t.Write([]byte(pairs[i+1])); err != nil {
			panic(err)
		}
	}
	if err := t.WriteHeader(&tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}); err != nil {
		panic(err)
	}
	if err := t.Close(); err != nil {
		panic(err)
	}
	return buf.Bytes()
}

func gzipOf(data []byte) []byte {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if _, err := z.Write(data); err != nil {
		panic(err)
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return buf.Bytes()
}

const (
	wordNS  = `xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"`
	drawNS  = `xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"`
	sheetNS = `xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"`
	odfNS   = `xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" xmlns:presentation="urn:oasis:names:tc:opendocument:xmlns:presentation:1.0"`
	relBase = `http://schemas.openxmlformats.org/officeDocument/2006/relationships/`
)

// relsOf is a relationships part of kind, target pairs, with ids rId1, rId2, ...
func relsOf(pairs ...string) string {
	var out strings.Builder
	out.WriteString(`<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">`)
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&out, `<Relationship Id="rId%d" Type="%s%s" Target="%s"/>`, i/2+1, relBase, pairs[i], pairs[i+1])
	}
	out.WriteString(`</Relationships>`)
	return out.String()
}

func contentTypes(kind string) string {
	return `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override PartName="/main" ContentType="application/vnd.openxmlformats-officedocument.` + kind + `.main+xml"/></Types>`
}

// docxOf wraps a body; more are further name, content pairs.
func docxOf(body string, more ...string) []byte {
	parts := []string{
		"[Content_Types].xml", contentTypes("wordprocessingml.document"), "_rels/.rels", relsOf("officeDocument", "word/document.xml"),
		"word/document.xml", `<?xml version="1.0"?><w:document ` + wordNS + `><w:body>` + body + `</w:body></w:document>`,
	}
	return zipOf(append(parts, more...)...)
}

func para(text string) string { return "<w:p><w:r><w:t>" + text + "</w:t></w:r></w:p>" }

func styled(style, text string) string {
	return `<w:p><w:pPr><w:pStyle w:val="` + style + `"/></w:pPr><w:r><w:t>` + text + "</w:t></w:r></w:p>"
}

// pdfOf makes a PDF with one content stream per page; each is PDF operators.
func pdfOf(pages ...string) []byte {
	var out bytes.Buffer
	var offsets []int
	object := func(format string, args ...any) {
		offsets = append(offsets, out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n", len(offsets))
		fmt.Fprintf(&out, format, args...)
		out.WriteString("\nendobj\n")
	}
	out.WriteString("%PDF-1.4\n")
	object("<< /Type /Catalog /Pages 2 0 R >>")
	var kids []string
	for i := range pages {
		kids = append(kids, fmt.Sprintf("%d 0 R", 5+2*i))
	}
	object("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), len(pages))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >>")
	for i, content := range pages {
		object("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F0 3 0 R /F1 4 0 R >> >> /Contents %d 0 R >>", 6+2*i)
		object("<< /Length %d >>\nstream\n%s\nendstream", len(content), content)
	}
	xref := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, at := range offsets {
		fmt.Fprintf(&out, "%010d 00000 n \n", at)
	}
	fmt.Fprintf(&out, "trailer\n<< /Root 1 0 R /Size %d >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, xref)
	return out.Bytes()
}

// pdfLines shows lines of text from the top of a page: "# x" large, "* x" bold, "" a gap.
func pdfLines(lines ...string) string {
	var out strings.Builder
	y := 740
	for _, l := range lines {
		font, size := "F0", 11
		switch {
		case strings.HasPrefix(l, "# "):
			size, l = 20, l[2:]
		case strings.HasPrefix(l, "* "):
			font, l = "F1", l[2:]
		}
		if l != "" {
			fmt.Fprintf(&out, "BT /%s %d Tf 72 %d Td (%s) Tj ET\n", font, size, y, strings.NewReplacer("(", `\(`, ")", `\)`).Replace(l))
		}
		y -= 14
	}
	return out.String()
}

// pptxOf makes a presentation of one slide with these shapes; more are further name, content pairs.
func pptxOf(shapes string, more ...string) []byte {
	parts := []string{
		"[Content_Types].xml", contentTypes("presentationml.presentation"), "_rels/.rels", relsOf("officeDocument", "ppt/presentation.xml"),
		"ppt/presentation.xml", `<p:presentation ` + drawNS + `><p:sldIdLst><p:sldId id="256" r:id="rId1"/></p:sldIdLst></p:presentation>`,
		"ppt/_rels/presentation.xml.rels", relsOf("slide", "slides/slide1.xml"),
		"ppt/slides/slide1.xml", `<p:sld ` + drawNS + `><p:cSld><p:spTree>` + shapes + `</p:spTree></p:cSld></p:sld>`,
	}
	return zipOf(append(parts, more...)...)
}

// xlsxOf makes a workbook of one sheet with these rows, the shared string "shared", and cell styles 0 plain, 1 date, 2 percent.
func xlsxOf(rows string) []byte {
	return zipOf("[Content_Types].xml", contentTypes("spreadsheetml.sheet"), "_rels/.rels", relsOf("officeDocument", "xl/workbook.xml"),
		"xl/workbook.xml", `<workbook `+sheetNS+`><sheets><sheet name="First" sheetId="1" r:id="rId1"/></sheets></workbook>`,
		"xl/_rels/workbook.xml.rels", relsOf("worksheet", "worksheets/sheet1.xml", "sharedStrings", "sharedStrings.xml", "styles", "styles.xml"),
		"xl/sharedStrings.xml", `<sst `+sheetNS+`><si><r><t>sha</t></r><r><t>red</t></r><rPh><t>phonetic</t></rPh></si></sst>`,
		"xl/styles.xml", `<styleSheet `+sheetNS+`><numFmts><numFmt numFmtId="164" formatCode="[Red]0.0%"/></numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/></cellXfs></styleSheet>`,
		"xl/worksheets/sheet1.xml", `<worksheet `+sheetNS+`><sheetData>`+rows+`</sheetData></worksheet>`)
}

// odfOf makes an OpenDocument file of a kind: text, spreadsheet, presentation.
func odfOf(kind, body string) []byte {
	return zipOf("mimetype", "application/vnd.oasis.opendocument."+kind, "META-INF/manifest.xml", "<manifest/>",
		"content.xml", `<office:document-content `+odfNS+`><office:body><office:`+kind+`>`+body+`</office:`+kind+`></office:body></office:document-content>`)
}
