package jinja

import (
	"fmt"
	"strings"
)

// Limits bound one rendering. Zero fields take the defaults.
type Limits struct {
	Steps int // evaluations; default 500,000: well under a second, and some hundred times what a long conversation takes
	Bytes int // text and lists made on the way; default 16 MiB, plus 64 times what goes in
}

// maxDepth bounds nested evaluations, so that neither macros nor nested values can exhaust the stack.
const maxDepth = 500

// Error is a rendering that failed.
type Error struct {
	Line int
	What string
	// Raised: the template itself refused the conversation, through raise_exception.
	Raised bool
}

func (e *Error) Error() string {
	if e.Raised {
		return "jinja: the template refuses the conversation: " + e.What
	}
	return fmt.Sprintf("jinja: line %d: %s", e.Line, e.What)
}

// state is one rendering.
type state struct {
	out   *builder
	scope *scope
	line  int
	steps int // left
	bytes int // left
	depth int
}

// scope holds the variables of a template, loop body, macro or with.
type scope struct {
	vars  map[string]Value
	outer *scope
}

func (c *scope) lookup(name string) (Value, bool) {
	for ; c != nil; c = c.outer {
		if v, ok := c.vars[name]; ok {
			return v, true
		}
	}
	return nil, false
}

// Render evaluates the template with the given variables. The error is an *Error.
func (t *Template) Render(vars map[string]Value, limits Limits) (text Text, err error) {
	if limits.Steps == 0 {
		limits.Steps = 500_000
	}
	if limits.Bytes == 0 {
		limits.Bytes = 16<<20 + 64*inputSize(vars)
	}
	s := &state{out: &builder{}, steps: limits.Steps, bytes: limits.Bytes, line: 1}
	global := &scope{vars: map[string]Value{}}
	for name, fn := range globals {
		global.vars[name] = &function{name, fn}
	}
	for name, v := range vars {
		global.vars[name] = v
	}
	s.scope = &scope{vars: map[string]Value{}, outer: global}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*Error)
			if !ok {
				panic(r)
			}
			text, err = Text{}, e
		}
	}()
	s.run(t.body)
	return s.out.text(), nil
}

// inputSize adds up the text in the variables.
func inputSize(vars map[string]Value) (n int) {
	var size func(v Value, depth int)
	size = func(v Value, depth int) {
		if depth > maxDepth {
			return
		}
		switch v := v.(type) {
		case Text:
			n += len(v.s)
		case *List:
			for _, item := range v.Items {
				size(item, depth+1)
			}
		case *Dict:
			for _, item := range v.values {
				size(item, depth+1)
			}
		}
	}
	for _, v := range vars {
		size(v, 0)
	}
	return n
}

func (s *state) fail(format string, args ...any) {
	panic(&Error{Line: s.line, What: fmt.Sprintf(format, args...)})
}

// step counts an evaluation.
func (s *state) step() {
	if s.steps--; s.steps < 0 {
		s.fail("the template takes too long: its limit of evaluations is used up")
	}
}

// spend counts bytes made. Callers ask before they make them.
func (s *state) spend(n int) {
	if n > s.bytes {
		s.fail("the template makes too much text: its limit of bytes is used up")
	}
	s.bytes -= n
}

// scan counts reading a text without making a new one, which is an order of magnitude cheaper. It returns true, to stand in conditions.
func (s *state) scan(t Text) bool {
	s.spend(len(t.s) / 16)
	return true
}

// deeper counts a nested call; the returned function leaves it.
func (s *state) deeper() func() {
	if s.depth++; s.depth > maxDepth {
		s.fail("nested more than %d deep", maxDepth)
	}
	return func() { s.depth-- }
}

// signal tells a body's end apart: break and continue leave it early.
type signal uint8

const (
	done signal = iota
	broke
	continued
)

func (s *state) run(nodes []node) signal {
	for _, n := range nodes {
		s.step()
		if sig := s.exec(n); sig != done {
			return sig
		}
	}
	return done
}

func (s *state) exec(n node) signal {
	switch n := n.(type) {
	case dataNode:
		s.print(Trusted(n.text))
	case printNode:
		s.line = n.line
		s.print(s.text(s.eval(n.expr)))
	case *ifNode:
		defer s.deeper()()
		s.line = n.line
		if truth(s.eval(n.cond)) {
			return s.run(n.then)
		}
		return s.run(n.alt)
	case *forNode:
		defer s.deeper()()
		return s.forLoop(n)
	case breakNode:
		return broke
	case continueNode:
		return continued
	case *setNode:
		s.line = n.line
		s.set(n)
	case *macroNode:
		s.scope.vars[n.name] = s.macro(n)
	case callNode:
		s.line = n.line
		a := s.arguments(n.call.args)
		a.named = append(a.named, named{"caller", s.macro(n.block)})
		s.print(s.text(s.invoke(s.eval(n.call.fn), a)))
	case filterNode:
		s.line = n.line
		s.print(s.text(s.withCaptured(n.body, n.filter)))
	case *withNode:
		return s.with(n)
	}
	return done
}

func (s *state) with(n *withNode) signal {
	s.line = n.line
	inner := &scope{vars: map[string]Value{}, outer: s.scope}
	for i, name := range n.names {
		inner.vars[name] = s.eval(n.values[i])
	}
	defer s.within(inner)()
	return s.run(n.body)
}

// print appends to the output.
func (s *state) print(t Text) {
	s.spend(len(t.s))
	s.out.add(t)
}

// within makes c the scope until the returned function is called.
func (s *state) within(c *scope) func() {
	outer := s.scope
	s.scope = c
	return func() { s.scope = outer }
}

// capture runs nodes and returns what they print.
func (s *state) capture(nodes []node) Text {
	defer s.deeper()()
	outer := s.out
	s.out = &builder{}
	s.run(nodes)
	text := s.out.text()
	s.out = outer
	return text
}

// withCaptured applies a chain of filters to what nodes print.
func (s *state) withCaptured(nodes []node, chain expr) Value {
	text := s.capture(nodes)
	if chain == nil {
		return text
	}
	defer s.within(&scope{vars: map[string]Value{capturedName: text}, outer: s.scope})()
	return s.eval(chain)
}

// capturedName cannot be written in a template.
const capturedName = "\x00captured"

func (s *state) forLoop(n *forNode) signal {
	s.line = n.line
	items := s.iterate(s.eval(n.iter))
	if n.cond != nil {
		kept := items[:0]
		for _, item := range items {
			s.step()
			leave := s.within(s.bind(n.targets, item))
			if truth(s.eval(n.cond)) {
				kept = append(kept, item)
			}
			leave()
		}
		items = kept
	}
	if len(items) == 0 {
		return s.run(n.alt)
	}
	l := &loop{items: items}
	for i, item := range items {
		s.step()
		l.at = i
		body := s.bind(n.targets, item)
		body.vars["loop"] = l
		leave := s.within(body)
		sig := s.run(n.body)
		leave()
		if sig == broke {
			break
		}
	}
	return done
}

// bind returns a new scope with the targets set to a value, unpacked if there are several.
func (s *state) bind(targets []string, v Value) *scope {
	c := &scope{vars: make(map[string]Value, len(targets)+1), outer: s.scope}
	s.assign(c, targets, v)
	return c
}

func (s *state) assign(c *scope, targets []string, v Value) {
	if len(targets) == 1 {
		c.vars[targets[0]] = v
		return
	}
	parts := s.iterate(v)
	if len(parts) != len(targets) {
		s.fail("%d values for the %d names %s", len(parts), len(targets), strings.Join(targets, ", "))
	}
	for i, t := range targets {
		c.vars[t] = parts[i]
	}
}

func (s *state) set(n *setNode) {
	var v Value
	if n.value != nil {
		v = s.eval(n.value)
	} else {
		v = s.withCaptured(n.body, n.filter)
	}
	if n.attr == "" {
		s.assign(s.scope, n.targets, v)
		return
	}
	target, _ := s.scope.lookup(n.targets[0])
	ns, ok := target.(*namespace)
	if !ok {
		s.fail("only attributes of a namespace can be set, and %s is not one", n.targets[0])
	}
	ns.vars[n.attr] = v
}

// macro returns the callable of a macro defined in the current scope.
func (s *state) macro(n *macroNode) *function {
	defined := s.scope
	return &function{n.name, func(s *state, a *arguments) Value {
		body := &scope{vars: map[string]Value{}, outer: defined}
		inner := s.within(body)
		defer inner()
		required := len(n.params) - len(n.defaults)
		for i, p := range n.params {
			v, ok := a.take(p)
			switch {
			case ok:
			case i >= required:
				v = s.eval(n.defaults[i-required])
			default:
				v = undefined{"parameter " + p + " was not given"}
			}
			body.vars[p] = v
		}
		if caller, ok := a.takeNamed("caller"); ok {
			body.vars["caller"] = caller
		}
		body.vars["varargs"] = &List{Items: a.pos, tuple: true}
		kwargs := NewDict()
		for _, x := range a.named {
			kwargs.Set(Trusted(x.name), x.value)
		}
		body.vars["kwargs"] = kwargs
		return s.capture(n.body)
	}}
}
