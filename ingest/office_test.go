package ingest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDocx(t *testing.T) {
	body := styled("Titel", "The Handbook") +
		`<w:p><w:pPr><w:pStyle w:val="H"/></w:pPr><w:r><w:t>Leave</w:t></w:r></w:p>` +
		`<w:p><w:r><w:t xml:space="preserve">Kept </w:t></w:r><w:del><w:r><w:delText>deleted </w:delText></w:r></w:del><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins>` +
		`<w:moveFrom><w:r><w:t>moved away</w:t></w:r></w:moveFrom><w:r><w:t>&#xAD;soft</w:t><w:tab/><w:t>tab</w:t><w:noBreakHyphen/><w:t>x</w:t></w:r>` +
		`<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r><w:r><w:instrText>PAGE</w:instrText></w:r><w:hyperlink r:id="x"><w:r><w:t> link</w:t></w:r></w:hyperlink><w:r><w:footnoteReference w:id="1"/></w:r></w:p>` +
		`<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="7"/></w:numPr></w:pPr><w:r><w:t>first</w:t></w:r></w:p>` +
		`<w:p><w:pPr><w:numPr><w:ilvl w:val="1"/><w:numId w:val="7"/></w:numPr></w:pPr><w:r><w:t>nested</w:t></w:r></w:p>` +
		`<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="7"/></w:numPr></w:pPr><w:r><w:t>second</w:t></w:r></w:p>` +
		`<w:tbl><w:tr><w:tc>` + para("City") + `</w:tc><w:tc>` + para("Rate") + `</w:tc></w:tr><w:tr><w:tc><w:tcPr><w:vMerge w:val="restart"/></w:tcPr>` + para("Oslo") + para("Norway") + `</w:tc><w:tc>` + para("1") + `</w:tc></w:tr>` +
		`<w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr><w:p/></w:tc><w:tc>` + para("2") + `</w:tc></w:tr></w:tbl>` +
		`<w:sdt><w:sdtContent>` + para("in a control") + `</w:sdtContent></w:sdt>` +
		`<w:p><w:r><mc:AlternateContent><mc:Choice><w:txbxContent>` + para("boxed") + `</w:txbxContent></mc:Choice><mc:Fallback><w:txbxContent>` + para("boxed") + `</w:txbxContent></mc:Fallback></mc:AlternateContent></w:r></w:p>` +
		`<w:p><m:oMath><m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>c</m:t></m:r></m:den></m:f></m:oMath></w:p>`
	d := parseBytes(t, "h.docx", docxOf(body,
		"word/_rels/document.xml.rels", relsOf("styles", "styles.xml", "numbering", "numbering.xml", "footnotes", "footnotes.xml", "header", "header1.xml", "footer", "footer1.xml", "header", "header2.xml"),
		"word/styles.xml", `<w:styles `+wordNS+`><w:style w:styleId="Titel"><w:name w:val="Title"/></w:style><w:style w:styleId="B"><w:name w:val="heading 2"/></w:style><w:style w:styleId="H"><w:name w:val="Mine"/><w:basedOn w:val="B"/></w:style></w:styles>`,
		"word/numbering.xml", `<w:numbering `+wordNS+`><w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:start w:val="3"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl><w:lvl w:ilvl="1"><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1.%2)"/></w:lvl></w:abstractNum><w:num w:numId="7"><w:abstractNumId w:val="0"/></w:num></w:numbering>`,
		"word/footnotes.xml", `<w:footnotes `+wordNS+`><w:footnote w:type="separator" w:id="0">`+para("---")+`</w:footnote><w:footnote w:id="1">`+para("The note.")+`</w:footnote></w:footnotes>`,
		"word/header1.xml", `<w:hdr `+wordNS+`>`+para("Confidential")+`</w:hdr>`, "word/header2.xml", `<w:hdr `+wordNS+`>`+para("Confidential")+`</w:hdr>`,
		"word/footer1.xml", `<w:ftr `+wordNS+`>`+para("Foot")+`</w:ftr>`))
	require.Equal(t, "The Handbook", d.Title)
	require.Equal(t, "The Handbook\n\nLeave\n\nKept insertedsoft tab-x link\n\nThe note.\n\n3. first\n  3.a) nested\n4. second\n\nCity\tRate\nOslo Norway\t1\nOslo Norway\t2\n\nin a control\n\nboxed\n\n(a+b)/c\n\nConfidential\n\nFoot",
		d.Text)
	require.Equal(t, Heading, d.Blocks[1].Kind)
	require.Equal(t, 2, d.Blocks[1].Level)
}

func TestPptx(t *testing.T) {
	shape := func(kind, text string) string {
		return `<p:sp><p:nvSpPr><p:nvPr><p:ph type="` + kind + `"/></p:nvPr></p:nvSpPr><p:txBody>` + text + `</p:txBody></p:sp>`
	}
	line := func(text string) string { return `<a:p><a:r><a:t>` + text + `</a:t></a:r></a:p>` }
	d := parseBytes(t, "s.pptx", pptxOf(shape("title", line("Plan"))+shape("body", line("one")+`<a:p><a:pPr lvl="1"/><a:r><a:t>two</a:t></a:r></a:p>`)+shape("sldNum", line("7"))+
		`<p:graphicFrame><a:tbl><a:tblPr firstRow="1"/><a:tr><a:tc>`+line("k")+`</a:tc><a:tc>`+line("v")+`</a:tc></a:tr><a:tr><a:tc>`+line("x")+`</a:tc><a:tc>`+line("9")+`</a:tc></a:tr></a:tbl></p:graphicFrame>`,
		"ppt/slides/_rels/slide1.xml.rels", relsOf("notesSlide", "../notesSlides/n1.xml"),
		"ppt/notesSlides/n1.xml", `<p:notes `+drawNS+`><p:cSld><p:spTree>`+shape("sldImg", line("image"))+shape("body", line("Say hello."))+`</p:spTree></p:cSld></p:notes>`))
	require.Equal(t, "Plan\n\n- one\n  - two\n\nk\tv\nx\t9\n\nSay hello.", d.Text)
	require.Equal(t, []Page{{Number: 1, End: len(d.Text)}}, d.Pages)
	require.Equal(t, "Plan", d.Title)
}

func TestXlsx(t *testing.T) {
	d := parseBytes(t, "b.xlsx", xlsxOf(
		`<row r="1"><c r="B1" t="inlineStr"><is><t>Report</t></is></c></row>`+
			`<row r="2"><c r="B2" t="inlineStr"><is><t>day</t></is></c><c r="C2" t="s"><v>0</v></c><c r="XFD2" t="inlineStr"><is><t>share</t></is></c></row>`+
			`<row r="3"><c r="B3" s="1"><v>45000</v></c><c r="C3"><v>0.30000000000000004</v></c><c r="XFD3" s="2"><v>0.255</v></c></row>`+
			`<row r="9"><c t="b"><v>1</v></c><c t="e"><v>#REF!</v></c></row>`))
	require.Equal(t, "First\n\nReport\n\nday\tshared\tshare\n2023-03-15\t0.3\t25.5%\n\nTRUE\t#REF!", d.Text)
	require.Equal(t, 1, d.Pages[0].Number)
}

func TestODF(t *testing.T) {
	d := parseBytes(t, "a.odt", odfOf("text", `<text:tracked-changes><text:deletion><text:p>deleted</text:p></text:deletion></text:tracked-changes><text:h text:outline-level="1">Head</text:h>`+
		`<text:p>One<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>Note.</text:p></text:note-body></text:note> two<text:line-break/>three</text:p>`+
		`<text:list><text:list-item><text:p>a</text:p><text:list><text:list-item><text:p>b</text:p></text:list-item></text:list></text:list-item></text:list>`))
	require.Equal(t, "Head\n\nOne two\nthree\n\nNote.\n\n- a\n  - b", d.Text)
	cell := func(attrs, text string) string {
		return `<table:table-cell` + attrs + `><text:p>` + text + `</text:p></table:table-cell>`
	}
	d = parseBytes(t, "a.ods", odfOf("spreadsheet", `<table:table table:name="S"><table:table-row>`+cell("", "k")+cell("", "v")+`</table:table-row>`+
		`<table:table-row table:number-rows-repeated="2">`+cell("", "x")+cell(` table:number-columns-repeated="2"`, "1")+`<table:table-cell table:number-columns-repeated="16000"/></table:table-row>`+
		`<table:table-row table:number-rows-repeated="1048000"><table:table-cell table:number-columns-repeated="16384"/></table:table-row></table:table>`))
	require.Equal(t, "S\n\nk\tv\nx\t1\t1\nx\t1\t1", d.Text)
	d = parseBytes(t, "a.odp", odfOf("presentation", `<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>T</text:p></draw:text-box></draw:frame><draw:frame><draw:text-box><text:p>body</text:p></draw:text-box></draw:frame></draw:page><draw:page/>`))
	require.Equal(t, "T\n\nbody", d.Text[d.Pages[0].Start:d.Pages[0].End])
	require.Len(t, d.Pages, 2)
}

// TestStrictAndForeignPrefixes: the namespace counts, not its prefix nor its edition.
func TestStrictAndForeignPrefixes(t *testing.T) {
	d := parseBytes(t, "s.docx", zipOf("[Content_Types].xml", contentTypes("wordprocessingml.document"), "_rels/.rels", relsOf("officeDocument", "/word/main.xml"),
		"word/main.xml", `<n:document xmlns:n="http://purl.oclc.org/ooxml/wordprocessingml/main"><n:body><n:p><n:r><n:t>strict</n:t></n:r></n:p></n:body></n:document>`))
	require.Equal(t, "strict", d.Text)
}

func TestPDFLayout(t *testing.T) {
	d := parseBytes(t, "p.pdf", pdfOf(pdfLines(
		"# Employee Handbook", "",
		"* Leave of absence", "",
		"Employees may take up to thirty days of leave in a calendar year, and those",
		"with five years of service may take ten days more, by agreement with their",
		"manager.", "",
		"A second paragraph begins after the gap and says that leave which is not taken",
		"in one year is added to that of the next.",
		"- first item of a list",
		"- second item of a list"), pdfLines("Page two goes on.")))
	var kinds []BlockKind
	for _, b := range d.Blocks {
		kinds = append(kinds, b.Kind)
	}
	require.Equal(t, []BlockKind{Heading, Heading, Paragraph, Paragraph, ListItem, ListItem, Paragraph}, kinds, d.Text)
	require.Contains(t, d.Text, "and those with five years of service may take ten days more, by agreement with their manager.")
	require.Equal(t, "Employee Handbook", d.Title)
	require.Equal(t, []int{1, 2}, []int{d.Blocks[0].Level, d.Blocks[1].Level})
}

// TestPDFTable: cells are told apart by the gaps between them.
func TestPDFTable(t *testing.T) {
	row := func(y int, a, b string) string {
		return fmt.Sprintf("BT /F0 11 Tf 72 %d Td (%s) Tj ET BT /F0 11 Tf 300 %d Td (%s) Tj ET\n", y, a, y, b)
	}
	d := parseBytes(t, "t.pdf", pdfOf(pdfLines("The limits are these, and they hold for all nights of a trip within the year.")+
		row(700, "City", "Limit")+row(686, "Oslo", "1900")+row(672, "Copenhagen, Stockholm and Helsinki", "2100")+row(658, "Elsewhere", "1500")))
	require.Contains(t, d.Text, "City\tLimit\nOslo\t1900\nCopenhagen, Stockholm and Helsinki\t2100\nElsewhere\t1500")
	last := d.Blocks[len(d.Blocks)-1]
	require.Equal(t, Table, last.Kind)
	require.Equal(t, "City\tLimit", d.Text[last.Start:last.HeaderEnd])
}

func TestPlainHeadings(t *testing.T) {
	d := parseBytes(t, "r.txt", []byte("SECURITY RULES\nOwner: the office\n\n1. Passwords\nUse long ones.\n\n2.1 Visitors\n\nThey sign in.\n\n1. milk\n2. eggs\n\nClosing words.\n"))
	var headings []string
	for _, b := range d.Blocks {
		if b.Kind == Heading {
			headings = append(headings, fmt.Sprint(b.Level, " ", d.Text[b.Start:b.End]))
		}
	}
	require.Equal(t, []string{"1 SECURITY RULES", "2 1. Passwords", "3 2.1 Visitors"}, headings)
	require.Equal(t, "SECURITY RULES", d.Title)
}

func TestHyphenation(t *testing.T) {
	h := newHyphenation([]pdfPage{{lines: []pdfLine{{text: "well-known methods compile the interprocedural analysis; mixed words have a mode"}}}})
	for in, want := range map[string]string{
		"com\ufffepile":               "compile",
		"well\ufffeknown":             "well-known",
		"mixed\ufffemode":             "mixed-mode",
		"rule\x02based":               "rule-based",
		"Jean\ufffePaul":              "Jean-Paul",
		"2010\ufffe2012":              "2010-2012",
		"a\ufffeb\ufffec d":           "abc d",
		"inter\ufffeproce\ufffedural": "interprocedural",
	} {
		require.Equal(t, want, h.resolve(in))
	}
	require.Equal(t, "naïve", pdfText("na¨ıve"))
	require.Equal(t, "office", pdfText("oﬃce"))
}
