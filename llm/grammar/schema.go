package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// JSONSchema returns the grammar of JSON texts that are valid under a schema.
//
// The texts are compact, with at most one space after a colon or comma; the properties of an object come in the order of
// the schema, and properties that the schema does not name are not produced. Supported are: type (also a list), enum,
// const, properties, required, additionalProperties, items, minItems, maxItems, minLength, maxLength, minimum, maximum,
// exclusiveMinimum and exclusiveMaximum of integers, anyOf, allOf of one schema, $ref within the schema, and true.
// Annotations are ignored. Every other keyword is refused by name. Numbers have at most 18 digits before and 17 after the
// decimal point.
func JSONSchema(v *Vocab, schema []byte) (*Grammar, error) {
	if len(schema) > maxSchema {
		return nil, fmt.Errorf("grammar: the schema has %d bytes; at most %d are supported", len(schema), maxSchema)
	}
	root, err := parseSchema(schema)
	if err != nil {
		return nil, fmt.Errorf("grammar: schema: %w", err)
	}
	c := &schemaCompiler{root: root, rules: map[*jsonValue]int32{}}
	rule := c.ref(root, "#")
	start := c.b.call(rule, c.b.ret())
	if err := c.finish(); err != nil {
		return nil, fmt.Errorf("grammar: schema: %w", err)
	}
	return newGrammar(v, newMachine(c.b.prog, start)), nil
}

const (
	maxSchema   = 64 << 10
	maxProgram  = 1 << 16 // instructions
	maxRepeat   = 4096    // of characters and array items with a bound
	maxNesting  = 64      // of the schema text
	maxInteger  = 999_999_999_999_999_999
	maxFraction = 17
)

// jsonValue is a parsed JSON value that keeps the order of members.
type jsonValue struct {
	kind    string // object, array, string, number, boolean, null
	members []member
	items   []*jsonValue
	text    string // of a string, unquoted, or of a number
	truth   bool
}

type member struct {
	name  string
	value *jsonValue
}

func (v *jsonValue) member(name string) *jsonValue {
	for _, m := range v.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

func parseSchema(data []byte) (*jsonValue, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := parseValue(d, 0)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.New("unexpected end of the JSON")
	}
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("text after the end of the schema")
	}
	return v, nil
}

func parseValue(d *json.Decoder, depth int) (*jsonValue, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("nested more than %d deep", maxNesting)
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case string:
		return &jsonValue{kind: "string", text: t}, nil
	case json.Number:
		return &jsonValue{kind: "number", text: t.String()}, nil
	case bool:
		return &jsonValue{kind: "boolean", truth: t}, nil
	case nil:
		return &jsonValue{kind: "null"}, nil
	}
	v := &jsonValue{kind: "array"}
	if token == json.Delim('{') {
		v.kind = "object"
	}
	for d.More() {
		name := ""
		if v.kind == "object" {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name = key.(string) // the decoder admits nothing else
			if v.member(name) != nil {
				return nil, fmt.Errorf("member %q occurs twice", name)
			}
		}
		x, err := parseValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		if v.kind == "object" {
			v.members = append(v.members, member{name, x})
		} else {
			v.items = append(v.items, x)
		}
	}
	_, err = d.Token() // the closing bracket
	return v, err
}

// encode returns the compact text of a value.
func (v *jsonValue) encode() string {
	var parts []string
	switch v.kind {
	case "object":
		for _, m := range v.members {
			parts = append(parts, quoteJSON(m.name)+":"+m.value.encode())
		}
		return "{" + strings.Join(parts, ",") + "}"
	case "array":
		for _, x := range v.items {
			parts = append(parts, x.encode())
		}
		return "[" + strings.Join(parts, ",") + "]"
	case "string":
		return quoteJSON(v.text)
	case "number":
		return v.text
	case "boolean":
		return strconv.FormatBool(v.truth)
	}
	return "null"
}

func quoteJSON(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string in a buffer cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

// schemaCompiler turns schemas into rules. Methods record the first error and go on with something harmless.
type schemaCompiler struct {
	b       builder
	root    *jsonValue
	rules   map[*jsonValue]int32
	pending []pendingRule // rules to be compiled, so that recursion ends
	direct  map[*jsonValue][]*jsonValue
	generic int32 // rule of any value, once used
	str     int32 // rule of a character, once used
	err     error
}

type pendingRule struct {
	schema *jsonValue
	rule   int32
	path   string
}

func (c *schemaCompiler) fail(path, format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...))
	}
}

// ref returns the rule of a schema.
func (c *schemaCompiler) ref(s *jsonValue, path string) int32 {
	if rule, ok := c.rules[s]; ok {
		return rule
	}
	rule := c.b.rule()
	c.rules[s] = rule
	c.pending = append(c.pending, pendingRule{s, rule, path})
	return rule
}

// finish compiles all rules.
func (c *schemaCompiler) finish() error {
	for len(c.pending) > 0 && c.err == nil {
		p := c.pending[0]
		c.pending = c.pending[1:]
		c.b.define(p.rule, c.schema(p.schema, p.path))
		if len(c.b.prog) > maxProgram {
			c.fail(p.path, "the schema is too large: lower its bounds on lengths")
		}
	}
	if c.err == nil {
		c.circular(c.root)
	}
	return c.err
}

// keywords that constrain, by the type they apply to ("" = any), and those that only annotate.
var (
	keywords = map[string]string{
		"type": "", "enum": "", "const": "", "anyOf": "", "allOf": "", "$ref": "", "$defs": "", "definitions": "",
		"properties": "object", "required": "object", "additionalProperties": "object",
		"items": "array", "minItems": "array", "maxItems": "array", "minLength": "string", "maxLength": "string",
		"minimum": "integer", "maximum": "integer", "exclusiveMinimum": "integer", "exclusiveMaximum": "integer",
	}
	annotations = []string{"$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)

// schema compiles one schema; the result returns after the value.
func (c *schemaCompiler) schema(s *jsonValue, path string) int32 {
	end := c.b.ret()
	switch {
	case s.kind == "boolean" && s.truth:
		return c.b.call(c.anyValue(), end)
	case s.kind != "object":
		c.fail(path, "a schema must be an object or true")
		return end
	}
	for _, m := range s.members {
		if _, ok := keywords[m.name]; !ok && !slices.Contains(annotations, m.name) {
			c.fail(path, "the keyword %q is not supported", m.name)
			return end
		}
	}
	if r := s.member("$ref"); r != nil {
		return c.alone(s, path, "$ref", func() int32 {
			target, at := c.resolve(r, path)
			c.refer(s, target)
			return c.b.call(c.ref(target, at), end)
		})
	}
	for _, name := range []string{"anyOf", "allOf"} {
		list := s.member(name)
		if list == nil {
			continue
		}
		return c.alone(s, path, name, func() int32 {
			if list.kind != "array" || len(list.items) == 0 || (name == "allOf" && len(list.items) > 1) {
				c.fail(path, "%s must be a list of schemas (allOf of one)", name)
				return end
			}
			var ways []int32
			for i, x := range list.items {
				c.refer(s, x)
				ways = append(ways, c.b.call(c.ref(x, fmt.Sprintf("%s/%s/%d", path, name, i)), end))
			}
			return c.b.either(ways...)
		})
	}
	return c.typed(s, path, end)
}

// alone refuses other constraints beside a keyword that stands for a whole schema.
func (c *schemaCompiler) alone(s *jsonValue, path, name string, compile func() int32) int32 {
	for _, m := range s.members {
		if m.name != name && m.name != "$defs" && m.name != "definitions" && !slices.Contains(annotations, m.name) {
			c.fail(path, "%q beside %q is not supported", m.name, name)
		}
	}
	return compile()
}

// resolve follows a reference within the schema.
func (c *schemaCompiler) resolve(r *jsonValue, path string) (*jsonValue, string) {
	target := c.root
	rest, ok := strings.CutPrefix(r.text, "#")
	if r.kind != "string" || !ok {
		c.fail(path, "only references within the schema are supported, not %s", r.encode())
		return c.root, path
	}
	for _, name := range strings.Split(rest, "/")[1:] {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		next := target.member(name)
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(target.items) {
			next = target.items[i]
		}
		if target = next; target == nil {
			c.fail(path, "the reference %q leads nowhere", r.text)
			return c.root, path
		}
	}
	return target, r.text
}

// refer notes that a text of from begins with a text of to: a circle of these has no finite text.
func (c *schemaCompiler) refer(from, to *jsonValue) {
	if c.direct == nil {
		c.direct = map[*jsonValue][]*jsonValue{}
	}
	c.direct[from] = append(c.direct[from], to)
}

// circular refuses schemas without a finite value: references that lead back to themselves, and required members that do.
func (c *schemaCompiler) circular(root *jsonValue) {
	finite := map[*jsonValue]bool{}
	for changed := true; changed; {
		changed = false
		for s := range c.rules {
			if !finite[s] && c.isFinite(s, finite) {
				finite[s], changed = true, true
			}
		}
	}
	seen := map[*jsonValue]int{}
	var visit func(s *jsonValue)
	visit = func(s *jsonValue) {
		seen[s] = 1
		for _, next := range c.direct[s] {
			switch seen[next] {
			case 0:
				visit(next)
			case 1:
				c.fail("#", "a reference leads back to itself")
			}
		}
		seen[s] = 2
	}
	for s := range c.rules {
		if seen[s] == 0 {
			visit(s)
		}
		if !finite[s] {
			c.fail("#", "a value of the schema would never end: a required member or item contains itself")
		}
	}
}

// isFinite reports whether s has a value built from schemas that are known to have one.
func (c *schemaCompiler) isFinite(s *jsonValue, finite map[*jsonValue]bool) bool {
	if s.kind != "object" {
		return true
	}
	if next := c.direct[s]; next != nil {
		return slices.ContainsFunc(next, func(x *jsonValue) bool { return finite[x] })
	}
	if s.member("enum") != nil || s.member("const") != nil || slices.ContainsFunc(types(s), func(t string) bool { return t != "object" && t != "array" }) {
		return true
	}
	for _, t := range types(s) {
		ok := true
		if t == "object" {
			for _, name := range names(s.member("required")) {
				p := s.member("properties")
				ok = ok && (p == nil || p.member(name) == nil || finite[p.member(name)])
			}
		} else if n, _ := count(s.member("minItems")); n > 0 && s.member("items") != nil {
			ok = finite[s.member("items")]
		}
		if ok {
			return true
		}
	}
	return false
}

// types returns the types that a schema admits.
func types(s *jsonValue) []string {
	t := s.member("type")
	switch {
	case t == nil:
		return []string{"object", "array", "string", "number", "boolean", "null"}
	case t.kind == "string":
		return []string{t.text}
	}
	return names(t)
}

// names returns the strings of a list.
func names(v *jsonValue) (out []string) {
	if v != nil {
		for _, x := range v.items {
			out = append(out, x.text)
		}
	}
	return out
}

// count reads a bound; ok is false when it is no natural number.
func count(v *jsonValue) (n int, ok bool) {
	if v == nil {
		return 0, true
	}
	n, err := strconv.Atoi(v.text)
	return n, err == nil && v.kind == "number" && n >= 0
}

// limits reads two bounds; most is -1 when there is none.
func (c *schemaCompiler) limits(s *jsonValue, path, least, most string) (lo, hi int) {
	lo, ok := count(s.member(least))
	hi, also := count(s.member(most))
	if s.member(most) == nil {
		hi = -1
	}
	if !ok || !also || lo > maxRepeat || hi > maxRepeat || (hi >= 0 && lo > hi) {
		c.fail(path, "%s and %s must be numbers from 0 to %d, the first not above the second", least, most, maxRepeat)
		return 0, 0
	}
	return lo, hi
}

// integerRange reads the bounds of an integer.
func (c *schemaCompiler) integerRange(s *jsonValue, path string) (lo, hi int64) {
	lo, hi = -maxInteger, maxInteger
	for _, m := range s.members {
		if keywords[m.name] != "integer" {
			continue
		}
		n, err := strconv.ParseFloat(m.value.text, 64)
		if err != nil || m.value.kind != "number" || n != math.Trunc(n) || math.Abs(n) > 1<<53 {
			c.fail(path, "%s must be a whole number of at most 53 bits", m.name)
			return 0, 0
		}
		switch m.name {
		case "minimum":
			lo = max(lo, int64(n))
		case "exclusiveMinimum":
			lo = max(lo, int64(n)+1)
		case "maximum":
			hi = min(hi, int64(n))
		case "exclusiveMaximum":
			hi = min(hi, int64(n)-1)
		}
	}
	if lo > hi {
		c.fail(path, "no integer is within the bounds")
		return 0, 0
	}
	return lo, hi
}
