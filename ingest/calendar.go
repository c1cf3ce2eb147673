package ingest

import (
	"cmp"
	"context"
	"strings"
)

// readCalendar reads calendars and address cards (RFC 5545, RFC 6350): each event or person is a paragraph of its properties, "Summary: Board
// meeting". What only programs understand is left out.
func readCalendar(ctx context.Context, s *source, b *builder) error {
	text, _ := s.plain(b, "")
	text = strings.NewReplacer("\n ", "", "\n\t", "").Replace(text) // long lines are folded
	var open []string
	flush := func() {
		b.add(Paragraph, 0, strings.Join(open, "\n"))
		open = nil
	}
	for line := range strings.Lines(text) {
		name, value, ok := property(strings.TrimRight(line, " \n"))
		switch {
		case !ok || value == "" || machineProperties[name] || strings.HasPrefix(name, "X-"):
		case name == "BEGIN", name == "END":
			flush()
		case name == "SUMMARY", name == "FN":
			b.title = cmp.Or(b.title, value)
			fallthrough
		default:
			open = append(open, name[:1]+strings.ToLower(name[1:])+": "+value)
		}
		if b.err != nil {
			return b.err
		}
	}
	flush()
	return ctx.Err()
}

// machineProperties say nothing to a reader.
var machineProperties = set("VERSION PRODID METHOD UID DTSTAMP SEQUENCE CALSCALE TRANSP CLASS CREATED LAST-MODIFIED STATUS ACTION TRIGGER TZID TZOFFSETFROM " +
	"TZOFFSETTO TZURL REV PHOTO LOGO KEY SOUND N PRIORITY REPEAT")

// property takes a line apart: NAME;PARAMETERS:value.
func property(line string) (name, value string, ok bool) {
	quoted := false
	for i := range len(line) {
		switch line[i] {
		case '"':
			quoted = !quoted
		case ';':
			if name == "" {
				name = line[:i]
			}
		case ':':
			if quoted {
				continue
			}
			if name == "" {
				name = line[:i]
			}
			if at := strings.LastIndexByte(name, '.'); at >= 0 { // "item1.EMAIL"
				name = name[at+1:]
			}
			return strings.ToUpper(name), unescapeProperty.Replace(line[i+1:]), name != ""
		}
	}
	return "", "", false
}

var unescapeProperty = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\N`, "\n", `\,`, ",", `\;`, ";")
