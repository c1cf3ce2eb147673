package jinja

import (
	"maps"
	"slices"
	"strconv"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// tuple parses an expression or several with commas. ternary: `a if b else c` is one of them (it is not where an if may follow the tuple).
func (p *parser) tuple(ternary bool) expr {
	one := p.or
	if ternary {
		one = p.expression
	}
	first := one()
	if !p.is(operator, ",") {
		return first
	}
	items := []expr{first}
	for p.skip(operator, ",") {
		if p.tupleEnds() {
			break
		}
		items = append(items, one())
	}
	return &listExpr{items, true}
}

func (p *parser) tupleEnds() bool {
	t := p.peek()
	return t.kind == blockEnd || t.kind == printEnd || t.kind == operator && (t.text == ")" || t.text == "=")
}

// expression parses a full expression: x if c else y.
func (p *parser) expression() expr {
	defer p.enter()()
	x := p.or()
	for p.skip(name, "if") {
		c := &condExpr{cond: p.or(), then: x}
		if p.skip(name, "else") {
			c.alt = p.expression()
		}
		x = c
	}
	return x
}

func (p *parser) or() expr {
	x := p.and()
	for p.skip(name, "or") {
		x = &binaryExpr{"or", x, p.and()}
	}
	return x
}

func (p *parser) and() expr {
	x := p.not()
	for p.skip(name, "and") {
		x = &binaryExpr{"and", x, p.not()}
	}
	return x
}

func (p *parser) not() expr {
	if p.is(name, "not") {
		defer p.enter()()
		p.next()
		return &unaryExpr{"not", p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	first := p.sum()
	var c *compareExpr
	for {
		op := ""
		switch t := p.peek(); {
		case t.kind == operator && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, t.text):
			op = p.next().text
		case t.kind == name && t.text == "in":
			p.next()
			op = "in"
		case t.kind == name && t.text == "not" && p.tokens[p.at+1].kind == name && p.tokens[p.at+1].text == "in":
			p.at += 2
			op = "not in"
		default:
			if c == nil {
				return first
			}
			return c
		}
		if c == nil {
			c = &compareExpr{first: first}
		}
		c.ops = append(c.ops, op)
		c.rest = append(c.rest, p.sum())
	}
}

// binary parses a chain of left-associative operators.
func (p *parser) binary(operand func() expr, ops ...string) expr {
	x := operand()
	for p.peek().kind == operator && slices.Contains(ops, p.peek().text) {
		op := p.next().text
		x = &binaryExpr{op, x, operand()}
	}
	return x
}

func (p *parser) sum() expr     { return p.binary(p.joined, "+", "-") }
func (p *parser) joined() expr  { return p.binary(p.product, "~") }
func (p *parser) product() expr { return p.binary(p.power, "*", "/", "//", "%") }
func (p *parser) power() expr   { return p.binary(func() expr { return p.unary(true) }, "**") }

// unary parses a sign, or an operand with what follows it. withFilter: filters and tests bind to it; they bind looser than a sign.
func (p *parser) unary(withFilter bool) expr {
	defer p.enter()()
	var x expr
	if t := p.peek(); t.kind == operator && (t.text == "-" || t.text == "+") {
		p.next()
		x = &unaryExpr{t.text, p.unary(false)}
	} else {
		x = p.primary()
	}
	x = p.postfix(x)
	if withFilter {
		x = p.filtersAndTests(x)
	}
	return x
}

func (p *parser) primary() expr {
	t := p.next()
	switch t.kind {
	case name:
		switch t.text {
		case "true", "True":
			return constExpr{true}
		case "false", "False":
			return constExpr{false}
		case "none", "None":
			return constExpr{nil}
		}
		return nameExpr{t.text}
	case str:
		text := t.text
		for p.peek().kind == str {
			text += p.next().text
		}
		return constExpr{Trusted(text)}
	case integer:
		n, err := strconv.ParseInt(t.text, 10, 64)
		if err != nil {
			p.fail("the number %s is too large", t.text)
		}
		return constExpr{n}
	case float:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			p.fail("the number %s is too large", t.text)
		}
		return constExpr{f}
	case operator:
		switch t.text {
		case "(":
			if p.skip(operator, ")") {
				return &listExpr{nil, true}
			}
			x := p.tuple(true)
			p.expect(operator, ")")
			return x
		case "[":
			l := &listExpr{}
			for !p.skip(operator, "]") {
				if len(l.items) > 0 {
					p.expect(operator, ",")
					if p.skip(operator, "]") {
						break
					}
				}
				l.items = append(l.items, p.expression())
			}
			return l
		case "{":
			return p.dict()
		}
	}
	p.at--
	if t.kind == endOfTemplate {
		p.at = len(p.tokens) - 1
	}
	p.fail("expected an expression, found %s", t)
	return nil
}

func (p *parser) dict() expr {
	d := &dictExpr{}
	for !p.skip(operator, "}") {
		if len(d.keys) > 0 {
			p.expect(operator, ",")
			if p.skip(operator, "}") {
				break
			}
		}
		d.keys = append(d.keys, p.expression())
		p.expect(operator, ":")
		d.values = append(d.values, p.expression())
	}
	return d
}

// postfix parses .name, [key] and (args) after an operand.
func (p *parser) postfix(x expr) expr {
	for p.peek().kind == operator {
		switch p.peek().text {
		case ".":
			p.next()
			if p.peek().kind == integer {
				n, _ := strconv.ParseInt(p.next().text, 10, 64)
				x = &itemExpr{x, constExpr{n}}
			} else {
				x = &attrExpr{x, p.expectName()}
			}
		case "[":
			p.next()
			x = p.subscript(x)
		case "(":
			x = &callExpr{x, p.arguments()}
		default:
			return x
		}
	}
	return x
}

func (p *parser) subscript(x expr) expr {
	part := func() expr {
		if t := p.peek(); t.kind == operator && (t.text == ":" || t.text == "]") {
			return nil
		}
		return p.expression()
	}
	start := part()
	if !p.is(operator, ":") {
		if start == nil {
			p.fail("a subscript is empty")
		}
		p.expect(operator, "]")
		return &itemExpr{x, start}
	}
	s := &sliceExpr{x: x, start: start}
	p.next()
	s.stop = part()
	if p.skip(operator, ":") {
		s.step = part()
	}
	p.expect(operator, "]")
	return s
}

func (p *parser) arguments() (a argList) {
	p.expect(operator, "(")
	for first := true; !p.skip(operator, ")"); first = false {
		if !first {
			p.expect(operator, ",")
			if p.skip(operator, ")") {
				break
			}
		}
		switch t := p.peek(); {
		case p.skip(operator, "*"):
			a.star = p.expression()
		case p.skip(operator, "**"):
			a.stars = p.expression()
		case t.kind == name && p.tokens[p.at+1].kind == operator && p.tokens[p.at+1].text == "=":
			p.at += 2
			a.names = append(a.names, t.text)
			a.named = append(a.named, p.expression())
		default:
			if len(a.names) > 0 {
				p.fail("a positional argument follows a named one")
			}
			a.pos = append(a.pos, p.expression())
		}
	}
	return a
}

// filtersAndTests parses |filter, is test and calls of their results.
func (p *parser) filtersAndTests(x expr) expr {
	for {
		switch t := p.peek(); {
		case t.kind == operator && t.text == "|":
			x = p.filters(x, false)
		case t.kind == name && t.text == "is":
			p.next()
			x = p.test(x)
		case t.kind == operator && t.text == "(":
			x = &callExpr{x, p.arguments()}
		default:
			return x
		}
	}
}

// filters parses a chain of |name(args); bare: the first bar is left out.
func (p *parser) filters(x expr, bare bool) expr {
	for bare || p.is(operator, "|") {
		if !bare {
			p.next()
		}
		bare = false
		f := &filterExpr{x: x, name: p.expectName()}
		for p.skip(operator, ".") {
			f.name += "." + p.expectName()
		}
		p.at--
		f.fn = p.lookupFilter(f.name)
		p.at++
		if p.is(operator, "(") {
			f.args = p.arguments()
		}
		x = f
	}
	return x
}

func (p *parser) test(x expr) expr {
	t := &testExpr{x: x, negate: p.skip(name, "not")}
	t.name = p.expectName()
	p.at--
	t.fn = p.lookupTest(t.name)
	p.at++
	switch next := p.peek(); {
	case next.kind == operator && next.text == "(":
		t.args = p.arguments()
	case next.kind == name && !slices.Contains([]string{"else", "or", "and", "is", "in", "not", "if", "recursive"}, next.text),
		next.kind == str, next.kind == integer, next.kind == float,
		next.kind == operator && (next.text == "[" || next.text == "{"):
		t.args.pos = []expr{p.postfix(p.primary())}
	}
	return t
}
