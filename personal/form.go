package personal

import (
	"regexp/syntax"
	"strings"
)

// form is what every match of a rule's expression has: the only bytes that it
// can consist of, and the fewest digits and bytes. Looking for stretches of such
// bytes first is many times faster than the expression, in tables of figures above all.
type form struct {
	bytes         [128]bool
	digits, total int
}

// forms of rules, in their order.
var forms = func() []form {
	all := make([]form, len(rules))
	for i, r := range rules {
		tree, err := syntax.Parse(r.form.String(), syntax.Perl)
		if err != nil {
			panic(err) // it has been compiled already
		}
		all[i].digits, all[i].total = all[i].least(tree)
	}
	return all
}()

// least notes the bytes of an expression and returns the fewest digits and bytes of its matches.
func (f *form) least(e *syntax.Regexp) (digits, total int) {
	switch e.Op {
	case syntax.OpLiteral:
		for _, r := range e.Rune {
			f.bytes[r] = true
			digits += strings.Count("0123456789", string(r))
		}
		return digits, len(e.Rune)
	case syntax.OpCharClass:
		digits = 1
		for i := 0; i < len(e.Rune); i += 2 {
			for r := e.Rune[i]; r <= e.Rune[i+1]; r++ {
				f.bytes[r] = true
			}
			if e.Rune[i] < '0' || e.Rune[i+1] > '9' {
				digits = 0
			}
		}
		return digits, 1
	case syntax.OpConcat, syntax.OpCapture, syntax.OpPlus:
		for _, sub := range e.Sub {
			d, n := f.least(sub)
			digits, total = digits+d, total+n
		}
		return digits, total
	case syntax.OpAlternate:
		for i, sub := range e.Sub {
			d, n := f.least(sub)
			if i == 0 {
				digits, total = d, n
			}
			digits, total = min(digits, d), min(total, n)
		}
		return digits, total
	case syntax.OpRepeat:
		d, n := f.least(e.Sub[0])
		return d * e.Min, n * e.Min
	case syntax.OpQuest, syntax.OpStar:
		f.least(e.Sub[0])
	}
	return 0, 0
}

// runs calls fn with the stretches of text[start:end] that can hold a match.
func (f *form) runs(text string, start, end int, fn func(start, end int)) {
	for at := start; at < end; at++ {
		first, digits := at, 0
		for at < end && text[at] < 0x80 && f.bytes[text[at]] {
			if isDigit(text[at]) {
				digits++
			}
			at++
		}
		if digits >= f.digits && at-first >= f.total {
			fn(first, at)
		}
	}
}
