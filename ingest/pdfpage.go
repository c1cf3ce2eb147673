package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/requests"
)

// ErrNoPage is returned by [PageImage] for a page that the document does not have.
var ErrNoPage = errors.New("ingest: no such page")

// PageImage draws page (from 1) of a PDF, width pixels wide and at most three times as high. It runs in a sandbox of its own, which ends with ctx; what
// comes out are pixels, whatever the file holds. The boxes of [Geometry] lie on the picture when they are scaled by width / PageBoxes.Width.
func PageImage(ctx context.Context, data []byte, page, width int) (*image.RGBA, error) {
	var picture *image.RGBA
	err := withPDFium(ctx, func(instance pdfium.Pdfium) (err error) {
		picture, err = drawPage(instance, data, page, width)
		return err
	})
	return picture, err
}

func drawPage(p pdfium.Pdfium, data []byte, page, width int) (*image.RGBA, error) {
	opened, err := p.OpenDocument(&requests.OpenDocument{File: &data})
	if err != nil {
		return nil, fmt.Errorf("ingest: open PDF: %w", err)
	}
	count, err := p.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: opened.Document})
	if err != nil {
		return nil, fmt.Errorf("ingest: count pages: %w", err)
	}
	if page < 1 || page > count.PageCount {
		return nil, fmt.Errorf("page %d of %d: %w", page, count.PageCount, ErrNoPage)
	}
	drawn, err := p.RenderPageInPixels(&requests.RenderPageInPixels{
		Page: requests.Page{ByIndex: &requests.PageByIndex{Document: opened.Document, Index: page - 1}}, Width: width, Height: 3 * width})
	if err != nil {
		return nil, fmt.Errorf("ingest: draw page %d: %w", page, err)
	}
	defer drawn.Cleanup()
	rgba, ok := drawn.Result.RenderedImage.(*image.RGBA)
	if !ok {
		return nil, fmt.Errorf("ingest: draw page %d: the picture is a %T", page, drawn.Result.RenderedImage)
	}
	own := *rgba // the pixels are the sandbox's
	own.Pix = bytes.Clone(rgba.Pix)
	return &own, nil
}

// Highlight tints boxes of a page's picture as a marker pen does: what is dark stays so.
func Highlight(picture *image.RGBA, on PageBoxes) {
	if on.Width <= 0 {
		return
	}
	scale := float64(picture.Rect.Dx()) / on.Width
	const margin = 1.5 // points: the pen is a little higher than the letters
	for _, box := range on.Boxes {
		area := image.Rect(int((box.X0-margin)*scale), int((box.Y0-margin)*scale), int((box.X1+margin)*scale)+1, int((box.Y1+margin)*scale)+1).Intersect(picture.Rect)
		for y := area.Min.Y; y < area.Max.Y; y++ {
			row := picture.Pix[picture.PixOffset(area.Min.X, y):picture.PixOffset(area.Max.X, y)]
			for i := 0; i+3 < len(row); i += 4 {
				row[i+1] = uint8(int(row[i+1]) * 232 / 255) // yellow: 255, 232, 110
				row[i+2] = uint8(int(row[i+2]) * 110 / 255)
			}
		}
	}
}

// EncodePNG writes a picture as PNG.
func EncodePNG(picture image.Image) ([]byte, error) {
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, picture); err != nil {
		return nil, fmt.Errorf("ingest: encode page: %w", err)
	}
	return b.Bytes(), nil
}
