package jinja

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// method binds the method of that name to x; nil if there is none.
func method[T any](table map[string]func(*state, T, *arguments) Value, x T, name string) Value {
	fn, ok := table[name]
	if !ok {
		return nil
	}
	return &function{name, func(s *state, a *arguments) Value {
		v := fn(s, x, a)
		a.done(s, name)
		return v
	}}
}

var (
	textMethods map[string]func(*state, Text, *arguments) Value
	listMethods map[string]func(*state, *List, *arguments) Value
	dictMethods map[string]func(*state, *Dict, *arguments) Value
)

func init() {
	strip := func(left, right bool) func(*state, Text, *arguments) Value {
		return func(s *state, t Text, a *arguments) Value { return t.trim(a.text(s, "chars", "").s, left, right) }
	}
	is := func(fn func(rune) bool) func(*state, Text, *arguments) Value {
		return func(_ *state, t Text, _ *arguments) Value {
			return t.s != "" && strings.IndexFunc(t.s, func(r rune) bool { return !fn(r) }) < 0
		}
	}
	affix := func(has func(s, affix string) bool) func(*state, Text, *arguments) Value {
		return func(s *state, t Text, a *arguments) Value {
			switch v := a.value("prefix", nil).(type) {
			case Text:
				return has(t.s, v.s)
			case *List:
				for _, item := range v.Items {
					if x, ok := item.(Text); ok && has(t.s, x.s) {
						return true
					}
				}
				return false
			default:
				s.fail("startswith and endswith need a str or a tuple of them, not %s", typeName(v))
				return nil
			}
		}
	}
	find := func(index func(s, sub string) int) func(*state, Text, *arguments) Value {
		return func(s *state, t Text, a *arguments) Value {
			k := index(t.s, a.text(s, "sub", "").s)
			if k > 0 {
				k = utf8.RuneCountInString(t.s[:k])
			}
			return int64(k)
		}
	}
	textMethods = map[string]func(*state, Text, *arguments) Value{
		"strip": strip(true, true), "lstrip": strip(true, false), "rstrip": strip(false, true),
		"startswith": affix(strings.HasPrefix), "endswith": affix(strings.HasSuffix),
		"find": find(strings.Index), "rfind": find(strings.LastIndex),
		"upper":      func(s *state, t Text, _ *arguments) Value { return s.upper(t) },
		"lower":      func(s *state, t Text, _ *arguments) Value { return s.lower(t) },
		"capitalize": func(s *state, t Text, _ *arguments) Value { return s.capitalize(t) },
		"title": func(s *state, t Text, _ *arguments) Value {
			return s.title(t, func(r rune) bool { return !unicode.IsLetter(r) })
		},
		"isdigit": is(unicode.IsDigit), "isalpha": is(unicode.IsLetter), "isspace": is(isSpace),
		"isalnum": is(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
		"isupper": func(s *state, t Text, a *arguments) Value { return tests["upper"](s, t, a) },
		"islower": func(s *state, t Text, a *arguments) Value { return tests["lower"](s, t, a) },
		"count": func(s *state, t Text, a *arguments) Value {
			return int64(strings.Count(t.s, a.text(s, "sub", "").s))
		},
		"replace": func(s *state, t Text, a *arguments) Value {
			from, to := a.text(s, "old", ""), a.text(s, "new", "")
			return s.replace(t, from, to, a.integer(s, "count", -1))
		},
		"split":      func(s *state, t Text, a *arguments) Value { return s.split(t, a, false) },
		"rsplit":     func(s *state, t Text, a *arguments) Value { return s.split(t, a, true) },
		"splitlines": func(s *state, t Text, a *arguments) Value { return s.list(splitLines(t)) },
		"partition":  partition(strings.Index), "rpartition": partition(strings.LastIndex),
		"removeprefix": func(s *state, t Text, a *arguments) Value {
			return t.slice(len(t.s)-len(strings.TrimPrefix(t.s, a.text(s, "prefix", "").s)), len(t.s))
		},
		"removesuffix": func(s *state, t Text, a *arguments) Value {
			return t.slice(0, len(strings.TrimSuffix(t.s, a.text(s, "suffix", "").s)))
		},
		"join":   func(s *state, t Text, a *arguments) Value { return s.join(t, s.iterate(a.value("iterable", nil))) },
		"format": func(s *state, t Text, a *arguments) Value { return s.format(t, a) },
	}
	listMethods = map[string]func(*state, *List, *arguments) Value{
		"append": func(s *state, l *List, a *arguments) Value {
			s.mutable(l)
			s.spend(16)
			l.Items = append(l.Items, a.value("object", nil))
			return nil
		},
		"pop": func(s *state, l *List, a *arguments) Value {
			s.mutable(l)
			i, ok := index(a.integer(s, "index", -1), len(l.Items))
			if !ok {
				s.fail("pop: the list has no such item")
			}
			s.spend(16 * len(l.Items))
			v := l.Items[i]
			l.Items = append(l.Items[:i:i], l.Items[i+1:]...)
			return v
		},
		"index": func(s *state, l *List, a *arguments) Value {
			x := a.value("value", nil)
			for i, item := range l.Items {
				if s.equal(item, x) {
					return int64(i)
				}
			}
			s.fail("index: the value is not in the list")
			return nil
		},
		"count": func(s *state, l *List, a *arguments) Value {
			x, n := a.value("value", nil), int64(0)
			for _, item := range l.Items {
				if s.equal(item, x) {
					n++
				}
			}
			return n
		},
	}
	dictMethods = map[string]func(*state, *Dict, *arguments) Value{
		"items": func(s *state, d *Dict, _ *arguments) Value { return s.items(d) },
		"keys":  func(s *state, d *Dict, _ *arguments) Value { return &List{Items: s.iterate(d)} },
		"values": func(s *state, d *Dict, _ *arguments) Value {
			s.spend(16 * len(d.values))
			return &List{Items: append([]Value(nil), d.values...)}
		},
		"get": func(s *state, d *Dict, a *arguments) Value {
			key, otherwise := a.value("key", nil), a.value("default", nil)
			if v, ok := d.get(key); ok {
				return v
			}
			return otherwise
		},
		"pop": func(s *state, d *Dict, a *arguments) Value {
			key := a.value("key", nil)
			otherwise, hasDefault := a.take("default")
			v, ok := d.get(key)
			if !ok {
				if !hasDefault {
					s.fail("pop: the dict has no key %s", s.text(key).s)
				}
				return otherwise
			}
			s.spend(64 * len(d.keys))
			d.remove(key)
			return v
		},
		"update": func(s *state, d *Dict, a *arguments) Value {
			if from, ok := a.value("other", nil).(*Dict); ok {
				s.spend(64 * len(from.keys))
				for i, k := range append([]Value(nil), from.keys...) {
					d.Set(k, from.values[i])
				}
			}
			for _, n := range a.named {
				d.Set(Trusted(n.name), n.value)
			}
			a.named = nil
			return nil
		},
	}
}

func (s *state) mutable(l *List) {
	if l.tuple {
		s.fail("a tuple cannot be changed")
	}
}

// list makes a list of texts, which share the bytes of what they were cut from.
func (s *state) list(parts []Text) *List {
	s.spend(32 * len(parts))
	l := &List{}
	for _, p := range parts {
		l.Items = append(l.Items, p)
	}
	return l
}

func (s *state) items(d *Dict) *List {
	l := &List{}
	for i, k := range d.keys {
		s.spend(64)
		l.Items = append(l.Items, &List{[]Value{k, d.values[i]}, true})
	}
	return l
}

// partition is (before, separator, after) of one place where the separator is.
func partition(index func(s, sep string) int) func(*state, Text, *arguments) Value {
	return func(s *state, t Text, a *arguments) Value {
		sep := a.text(s, "sep", "")
		if sep.s == "" {
			s.fail("partition: the separator is empty")
		}
		k := index(t.s, sep.s)
		if k < 0 {
			return &List{[]Value{t, Text{}, Text{}}, true}
		}
		end := k + len(sep.s)
		return &List{[]Value{t.slice(0, k), t.slice(k, end), t.slice(end, len(t.s))}, true}
	}
}

// split is str.split and str.rsplit: at a separator, or at runs of white space.
func (s *state) split(t Text, a *arguments, fromRight bool) Value {
	sep, byText := a.value("sep", nil).(Text)
	limit := int(a.integer(s, "maxsplit", -1))
	s.spend(len(t.s))
	if byText && sep.s == "" {
		s.fail("split: the separator is empty")
	}
	if !fromRight && byText {
		return s.list(t.split(sep.s, limit))
	}
	var parts []Text
	if byText {
		parts = t.split(sep.s, -1)
	} else {
		parts = fields(t)
	}
	if limit < 0 || len(parts) <= limit+1 {
		return s.list(parts)
	}
	// Parts are cut from t: what is left over is t up to (or from) where the last cut was.
	if fromRight {
		head := len(t.s)
		for _, p := range parts[len(parts)-limit:] {
			head -= len(p.s)
			if byText {
				head -= len(sep.s)
			}
		}
		if !byText {
			rest := t.trim("", false, true)
			for range limit {
				rest = rest.slice(0, strings.LastIndexFunc(rest.s, isSpace)+1).trim("", false, true)
			}
			head = len(rest.s)
		}
		return s.list(append([]Text{t.slice(0, head)}, parts[len(parts)-limit:]...))
	}
	rest := t.trim("", true, false)
	for range limit {
		rest = rest.slice(strings.IndexFunc(rest.s, isSpace), len(rest.s)).trim("", true, false)
	}
	return s.list(append(parts[:limit:limit], rest))
}

// fields cuts t at runs of white space.
func fields(t Text) (parts []Text) {
	start := -1
	for i, r := range t.s {
		switch {
		case isSpace(r) && start >= 0:
			parts = append(parts, t.slice(start, i))
			start = -1
		case !isSpace(r) && start < 0:
			start = i
		}
	}
	if start >= 0 {
		parts = append(parts, t.slice(start, len(t.s)))
	}
	return parts
}

// splitLines is str.splitlines.
func splitLines(t Text) (lines []Text) {
	start := 0
	for i := 0; i < len(t.s); {
		r, n := utf8.DecodeRuneInString(t.s[i:])
		end := i
		i += n
		switch r {
		case '\r':
			if i < len(t.s) && t.s[i] == '\n' {
				i++
			}
		case '\n', '\v', '\f', 0x1C, 0x1D, 0x1E, 0x85, 0x2028, 0x2029:
		default:
			continue
		}
		lines = append(lines, t.slice(start, end))
		start = i
	}
	if start < len(t.s) {
		lines = append(lines, t.slice(start, len(t.s)))
	}
	return lines
}

// replace is str.replace; limit < 0: everywhere.
func (s *state) replace(t, from, to Text, limit int64) Text {
	s.spend(len(t.s))
	var b builder
	at := 0
	for ; limit != 0; limit-- {
		k := strings.Index(t.s[at:], from.s)
		if from.s == "" && at > 0 { // between characters
			_, k = utf8.DecodeRuneInString(t.s[at:])
			if k == 0 {
				break
			}
		}
		if k < 0 {
			break
		}
		s.step()
		s.spend(len(to.s))
		b.add(t.slice(at, at+k))
		b.add(to)
		at += k + len(from.s)
		if from.s == "" && at == 0 {
			if t.s == "" {
				break
			}
			_, n := utf8.DecodeRuneInString(t.s)
			b.add(t.slice(0, n))
			at = n
			limit--
			if limit == 0 {
				break
			}
			b.add(to)
		}
	}
	b.add(t.slice(at, len(t.s)))
	return b.text()
}

func (s *state) join(sep Text, items []Value) Text {
	var b builder
	for i, item := range items {
		s.step()
		if i > 0 {
			s.spend(len(sep.s))
			b.add(sep)
		}
		t := s.text(item)
		s.spend(len(t.s))
		b.add(t)
	}
	return b.text()
}

// format is str.format with plain fields: {}, {0}, {name}.
func (s *state) format(t Text, a *arguments) Value {
	var b builder
	next := 0
	pos, names := a.pos, a.named
	a.pos, a.named = nil, nil
	for i := 0; i < len(t.s); {
		k := strings.IndexAny(t.s[i:], "{}")
		if k < 0 {
			b.add(t.slice(i, len(t.s)))
			break
		}
		b.add(t.slice(i, i+k))
		i += k
		if i+1 < len(t.s) && t.s[i+1] == t.s[i] {
			b.add(t.slice(i, i+1))
			i += 2
			continue
		}
		end := strings.IndexByte(t.s[i:], '}')
		if t.s[i] == '}' || end < 0 {
			s.fail("format: a single brace")
		}
		field := t.s[i+1 : i+end]
		i += end + 1
		n, err := strconv.Atoi(field)
		if field == "" {
			n, err = next, nil
			next++
		}
		var v Value = undefined{}
		if err == nil && n < len(pos) {
			v = pos[n]
		} else {
			for _, x := range names {
				if x.name == field {
					v = x.value
				}
			}
		}
		if isUndefined(v) {
			s.fail("format: nothing for the field {%s}; format specifications are not in this subset", field)
		}
		x := s.text(v)
		s.spend(len(x.s))
		b.add(x)
	}
	return b.text()
}
