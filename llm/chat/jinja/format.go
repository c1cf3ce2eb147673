package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"
)

// text is Python's str(): what {{ }} prints.
func (s *state) text(v Value) Text {
	if t, ok := v.(Text); ok {
		return t
	}
	var b strings.Builder
	doubt := s.repr(&b, v, false)
	s.spend(b.Len())
	if doubt {
		return Untrusted(b.String())
	}
	return Trusted(b.String())
}

// repr appends Python's repr() of v, or its str() at the top, and reports whether any part of it is untrusted.
func (s *state) repr(b *strings.Builder, v Value, quoted bool) (untrusted bool) {
	defer s.deeper()()
	s.step()
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case undefined:
		if quoted {
			b.WriteString("Undefined")
		}
	case bool:
		if v {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case float64:
		b.WriteString(formatFloat(v))
	case Text:
		s.spend(len(v.s))
		if quoted {
			quote(b, v.s)
		} else {
			b.WriteString(v.s)
		}
		return len(v.untrusted) > 0
	case *List:
		open, end := "[", "]"
		if v.tuple {
			open, end = "(", ")"
			if len(v.Items) == 1 {
				end = ",)"
			}
		}
		b.WriteString(open)
		for i, item := range v.Items {
			if i > 0 {
				b.WriteString(", ")
			}
			untrusted = s.repr(b, item, true) || untrusted
		}
		b.WriteString(end)
	case *Dict:
		b.WriteByte('{')
		for i, k := range v.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			untrusted = s.repr(b, k, true) || untrusted
			b.WriteString(": ")
			untrusted = s.repr(b, v.values[i], true) || untrusted
		}
		b.WriteByte('}')
	default:
		s.fail("%s cannot be printed", typeName(v))
	}
	return untrusted
}

// formatFloat is Python's repr of a float.
func formatFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	out := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(out, ".") {
		out += ".0"
	}
	return out
}

// quote appends Python's repr of a string.
func quote(b *strings.Builder, s string) {
	q := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	b.WriteByte(q)
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\\', r == rune(q):
			b.WriteByte('\\')
			b.WriteRune(r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			b.WriteString(`\x` + hex(r, 2))
		case r < 0x10000:
			b.WriteString(`\u` + hex(r, 4))
		default:
			b.WriteString(`\U` + hex(r, 8))
		}
	}
	b.WriteByte(q)
}

func hex(r rune, width int) string {
	digits := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", max(0, width-len(digits))) + digits
}

// jsonStyle is how tojson lays its output out.
type jsonStyle struct {
	indent     string // "" on one line
	item, pair string // separators
	sortKeys   bool
	ascii      bool
}

// line begins a line of indented output.
func (st jsonStyle) line(s *state, b *strings.Builder, depth int) {
	if st.indent != "" {
		s.spend(depth * len(st.indent))
		b.WriteByte('\n')
		b.WriteString(strings.Repeat(st.indent, depth))
	}
}

// json appends v as JSON, as Python's json.dumps does, and reports whether any part of it is untrusted.
func (s *state) json(b *strings.Builder, v Value, style jsonStyle, depth int) (untrusted bool) {
	defer s.deeper()()
	s.step()
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case float64:
		b.WriteString(strings.NewReplacer("inf", "Infinity", "nan", "NaN").Replace(formatFloat(v)))
	case Text:
		s.spend(len(v.s))
		jsonString(b, v.s, style.ascii)
		return len(v.untrusted) > 0
	case *List:
		if len(v.Items) == 0 {
			b.WriteString("[]")
			return false
		}
		b.WriteByte('[')
		for i, item := range v.Items {
			if i > 0 {
				b.WriteString(style.item)
			}
			style.line(s, b, depth+1)
			untrusted = s.json(b, item, style, depth+1) || untrusted
		}
		style.line(s, b, depth)
		b.WriteByte(']')
	case *Dict:
		return s.jsonDict(b, v, style, depth)
	default:
		s.fail("%s has no JSON form", typeName(v))
	}
	return untrusted
}

func (s *state) jsonDict(b *strings.Builder, d *Dict, style jsonStyle, depth int) (untrusted bool) {
	if len(d.keys) == 0 {
		b.WriteString("{}")
		return false
	}
	b.WriteByte('{')
	for i, at := range s.keyOrder(d, style.sortKeys) {
		if i > 0 {
			b.WriteString(style.item)
		}
		style.line(s, b, depth+1)
		key, ok := d.keys[at].(Text)
		if !ok { // a number, true or null becomes the text of its JSON form
			var plain strings.Builder
			s.json(&plain, d.keys[at], style, depth)
			key = Trusted(plain.String())
		}
		untrusted = s.json(b, key, style, depth+1) || untrusted
		b.WriteString(style.pair)
		untrusted = s.json(b, d.values[at], style, depth+1) || untrusted
	}
	style.line(s, b, depth)
	b.WriteByte('}')
	return untrusted
}

func jsonString(b *strings.Builder, s string, ascii bool) {
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\b':
			b.WriteString(`\b`)
		case r == '\f':
			b.WriteString(`\f`)
		case r < 0x20 || ascii && r == 0x7F:
			b.WriteString(`\u` + hex(r, 4))
		case ascii && r > 0xFFFF:
			r -= 0x10000
			b.WriteString(`\u` + hex(0xD800+r>>10, 4) + `\u` + hex(0xDC00+r&0x3FF, 4))
		case ascii && r > 0x7F:
			b.WriteString(`\u` + hex(r, 4))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}
