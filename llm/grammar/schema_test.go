package grammar

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func schema(t testing.TB, text string) *Grammar {
	g, err := JSONSchema(testVocab(), []byte(text))
	require.NoError(t, err, text)
	return g
}

func TestJSONSchema(t *testing.T) {
	for text, tc := range map[string]struct{ good, bad []string }{
		`{"type":"object","properties":{"answer":{"type":"string"},"sources":{"type":"array","items":{"type":"integer","minimum":1,"maximum":12}},"sure":{"type":"boolean"}},"required":["answer","sources"]}`: {
			[]string{`{"answer":"yes","sources":[1, 12],"sure":true}`, `{"answer": "", "sources": []}`, `{"answer":"日本 \"x\" \n\u00e9","sources":[5]}`},
			[]string{`{}`, `{"answer":"yes"}`, `{"sources":[],"answer":""}`, `{"answer":"yes","sources":[13]}`, `{"answer":"yes","sources":[0]}`, `{"answer":"yes","sources":[01]}`,
				`{"answer":"yes","sources":[1,]}`, `{"answer":1,"sources":[]}`, `{"answer":"a` + "\n" + `","sources":[]}`, `{"answer":"\x","sources":[]}`, `{"answer":"\ud800","sources":[]}`, `{"answer":"yes","sources":[],"more":1}`, `{"answer":"yes","sources":[]} `},
		},
		`{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"required":["b"]}`: {
			[]string{`{"b":null}`, `{"a":null,"b":null}`, `{"b":null,"c":null}`, `{"a":null,"b":null,"c":null}`}, []string{`{}`, `{"a":null}`, `{"a":null,"c":null}`, `{,"b":null}`, `{"b":null,}`},
		},
		`{"enum":["a","ab",1,null,{"x":[1,"é<"]}]}`:                                        {[]string{`"a"`, `"ab"`, `1`, `null`, `{"x":[1,"é<"]}`}, []string{`"abc"`, `2`, `{"x":[1]}`, ``}},
		`{"const":"fixed"}`:                                                                {[]string{`"fixed"`}, []string{`fixed`, `"fixe"`}},
		`{"type":"string","enum":["a",1]}`:                                                 {[]string{`"a"`}, []string{`1`}},
		`{"type":["integer","null"]}`:                                                      {[]string{`0`, `-5`, `123456789012345678`, `null`}, []string{`1.5`, `1234567890123456789`, `+1`, `"1"`}},
		`{"type":"number"}`:                                                                {[]string{`0`, `-0.5`, `1e5`, `1.25E-10`, `12`}, []string{`.5`, `1.`, `01`, `1e`, `--1`, `NaN`}},
		`{"type":"string","minLength":2,"maxLength":3}`:                                    {[]string{`"ab"`, `"日本語"`, `"\n\u00e9"`}, []string{`"a"`, `"abcd"`, `""`}},
		`{"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":2}`:            {[]string{`[true]`, `[true,false]`}, []string{`[]`, `[true,true,true]`, `[1]`}},
		`{"type":"array","maxItems":0}`:                                                    {[]string{`[]`}, []string{`[1]`}},
		`{"type":"array","minItems":2,"items":{"const":1}}`:                                {[]string{`[1,1]`, `[1,1,1,1]`}, []string{`[1]`, `[]`}},
		`{"anyOf":[{"type":"integer"},{"type":"object","properties":{"n":{"$ref":"#"}}}]}`: {[]string{`1`, `{}`, `{"n":{"n":5}}`}, []string{`{"n":null}`, `{"n":{"n":5}`}},
		`{"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"required":["v"]}}}`: {
			[]string{`{"v":1}`, `{"v":1,"kids":[{"v":2,"kids":[]},{"v":3}]}`}, []string{`{"v":1,"kids":[{}]}`, `{"v":1,"kids":[{"v":2]}`},
		},
		`true`: {[]string{`{"a":[1,{"b":null}],"c":"d"}`, `"x"`, `[[[]]]`, `-1.5e3`}, []string{`{a:1}`, `[1,]`, `tru`, `{"a" :1}`}},
		`{"type":"object","additionalProperties":{"type":"integer"}}`:                           {[]string{`{}`, `{"x":1, "y": 2}`}, []string{`{"x":"1"}`}},
		`{"type":"object","additionalProperties":false}`:                                        {[]string{`{}`}, []string{`{"x":1}`}},
		`{"allOf":[{"type":"integer","exclusiveMinimum":-3,"exclusiveMaximum":2}],"title":"t"}`: {[]string{`-2`, `0`, `1`}, []string{`-3`, `2`, `-0`}},
	} {
		g := schema(t, text)
		for _, x := range tc.good {
			require.True(t, accepts(g, x), "%s: %s", text, x)
			require.True(t, json.Valid([]byte(x)))
		}
		for _, x := range tc.bad {
			require.False(t, accepts(g, x), "%s: %s", text, x)
		}
	}
}

func TestJSONSchemaRefusals(t *testing.T) {
	for text, message := range map[string]string{
		``: "unexpected end", `{`: "unexpected end", `5`: "must be an object", `false`: "must be an object", `{} {}`: "after the end", `{"type":"string","type":"null"}`: "twice",
		`{"type":"text"}`: "type must be", `{"type":[]}`: "type must be", `{"type":"string","pattern":"a*"}`: `"pattern" is not supported`, `{"oneOf":[true]}`: `"oneOf"`,
		`{"type":"string","format":"date"}`: `"format"`, `{"type":"number","minimum":3}`: "needs the type integer", `{"minLength":3}`: "needs the type string",
		`{"type":"string","minLength":3,"maxLength":2}`: "not above", `{"type":"string","maxLength":100000}`: "from 0 to", `{"type":"string","maxLength":-1}`: "from 0 to",
		`{"type":"integer","minimum":3,"maximum":2}`: "no integer", `{"type":"integer","minimum":2.5}`: "whole number", `{"type":"integer","maximum":1e300}`: "whole number",
		`{"enum":[]}`: "no value", `{"type":"integer","enum":["a"]}`: "no value", `{"anyOf":[]}`: "list of schemas", `{"allOf":[true,true]}`: "allOf of one",
		`{"anyOf":[true],"type":"null"}`: "beside", `{"$ref":"#/nowhere"}`: "leads nowhere", `{"$ref":"http://example.org/x"}`: "within the schema",
		`{"$ref":"#"}`: "itself", `{"anyOf":[{"$ref":"#"}]}`: "itself", `{"type":"object","properties":{"x":{"$ref":"#"}},"required":["x"]}`: "never end",
		`{"type":"array","items":{"$ref":"#"},"minItems":1}`: "never end", `{"type":"object","required":["x"]}`: "required", `{"type":"object","properties":{"y":true},"required":["x"]}`: "required member",
		`{"type":"array","items":{"type":"array","items":{"type":"string","maxLength":4000},"maxItems":4000},"maxItems":4000}`: "",
		strings.Repeat(`{"allOf":[`, 100) + "true" + strings.Repeat("]}", 100):                                                 "nested", `{"title":"` + strings.Repeat("x", maxSchema) + `"}`: "at most",
	} {
		_, err := JSONSchema(testVocab(), []byte(text))
		if message == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, message, text)
	}
}

// Random generations parse, have only the members of the schema, and respect every bound.
func TestJSONSchemaFromRandomLogits(t *testing.T) {
	type claim struct {
		Text   string `json:"text"`
		Source *int   `json:"source,omitempty"`
	}
	type reply struct {
		Claims  []claim  `json:"claims"`
		Verdict string   `json:"verdict"`
		Score   *float64 `json:"score,omitempty"`
	}
	g := schema(t, `{"type":"object","properties":{
		"claims":{"type":"array","maxItems":3,"items":{"type":"object","properties":{"text":{"type":"string","maxLength":30},"source":{"type":"integer","minimum":1,"maximum":25}},"required":["text"]}},
		"verdict":{"enum":["yes","no","nope"]},
		"score":{"type":"number"}},"required":["claims","verdict"]}`)
	rng := rand.New(rand.NewPCG(5, 5))
	for range 100 {
		text, complete := generate(rng, g, 0, 3000)
		require.True(t, complete, "%q", text)
		var r reply
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(&r), "%q", text)
		require.LessOrEqual(t, len(r.Claims), 3)
		require.Contains(t, []string{"yes", "no", "nope"}, r.Verdict)
		for _, c := range r.Claims {
			require.LessOrEqual(t, utf8.RuneCountInString(c.Text), 30)
			require.True(t, c.Source == nil || (*c.Source >= 1 && *c.Source <= 25))
		}
	}
	anything := schema(t, `true`)
	for range 100 {
		text, _ := generate(rng, anything, 0, 60)
		m := anything.Matcher()
		for _, b := range []byte(text) {
			require.NoError(t, m.Accept(firstByte+Token(b)))
		}
		require.Equal(t, json.Valid([]byte(text)), m.Complete(), "%q", text)
	}
}

func TestSchemaMaskEqualsAccept(t *testing.T) {
	g := schema(t, `{"type":"object","properties":{"a":{"type":"string","maxLength":5},"b":{"type":"array","items":{"type":"number"}},"c":true},"required":["b"]}`)
	rng := rand.New(rand.NewPCG(2, 3))
	for range 15 {
		m := g.Matcher()
		for range 25 {
			requireMask(t, m)
			mask := m.Mask()
			id := Token(rng.IntN(g.vocab.Size()))
			for !isSet(mask, id) {
				id = Token(rng.IntN(g.vocab.Size()))
			}
			if id == endToken {
				break
			}
			require.NoError(t, m.Accept(id))
		}
	}
}

// accept runs a program over text.
func accept(b *builder, start int32, text string) bool {
	m := newMachine(b.prog, start)
	s, ok := m.start(), true
	for i := 0; i < len(text) && ok; i++ {
		s, ok = m.step(s, text[i])
	}
	return ok && m.accepting(s)
}

func TestIntegerRanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	for range 60 {
		lo := rng.Int64N(2500) - 1200
		hi := lo + rng.Int64N(1500)
		var b builder
		start := b.integer(lo, hi, b.ret())
		for n := int64(-1300); n <= 3000; n += 1 + rng.Int64N(3) {
			require.Equal(t, n >= lo && n <= hi, accept(&b, start, strconv.FormatInt(n, 10)), "%d in [%d,%d]", n, lo, hi)
		}
		for _, bad := range []string{"", "-", "00", "01", "-01", "1a"} {
			require.False(t, accept(&b, start, bad))
		}
	}
}

func TestRuneRanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 9))
	edges := []rune{0, 0x7f, 0x80, 0x7ff, 0x800, 0xfff, 0x1000, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x3ffff, 0x40000, 0x10ffff}
	for range 40 {
		lo, hi := edges[rng.IntN(len(edges))], rune(rng.IntN(0x110000))
		if rng.IntN(2) == 0 {
			lo = rune(rng.IntN(0x110000))
		}
		if lo > hi {
			lo, hi = hi, lo
		}
		var b builder
		if lo >= 0xd800 && hi < 0xe000 {
			continue
		}
		start := b.rune(lo, hi, b.ret())
		probes := append([]rune{lo - 1, lo, lo + 1, hi - 1, hi, hi + 1}, edges...)
		for range 100 {
			probes = append(probes, rune(rng.IntN(0x110000)))
		}
		for _, r := range probes {
			if utf8.ValidRune(r) {
				require.Equal(t, r >= lo && r <= hi, accept(&b, start, string(r)), "%x in [%x,%x]", r, lo, hi)
			}
		}
		require.False(t, accept(&b, start, "\xed\xa0\x80"))
		require.False(t, accept(&b, start, "\xc0\x80"))
	}
}

// FuzzJSONSchema: a schema is refused or has a text, and the first that is found is JSON.
func FuzzJSONSchema(f *testing.F) {
	for _, s := range []string{
		`{"type":"object","properties":{"a":{"type":"string","maxLength":3}},"required":["a"]}`, `{"enum":[1,"a"]}`, `true`,
		`{"anyOf":[{"type":"integer","minimum":5},{"$ref":"#/$defs/x"}],"$defs":{"x":{"type":"array","minItems":2}}}`, `{"$ref":"#"}`,
	} {
		f.Add([]byte(s), uint64(1))
	}
	v := testVocab()
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		g, err := JSONSchema(v, text)
		if err != nil {
			return
		}
		out, complete := generate(rand.New(rand.NewPCG(seed, 1)), g, 0, 400)
		if complete {
			require.True(t, json.Valid([]byte(out)), "%s: %q", text, out)
		}
	})
}

func BenchmarkSchemaMask(b *testing.B) {
	g := schema(b, `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`)
	m := g.Matcher()
	for _, c := range []byte(`{"a":"it`) {
		_ = m.Accept(firstByte + Token(c))
	}
	b.Run(fmt.Sprint("string/", g.vocab.Size()), func(b *testing.B) {
		dst, states := make([]uint64, g.vocab.Words()), make([]state, g.vocab.depth+1)
		for b.Loop() {
			g.vocab.mask(g.auto, m.state, dst, states)
		}
	})
}
