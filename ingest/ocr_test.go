package ingest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klippa-app/go-pdfium/requests"
	"github.com/stretchr/testify/require"
)

// scanOf is a PDF of one page that is a picture of lines of text: the page of
// pdfLines, rendered. Then, typed, follows a page with a text layer.
func scanOf(t *testing.T, lines ...string) []byte {
	t.Helper()
	pool, err := pdfPool()
	require.NoError(t, err)
	instance, err := pool.GetInstanceWithContext(t.Context())
	require.NoError(t, err)
	defer instance.Close()
	file := pdfOf(pdfLines(lines...))
	opened, err := instance.OpenDocument(&requests.OpenDocument{File: &file})
	require.NoError(t, err)
	drawn, err := instance.RenderPageInDPI(&requests.RenderPageInDPI{Page: requests.Page{ByIndex: &requests.PageByIndex{Document: opened.Document}}, DPI: 150, ImageFormat: requests.RenderImageFormatGrayscale})
	require.NoError(t, err)
	defer drawn.Cleanup()
	img := drawn.Result.RenderedImage.(*image.Gray)
	var pixels []byte
	for y := range img.Rect.Dy() {
		pixels = append(pixels, img.Pix[y*img.Stride:y*img.Stride+img.Rect.Dx()]...)
	}
	size := img.Rect.Size()
	inline := fmt.Sprintf("q 612 0 0 792 0 0 cm BI /W %d /H %d /CS /G /BPC 8 ID %s EI Q", size.X, size.Y, pixels)
	return pdfOf(inline, pdfLines("The second page has a text layer of its own."))
}

func itoa(n int) string {
	return strings.TrimSpace(strings.Replace(sizeString(int64(n)), " bytes", "", 1))
}

// fakeTesseract is a program that answers as tesseract does, for any picture.
func fakeTesseract(t *testing.T, answer string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	path := filepath.Join(t.TempDir(), "tesseract")
	script := "#!/bin/sh\nif [ \"$1\" = --list-langs ]; then printf 'List of available languages in \"/x/\" (4):\\ndeu\\neng\\nosd\\nscript/Latin\\n'; exit 0; fi\n" + answer
	require.NoError(t, os.WriteFile(path, []byte(script), 0o700))
	return path
}

const fakeTSV = `head -c 2 > "$0.magic"; cat > /dev/null; echo "$@" > "$0.args"
printf 'level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n'
printf '5\t1\t1\t1\t1\t1\t300\t300\t200\t50\t96.1\tPaid\n5\t1\t1\t1\t1\t2\t520\t300\t200\t50\t93\tholi-\n5\t1\t1\t1\t2\t1\t300\t370\t100\t50\t91\tdays\n'
printf '5\t1\t2\t1\t1\t1\t300\t600\t200\t50\t90\tNext\n4\t1\t2\t1\t1\t0\t0\t0\t9\t9\t-1\t\n5\t1\t2\t1\t1\t2\t300\t600\t1\t1\t2\tnoise\n'
`

func TestOCRProtocol(t *testing.T) {
	scan := scanOf(t, "Anything at all.")
	path := fakeTesseract(t, fakeTSV)
	d, err := Parse(t.Context(), "scan.pdf", scan, Limits{OCR: &OCR{Command: path}})
	require.NoError(t, err)
	require.Equal(t, "Paid holidays\n\nNext\n\nThe second page has a text layer of its own.", d.Text)
	require.Equal(t, []bool{true, false}, []bool{d.Pages[0].OCR, d.Pages[1].OCR})
	require.Contains(t, d.Warnings, WarnOCR)
	at := strings.Index(d.Text, "holidays")
	boxes := d.Geometry.Boxes(at, at+len("holidays"))
	require.Equal(t, []PageBoxes{{Page: 1, Width: 612, Height: 792, Boxes: []Rect{{124.8, 72, 172.8, 84}, {72, 88.8, 96, 100.8}}}}, rounded(boxes), "300 dots per inch")
	args, err := os.ReadFile(path + ".args")
	require.NoError(t, err)
	require.Equal(t, "stdin stdout -l eng+deu --psm 3 --dpi 300 -c tessedit_create_tsv=1\n", string(args))
	magic, err := os.ReadFile(path + ".magic")
	require.NoError(t, err)
	require.Equal(t, "P5", string(magic), "a portable grey map")
}

func rounded(all []PageBoxes) []PageBoxes {
	for i := range all {
		for j, b := range all[i].Boxes {
			r := func(v float64) float64 { return float64(int(v*10+0.5)) / 10 }
			all[i].Boxes[j] = Rect{r(b.X0), r(b.Y0), r(b.X1), r(b.Y1)}
		}
	}
	return all
}

func TestOCRFails(t *testing.T) {
	scan := scanOf(t, "Anything at all.")
	for name, tt := range map[string]struct {
		ocr  *OCR
		want string
	}{
		"off":      {nil, "needs OCR: no text layer on any of its 1 pages (a scan, or drawings only), and OCR is off"},
		"missing":  {&OCR{Command: "/nowhere/tesseract"}, "install tesseract"},
		"language": {&OCR{Command: fakeTesseract(t, fakeTSV), Languages: "fra"}, `no language "fra"; it has deu, eng`},
		"breaks":   {&OCR{Command: fakeTesseract(t, "echo no such thing >&2; exit 3")}, "no such thing"},
		"noise":    {&OCR{Command: fakeTesseract(t, `printf '5\t1\t1\t1\t1\t1\t3\t3\t2\t5\t20\tab\n'`)}, "recognition found no text"},
		"slow":     {&OCR{Command: fakeTesseract(t, "exec sleep 60"), PageTime: 50 * time.Millisecond}, "and it failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			only := pdfOf("q 612 0 0 792 0 0 cm BI /W 1 /H 2 /CS /G /BPC 8 /F /AHx ID 00ff> EI Q")
			_, err := Parse(t.Context(), "scan.pdf", only, Limits{OCR: tt.ocr})
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, NoText, e.Class)
			require.Contains(t, e.Message, tt.want)
		})
	}
	d, err := Parse(t.Context(), "scan.pdf", scan, Limits{})
	require.NoError(t, err)
	require.Contains(t, d.Warnings, WarnEmptyPages, "one page of two")
}

// TestTesseract reads a picture with the program itself, where it is installed.
func TestTesseract(t *testing.T) {
	if _, err := exec.LookPath("tesseract"); err != nil {
		t.Skip("tesseract is not installed")
	}
	d, err := Parse(t.Context(), "scan.pdf", scanOf(t, "Employees have thirty days of paid leave.", "", "", "The second paragraph is about travel."), Limits{OCR: &OCR{}})
	require.NoError(t, err)
	require.Contains(t, d.Text, "Employees have thirty days of paid leave.")
	require.Contains(t, d.Text, "The second page has a text layer")
	boxes := boxesOf(t, d, "thirty days")
	require.Len(t, boxes, 1)
	require.InDelta(t, 45, boxes[0].Boxes[0].Y0, 8) // a line at 740 of 792 points
	require.InDelta(t, 160, boxes[0].Boxes[0].X0, 25)
}

func FuzzTSV(f *testing.F) {
	f.Add("5\t1\t1\t1\t1\t1\t300\t300\t200\t50\t96.1\tPaid\n5\t1\t1\t1\t2\t1\t300\t370\t100\t50\t91\tdays\n")
	f.Fuzz(func(t *testing.T, out string) {
		for _, l := range ocrLines(parseTSV(out), 0.24) {
			if l.text == "" {
				t.Fatal("an empty line")
			}
		}
	})
}

func TestPicture(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 600, 300))
	img.Pix[5] = 9
	var file bytes.Buffer
	require.NoError(t, png.Encode(&file, img))
	_, err := Parse(t.Context(), "a.png", file.Bytes(), Limits{})
	require.ErrorIs(t, err, ErrUnsupported, "OCR is off")
	d, err := Parse(t.Context(), "misnamed.txt", file.Bytes(), Limits{OCR: &OCR{Command: fakeTesseract(t, fakeTSV)}})
	require.NoError(t, err)
	require.Equal(t, "image", d.Kind)
	require.Equal(t, "Paid holidays\n\nNext", d.Text)
	require.True(t, d.Pages[0].OCR)
	require.Equal(t, 288.0, d.Geometry.Pages[0].Width)
	_, err = Parse(t.Context(), "a.png", file.Bytes()[:60], Limits{OCR: &OCR{Command: "/nowhere"}})
	require.Error(t, err)
	var random [4096]byte
	for i := range random {
		random[i] = byte(rand.Uint32N(256))
	}
	_, err = Parse(t.Context(), "a.dat", random[:], Limits{})
	require.ErrorIs(t, err, ErrUnsupported)
}

// tiffOf is a fax: pages of white pixels, each with a directory that names the next one.
func tiffOf(pages int) []byte {
	const width, height, entries = 64, 32, 8
	out := []byte("II*\x00\x00\x00\x00\x00")
	link := 4 // where the place of the next directory is told
	le := binary.LittleEndian
	for range pages {
		strip := len(out)
		out = append(out, bytes.Repeat([]byte{255}, width*height)...)
		le.PutUint32(out[link:], uint32(len(out)))
		out = le.AppendUint16(out, entries)
		for _, e := range [entries][2]uint32{{256, width}, {257, height}, {258, 8}, {259, 1}, {262, 1}, {273, uint32(strip)}, {278, height}, {279, width * height}} {
			out = le.AppendUint16(out, uint16(e[0]))
			out = le.AppendUint16(out, 4)
			out = le.AppendUint32(le.AppendUint32(out, 1), e[1])
		}
		link = len(out)
		out = le.AppendUint32(out, 0)
	}
	return out
}

// TestTIFF: all pages of a fax are read.
func TestTIFF(t *testing.T) {
	fax := tiffOf(3)
	d, err := Parse(t.Context(), "fax.tif", fax, Limits{OCR: &OCR{Command: fakeTesseract(t, fakeTSV)}})
	require.NoError(t, err)
	requireSound(t, d)
	require.Len(t, d.Pages, 3)
	require.Equal(t, "Paid holidays\n\nNext", d.Text[d.Pages[2].Start:d.Pages[2].End])
	require.Equal(t, 3, d.Geometry.Pages[2].Number)
	_, err = Parse(t.Context(), "fax.tif", fax, Limits{})
	require.ErrorIs(t, err, ErrUnsupported, "OCR is off")
	_, err = Parse(t.Context(), "fax.tif", fax, Limits{OCR: &OCR{Command: fakeTesseract(t, fakeTSV), Pages: 2}})
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = Parse(t.Context(), "fax.tif", fax[:20], Limits{OCR: &OCR{Command: "/nowhere"}})
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, Corrupt, e.Class)
}

func FuzzTIFF(f *testing.F) {
	f.Add(tiffOf(2))
	f.Fuzz(func(t *testing.T, data []byte) {
		if isTIFF(data) {
			frames, err := pictureFrames(&source{name: "a.tif", data: data, budget: &budget{Limits: fuzzLimits.withDefaults()}})
			if err == nil && len(frames) == 0 {
				t.Fatal("no pages and no error")
			}
		}
	})
}
