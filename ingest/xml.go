package ingest

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"

	"golang.org/x/net/html"
)

var xmlEncoding = regexp.MustCompile(`^\s*<\?xml[^>]*encoding\s*=\s*["']([A-Za-z0-9._-]+)["']`)

// readXML reads XML of no known kind: the text of its elements, one block per
// element that holds text. Attributes, comments and definitions are not text.
// HTML inside (as feeds carry it) is read as such.
func readXML(ctx context.Context, s *source, b *builder) error {
	declared := ""
	if m := xmlEncoding.FindSubmatch(s.data[:min(len(s.data), 256)]); m != nil {
		declared = string(m[1])
	}
	text, _ := s.plain(b, declared)
	d := xml.NewDecoder(&contextReader{ctx: ctx, data: []byte(text)})
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // decoded above
	d.Strict = false
	d.Entity = xml.HTMLEntity
	var open strings.Builder
	flush := func(name string) error {
		t := open.String()
		open.Reset()
		switch {
		case strings.TrimSpace(t) == "":
			return nil
		case markupIn.MatchString(t):
			return readFragment(ctx, s, b, t)
		case strings.EqualFold(name, "title") && b.title == "":
			b.title = t
			b.add(Heading, 1, t)
			return nil
		}
		b.add(Paragraph, 0, t)
		return nil
	}
	var stack []string
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return flush("")
		}
		if err != nil {
			return xmlError(ctx, s, err)
		}
		switch t := t.(type) {
		case xml.StartElement:
			if stack = append(stack, t.Name.Local); len(stack) > xmlDepth {
				return failf(TooDeep, "%s nests XML elements more than %d deep", s.name, xmlDepth)
			}
			err = flush("")
		case xml.CharData:
			open.Write(t)
		case xml.EndElement:
			name := ""
			if n := len(stack); n > 0 {
				name, stack = stack[n-1], stack[:n-1]
			}
			err = flush(name)
		}
		if err != nil {
			return err
		}
		if b.err != nil {
			return b.err
		}
	}
}

var markupIn = regexp.MustCompile(`(?i)</(p|div|a|b|i|li|ul|span|table|h[1-6])>|<br\s*/?>`)

func readFragment(ctx context.Context, s *source, b *builder, fragment string) error {
	root, err := html.Parse(strings.NewReader(fragment))
	if err != nil {
		return htmlError(s, err)
	}
	return walkHTML(ctx, s, b, root)
}
