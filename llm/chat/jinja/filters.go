package jinja

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// filter is a function after a bar.
type filter func(s *state, x Value, a *arguments) Value

var filters map[string]filter

func init() {
	onText := func(fn func(s *state, t Text) Text) filter {
		return func(s *state, x Value, _ *arguments) Value { return fn(s, s.text(x)) }
	}
	length := func(s *state, x Value, _ *arguments) Value { return int64(s.length(x)) }
	filters = map[string]filter{
		"upper": onText((*state).upper), "lower": onText((*state).lower), "capitalize": onText((*state).capitalize),
		"title": onText(func(s *state, t Text) Text {
			return s.title(t, func(r rune) bool { return isSpace(r) || strings.ContainsRune("-({[<", r) })
		}),
		"string": onText(func(_ *state, t Text) Text { return t }), "safe": onText(func(_ *state, t Text) Text { return t }),
		"escape": onText((*state).escape), "e": onText((*state).escape),
		"trim": func(s *state, x Value, a *arguments) Value {
			return s.text(x).trim(a.text(s, "chars", "").s, true, true)
		},
		"replace": func(s *state, x Value, a *arguments) Value {
			from, to := a.text(s, "old", ""), a.text(s, "new", "")
			return s.replace(s.text(x), from, to, a.integer(s, "count", -1))
		},
		"indent": indent,
		"format": func(s *state, x Value, a *arguments) Value {
			args := &List{a.pos, true}
			a.pos = nil
			return s.percent(s.text(x), args)
		},
		"tojson": toJSON,
		"length": length, "count": length,
		"default": defaultTo, "d": defaultTo,
		"int": toInt, "float": toFloat, "abs": absolute, "round": round,
		"list": func(s *state, x Value, _ *arguments) Value { return &List{Items: s.iterate(x)} },
		"first": func(s *state, x Value, _ *arguments) Value {
			if items := s.iterate(x); len(items) > 0 {
				return items[0]
			}
			return undefined{"there is no first item"}
		},
		"last": func(s *state, x Value, _ *arguments) Value {
			if items := s.iterate(x); len(items) > 0 {
				return items[len(items)-1]
			}
			return undefined{"there is no last item"}
		},
		"join": func(s *state, x Value, a *arguments) Value {
			sep := s.text(a.value("d", Text{}))
			return s.join(sep, s.attributes(s.iterate(x), a))
		},
		"reverse": func(s *state, x Value, _ *arguments) Value {
			items := s.iterate(x)
			slices.Reverse(items)
			if _, ok := x.(Text); ok {
				return s.join(Text{}, items)
			}
			return &List{Items: items}
		},
		"items": func(s *state, x Value, _ *arguments) Value {
			switch x := x.(type) {
			case undefined:
				return &List{}
			case *Dict:
				return s.items(x)
			}
			s.fail("items needs a dict, not %s", typeName(x))
			return nil
		},
		"dictsort": dictSort,
		"sort":     sorted,
		"unique":   unique,
		"map":      mapped,
		"select":   selection(false, true), "reject": selection(false, false), "selectattr": selection(true, true), "rejectattr": selection(true, false),
		"sum": func(s *state, x Value, a *arguments) Value {
			items := s.attributes(s.iterate(x), a)
			total := a.value("start", int64(0))
			for _, item := range items {
				total = s.binary(&binaryExpr{"+", constExpr{total}, constExpr{item}})
			}
			return total
		},
		"min":  extreme(func(s *state, a, b Value) bool { return s.less(a, b) }),
		"max":  extreme(func(s *state, a, b Value) bool { return s.less(b, a) }),
		"attr": func(s *state, x Value, a *arguments) Value { return s.attr(x, a.text(s, "name", "").s) },
	}
}

func (s *state) upper(t Text) Text {
	s.spend(len(t.s))
	return t.runes(func(_ int, r rune) string {
		if r == 'ß' {
			return "SS"
		}
		return string(unicode.ToUpper(r))
	})
}

func (s *state) lower(t Text) Text {
	s.spend(len(t.s))
	return t.runes(func(_ int, r rune) string { return string(unicode.ToLower(r)) })
}

func (s *state) capitalize(t Text) Text {
	s.spend(len(t.s))
	return t.runes(func(at int, r rune) string {
		if at == 0 {
			return string(unicode.ToTitle(r))
		}
		return string(unicode.ToLower(r))
	})
}

// title capitalises the first character and each one after a boundary.
func (s *state) title(t Text, boundary func(rune) bool) Text {
	s.spend(len(t.s))
	begin := true
	return t.runes(func(_ int, r rune) string {
		first := begin
		begin = boundary(r)
		switch {
		case begin:
			return string(r)
		case first:
			return string(unicode.ToTitle(r))
		}
		return string(unicode.ToLower(r))
	})
}

func (s *state) escape(t Text) Text {
	s.spend(len(t.s))
	replacements := map[rune]string{'&': "&amp;", '<': "&lt;", '>': "&gt;", '"': "&#34;", '\'': "&#39;"}
	return t.runes(func(_ int, r rune) string {
		if e, ok := replacements[r]; ok {
			return e
		}
		return string(r)
	})
}

func indent(s *state, x Value, a *arguments) Value {
	t := s.text(x)
	width := Trusted("    ")
	switch w := a.value("width", int64(4)).(type) {
	case Text:
		width = w
	case int64:
		s.spend(int(min(max(w, 0), math.MaxInt32)))
		width = Trusted(strings.Repeat(" ", int(max(w, 0))))
	default:
		s.fail("indent: the width is %s", typeName(w))
	}
	first, blank := truth(a.value("first", false)), truth(a.value("blank", false))
	var b builder
	if first {
		b.add(width)
	}
	for i, line := range splitLines(concat(t, Trusted("\n"))) {
		s.step()
		s.spend(len(width.s) + len(line.s) + 1)
		if i > 0 {
			b.put("\n", false)
			if blank || line.s != "" {
				b.add(width)
			}
		}
		b.add(line)
	}
	return b.text()
}

// toJSON is json.dumps(x, ensure_ascii=False), as transformers has it, not Jinja's HTML-safe form.
func toJSON(s *state, x Value, a *arguments) Value {
	style := jsonStyle{item: ", ", pair: ": "}
	style.ascii = truth(a.takeOr("ensure_ascii", false))
	switch w := a.value("indent", nil).(type) {
	case nil:
	case int64:
		style.indent = strings.Repeat(" ", int(min(max(w, 0), 64)))
		style.item = ","
	case Text:
		style.indent, style.item = w.s, ","
	default:
		s.fail("tojson: the indent is %s", typeName(w))
	}
	if l, ok := a.takeOr("separators", nil).(*List); ok && len(l.Items) == 2 {
		style.item, style.pair = s.text(l.Items[0]).s, s.text(l.Items[1]).s
	}
	style.sortKeys = truth(a.takeOr("sort_keys", false))
	var b strings.Builder
	untrusted := s.json(&b, x, style, 0)
	s.spend(b.Len())
	if untrusted {
		return Untrusted(b.String())
	}
	return Trusted(b.String())
}

// takeOr takes a keyword argument, or what it is without.
func (a *arguments) takeOr(name string, otherwise Value) Value {
	if v, ok := a.takeNamed(name); ok {
		return v
	}
	return otherwise
}

func defaultTo(_ *state, x Value, a *arguments) Value {
	otherwise := a.value("default_value", Text{})
	if boolean := truth(a.value("boolean", false)); isUndefined(x) || boolean && !truth(x) {
		return otherwise
	}
	return x
}

func toInt(s *state, x Value, a *arguments) Value {
	otherwise := a.value("default", int64(0))
	base := a.integer(s, "base", 10)
	switch x := x.(type) {
	case Text:
		if n, err := strconv.ParseInt(strings.TrimSpace(x.s), int(min(max(base, 2), 36)), 64); err == nil {
			return n
		}
		if f, err := strconv.ParseFloat(strings.TrimSpace(x.s), 64); err == nil && math.Abs(f) < 1<<62 {
			return int64(f)
		}
	default:
		if f, i, whole, ok := number(x); ok && whole {
			return i
		} else if ok && math.Abs(f) < 1<<62 {
			return int64(f)
		}
	}
	return otherwise
}

func toFloat(_ *state, x Value, a *arguments) Value {
	otherwise := a.value("default", 0.0)
	if t, ok := x.(Text); ok {
		if f, err := strconv.ParseFloat(strings.TrimSpace(t.s), 64); err == nil {
			return f
		}
		return otherwise
	}
	if f, _, _, ok := number(x); ok {
		return f
	}
	return otherwise
}

func absolute(s *state, x Value, _ *arguments) Value {
	f, i, whole, ok := number(x)
	switch {
	case !ok:
		s.fail("abs of %s", typeName(x))
	case whole && i < 0:
		return -i
	case whole:
		return i
	}
	return math.Abs(f)
}

func round(s *state, x Value, a *arguments) Value {
	precision := min(max(a.integer(s, "precision", 0), 0), 20)
	how := a.text(s, "method", "common").s
	f, _, _, ok := number(x)
	if !ok {
		s.fail("round of %s", typeName(x))
	}
	scale := math.Pow(10, float64(precision))
	switch how {
	case "ceil":
		return math.Ceil(f*scale) / scale
	case "floor":
		return math.Floor(f*scale) / scale
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(precision), 64), 64)
	return rounded
}

// path is x.a.b, as attribute arguments have it.
func (s *state) path(x Value, dotted string) Value {
	for _, part := range strings.Split(dotted, ".") {
		s.step()
		if n, err := strconv.ParseInt(part, 10, 64); err == nil {
			x = s.item(x, n)
		} else {
			x = s.item(x, Trusted(part))
		}
	}
	return x
}

// attributes replaces items by their attribute where an argument asks for it.
func (s *state) attributes(items []Value, a *arguments) []Value {
	name, ok := a.take("attribute")
	if !ok || name == nil {
		return items
	}
	for i := range items {
		items[i] = s.path(items[i], s.text(name).s)
	}
	return items
}

// fold is how sorting and comparing texts ignores case by default.
func fold(v Value, caseSensitive bool) Value {
	if t, ok := v.(Text); ok && !caseSensitive {
		return like(strings.ToLower(t.s), t)
	}
	return v
}

func (s *state) sortBy(items []Value, key func(Value) Value, reverse bool) {
	keys := make([]Value, len(items))
	order := make([]int, len(items))
	for i, item := range items {
		keys[i], order[i] = key(item), i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		s.step()
		a, b := keys[i], keys[j]
		if reverse {
			a, b = b, a
		}
		switch {
		case s.less(a, b):
			return -1
		case s.less(b, a):
			return 1
		}
		return 0
	})
	out := make([]Value, len(items))
	for i, at := range order {
		out[i] = items[at]
	}
	copy(items, out)
}

// keyOrder returns the positions of a dict's keys, in their order or sorted.
func (s *state) keyOrder(d *Dict, sortKeys bool) []int {
	order := make([]int, len(d.keys))
	for i := range order {
		order[i] = i
	}
	if sortKeys {
		slices.SortStableFunc(order, func(i, j int) int {
			s.step()
			return strings.Compare(s.text(d.keys[i]).s, s.text(d.keys[j]).s)
		})
	}
	return order
}

func dictSort(s *state, x Value, a *arguments) Value {
	d, ok := x.(*Dict)
	if !ok {
		s.fail("dictsort needs a dict, not %s", typeName(x))
	}
	caseSensitive := truth(a.value("case_sensitive", false))
	by := a.text(s, "by", "key").s
	reverse := truth(a.value("reverse", false))
	l := s.items(d)
	s.sortBy(l.Items, func(pair Value) Value {
		part := 0
		if by == "value" {
			part = 1
		}
		return fold(pair.(*List).Items[part], caseSensitive)
	}, reverse)
	return l
}

func sorted(s *state, x Value, a *arguments) Value {
	items := s.iterate(x)
	reverse := truth(a.value("reverse", false))
	caseSensitive := truth(a.value("case_sensitive", false))
	attribute, by := a.take("attribute")
	s.sortBy(items, func(item Value) Value {
		if by && attribute != nil {
			item = s.path(item, s.text(attribute).s)
		}
		return fold(item, caseSensitive)
	}, reverse)
	return &List{Items: items}
}

func unique(s *state, x Value, a *arguments) Value {
	items := s.iterate(x)
	caseSensitive := truth(a.value("case_sensitive", false))
	keys := s.attributes(append([]Value(nil), items...), a)
	seen := map[any]bool{}
	l := &List{}
	for i, item := range items {
		key, ok := plainKey(fold(keys[i], caseSensitive))
		if !ok {
			s.fail("unique of %s", typeName(keys[i]))
		}
		if !seen[key] {
			seen[key] = true
			l.Items = append(l.Items, item)
		}
	}
	return l
}

// mapped is map(attribute='a', default=…) or map('filter', arguments…).
func mapped(s *state, x Value, a *arguments) Value {
	items := s.iterate(x)
	if attribute, ok := a.takeNamed("attribute"); ok {
		otherwise, hasDefault := a.takeNamed("default")
		for i := range items {
			items[i] = s.path(items[i], s.text(attribute).s)
			if hasDefault && isUndefined(items[i]) {
				items[i] = otherwise
			}
		}
		return &List{Items: items}
	}
	name := a.text(s, "filter", "").s
	fn, ok := filters[name]
	if !ok {
		s.fail("map: unknown filter %q", name)
	}
	pos, names := a.pos, a.named
	a.pos, a.named = nil, nil
	for i := range items {
		s.step()
		args := &arguments{pos: pos, named: names}
		items[i] = fn(s, items[i], args)
		args.done(s, "filter "+name)
	}
	return &List{Items: items}
}

// selection is select, reject, selectattr and rejectattr: ([attribute,] [test, arguments…]).
func selection(byAttribute, keep bool) filter {
	return func(s *state, x Value, a *arguments) Value {
		items := s.iterate(x)
		attribute := ""
		if byAttribute {
			attribute = a.text(s, "attribute", "").s
		}
		fn := func(_ *state, x Value, _ *arguments) bool { return truth(x) }
		if v, ok := a.take("test"); ok {
			name := s.text(v).s
			if fn, ok = tests[name]; !ok {
				s.fail("unknown test %q", name)
			}
		}
		pos, names := a.pos, a.named
		a.pos, a.named = nil, nil
		l := &List{}
		for _, item := range items {
			s.step()
			v := item
			if byAttribute {
				v = s.path(item, attribute)
			}
			if fn(s, v, &arguments{pos: pos, named: names}) == keep {
				l.Items = append(l.Items, item)
			}
		}
		return l
	}
}

// extreme is min or max.
func extreme(better func(s *state, a, b Value) bool) filter {
	return func(s *state, x Value, a *arguments) Value {
		items := s.iterate(x)
		if len(items) == 0 {
			return undefined{"there is no item"}
		}
		caseSensitive := truth(a.value("case_sensitive", false))
		keys := s.attributes(append([]Value(nil), items...), a)
		best := 0
		for i := range items {
			s.step()
			if better(s, fold(keys[i], caseSensitive), fold(keys[best], caseSensitive)) {
				best = i
			}
		}
		return items[best]
	}
}

// percent is Python's % of a string: %s %r %d %i %f %x %%, with flags, width and precision.
func (s *state) percent(t Text, args Value) Text {
	list := []Value{args}
	if l, ok := args.(*List); ok && l.tuple {
		list = l.Items
	}
	var b builder
	at := 0
	for {
		k := strings.IndexByte(t.s[at:], '%')
		if k < 0 {
			break
		}
		b.add(t.slice(at, at+k))
		start := at + k
		end := start + 1
		for end < len(t.s) && strings.IndexByte("-+ 0#.123456789", t.s[end]) >= 0 {
			end++
		}
		if end == len(t.s) || end-start > 8 {
			s.fail("a format ends in the middle of a directive")
		}
		at = end + 1
		if t.s[end] == '%' {
			b.add(t.slice(end, at))
			continue
		}
		if len(list) == 0 {
			s.fail("more directives in a format than values")
		}
		out := s.directive(t.s[start:end], t.s[end], list[0])
		list = list[1:]
		s.spend(len(out.s))
		b.add(out)
	}
	if len(list) > 0 && list[0] != nil {
		if _, isDict := args.(*Dict); !isDict {
			s.fail("more values for a format than directives")
		}
	}
	b.add(t.slice(at, len(t.s)))
	return b.text()
}

// directive formats one value; flags begin with %.
func (s *state) directive(flags string, verb byte, v Value) Text {
	if width, _ := strconv.Atoi(strings.TrimLeft(strings.SplitN(flags, ".", 2)[0], "%-+ 0#")); width > 1000 {
		s.fail("a format asks for a width of %d", width)
	}
	switch verb {
	case 's', 'r':
		text := s.text(v)
		if verb == 'r' {
			var b strings.Builder
			s.repr(&b, v, true)
			text = like(b.String(), text)
		}
		if flags == "%" {
			return text
		}
		return like(fmt.Sprintf(flags+"s", text.s), text)
	case 'd', 'i', 'x', 'X', 'o':
		f, i, whole, ok := number(v)
		if !ok {
			s.fail("%%%c of %s", verb, typeName(v))
		}
		if !whole {
			i = int64(f)
		}
		if verb == 'i' {
			verb = 'd'
		}
		return Trusted(fmt.Sprintf(flags+string(verb), i))
	case 'f', 'e', 'g', 'F':
		f, _, _, ok := number(v)
		if !ok {
			s.fail("%%%c of %s", verb, typeName(v))
		}
		if precision := strings.SplitN(flags, ".", 2); len(precision) == 2 && len(precision[1]) > 2 {
			s.fail("a format asks for the precision %s", precision[1])
		}
		return Trusted(fmt.Sprintf(flags+string(verb), f))
	}
	s.fail("unknown format directive %%%c", verb)
	return Text{}
}
