package ingest

import (
	"context"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// markdownLimit is where structure is given up: goldmark builds a tree of about
// 20 times the text's size.
const markdownLimit = 16 << 20

// readMarkdown keeps the text as it is, markup included, so that quotes match
// the file; goldmark says where the blocks are.
func readMarkdown(ctx context.Context, s *source, b *builder) error {
	md, offsets := s.plain(b, "")
	blocks := markdownBlocks(md)
	for _, k := range blocks {
		if k.Kind == Heading && b.title == "" {
			b.title = headingText(md[k.Start:k.End])
		}
	}
	if t := frontMatterTitle(md); t != "" {
		b.title = t
	}
	b.verbatim(md, offsets.trace(blocks))
	return nil
}

func markdownBlocks(md string) []Block {
	if len(md) > markdownLimit {
		return paragraphs(md)
	}
	src := []byte(md)
	skip := frontMatterEnd(md)
	for i := range skip { // the same length, so that offsets stay true
		if src[i] != '\n' {
			src[i] = ' '
		}
	}
	m := &markdownWalk{md: md}
	if skip > 0 {
		m.push(Paragraph, 0, 0, skip)
	}
	root := goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote)).Parser().Parse(text.NewReader(src))
	m.children(root, 0)
	return m.blocks
}

type markdownWalk struct {
	md     string
	blocks []Block
}

// push adds a block over whole lines, after the last one.
func (m *markdownWalk) push(kind BlockKind, level, start, end int) *Block {
	start = strings.LastIndexByte(m.md[:start], '\n') + 1
	if n := len(m.blocks); n > 0 {
		start = max(start, m.blocks[n-1].End)
	}
	if end < len(m.md) && (end == 0 || m.md[end-1] != '\n') {
		if i := strings.IndexByte(m.md[end:], '\n'); i >= 0 {
			end += i
		} else {
			end = len(m.md)
		}
	}
	for start < end && isSpaceByte(m.md[start]) && (kind != Code || m.md[start] == '\n') {
		start++
	}
	for end > start && isSpaceByte(m.md[end-1]) {
		end--
	}
	if start >= end {
		return nil
	}
	m.blocks = append(m.blocks, Block{Kind: kind, Level: level, Start: start, End: end})
	return &m.blocks[len(m.blocks)-1]
}

func isSpaceByte(c byte) bool { return c == ' ' || c == '\t' || c == '\n' }

// children walks the blocks below n; list is the depth of lists around it.
func (m *markdownWalk) children(n ast.Node, list int) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Heading:
			m.heading(c)
		case *ast.List:
			for item := c.FirstChild(); item != nil; item = item.NextSibling() {
				m.item(item, list+1)
			}
		case *extast.Table:
			m.table(c)
		case *ast.FencedCodeBlock:
			m.fence(c)
		case *ast.CodeBlock:
			m.plain(c, Code, 0)
		case *ast.Blockquote, *extast.FootnoteList:
			m.children(c, list)
		case *extast.Footnote:
			if start, end, ok := span(c); ok {
				m.push(Footnote, 0, start, end)
			}
		default:
			m.plain(c, Paragraph, 0)
		}
	}
}

func (m *markdownWalk) plain(n ast.Node, kind BlockKind, level int) {
	if start, end, ok := span(n); ok {
		m.push(kind, level, start, end)
	}
}

func (m *markdownWalk) heading(h *ast.Heading) {
	start, end, ok := span(h)
	if !ok {
		return
	}
	line := m.md[strings.LastIndexByte(m.md[:start], '\n')+1 : start]
	if !strings.Contains(line, "#") { // underlined
		if i := strings.IndexByte(m.md[end:], '\n'); i >= 0 {
			end += i + 1
		}
	}
	m.push(Heading, h.Level, start, end)
}

// item is one list item up to its first nested list; the nested ones follow.
func (m *markdownWalk) item(item ast.Node, depth int) {
	first, last := -1, -1
	for c := item.FirstChild(); c != nil; c = c.NextSibling() {
		if l, ok := c.(*ast.List); ok {
			if first >= 0 {
				m.push(ListItem, depth, first, last)
			}
			first = -1
			for nested := l.FirstChild(); nested != nil; nested = nested.NextSibling() {
				m.item(nested, depth+1)
			}
			continue
		}
		start, end, ok := span(c)
		if !ok {
			continue
		}
		if _, fenced := c.(*ast.FencedCodeBlock); fenced {
			end = m.fenceEnd(end)
		}
		if first < 0 {
			first = start
		}
		last = end
	}
	if first >= 0 {
		m.push(ListItem, depth, first, last)
	}
}

func (m *markdownWalk) table(t *extast.Table) {
	start, end, ok := span(t)
	if !ok {
		return
	}
	if k := m.push(Table, 0, start, end); k != nil {
		k.HeaderEnd = k.Start
		lines := strings.SplitAfterN(m.md[k.Start:k.End], "\n", 3) // header, rule, rows
		if len(lines) == 3 {
			k.HeaderEnd = k.Start + len(lines[0]) + len(lines[1]) - 1
		}
	}
}

func (m *markdownWalk) fence(c *ast.FencedCodeBlock) {
	start, end, ok := span(c)
	if !ok {
		return
	}
	if start > 0 { // the line that opens it
		start = strings.LastIndexByte(m.md[:start-1], '\n') + 1
	}
	m.push(Code, 0, start, m.fenceEnd(end))
}

// fenceEnd moves past the line that closes a fence, when there is one.
func (m *markdownWalk) fenceEnd(end int) int {
	rest := m.md[end:]
	line, _, _ := strings.Cut(rest, "\n")
	if t := strings.TrimLeft(line, " \t>"); strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~") {
		return end + len(line)
	}
	return end
}

// span is the range of n's lines and its descendants'.
func span(n ast.Node) (start, end int, ok bool) {
	start = -1
	take := func(lines *text.Segments) {
		for i := range lines.Len() {
			seg := lines.At(i)
			if start < 0 || seg.Start < start {
				start = seg.Start
			}
			end = max(end, seg.Stop)
		}
	}
	_ = ast.Walk(n, func(c ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		if c.Type() == ast.TypeBlock {
			take(c.Lines())
			if h, ok := c.(*ast.HTMLBlock); ok && h.HasClosure() {
				end = max(end, h.ClosureLine.Stop)
			}
		}
		return ast.WalkContinue, nil
	})
	return start, end, start >= 0
}

var frontMatter = regexp.MustCompile(`(?s)\A---[ \t]*\n.*?\n(---|\.\.\.)[ \t]*(\n|\z)`)

func frontMatterEnd(md string) int {
	if loc := frontMatter.FindStringIndex(md[:min(len(md), 64<<10)]); loc != nil {
		return loc[1]
	}
	return 0
}

var titleLine = regexp.MustCompile(`(?m)^title:[ \t]*["']?(.*?)["']?[ \t]*$`)

func frontMatterTitle(md string) string {
	if m := titleLine.FindStringSubmatch(md[:frontMatterEnd(md)]); m != nil {
		return m[1]
	}
	return ""
}

var (
	headingMark  = regexp.MustCompile(`^#{1,6}[ \t]+`)
	headingClose = regexp.MustCompile(`[ \t]+#+[ \t]*$`)
	headingRule  = regexp.MustCompile(`\n[ \t]*(=+|-+|~+)[ \t]*$`)
	linkMarkup   = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
)

// headingText is a heading without its markup.
func headingText(s string) string {
	s = headingRule.ReplaceAllString(s, "")
	s = headingMark.ReplaceAllString(s, "")
	s = headingClose.ReplaceAllString(s, "")
	s = linkMarkup.ReplaceAllString(s, "$1")
	return strings.Join(strings.Fields(strings.NewReplacer("**", "", "__", "", "`", "").Replace(s)), " ")
}
