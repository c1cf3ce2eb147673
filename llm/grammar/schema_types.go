package grammar

import (
	"slices"
	"strings"
)

// typed compiles a schema that is described by type, enum and const.
func (c *schemaCompiler) typed(s *jsonValue, path string, end int32) int32 {
	admitted := types(s)
	known := []string{"object", "array", "string", "number", "integer", "boolean", "null"}
	if len(admitted) == 0 || slices.ContainsFunc(admitted, func(t string) bool { return !slices.Contains(known, t) }) {
		c.fail(path, "type must be one or some of %s", strings.Join(known, ", "))
		return end
	}
	for _, m := range s.members { // a constraint without its type is silently without effect elsewhere; here it is a mistake
		if t := keywords[m.name]; t != "" && (s.member("type") == nil || !slices.Contains(admitted, t)) {
			c.fail(path, "%q needs the type %s", m.name, t)
			return end
		}
	}
	values := s.member("enum")
	if constant := s.member("const"); constant != nil {
		values = &jsonValue{kind: "array", items: []*jsonValue{constant}}
	}
	var ways []int32
	if values != nil {
		for _, v := range values.items {
			if v.is(admitted) {
				ways = append(ways, c.b.literal(v.encode(), end))
			}
		}
		if len(ways) == 0 {
			c.fail(path, "no value of enum or const has the type")
			return end
		}
		return c.b.either(ways...)
	}
	if s.member("type") == nil {
		return c.b.call(c.anyValue(), end)
	}
	for _, t := range admitted {
		ways = append(ways, c.ofType(t, s, path, end))
	}
	return c.b.either(ways...)
}

// is reports whether v has one of the types.
func (v *jsonValue) is(types []string) bool {
	return slices.Contains(types, v.kind) ||
		(v.kind == "number" && slices.Contains(types, "integer") && !strings.ContainsAny(v.text, ".eE"))
}

func (c *schemaCompiler) ofType(t string, s *jsonValue, path string, end int32) int32 {
	switch t {
	case "object":
		return c.object(s, path, end)
	case "array":
		return c.array(s, path, end)
	case "string":
		least, most := c.limits(s, path, "minLength", "maxLength")
		return c.string(least, most, end)
	case "integer":
		lo, hi := c.integerRange(s, path)
		return c.b.integer(lo, hi, end)
	case "number":
		return c.number(end)
	case "boolean":
		return c.b.either(c.b.literal("true", end), c.b.literal("false", end))
	}
	return c.b.literal("null", end)
}

// separator matches a comma or colon and perhaps a space.
func (c *schemaCompiler) separator(text string, next int32) int32 {
	return c.b.literal(text, c.b.either(next, c.b.literal(" ", next)))
}

func (c *schemaCompiler) object(s *jsonValue, path string, end int32) int32 {
	properties, required := s.member("properties"), names(s.member("required"))
	closing := c.b.literal("}", end)
	if properties == nil {
		if len(required) > 0 {
			c.fail(path, "required names members that properties does not describe")
		}
		return c.dictionary(s.member("additionalProperties"), path, closing)
	}
	for _, name := range required {
		if properties.member(name) == nil {
			c.fail(path, "the required member %q is not in properties", name)
		}
	}
	// From the last member to the first, with and without a member before it.
	first, later := closing, closing
	for i := len(properties.members) - 1; i >= 0; i-- {
		p := properties.members[i]
		rule := c.ref(p.value, path+"/properties/"+p.name)
		entry := c.b.literal(quoteJSON(p.name), c.separator(":", c.b.call(rule, later)))
		withComma := c.separator(",", entry)
		if slices.Contains(required, p.name) {
			first, later = entry, withComma
		} else {
			first, later = c.b.either(entry, first), c.b.either(withComma, later)
		}
	}
	return c.b.literal("{", first)
}

// dictionary matches an object with any names; values nil or true: any values, false: no member.
func (c *schemaCompiler) dictionary(values *jsonValue, path string, closing int32) int32 {
	var rule int32
	switch {
	case values != nil && values.kind == "boolean" && !values.truth:
		return c.b.literal("{", closing)
	case values == nil || values.kind == "boolean":
		rule = c.anyValue()
	default:
		rule = c.ref(values, path+"/additionalProperties")
	}
	entry := func(next int32) int32 {
		return c.string(0, -1, c.separator(":", c.b.call(rule, next)))
	}
	return c.b.literal("{", c.list(entry, 0, -1, closing))
}

func (c *schemaCompiler) array(s *jsonValue, path string, end int32) int32 {
	least, most := c.limits(s, path, "minItems", "maxItems")
	rule := int32(0)
	if items := s.member("items"); items != nil {
		rule = c.ref(items, path+"/items")
	} else {
		rule = c.anyValue()
	}
	item := func(next int32) int32 { return c.b.call(rule, next) }
	return c.b.literal("[", c.list(item, least, most, c.b.literal("]", end)))
}

// list matches least to most entries with commas between them; most < 0: any number.
func (c *schemaCompiler) list(entry func(next int32) int32, least, most int, end int32) int32 {
	if most == 0 {
		return end
	}
	more := func(next int32) int32 { return c.separator(",", entry(next)) }
	rest := c.b.repeat(more, max(least-1, 0), max(most-1, -1), end)
	if least > 0 {
		return entry(rest)
	}
	return c.b.either(end, entry(rest))
}

// string matches a string of least to most characters; most < 0: any number.
func (c *schemaCompiler) string(least, most int, end int32) int32 {
	if c.str == 0 {
		c.str = c.b.rule()
		c.b.define(c.str, c.character(c.b.ret()))
	}
	one := func(next int32) int32 { return c.b.call(c.str, next) }
	return c.b.literal(`"`, c.b.repeat(one, least, most, c.b.literal(`"`, end)))
}

// character matches a character of a string: itself, or an escape that stands for one.
func (c *schemaCompiler) character(end int32) int32 {
	b := &c.b
	hex := func(next int32) int32 { return b.bytes("09afAF", next) }
	two := hex(hex(end))
	code := b.either(b.bytes("09acAC", hex(two)), b.bytes("efEF", hex(two)), b.bytes("ddDD", b.bytes("07", two))) // no surrogates
	escape := b.either(b.bytes(`""\\//bbffnnrrtt`, end), b.literal("u", code))
	return b.either(b.rune(' ', '!', end), b.rune('#', '[', end), b.rune(']', 0x10ffff, end), b.literal(`\`, escape))
}

func (c *schemaCompiler) number(end int32) int32 {
	b := &c.b
	digit := func(next int32) int32 { return b.bytes("09", next) }
	exponent := b.bytes("eeEE", b.either(b.repeat(digit, 1, 2, end), b.bytes("++--", b.repeat(digit, 1, 2, end))))
	afterFraction := b.either(end, exponent)
	fraction := b.literal(".", b.repeat(digit, 1, maxFraction, afterFraction))
	afterInteger := b.either(end, fraction, exponent)
	natural := b.either(b.literal("0", afterInteger), b.bytes("19", b.repeat(digit, 0, 17, afterInteger)))
	return b.either(natural, b.literal("-", natural))
}

// anyValue returns the rule of any JSON value.
func (c *schemaCompiler) anyValue() int32 {
	if c.generic == 0 {
		c.generic = c.b.rule()
		any := &jsonValue{kind: "object"}
		end := c.b.ret()
		ways := []int32{c.dictionary(nil, "", c.b.literal("}", end))}
		for _, t := range []string{"array", "string", "number", "boolean", "null"} {
			ways = append(ways, c.ofType(t, any, "", end))
		}
		c.b.define(c.generic, c.b.either(ways...))
	}
	return c.generic
}
