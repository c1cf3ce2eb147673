package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// Parse reads one file. name serves only to choose between formats that the
// content leaves open (Markdown or plain text, which programming language);
// data is not retained. The error is an *Error, or ctx's; with class no_text
// the document's kind and warnings come along.
func Parse(ctx context.Context, name string, data []byte, limits Limits) (*Document, error) {
	limits = limits.withDefaults()
	if int64(len(data)) > limits.FileBytes {
		return nil, tooLarge(name, int64(len(data)), limits)
	}
	s := &source{name: name, data: data, budget: &budget{Limits: limits}}
	if signature(data) == "pdf" {
		_, _ = pdfPool() // compiling PDFium once is no fault of this document; its error comes back in readPDF
	}
	began := time.Now()
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	s.deadline = newDeadline(limits.Time, cancel)
	defer s.deadline.timer.Stop()
	type result struct {
		d   *Document
		err error
	}
	// Readers look at ctx whenever they pull data, PDFium is killed; what cannot
	// be interrupted at all is left behind in its goroutine rather than waited for.
	done := make(chan result, 1)
	go func() {
		d, err := parse(limited, s)
		done <- result{d, err}
	}()
	var r result
	select {
	case r = <-done:
	case <-limited.Done():
		select { // PDFium needs a moment to die; prefer its own report
		case r = <-done:
		case <-time.After(2 * time.Second):
			r.err = limited.Err()
		}
	}
	var e *Error
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case r.err == nil || errors.As(r.err, &e):
		return r.d, r.err
	case limited.Err() != nil:
		return nil, failf(TooLarge, "%s: reading it took longer than %s; split it, or raise the limit", name, time.Since(began).Round(time.Second))
	}
	return nil, failf(Corrupt, "%s: %v", name, r.err)
}

// parse runs the reader with its panics caught: the fault of a file must never
// end the process.
func parse(ctx context.Context, s *source) (d *Document, err error) {
	defer func() {
		if p := recover(); p != nil {
			d, err = nil, &Error{Class: Corrupt, Message: fmt.Sprintf("%s: the reader failed (%v); the file is damaged or unusual, please report it", s.name, p), Stack: debug.Stack()}
		}
	}()
	if isBlank(s.data) {
		return nil, failf(Empty, "%s is empty", s.name)
	}
	f, err := detect(s)
	if err != nil {
		return nil, err
	}
	b := &builder{limit: s.TextBytes}
	err = f.read(ctx, s, b)
	if b.err != nil {
		err = b.err
	}
	d = b.document(f.kind)
	if err != nil {
		return &Document{Kind: f.kind, Warnings: b.warnings}, err
	}
	if strings.TrimSpace(d.Text) == "" {
		return d, failf(NoText, "%s holds no text", s.name)
	}
	if f.kind != "code" {
		d.Language = language(d.Text)
	}
	return d, nil
}

// isBlank: nothing but white space (and NUL, which some editors pad with).
func isBlank(data []byte) bool {
	return len(bytes.Trim(data, " \t\r\n\f\v\x00")) == 0
}

// readMember reads a file found inside another into b, under a heading.
func readMember(ctx context.Context, s *source, name string, data []byte, b *builder) error {
	m, err := s.member(name, data)
	if err != nil {
		return err
	}
	if isBlank(data) {
		return nil
	}
	f, err := detect(m)
	if err != nil {
		return err
	}
	in := &builder{limit: b.limit - int64(b.len())}
	if err := f.read(ctx, m, in); err != nil {
		return err
	}
	if in.err != nil {
		return in.err
	}
	d := in.document(f.kind)
	for _, w := range d.Warnings {
		b.warn(w)
	}
	first := len(b.blocks)
	b.add(Heading, 1, m.name)
	for i := range d.Blocks {
		k := &d.Blocks[i]
		if k.Kind == Heading {
			k.Level++
		}
		if page := d.page(k.Start); page.Number > 0 && k.Cells == nil {
			k.Origin = strings.TrimSuffix(pageName(d.Kind, page.Number)+originSep+k.Origin, originSep)
		}
	}
	b.verbatim(d.Text, d.Blocks)
	if b.err == nil {
		d.Geometry.shift(b.len() - len(d.Text))
		b.geometry.Pages = append(b.geometry.Pages, d.Geometry.Pages...)
	}
	b.within(m.name, first)
	return nil
}

// skippable reports that a member that failed with err may be left out: its
// container's other members are still worth having. Limits are not skippable.
func skippable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Class != TooLarge && e.Class != TooDeep
}

// ParseFile is Parse of the file at path, refused before it is read when it is
// larger than limits allow.
func ParseFile(ctx context.Context, path string, limits Limits) (*Document, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, failf(Unsupported, "%s is not a regular file", path)
	}
	limits = limits.withDefaults()
	if info.Size() > limits.FileBytes {
		return nil, tooLarge(path, info.Size(), limits)
	}
	data := make([]byte, info.Size())
	n, err := io.ReadFull(f, data)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) { // it may shrink meanwhile
		return nil, err
	}
	return Parse(ctx, path, data[:n], limits)
}

func tooLarge(name string, n int64, l Limits) error {
	return failf(TooLarge, "%s is %s, over the limit of %s; split it, or raise the limit", name, sizeString(n), sizeString(l.FileBytes))
}
