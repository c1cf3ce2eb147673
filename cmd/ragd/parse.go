package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

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
	Page int    `json:"page"`
	Text string `json:"text"`
}

type parsedError struct {
	Class   ingest.Class `json:"class"`
	Message string       `json:"message"`
}

// runParse reads the file at path and writes what was found as one JSON line.
// A document that cannot be ingested is an answer, not an error.
func runParse(ctx context.Context, path string, out io.Writer) error {
	p := parsed{Path: path, Pages: []parsedPage{}, Warnings: []string{}}
	d, err := ingest.ParseFile(ctx, path, ingest.Limits{})
	var refused *ingest.Error
	switch {
	case errors.As(err, &refused):
		p.Error = &parsedError{refused.Class, refused.Message}
	case err != nil:
		return fmt.Errorf("parse %s: %w", path, err)
	}
	if d != nil {
		p.Kind, p.Warnings = d.Kind, append(p.Warnings, d.Warnings...)
		for _, page := range d.Pages {
			p.Pages = append(p.Pages, parsedPage{page.Number, d.Text[page.Start:page.End]})
		}
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc.Encode(p)
}

type parseCmd struct {
	File string `arg:"" help:"The file to read." type:"existingfile"`
	JSON bool   `help:"Print one JSON object: path, kind, pages, warnings, error." name:"json"`
}

// Run shows what ragd reads out of a file; without --json as text, with a line before each page.
func (k parseCmd) Run(ctx ctxBinding) error {
	if k.JSON {
		return runParse(ctx, k.File, os.Stdout)
	}
	d, err := ingest.ParseFile(ctx, k.File, ingest.Limits{})
	if err != nil {
		return err
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
