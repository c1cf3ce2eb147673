package arith

import (
	"math/big"
	"regexp"
	"strings"
)

// Equation is a calculation that a text states: "27 - 10 = 17". Bytes [Start, End) are all of it, [ResultStart, End) its result.
type Equation struct {
	Start, ResultStart, End int
	Stated, Computed        *big.Rat
	Holds                   bool // as exactly as the result is written
}

var equation = regexp.MustCompile(`(?:[$€£]?\(?\d[\d.,]*\)?\s?%?\s*[-+*/×·÷−–x]\s*)+[$€£]?\(?\d[\d.,]*\d?\)?\s?%?\s*=\s*[$€£]?(\d[\d.,]*)`)

// Equations finds the calculations that text states and computes them again.
func Equations(text string) []Equation {
	var found []Equation
	for _, at := range equation.FindAllStringSubmatchIndex(text, -1) {
		left, _, _ := strings.Cut(text[at[0]:at[1]], "=")
		left = strings.NewReplacer("$", "", "€", "", "£", "", "x", "*").Replace(left)
		result := strings.TrimRight(text[at[2]:at[3]], ".,")
		stated, ok := parse(result)
		computed, err := Eval(left)
		if !ok || err != nil {
			continue
		}
		found = append(found, Equation{Start: at[0], ResultStart: at[2], End: at[2] + len(result), Stated: stated, Computed: computed,
			Holds: Rounds(computed, stated, decimals(result))})
	}
	return found
}

// decimals is how many decimals a number is written with.
func decimals(s string) int {
	whole, _ := parse(s)
	at := strings.LastIndexAny(s, ".,")
	if at < 0 || whole.IsInt() && len(s)-at-1 == 3 {
		return 0
	}
	return len(s) - at - 1
}

// Rounds reports whether stated is exact rounded, or cut, to so many decimals.
func Rounds(exact, stated *big.Rat, decimals int) bool {
	unit := big.NewRat(1, 1)
	for range decimals {
		unit.Quo(unit, big.NewRat(10, 1))
	}
	d := new(big.Rat).Sub(exact, stated)
	return d.Abs(d).Cmp(unit) < 0
}
