package jinja

import (
	"math"
	"unicode/utf8"
)

// named is a keyword argument.
type named struct {
	name  string
	value Value
}

// arguments of a call; callees take theirs from it and finish with done.
type arguments struct {
	pos   []Value
	named []named
}

// take removes and returns the next positional argument or the keyword of that name.
func (a *arguments) take(name string) (Value, bool) {
	if len(a.pos) > 0 {
		v := a.pos[0]
		a.pos = a.pos[1:]
		return v, true
	}
	return a.takeNamed(name)
}

func (a *arguments) takeNamed(name string) (Value, bool) {
	for i, n := range a.named {
		if n.name == name {
			a.named = append(a.named[:i:i], a.named[i+1:]...)
			return n.value, true
		}
	}
	return nil, false
}

// done fails if arguments are left that nobody took.
func (a *arguments) done(s *state, callee string) {
	if len(a.pos) > 0 {
		s.fail("%s: too many arguments", callee)
	}
	if len(a.named) > 0 {
		s.fail("%s: unknown argument %q", callee, a.named[0].name)
	}
}

func (s *state) arguments(list argList) *arguments {
	a := &arguments{}
	for _, e := range list.pos {
		a.pos = append(a.pos, s.eval(e))
	}
	if list.star != nil {
		a.pos = append(a.pos, s.iterate(s.eval(list.star))...)
	}
	for i, n := range list.names {
		a.named = append(a.named, named{n, s.eval(list.named[i])})
	}
	if list.stars != nil {
		d, ok := s.eval(list.stars).(*Dict)
		if !ok {
			s.fail("** needs a dict")
		}
		for i, k := range d.keys {
			a.named = append(a.named, named{s.text(k).s, d.values[i]})
		}
	}
	return a
}

func (s *state) invoke(fn Value, a *arguments) Value {
	f, ok := fn.(*function)
	if !ok {
		s.fail("%s cannot be called", typeName(fn))
	}
	defer s.deeper()()
	s.step()
	return f.call(s, a)
}

// eval computes an expression.
func (s *state) eval(e expr) Value {
	defer s.deeper()()
	s.step()
	switch e := e.(type) {
	case constExpr:
		return e.value
	case nameExpr:
		if v, ok := s.scope.lookup(e.name); ok {
			return v
		}
		return undefined{e.name}
	case captured:
		v, _ := s.scope.lookup(capturedName)
		return v
	case *listExpr:
		l := &List{tuple: e.tuple}
		for _, item := range e.items {
			s.spend(16)
			l.Items = append(l.Items, s.eval(item))
		}
		return l
	case *dictExpr:
		d := NewDict()
		for i, k := range e.keys {
			s.spend(64)
			s.setItem(d, s.eval(k), s.eval(e.values[i]))
		}
		return d
	case *unaryExpr:
		return s.unary(e)
	case *binaryExpr:
		return s.binary(e)
	case *compareExpr:
		return s.compare(e)
	case *condExpr:
		if truth(s.eval(e.cond)) {
			return s.eval(e.then)
		}
		if e.alt == nil {
			return undefined{"the value of an if without else"}
		}
		return s.eval(e.alt)
	case *attrExpr:
		return s.attr(s.eval(e.x), e.name)
	case *itemExpr:
		return s.item(s.eval(e.x), s.eval(e.key))
	case *sliceExpr:
		return s.sliceOf(e)
	case *callExpr:
		fn := s.eval(e.fn)
		return s.invoke(fn, s.arguments(e.args))
	case *filterExpr:
		x := s.eval(e.x)
		if t, ok := x.(Text); ok {
			s.scan(t)
		}
		a := s.arguments(e.args)
		v := e.fn(s, x, a)
		a.done(s, "filter "+e.name)
		return v
	case *testExpr:
		x := s.eval(e.x)
		if t, ok := x.(Text); ok {
			s.scan(t)
		}
		a := s.arguments(e.args)
		v := e.fn(s, x, a)
		a.done(s, "test "+e.name)
		return v != e.negate
	}
	panic("jinja: unknown expression")
}

func (s *state) setItem(d *Dict, key, value Value) {
	if _, ok := plainKey(key); !ok {
		s.fail("%s cannot be a key", typeName(key))
	}
	if k, ok := key.(Text); ok {
		s.scan(k)
	}
	d.Set(key, value)
}

func (s *state) unary(e *unaryExpr) Value {
	x := s.eval(e.x)
	if e.op == "not" {
		return !truth(x)
	}
	f, i, whole, ok := number(x)
	switch {
	case !ok:
		s.fail("a sign before %s", typeName(x))
	case whole && e.op == "-":
		return -i
	case whole:
		return i
	case e.op == "-":
		return -f
	}
	return f
}

func (s *state) compare(e *compareExpr) Value {
	x := s.eval(e.first)
	for i, op := range e.ops {
		y := s.eval(e.rest[i])
		var ok bool
		switch op {
		case "==":
			ok = s.equal(x, y)
		case "!=":
			ok = !s.equal(x, y)
		case "<":
			ok = s.less(x, y)
		case "<=":
			ok = !s.less(y, x)
		case ">":
			ok = s.less(y, x)
		case ">=":
			ok = !s.less(x, y)
		case "in":
			ok = s.contains(y, x)
		case "not in":
			ok = !s.contains(y, x)
		}
		if !ok {
			return false
		}
		x = y
	}
	return true
}

func (s *state) binary(e *binaryExpr) Value {
	x := s.eval(e.x)
	switch {
	case e.op == "and" && !truth(x), e.op == "or" && truth(x):
		return x
	case e.op == "and", e.op == "or":
		return s.eval(e.y)
	}
	y := s.eval(e.y)
	if e.op == "~" {
		return s.concat(s.text(x), s.text(y))
	}
	if f, i, xWhole, ok := number(x); ok {
		if g, j, yWhole, ok := number(y); ok {
			if xWhole && yWhole && e.op != "/" {
				return s.integers(e.op, i, j)
			}
			return s.floats(e.op, f, g)
		}
	}
	switch a := x.(type) {
	case Text:
		b, same := y.(Text)
		n, repeats := y.(int64)
		switch {
		case e.op == "+" && same:
			return s.concat(a, b)
		case e.op == "*" && repeats:
			return s.repeat(a, n)
		case e.op == "%":
			return s.percent(a, y)
		}
	case int64:
		if b, ok := y.(Text); ok && e.op == "*" {
			return s.repeat(b, a)
		}
	case *List:
		b, same := y.(*List)
		n, repeats := y.(int64)
		switch {
		case e.op == "+" && same && a.tuple == b.tuple:
			s.spend(16 * (len(a.Items) + len(b.Items)))
			return &List{append(append([]Value(nil), a.Items...), b.Items...), a.tuple}
		case e.op == "*" && repeats:
			l := &List{tuple: a.tuple}
			for range max(n, 0) {
				s.step()
				s.spend(16 * len(a.Items))
				l.Items = append(l.Items, a.Items...)
			}
			return l
		}
	}
	s.fail("%s %s %s is not defined", typeName(x), e.op, typeName(y))
	return nil
}

func (s *state) concat(parts ...Text) Text {
	for _, p := range parts {
		s.spend(len(p.s) + 16*len(p.untrusted))
	}
	return concat(parts...)
}

func (s *state) repeat(t Text, n int64) Text {
	var b builder
	for range max(n, 0) {
		s.step()
		s.spend(len(t.s))
		b.add(t)
	}
	return b.text()
}

func (s *state) integers(op string, a, b int64) Value {
	switch op {
	case "+":
		if c := a + b; (c > a) == (b > 0) {
			return c
		}
	case "-":
		if c := a - b; (c < a) == (b > 0) {
			return c
		}
	case "*":
		if a == 0 || b == 0 {
			return int64(0)
		}
		if c := a * b; c/b == a && !(a == -1 && b == math.MinInt64) && !(b == -1 && a == math.MinInt64) {
			return c
		}
	case "//", "%":
		if b == 0 {
			s.fail("division by zero")
		}
		q, r := a/b, a%b
		if r != 0 && (r < 0) != (b < 0) { // Python rounds down
			q, r = q-1, r+b
		}
		if op == "//" {
			return q
		}
		return r
	case "**":
		if b < 0 {
			return s.floats(op, float64(a), float64(b))
		}
		result := int64(1)
		for range min(b, 64) {
			next, ok := s.integers("*", result, a).(int64)
			if !ok {
				break
			}
			result = next
		}
		if b <= 64 || a == 0 || a == 1 {
			return result
		}
		if a == -1 {
			return 1 - 2*(b%2)
		}
	}
	s.fail("the result of %d %s %d does not fit 64 bits", a, op, b)
	return nil
}

func (s *state) floats(op string, a, b float64) Value {
	if b == 0 && (op == "/" || op == "//" || op == "%") {
		s.fail("division by zero")
	}
	switch op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "/":
		return a / b
	case "//":
		return math.Floor(a / b)
	case "%":
		return a - b*math.Floor(a/b)
	}
	return math.Pow(a, b)
}

// attr is x.name: a method or attribute of the type first, then an item.
func (s *state) attr(x Value, name string) Value {
	switch x := x.(type) {
	case undefined:
		s.fail("%s is undefined, so it has no attribute %s", x.what, name)
	case *namespace:
		if v, ok := x.vars[name]; ok {
			return v
		}
		return undefined{name}
	case *loop:
		return s.loopAttr(x, name)
	case *Dict:
		if m := method(dictMethods, x, name); m != nil {
			return m
		}
		if v, ok := x.get(Trusted(name)); ok {
			return v
		}
	case *List:
		if m := method(listMethods, x, name); m != nil {
			return m
		}
	case Text:
		if m := method(textMethods, x, name); m != nil {
			s.scan(x)
			return m
		}
	}
	return undefined{name}
}

// item is x[key]: an item first, then an attribute. What is not there is undefined.
func (s *state) item(x, key Value) Value {
	if k, ok := key.(Text); ok {
		s.scan(k)
	}
	switch x := x.(type) {
	case undefined:
		s.fail("%s is undefined, so it has no item %s", x.what, s.text(key).s)
	case *Dict:
		if v, ok := x.get(key); ok {
			return v
		}
	case *List:
		if i, ok := index(key, len(x.Items)); ok {
			return x.Items[i]
		}
	case Text:
		if _, isInt := key.(int64); isInt {
			n := utf8.RuneCountInString(x.s)
			s.scan(x)
			if i, ok := index(key, n); ok {
				at := runeOffsets(x.s, i, i+1)
				return x.slice(at[0], at[1])
			}
			return undefined{"the character at that place"}
		}
	}
	if name, ok := key.(Text); ok {
		return s.attr(x, name.s)
	}
	return undefined{"the item at that place"}
}

// index resolves a subscript, negative from the end.
func index(key Value, n int) (int, bool) {
	i, ok := key.(int64)
	if b, isBool := key.(bool); isBool {
		ok = true
		if b {
			i = 1
		}
	}
	if i < 0 {
		i += int64(n)
	}
	return int(i), ok && i >= 0 && i < int64(n)
}

// runeOffsets returns the byte offsets of the given ascending character positions.
func runeOffsets(s string, positions ...int) []int {
	out := make([]int, 0, len(positions))
	at := 0
	for i := range s {
		for len(out) < len(positions) && positions[len(out)] == at {
			out = append(out, i)
		}
		at++
	}
	for len(out) < len(positions) {
		out = append(out, len(s))
	}
	return out
}

// sliceOf is x[start:stop:step] of a list or string.
func (s *state) sliceOf(e *sliceExpr) Value {
	x := s.eval(e.x)
	bound := func(part expr) (int64, bool) {
		if part == nil {
			return 0, false
		}
		switch v := s.eval(part).(type) {
		case nil:
			return 0, false
		case int64:
			return v, true
		default:
			s.fail("a slice needs whole numbers, not %s", typeName(v))
			return 0, false
		}
	}
	start, hasStart := bound(e.start)
	stop, hasStop := bound(e.stop)
	step, hasStep := bound(e.step)
	if !hasStep {
		step = 1
	}
	if step == 0 {
		s.fail("the step of a slice is zero")
	}
	var chosen []int
	n := s.length(x)
	for i := range sliceIndices(int64(n), start, hasStart, stop, hasStop, step) {
		chosen = append(chosen, i)
	}
	s.spend(16 * len(chosen))
	switch x := x.(type) {
	case *List:
		l := &List{tuple: x.tuple}
		for _, i := range chosen {
			l.Items = append(l.Items, x.Items[i])
		}
		return l
	case Text:
		if len(chosen) == 0 {
			return Text{}
		}
		if step == 1 {
			at := runeOffsets(x.s, chosen[0], chosen[len(chosen)-1]+1)
			return x.slice(at[0], at[1])
		}
		chars := s.iterate(x)
		var b builder
		for _, i := range chosen {
			b.add(chars[i].(Text))
		}
		return b.text()
	}
	s.fail("%s cannot be sliced", typeName(x))
	return nil
}

// sliceIndices yields the positions that start:stop:step selects out of n, as Python's slice.indices.
func sliceIndices(n, start int64, hasStart bool, stop int64, hasStop bool, step int64) func(func(int) bool) {
	lowest, highest := int64(0), n
	if step < 0 {
		lowest, highest = -1, n-1
	}
	clamp := func(v int64) int64 {
		if v < 0 {
			v += n
		}
		return min(max(v, lowest), highest)
	}
	from, to := lowest, highest
	if step < 0 {
		from, to = highest, lowest
	}
	if hasStart {
		from = clamp(start)
	}
	if hasStop {
		to = clamp(stop)
	}
	return func(yield func(int) bool) {
		for i := from; step > 0 && i < to || step < 0 && i > to; {
			if !yield(int(i)) {
				return
			}
			if step > n || step < -n {
				return
			}
			i += step
		}
	}
}
