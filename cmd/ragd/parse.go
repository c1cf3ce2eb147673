package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"ragd/ingest"
)

// parsed is the JSON of `ragd parse --json`.
type parsed struct {
	Path     string       `json:"path"`
	Kind     string       `json:"kind"`
	Pages    []parsedPage `json:"pages"`
	Warnings []string     `json:"warnings"`
	Error    *parsedError `json:"error"`
}

type parsedPage struct {
	Page   int          `json:"page"`
	Text   string       `json:"text"`
	OCR    bool         `json:"ocr,omitempty"`
	Width  float64      `json:"width,omitempty"` // points; with --boxes, where places are known
	Height float64      `json:"height,omitempty"`
	Words  []parsedWord `json:"words,omitempty"`
}

// parsedWord is a word's place: bytes of the page's text, points from the page's top left corner.
type parsedWord struct {
	Start int        `json:"start"`
	End   int        `json:"end"`
	Box   [4]float64 `json:"box"`
}

type parsedError struct {
	Class   ingest.Class `json:"class"`
	Message string       `json:"message"`
}

type parseCmd struct {
	File   string `arg:"" help:"The file to read." type:"existingfile"`
	JSON   bool   `help:"Print one JSON object: path, kind, pages, warnings, error." name:"json"`
	Boxes  bool   `help:"With --json: where the words of a PDF's pages lie, in points from the page's top left corner."`
	Report bool   `help:"Print what was found, page by page, rather than the text: blocks, headings, places in the file."`
	Scans  bool   `help:"Read pages without a text layer with tesseract, as ingestion does (setting --ocr)."`
}

// limits are the settings' own, but without OCR unless it is asked for: what is
// printed should not depend on what else is installed.
func (k parseCmd) limits(a *app) ingest.Limits {
	l := a.limits()
	if !k.Scans {
		l.OCR = nil
	}
	return l
}

// Run shows what ragd reads out of a file; without --json as text, with a line before each page.
func (k parseCmd) Run(ctx ctxBinding, a *app) error {
	limitMemory()
	if k.JSON {
		return k.writeJSON(ctx, a, os.Stdout)
	}
	d, err := ingest.ParseFile(ctx, k.File, k.limits(a))
	if err != nil {
		return err
	}
	if k.Report {
		return d.Report(os.Stdout)
	}
	fmt.Printf("# %s, %s, %d bytes of text, warnings: %v\n", d.Kind, d.Title, len(d.Text), d.Warnings)
	for _, page := range d.Pages {
		if page.Number > 0 {
			fmt.Printf("\n# page %d\n", page.Number)
		}
		fmt.Println(d.Text[page.Start:page.End])
	}
	return nil
}

// writeJSON reads the file and writes what was found as one JSON line.
// A document that cannot be ingested is an answer, not an error.
func (k parseCmd) writeJSON(ctx context.Context, a *app, out io.Writer) error {
	p := parsed{Path: k.File, Pages: []parsedPage{}, Warnings: []string{}}
	d, err := ingest.ParseFile(ctx, k.File, k.limits(a))
	var refused *ingest.Error
	switch {
	case errors.As(err, &refused):
		p.Error = &parsedError{refused.Class, refused.Message}
	case err != nil:
		return fmt.Errorf("parse %s: %w", k.File, err)
	}
	if d != nil {
		p.Kind, p.Warnings = d.Kind, append(p.Warnings, d.Warnings...)
		for _, page := range d.Pages {
			p.Pages = append(p.Pages, parsedPage{Page: page.Number, Text: d.Text[page.Start:page.End], OCR: page.OCR})
		}
		if k.Boxes {
			p.addBoxes(d)
		}
	}
	w := bufio.NewWriter(out)
	if err := p.write(w); err != nil {
		return fmt.Errorf("write %s as JSON: %w", k.File, err)
	}
	return w.Flush()
}

// write is json.Encoder's output without its memory: the encoder would hold all
// of a text of hundreds of megabytes once more, and twice while that grows.
func (p parsed) write(w *bufio.Writer) error {
	pages := p.Pages
	p.Pages = []parsedPage{}
	line, err := compactJSON(p)
	if err != nil {
		return err
	}
	before, after, _ := bytes.Cut(line, []byte(`"pages":[]`)) // no string holds this: its quotes would be escaped
	w.Write(before)
	w.WriteString(`"pages":[`)
	for i, page := range pages {
		if i > 0 {
			w.WriteByte(',')
		}
		if err := page.write(w); err != nil {
			return err
		}
	}
	w.WriteByte(']')
	w.Write(after)
	return w.WriteByte('\n') // a bufio.Writer keeps its first error
}

func (p parsedPage) write(w *bufio.Writer) error {
	text := p.Text
	p.Text = ""
	line, err := compactJSON(p)
	if err != nil {
		return err
	}
	before, after, _ := bytes.Cut(line, []byte(`"text":""`))
	w.Write(before)
	w.WriteString(`"text":"`)
	for len(text) > 0 {
		n := min(len(text), 64<<10)
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		piece, err := compactJSON(text[:n])
		if err != nil {
			return err
		}
		w.Write(piece[1 : len(piece)-1])
		text = text[n:]
	}
	w.WriteByte('"')
	_, err = w.Write(after)
	return err
}

// compactJSON is v in one line, "<" and the like not escaped.
func compactJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func (p *parsed) addBoxes(d *ingest.Document) {
	for _, g := range d.Geometry.Pages {
		for i, page := range d.Pages {
			if page.Number != g.Number {
				continue
			}
			p.Pages[i].Width, p.Pages[i].Height = g.Width, g.Height
			for _, w := range g.Words {
				p.Pages[i].Words = append(p.Pages[i].Words, parsedWord{w.Start - page.Start, w.End - page.Start, [4]float64{w.Box.X0, w.Box.Y0, w.Box.X1, w.Box.Y1}})
			}
		}
	}
}
