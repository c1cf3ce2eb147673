package jinja

import (
	"strconv"
	"strings"
	"time"
)

// maxRange is Jinja's sandbox limit for range().
const maxRange = 100_000

// today is the day templates are told it is. A real clock would put a new date into the system prompt every day, which invalidates every cached
// prefix, and would make answers depend on when they were asked. The day is the one that Llama 3's own templates fall back to.
var today = time.Date(2024, time.July, 26, 0, 0, 0, 0, time.UTC)

var globals = map[string]func(*state, *arguments) Value{
	"range": func(s *state, a *arguments) Value {
		start, stop, step := int64(0), a.integer(s, "stop", 0), int64(1)
		if len(a.pos) > 0 {
			start, stop = stop, a.integer(s, "stop", 0)
			step = a.integer(s, "step", 1)
		}
		a.done(s, "range")
		if step == 0 {
			s.fail("range: the step is zero")
		}
		l := &List{}
		for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
			if len(l.Items) >= maxRange {
				s.fail("range: more than %d items", maxRange)
			}
			s.spend(16)
			l.Items = append(l.Items, i)
			if step > 0 && i > stop-step || step < 0 && i < stop-step {
				break // the next one is past the end, and could overflow
			}
		}
		return l
	},
	"namespace": func(s *state, a *arguments) Value {
		ns := &namespace{vars: map[string]Value{}}
		if v, ok := a.take(""); ok {
			d, isDict := v.(*Dict)
			if !isDict {
				s.fail("namespace: %s is not a dict", typeName(v))
			}
			for i, k := range d.keys {
				ns.vars[s.text(k).s] = d.values[i]
			}
		}
		for _, n := range a.named {
			ns.vars[n.name] = n.value
		}
		return ns
	},
	"dict": func(s *state, a *arguments) Value {
		d := NewDict()
		if v, ok := a.take(""); ok {
			from, isDict := v.(*Dict)
			if !isDict {
				s.fail("dict: %s is not a dict", typeName(v))
			}
			for i, k := range from.keys {
				s.spend(64)
				d.Set(k, from.values[i])
			}
		}
		for _, n := range a.named {
			d.Set(Trusted(n.name), n.value)
		}
		return d
	},
	"raise_exception": func(s *state, a *arguments) Value {
		panic(&Error{Line: s.line, What: s.text(a.value("message", Text{})).s, Raised: true})
	},
	"strftime_now": func(s *state, a *arguments) Value {
		format := a.text(s, "format", "")
		a.done(s, "strftime_now")
		return like(strftime(format.s), format)
	},
}

// strftime formats today. An unknown directive stays as it is.
func strftime(format string) string {
	layouts := map[byte]string{
		'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon", 'H': "15", 'I': "03", 'M': "04",
		'S': "05", 'p': "PM", 'j': "002", 'e': "_2", 'F': "2006-01-02", 'T': "15:04:05",
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		plain := format[i] == '-' && i+1 < len(format) // %-d: without the leading zero
		if plain {
			i++
		}
		layout, known := layouts[format[i]]
		switch {
		case format[i] == '%':
			b.WriteByte('%')
		case !known:
			b.WriteString(format[i-1 : i+1])
		case plain:
			b.WriteString(strings.TrimLeft(today.Format(layout), "0 "))
		default:
			b.WriteString(today.Format(layout))
		}
	}
	return b.String()
}

// value takes an argument, or what it is without.
func (a *arguments) value(name string, otherwise Value) Value {
	if v, ok := a.take(name); ok {
		return v
	}
	return otherwise
}

// text takes a string argument; none counts as left out.
func (a *arguments) text(s *state, name, otherwise string) Text {
	switch v := a.value(name, nil).(type) {
	case nil:
		return Trusted(otherwise)
	case Text:
		return v
	default:
		s.fail("argument %s: expected str, found %s", name, typeName(v))
		return Text{}
	}
}

// integer takes a whole number; none counts as left out.
func (a *arguments) integer(s *state, name string, otherwise int64) int64 {
	switch v := a.value(name, nil).(type) {
	case nil:
		return otherwise
	case int64:
		return v
	case bool:
		if v {
			return 1
		}
		return 0
	default:
		s.fail("argument %s: expected int, found %s", name, typeName(v))
		return 0
	}
}

// loopAttr is an attribute of the variable loop.
func (s *state) loopAttr(l *loop, name string) Value {
	n := len(l.items)
	switch name {
	case "index":
		return int64(l.at + 1)
	case "index0":
		return int64(l.at)
	case "revindex":
		return int64(n - l.at)
	case "revindex0":
		return int64(n - l.at - 1)
	case "first":
		return l.at == 0
	case "last":
		return l.at == n-1
	case "length":
		return int64(n)
	case "depth":
		return int64(1)
	case "depth0":
		return int64(0)
	case "previtem":
		if l.at > 0 {
			return l.items[l.at-1]
		}
		return undefined{"there is no previous item"}
	case "nextitem":
		if l.at+1 < n {
			return l.items[l.at+1]
		}
		return undefined{"there is no next item"}
	case "cycle":
		return &function{"cycle", func(s *state, a *arguments) Value {
			if len(a.pos) == 0 {
				s.fail("cycle: nothing to choose from")
			}
			return a.pos[l.at%len(a.pos)]
		}}
	case "changed":
		return &function{"changed", func(s *state, a *arguments) Value {
			same := l.asked && s.equal(&List{Items: l.last}, &List{Items: a.pos})
			l.asked, l.last = true, a.pos
			return !same
		}}
	}
	return undefined{"loop." + name + " (" + strconv.Itoa(n) + " items)"}
}
