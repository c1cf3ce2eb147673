package ingest

import (
	"context"
	"errors"
	"fmt"
	"image"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/klippa-app/go-pdfium/enums"
	"github.com/klippa-app/go-pdfium/requests"
)

// startOCR looks for the program when the first page wants it; most documents never do.
func (p *pdfReader) startOCR(ctx context.Context) bool {
	if p.ocr == nil && p.noOCR == nil {
		var engine *ocrEngine
		if engine, p.noOCR = p.s.OCR.engine(ctx); p.noOCR == nil {
			p.ocr = &ocrPages{ocrEngine: engine, s: p.s}
		}
	}
	return p.ocr != nil
}

// needsOCR is the error of a PDF without text.
func (p *pdfReader) needsOCR() error {
	what := fmt.Sprintf("%s needs OCR: no text layer on any of its %d pages (a scan, or drawings only)", p.s.name, len(p.pages))
	switch {
	case errors.Is(p.noOCR, errNoOCR):
		return failf(NoText, "%s; install tesseract and ingest it again, or run it through ocrmypdf first", what)
	case p.noOCR != nil:
		return failf(NoText, "%s, and none was made: %v", what, p.noOCR)
	case p.s.OCR == nil:
		return failf(NoText, "%s, and OCR is off; run it through OCR, for example with ocrmypdf, and ingest the result", what)
	case p.ocr == nil:
		return failf(NoText, "%s holds no text: its %d pages are blank", p.s.name, len(p.pages))
	case p.ocr.err != nil:
		return failf(NoText, "%s, and it failed: %v", what, p.ocr.err)
	}
	return failf(NoText, "%s: recognition found no text on any of its %d pages either", p.s.name, len(p.pages))
}

// stampLetters is the most text of a page that is a picture with a stamp or a page number on it.
const stampLetters = 200

// pictured: the page's text is in a picture. It shows something but has no text
// that can be read, or little beside a picture that fills the page.
func (p *pdfReader) pictured(page requests.Page, read *pdfPage) bool {
	text, bad := visible(read.lines), garbled(read.lines)
	if text > stampLetters && !bad {
		return false
	}
	count, err := p.pdf.FPDFPage_CountObjects(&requests.FPDFPage_CountObjects{Page: page})
	if err != nil || count.Count == 0 {
		return false
	}
	return text == 0 || bad || p.filled(page, count.Count, read.width*read.height)
}

// filled: pictures cover half of the page or more.
func (p *pdfReader) filled(page requests.Page, objects int, area float64) bool {
	covered := 0.0
	for i := range min(objects, 200) {
		got, err := p.pdf.FPDFPage_GetObject(&requests.FPDFPage_GetObject{Page: page, Index: i})
		if err != nil {
			continue
		}
		kind, err := p.pdf.FPDFPageObj_GetType(&requests.FPDFPageObj_GetType{PageObject: got.PageObject})
		if err != nil || kind.Type != enums.FPDF_PAGEOBJ_IMAGE {
			continue
		}
		if box, err := p.pdf.FPDFPageObj_GetBounds(&requests.FPDFPageObj_GetBounds{PageObject: got.PageObject}); err == nil {
			covered += float64(box.Right-box.Left) * float64(box.Top-box.Bottom)
		}
	}
	return covered > area/2
}

// Pages are rendered at the resolution that recognition wants, larger ones
// (posters) at what ocrPixels allows.
const (
	ocrDPI    = 300
	ocrPixels = 30 << 20
)

// recognise renders the page and has it read. The result replaces the page's
// lines when it has more to say than they.
func (p *pdfReader) recognise(ctx context.Context, page requests.Page, read *pdfPage) {
	if !p.ocr.room() {
		return
	}
	dpi := ocrDPI
	if pixels := read.width * read.height / (72 * 72) * ocrDPI * ocrDPI; pixels > ocrPixels {
		dpi = int(ocrDPI * math.Sqrt(ocrPixels/pixels))
	}
	if dpi < 36 || read.width < 1 || read.height < 1 {
		return
	}
	drawn, err := p.pdf.RenderPageInDPI(&requests.RenderPageInDPI{Page: page, DPI: dpi, ImageFormat: requests.RenderImageFormatGrayscale})
	if err != nil {
		return
	}
	defer drawn.Cleanup()
	img, ok := drawn.Result.RenderedImage.(*image.Gray)
	if !ok || isUniform(img) {
		return
	}
	p.ocr.page(ctx, pictureOf(img, float64(dpi)), func(lines []pdfLine) {
		if len(lines) > 0 && (garbled(read.lines) || visible(lines) > visible(read.lines)) {
			read.lines, read.ocr = lines, true
		}
	})
}

// isUniform: one shade all over, an empty page.
func isUniform(img *image.Gray) bool {
	for _, v := range img.Pix {
		if v != img.Pix[0] {
			return false
		}
	}
	return true
}

func garbled(lines []pdfLine) bool {
	var g garbage
	for _, l := range lines {
		g.add(l.text)
	}
	return g.excessive()
}

// visible counts the characters of lines.
func visible(lines []pdfLine) int {
	n := 0
	for _, l := range lines {
		n += utf8.RuneCountInString(strings.TrimSpace(printable(l.text)))
	}
	return n
}
