package ingest

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klippa-app/go-pdfium/requests"
	"github.com/stretchr/testify/require"
)

func TestGeometryRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var g Geometry
	at := 0
	for n := range 20 {
		p := PageGeometry{Part: strings.Repeat("m.eml > é.pdf", n%3), Number: 1 + 2*n, Width: 612, Height: float64(rng.IntN(20000)) / 10}
		for range rng.IntN(50) {
			at += rng.IntN(3)
			end := at + 1 + rng.IntN(12)
			x, y := float64(rng.IntN(12000)-1000)/10, float64(rng.IntN(9000)-1000)/10
			p.Words = append(p.Words, Word{at, end, Rect{x, y, x + float64(rng.IntN(500))/10, y + 11.5}, Direction(rng.IntN(4))})
			at = end
		}
		if p.Words == nil {
			p.Words = []Word{}
		}
		g.Pages = append(g.Pages, p)
	}
	data, err := g.MarshalBinary()
	require.NoError(t, err)
	var got Geometry
	require.NoError(t, got.UnmarshalBinary(data))
	require.Len(t, got.Pages, len(g.Pages))
	for i, p := range g.Pages {
		require.Equal(t, p.Number, got.Pages[i].Number)
		require.Equal(t, p.Part, got.Pages[i].Part)
		require.Len(t, got.Pages[i].Words, len(p.Words))
		for j, w := range p.Words {
			v := got.Pages[i].Words[j]
			require.Equal(t, [3]any{w.Start, w.End, w.Runs}, [3]any{v.Start, v.End, v.Runs})
			require.InDeltaSlice(t, []float64{w.Box.X0, w.Box.Y0, w.Box.X1, w.Box.Y1}, []float64{v.Box.X0, v.Box.Y0, v.Box.X1, v.Box.Y1}, 0.051)
		}
	}
	for n := range data[:200] {
		_ = got.UnmarshalBinary(data[:n]) // an error or fewer pages, never a panic
	}
	require.Error(t, got.UnmarshalBinary([]byte{9}))
	empty, err := (&Geometry{}).MarshalBinary()
	require.NoError(t, err)
	require.Empty(t, empty)
	require.NoError(t, got.UnmarshalBinary(nil))
}

func FuzzGeometry(f *testing.F) {
	g := Geometry{Pages: []PageGeometry{{Part: "a.pdf", Number: 1, Width: 612, Height: 792, Words: []Word{{0, 4, Rect{72, 50, 99, 62}, RunsRight}, {5, 9, Rect{103, 50, 120, 62}, RunsLeft}}}}}
	data, err := g.MarshalBinary()
	require.NoError(f, err)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		var g Geometry
		if g.UnmarshalBinary(data) == nil {
			g.Boxes(0, 1<<30)
		}
	})
}

// boxesOf are the places of a phrase that occurs once.
func boxesOf(t *testing.T, d *Document, phrase string) []PageBoxes {
	t.Helper()
	require.Equal(t, 1, strings.Count(d.Text, phrase), "%q in %q", phrase, d.Text)
	at := strings.Index(d.Text, phrase)
	return d.Geometry.Boxes(at, at+len(phrase))
}

// TestPDFBoxes: Helvetica of 11 points at known places; boxes are of the page as it is shown.
func TestPDFBoxes(t *testing.T) {
	page := pdfLines("", "The first line of this page ends here and", "the second line goes on.") +
		"BT /F0 11 Tf 330 726 Td (Another column stands beside it.) Tj ET\n"
	file := pdfOf(pdfLines("A page before."), page)
	turned := func(what string) []byte {
		return bytes.ReplaceAll(file, []byte("/MediaBox [0 0 612 792]"), []byte("/MediaBox [0 0 612 792] "+what))
	}
	for name, tt := range map[string]struct {
		file          []byte
		width, height float64
		place         func(x, y float64) (float64, float64) // of a point of the page's user space
	}{
		"upright":    {file, 612, 792, func(x, y float64) (float64, float64) { return x, 792 - y }},
		"right":      {turned("/Rotate 90"), 792, 612, func(x, y float64) (float64, float64) { return y, x }},
		"upsidedown": {turned("/Rotate 180"), 612, 792, func(x, y float64) (float64, float64) { return 612 - x, y }},
		"left":       {turned("/Rotate 270"), 792, 612, func(x, y float64) (float64, float64) { return 792 - y, 612 - x }},
		"cropped":    {turned("/CropBox [50 100 550 750]"), 500, 650, func(x, y float64) (float64, float64) { return x - 50, 750 - y }},
	} {
		t.Run(name, func(t *testing.T) {
			d := parseBytes(t, "a.pdf", tt.file)
			for phrase, from := range map[string][2]float64{ // where its baseline begins, how wide it is
				"first line":     {72 + 22.1, 726},
				"second":         {72 + 18.3, 712},
				"Another column": {330, 726},
			} {
				got := boxesOf(t, d, phrase)
				require.Len(t, got, 1)
				require.Equal(t, 2, got[0].Page)
				require.InDelta(t, tt.width, got[0].Width, 0.1)
				require.InDelta(t, tt.height, got[0].Height, 0.1)
				require.Len(t, got[0].Boxes, 1)
				x, y := tt.place(from[0]+3, from[1]+3) // inside its first letter
				box := got[0].Boxes[0]
				require.True(t, box.X0 <= x && x <= box.X1 && box.Y0 <= y && y <= box.Y1, "%q: (%.1f, %.1f) not in %v", phrase, x, y, box)
				x, y = tt.place(from[0]-4, from[1]+3) // the blank before it
				require.False(t, box.X0 <= x && x <= box.X1 && box.Y0 <= y && y <= box.Y1, "%q: (%.1f, %.1f) in %v", phrase, x, y, box)
			}
			if name == "upright" { // PDFium reads lines of a turned page in another order
				require.Len(t, boxesOf(t, d, "ends here and the second")[0].Boxes, 2, "one for each line")
			}
		})
	}
	d := parseBytes(t, "a.pdf", file)
	whole, part := boxesOf(t, d, "Another")[0].Boxes[0], boxesOf(t, d, "noth")[0].Boxes[0]
	require.InDelta(t, whole.X0+(whole.X1-whole.X0)/7, part.X0, 0.2)
	require.InDelta(t, whole.X0+(whole.X1-whole.X0)*5/7, part.X1, 0.2)
	require.Empty(t, d.Geometry.Boxes(0, 0))
	require.Equal(t, 1, d.Geometry.Boxes(0, 5)[0].Page)
	require.Len(t, d.Geometry.Boxes(0, len(d.Text)), 2)
}

// TestManifestBoxes: on handed PDFs, a phrase's boxes lie where PDFium's own search finds it.
func TestManifestBoxes(t *testing.T) {
	root := os.Getenv("RAGD_REFS")
	if root == "" {
		t.Skip("RAGD_REFS is not set: no handed files")
	}
	dir := filepath.Join(root, "data", "files")
	checked := 0
	for _, row := range manifest(t, dir) {
		if !strings.HasSuffix(row.Path, ".pdf") || len(row.Phrases) == 0 {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(row.Path)))
		require.NoError(t, err)
		d, err := Parse(t.Context(), row.Path, data, Limits{})
		if err != nil || d.Kind != "pdf" {
			continue
		}
		for _, ph := range row.Phrases {
			for _, page := range d.Pages {
				text := d.Text[page.Start:page.End]
				if ph.Page != page.Number || !strings.Contains(text, ph.Text) {
					continue
				}
				var got []PageBoxes // of every occurrence: the search may miss those that are broken over lines
				for from, at := 0, strings.Index(text, ph.Text); at >= 0; at = strings.Index(text[from:], ph.Text) {
					start := page.Start + from + at
					got = append(got, d.Geometry.Boxes(start, start+len(ph.Text))...)
					from += at + len(ph.Text)
				}
				want, ok := searchPDF(t, data, page.Number, ph.Text)
				if !ok {
					continue // PDFium's search knows no such phrase: hyphens, other spaces
				}
				checked++
				if !overlaps(got, page.Number, want) {
					t.Errorf("%s page %d: %q is at %v, boxes are %v", row.Path, page.Number, ph.Text, want, got)
				}
			}
		}
	}
	require.Greater(t, checked, 30)
	t.Log(checked, "phrases")
}

// overlaps: some box holds the middle of the first rectangle that was searched.
func overlaps(got []PageBoxes, page int, want []Rect) bool {
	for _, w := range want {
		x, y := (w.X0+w.X1)/2, (w.Y0+w.Y1)/2
		for _, p := range got {
			for _, b := range p.Boxes {
				if p.Page == page && b.X0-1 <= x && x <= b.X1+1 && b.Y0-1 <= y && y <= b.Y1+1 {
					return true
				}
			}
		}
	}
	return false
}

// searchPDF is PDFium's own answer: rectangles of every occurrence, shown.
func searchPDF(t *testing.T, data []byte, page int, phrase string) (found []Rect, ok bool) {
	t.Helper()
	pool, err := pdfPool()
	require.NoError(t, err)
	instance, err := pool.GetInstanceWithContext(t.Context())
	require.NoError(t, err)
	defer instance.Close()
	opened, err := instance.OpenDocument(&requests.OpenDocument{File: &data})
	require.NoError(t, err)
	loaded, err := instance.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: opened.Document, Index: page - 1})
	require.NoError(t, err)
	ref := requests.Page{ByReference: &loaded.Page}
	p := &pdfReader{pdf: instance}
	shown, _, _, err := p.shown(ref)
	require.NoError(t, err)
	tp, err := instance.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: ref})
	require.NoError(t, err)
	search, err := instance.FPDFText_FindStart(&requests.FPDFText_FindStart{TextPage: tp.TextPage, Find: phrase})
	require.NoError(t, err)
	for {
		next, err := instance.FPDFText_FindNext(&requests.FPDFText_FindNext{Search: search.Search})
		require.NoError(t, err)
		if !next.GotMatch {
			return found, len(found) > 0
		}
		at, err := instance.FPDFText_GetSchResultIndex(&requests.FPDFText_GetSchResultIndex{Search: search.Search})
		require.NoError(t, err)
		n, err := instance.FPDFText_GetSchCount(&requests.FPDFText_GetSchCount{Search: search.Search})
		require.NoError(t, err)
		rects, err := instance.FPDFText_CountRects(&requests.FPDFText_CountRects{TextPage: tp.TextPage, StartIndex: at.Index, Count: n.Count})
		require.NoError(t, err)
		for i := range rects.Count {
			r, err := instance.FPDFText_GetRect(&requests.FPDFText_GetRect{TextPage: tp.TextPage, Index: i})
			require.NoError(t, err)
			found = append(found, shown.rect(r.Left, r.Bottom, r.Right, r.Top))
		}
	}
}
