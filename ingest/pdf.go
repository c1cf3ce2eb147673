package ingest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/enums"
	pdferrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/responses"
	"github.com/klippa-app/go-pdfium/structs"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// pdfMemoryPages caps one PDFium instance at 512 MiB (pages of 64 KiB), the file included.
const pdfMemoryPages = 8192

// pdfPool starts PDFium once per process. It is WebAssembly without any file
// system, network or clock worth mentioning: a hostile file meets a sandbox that
// can be killed. Compiling it takes seconds, so the result is cached on disk.
var pdfPool = sync.OnceValues(func() (pdfium.Pool, error) {
	config := wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling).
		WithMemoryLimitPages(pdfMemoryPages).
		WithCloseOnContextDone(true)
	if cache, err := os.UserCacheDir(); err == nil { // without a cache every start compiles again
		if c, err := wazero.NewCompilationCacheWithDir(filepath.Join(cache, "ragd", "wasm")); err == nil {
			config = config.WithCompilationCache(c)
		}
	}
	return webassembly.Init(webassembly.Config{
		MaxTotal:      max(runtime.GOMAXPROCS(0), 2),
		FSConfig:      wazero.NewFSConfig(), // the default would mount the whole disk
		RuntimeConfig: config,
		Stdout:        io.Discard,
		Stderr:        io.Discard,
	})
})

// withPDFium calls read with a PDFium instance that nobody else has: memory
// really returns, and a crash or a kill harms no other document. The instance is
// killed when ctx ends, and the error is then ctx's.
func withPDFium(ctx context.Context, read func(pdfium.Pdfium) error) error {
	pool, err := pdfPool()
	if err != nil {
		return failf(Unsupported, "the PDF reader does not start (%v)", err)
	}
	instance, err := pool.GetInstanceWithContext(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return failf(Unsupported, "the PDF reader does not start (%v)", err)
	}
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		_ = instance.Kill() // its only error is "already closed"
	})
	defer func() {
		if stop() {
			_ = instance.Close() // the instance is dropped either way
		} else {
			<-killed
		}
	}()
	err = read(instance)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// readPDF reads the text layer page by page.
func readPDF(ctx context.Context, s *source, b *builder) error {
	return withPDFium(ctx, func(instance pdfium.Pdfium) error {
		p := &pdfReader{s: s, pdf: instance}
		if err := p.read(ctx); err != nil {
			if unsound := p.unsound(); errors.Is(unsound, ErrUnsupported) {
				return unsound
			}
			return err
		}
		p.layout(b)
		if p.empty == len(p.pages) {
			if err := p.unsound(); err != nil {
				return err
			}
			return p.needsOCR()
		}
		if p.empty > 0 {
			b.warn(WarnEmptyPages)
		}
		return nil
	})
}

// pdfReader holds one open document and the lines drawn from it.
type pdfReader struct {
	s     *source
	pdf   pdfium.Pdfium
	doc   references.FPDF_DOCUMENT
	title string
	pages []pdfPage
	empty int // pages without text

	toShown affine    // of the page at hand
	ocr     *ocrPages // nil: pages without text stay so
	noOCR   error     // why ocr is nil although a page wanted it
}

// pdfLine is one line of text as PDFium orders them, with what its first and
// last characters tell about the typography. Coordinates are points, y upwards,
// turned so that text runs to the right.
type pdfLine struct {
	text        string
	left, right float64
	first, last float64 // bottoms of the first and last character: a line joined over a hyphen spans two
	height      float64 // of the line, about 1.2 times the font's size
	size        float64 // of the font as it appears on the page
	bold        bool
	vertical    bool
	words       []pdfWord
	paragraph   int // its number, from 1, where that is known; else 0
}

func (p *pdfReader) read(ctx context.Context) error {
	opened, err := p.pdf.OpenDocument(&requests.OpenDocument{File: &p.s.data})
	if err != nil {
		return p.openError(err)
	}
	p.doc = opened.Document
	if meta, err := p.pdf.FPDF_GetMetaText(&requests.FPDF_GetMetaText{Document: p.doc, Tag: "Title"}); err == nil {
		p.title = meta.Value
	}
	count, err := p.pdf.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: p.doc})
	if err != nil {
		return p.damaged(err)
	}
	if count.PageCount == 0 {
		return failf(Corrupt, "%s is a PDF without pages; the file is damaged, get a fresh copy", p.s.name)
	}
	if count.PageCount > p.s.Entries {
		return failf(TooLarge, "%s has %d pages, over the limit of %d; split it", p.s.name, count.PageCount, p.s.Entries)
	}
	failed := 0
	p.pages = make([]pdfPage, count.PageCount)
	for i := range p.pages {
		if err := ctx.Err(); err != nil {
			break
		}
		if err := p.page(ctx, i); err != nil { // one bad page does not spoil the others
			failed++
		}
		p.s.deadline.page()
	}
	p.ocr.wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	if failed == count.PageCount {
		return failf(Corrupt, "%s: none of its %d pages can be read; the file is damaged, get a fresh copy", p.s.name, failed)
	}
	return nil
}

func (p *pdfReader) openError(err error) error {
	switch {
	case errors.Is(err, pdferrors.ErrPassword):
		return failf(Encrypted, "%s asks for a password; remove it in a PDF program and ingest the file again", p.s.name)
	case errors.Is(err, pdferrors.ErrSecurity):
		return failf(Encrypted, "%s is encrypted in a way that cannot be opened; save it without protection", p.s.name)
	}
	return p.damaged(err)
}

// unsound explains a file without text by its own defects, if it has any: a
// cross-reference table that is missing was cut off, and what PDFium then finds is a guess.
func (p *pdfReader) unsound() error {
	switch {
	case bytes.Contains(p.s.data, []byte("/BrotliDecode")):
		return failf(Unsupported, "%s is compressed with Brotli, which the PDF reader doesn't know; print it to a new PDF", p.s.name)
	case !bytes.Contains(p.s.data[max(len(p.s.data)-64<<10, 0):], []byte("startxref")):
		return failf(Corrupt, "%s is a PDF without its table of contents, and no text can be recovered; get a fresh copy", p.s.name)
	}
	return nil
}

func (p *pdfReader) damaged(err error) error {
	return failf(Corrupt, "%s cannot be read as a PDF (%v); the file is damaged or cut off, get a fresh copy", p.s.name, err)
}

// page reads page i.
func (p *pdfReader) page(ctx context.Context, i int) error {
	read := &p.pages[i]
	loaded, err := p.pdf.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: p.doc, Index: i})
	if err != nil {
		return err
	}
	defer p.pdf.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: loaded.Page})
	page := requests.Page{ByReference: &loaded.Page}
	if p.toShown, read.width, read.height, err = p.shown(page); err != nil {
		return err
	}
	if read.lines, err = p.lines(page); err != nil {
		return err
	}
	if columns := p.columns(page, read.lines); columns != nil {
		read.lines = columns
	}
	if p.s.OCR != nil && p.pictured(page, read) && p.startOCR(ctx) {
		p.recognise(ctx, page, read)
	}
	read.notes = p.annotations(page)
	return nil
}

// lines reads the page's text, in PDFium's order.
func (p *pdfReader) lines(page requests.Page) ([]pdfLine, error) {
	tp, err := p.pdf.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: page})
	if err != nil {
		return nil, err
	}
	defer p.pdf.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: tp.TextPage})
	chars, err := p.pdf.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: tp.TextPage})
	if err != nil {
		return nil, err
	}
	if chars.Count <= 0 {
		return nil, nil
	}
	got, err := p.pdf.FPDFText_GetText(&requests.FPDFText_GetText{TextPage: tp.TextPage, StartIndex: 0, Count: chars.Count})
	if err != nil {
		return nil, err
	}
	var lines []pdfLine
	var units []int // where each begins, in UTF-16 units of the page's text
	unit := 0
	for raw := range strings.Lines(got.Text) {
		text := strings.TrimRight(raw, "\r\n\x00")
		if trimmed := strings.TrimSpace(text); trimmed != "" {
			lead := utf16Len(text[:strings.Index(text, trimmed)])
			trimmed = p.rightToLeft(tp.TextPage, trimmed, unit+lead)
			line := pdfLine{text: trimmed}
			p.measure(tp.TextPage, &line, unit+lead, unit+lead+utf16Len(trimmed)-1)
			line.words = p.words(tp.TextPage, trimmed, unit+lead)
			lines, units = append(lines, line), append(units, unit+lead)
		}
		unit += utf16Len(raw)
	}
	p.markColumns(tp.TextPage, lines, units)
	return p.unweave(tp.TextPage, lines, units), nil
}

// markColumns finds the rows of tables: lines that are stretched, lines with wide
// gaps that follow each other, and the neighbours of such, which may be full by chance.
func (p *pdfReader) markColumns(tp references.FPDF_TEXTPAGE, lines []pdfLine, units []int) {
	for i := range lines {
		gapped := lines[i].gapped() && (i > 0 && lines[i-1].gapped() || i+1 < len(lines) && lines[i+1].gapped())
		if gapped || lines[i].stretched() || i > 0 && lines[i-1].hasColumns() {
			p.markGaps(tp, &lines[i], units[i])
		}
	}
	for i := len(lines) - 2; i >= 0; i-- {
		if lines[i+1].hasColumns() && !lines[i].hasColumns() {
			p.markGaps(tp, &lines[i], units[i])
		}
	}
}

// gapped: two of its words are farther apart than words of a sentence ever are.
func (l *pdfLine) gapped() bool {
	for i := 1; i < len(l.words) && !l.vertical && l.size > 0; i++ {
		if a, b := l.words[i-1], l.words[i]; a.runs == RunsRight && b.runs == RunsRight && float64(b.x0-a.x1) > 1.2*l.size {
			return true
		}
	}
	return false
}

func (l *pdfLine) hasColumns() bool { return strings.Contains(l.text, "\t") }

// columns rereads a page of vertical CJK writing object by object, from right
// to left: PDFium orders columns as they were drawn, and drops those whose font
// isn't embedded, because they have no width. nil: the page is no such page.
func (p *pdfReader) columns(page requests.Page, lines []pdfLine) []pdfLine {
	var columns []pdfLine
	vertical := 0 // characters in columns, as PDFium sees them
	for _, l := range lines {
		r, _ := utf8.DecodeRuneInString(l.text)
		if l.vertical && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Ps) {
			vertical += len(l.text)
		} else {
			columns = append(columns, l)
		}
	}
	if vertical == 0 && len(lines) > 0 {
		return nil
	}
	found := 0
	for _, l := range p.columnObjects(page) {
		columns = append(columns, l)
		found += len(l.text)
	}
	if found <= vertical {
		return nil
	}
	orderColumns(columns)
	return columns
}

// columnObjectLimit is more objects than a page of vertical text has.
const columnObjectLimit = 2000

// columnObjects are the page's text objects that are taller than wide. Those
// without any width are sheared a little first, which makes PDFium read them.
func (p *pdfReader) columnObjects(page requests.Page) []pdfLine {
	count, err := p.pdf.FPDFPage_CountObjects(&requests.FPDFPage_CountObjects{Page: page})
	if err != nil {
		return nil
	}
	type object struct {
		ref references.FPDF_PAGEOBJECT
		box *responses.FPDFPageObj_GetBounds
	}
	var objects []object
	for i := range min(count.Count, columnObjectLimit) {
		got, err := p.pdf.FPDFPage_GetObject(&requests.FPDFPage_GetObject{Page: page, Index: i})
		if err != nil {
			continue
		}
		kind, err := p.pdf.FPDFPageObj_GetType(&requests.FPDFPageObj_GetType{PageObject: got.PageObject})
		if err != nil || kind.Type != enums.FPDF_PAGEOBJ_TEXT {
			continue
		}
		box, err := p.pdf.FPDFPageObj_GetBounds(&requests.FPDFPageObj_GetBounds{PageObject: got.PageObject})
		if err != nil || box.Top-box.Bottom < 2*(box.Right-box.Left) {
			continue
		}
		if box.Right-box.Left < 0.01 {
			shear := structs.FPDF_FS_MATRIX{A: 1, C: 0.01, D: 1, E: -0.01 * box.Bottom}
			if _, err := p.pdf.FPDFPageObj_Transform(&requests.FPDFPageObj_Transform{PageObject: got.PageObject, Transform: shear}); err != nil {
				continue
			}
		}
		objects = append(objects, object{got.PageObject, box})
	}
	if len(objects) == 0 {
		return nil
	}
	tp, err := p.pdf.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: page})
	if err != nil {
		return nil
	}
	defer p.pdf.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: tp.TextPage})
	var lines []pdfLine
	for _, o := range objects {
		got, err := p.pdf.FPDFTextObj_GetText(&requests.FPDFTextObj_GetText{PageObject: o.ref, TextPage: tp.TextPage})
		if err != nil || strings.TrimSpace(got.Text) == "" {
			continue
		}
		l := pdfLine{text: strings.TrimSpace(got.Text), vertical: true}
		l.left, l.right, l.first, l.last = -float64(o.box.Top), -float64(o.box.Bottom), float64(o.box.Left), float64(o.box.Left)
		l.size = (l.right - l.left) / float64(max(utf8.RuneCountInString(l.text), 1))
		l.height = l.size
		l.words = p.spread(l.text, structs.FPDF_FS_RECTF{Left: o.box.Left, Top: o.box.Top, Right: o.box.Right, Bottom: o.box.Bottom})
		lines = append(lines, l)
	}
	return lines
}

// orderColumns sorts columns that overlap in height from right to left; bands
// of such columns go down the page.
func orderColumns(lines []pdfLine) {
	slices.SortStableFunc(lines, func(a, b pdfLine) int { return cmp.Compare(a.left, b.left) })
	for start := 0; start < len(lines); {
		end, reach := start+1, lines[start].right
		for end < len(lines) && lines[end].left < reach {
			reach = max(reach, lines[end].right)
			end++
		}
		slices.SortStableFunc(lines[start:end], func(a, b pdfLine) int { return cmp.Compare(b.first, a.first) })
		start = end
	}
}

// annotations are the text that readers of the page see in form fields and notes.
func (p *pdfReader) annotations(page requests.Page) []pdfLine {
	count, err := p.pdf.FPDFPage_GetAnnotCount(&requests.FPDFPage_GetAnnotCount{Page: page})
	if err != nil {
		return nil
	}
	var lines []pdfLine
	for i := range min(count.Count, 1000) {
		if text, box := p.annotation(page, i); text != "" {
			lines = append(lines, pdfLine{text: text, words: p.boxed(text, box)})
		}
	}
	return lines
}

// annotation is the text of annotation i, "" if it shows none, and its place.
func (p *pdfReader) annotation(page requests.Page, i int) (text string, box Rect) {
	got, err := p.pdf.FPDFPage_GetAnnot(&requests.FPDFPage_GetAnnot{Page: page, Index: i})
	if err != nil {
		return "", box
	}
	defer p.pdf.FPDFPage_CloseAnnot(&requests.FPDFPage_CloseAnnot{Annotation: got.Annotation})
	if text = strings.TrimSpace(p.annotationText(got.Annotation)); text == "" {
		return "", box
	}
	if at, err := p.pdf.FPDFAnnot_GetRect(&requests.FPDFAnnot_GetRect{Annotation: got.Annotation}); err == nil {
		box = p.toShown.rect(float64(at.Rect.Left), float64(at.Rect.Bottom), float64(at.Rect.Right), float64(at.Rect.Top))
	}
	return text, box
}

func (p *pdfReader) annotationText(annotation references.FPDF_ANNOTATION) string {
	subtype, err := p.pdf.FPDFAnnot_GetSubtype(&requests.FPDFAnnot_GetSubtype{Annotation: annotation})
	if err != nil {
		return ""
	}
	value := func(key string) string {
		v, err := p.pdf.FPDFAnnot_GetStringValue(&requests.FPDFAnnot_GetStringValue{Annotation: annotation, Key: key})
		if err != nil { // the annotation has no such entry
			return ""
		}
		return v.Value
	}
	switch subtype.Subtype {
	case enums.FPDF_ANNOT_SUBTYPE_TEXT, enums.FPDF_ANNOT_SUBTYPE_FREETEXT:
		return value("Contents")
	case enums.FPDF_ANNOT_SUBTYPE_WIDGET:
		text := value("V")
		if label := cmp.Or(value("TU"), value("T")); label != "" && text != "" && value("FT") != "Btn" {
			return label + ": " + text
		}
		return text
	}
	return ""
}

// stretched: prose takes about half the font's size per character; a line far
// wider than that has gaps, between the columns of a table.
func (l *pdfLine) stretched() bool {
	n := 0
	for _, r := range l.text {
		if n++; unspaced(r) {
			n++
		}
	}
	return !l.vertical && l.size > 0 && l.right-l.left > 0.6*l.size*float64(n)
}

// markGaps turns the blanks that stand for wide gaps into tabs; unit is the
// UTF-16 index of the line in the page's text.
func (p *pdfReader) markGaps(tp references.FPDF_TEXTPAGE, l *pdfLine, unit int) {
	words := strings.Split(l.text, " ")
	if len(words) == 1 || l.vertical || l.size == 0 {
		return
	}
	var out strings.Builder
	for i, w := range words {
		if i > 0 {
			sep := byte(' ')
			before, beforeOK := p.charBox(tp, unit-2)
			after, afterOK := p.charBox(tp, unit)
			if beforeOK && afterOK && after.left-before.right > 1.2*l.size {
				sep = '\t'
			}
			out.WriteByte(sep)
		}
		out.WriteString(w)
		unit += utf16Len(w) + 1
	}
	l.text = out.String()
}

func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// measure asks for the typography of a line's first and last characters,
// given as indices into the page's UTF-16 text. Without answers the line
// keeps zeros and the layout falls back on the text alone.
func (p *pdfReader) measure(tp references.FPDF_TEXTPAGE, line *pdfLine, from, to int) {
	first, ok := p.charBox(tp, from)
	if !ok {
		return
	}
	last, ok := p.charBox(tp, to)
	if !ok {
		return
	}
	line.size = p.fontSize(tp, first.index)
	line.bold = p.isBold(tp, first.index) && p.isBold(tp, last.index)
	dx, dy := last.left-first.left, last.bottom-first.bottom
	switch hyphens := strings.Count(line.text, pdfHyphen); {
	case abs(dy) <= 2*abs(dx) || hyphens > 0: // horizontal
		line.left, line.right = min(first.left, last.left), max(first.right, last.right)
		line.first, line.last = first.bottom, last.bottom
		line.height = first.top - first.bottom
	case dy < 0: // runs down: a page turned right, or vertical writing
		line.vertical = true
		line.left, line.right, line.first, line.last = -first.top, -last.bottom, first.left, last.left
		line.height = first.right - first.left
	default: // runs up
		line.vertical = true
		line.left, line.right, line.first, line.last = first.bottom, last.top, -first.right, -last.right
		line.height = first.right - first.left
	}
}

// fontSize is the nominal size times what the page's transformations make of it.
func (p *pdfReader) fontSize(tp references.FPDF_TEXTPAGE, char int) float64 {
	nominal, err := p.pdf.FPDFText_GetFontSize(&requests.FPDFText_GetFontSize{TextPage: tp, Index: char})
	if err != nil {
		return 0
	}
	m, err := p.pdf.FPDFText_GetMatrix(&requests.FPDFText_GetMatrix{TextPage: tp, Index: char})
	if err != nil {
		return nominal.FontSize
	}
	return nominal.FontSize * math.Hypot(float64(m.Matrix.C), float64(m.Matrix.D))
}

func (p *pdfReader) isBold(tp references.FPDF_TEXTPAGE, char int) bool {
	info, err := p.pdf.FPDFText_GetFontInfo(&requests.FPDFText_GetFontInfo{TextPage: tp, Index: char})
	if err != nil {
		return false
	}
	name := strings.ToLower(info.FontName)
	for _, weight := range [...]string{"bold", "black", "heavy", "demi", "cmbx", "cmssbx"} {
		if strings.Contains(name, weight) {
			return true
		}
	}
	return false
}

func abs(x float64) float64 { return max(x, -x) }

type pdfBox struct {
	index                    int // of the character, which is not that of the text
	left, right, top, bottom float64
}

func (p *pdfReader) charBox(tp references.FPDF_TEXTPAGE, unit int) (pdfBox, bool) {
	index, ok := p.charIndex(tp, unit)
	if !ok {
		return pdfBox{}, false
	}
	return p.indexBox(tp, index)
}

func (p *pdfReader) charIndex(tp references.FPDF_TEXTPAGE, unit int) (int, bool) {
	at, err := p.pdf.FPDFText_GetCharIndexFromTextIndex(&requests.FPDFText_GetCharIndexFromTextIndex{TextPage: tp, NTextIndex: unit})
	if err != nil || at.CharIndex < 0 {
		return 0, false
	}
	return at.CharIndex, true
}

func (p *pdfReader) indexBox(tp references.FPDF_TEXTPAGE, index int) (pdfBox, bool) {
	// The loose box covers the whole line height, whatever the glyph: its bottom
	// is the same for "a" and "g", its height is the font's size on the page.
	box, err := p.pdf.FPDFText_GetLooseCharBox(&requests.FPDFText_GetLooseCharBox{TextPage: tp, Index: index})
	if err != nil {
		return pdfBox{}, false
	}
	return pdfBox{index, float64(box.Rect.Left), float64(box.Rect.Right), float64(box.Rect.Top), float64(box.Rect.Bottom)}, true
}
