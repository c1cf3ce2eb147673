package ingest

import (
	"bytes"
	"context"
	"encoding/binary"
	"image"
	"image/draw"
	_ "image/gif" // formats of image.Decode
	_ "image/jpeg"
	_ "image/png"
	"io"

	_ "golang.org/x/image/tiff"
)

// isPicture: the formats that readPicture decodes.
func isPicture(data []byte) bool {
	for _, magic := range [...]string{"\x89PNG\r\n\x1a\n", "\xff\xd8\xff", "GIF87a", "GIF89a"} {
		if bytes.HasPrefix(data, []byte(magic)) {
			return true
		}
	}
	return isTIFF(data)
}

// readPicture reads the text of a photographed or scanned page, or of all pages of
// a fax. Each is as large as it would be at the resolution assumed.
func readPicture(ctx context.Context, s *source, b *builder) error {
	frames, err := pictureFrames(s)
	if err != nil {
		return err
	}
	engine, err := s.OCR.engine(ctx)
	if err != nil {
		return failf(NoText, "%s is a picture and needs OCR: %v; install tesseract and ingest it again", s.name, err)
	}
	if len(frames) > engine.pages {
		return failf(TooLarge, "%s has %d pages, over the limit of %d for pictures; split it", s.name, len(frames), engine.pages)
	}
	p := &pdfReader{s: s}
	read := 0
	for _, frame := range frames {
		page, err := readFrame(ctx, s, engine, frame)
		if err != nil {
			return err
		}
		read += len(page.lines)
		p.pages = append(p.pages, page)
	}
	if read == 0 {
		return failf(NoText, "%s is a picture without text that can be read", s.name)
	}
	p.layout(b)
	if p.empty > 0 {
		b.warn(WarnEmptyPages)
	}
	return nil
}

// readFrame recognises one page.
func readFrame(ctx context.Context, s *source, engine *ocrEngine, frame io.Reader) (page pdfPage, err error) {
	img, _, err := image.Decode(frame)
	if err != nil {
		return page, pictureError(s, err)
	}
	grey := image.NewGray(img.Bounds())
	draw.Draw(grey, grey.Rect, image.White, image.Point{}, draw.Src) // behind transparent parts
	draw.Draw(grey, grey.Rect, img, img.Bounds().Min, draw.Over)
	dpi, width, height := 300.0, grey.Rect.Dx(), grey.Rect.Dy()
	if max(width, height) < 2000 { // a screenshot
		dpi = 150
	}
	s.deadline.extend(engine.pageTime)
	lines, err := engine.read(ctx, pictureOf(grey, dpi))
	switch {
	case ctx.Err() != nil:
		return page, ctx.Err()
	case err != nil:
		return page, failf(NoText, "%s is a picture that could not be read: %v", s.name, err)
	}
	return pdfPage{lines: lines, width: float64(width) * 72 / dpi, height: float64(height) * 72 / dpi, ocr: len(lines) > 0}, nil
}

// pictureFrames are the pages of a picture file, all of a size that can be read.
func pictureFrames(s *source) ([]io.Reader, error) {
	frames := []io.ReadSeeker{bytes.NewReader(s.data)}
	if isTIFF(s.data) {
		frames = tiffPages(s)
	}
	var readers []io.Reader
	for _, f := range frames {
		config, _, err := image.DecodeConfig(f)
		if err != nil {
			return nil, pictureError(s, err)
		}
		if int64(config.Width)*int64(config.Height) > 2*ocrPixels {
			return nil, failf(TooLarge, "%s has %d x %d pixels, over the limit of %d millions; make it smaller", s.name, config.Width, config.Height, 2*ocrPixels>>20)
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, pictureError(s, err)
		}
		readers = append(readers, f)
	}
	return readers, nil
}

func pictureError(s *source, err error) error {
	return failf(Corrupt, "%s is a picture that cannot be decoded (%v); get a fresh copy", s.name, err)
}

func isTIFF(data []byte) bool {
	return bytes.HasPrefix(data, []byte("II*\x00")) || bytes.HasPrefix(data, []byte("MM\x00*"))
}

// tiffPages are the pages of a TIFF file, each as a file whose header names that
// page's directory as the first one. Directories are a linked list.
func tiffPages(s *source) []io.ReadSeeker {
	var order binary.ByteOrder = binary.LittleEndian
	if s.data[0] == 'M' {
		order = binary.BigEndian
	}
	var pages []io.ReadSeeker
	seen := make(map[uint32]bool)
	at := uint32(8)
	if len(s.data) >= 8 {
		at = order.Uint32(s.data[4:])
	}
	for at != 0 && !seen[at] && int64(at)+2 <= int64(len(s.data)) && len(pages) <= s.Entries {
		seen[at] = true
		header := append([]byte(nil), s.data[:min(len(s.data), 8)]...)
		order.PutUint32(header[4:], at)
		pages = append(pages, io.NewSectionReader(&headedData{header, s.data}, 0, int64(len(s.data))))
		next := int64(at) + 2 + 12*int64(order.Uint16(s.data[at:]))
		if next+4 > int64(len(s.data)) {
			break
		}
		at = order.Uint32(s.data[next:])
	}
	if len(pages) == 0 { // damaged: let the decoder say how
		pages = append(pages, bytes.NewReader(s.data))
	}
	return pages
}

// headedData is data with other first bytes.
type headedData struct{ head, data []byte }

func (h *headedData) ReadAt(p []byte, at int64) (int, error) {
	n, err := bytes.NewReader(h.data).ReadAt(p, at)
	if at < int64(len(h.head)) {
		copy(p[:n], h.head[at:])
	}
	return n, err
}
