package ingest

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/structs"
)

// pdfWord is a word of a line with its place on the page as it is shown.
type pdfWord struct {
	text           string
	x0, y0, x1, y1 float32 // points from the top left corner
	runs           Direction
}

// pdfPage is what was read of a page.
type pdfPage struct {
	lines         []pdfLine
	notes         []pdfLine // text of annotations
	width, height float64   // points, as it is shown
	ocr           bool
}

// affine maps a page's user space to the page as it is shown, in points from
// its top left corner: it holds the page's rotation and crop box.
type affine struct{ a, b, c, d, e, f float64 }

func (m affine) apply(x, y float64) (float64, float64) {
	return m.a*x + m.c*y + m.e, m.b*x + m.d*y + m.f
}

// rect is where a box of user space lies on the page as it is shown.
func (m affine) rect(left, bottom, right, top float64) Rect {
	x0, y0 := m.apply(left, bottom)
	x1, y1 := m.apply(right, top)
	return Rect{min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)}
}

// shown asks PDFium for the page's size and mapping. PageToDevice answers in
// whole pixels, so it is asked about far points on a large device.
func (p *pdfReader) shown(page requests.Page) (m affine, width, height float64, err error) {
	size, err := p.pdf.GetPageSize(&requests.GetPageSize{Page: page})
	if err != nil {
		return m, 0, 0, err
	}
	const scale, far = 100, 10000
	at := func(x, y float64) (float64, float64) {
		got, e := p.pdf.FPDF_PageToDevice(&requests.FPDF_PageToDevice{Page: page, SizeX: int(size.Width * scale), SizeY: int(size.Height * scale), PageX: x, PageY: y})
		if e != nil {
			err = e
			return 0, 0
		}
		return float64(got.DeviceX) / scale, float64(got.DeviceY) / scale
	}
	m.e, m.f = at(0, 0)
	x, y := at(far, 0)
	m.a, m.b = (x-m.e)/far, (y-m.f)/far
	x, y = at(0, far)
	m.c, m.d = (x-m.e)/far, (y-m.f)/far
	return m, size.Width, size.Height, err
}

// words finds the places of a line's words; unit is the UTF-16 index of the
// line in the page's text. A word broken over two lines becomes two.
func (p *pdfReader) words(tp references.FPDF_TEXTPAGE, text string, unit int) []pdfWord {
	var words []pdfWord
	at := p.lineIndex(tp, unit, unit+utf16Len(text)-1)
	start, from := -1, 0 // of the open word: byte and unit
	flush := func(end, to int) {
		if start >= 0 {
			if w, ok := p.word(at, text[start:end], from, to-1); ok {
				words = append(words, w)
			}
		}
		start = -1
	}
	for i, r := range text {
		switch {
		case unicode.IsSpace(r) || r == '\ufffe' || r == '\x02':
			flush(i, unit)
		case unspaced(r):
			flush(i, unit)
			start, from = i, unit
			flush(i+utf8.RuneLen(r), unit+1)
		case start < 0:
			start, from = i, unit
		}
		unit += max(utf16Len(string(r)), 1)
	}
	flush(len(text), unit)
	return words
}

// lineIndex gives boxes by positions in the page's text. Within most lines these
// differ from indices of characters by a constant, which saves asking for each.
func (p *pdfReader) lineIndex(tp references.FPDF_TEXTPAGE, from, to int) func(unit int) (pdfBox, bool) {
	first, ok1 := p.charIndex(tp, from)
	last, ok2 := p.charIndex(tp, to)
	if ok1 && ok2 && last-first == to-from {
		return func(unit int) (pdfBox, bool) { return p.indexBox(tp, unit-from+first) }
	}
	return func(unit int) (pdfBox, bool) { return p.charBox(tp, unit) }
}

func (p *pdfReader) word(at func(unit int) (pdfBox, bool), text string, from, to int) (pdfWord, bool) {
	first, ok := at(from)
	if !ok {
		return pdfWord{}, false
	}
	last := first
	if to > from {
		if last, ok = at(to); !ok {
			last = first
		}
	}
	a := p.toShown.rect(first.left, first.bottom, first.right, first.top)
	b := p.toShown.rect(last.left, last.bottom, last.right, last.top)
	box := a.union(b)
	w := pdfWord{text: text, x0: float32(box.X0), y0: float32(box.Y0), x1: float32(box.X1), y1: float32(box.Y1)}
	switch dx, dy := b.X0+b.X1-a.X0-a.X1, b.Y0+b.Y1-a.Y0-a.Y1; {
	case abs(dy) > 2*abs(dx) && dy > 0:
		w.runs = RunsDown
	case abs(dy) > 2*abs(dx):
		w.runs = RunsUp
	case dx > 0 && strings.ContainsFunc(text, runsLeft) && !strings.ContainsFunc(text, runsRight): // see rightToLeft
		w.runs = RunsLeft
	case dx < 0:
		w.runs = RunsLeft
		if strings.ContainsFunc(text, runsRight) { // runs both ways, so that its ends may lie in its middle
			for unit := from + 1; unit < to; unit++ {
				if c, ok := at(unit); ok {
					box = box.union(p.toShown.rect(c.left, c.bottom, c.right, c.top))
				}
			}
			w.x0, w.y0, w.x1, w.y1 = float32(box.X0), float32(box.Y0), float32(box.X1), float32(box.Y1)
		}
	}
	return w, true
}

// rightToLeft turns words of right-to-left scripts around whose letters PDFium
// gives from left to right: it takes text that is stored as it is read for text
// that is stored as it is seen. unit is the UTF-16 index of text in the page's.
func (p *pdfReader) rightToLeft(tp references.FPDF_TEXTPAGE, text string, unit int) string {
	if !strings.ContainsFunc(text, runsLeft) {
		return text
	}
	runes := []rune(text)
	for i := 0; i < len(runes); {
		j, at := i, unit
		for j < len(runes) && (runsLeft(runes[j]) || j > i && unicode.IsMark(runes[j])) {
			unit += utf16Len(string(runes[j]))
			j++
		}
		if j == i {
			unit += max(utf16Len(string(runes[i])), 1)
			i++
			continue
		}
		first, ok1 := p.charBox(tp, at)
		last, ok2 := p.charBox(tp, unit-1)
		if ok1 && ok2 && last.left > first.left && last.right > first.right {
			slices.Reverse(runes[i:j])
		}
		i = j
	}
	return string(runes)
}

// runsLeft: a letter that is written from right to left.
func runsLeft(r rune) bool {
	return unicode.In(r, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko) && unicode.IsLetter(r)
}

// runsRight: a letter that is written from left to right.
func runsRight(r rune) bool { return unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic) }

// spread gives each character of a column its share of the column's box.
func (p *pdfReader) spread(text string, box structs.FPDF_FS_RECTF) []pdfWord {
	var words []pdfWord
	n := float64(utf8.RuneCountInString(text))
	left, right := float64(box.Left), float64(box.Right)
	step := (float64(box.Top) - float64(box.Bottom)) / n
	if right-left < 1 { // a font that isn't embedded has no width
		left, right = left-step/2, right+step/2
	}
	i := 0.0
	for _, r := range text {
		b := p.toShown.rect(left, float64(box.Top)-(i+1)*step, right, float64(box.Top)-i*step)
		if !unicode.IsSpace(r) {
			words = append(words, pdfWord{string(r), float32(b.X0), float32(b.Y0), float32(b.X1), float32(b.Y1), RunsDown})
		}
		i++
	}
	return words
}

// boxed gives all words of an annotation's text the annotation's rectangle.
func (p *pdfReader) boxed(text string, box Rect) []pdfWord {
	var words []pdfWord
	for w := range strings.FieldsSeq(text) {
		words = append(words, pdfWord{w, float32(box.X0), float32(box.Y0), float32(box.X1), float32(box.Y1), RunsRight})
	}
	return words
}

// place finds the words of a page, in their order, in the page's finished text
// at [start,end): layout has changed white space, hyphens and characters only.
func place(text string, start, end int, page pdfPage) []Word {
	var placed []Word
	at := start
	for _, l := range page.lines {
		for _, w := range l.words {
			t := cleanControls(printable(pdfText(w.text)))
			if t == "" {
				continue
			}
			from, ok := findWord(text[:end], at, t)
			if !ok {
				continue
			}
			at = from + len(t)
			placed = append(placed, Word{from, at, Rect{float64(w.x0), float64(w.y0), float64(w.x1), float64(w.y1)}, w.runs})
		}
	}
	return placed
}

// wordReach is how far a word may be from where the one before it ended: text
// that has no place of its own, such as a label put before a form field.
const wordReach = 400

func findWord(text string, at int, word string) (int, bool) {
	for at < len(text) && isSpaceByte(text[at]) {
		at++
	}
	if strings.HasPrefix(text[at:], word) {
		return at, true
	}
	if strings.HasPrefix(text[at:], "-"+word) { // the second half of a compound
		return at + 1, true
	}
	if len(word) < 4 { // would be found by chance
		return 0, false
	}
	i := strings.Index(text[at:min(at+wordReach, len(text))], word)
	return at + i, i >= 0
}

// place records where the words of page i, the last in b, lie.
func (p *pdfReader) place(b *builder, i int) {
	page := p.pages[i]
	if words := place(b.string(), b.pages[i].Start, b.len(), page); len(words) > 0 {
		b.geometry.Pages = append(b.geometry.Pages, PageGeometry{Number: b.pages[i].Number, Width: page.width, Height: page.height, Words: words})
	}
	p.pages[i].lines = nil // done with it
}
