package ingest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Geometry says where the words of a document lie on its pages: for PDFs and
// for what was read by OCR. The zero value knows no word.
type Geometry struct {
	Pages []PageGeometry // in order, those that have words only
}

// PageGeometry is one page as it is shown: turned and cropped.
type PageGeometry struct {
	Number        int     // as in Page.Number
	Width, Height float64 // points
	Words         []Word  // in order of Start, not overlapping
	Part          string  // of which part of the file it is a page, as Document.Origin names it: "in/m.eml > terms.pdf"; "" the file itself
}

// Word is a stretch of text without white space in one line; a single
// character in scripts that don't set words apart.
type Word struct {
	Start, End int // bytes of Document.Text
	Box        Rect
	Runs       Direction // where its characters go from first to last
}

// Rect is a rectangle in points (1/72 inch) from the top left corner of the
// page as it is shown, y downwards: times a scale, it lies on a picture of the page.
type Rect struct{ X0, Y0, X1, Y1 float64 }

// Direction of writing on the page as it is shown.
type Direction uint8

// The directions of Word.Runs.
const (
	RunsRight Direction = iota
	RunsDown
	RunsLeft
	RunsUp
)

// PageBoxes are rectangles on one page.
type PageBoxes struct {
	Page          int
	Width, Height float64 // of the page, points
	Boxes         []Rect
	Part          string // as PageGeometry.Part
}

// Boxes are the places of [start,end) of Document.Text, one rectangle for each
// line or part of one. Of a word that lies only partly in the range, that share
// of its box which its bytes have. Empty where the range has no known place.
func (g *Geometry) Boxes(start, end int) []PageBoxes {
	var found []PageBoxes
	for _, p := range g.Pages {
		first := sort.Search(len(p.Words), func(i int) bool { return p.Words[i].End > start })
		var boxes []Rect
		var last Word
		for _, w := range p.Words[first:] {
			if w.Start >= end {
				break
			}
			box := w.part(max(start, w.Start), min(end, w.End))
			if n := len(boxes); n > 0 && last.sameLine(w) {
				boxes[n-1] = boxes[n-1].union(box)
			} else {
				boxes = append(boxes, box)
			}
			last = w
		}
		if len(boxes) > 0 {
			found = append(found, PageBoxes{p.Number, p.Width, p.Height, boxes, p.Part})
		}
	}
	return found
}

// part is the share of the word's box that [start,end) takes.
func (w Word) part(start, end int) Rect {
	n := float64(w.End - w.Start)
	from, to := float64(start-w.Start)/n, float64(end-w.Start)/n
	if w.Runs == RunsLeft || w.Runs == RunsUp {
		from, to = 1-to, 1-from
	}
	b := w.Box
	if w.Runs == RunsRight || w.Runs == RunsLeft {
		return Rect{b.X0 + from*(b.X1-b.X0), b.Y0, b.X0 + to*(b.X1-b.X0), b.Y1}
	}
	return Rect{b.X0, b.Y0 + from*(b.Y1-b.Y0), b.X1, b.Y0 + to*(b.Y1-b.Y0)}
}

// sameLine: v follows w in its line. Across the line they overlap by half, along
// it the gap is less than three times the line's height: columns of a page or
// table stay apart.
func (w Word) sameLine(v Word) bool {
	a, b := w.Box, v.Box
	if w.along() != v.along() {
		return false
	}
	if !w.along() { // vertical: look at it lying
		a, b = Rect{a.Y0, a.X0, a.Y1, a.X1}, Rect{b.Y0, b.X0, b.Y1, b.X1}
	}
	height := min(a.Y1-a.Y0, b.Y1-b.Y0)
	overlap := min(a.Y1, b.Y1) - max(a.Y0, b.Y0)
	gap := max(a.X0, b.X0) - min(a.X1, b.X1)
	return overlap >= height/2 && gap < 3*height
}

// along: the word lies along the page's lines.
func (w Word) along() bool { return w.Runs == RunsRight || w.Runs == RunsLeft }

func (r Rect) union(s Rect) Rect {
	return Rect{min(r.X0, s.X0), min(r.Y0, s.Y0), max(r.X1, s.X1), max(r.Y1, s.Y1)}
}

// shift moves all words by n bytes: the text they lie in was put behind other text.
func (g *Geometry) shift(n int) {
	for _, p := range g.Pages {
		for i := range p.Words {
			p.Words[i].Start += n
			p.Words[i].End += n
		}
	}
}

// The encoding: a version, then varints. Coordinates are steps of a tenth of a
// point, each told as the difference from where the word before ended, so that a
// word takes about 7 bytes.
const (
	geometryVersion = 1
	geometryParts   = 2  // the version of those that have pages of parts: each page begins with the part's name
	geometryStep    = 10 // per point
)

// MarshalBinary encodes g; nil when it knows no word.
func (g *Geometry) MarshalBinary() ([]byte, error) {
	if len(g.Pages) == 0 {
		return nil, nil
	}
	parts := slices.ContainsFunc(g.Pages, func(p PageGeometry) bool { return p.Part != "" })
	out := []byte{geometryVersion}
	if parts {
		out[0] = geometryParts
	}
	at := 0 // end of the word before
	for _, p := range g.Pages {
		if parts {
			out = append(binary.AppendUvarint(out, uint64(len(p.Part))), p.Part...)
		}
		out = binary.AppendUvarint(out, uint64(p.Number))
		out = binary.AppendUvarint(out, uint64(steps(p.Width)))
		out = binary.AppendUvarint(out, uint64(steps(p.Height)))
		out = binary.AppendUvarint(out, uint64(len(p.Words)))
		var x, y, height int64
		for _, w := range p.Words {
			if w.Start < at || w.End <= w.Start {
				return nil, fmt.Errorf("ingest: geometry: word at [%d,%d) after one that ends at %d", w.Start, w.End, at)
			}
			out = binary.AppendUvarint(out, uint64(w.Start-at))
			out = binary.AppendUvarint(out, uint64(w.End-w.Start)<<2|uint64(w.Runs&3))
			x0, y0, x1, y1 := steps(w.Box.X0), steps(w.Box.Y0), steps(w.Box.X1), steps(w.Box.Y1)
			for _, v := range [...]int64{x0 - x, y0 - y, x1 - x0, y1 - y0 - height} {
				out = binary.AppendVarint(out, v)
			}
			at, x, y, height = w.End, x1, y0, y1-y0
		}
	}
	return out, nil
}

func steps(points float64) int64 {
	return int64(math.Round(max(min(points, 1e6), -1e6) * geometryStep))
}

var errGeometry = errors.New("ingest: geometry: the bytes are damaged; ingest the document again")

// UnmarshalBinary decodes what MarshalBinary made.
func (g *Geometry) UnmarshalBinary(data []byte) error {
	*g = Geometry{}
	if len(data) == 0 {
		return nil
	}
	if data[0] != geometryVersion && data[0] != geometryParts {
		return fmt.Errorf("ingest: geometry: version %d is not known; ingest the document again", data[0])
	}
	r := varints{data: data[1:]}
	at := 0
	for len(r.data) > 0 && !r.bad {
		part := ""
		if data[0] == geometryParts {
			part = r.text()
		}
		p := PageGeometry{Part: part, Number: int(r.unsigned()), Width: float64(r.unsigned()) / geometryStep, Height: float64(r.unsigned()) / geometryStep}
		n := r.unsigned()
		if n > uint64(len(r.data)) { // a word takes six bytes or more
			return errGeometry
		}
		p.Words = make([]Word, n)
		var x, y, height int64
		for i := range p.Words {
			start := at + int(r.unsigned())
			length := r.unsigned()
			x0, y0 := x+r.signed(), y+r.signed()
			x1 := x0 + r.signed()
			height += r.signed()
			at = start + int(length>>2)
			if at < start || start < 0 {
				return errGeometry
			}
			p.Words[i] = Word{start, at, Rect{points(x0), points(y0), points(x1), points(y0 + height)}, Direction(length & 3)}
			x, y = x1, y0
		}
		g.Pages = append(g.Pages, p)
	}
	if r.bad {
		*g = Geometry{}
		return errGeometry
	}
	return nil
}

func points(steps int64) float64 { return float64(steps) / geometryStep }

// varints reads numbers; bad is set, and zeros come, when there are no more.
type varints struct {
	data []byte
	bad  bool
}

func (r *varints) unsigned() uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 || v > math.MaxInt32 { // no offset or coordinate is larger
		r.bad, n, v = true, max(n, 0), 0
	}
	r.data = r.data[n:]
	return v
}

// text is a string after its length.
func (r *varints) text() string {
	n := r.unsigned()
	if n > uint64(len(r.data)) {
		r.bad, n = true, 0
	}
	s := string(r.data[:n])
	r.data = r.data[n:]
	return s
}

func (r *varints) signed() int64 {
	v, n := binary.Varint(r.data)
	if n <= 0 || v > math.MaxInt32 || v < math.MinInt32 {
		r.bad, n, v = true, max(n, 0), 0
	}
	r.data = r.data[n:]
	return v
}
