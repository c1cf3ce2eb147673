package ingest

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// pdfHyphen is where PDFium joined two lines over a hyphen; older builds write
// U+0002.
const pdfHyphen = "\uFFFE"

// pdfBlock is a paragraph, list item or heading of a page.
type pdfBlock struct {
	text  string
	lines int
	size  float64
	bold  bool
	list  bool
	rows  int // lines with gaps
}

// isTable: most of its lines have columns.
func (k *pdfBlock) isTable() bool { return k.rows >= 2 && k.rows*3 >= k.lines*2 }

// layout turns lines into blocks: paragraphs by spacing and indentation,
// headings by size and weight against the body text.
func (p *pdfReader) layout(b *builder) {
	for i := range p.pages {
		p.pages[i].lines = append(p.pages[i].lines, p.pages[i].notes...)
	}
	hyphens := newHyphenation(p.pages)
	pages := make([][]pdfBlock, len(p.pages))
	for i, page := range p.pages {
		for j := range page.lines {
			page.lines[j].text = pdfText(hyphens.resolve(page.lines[j].text))
		}
		pages[i] = pageBlocks(page.lines)
	}
	levels := headingLevels(pages)
	for i, blocks := range pages {
		b.page(i + 1)
		blank, garbled := true, garbage{}
		for _, k := range blocks {
			garbled.add(k.text)
			text := printable(k.text)
			blank = blank && strings.TrimSpace(text) == ""
			switch level := levels(k); {
			case level > 0:
				b.add(Heading, level, lineWhite.Replace(text))
			case k.isTable():
				b.addRows(text)
			case k.list:
				b.add(ListItem, 1, text)
			default:
				b.add(Paragraph, 0, text)
			}
		}
		b.pages[i].OCR = p.pages[i].ocr
		p.place(b, i)
		if blank {
			p.empty++
		}
		if garbled.excessive() {
			b.warn(WarnGarbled)
		}
		if p.pages[i].ocr {
			b.warn(WarnOCR)
		}
	}
	b.title = p.documentTitle(b)
}

// documentTitle is the title in the file's properties unless a program made
// it up, else the first of the largest headings.
func (p *pdfReader) documentTitle(b *builder) string {
	title := strings.TrimSpace(p.title)
	if utf8.RuneCountInString(title) > 3 && !madeUpTitle.MatchString(title) {
		return title
	}
	for _, k := range b.blocks {
		if k.Kind == Heading && k.Level == 1 {
			return b.string()[k.Start:k.End]
		}
	}
	return ""
}

var madeUpTitle = regexp.MustCompile(`(?i)^(untitled|microsoft|powerpoint|slide \d|document ?\d*$|\d+$|title$)|\.(docx?|pdf|indd|qxd|tex|dvi|xlsx?|pptx?|p65|fm|pages|rtf|odt)$|^[a-z]:\\`)

var ligatures = strings.NewReplacer("\ufb00", "ff", "\ufb01", "fi", "\ufb02", "fl", "\ufb03", "ffi", "\ufb04", "ffl", "\ufb05", "st", "\ufb06", "st",
	// bullets of symbol fonts
	"\uf0b7", "•", "\uf0a7", "•", "\uf0d8", "•", "\uf076", "•", "\uf0fc", "✓", "\uf02d", "-")

// pdfText undoes what typesetting did to characters: ligatures are one glyph
// but two letters, accents may be drawn as separate marks.
func pdfText(s string) string {
	s = ligatures.Replace(s)
	if strings.ContainsAny(s, spacingAccents) {
		s = spacingAccent.ReplaceAllStringFunc(s, combine)
	}
	return norm.NFC.String(s)
}

// TeX draws an accent before its letter: "na¨ıve".
const spacingAccents = "¨´ˆ˜ˇ˘˚"

var (
	spacingAccent = regexp.MustCompile(`[` + spacingAccents + `]\pL`)
	combining     = map[rune]string{'¨': "\u0308", '´': "\u0301", 'ˆ': "\u0302", '˜': "\u0303", 'ˇ': "\u030c", '˘': "\u0306", '˚': "\u030a"}
	dotless       = strings.NewReplacer("ı", "i", "ȷ", "j")
)

func combine(s string) string {
	accent, n := utf8.DecodeRuneInString(s)
	letter := norm.NFC.String(dotless.Replace(s[n:]) + combining[accent])
	if utf8.RuneCountInString(letter) > 1 { // no such letter: two characters after all
		return s
	}
	return letter
}

// pageBlocks groups a page's lines.
func pageBlocks(lines []pdfLine) []pdfBlock {
	var blocks []pdfBlock
	leading := lineStep(lines)
	edge := rightEdges(lines)
	for i, l := range lines {
		if i > 0 {
			if sep, ok := continues(lines[i-1], l, leading, edge[i-1], edge[i]); ok {
				k := &blocks[len(blocks)-1]
				k.text += sep + l.text
				k.lines++
				k.rows += rowsIn(sep + l.text)
				k.bold = k.bold && l.bold
				continue
			}
		}
		blocks = append(blocks, pdfBlock{text: l.text, lines: 1, size: l.size, bold: l.bold, list: listMark.MatchString(l.text), rows: rowsIn(l.text)})
	}
	return blocks
}

func rowsIn(line string) int { return min(strings.Count(line, "\t"), 1) }

// addRows appends lines of tab-separated cells as a table.
func (b *builder) addRows(text string) {
	var rows [][]string
	for line := range strings.Lines(text) {
		rows = append(rows, strings.Split(strings.TrimRight(line, "\n"), "\t"))
	}
	header := 0
	if !strings.ContainsFunc(strings.Join(rows[0], ""), unicode.IsDigit) {
		header = 1
	}
	b.table(rows, header)
}

// lineStep is the usual distance between lines of a page's paragraphs.
func lineStep(lines []pdfLine) float64 {
	var steps []float64
	for i := 1; i < len(lines); i++ {
		a, b := lines[i-1], lines[i]
		step := a.last - b.first
		if a.height > 0 && abs(a.size-b.size) < 0.06*a.size && step > 0.5*a.height && step < 3*a.height {
			steps = append(steps, step/a.height)
		}
	}
	if len(steps) == 0 {
		return 1.1
	}
	slices.Sort(steps)
	return steps[len(steps)/2]
}

// rightEdges is, for each line, how far lines of its column reach.
func rightEdges(lines []pdfLine) []float64 {
	reach := make(map[int]float64) // by left edge, in steps of 18 points
	bucket := func(l pdfLine) int { return int(math.Floor(l.left / 18)) }
	for _, l := range lines {
		for d := -1; d <= 1; d++ {
			k := bucket(l) + d
			if r, ok := reach[k]; !ok || l.right > r {
				reach[k] = l.right
			}
		}
	}
	edges := make([]float64, len(lines))
	for i, l := range lines {
		edges[i] = reach[bucket(l)]
	}
	return edges
}

var (
	sectionNumber = regexp.MustCompile(`^[0-9]{1,2}(\.[0-9]{1,2}){1,4}\.?\s+\p{Lu}`)
	listMark      = regexp.MustCompile(`^([•◦▪▫‣⁃●○■□◆➢➤✓∗*·–—-]\s|\(?([0-9]{1,2}|[a-zA-Z]|[ivx]{1,4})[.)]\s)`)
	sentenceEnd   = regexp.MustCompile(`[.!?:;。！？：»”"')\]]\s*$`)
)

// continues decides whether b goes on with a's paragraph, and what separates
// them; leading is the page's usual step between lines, edgeA and edgeB are how
// far the columns of a and b reach.
func continues(a, b pdfLine, leading, edgeA, edgeB float64) (sep string, ok bool) {
	if a.paragraph != 0 && b.paragraph != 0 { // recognition has decided it
		return blank(a.text, b.text), a.paragraph == b.paragraph
	}
	height := max(a.height, b.height)
	if height == 0 { // no geometry: keep the lines, as one paragraph
		return "\n", true
	}
	step := a.last - b.first
	if abs(step) < 0.5*height && b.left >= a.right-0.3*height { // the same row
		switch gap := b.left - a.right; {
		case gap > 1.2*height:
			return "\t", true
		case gap < 0.12*height || strings.ContainsAny(b.text[:1], ",.;:)"):
			return "", true
		}
		return " ", true
	}
	row := a.hasColumns() || b.hasColumns()
	full := !row && a.right-a.left >= 0.8*(edgeA-a.left)
	ended := sentenceEnd.MatchString(a.text)
	caption := ended && !row && b.right-b.left < 0.7*(edgeB-b.left) && !sentenceEnd.MatchString(b.text) // a paragraph's short last line would end a sentence
	lower := startsLower(b.text)
	if step < 0 || step > 8*height { // another column, or back up the page
		if full && !ended && lower && abs(a.size-b.size) < 0.06*a.size {
			return blank(a.text, b.text), true
		}
		return "", false
	}
	switch {
	case abs(a.size-b.size) > 0.08*a.size, a.bold != b.bold, caption && !listMark.MatchString(a.text),
		step > (1.3*leading+0.1)*height && step > 1.45*height,
		listMark.MatchString(b.text) && (ended || !full || listMark.MatchString(a.text)),
		b.left > a.left+0.6*height && b.left < a.left+4*height && ended && !listMark.MatchString(a.text): // an indented first line
		return "", false
	case full || lower && !ended && !row:
		return blank(a.text, b.text), true
	}
	return "\n", true
}

// blank is what stands between words of two lines: nothing in scripts that
// don't set words apart.
func blank(a, b string) string {
	last, _ := utf8.DecodeLastRuneInString(a)
	first, _ := utf8.DecodeRuneInString(b)
	if unspaced(last) && unspaced(first) {
		return ""
	}
	return " "
}

func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r >= 0x3000 && r < 0x3040 || r >= 0xff00 && r < 0xffa0
}

func startsLower(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLower(r)
}

// headingLevels finds the document's body size and ranks the larger sizes. The
// result gives a block's level, 0 for body text.
func headingLevels(pages [][]pdfBlock) func(pdfBlock) int {
	chars := make(map[float64]int) // by size
	pagesOf := make(map[string]int)
	total := 0
	for _, blocks := range pages {
		seen := make(map[string]bool)
		for _, k := range blocks {
			chars[roundSize(k.size)] += len(k.text)
			total += len(k.text)
			if key := withoutDigits(k.text); !seen[key] {
				seen[key] = true
				pagesOf[key]++
			}
		}
	}
	body, most := 0.0, -1
	for _, size := range slices.Sorted(maps.Keys(chars)) {
		if chars[size] > most {
			body, most = size, chars[size]
		}
	}
	rank := func(k pdfBlock) (float64, bool) {
		letters := strings.IndexFunc(k.text, unicode.IsLetter) >= 0
		switch {
		case body == 0 || !letters || k.lines > 3 || utf8.RuneCountInString(k.text) > 200 || len(k.text) < 3:
			return 0, false
		case len(pages) > 3 && pagesOf[withoutDigits(k.text)] > 2: // a running header
			return 0, false
		case k.size >= 1.12*body:
			return roundSize(k.size), true
		case (k.bold || sectionNumber.MatchString(k.text)) && k.size >= 0.95*body && k.lines <= 2 && len(k.text) <= 120 && !strings.ContainsAny(k.text[len(k.text)-1:], ".,;"):
			return body, true
		}
		return 0, false
	}
	sizes := make(map[float64]bool)
	inHeadings := 0
	for _, blocks := range pages {
		for _, k := range blocks {
			if size, ok := rank(k); ok {
				sizes[size] = true
				inHeadings += len(k.text)
			}
		}
	}
	if inHeadings*3 > total { // slides, forms: sizes say nothing about structure
		return func(pdfBlock) int { return 0 }
	}
	order := slices.SortedFunc(maps.Keys(sizes), func(a, b float64) int { return cmp.Compare(b, a) })
	return func(k pdfBlock) int {
		size, ok := rank(k)
		if !ok {
			return 0
		}
		i, _ := slices.BinarySearchFunc(order, size, func(a, b float64) int { return cmp.Compare(b, a) })
		return min(i+1, 6)
	}
}

func roundSize(size float64) float64 { return math.Round(size*2) / 2 }

func withoutDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) || unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

// garbage counts characters without meaning on a page: control and private-use
// characters, replacements. Fonts without a map to Unicode yield them.
type garbage struct{ bad, all int }

func (g *garbage) add(text string) {
	for _, r := range text {
		if unicode.IsSpace(r) {
			continue
		}
		g.all++
		if meaningless(r) {
			g.bad++
		}
	}
}

// excessive: one in ten makes a page unreadable; a few symbols don't.
func (g *garbage) excessive() bool { return g.bad >= 5 && g.bad*10 > g.all }

func meaningless(r rune) bool {
	return r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError || unicode.Is(unicode.Co, r) || r&0xfffe == 0xfffe ||
		r >= 0xfdd0 && r <= 0xfdef
}

// printable drops them: an index has no use for what nobody can type.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if meaningless(r) && r != utf8.RuneError {
			return -1
		}
		return r
	}, s)
}

// hyphenation decides, for words split over lines, whether the hyphen is
// part of the word, by how the document writes the word elsewhere.
type hyphenation struct{ words map[string]int }

func newHyphenation(pages []pdfPage) hyphenation {
	h := hyphenation{make(map[string]int)}
	for _, page := range pages {
		for _, l := range page.lines {
			for w := range strings.FieldsSeq(l.text) {
				if !strings.ContainsAny(w, "\ufffe\x02") {
					h.words[bareWord(w)]++
				}
			}
		}
	}
	return h
}

func bareWord(w string) string {
	return strings.ToLower(strings.TrimFunc(w, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }))
}

// resolve replaces PDFium's marks in one line.
func (h hyphenation) resolve(text string) string {
	pieces := strings.Split(strings.ReplaceAll(text, "\x02", pdfHyphen), pdfHyphen)
	out := []byte(pieces[0])
	for _, next := range pieces[1:] {
		head := next[:len(next)-len(strings.TrimLeftFunc(next, isWordRune))]
		tail := out[max(len(out)-100, 0):] // no word is longer
		tail = tail[len(bytes.TrimRightFunc(tail, isWordRune)):]
		joined := h.join(string(tail), head)
		out = append(append(out[:len(out)-len(tail)], joined...), next[len(head):]...)
	}
	return string(out)
}

func isWordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '-' || r == '\'' || r == '’'
}

// compoundEnds are words that make compounds with a hyphen and hardly ever are
// the end of a longer word.
var compoundEnds = set("based related specific oriented friendly driven level quality term wide aware")

// participle: "known", "written", "established".
func participle(word string) bool {
	return len(word) >= 4 && (strings.HasSuffix(word, "ed") || strings.HasSuffix(word, "en") || strings.HasSuffix(word, "wn"))
}

func (h hyphenation) join(a, b string) string {
	joined, hyphened := h.words[bareWord(a+b)], h.words[bareWord(a+"-"+b)]
	last, _ := utf8.DecodeLastRuneInString(a)
	first, _ := utf8.DecodeRuneInString(b)
	switch {
	case hyphened > joined:
		return a + "-" + b
	case joined > 0:
		return a + b
	case compoundEnds[strings.ToLower(b)] && len(a) >= 4, (a == "self" || a == "non") && len(b) >= 4, strings.EqualFold(a, "well") && participle(b), b == "edge" && strings.HasSuffix(a, "ing"):
		return a + "-" + b
	case len(a) >= 4 && len(b) >= 4 && h.words[bareWord(a)] > 0 && h.words[bareWord(b)] > 0: // "mixed-mode"
		return a + "-" + b
	case a == "" || b == "":
		return a + "-" + b
	case unicode.IsDigit(last) || unicode.IsDigit(first), unicode.IsLower(last) && unicode.IsUpper(first):
		return a + "-" + b
	}
	return a + b
}
