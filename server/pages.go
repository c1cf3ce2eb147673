package server

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"ragd/ingest"
	"ragd/retrieve"
	"ragd/store"
)

// Bounds of page pictures: wide enough for a large screen, and as long as a hostile file may keep a processor busy.
const (
	minPageWidth, maxPageWidth = 100, 2000
	pageTime                   = 30 * time.Second
)

// pageImage is GET /v1/documents/{id}/pages/{page}?width=&start=&end=: a page of a PDF as a PNG, the bytes [start, end) of the document's text marked.
// Pixels are all that leaves the sandbox: nothing of the file can act in a browser.
func (s *Server) pageImage(c *gin.Context) {
	id, err := pathID(c)
	number, width, start, end := 0, 1000, 0, 0
	for _, p := range []struct {
		name, text string
		into       *int
		low, high  int
	}{
		{"page", c.Param("page"), &number, 1, 1 << 20}, {"width", c.Query("width"), &width, minPageWidth, maxPageWidth},
		{"start", c.Query("start"), &start, 0, 1 << 40}, {"end", c.Query("end"), &end, 0, 1 << 40},
	} {
		if err != nil || p.text == "" && p.name != "page" {
			continue
		}
		n, bad := strconv.Atoi(p.text)
		if bad != nil || n < p.low || n > p.high {
			err = invalid(p.name, "%s is %q; it must be a whole number between %d and %d", p.name, p.text, p.low, p.high)
		}
		*p.into = n
	}
	var original store.Original
	if err == nil {
		original, err = s.visiblePDF(c, retrieve.DocumentID(id))
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), pageTime)
	defer cancel()
	picture, err := ingest.PageImage(ctx, original.Data, number, width)
	if err != nil {
		s.fail(c, err)
		return
	}
	for _, on := range original.Geometry.Boxes(start, end) {
		if on.Page == number {
			ingest.Highlight(picture, on)
		}
	}
	data, err := ingest.EncodePNG(picture)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.deadline(c)
	c.Data(http.StatusOK, "image/png", data)
}

// boxes is GET /v1/documents/{id}/boxes?start=&end=: where bytes [start, end) of the text lie on the document's pages.
func (s *Server) boxes(c *gin.Context) {
	id, err := pathID(c)
	start, badStart := strconv.Atoi(c.Query("start"))
	end, badEnd := strconv.Atoi(c.Query("end"))
	if err == nil && (badStart != nil || badEnd != nil || start < 0 || end < start) {
		err = invalid("start", "start and end must be byte offsets of the document's text")
	}
	var original store.Original
	if err == nil {
		original, err = s.visibleOriginal(c, retrieve.DocumentID(id))
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	pages := []gin.H{}
	for _, on := range original.Geometry.Boxes(start, end) {
		boxes := []gin.H{}
		for _, b := range on.Boxes {
			boxes = append(boxes, gin.H{"x0": b.X0, "y0": b.Y0, "x1": b.X1, "y1": b.Y1})
		}
		page := gin.H{"page": on.Page, "width": on.Width, "height": on.Height, "boxes": boxes}
		if on.Part != "" {
			page["part"] = on.Part
		}
		pages = append(pages, page)
	}
	s.reply(c, http.StatusOK, gin.H{"pages": pages})
}

// visiblePDF returns the original of a PDF that the request's key may see.
func (s *Server) visiblePDF(c *gin.Context, id retrieve.DocumentID) (store.Original, error) {
	o, err := s.visibleOriginal(c, id)
	if err == nil && (o.Kind != "pdf" || len(o.Data) == 0) {
		err = noPages(id)
	}
	return o, err
}

// visibleOriginal returns the original of a document with known places of words: a PDF, or a mail or archive with one in it.
func (s *Server) visibleOriginal(c *gin.Context, id retrieve.DocumentID) (store.Original, error) {
	o, err := s.Library.Original(c.Request.Context(), s.tenant(c), id)
	switch {
	case err != nil:
	case !s.sees(c, o.Corpus):
		err = fmt.Errorf("document %d: %w", id, store.ErrNotFound)
	case o.Kind != "pdf" && len(o.Geometry.Pages) == 0:
		err = noPages(id)
	}
	return o, err
}

func noPages(id retrieve.DocumentID) error {
	return &badRequest{status: http.StatusNotFound, code: "no_pages", message: fmt.Sprintf("document %d has no pages to draw: only PDFs have", id)}
}
