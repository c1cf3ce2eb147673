package jinja

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// Text is a string that knows which of its bytes are untrusted. The zero value is the empty text.
type Text struct {
	s         string
	untrusted []stretch // sorted, disjoint, not touching, not empty
}

// stretch is a half-open range of bytes.
type stretch struct{ start, end int }

// Segment is a part of a Text whose bytes are all trusted or all untrusted.
type Segment struct {
	Text    string
	Trusted bool
}

// Trusted returns s as text of the template or the model file.
func Trusted(s string) Text { return Text{s: s} }

// Untrusted returns s as text of the conversation.
func Untrusted(s string) Text {
	if s == "" {
		return Text{}
	}
	return Text{s: s, untrusted: []stretch{{0, len(s)}}}
}

// String returns the text without its marks.
func (t Text) String() string { return t.s }

// Segments cuts the text where trust changes. None is empty.
func (t Text) Segments() []Segment {
	var out []Segment
	at := 0
	add := func(end int, trusted bool) {
		if end > at {
			out = append(out, Segment{t.s[at:end], trusted})
			at = end
		}
	}
	for _, u := range t.untrusted {
		add(u.start, true)
		add(u.end, false)
	}
	add(len(t.s), true)
	return out
}

// slice returns bytes [start, end).
func (t Text) slice(start, end int) Text {
	out := Text{s: t.s[start:end]}
	first := sort.Search(len(t.untrusted), func(i int) bool { return t.untrusted[i].end > start })
	for _, u := range t.untrusted[first:] {
		if u.start >= end || start == end {
			break
		}
		out.untrusted = append(out.untrusted, stretch{max(u.start, start) - start, min(u.end, end) - start})
	}
	return out
}

// like returns s with the doubt of the texts it was made from: untrusted if any byte of them is.
func like(s string, sources ...Text) Text {
	for _, t := range sources {
		if len(t.untrusted) > 0 {
			return Untrusted(s)
		}
	}
	return Trusted(s)
}

func concat(parts ...Text) Text {
	var b builder
	for _, p := range parts {
		b.add(p)
	}
	return b.text()
}

// runes calls fn for every character of t with its place; what fn returns takes the character's trust.
func (t Text) runes(fn func(at int, r rune) string) Text {
	var b builder
	u := t.untrusted
	for i := 0; i < len(t.s); {
		r, n := utf8.DecodeRuneInString(t.s[i:])
		for len(u) > 0 && u[0].end <= i {
			u = u[1:]
		}
		b.put(fn(i, r), len(u) > 0 && u[0].start < i+n)
		i += n
	}
	return b.text()
}

// split cuts t at every sep (not empty), at most limit times; limit < 0: always.
func (t Text) split(sep string, limit int) (parts []Text) {
	at := 0
	for limit != 0 {
		k := strings.Index(t.s[at:], sep)
		if k < 0 {
			break
		}
		parts = append(parts, t.slice(at, at+k))
		at += k + len(sep)
		limit--
	}
	return append(parts, t.slice(at, len(t.s)))
}

// trim cuts the given characters (white space if chars is "") off one or both ends.
func (t Text) trim(chars string, left, right bool) Text {
	cut := func(r rune) bool { return isSpace(r) }
	if chars != "" {
		cut = func(r rune) bool { return strings.ContainsRune(chars, r) }
	}
	start, end := 0, len(t.s)
	if left {
		start = end - len(strings.TrimLeftFunc(t.s, cut))
	}
	if right {
		end = start + len(strings.TrimRightFunc(t.s[start:], cut))
	}
	return t.slice(start, end)
}

// isSpace is Python's str.isspace for one character.
func isSpace(r rune) bool {
	switch r {
	case ' ', '\t', '\n', '\r', '\v', '\f', 0x1C, 0x1D, 0x1E, 0x1F, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000:
		return true
	}
	return 0x2000 <= r && r <= 0x200A
}

// builder appends texts.
type builder struct {
	b         strings.Builder
	untrusted []stretch
}

func (b *builder) add(t Text) {
	at := b.b.Len()
	b.b.WriteString(t.s)
	for _, u := range t.untrusted {
		b.mark(at+u.start, at+u.end)
	}
}

func (b *builder) put(s string, untrusted bool) {
	at := b.b.Len()
	b.b.WriteString(s)
	if untrusted && s != "" {
		b.mark(at, at+len(s))
	}
}

func (b *builder) mark(start, end int) {
	if last := len(b.untrusted) - 1; last >= 0 && b.untrusted[last].end == start {
		b.untrusted[last].end = end
		return
	}
	b.untrusted = append(b.untrusted, stretch{start, end})
}

func (b *builder) text() Text { return Text{s: b.b.String(), untrusted: b.untrusted} }
