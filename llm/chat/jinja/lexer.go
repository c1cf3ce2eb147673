package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is the kind of a lexical token.
type kind uint8

const (
	endOfTemplate kind = iota
	data               // text between tags
	blockBegin         // {%
	blockEnd           // %}
	printBegin         // {{
	printEnd           // }}
	name
	integer
	float
	str
	operator
)

type token struct {
	kind kind
	text string // decoded for str, without underscores for numbers
	line int
}

func (t token) String() string {
	switch t.kind {
	case endOfTemplate:
		return "the end of the template"
	case blockEnd:
		return "%}"
	case printEnd:
		return "}}"
	}
	return strconv.Quote(t.text)
}

// syntaxError is panicked with inside the package and returned by Parse.
type syntaxError struct {
	line int
	what string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("jinja: line %d: %s", e.line, e.what) }

// lexer cuts a template into tokens and applies the white space rules, which belong to the text around a tag.
type lexer struct {
	src       string
	at        int
	line      int
	tokens    []token
	lineStart bool // the text that follows begins a line
}

func lex(src string) []token {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	src = strings.TrimSuffix(src, "\n") // keep_trailing_newline is off
	l := &lexer{src: src, line: 1, lineStart: true}
	for l.at < len(l.src) {
		l.text()
	}
	return append(l.tokens, token{kind: endOfTemplate, line: l.line})
}

func (l *lexer) fail(format string, args ...any) {
	panic(&syntaxError{l.line, fmt.Sprintf(format, args...)})
}

func (l *lexer) emit(k kind, text string) { l.tokens = append(l.tokens, token{k, text, l.line}) }

// advance moves to at and counts lines.
func (l *lexer) advance(at int) {
	l.line += strings.Count(l.src[l.at:at], "\n")
	l.at = at
}

// nextTag returns where the next {{, {% or {# begins, or the end.
func (l *lexer) nextTag() int {
	for i := l.at; i+1 < len(l.src); i++ {
		k := strings.IndexByte(l.src[i:], '{')
		if k < 0 || i+k+1 >= len(l.src) {
			break
		}
		i += k
		if c := l.src[i+1]; c == '{' || c == '%' || c == '#' {
			return i
		}
	}
	return len(l.src)
}

// text reads the text up to the next tag, and the tag.
func (l *lexer) text() {
	begin := l.nextTag()
	text := l.src[l.at:begin]
	if begin == len(l.src) {
		l.emitData(text)
		l.advance(begin)
		return
	}
	kindByte := l.src[begin+1]
	sign := byte(0)
	if begin+2 < len(l.src) {
		sign = l.src[begin+2]
	}
	open := 2
	if sign == '-' || sign == '+' && kindByte != '{' {
		open = 3
	}
	l.emitData(strip(text, sign, kindByte != '{', l.lineStart))
	l.advance(begin + open)
	l.lineStart = false
	switch kindByte {
	case '#':
		l.comment()
	case '%':
		l.block()
	default:
		l.emit(printBegin, "{{")
		l.expression("}}", printEnd)
	}
}

// strip removes the white space before a tag that the tag asks for.
func strip(text string, sign byte, block, lineStart bool) string {
	if sign == '-' {
		return strings.TrimRightFunc(text, isSpace)
	}
	if !block || sign == '+' {
		return text
	}
	last := strings.LastIndexByte(text, '\n') + 1
	if (last > 0 || lineStart) && strings.TrimLeftFunc(text[last:], isSpace) == "" {
		return text[:last]
	}
	return text
}

func (l *lexer) emitData(text string) {
	if text != "" {
		l.emit(data, text)
	}
}

// closeTag passes the end of a tag, whose mark begins at l.at, and the white space it takes along. trim: a line end after it goes too.
func (l *lexer) closeTag(sign byte, width int, trim bool) {
	at := l.at + width
	switch {
	case sign == '-':
		at = len(l.src) - len(strings.TrimLeftFunc(l.src[at:], isSpace))
	case sign != '+' && trim && strings.HasPrefix(l.src[at:], "\n"):
		at++
	}
	l.lineStart = at > 0 && l.src[at-1] == '\n'
	l.advance(at)
}

func (l *lexer) comment() {
	k := strings.Index(l.src[l.at:], "#}")
	if k < 0 {
		l.fail("a comment is not closed: #} is missing")
	}
	sign := byte(0)
	if k > 0 {
		sign = l.src[l.at+k-1]
	}
	l.advance(l.at + k)
	l.closeTag(sign, 2, true)
}

// block reads a {% %} tag; raw is handled here since nothing inside it is a tag.
func (l *lexer) block() {
	rest := strings.TrimLeftFunc(l.src[l.at:], isSpace)
	if after, ok := strings.CutPrefix(rest, "raw"); ok {
		after = strings.TrimLeftFunc(after, isSpace)
		sign := byte(0)
		if after != "" && (after[0] == '-' || after[0] == '+') {
			sign, after = after[0], after[1:]
		}
		if strings.HasPrefix(after, "%}") {
			l.advance(len(l.src) - len(after))
			l.closeTag(sign, 2, false) // Jinja keeps the line end after raw
			l.raw()
			return
		}
	}
	l.emit(blockBegin, "{%")
	l.expression("%}", blockEnd)
}

// raw emits everything up to {% endraw %} as text.
func (l *lexer) raw() {
	for i := l.at; ; {
		k := strings.Index(l.src[i:], "{%")
		if k < 0 {
			l.fail("a raw block is not closed: {%% endraw %%} is missing")
		}
		i += k
		inner := l.src[i+2:]
		sign := byte(0)
		if inner != "" && (inner[0] == '-' || inner[0] == '+') {
			sign, inner = inner[0], inner[1:]
		}
		inner = strings.TrimLeftFunc(inner, isSpace)
		after, ok := strings.CutPrefix(inner, "endraw")
		if !ok {
			i += 2
			continue
		}
		after = strings.TrimLeftFunc(after, isSpace)
		endSign := byte(0)
		if after != "" && (after[0] == '-' || after[0] == '+') {
			endSign, after = after[0], after[1:]
		}
		if !strings.HasPrefix(after, "%}") {
			i += 2
			continue
		}
		l.emitData(strip(l.src[l.at:i], sign, true, l.lineStart))
		l.advance(len(l.src) - len(after))
		l.closeTag(endSign, 2, true)
		return
	}
}

// operators, longest first.
var operators = []string{"//", "**", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"}

// expression reads the tokens of a tag up to its end mark. Inside brackets the mark is not an end: {{ {"a": {}} }}.
func (l *lexer) expression(end string, endKind kind) {
	depth := 0
	for {
		l.advance(len(l.src) - len(strings.TrimLeftFunc(l.src[l.at:], isSpace)))
		rest := l.src[l.at:]
		if rest == "" {
			l.fail("a tag is not closed: %s is missing", end)
		}
		if depth == 0 {
			signed := rest[0] == '-' || rest[0] == '+' && endKind == blockEnd
			if signed && strings.HasPrefix(rest[1:], end) {
				l.emit(endKind, end)
				l.closeTag(rest[0], 3, false)
				return
			}
			if strings.HasPrefix(rest, end) {
				l.emit(endKind, end)
				l.closeTag(0, 2, endKind == blockEnd)
				return
			}
		}
		switch c := rest[0]; {
		case c == '\'' || c == '"':
			l.quoted(c)
		case c >= '0' && c <= '9':
			l.number()
		default:
			if r, _ := utf8.DecodeRuneInString(rest); r == '_' || unicode.IsLetter(r) {
				l.name()
				continue
			}
			l.operator(&depth)
		}
	}
}

func (l *lexer) operator(depth *int) {
	for _, op := range operators {
		if strings.HasPrefix(l.src[l.at:], op) {
			switch op {
			case "(", "[", "{":
				*depth++
			case ")", "]", "}":
				*depth--
				if *depth < 0 {
					l.fail("%q closes nothing", op)
				}
			}
			l.emit(operator, op)
			l.advance(l.at + len(op))
			return
		}
	}
	r, _ := utf8.DecodeRuneInString(l.src[l.at:])
	l.fail("unexpected character %q", r)
}

func (l *lexer) name() {
	rest := l.src[l.at:]
	end := strings.IndexFunc(rest, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if end < 0 {
		end = len(rest)
	}
	l.emit(name, rest[:end])
	l.advance(l.at + end)
}

func (l *lexer) number() {
	rest := l.src[l.at:]
	digits := func(i int) int {
		for i < len(rest) && (rest[i] >= '0' && rest[i] <= '9' || rest[i] == '_' && i+1 < len(rest) && rest[i+1] >= '0' && rest[i+1] <= '9') {
			i++
		}
		return i
	}
	k, end := integer, digits(0)
	if end+1 < len(rest) && rest[end] == '.' && rest[end+1] >= '0' && rest[end+1] <= '9' {
		k, end = float, digits(end+1)
	}
	if end < len(rest) && (rest[end] == 'e' || rest[end] == 'E') {
		i := end + 1
		if i < len(rest) && (rest[i] == '+' || rest[i] == '-') {
			i++
		}
		if j := digits(i); j > i {
			k, end = float, j
		}
	}
	l.emit(k, strings.ReplaceAll(rest[:end], "_", ""))
	l.advance(l.at + end)
}

// quoted reads a string literal with Python's escapes.
func (l *lexer) quoted(quote byte) {
	var b strings.Builder
	for i := l.at + 1; i < len(l.src); i++ {
		switch c := l.src[i]; c {
		case quote:
			l.emit(str, b.String())
			l.advance(i + 1)
			return
		case '\\':
			n := unescape(&b, l.src[i+1:])
			if n < 0 {
				l.fail("bad escape in a string: %q", l.src[i:min(i+6, len(l.src))])
			}
			i += n
		default:
			b.WriteByte(c)
		}
	}
	l.fail("a string is not closed")
}

// unescape appends what follows a backslash and returns its length, or -1.
func unescape(b *strings.Builder, s string) int {
	if s == "" {
		return -1
	}
	width := 0
	switch s[0] {
	case 'n':
		b.WriteByte('\n')
	case 't':
		b.WriteByte('\t')
	case 'r':
		b.WriteByte('\r')
	case 'a':
		b.WriteByte('\a')
	case 'b':
		b.WriteByte('\b')
	case 'f':
		b.WriteByte('\f')
	case 'v':
		b.WriteByte('\v')
	case '\\', '\'', '"':
		b.WriteByte(s[0])
	case '\n': // a line break in the source that is none in the string
	case 'x':
		width = 2
	case 'u':
		width = 4
	case 'U':
		width = 8
	case '0', '1', '2', '3', '4', '5', '6', '7':
		n := 1
		for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
			n++
		}
		v, _ := strconv.ParseUint(s[:n], 8, 32)
		b.WriteRune(rune(v))
		return n
	default: // Python keeps an unknown escape as it is
		b.WriteByte('\\')
		b.WriteByte(s[0])
	}
	if width == 0 {
		return 1
	}
	if len(s) < 1+width {
		return -1
	}
	v, err := strconv.ParseUint(s[1:1+width], 16, 32)
	if err != nil || v > unicode.MaxRune {
		return -1
	}
	b.WriteRune(rune(v))
	return 1 + width
}
