package ingest

import (
	"bytes"
	"context"
	"image"
	"image/draw"
	_ "image/gif" // formats of image.Decode
	_ "image/jpeg"
	_ "image/png"
)

// isPicture: the formats that readPicture decodes.
func isPicture(data []byte) bool {
	for _, magic := range [...]string{"\x89PNG\r\n\x1a\n", "\xff\xd8\xff", "GIF87a", "GIF89a"} {
		if bytes.HasPrefix(data, []byte(magic)) {
			return true
		}
	}
	return false
}

// readPicture reads the text of a photographed or scanned page. It is one page,
// as large as it would be at the resolution assumed.
func readPicture(ctx context.Context, s *source, b *builder) error {
	config, _, err := image.DecodeConfig(bytes.NewReader(s.data))
	if err != nil {
		return failf(Corrupt, "%s is a picture that cannot be decoded (%v); get a fresh copy", s.name, err)
	}
	if int64(config.Width)*int64(config.Height) > 2*ocrPixels {
		return failf(TooLarge, "%s has %d x %d pixels, over the limit of %d millions; make it smaller", s.name, config.Width, config.Height, 2*ocrPixels>>20)
	}
	img, _, err := image.Decode(&contextReader{ctx: ctx, data: s.data})
	if err != nil {
		return failf(Corrupt, "%s is a picture that cannot be decoded (%v); get a fresh copy", s.name, err)
	}
	engine, err := s.OCR.engine(ctx)
	if err != nil {
		return failf(NoText, "%s is a picture and needs OCR: %v; install tesseract and ingest it again", s.name, err)
	}
	grey := image.NewGray(img.Bounds())
	draw.Draw(grey, grey.Rect, image.White, image.Point{}, draw.Src) // behind transparent parts
	draw.Draw(grey, grey.Rect, img, img.Bounds().Min, draw.Over)
	dpi := 300.0
	if max(config.Width, config.Height) < 2000 { // a screenshot
		dpi = 150
	}
	s.deadline.extend(engine.pageTime)
	lines, err := engine.read(ctx, pictureOf(grey, dpi))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return failf(NoText, "%s is a picture that could not be read: %v", s.name, err)
	case len(lines) == 0:
		return failf(NoText, "%s is a picture without text that can be read", s.name)
	}
	p := &pdfReader{s: s, pages: []pdfPage{{lines: lines, width: float64(config.Width) * 72 / dpi, height: float64(config.Height) * 72 / dpi, ocr: true}}}
	p.layout(b)
	return nil
}
