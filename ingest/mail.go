package ingest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"mime"
	"regexp"
	"strconv"
	"strings"

	"github.com/jhillyerd/enmime/v2"
	"golang.org/x/net/html"
)

// mailParser finds the parts of a message and keeps going over malformed ones: mail in archives is seldom clean. It leaves their content as it is,
// because there is one way of telling encodings here, see decode.
var mailParser = enmime.NewParser(enmime.RawContent(true), enmime.DisableTextConversion(true), enmime.SkipMalformedParts(true), enmime.MaxStoredPartErrors(10))

// mailParts bounds multiparts in one message; the parser recurses into each.
const mailParts = 200

var multipartHeader = regexp.MustCompile(`(?i)\ncontent-type:\s*multipart/`)

// readMail reads one message: subject, people and date, the body (plain text
// before HTML), then its attachments, each under a heading of its own.
func readMail(ctx context.Context, s *source, b *builder) error {
	return readMessage(ctx, s, s.data, b)
}

func readMessage(ctx context.Context, s *source, data []byte, b *builder) error {
	if err := s.entry(); err != nil {
		return err
	}
	if len(multipartHeader.FindAllIndex(data, mailParts+1)) > mailParts {
		return failf(TooDeep, "%s has a message of more than %d nested parts", s.name, mailParts)
	}
	env, err := mailParser.ReadEnvelope(&contextReader{ctx: ctx, data: data})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return failf(Corrupt, "%s is not a readable mail message (%v)", s.name, err)
	}
	header := func(name string) string {
		utf, _ := decode([]byte(env.GetHeader(name)), "")
		return cleanLines(string(utf))
	}
	subject := header("Subject")
	b.title = cmp.Or(b.title, subject)
	first := len(b.blocks)
	b.add(Heading, 1, subject)
	var head []string
	for _, name := range [...]string{"From", "To", "Cc", "Date"} { // what a reader of the message sees
		if v := header(name); v != "" {
			head = append(head, name+": "+v)
		}
	}
	b.add(Paragraph, 0, strings.Join(head, "\n"))
	b.within("header", first)
	m := &message{s: s, b: b}
	if err := m.part(ctx, env.Root); err != nil {
		return err
	}
	for i, p := range m.attached {
		if err := m.attachment(ctx, i, p); err != nil {
			return err
		}
	}
	return nil
}

// message is one whose parts are read: texts as they come, then what is attached.
type message struct {
	s        *source
	b        *builder
	attached []*enmime.Part
}

func (m *message) part(ctx context.Context, p *enmime.Part) error {
	switch {
	case p == nil:
	case p.ContentType == "multipart/alternative":
		return m.alternative(ctx, p)
	case strings.HasPrefix(p.ContentType, "multipart/") && p.FirstChild != nil:
		for c := p.FirstChild; c != nil; c = c.NextSibling {
			if err := m.part(ctx, c); err != nil {
				return err
			}
		}
	case p.Disposition == "attachment" || p.FileName != "" || !isBody(p):
		m.attached = append(m.attached, p)
	case p.ContentType == "text/html":
		return m.html(ctx, p)
	default:
		m.plain(p)
	}
	return nil
}

// isBody: a part that is text of the message itself. A part without a type is plain text.
func isBody(p *enmime.Part) bool {
	return p.ContentType == "text/plain" || p.ContentType == "text/html" || p.ContentType == "" || strings.HasPrefix(p.ContentType, "multipart/")
}

// alternative reads one of the renderings of the same text, plain before HTML, and what is no rendering, such as an invitation.
func (m *message) alternative(ctx context.Context, p *enmime.Part) error {
	var plain *enmime.Part
	for c := p.FirstChild; c != nil; c = c.NextSibling {
		if c.ContentType == "text/plain" && len(bytes.TrimSpace(c.Content)) > 0 {
			plain = c
		}
	}
	for c := p.FirstChild; c != nil; c = c.NextSibling {
		rendering := isBody(c) && c.Disposition != "attachment"
		if plain != nil && rendering && c != plain {
			m.attachedTo(c)
			continue
		}
		if err := m.part(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// attachedTo collects the files beside a rendering that is not read.
func (m *message) attachedTo(p *enmime.Part) {
	for c := p.FirstChild; c != nil; c = c.NextSibling {
		if c.Disposition == "attachment" || c.FileName != "" && !isBody(c) {
			m.attached = append(m.attached, c)
		}
		m.attachedTo(c)
	}
}

func (m *message) plain(p *enmime.Part) {
	text := m.text(p)
	if strings.TrimSpace(text) == "" {
		return
	}
	if _, params, err := mime.ParseMediaType(p.Header.Get("Content-Type")); err == nil && strings.EqualFold(params["format"], "flowed") {
		text = unflow(text, strings.EqualFold(params["delsp"], "yes"))
	}
	first := len(m.b.blocks)
	m.b.verbatim(text, paragraphs(text))
	m.b.within("text/plain body", first)
}

func (m *message) html(ctx context.Context, p *enmime.Part) error {
	root, err := html.Parse(strings.NewReader(m.text(p)))
	if err != nil {
		return htmlError(m.s, err)
	}
	first := len(m.b.blocks)
	err = walkHTML(ctx, m.s, m.b, root)
	m.b.within("text/html body", first)
	return err
}

// text is a part's text: an encoding that is stated holds unless the bytes contradict it; in HTML the page may state one, too.
func (m *message) text(p *enmime.Part) string {
	data, declared := transferDecode(p), p.Charset
	if strings.EqualFold(declared, "us-ascii") { // means that nothing was thought of
		declared = ""
	}
	if page := htmlEncoding.FindSubmatch(data[:min(len(data), 4096)]); declared == "" && page != nil && p.ContentType == "text/html" {
		declared = string(append(page[1], page[2]...))
	}
	utf, _ := decode(data, declared)
	text, nuls, invalid := normalise(utf)
	if nuls > 0 {
		m.b.warn(WarnNUL)
	}
	if invalid > 0 {
		m.b.warn(WarnEncoding)
	}
	return cleanControls(text)
}

// attachment reads an attached file. One that cannot be read is left out with a
// warning; pictures in the text, its styles and scripts are not files anybody attached.
func (m *message) attachment(ctx context.Context, i int, p *enmime.Part) error {
	if err := m.s.entry(); err != nil {
		return err
	}
	inPage := strings.HasPrefix(p.ContentType, "image/") || strings.HasPrefix(p.ContentType, "font/") || p.ContentType == "text/css" || strings.HasSuffix(p.ContentType, "javascript")
	content := transferDecode(p)
	if inPage && p.Disposition != "attachment" || len(content) == 0 {
		return nil
	}
	name := cmp.Or(p.FileName, fmt.Sprintf("attachment %d", i+1))
	err := readMember(ctx, m.s, name, content, m.b)
	if err != nil && !skippable(err) {
		return err
	}
	if err != nil {
		m.b.warn(WarnAttachments)
	}
	return nil
}

// transferDecode undoes a part's transfer encoding, over any damage.
func transferDecode(p *enmime.Part) []byte {
	switch strings.ToLower(strings.TrimSpace(p.Header.Get("Content-Transfer-Encoding"))) {
	case "base64":
		clean := bytes.Map(func(r rune) rune {
			if r < 0x80 && (isAlnum(byte(r)) || r == '+' || r == '/') {
				return r
			}
			return -1
		}, p.Content)
		out := make([]byte, base64.RawStdEncoding.DecodedLen(len(clean)))
		n, _ := base64.RawStdEncoding.Decode(out, clean) // the only fault left is a single character at the end
		return out[:n]
	case "quoted-printable":
		return unquotePrintable(p.Content)
	}
	return p.Content
}

func isAlnum(c byte) bool { return isLetter(c) || c >= '0' && c <= '9' }

// unquotePrintable decodes quoted-printable text (RFC 2045, 6.7); what is no escape stays as it is.
func unquotePrintable(data []byte) []byte {
	out := make([]byte, 0, len(data))
	for line := range bytes.Lines(data) {
		text := bytes.TrimRight(line, " \t\r\n")
		ending := line[len(bytes.TrimRight(line, "\r\n")):]
		soft := bytes.HasSuffix(text, []byte("="))
		text = bytes.TrimSuffix(text, []byte("="))
		for len(text) > 0 {
			if v, err := strconv.ParseUint(string(text[1:min(3, len(text))]), 16, 8); text[0] == '=' && len(text) >= 3 && err == nil {
				out, text = append(out, byte(v)), text[3:]
				continue
			}
			out, text = append(out, text[0]), text[1:]
		}
		if !soft {
			out = append(out, ending...)
		}
	}
	return out
}

// unflow joins the lines of a paragraph that a mail program broke (RFC 3676): a line that ends in a blank goes on in the next one of the same quoting
// depth. With delSp that blank was added, too.
func unflow(text string, delSp bool) string {
	var out strings.Builder
	open, depth := false, 0 // the line before flows on; its depth
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		rest := strings.TrimLeft(line, ">")
		quotes := len(line) - len(rest)
		rest = strings.TrimPrefix(rest, " ") // stuffed
		switch {
		case open && quotes == depth && rest != "-- ":
		case out.Len() > 0:
			out.WriteByte('\n')
			fallthrough
		default:
			if quotes > 0 {
				out.WriteString(line[:quotes] + " ")
			}
		}
		open, depth = strings.HasSuffix(rest, " ") && rest != "-- ", quotes
		if open && delSp {
			rest = strings.TrimSuffix(rest, " ")
		}
		out.WriteString(rest)
	}
	return out.String()
}

// readMbox reads the messages of a mailbox file in order (RFC 4155).
func readMbox(ctx context.Context, s *source, b *builder) error {
	for i, message := range splitMbox(s.data) {
		first := len(b.blocks)
		err := readMessage(ctx, s, message, b)
		b.within(fmt.Sprintf("message %d", i+1), first)
		if err != nil && !skippable(err) {
			return err
		} else if err != nil {
			b.warn(WarnAttachments)
		}
	}
	b.title = ""
	return nil
}

// splitMbox cuts at lines "From address date" that follow an empty line, and
// undoes the quoting of such lines in bodies.
func splitMbox(data []byte) [][]byte {
	var messages [][]byte
	var open []byte
	empty := true // the previous line was
	for line := range bytes.Lines(data) {
		if empty && mboxStart.Match(line) {
			if len(bytes.TrimSpace(open)) > 0 {
				messages = append(messages, open)
			}
			open = nil
			empty = false
			continue
		}
		empty = len(bytes.TrimSpace(line)) == 0
		if rest := bytes.TrimLeft(line, ">"); len(rest) < len(line) && bytes.HasPrefix(rest, []byte("From ")) {
			line = line[1:]
		}
		open = append(open, line...)
	}
	if len(bytes.TrimSpace(open)) > 0 {
		messages = append(messages, open)
	}
	return messages
}
