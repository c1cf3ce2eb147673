package answer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"ragd/arith"
	"ragd/llm"
	"ragd/llm/grammar"
	"ragd/retrieve"
)

// Computation is a calculation that the engine did with numbers of the sources. The model chose which; the result is exact.
type Computation struct {
	Expression string // "1500 * 12"
	Result     string
	Exact      bool // Result is not rounded
	Operands   []Operand
	Units      []string // in which Result can be meant; none when that is not known
}

// Operand is a number of a calculation with the place where it was read; Marker is 0 for one of the question.
type Operand struct {
	Text        string
	Marker      int
	Passage     retrieve.PassageID
	SourceStart int // bytes in the document's normalised text
	SourceEnd   int
	Units       []string // that the number has where it stands
}

// units are the words that say what a number counts, by the form in which they are compared. Codes of currencies are added.
var units = map[string]string{"%": "percent", "percent": "percent", "prozent": "percent", "year": "year", "jahr": "year", "jahre": "year", "month": "month", "monat": "month", "monate": "month",
	"week": "week", "woche": "week", "wochen": "week", "day": "day", "tag": "day", "tage": "day", "hour": "hour", "stunde": "hour", "stunden": "hour", "minute": "minute", "minuten": "minute",
	"second": "second", "km": "km", "kilometre": "km", "kilometer": "km", "mile": "mile", "m": "m", "metre": "m", "meter": "m", "kg": "kg", "gram": "g", "tonne": "tonne",
	"kb": "kb", "mb": "mb", "gb": "gb", "tb": "tb", "person": "person", "people": "person", "employee": "person", "€": "eur", "$": "usd", "£": "gbp"}

// currency is a code like NOK.
var currency = regexp.MustCompile(`^[A-Z]{3}$`)

// unitOf returns what the number at [start, end) of text counts: a unit among the three words after it, or a sign before it; "" when it says none.
func unitOf(text string, start, end int) string {
	if r, _ := utf8.DecodeLastRuneInString(strings.TrimRight(text[:start], " ")); units[string(r)] != "" && unicode.IsSymbol(r) {
		return units[string(r)]
	}
	rest, _, _ := strings.Cut(text[end:], "\n")
	if strings.HasPrefix(rest, "%") {
		return "percent"
	}
	for i, word := range strings.Fields(rest) {
		bare := strings.TrimRight(word, ".,;:!?)")
		lower := strings.ToLower(bare)
		switch u := cmp.Or(units[lower], units[strings.TrimSuffix(lower, "s")]); {
		case i > 2, strings.ContainsAny(word, "|("), len(arith.Find(word)) > 0:
			return ""
		case u != "":
			return u
		case currency.MatchString(bare):
			return strings.ToLower(bare)
		case bare != word: // the end of a clause
			return ""
		}
	}
	return ""
}

// sameUnit returns the units that all operands have which have any; false when there is none.
func sameUnit(operands []Operand) ([]string, bool) {
	var common []string
	known := false
	for _, o := range operands {
		switch {
		case len(o.Units) == 0:
		case !known:
			common, known = o.Units, true
		default:
			common = slices.DeleteFunc(slices.Clone(common), func(u string) bool { return !slices.Contains(o.Units, u) })
		}
	}
	return common, !known || len(common) > 0
}

// asksToCompute is what a question says that asks for more than a number that a document states.
var asksToCompute = regexp.MustCompile(`(?i)\b(in total|total (?:of|cost|number|amount)|altogether|combined|sum of|add(?:ed)? up|difference between|how (?:much|many) (?:more|less|fewer)|` +
	`average of|on average|what (?:percentage|percent|share)|\d+ ?(?:%|percent) of|times as|together|left over|remain(?:s|ing)?|insgesamt|zusammen|unterschied zwischen|wie viel mehr)\b`)

const (
	minOperands   = 2
	maxOperands   = 6
	maxCandidates = 48 // numbers that the model can choose from
	decimals      = 2  // of a result that does not end
)

const computeText = "\n\nWhich calculation with numbers from the documents gives the answer? Reply as JSON: the operation (add, subtract, multiply, divide, average, " +
	"percent_of, percent_change, or none when a document states the answer itself) and its operands in order."

// compute lets the model choose a calculation, does it, and adds the result to the question of p. Questions that ask for none cost nothing.
func (r *run) compute(ctx context.Context, p *prompt) error {
	if r.external() || !asksToCompute.MatchString(r.answer.Query) {
		return nil
	}
	operands := operandsOf(r.answer.Query, p.sources)
	if len(operands) < minOperands {
		return nil
	}
	g, err := grammar.JSONSchema(r.prompts.vocab, computeSchema(operands))
	if err != nil {
		return fmt.Errorf("answer: calculation: %w", err)
	}
	ask, err := r.prompts.ask(*p, r.q.Text+computeText)
	if err != nil {
		return err
	}
	text, err := r.complete(ctx, llm.Request{Prompt: ask.tokens, MaxTokens: 96, Grammar: g, Namespace: r.q.Namespace})
	if err != nil {
		return fmt.Errorf("answer: calculation: %w", err)
	}
	c, ok := computed(text, operands)
	if !ok {
		return nil
	}
	r.answer.Computed = append(r.answer.Computed, c)
	told, err := r.prompts.ask(*p, fmt.Sprintf("%s\n\nCalculated from the documents: %s = %s", r.q.Text, c.Expression, c.Result))
	if err != nil {
		return err
	}
	if told.size+r.q.MaxTokens <= r.prompts.context {
		*p = told
	}
	return nil
}

// complete returns the whole text of a generation.
func (r *run) complete(ctx context.Context, q llm.Request) (string, error) {
	stream, err := r.engine.Generate(ctx, q)
	if err != nil {
		return "", err
	}
	return stream.Text()
}

// operandsOf returns the numbers of the sources, in their order, and of the question, each value once.
func operandsOf(question string, sources []Source) []Operand {
	var all []Operand
	place := map[string]int{}
	add := func(text string, o Operand, at int) {
		for _, n := range arith.Find(text) {
			key := n.Value.RatString()
			i, seen := place[key]
			if !seen && len(all) < maxCandidates {
				i = len(all)
				place[key] = i
				o.Text, _ = arith.Format(n.Value, 6)
				if o.Marker > 0 {
					o.SourceStart, o.SourceEnd = at+n.Start, at+n.End
				}
				all = append(all, o)
			}
			if u := unitOf(text, n.Start, n.End); u != "" && i < len(all) && !slices.Contains(all[i].Units, u) && (seen || place[key] == i) {
				all[i].Units = append(all[i].Units, u)
			}
		}
	}
	add(question, Operand{}, 0)
	for i := range sources {
		p := &sources[i].Passage
		add(p.Text, Operand{Marker: sources[i].Marker, Passage: p.ID}, p.Start)
	}
	return all
}

// computeSchema admits only calculations with given numbers: an operand cannot be invented.
func computeSchema(operands []Operand) []byte {
	values := make([]string, len(operands))
	for i, o := range operands {
		values[i] = o.Text
	}
	schema, _ := json.Marshal(map[string]any{ // strings cannot fail
		"type": "object", "required": []string{"operation", "operands"}, "additionalProperties": false,
		"properties": map[string]any{
			"operation": map[string]any{"enum": []string{"add", "subtract", "multiply", "divide", "average", "percent_of", "percent_change", "none"}},
			"operands":  map[string]any{"type": "array", "items": map[string]any{"enum": values}, "minItems": minOperands, "maxItems": maxOperands},
		},
	})
	return schema
}

// computed does the calculation that a JSON text describes; false when it describes none that can be done.
func computed(text string, known []Operand) (Computation, bool) {
	var chosen struct {
		Operation string
		Operands  []string
	}
	if json.Unmarshal([]byte(text), &chosen) != nil || len(chosen.Operands) < minOperands {
		return Computation{}, false
	}
	c := Computation{}
	for _, v := range chosen.Operands {
		for _, o := range known {
			if o.Text == v {
				c.Operands = append(c.Operands, o)
				break
			}
		}
	}
	v, places := chosen.Operands, decimals
	switch chosen.Operation {
	case "add":
		c.Expression = strings.Join(v, " + ")
	case "subtract":
		c.Expression = strings.Join(v, " - ")
	case "multiply":
		c.Expression = strings.Join(v, " * ")
	case "divide":
		c.Expression = strings.Join(v, " / ")
	case "average":
		c.Expression = "avg(" + strings.Join(v, "; ") + ")"
	case "percent_of":
		c.Expression = fmt.Sprintf("%s / 100 * %s", v[0], v[1])
	case "percent_change":
		c.Expression = fmt.Sprintf("(%[2]s - %[1]s) / %[1]s * 100", v[0], v[1])
	default:
		return Computation{}, false
	}
	switch chosen.Operation {
	case "add", "subtract", "average": // days are not added to kroner
		var ok bool
		if c.Units, ok = sameUnit(c.Operands); !ok {
			return Computation{}, false
		}
	}
	value, err := arith.Eval(c.Expression)
	if err != nil || value.Num().BitLen() > 64 {
		return Computation{}, false
	}
	c.Result, c.Exact = arith.Format(value, places)
	return c, true
}
