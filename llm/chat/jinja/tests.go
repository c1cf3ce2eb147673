package jinja

import "strings"

// test is a predicate after `is`.
type test func(s *state, x Value, a *arguments) bool

func plainTest(fn func(x Value) bool) test {
	return func(_ *state, x Value, _ *arguments) bool { return fn(x) }
}

// comparison is a test with one argument.
func comparison(fn func(s *state, x, y Value) bool) test {
	return func(s *state, x Value, a *arguments) bool {
		y, ok := a.take("other")
		if !ok {
			s.fail("the test needs something to compare with")
		}
		return fn(s, x, y)
	}
}

func isUndefined(x Value) bool { _, ok := x.(undefined); return ok }

func isInteger(x Value) bool { _, ok := x.(int64); return ok }

var tests map[string]test

func init() {
	equal := comparison((*state).equal)
	less := comparison((*state).less)
	greater := comparison(func(s *state, x, y Value) bool { return s.less(y, x) })
	notEqual := comparison(func(s *state, x, y Value) bool { return !s.equal(x, y) })
	atLeast := comparison(func(s *state, x, y Value) bool { return !s.less(x, y) })
	atMost := comparison(func(s *state, x, y Value) bool { return !s.less(y, x) })
	tests = map[string]test{
		"defined":   plainTest(func(x Value) bool { return !isUndefined(x) }),
		"undefined": plainTest(isUndefined),
		"none":      plainTest(func(x Value) bool { return x == nil }),
		"string":    plainTest(func(x Value) bool { _, ok := x.(Text); return ok }),
		"boolean":   plainTest(func(x Value) bool { _, ok := x.(bool); return ok }),
		"true":      plainTest(func(x Value) bool { return x == true }),
		"false":     plainTest(func(x Value) bool { return x == false }),
		"integer":   plainTest(isInteger),
		"float":     plainTest(func(x Value) bool { _, ok := x.(float64); return ok }),
		"number":    plainTest(func(x Value) bool { _, _, _, ok := number(x); return ok }),
		"mapping":   plainTest(func(x Value) bool { _, ok := x.(*Dict); return ok }),
		"callable":  plainTest(func(x Value) bool { _, ok := x.(*function); return ok }),
		"sequence":  plainTest(isContainer),
		"iterable":  plainTest(func(x Value) bool { return isContainer(x) || isUndefined(x) }),
		"even":      plainTest(func(x Value) bool { n, ok := x.(int64); return ok && n%2 == 0 }),
		"odd":       plainTest(func(x Value) bool { n, ok := x.(int64); return ok && n%2 != 0 }),
		"divisibleby": comparison(func(s *state, x, y Value) bool {
			n, ok := x.(int64)
			d, ok2 := y.(int64)
			if !ok || !ok2 {
				s.fail("divisibleby needs whole numbers")
			}
			return s.integers("%", n, d) == int64(0)
		}),
		"lower": plainTest(func(x Value) bool {
			t, ok := x.(Text)
			return ok && t.s == strings.ToLower(t.s) && t.s != strings.ToUpper(t.s)
		}),
		"upper": plainTest(func(x Value) bool {
			t, ok := x.(Text)
			return ok && t.s == strings.ToUpper(t.s) && t.s != strings.ToLower(t.s)
		}),
		"in":      comparison(func(s *state, x, y Value) bool { return s.contains(y, x) }),
		"sameas":  comparison(func(s *state, x, y Value) bool { return typeName(x) == typeName(y) && s.equal(x, y) }),
		"equalto": equal, "eq": equal, "==": equal,
		"ne": notEqual, "!=": notEqual,
		"lt": less, "lessthan": less, "<": less, "le": atMost, "<=": atMost,
		"gt": greater, "greaterthan": greater, ">": greater, "ge": atLeast, ">=": atLeast,
	}
}

func isContainer(x Value) bool {
	switch x.(type) {
	case Text, *List, *Dict:
		return true
	}
	return false
}
