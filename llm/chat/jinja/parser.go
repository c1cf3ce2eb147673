package jinja

import (
	"fmt"
	"slices"
	"strings"
)

// maxSource bounds the template: real ones have up to about 30 KB.
const maxSource = 1 << 20

// maxNesting bounds how deep tags and expressions nest, so that parsing cannot exhaust the stack.
const maxNesting = 200

// Template is a parsed template.
type Template struct {
	body []node
}

// Parse reads a template. Errors name the line: bad syntax, an unknown tag, filter or test.
func Parse(source string) (t *Template, err error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("jinja: a template of %d bytes is larger than the limit of %d", len(source), maxSource)
	}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*syntaxError)
			if !ok {
				panic(r)
			}
			t, err = nil, e
		}
	}()
	p := &parser{tokens: lex(source)}
	body := p.body()
	if p.peek().kind != endOfTemplate {
		p.fail("%s without its beginning", p.peekTag())
	}
	return &Template{body: body}, nil
}

type parser struct {
	tokens []token
	at     int
	depth  int
	loops  int // enclosing for bodies, for break and continue
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != endOfTemplate {
		p.at++
	}
	return t
}

func (p *parser) fail(format string, args ...any) {
	panic(&syntaxError{p.peek().line, fmt.Sprintf(format, args...)})
}

// enter counts a level of nesting; leave it with the returned function.
func (p *parser) enter() func() {
	p.depth++
	if p.depth > maxNesting {
		p.fail("nested more than %d deep", maxNesting)
	}
	return func() { p.depth-- }
}

func (p *parser) is(k kind, text string) bool { t := p.peek(); return t.kind == k && t.text == text }

func (p *parser) skip(k kind, text string) bool {
	if p.is(k, text) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(k kind, text string) {
	if !p.skip(k, text) {
		p.fail("expected %q, found %s", text, p.peek())
	}
}

func (p *parser) expectName() string {
	if p.peek().kind != name {
		p.fail("expected a name, found %s", p.peek())
	}
	return p.next().text
}

// peekTag returns the name of the tag that begins here.
func (p *parser) peekTag() string {
	if p.peek().kind == blockBegin && p.at+1 < len(p.tokens) && p.tokens[p.at+1].kind == name {
		return p.tokens[p.at+1].text
	}
	return ""
}

// inner are the tags that end a body or continue the statement around it.
var inner = []string{"elif", "else", "endif", "endfor", "endset", "endmacro", "endcall", "endfilter", "endwith", "endgeneration"}

// body parses up to a tag that belongs to the statement around it, or the end.
func (p *parser) body() (nodes []node) {
	defer p.enter()()
	for {
		switch t := p.peek(); t.kind {
		case endOfTemplate:
			return nodes
		case data:
			nodes = append(nodes, dataNode{p.next().text})
		case printBegin:
			p.next()
			e := p.tuple(true)
			p.expect(printEnd, "}}")
			nodes = append(nodes, printNode{t.line, e})
		case blockBegin:
			if slices.Contains(inner, p.peekTag()) {
				return nodes
			}
			p.next()
			nodes = append(nodes, p.statement()...)
		default:
			p.fail("unexpected %s", t)
		}
	}
}

// endTag passes {% tag %}.
func (p *parser) endTag(tag string) {
	if p.peekTag() != tag {
		p.fail("expected {%% %s %%}, found %s", tag, p.found())
	}
	p.at += 2
	p.expect(blockEnd, "%}")
}

func (p *parser) found() string {
	if tag := p.peekTag(); tag != "" {
		return "{% " + tag + " %}"
	}
	return p.peek().String()
}

func (p *parser) statement() []node {
	line := p.peek().line
	switch tag := p.expectName(); tag {
	case "if":
		return []node{p.ifTail(line)}
	case "for":
		return []node{p.forTag(line)}
	case "set":
		return []node{p.setTag(line)}
	case "macro":
		m := p.signature(&macroNode{line: line, name: p.expectName()})
		p.expect(blockEnd, "%}")
		m.body = p.detached()
		p.endMacro("endmacro")
		return []node{m}
	case "call":
		block := &macroNode{line: line, name: "caller"}
		if p.is(operator, "(") {
			p.signature(block)
		}
		call, ok := p.expression().(*callExpr)
		if !ok {
			p.fail("call needs a call of a macro")
		}
		p.expect(blockEnd, "%}")
		block.body = p.detached()
		p.endTag("endcall")
		return []node{callNode{line, call, block}}
	case "filter":
		f := p.filters(captured{}, true)
		p.expect(blockEnd, "%}")
		n := filterNode{line, f, p.body()}
		p.endTag("endfilter")
		return []node{n}
	case "with":
		return []node{p.withTag(line)}
	case "generation": // marks the assistant's tokens for training; rendering ignores it
		p.expect(blockEnd, "%}")
		body := p.body()
		p.endTag("endgeneration")
		return body
	case "break", "continue":
		if p.loops == 0 {
			p.fail("%s outside a for loop", tag)
		}
		p.expect(blockEnd, "%}")
		if tag == "break" {
			return []node{breakNode{}}
		}
		return []node{continueNode{}}
	default:
		p.at--
		p.fail("unknown tag %q; this subset of Jinja has if, for, set, macro, call, filter, with, raw, generation, break and continue", tag)
		return nil
	}
}

// detached parses the body of a macro, which is no part of the loops around it.
func (p *parser) detached() []node {
	loops := p.loops
	p.loops = 0
	body := p.body()
	p.loops = loops
	return body
}

// endMacro passes the end tag, which may repeat the name.
func (p *parser) endMacro(tag string) {
	if p.peekTag() == tag && p.at+2 < len(p.tokens) && p.tokens[p.at+2].kind == name {
		p.at += 3
		p.expect(blockEnd, "%}")
		return
	}
	p.endTag(tag)
}

// ifTail parses an if or elif after its name, up to endif.
func (p *parser) ifTail(line int) node {
	defer p.enter()()
	n := &ifNode{line: line, cond: p.tuple(false)}
	p.expect(blockEnd, "%}")
	n.then = p.body()
	switch p.peekTag() {
	case "elif":
		p.at += 2
		n.alt = []node{p.ifTail(p.peek().line)}
		return n
	case "else":
		p.endTag("else")
		n.alt = p.body()
	}
	p.endTag("endif")
	return n
}

func (p *parser) forTag(line int) node {
	n := &forNode{line: line, targets: p.targets()}
	p.expect(name, "in")
	n.iter = p.tuple(false)
	if p.skip(name, "if") {
		n.cond = p.expression()
	}
	if p.is(name, "recursive") {
		p.fail("recursive loops are not in this subset of Jinja")
	}
	p.expect(blockEnd, "%}")
	p.loops++
	n.body = p.body()
	p.loops--
	if p.peekTag() == "else" {
		p.endTag("else")
		n.alt = p.body()
	}
	p.endTag("endfor")
	return n
}

// targets parses the names that a value is assigned to: a, or a, b, or (a, b).
func (p *parser) targets() (names []string) {
	paren := p.skip(operator, "(")
	for {
		names = append(names, p.expectName())
		if !p.skip(operator, ",") {
			break
		}
	}
	if paren {
		p.expect(operator, ")")
	}
	return names
}

func (p *parser) setTag(line int) node {
	n := &setNode{line: line, targets: p.targets()}
	if len(n.targets) == 1 && p.skip(operator, ".") {
		n.attr = p.expectName()
	}
	if p.skip(operator, "=") {
		n.value = p.tuple(true)
		p.expect(blockEnd, "%}")
		return n
	}
	if len(n.targets) > 1 {
		p.fail("expected =, found %s", p.peek())
	}
	if p.is(operator, "|") {
		n.filter = p.filters(captured{}, false)
	}
	p.expect(blockEnd, "%}")
	n.body = p.body()
	p.endTag("endset")
	return n
}

// signature parses the parameters of a macro.
func (p *parser) signature(m *macroNode) *macroNode {
	p.expect(operator, "(")
	for !p.skip(operator, ")") {
		if len(m.params) > 0 {
			p.expect(operator, ",")
		}
		m.params = append(m.params, p.expectName())
		if p.skip(operator, "=") {
			m.defaults = append(m.defaults, p.expression())
		} else if len(m.defaults) > 0 {
			p.fail("a parameter without a default follows one with a default")
		}
	}
	return m
}

func (p *parser) withTag(line int) node {
	n := &withNode{line: line}
	for !p.is(blockEnd, "%}") {
		if len(n.names) > 0 {
			p.expect(operator, ",")
		}
		n.names = append(n.names, p.expectName())
		p.expect(operator, "=")
		n.values = append(n.values, p.expression())
	}
	p.expect(blockEnd, "%}")
	n.body = p.body()
	p.endTag("endwith")
	return n
}

// lookupFilter and lookupTest fail at parse time, as Jinja does, so that a template is refused before it is used.
func (p *parser) lookupFilter(name string) filter {
	f, ok := filters[name]
	if !ok {
		p.fail("unknown filter %q; known: %s", name, strings.Join(sortedKeys(filters), " "))
	}
	return f
}

func (p *parser) lookupTest(name string) test {
	f, ok := tests[name]
	if !ok {
		p.fail("unknown test %q; known: %s", name, strings.Join(sortedKeys(tests), " "))
	}
	return f
}
