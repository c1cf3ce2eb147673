package jinja

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Value is what a template computes with: nil (none), bool, int64, float64, Text, *List, *Dict, or one of the types below that only templates
// make.
type Value any

// undefined is what an unknown name or attribute yields: empty to print, false to test, an error to go on from.
type undefined struct{ what string }

// List is a list or, if immutable to the template, a tuple.
type List struct {
	Items []Value
	tuple bool
}

// Dict keeps its keys in order. Keys are Text, int64, float64, bool or nil.
type Dict struct {
	keys   []Value
	values []Value
	index  map[any]int
}

// NewDict returns an empty dict.
func NewDict() *Dict { return &Dict{index: map[any]int{}} }

// plainKey is the comparable form of a key: trust does not tell keys apart.
func plainKey(key Value) (any, bool) {
	switch k := key.(type) {
	case Text:
		return k.s, true
	case float64:
		if whole := int64(k); float64(whole) == k { // 1.0, 1 and True are one key
			return whole, true
		}
		return k, true
	case nil:
		return nil, true
	}
	if _, i, whole, ok := number(key); ok && whole {
		return i, true
	}
	return nil, false
}

// Set adds or replaces a value. A key that cannot be one is ignored; templates are told before.
func (d *Dict) Set(key, value Value) {
	k, ok := plainKey(key)
	if !ok {
		return
	}
	if i, ok := d.index[k]; ok {
		d.values[i] = value
		return
	}
	d.index[k] = len(d.keys)
	d.keys, d.values = append(d.keys, key), append(d.values, value)
}

func (d *Dict) get(key Value) (Value, bool) {
	k, ok := plainKey(key)
	if !ok {
		return nil, false
	}
	i, ok := d.index[k]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

func (d *Dict) remove(key Value) {
	k, _ := plainKey(key)
	at, ok := d.index[k]
	if !ok {
		return
	}
	d.keys = append(d.keys[:at:at], d.keys[at+1:]...)
	d.values = append(d.values[:at:at], d.values[at+1:]...)
	delete(d.index, k)
	for key, i := range d.index {
		if i > at {
			d.index[key] = i - 1
		}
	}
}

// namespace is what {% set ns.x = … %} can write to.
type namespace struct{ vars map[string]Value }

// function is a macro, a method bound to its value, or a global.
type function struct {
	name string
	call func(s *state, a *arguments) Value
}

// loop is the variable of that name in a for body.
type loop struct {
	items []Value
	at    int
	last  []Value // arguments of the last changed()
	asked bool
}

// truth is Python's bool().
func truth(v Value) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case Text:
		return v.s != ""
	case *List:
		return len(v.Items) > 0
	case *Dict:
		return len(v.keys) > 0
	}
	return true
}

// typeName is Python's name of a value's type, for messages.
func typeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case undefined:
		return "undefined (" + v.what + ")"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case Text:
		return "str"
	case *List:
		if v.tuple {
			return "tuple"
		}
		return "list"
	case *Dict:
		return "dict"
	case *namespace:
		return "namespace"
	case *function:
		return "function"
	}
	return fmt.Sprintf("%T", v)
}

// number returns v as a float; whole: it is an int or bool.
func number(v Value) (f float64, i int64, whole, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, 1, true, true
		}
		return 0, 0, true, true
	case int64:
		return float64(v), v, true, true
	case float64:
		return v, 0, false, true
	}
	return 0, 0, false, false
}

// equal is Python's ==.
func (s *state) equal(a, b Value) bool {
	defer s.deeper()()
	s.step()
	if x, i, xWhole, ok := number(a); ok {
		y, j, yWhole, ok := number(b)
		if xWhole && yWhole {
			return ok && i == j
		}
		return ok && x == y
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case undefined:
		_, ok := b.(undefined)
		return ok
	case Text:
		b, ok := b.(Text)
		return ok && len(a.s) == len(b.s) && s.scan(a) && a.s == b.s
	case *List:
		b, ok := b.(*List)
		if !ok || a.tuple != b.tuple || len(a.Items) != len(b.Items) {
			return false
		}
		for i := range a.Items {
			if !s.equal(a.Items[i], b.Items[i]) {
				return false
			}
		}
		return true
	case *Dict:
		b, ok := b.(*Dict)
		if !ok || len(a.keys) != len(b.keys) {
			return false
		}
		for i, k := range a.keys {
			v, ok := b.get(k)
			if !ok || !s.equal(a.values[i], v) {
				return false
			}
		}
		return true
	}
	return a == b
}

// less is Python's <, which is defined within numbers, strings and lists.
func (s *state) less(a, b Value) bool {
	defer s.deeper()()
	s.step()
	if x, i, xWhole, ok := number(a); ok {
		if y, j, yWhole, ok := number(b); ok {
			if xWhole && yWhole {
				return i < j
			}
			return x < y
		}
	}
	switch a := a.(type) {
	case Text:
		if b, ok := b.(Text); ok {
			s.scan(a)
			return a.s < b.s // byte order of UTF-8 is code point order
		}
	case *List:
		if b, ok := b.(*List); ok {
			for i := range min(len(a.Items), len(b.Items)) {
				if !s.equal(a.Items[i], b.Items[i]) {
					return s.less(a.Items[i], b.Items[i])
				}
			}
			return len(a.Items) < len(b.Items)
		}
	}
	s.fail("cannot order %s and %s", typeName(a), typeName(b))
	return false
}

// contains is Python's `x in in`.
func (s *state) contains(in, x Value) bool {
	switch in := in.(type) {
	case Text:
		sub, ok := x.(Text)
		if !ok {
			s.fail("'in' needs a str on its left for a str on its right, not %s", typeName(x))
		}
		s.scan(in)
		return strings.Contains(in.s, sub.s)
	case *List:
		for _, item := range in.Items {
			s.step()
			if s.equal(item, x) {
				return true
			}
		}
		return false
	case *Dict:
		_, ok := in.get(x)
		return ok
	}
	s.fail("%s is not something that can contain", typeName(in))
	return false
}

// iterate returns the items of v: characters of a string, keys of a dict.
func (s *state) iterate(v Value) []Value {
	switch v := v.(type) {
	case undefined:
		return nil
	case *List:
		s.spend(16 * len(v.Items))
		return append([]Value(nil), v.Items...) // the body may change the list
	case *Dict:
		s.spend(16 * len(v.keys))
		return append([]Value(nil), v.keys...)
	case Text:
		s.spend(16 * len(v.s))
		var out []Value
		for i := 0; i < len(v.s); {
			_, n := utf8.DecodeRuneInString(v.s[i:])
			out = append(out, v.slice(i, i+n))
			i += n
		}
		return out
	}
	s.fail("%s cannot be iterated over", typeName(v))
	return nil
}

func (s *state) length(v Value) int {
	switch v := v.(type) {
	case undefined:
		return 0
	case Text:
		s.scan(v)
		return utf8.RuneCountInString(v.s)
	case *List:
		return len(v.Items)
	case *Dict:
		return len(v.keys)
	}
	s.fail("%s has no length", typeName(v))
	return 0
}
