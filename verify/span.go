package verify

import (
	"math/big"
	"regexp"

	"ragd/arith"
)

// span is what a label says of the numbers that it is about: "5 to 10 years".
type span struct {
	low, high         *big.Rat // nil: open
	unit              string
	aboveLow, belowHi bool // the bounds are not in it
}

var (
	upTo  = regexp.MustCompile(`(?i)^\W*(?:up to|until|at most|max(?:imum)?|(?:the )?first|bis(?: zu)?|höchstens|jusqu.à|hasta|fino a|opptil|inntil|tot)\b`)
	under = regexp.MustCompile(`(?i)^\W*(?:less than|under|below|fewer than|weniger als|unter|moins de|menos de|meno di|mindre enn|under|minder dan|<)`)
	over  = regexp.MustCompile(`(?i)^\W*(?:more than|over|above|mehr als|über|plus de|más de|oltre|più di|mer enn|over|meer dan|>)`)
	from  = regexp.MustCompile(`(?i)^\W*(?:from|at least|min(?:imum)?|ab|mindestens|à partir de|desde|fra|vanaf|≥)\s`)
	more  = regexp.MustCompile(`(?i)\+|\bor more\b|\band (?:more|above|over)\b|\bund mehr\b|\boder mehr\b|\bet plus\b|\by más\b|\bog mer\b`)
)

// spanOf reads a label as a span of numbers with a unit.
func spanOf(label string) (s span, ok bool) {
	label = brackets.ReplaceAllString(label, "")
	numbers := arith.Find(label)
	if len(numbers) == 0 || len(numbers) > 2 {
		return s, false
	}
	last := numbers[len(numbers)-1]
	if s.unit = unitAfter(label, last); s.unit == "" {
		return s, false
	}
	if len(numbers) == 2 {
		s.low, s.high = new(big.Rat).Abs(numbers[0].Value), new(big.Rat).Abs(last.Value)
		return s, s.low.Cmp(s.high) < 0
	}
	switch {
	case upTo.MatchString(label):
		s.high = last.Value
	case under.MatchString(label):
		s.high, s.belowHi = last.Value, true
	case over.MatchString(label):
		s.low, s.aboveLow = last.Value, true
	case from.MatchString(label), more.MatchString(label):
		s.low = last.Value
	default:
		return s, false
	}
	return s, true
}

// holds reports whether x is in the span; next to x, above it with side 1 and below it with side -1.
func (s span) holds(x *big.Rat, side int) bool {
	if s.low != nil {
		if at := x.Cmp(s.low); at < 0 || at == 0 && (side < 0 || side == 0 && s.aboveLow) {
			return false
		}
	}
	if s.high != nil {
		if at := x.Cmp(s.high); at > 0 || at == 0 && (side > 0 || side == 0 && s.belowHi) {
			return false
		}
	}
	return true
}

var (
	above   = regexp.MustCompile(`(?i)(?:\b(?:more|longer|greater|higher|older|mehr|länger|älter) (?:than|als)|\b(?:over|above|beyond|exceeding|über|plus de|más de|più di|oltre|mer enn|lenger enn|meer dan|langer dan)|>)\s*$`)
	below   = regexp.MustCompile(`(?i)(?:\b(?:less|fewer|shorter|smaller|lower|younger|weniger|kürzer|jünger) (?:than|als)|\b(?:under|below|unter|moins de|menos de|meno di|mindre enn|minder dan)|<)\s*$`)
	atLeast = regexp.MustCompile(`(?i)\b(?:at least|no less than|not less than|from|mindestens|ab|au moins|al menos|almeno|minst|minstens)\s*$`)
	orMore  = regexp.MustCompile(`(?i)^\+|^[\s-]*\pL*\s+(?:(?:or|oder|ou|o|eller) (?:more|longer|over|above|mehr|länger|plus|más|più|mer|lenger)\b|(?:and|und|et|y|og) (?:more|over|above|mehr|plus|más|mer)\s*(?:[^\s\pL]|$))`)
	atMost  = regexp.MustCompile(`(?i)\b(?:at most|up to|until|no (?:more|longer) than|not (?:more|longer) than|höchstens|bis zu|nicht (?:mehr|länger) als|au plus|como máximo|opptil)\s*$`)
	orLess  = regexp.MustCompile(`(?i)^[\s-]*\pL*\s+(?:or|oder|ou|o|eller) (?:less|fewer|shorter|under|weniger|kürzer|moins|menos|meno|mindre)\b`)
)

// sides are the sides of a number of a text on which what it means lies.
func sides(text string, n arith.Number) []int {
	switch before, after := text[:n.Start], text[n.End:]; {
	case atMost.MatchString(before), orLess.MatchString(after):
		return []int{0, -1}
	case atLeast.MatchString(before), orMore.MatchString(after):
		return []int{0, 1}
	case above.MatchString(before):
		return []int{1}
	case below.MatchString(before):
		return []int{-1}
	}
	return []int{0}
}
