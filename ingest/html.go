package ingest

import (
	"context"
	"io"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// htmlDepth bounds the recursion over elements; htmlMainLimit is the size above
// which the main content isn't looked for (the search is superlinear).
const (
	htmlDepth     = 1000
	htmlMainLimit = 8 << 20
)

// readHTML reads a page's main content: headings, paragraphs, lists, tables,
// preformatted text. Scripts, styles, navigation and hidden elements are left out.
func readHTML(ctx context.Context, s *source, b *builder) error {
	text := decodeHTML(s, b)
	root, err := parseHTML(text)
	if err != nil {
		return htmlError(s, err)
	}
	b.title = htmlTitle(root)
	content, err := mainContent(root, text)
	if err != nil {
		return htmlError(s, err)
	}
	if b.title != "" && !strings.Contains(cleanLines(visibleText(content)), b.title) {
		b.add(Heading, 1, b.title)
	}
	return walkHTML(ctx, s, b, content)
}

func htmlError(s *source, err error) error {
	return failf(Corrupt, "%s cannot be read as HTML (%v)", s.name, err)
}

func decodeHTML(s *source, b *builder) string {
	declared := ""
	if m := htmlEncoding.FindSubmatch(s.data[:min(len(s.data), 4096)]); m != nil {
		declared = string(append(m[1], m[2]...))
	}
	text, _ := s.plain(b, declared)
	return text
}

// htmlEncoding is what a page states: in a meta element, or as XML does.
var htmlEncoding = regexp.MustCompile(`(?i)<meta\s[^>]*?charset\s*=\s*["']?\s*([a-z0-9._:-]+)|^\s*<\?xml[^>]*encoding\s*=\s*["']([a-z0-9._-]+)`)

// emptyElement is XML's way to close an element at once; an HTML parser takes it
// for an opening tag, and <title/> would swallow the page.
var emptyElement = regexp.MustCompile(`<(title|script|style|textarea|a|span|div|p|i|b|em|strong|td|th|li)(\s[^<>]*)?/>`)

func parseHTML(text string) (*html.Node, error) {
	if strings.HasPrefix(strings.TrimLeft(text, " \t\n"), "<?xml") {
		text = emptyElement.ReplaceAllString(text, "<$1$2></$1>")
	}
	return html.ParseWithOptions(strings.NewReader(text), html.ParseOptionEnableScripting(false))
}

func htmlTitle(root *html.Node) string {
	if t := findHTML(root, func(n *html.Node) bool { return n.DataAtom == atom.Title && n.Namespace == "" }); t != nil {
		if title := cleanLines(textOf(t)); title != "" {
			return title
		}
	}
	if h := findHTML(root, func(n *html.Node) bool { return n.DataAtom == atom.H1 }); h != nil {
		return cleanLines(textOf(h))
	}
	return ""
}

// findHTML is the first element in document order that satisfies match.
func findHTML(n *html.Node, match func(*html.Node) bool) *html.Node {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && match(d) {
			return d
		}
	}
	return nil
}

func textOf(n *html.Node) string {
	var out strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			out.WriteString(d.Data)
		}
	}
	return out.String()
}

// mainContent is the element that holds what the page is about. A single
// <main> or <article> says so itself; otherwise readability's choice is taken if
// it kept a good part of the page, else the body: better some navigation in the
// index than a page with its tables lost.
func mainContent(root *html.Node, text string) (*html.Node, error) {
	body := findHTML(root, func(n *html.Node) bool { return n.DataAtom == atom.Body })
	if body == nil {
		return root, nil
	}
	whole := visibleBytes(body)
	var own []*html.Node
	for n := range body.Descendants() {
		if n.Type == html.ElementNode && (n.DataAtom == atom.Main || attrHTML(n, "role") == "main") {
			own = append(own, n)
		}
	}
	if len(own) == 1 && visibleBytes(own[0]) > whole/4 {
		return own[0], nil
	}
	if whole < 500 || len(text) > htmlMainLimit {
		return body, nil
	}
	copied, err := parseHTML(text) // readability takes its document apart
	if err != nil {
		return nil, err
	}
	p := readability.NewParser()
	p.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	article, err := p.ParseDocument(copied, &url.URL{})
	if err != nil || article.Node == nil || visibleBytes(article.Node) < whole*2/5 {
		return body, nil // readability refuses pages without an article; that is no fault of the page
	}
	return article.Node, nil
}

// visibleBytes counts the text that walkHTML would keep, white space aside.
func visibleBytes(n *html.Node) int {
	total := 0
	var walk func(n *html.Node, depth int)
	walk = func(n *html.Node, depth int) {
		if n.Type == html.TextNode {
			total += len(strings.TrimSpace(n.Data))
		}
		if depth > htmlDepth || hiddenHTML(n) {
			return
		}
		for c := range n.ChildNodes() {
			walk(c, depth+1)
		}
	}
	walk(n, 0)
	return total
}

func attrHTML(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

var (
	droppedElements = []atom.Atom{
		atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Iframe, atom.Object, atom.Embed, atom.Head, atom.Canvas,
		atom.Nav, atom.Aside, atom.Footer, atom.Button, atom.Select, atom.Input, atom.Textarea, atom.Datalist, atom.Audio, atom.Video,
		atom.Rt, atom.Rp, atom.Dialog,
	}
	droppedRoles = []string{"navigation", "banner", "contentinfo", "search", "menu", "menubar", "dialog", "alertdialog"}
	displayNone  = regexp.MustCompile(`(?i)display\s*:\s*none|visibility\s*:\s*hidden`)
)

func hiddenHTML(n *html.Node) bool {
	if n.Type != html.ElementNode {
		return false
	}
	if slices.Contains(droppedElements, n.DataAtom) {
		return true
	}
	for _, a := range n.Attr {
		switch a.Key {
		case "hidden":
			return true
		case "aria-hidden":
			return a.Val == "true"
		case "style":
			if displayNone.MatchString(a.Val) {
				return true
			}
		case "role":
			if slices.Contains(droppedRoles, a.Val) {
				return true
			}
		}
	}
	return false
}

// htmlWalk turns elements into blocks.
type htmlWalk struct {
	ctx    context.Context
	s      *source
	b      *builder
	inline strings.Builder // text of the open block
	list   int             // depth of lists
	marker string          // of the list item that has no text yet
}

func walkHTML(ctx context.Context, s *source, b *builder, root *html.Node) error {
	w := &htmlWalk{ctx: ctx, s: s, b: b}
	if err := w.node(root, 0); err != nil {
		return err
	}
	w.flush()
	return nil
}

func (w *htmlWalk) flush() {
	text := w.inline.String()
	w.inline.Reset()
	switch {
	case strings.TrimSpace(text) == "":
	case w.marker != "":
		w.b.listItem(w.list, w.marker, text)
		w.marker = ""
	case w.list > 0:
		w.b.add(ListItem, w.list, text)
	default:
		w.b.add(Paragraph, 0, text)
	}
}

var lineWhite = strings.NewReplacer("\n", " ", "\t", " ", "\r", " ")

func (w *htmlWalk) children(n *html.Node, depth int) error {
	for c := range n.ChildNodes() {
		if err := w.node(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *htmlWalk) node(n *html.Node, depth int) error {
	if depth > htmlDepth {
		return failf(TooDeep, "%s nests elements more than %d deep", w.s.name, htmlDepth)
	}
	if n.Type == html.TextNode {
		w.inline.WriteString(lineWhite.Replace(n.Data))
		return nil
	}
	if hiddenHTML(n) {
		return nil
	}
	switch n.DataAtom {
	case atom.Br:
		w.inline.WriteByte('\n')
	case atom.Hr:
		w.flush()
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		w.flush()
		w.b.add(Heading, int(n.Data[1]-'0'), lineWhite.Replace(visibleText(n)))
	case atom.Pre, atom.Listing, atom.Xmp, atom.Plaintext:
		w.flush()
		w.b.add(Code, 0, visibleText(n))
	case atom.Table:
		w.flush()
		return w.table(n, depth)
	case atom.Ul, atom.Ol, atom.Menu:
		return w.items(n, depth)
	case atom.Td, atom.Th: // of a layout table
		w.inline.WriteByte(' ')
		return w.block(n, depth)
	case atom.P, atom.Div, atom.Section, atom.Article, atom.Main, atom.Header, atom.Blockquote, atom.Address, atom.Figure, atom.Figcaption,
		atom.Dl, atom.Dt, atom.Dd, atom.Li, atom.Details, atom.Summary, atom.Form, atom.Fieldset, atom.Legend, atom.Center, atom.Tr, atom.Tbody,
		atom.Thead, atom.Tfoot, atom.Caption, atom.Body, atom.Html, atom.Hgroup, atom.Label, atom.Frameset, atom.Noframes, atom.Marquee:
		return w.block(n, depth)
	default:
		return w.children(n, depth)
	}
	return nil
}

func (w *htmlWalk) block(n *html.Node, depth int) error {
	w.flush()
	err := w.children(n, depth)
	w.flush()
	return err
}

func (w *htmlWalk) items(list *html.Node, depth int) error {
	w.flush()
	w.list++
	defer func() { w.list--; w.marker = "" }()
	number := 1
	if n, err := strconv.Atoi(attrHTML(list, "start")); err == nil {
		number = n
	}
	for c := range list.ChildNodes() {
		if c.DataAtom == atom.Li {
			w.marker = "-"
			if list.DataAtom == atom.Ol {
				w.marker = strconv.Itoa(number) + "."
				number++
			}
		}
		if err := w.block(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// visibleText is n's text without hidden parts, line breaks as line ends.
func visibleText(n *html.Node) string {
	var out strings.Builder
	var walk func(n *html.Node, depth int)
	walk = func(n *html.Node, depth int) {
		switch {
		case n.Type == html.TextNode:
			out.WriteString(n.Data)
		case n.DataAtom == atom.Br:
			out.WriteByte('\n')
		case depth < htmlDepth && !hiddenHTML(n):
			for c := range n.ChildNodes() {
				walk(c, depth+1)
			}
			if n.DataAtom == atom.P || n.DataAtom == atom.Div || n.DataAtom == atom.Li {
				out.WriteByte('\n')
			}
		}
	}
	walk(n, 0)
	return out.String()
}

// table writes a data table as rows; a table that only arranges the page is
// read like any other element.
func (w *htmlWalk) table(t *html.Node, depth int) error {
	if layoutTable(t) {
		return w.block(t, depth)
	}
	var rows [][]string
	header := 0
	spans := make(map[int]rowspan) // by column
	for n := range t.Descendants() {
		if n.DataAtom == atom.Caption {
			w.b.add(Paragraph, 0, lineWhite.Replace(visibleText(n)))
		}
		if n.DataAtom != atom.Tr || hiddenHTML(n) {
			continue
		}
		row, allHead := tableRow(n, spans)
		if allHead && header == len(rows) && len(row) > 0 {
			header++
		}
		rows = append(rows, row)
	}
	if header == len(rows) {
		header = 0
	}
	w.b.table(rows, header)
	return w.ctx.Err()
}

type rowspan struct {
	text string
	left int // rows it still covers
}

// tableRow is a row's cells; a cell spanning rows is repeated in each, so that
// every row can be understood alone.
func tableRow(tr *html.Node, spans map[int]rowspan) (row []string, allHead bool) {
	allHead = true
	covered := func() {
		for spans[len(row)].left > 0 {
			s := spans[len(row)]
			spans[len(row)] = rowspan{s.text, s.left - 1}
			row = append(row, s.text)
		}
	}
	for c := range tr.ChildNodes() {
		if c.DataAtom != atom.Td && c.DataAtom != atom.Th {
			continue
		}
		covered()
		allHead = allHead && (c.DataAtom == atom.Th || tr.Parent.DataAtom == atom.Thead)
		text := lineWhite.Replace(visibleText(c))
		if n, err := strconv.Atoi(attrHTML(c, "rowspan")); err == nil && n > 1 && n < 1000 {
			spans[len(row)] = rowspan{text, n - 1}
		}
		row = append(row, text)
		if n, err := strconv.Atoi(attrHTML(c, "colspan")); err == nil && n > 1 && n <= 100 {
			row = append(row, make([]string, n-1)...)
		}
	}
	covered()
	return row, allHead
}

// layoutTable: nested tables, headings or long prose in cells.
func layoutTable(t *html.Node) bool {
	for n := range t.Descendants() {
		switch n.DataAtom {
		case atom.Table, atom.H1, atom.H2, atom.H3, atom.Form, atom.Pre:
			return true
		case atom.Td:
			if visibleBytes(n) > 800 {
				return true
			}
		}
	}
	return false
}
