package ingest

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"strings"

	"golang.org/x/net/html/charset"
)

// xmlDepth bounds nesting of elements. Word nests about 12 per text box or table level.
const xmlDepth = 500

// node is an XML element as a tree, or character data (name ""). Names carry a
// fixed short prefix for the namespaces that office formats use, whatever
// prefix the file chose and whichever edition of the standard it follows.
type node struct {
	name  string
	attrs []xml.Attr
	text  string
	kids  []*node
}

// attr is the value of an attribute, named with its prefix ("w:val", "r:id", "id").
func (n *node) attr(name string) string {
	for _, a := range n.attrs {
		if qualified(a.Name) == name {
			return a.Value
		}
	}
	return ""
}

// child is the first child with that name, or nil; path descends several levels.
func (n *node) child(path ...string) *node {
	for _, name := range path {
		var found *node
		if n == nil {
			return nil
		}
		for _, k := range n.kids {
			if k.name == name {
				found = k
				break
			}
		}
		n = found
	}
	return n
}

// each calls fn for every descendant element named name, in document order.
func (n *node) each(name string, fn func(*node)) {
	if n == nil {
		return
	}
	for _, k := range n.kids {
		if k.name == name {
			fn(k)
		}
		k.each(name, fn)
	}
}

// allText is the character data below n.
func (n *node) allText() string {
	var out strings.Builder
	var walk func(*node)
	walk = func(n *node) {
		out.WriteString(n.text)
		for _, k := range n.kids {
			walk(k)
		}
	}
	if n != nil {
		walk(n)
	}
	return out.String()
}

// namespaces maps parts of namespace names to prefixes. Transitional and strict
// OOXML differ in everything but these parts.
var namespaces = []struct{ part, prefix string }{
	{"officeDocument/2006/relationships", "r"}, {"ooxml/officeDocument/relationships", "r"},
	{"package/2006/relationships", "rel"},
	{"wordprocessingml", "w"}, {"spreadsheetml", "x"}, {"presentationml", "p"},
	{"drawingml/2006/chart", "c"}, {"drawingml/chart", "c"}, {"drawingml/2006/diagram", "dgm"}, {"drawingml/diagram", "dgm"},
	{"drawingml/2006/main", "a"}, {"drawingml/main", "a"}, {"officeDocument/2006/math", "m"}, {"officeDocument/math", "m"},
	{"markup-compatibility", "mc"}, {"schemas-microsoft-com:vml", "v"},
	{"opendocument:xmlns:office", "office"}, {"opendocument:xmlns:text", "text"}, {"opendocument:xmlns:table", "table"},
	{"opendocument:xmlns:drawing", "draw"}, {"opendocument:xmlns:style", "style"}, {"opendocument:xmlns:presentation", "presentation"},
	{"opendocument:xmlns:manifest", "manifest"}, {"purl.org/dc/elements", "dc"},
}

func qualified(n xml.Name) string {
	if n.Space == "" {
		return n.Local
	}
	for _, ns := range namespaces {
		if strings.Contains(n.Space, ns.part) {
			return ns.prefix + ":" + n.Local
		}
	}
	if n.Space == "http://www.w3.org/XML/1998/namespace" || n.Space == "xml" {
		return "xml:" + n.Local
	}
	return n.Local
}

// xmlElements reads XML as a stream. An element for which descend returns true
// is opened and its children are visited; any other is handed to visit as a
// tree. Entities that a document defines are never expanded: a reference to
// one is an error, so that neither files nor the network can be reached.
func xmlElements(ctx context.Context, s *source, data []byte, descend func(name string) bool, visit func(*node) error) error {
	label := charset.NewReaderLabel
	if enc, _ := byOrderMark(data); enc != nil { // office formats may be UTF-16
		data = transcode(data, enc)
		label = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	}
	d := xml.NewDecoder(&contextReader{ctx: ctx, data: bytes.TrimPrefix(data, []byte("\ufeff"))})
	d.CharsetReader = label
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return xmlError(ctx, s, err)
		}
		start, ok := t.(xml.StartElement)
		if !ok || descend(qualified(start.Name)) {
			continue
		}
		n, err := xmlTree(d, s, start, 0)
		if err != nil {
			return xmlError(ctx, s, err)
		}
		if err := visit(n); err != nil {
			return err
		}
	}
}

func xmlError(ctx context.Context, s *source, err error) error {
	var e *Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &e):
		return err
	}
	return failf(Corrupt, "%s holds broken XML (%v); open it in the program that made it and save it again", s.name, err)
}

// xmlRoot reads a whole part as one tree.
func xmlRoot(ctx context.Context, s *source, data []byte) (*node, error) {
	root := new(node)
	err := xmlElements(ctx, s, data, func(string) bool { return false }, func(n *node) error {
		root.kids = append(root.kids, n)
		return nil
	})
	return root, err
}

func xmlTree(d *xml.Decoder, s *source, start xml.StartElement, depth int) (*node, error) {
	if depth > xmlDepth {
		return nil, failf(TooDeep, "%s nests XML elements more than %d deep", s.name, xmlDepth)
	}
	n := &node{name: qualified(start.Name), attrs: start.Attr}
	for {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		switch t := t.(type) {
		case xml.StartElement:
			kid, err := xmlTree(d, s, t, depth+1)
			if err != nil {
				return nil, err
			}
			n.kids = append(n.kids, kid)
		case xml.CharData:
			n.kids = append(n.kids, &node{text: string(t)})
		case xml.EndElement:
			return n, nil
		}
	}
}

// contextReader is a bytes.Reader that ends with its context.
type contextReader struct {
	ctx  context.Context
	data []byte
}

func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.data)
	r.data = r.data[n:]
	return n, nil
}
