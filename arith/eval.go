package arith

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// ErrExpression is returned for what is no expression; the text says where it ends to be one.
var ErrExpression = errors.New("arith: no expression")

const (
	maxExpression = 1000 // bytes
	maxDepth      = 50
	maxExponent   = 64
	maxBits       = 4096 // of a numerator or denominator
)

// Eval computes an expression of numbers, + - * / ^ (also × · ÷ − : as dividing), parentheses, a percent sign after a number, and the functions sum, avg,
// min, max and abs with arguments separated by semicolons or commas followed by a space.
func Eval(expression string) (*big.Rat, error) {
	if len(expression) > maxExpression {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrExpression, maxExpression)
	}
	p := &parser{text: strings.NewReplacer("×", "*", "·", "*", "÷", "/", "−", "-", "–", "-").Replace(expression)}
	value, err := p.sum(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.at < len(p.text) {
		return nil, p.fail("unexpected %q", p.text[p.at:])
	}
	return value, nil
}

type parser struct {
	text string
	at   int
}

func (p *parser) fail(format string, args ...any) error {
	return fmt.Errorf("%w: byte %d: %s", ErrExpression, p.at, fmt.Sprintf(format, args...))
}

func (p *parser) space() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t') {
		p.at++
	}
}

// take consumes one of the bytes of set, after space.
func (p *parser) take(set string) byte {
	p.space()
	if p.at < len(p.text) && strings.IndexByte(set, p.text[p.at]) >= 0 {
		p.at++
		return p.text[p.at-1]
	}
	return 0
}

func (p *parser) sum(depth int) (*big.Rat, error) {
	if depth > maxDepth {
		return nil, p.fail("nested too deeply")
	}
	left, err := p.product(depth)
	for err == nil {
		op := p.take("+-")
		if op == 0 {
			return left, nil
		}
		var right *big.Rat
		if right, err = p.product(depth); err == nil {
			left, err = p.apply(op, left, right)
		}
	}
	return nil, err
}

func (p *parser) product(depth int) (*big.Rat, error) {
	left, err := p.power(depth)
	for err == nil {
		op := p.take("*/:")
		if op == 0 {
			return left, nil
		}
		var right *big.Rat
		if right, err = p.power(depth); err == nil {
			left, err = p.apply(op, left, right)
		}
	}
	return nil, err
}

func (p *parser) power(depth int) (*big.Rat, error) {
	if p.take("-") != 0 {
		if depth > maxDepth {
			return nil, p.fail("nested too deeply")
		}
		v, err := p.power(depth + 1)
		if err != nil {
			return nil, err
		}
		return new(big.Rat).Neg(v), nil
	}
	base, err := p.operand(depth)
	if err != nil || p.take("^") == 0 {
		return base, err
	}
	exponent, err := p.power(depth + 1)
	if err != nil {
		return nil, err
	}
	return p.apply('^', base, exponent)
}

func (p *parser) apply(op byte, a, b *big.Rat) (*big.Rat, error) {
	v := new(big.Rat)
	switch op {
	case '+':
		v.Add(a, b)
	case '-':
		v.Sub(a, b)
	case '*':
		v.Mul(a, b)
	case '^':
		if !b.IsInt() || !b.Num().IsInt64() || b.Num().Int64() > maxExponent || b.Num().Int64() < -maxExponent {
			return nil, p.fail("an exponent must be a whole number from -%d to %d", maxExponent, maxExponent)
		}
		return p.raise(a, b.Num().Int64())
	default:
		if b.Sign() == 0 {
			return nil, p.fail("division by zero")
		}
		v.Quo(a, b)
	}
	return p.bounded(v)
}

func (p *parser) raise(a *big.Rat, n int64) (*big.Rat, error) {
	if n < 0 {
		if a.Sign() == 0 {
			return nil, p.fail("division by zero")
		}
		a, n = new(big.Rat).Inv(a), -n
	}
	v := new(big.Rat).SetInt64(1)
	for ; n > 0; n-- {
		var err error
		if v, err = p.bounded(v.Mul(v, a)); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (p *parser) bounded(v *big.Rat) (*big.Rat, error) {
	if v.Num().BitLen() > maxBits || v.Denom().BitLen() > maxBits {
		return nil, p.fail("the result is too large")
	}
	return v, nil
}

// operand is a number, a function or an expression in parentheses; a percent sign divides it by a hundred.
func (p *parser) operand(depth int) (*big.Rat, error) {
	p.space()
	var value *big.Rat
	var err error
	switch name := p.name(); {
	case name != "":
		value, err = p.function(name, depth)
	case p.take("(") != 0:
		if value, err = p.sum(depth + 1); err == nil && p.take(")") == 0 {
			err = p.fail("a parenthesis is not closed")
		}
	default:
		value, err = p.number()
	}
	if err == nil && p.take("%") != 0 {
		value = new(big.Rat).Quo(value, big.NewRat(100, 1))
	}
	return value, err
}

func (p *parser) name() string {
	end := p.at
	for end < len(p.text) && p.text[end] >= 'a' && p.text[end] <= 'z' {
		end++
	}
	name := p.text[p.at:end]
	p.at = end
	return name
}

func (p *parser) number() (*big.Rat, error) {
	at := digits.FindStringIndex(p.text[p.at:])
	if at == nil || at[0] != 0 {
		return nil, p.fail("a number is missing")
	}
	text := p.text[p.at : p.at+at[1]]
	if cut := strings.IndexByte(text, ' '); cut >= 0 { // "2 300" is two operands without an operator
		text = text[:cut]
	}
	value, ok := parse(text)
	if !ok {
		return nil, p.fail("%q is no number", text)
	}
	p.at += len(text)
	return p.bounded(value)
}

func (p *parser) function(name string, depth int) (*big.Rat, error) {
	if p.take("(") == 0 {
		return nil, p.fail("%q is no number; a function needs a parenthesis", name)
	}
	var values []*big.Rat
	for {
		v, err := p.sum(depth + 1)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
		if p.take(";,") == 0 {
			break
		}
	}
	if p.take(")") == 0 {
		return nil, p.fail("a parenthesis is not closed")
	}
	return p.call(name, values)
}

func (p *parser) call(name string, values []*big.Rat) (*big.Rat, error) {
	v := new(big.Rat).Set(values[0])
	for _, x := range values[1:] {
		switch name {
		case "sum", "avg":
			v.Add(v, x)
		case "min":
			if x.Cmp(v) < 0 {
				v.Set(x)
			}
		case "max":
			if x.Cmp(v) > 0 {
				v.Set(x)
			}
		}
	}
	switch name {
	case "avg":
		v.Quo(v, new(big.Rat).SetInt64(int64(len(values))))
	case "abs":
		v.Abs(v)
	case "sum", "min", "max":
	default:
		return nil, p.fail("there is no function %q", name)
	}
	return p.bounded(v)
}
