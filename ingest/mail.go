package ingest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/jhillyerd/enmime/v2"
	"golang.org/x/net/html"
)

// mailParser keeps going over malformed parts: mail in archives is seldom clean.
var mailParser = enmime.NewParser(enmime.DisableTextConversion(true), enmime.SkipMalformedParts(true), enmime.MaxStoredPartErrors(10))

// mailParts bounds multiparts in one message; the parser recurses into each.
const mailParts = 100

// readMail reads one message: subject, people and date, the body (plain text
// before HTML), then its attachments, each under a heading of its own.
func readMail(ctx context.Context, s *source, b *builder) error {
	return readMessage(ctx, s, s.data, b)
}

func readMessage(ctx context.Context, s *source, data []byte, b *builder) error {
	if err := s.entry(); err != nil {
		return err
	}
	if bytes.Count(data, []byte("multipart/")) > mailParts {
		return failf(TooDeep, "%s has a message of more than %d nested parts", s.name, mailParts)
	}
	env, err := mailParser.ReadEnvelope(&contextReader{ctx: ctx, data: data})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return failf(Corrupt, "%s is not a readable mail message (%v)", s.name, err)
	}
	subject := cleanLines(env.GetHeader("Subject"))
	b.title = cmp.Or(b.title, subject)
	first := len(b.blocks)
	b.add(Heading, 1, subject)
	var head []string
	for _, name := range [...]string{"From", "To", "Cc", "Date"} { // what a reader of the message sees
		if v := cleanLines(env.GetHeader(name)); v != "" {
			head = append(head, name+": "+v)
		}
	}
	b.add(Paragraph, 0, strings.Join(head, "\n"))
	b.within("header", first)
	first = len(b.blocks)
	if strings.TrimSpace(env.Text) != "" {
		text := cleanControls(env.Text)
		b.verbatim(text, paragraphs(text))
		b.within("text/plain body", first)
	} else if env.HTML != "" {
		root, err := html.Parse(strings.NewReader(env.HTML))
		if err != nil {
			return htmlError(s, err)
		}
		if err := walkHTML(ctx, s, b, root); err != nil {
			return err
		}
		b.within("text/html body", first)
	}
	return readAttachments(ctx, s, env, b)
}

// readAttachments reads attached files. One that cannot be read is left out
// with a warning; inline pictures are not files anybody attached.
func readAttachments(ctx context.Context, s *source, env *enmime.Envelope, b *builder) error {
	parts := append(append(env.Attachments[:len(env.Attachments):len(env.Attachments)], env.OtherParts...), env.Inlines...)
	for i, p := range parts {
		if err := s.entry(); err != nil {
			return err
		}
		if strings.HasPrefix(p.ContentType, "image/") || len(p.Content) == 0 {
			continue
		}
		name := cmp.Or(p.FileName, fmt.Sprintf("attachment %d", i+1))
		err := readMember(ctx, s, name, p.Content, b)
		if err != nil && !skippable(err) {
			return err
		}
		if err != nil {
			b.warn(WarnAttachments)
		}
	}
	return nil
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
