package ingest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/htmlindex"
)

func parseBytes(t *testing.T, name string, data []byte) *Document {
	t.Helper()
	d, err := Parse(t.Context(), name, data, Limits{})
	require.NoError(t, err)
	requireSound(t, d)
	return d
}

// requireSound checks the invariants of documents.
func requireSound(t testing.TB, d *Document) {
	t.Helper()
	require.True(t, utf8.ValidString(d.Text), "text is UTF-8")
	require.NotContains(t, d.Text, "\x00")
	require.NotContains(t, d.Text, "\r")
	require.False(t, strings.HasPrefix(d.Text, "\ufeff"))
	require.True(t, utf8.ValidString(d.Title))
	require.NotEmpty(t, d.Pages)
	at := 0
	for _, p := range d.Pages {
		require.GreaterOrEqual(t, p.Start, at)
		require.GreaterOrEqual(t, p.End, p.Start)
		require.Empty(t, strings.TrimSpace(d.Text[at:p.Start]), "text between pages")
		at = p.End
	}
	require.Empty(t, strings.TrimSpace(d.Text[at:]), "text after the last page")
	at = 0
	for _, b := range d.Blocks {
		require.GreaterOrEqual(t, b.Start, at, "blocks overlap")
		require.Greater(t, b.End, b.Start)
		require.LessOrEqual(t, b.End, len(d.Text))
		require.True(t, utf8.RuneStart(d.Text[b.Start]))
		if b.Kind == Table {
			require.GreaterOrEqual(t, b.HeaderEnd, b.Start)
			require.LessOrEqual(t, b.HeaderEnd, b.End)
		}
		at = b.End
	}
}

func TestParseFormats(t *testing.T) {
	long := strings.Repeat("The warehouse opens at eight and closes at six. ", 20)
	for _, c := range []struct {
		name     string
		data     []byte
		kind     string
		want     []string
		must     []string // not in the text
		warnings []string
	}{
		{name: "a.txt", data: []byte("Title\n=====\n\nOne\r\ntwo.\r\n"), kind: "txt", want: []string{"One\ntwo."}},
		{name: "nul.txt", data: []byte("before\x00after and a lot more text to be sure"), kind: "txt", want: []string{"beforeafter"}, warnings: []string{WarnNUL}},
		{name: "bad.txt", data: []byte("sound ünïcödé text with öne bad byte: \xff and möre äöü text"), kind: "txt", want: []string{"byte: \uFFFD and"}, warnings: []string{WarnEncoding}},
		{name: "a.md", data: []byte("---\ntitle: Rules\n---\n# One\n\ntext\n\n- a\n  - b\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n```go\nf()\n```\n"), kind: "md", want: []string{"# One", "| 1 | 2 |"}},
		{name: "a.go", data: []byte("package a\n\nfunc f() {\n}\n\nfunc g() {}\n"), kind: "code", want: []string{"func g"}},
		{name: "Makefile", data: []byte("all:\n\techo\n"), kind: "code", want: []string{"\techo"}},
		{name: "a.csv", data: []byte("name;age\n\"Smith; J\";3\n"), kind: "csv", want: []string{`"Smith; J";3`}},
		{name: "a.json", data: []byte(`{"name":"Ann \"A\" B","tags":["x","y"],"n":1.50,"o":{"k":null,"t":true}}`), kind: "json", want: []string{`name: Ann "A" B`, "n: 1.50", "t: true"}, must: []string{"null"}},
		{name: "a.jsonl", data: []byte("{\"a\":\"first\"}\n{\"a\":\"second\"}\n"), kind: "jsonl", want: []string{"a: first", "a: second"}},
		{name: "a.ipynb", data: []byte(`{"nbformat":4,"cells":[{"cell_type":"markdown","source":["# H\n","text"]},{"cell_type":"code","source":"x = 1","outputs":[{"text":["out\n"]},{"data":{"text/plain":"42","image/png":"iVBOR"}}]}]}`), kind: "ipynb", want: []string{"# H\ntext", "x = 1", "out", "42"}, must: []string{"iVBOR"}},
		{name: "a.xml", data: []byte("<?xml version='1.0'?><r><title>T</title><i a='x'>one</i><i><![CDATA[<p>two</p>]]></i><!-- no --></r>"), kind: "xml", want: []string{"one", "two"}, must: []string{"<p>", "no"}},
		{name: "page", data: []byte("<!DOCTYPE html><title>Site</title><nav>menu</nav><script>evil()</script><h1>Head</h1><p>Text<br>line</p><ul><li>a<ol><li>b</ol></ul><table><tr><th>k<th>v<tr><td rowspan=2>x<td>1<tr><td>2</table><p hidden>secret</p><pre>a  b\n c</pre>"), kind: "html",
			want: []string{"Site", "Head", "Text\nline", "- a", "1. b", "k\tv\nx\t1\nx\t2", "a  b\n c"}, must: []string{"menu", "evil", "secret"}},
		{name: "nav.html", data: []byte("<html><body><nav>menu menu</nav><main><h1>Hours</h1><p>" + long + "</p></main><footer>legal</footer></body></html>"), kind: "html", want: []string{"Hours", "opens at eight"}, must: []string{"menu", "legal"}},
		{name: "a.rtf", data: []byte(`{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\info{\title Letter}}{\*\generator X;}Caf\'e9 \u8364?5\par{\b bold} \{x\}\par a\cell b\cell\row}`), kind: "rtf", want: []string{"Café €5", "bold {x}", "a\tb"}, must: []string{"Arial", "generator", "?5"}},
		{name: "a.eml", data: []byte("From: a@x.org\r\nTo: b@x.org\r\nSubject: =?utf-8?q?Caf=C3=A9?=\r\nDate: Mon, 2 Jan 2006 15:04:05 +0000\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n--B\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nGr=FC=DFe\r\n--B\r\nContent-Type: text/csv\r\nContent-Disposition: attachment; filename=\"../t.csv\"\r\n\r\nk,v\r\nz,9\r\n--B--\r\n"), kind: "eml",
			want: []string{"Café", "From: a@x.org", "Grüße", "t.csv", "z,9"}, must: []string{".."}},
		{name: "box", data: []byte("From a@x Mon Jan  2 15:04:05 2006\nFrom: a@x\nSubject: one\n\nfirst\n>From here\n\nFrom b@x Mon Jan  2 15:04:05 2006\nFrom: b@x\nSubject: two\n\nsecond\n"), kind: "mbox", want: []string{"one", "first\nFrom here", "two", "second"}},
		{name: "a.zip", data: zipOf("b.txt", "beta text", "../../a.md", "# alpha\n", ".git/x", "hidden", "p.png", "\x89PNG\r\n\x1a\n\x00\x00\x00\x00"), kind: "zip", want: []string{"beta text", "# alpha", "a.md"}, must: []string{"..", "hidden"}, warnings: []string{WarnAttachments}},
		{name: "a.tar", data: tarOf("x/a.txt", "in the tar"), kind: "tar", want: []string{"x/a.txt", "in the tar"}, must: []string{"passwd"}},
		{name: "a.tgz", data: gzipOf(tarOf("a.txt", "in the tar")), kind: "gzip", want: []string{"in the tar"}},
		{name: "a.txt.gz", data: gzipOf([]byte("compressed words")), kind: "gzip", want: []string{"compressed words"}},
		{name: "a.pdf", data: pdfOf(pdfLines("# Leave", "", "Employees get thirty days of leave.", "It is taken by agreement."), pdfLines("Second page.")), kind: "pdf", want: []string{"thirty days", "Second page."}},
		{name: "wrong.txt", data: pdfOf(pdfLines("A PDF by another name.")), kind: "pdf", want: []string{"another name"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := parseBytes(t, c.name, c.data)
			require.Equal(t, c.kind, d.Kind)
			for _, w := range c.want {
				require.Contains(t, d.Text, w)
			}
			for _, m := range c.must {
				require.NotContains(t, d.Text, m)
			}
			require.Equal(t, c.warnings, d.Warnings)
		})
	}
}

func TestParseRefuses(t *testing.T) {
	encryptedZip := zipOf("a.txt", "text")
	encryptedZip[6] |= 1 // general purpose flag in the local header
	i := strings.Index(string(encryptedZip), "PK\x01\x02")
	encryptedZip[i+8] |= 1
	pdf := pdfOf(pdfLines("text"))
	for _, c := range []struct {
		name  string
		data  []byte
		class Class
	}{
		{"empty", nil, Empty},
		{"blank.txt", []byte(" \r\n\t\x00\n"), Empty},
		{"x.pdf", []byte("not one at all"), Corrupt},
		{"x.pdf", []byte("%PDF-1.7\nnothing follows\n%%EOF"), Corrupt},
		{"cut.pdf", pdf[:len(pdf)/3], Corrupt},
		{"blank.pdf", pdfOf("", ""), NoText},
		{"x.docx", []byte("plain words"), Corrupt},
		{"x.docx", docxOf(para("text"))[:300], Corrupt},
		{"nodoc.docx", zipOf("[Content_Types].xml", contentTypes("wordprocessingml.document"), "word/x", ""), Corrupt},
		{"x.docx", []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + strings.Repeat("\x00", 600) + "E\x00n\x00c\x00r\x00y\x00p\x00t\x00e\x00d\x00P\x00a\x00c\x00k\x00a\x00g\x00e\x00"), Encrypted},
		{"x.xls", []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1W\x00o\x00r\x00k\x00b\x00o\x00o\x00k\x00"), Unsupported},
		{"secret.zip", encryptedZip, Encrypted},
		{"pic.png", []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01"), Unsupported},
		{"noise", []byte(strings.Repeat("\x01\x02\x9c\x03\x7f\x05", 100)), Unsupported},
		{"only.zip", zipOf("p.png", "\x89PNG\r\n\x1a\n\x00\x00\x00\x00\x01\x02\x03"), Unsupported},
		{"blank.docx", docxOf(para("")), NoText},
		{"bomb.docx", docxOf(`<!DOCTYPE d [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>` + para("&b;")), Corrupt},
		{"xxe.docx", docxOf(para("&passwd;")), Corrupt},
		{"deep.json", []byte(strings.Repeat("[", 300) + strings.Repeat("]", 300)), TooDeep},
		{"deep.xml", []byte("<?xml version='1.0'?>" + strings.Repeat("<a>", 1000) + "x" + strings.Repeat("</a>", 1000)), TooDeep},
		{"deep.rtf", []byte(`{\rtf1 ` + strings.Repeat("{", 2000) + "x"), TooDeep},
		{"drm.epub", zipOf("mimetype", "application/epub+zip", "META-INF/container.xml", `<container><rootfile full-path="o.opf"/></container>`,
			"o.opf", `<package><manifest><item id="a" href="a.xhtml"/></manifest><spine><itemref idref="a"/></spine></package>`, "a.xhtml", "x",
			"META-INF/encryption.xml", `<encryption><EncryptedData><CipherData><CipherReference URI="a.xhtml"/></CipherData></EncryptedData></encryption>`), Encrypted},
	} {
		t.Run(c.name+"/"+string(c.class), func(t *testing.T) {
			_, err := Parse(t.Context(), c.name, c.data, Limits{})
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.class, e.Class, e.Message)
			require.NotEmpty(t, e.Message)
			require.Nil(t, e.Stack, "a reader panicked")
		})
	}
}

func TestParseLimits(t *testing.T) {
	nested := []byte("at the bottom of it all")
	for range 12 {
		nested = zipOf("n.zip", string(nested))
	}
	many := make([]string, 0, 400)
	for range 200 {
		many = append(many, "a.txt", "x")
	}
	zeros := strings.Repeat("0", 24<<20)
	for _, c := range []struct {
		name   string
		data   []byte
		limits Limits
		class  Class
	}{
		{"big.txt", make([]byte, 2000), Limits{FileBytes: 1000}, TooLarge},
		{"text.txt", []byte(strings.Repeat("word ", 1000)), Limits{TextBytes: 1000}, TooLarge},
		{"ratio.gz", gzipOf([]byte(zeros)), Limits{}, TooLarge},
		{"ratio.zip", zipOf("a.txt", zeros), Limits{}, TooLarge},
		{"expand.zip", zipOf("a.txt", strings.Repeat("word ", 1000)), Limits{ExpandBytes: 1000}, TooLarge},
		{"nested.zip", nested, Limits{}, TooDeep},
		{"many.zip", zipOf(many...), Limits{Entries: 100}, TooLarge},
		{"pages.pdf", pdfOf(make([]string, 20)...), Limits{Entries: 10}, TooLarge},
		{"slow.pdf", pdfOf(slices.Repeat([]string{pdfLines("a", "b", "c")}, 500)...), Limits{Time: 5 * time.Millisecond}, TooLarge},
		{"slow.docx", docxOf(strings.Repeat(para("text"), 20000)), Limits{Time: time.Millisecond}, TooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(t.Context(), c.name, c.data, c.limits)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.class, e.Class, e.Message)
		})
	}
}

func TestParseCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Parse(ctx, "a.docx", docxOf(para("text")), Limits{})
	require.ErrorIs(t, err, context.Canceled)
}

// TestPanicIsCorrupt: a reader's panic must not reach the caller.
func TestPanicIsCorrupt(t *testing.T) {
	saved := formats["txt"]
	defer func() { formats["txt"] = saved }()
	formats["txt"] = format{"txt", func(context.Context, *source, *builder) error { panic("out of range") }}
	_, err := Parse(t.Context(), "a.txt", []byte("text"), Limits{})
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, Corrupt, e.Class)
	require.Contains(t, string(e.Stack), "parse_test.go")
}

func TestSourceOffsets(t *testing.T) {
	file := "\xef\xbb\xbf# Über\r\n\r\nfirst\x00 paragraph\r\nof two lines\r\n\r\n- item\r\n\r\n\r\nlast"
	for _, name := range []string{"a.md", "a.txt"} {
		d := parseBytes(t, name, []byte(file))
		require.NotEmpty(t, d.Blocks)
		for _, b := range d.Blocks {
			got, _, _ := normalise([]byte(file[b.SrcStart:b.SrcEnd]))
			require.Equal(t, d.Text[b.Start:b.End], got)
		}
	}
}

func TestCharsets(t *testing.T) {
	samples := map[string]string{
		"windows-1252": "Der Käufer zahlt 20 € für „Größe“ – café, naïve, Ærø. Die Lieferung erfolgt frei Haus.",
		"shift_jis":    "羅生門が、朱雀大路にある以上は、この男のほかにも、雨やみをする市女笠や揉烏帽子が、もう二三人はありそうなものである。",
		"euc-jp":       "羅生門が、朱雀大路にある以上は、この男のほかにも、雨やみをする市女笠や揉烏帽子が、もう二三人はありそうなものである。",
		"iso-2022-jp":  "羅生門が、朱雀大路にある以上は、この男のほかにも。",
		"gb18030":      "中华人民共和国公民在法律面前一律平等。任何公民享有宪法和法律规定的权利，同时必须履行宪法和法律规定的义务。",
		"big5":         "人人生而自由,在尊嚴和權利上一律平等。他們賦有理性和良心,並應以兄弟關係的精神相對待。",
		"euc-kr":       "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 부여받았으며",
		"windows-1251": "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью.",
		"koi8-r":       "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью.",
		"windows-1253": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
		"windows-1250": "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv. Jsou nadáni rozumem a svědomím",
		"iso-8859-2":   "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Są oni obdarzeni rozumem i sumieniem",
		"windows-1254": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana sahiptirler",
		"windows-1256": "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. وقد وهبوا عقلا وضميرا",
		"windows-874":  "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
		"macintosh":    "Der Käufer zahlt für Größe, café, naïve",
		"windows-1255": "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה ובמצפון",
		"utf-8":        "Größe 日本語 текст",
		"utf-16le":     "plain words and 日本語",
		"utf-16be":     "plain words and 日本語",
	}
	for name, text := range samples {
		t.Run(name, func(t *testing.T) {
			enc, err := htmlindex.Get(name)
			require.NoError(t, err)
			data, err := enc.NewEncoder().Bytes([]byte(text))
			require.NoError(t, err)
			got, _ := decode(data, "")
			require.Equal(t, text, string(got))
			got, _ = decode(data, name)
			require.Equal(t, text, string(got), "declared")
		})
	}
	got, _ := decode([]byte("Größe größer"), "iso-8859-1")
	require.Equal(t, "Größe größer", string(got), "a wrong label on UTF-8")
}

func TestLanguage(t *testing.T) {
	for want, text := range map[string]string{
		"en": "The employee must notify the department within thirty days of any change of address.",
		"de": "Der Mitarbeiter muss die Abteilung innerhalb von dreißig Tagen über jede Änderung der Anschrift unterrichten.",
		"ja": "従業員は住所の変更を三十日以内に部署に通知しなければならない。",
		"ko": "직원은 주소 변경을 삼십 일 이내에 부서에 통지해야 한다.",
		"zh": "员工必须在三十天内将任何地址变更通知部门。",
		"ru": "Сотрудник обязан уведомить отдел о любом изменении адреса в течение тридцати дней.",
		"":   "42 17 3.5",
	} {
		require.Equal(t, want, language(text), text)
	}
}

// TestDeadlinePages: pages that were read put the end off, but not without end.
func TestDeadlinePages(t *testing.T) {
	l := newDeadline(time.Hour, func() {})
	defer l.timer.Stop()
	began := l.at
	l.page()
	require.Equal(t, 15*time.Second, l.at.Sub(began))
	for range 20_000 {
		l.page()
	}
	require.Equal(t, 9*time.Hour, l.at.Sub(began))
}
