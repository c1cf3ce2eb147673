package ingest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// OCR reads pictures of text with the program tesseract, where it is installed:
// PDF pages without a text layer, and pictures.
type OCR struct {
	Command   string        // default "tesseract", from PATH
	Languages string        // "eng+deu"; default: up to four of those installed, English first
	Pages     int           // of one document; default 500
	PageTime  time.Duration // for one page, beside Limits.Time; default 1 minute
}

// ocrSlots bounds recognition in this process: each takes one core and some 200 MB.
var ocrSlots = make(chan struct{}, max(runtime.GOMAXPROCS(0), 1))

// ocrMemory is the address space of one recognition.
const ocrMemory = 2 << 30

// ocrEngine is an OCR that was found to work.
type ocrEngine struct {
	path, languages string
	turns           bool // can find out how a page is turned
	pages           int
	pageTime        time.Duration
}

var errNoOCR = errors.New("tesseract is not installed")

// engine finds the program and its languages.
func (o *OCR) engine(ctx context.Context) (*ocrEngine, error) {
	if o == nil {
		return nil, errNoOCR
	}
	path, err := exec.LookPath(cmp.Or(o.Command, "tesseract"))
	if err != nil {
		return nil, errNoOCR
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := exec.CommandContext(ctx, path, "--list-langs").CombinedOutput() // version 3 lists them on stderr
	if err != nil {
		return nil, fmt.Errorf("tesseract does not start: %w", err)
	}
	installed := ocrLanguages(string(list))
	e := &ocrEngine{path: path, turns: slices.Contains(installed, "osd"), pages: cmp.Or(o.Pages, 500), pageTime: cmp.Or(o.PageTime, time.Minute)}
	installed = slices.DeleteFunc(installed, func(l string) bool { return l == "osd" || l == "equ" || strings.Contains(l, "/") })
	if o.Languages != "" {
		for l := range strings.SplitSeq(o.Languages, "+") {
			if !slices.Contains(installed, l) {
				return nil, fmt.Errorf("tesseract has no language %q; it has %s", l, strings.Join(installed, ", "))
			}
		}
		e.languages = o.Languages
		return e, nil
	}
	if len(installed) == 0 {
		return nil, errors.New("tesseract has no language installed")
	}
	slices.SortStableFunc(installed, func(a, b string) int { return cmp.Compare(notEnglish(a), notEnglish(b)) })
	e.languages = strings.Join(installed[:min(len(installed), 4)], "+")
	return e, nil
}

func notEnglish(language string) int {
	if language == "eng" {
		return 0
	}
	return 1
}

// ocrLanguages are the lines of `tesseract --list-langs` after its title.
func ocrLanguages(list string) []string {
	var found []string
	for line := range strings.Lines(list) {
		if line = strings.TrimSpace(line); line != "" && !strings.ContainsAny(line, " :") {
			found = append(found, line)
		}
	}
	return found
}

// picture is a page to be read: grey, one byte a pixel.
type picture struct {
	pgm           []byte // portable grey map, header and pixels
	width, height int
	dpi           float64
}

// pictureOf copies img, whose pixels may be gone soon.
func pictureOf(img *image.Gray, dpi float64) picture {
	b := img.Bounds()
	pgm := fmt.Appendf(make([]byte, 0, b.Dx()*b.Dy()+32), "P5\n%d %d\n255\n", b.Dx(), b.Dy())
	for y := b.Min.Y; y < b.Max.Y; y++ {
		row := img.Pix[img.PixOffset(b.Min.X, y):]
		pgm = append(pgm, row[:b.Dx()]...)
	}
	return picture{pgm, b.Dx(), b.Dy(), dpi}
}

// read gives the lines of a picture; none when there is no text in it.
func (e *ocrEngine) read(ctx context.Context, p picture) ([]pdfLine, error) {
	select {
	case ocrSlots <- struct{}{}:
		defer func() { <-ocrSlots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	words, err := e.run(ctx, p, "3")
	if err != nil {
		return nil, err
	}
	if sure := confidence(words); sure < ocrDoubt && e.turns { // perhaps the page lies on its side
		if turned, err := e.run(ctx, p, "1"); err == nil && confidence(turned) > sure {
			words = turned
		}
	}
	if confidence(words) < ocrNoise { // a photograph, a drawing
		return nil, nil
	}
	return ocrLines(words, 72/p.dpi), nil
}

// Mean confidences of words, of 100: text that is read rightly has above 80.
const (
	ocrDoubt = 60
	ocrNoise = 40
)

// run calls tesseract with a page segmentation mode.
func (e *ocrEngine) run(ctx context.Context, p picture, mode string) ([]ocrWord, error) {
	ctx, cancel := context.WithTimeout(ctx, e.pageTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.path, "stdin", "stdout", "-l", e.languages, "--psm", mode, "--dpi", strconv.Itoa(int(p.dpi)), "-c", "tessedit_create_tsv=1")
	cmd.Stdin = bytes.NewReader(p.pgm)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &capped{&out, 32 << 20}, &capped{&complaint, 4 << 10}
	cmd.Env = append(os.Environ(), "OMP_THREAD_LIMIT=1") // pages run beside each other instead
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("tesseract does not start: %w", err)
	}
	limitMemory(cmd.Process.Pid, ocrMemory)
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("tesseract: %w: %s", err, cutAt(strings.Join(strings.Fields(complaint.String()), " "), 200))
	}
	return parseTSV(out.String()), nil
}

// capped keeps the first bytes written and drops the rest.
type capped struct {
	to   *bytes.Buffer
	room int
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.room)
	c.to.Write(p[:n])
	c.room -= n
	return len(p), nil
}

var _ io.Writer = (*capped)(nil)

// ocrWord is a row of tesseract's table: pixels from the top left corner.
type ocrWord struct {
	line                     [3]int // block, paragraph, line
	left, top, width, height float64
	sure                     float64 // 0..100
	text                     string
}

// parseTSV reads tesseract's table: level, page, block, paragraph, line, word,
// left, top, width, height, confidence, text. Only words have text.
func parseTSV(out string) []ocrWord {
	var words []ocrWord
	for row := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimRight(row, "\r\n"), "\t", 12)
		if len(f) != 12 || f[0] != "5" {
			continue
		}
		text := strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(f[11], "\x00", ""), ""))
		var n [9]float64 // columns 2..10
		ok := text != ""
		for i := range n {
			v, err := strconv.ParseFloat(f[2+i], 64)
			ok = ok && err == nil && v >= -1 && v < 1e6
			n[i] = v
		}
		if ok && n[8] >= 10 {
			words = append(words, ocrWord{[3]int{int(n[0]), int(n[1]), int(n[2])}, n[4], n[5], n[6], n[7], n[8], text})
		}
	}
	return words
}

// confidence is the mean over words that have letters or digits.
func confidence(words []ocrWord) float64 {
	sum, n := 0.0, 0
	for _, w := range words {
		if strings.ContainsFunc(w.text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			sum += w.sure
			n++
		}
	}
	return sum / float64(max(n, 1))
}

// ocrLines puts words into lines as the layout wants them; scale is points per pixel.
func ocrLines(words []ocrWord, scale float64) []pdfLine {
	var heights []float64
	for _, w := range words {
		heights = append(heights, w.height*scale)
	}
	slices.Sort(heights)
	var size float64 // heights of words vary with their letters: one size for all
	if len(heights) > 0 {
		size = heights[len(heights)*3/4]
	}
	var lines []pdfLine
	var open [3]int
	paragraph := 0
	for _, w := range words {
		if open[0] != w.line[0] || open[1] != w.line[1] {
			paragraph++
		}
		x0, y0, x1, y1 := w.left*scale, w.top*scale, (w.left+w.width)*scale, (w.top+w.height)*scale
		placed := pdfWord{w.text, float32(x0), float32(y0), float32(x1), float32(y1), RunsRight}
		n := len(lines)
		switch {
		case n > 0 && open == w.line:
			l := &lines[n-1]
			l.text += blank(l.text, w.text) + w.text
			l.right = x1
			l.words = append(l.words, placed)
		case n > 0 && open[0] == w.line[0] && open[1] == w.line[1] && brokenWord(lines[n-1].text, w.text): // as PDFium marks it
			l := &lines[n-1]
			l.text = strings.TrimRight(l.text, "-‐") + pdfHyphen + w.text
			l.last = -y1
			last := &l.words[len(l.words)-1]
			last.text = strings.TrimRight(last.text, "-‐")
			l.words = append(l.words, placed)
		default:
			lines = append(lines, pdfLine{text: w.text, left: x0, right: x1, first: -y1, last: -y1, height: 1.2 * size, size: size, words: []pdfWord{placed}, paragraph: paragraph})
		}
		open = w.line
	}
	return lines
}

// brokenWord: a line that ends in "exam-" before one that begins with "ple".
func brokenWord(line, next string) bool {
	stem := strings.TrimRight(line, "-‐")
	last, _ := utf8.DecodeLastRuneInString(stem)
	return stem != line && unicode.IsLetter(last) && startsLower(next)
}

// ocrPages reads the pictures of a document's pages, several at once.
type ocrPages struct {
	*ocrEngine
	s     *source
	group sync.WaitGroup

	mu    sync.Mutex
	taken int
	err   error // of the first page that failed
}

// page reads one picture in the background and hands its lines to done.
func (o *ocrPages) page(ctx context.Context, p picture, done func([]pdfLine)) {
	o.s.deadline.extend(o.pageTime / time.Duration(cap(ocrSlots)))
	o.group.Go(func() {
		lines, err := o.read(ctx, p)
		o.mu.Lock()
		defer o.mu.Unlock()
		if err != nil && o.err == nil {
			o.err = err
		}
		done(lines)
	})
}

// wait ends when all pages are read.
func (o *ocrPages) wait() {
	if o != nil {
		o.group.Wait()
	}
}

// room counts a page; false when the document has had as many as it may.
func (o *ocrPages) room() bool {
	o.taken++
	return o.taken <= o.pages
}
