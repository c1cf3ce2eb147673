package arith

import (
	"math/big"
	"regexp"
	"strings"
)

// Number is a number written in a text: bytes [Start, End) of it, without its unit.
type Number struct {
	Start, End int
	Value      *big.Rat
	Percent    bool
	Word       bool // written in letters: "three"
}

// digits is a number in digits, with a sign or the parentheses of a balance sheet left to the caller; a letter before it makes it part of a name.
var digits = regexp.MustCompile(`\d+(?:[.,'’\x{00a0}\x{202f} ]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?`)

// scale is a word that multiplies the number before it.
var scale = regexp.MustCompile(`^[\s\x{00a0}-]{0,2}(hundred|thousand|million|billion|trillion|mio|mrd|tausend|millionen?|milliarden?|k|m|bn)\b\.?`)

var scales = map[string]int64{
	"hundred": 100, "thousand": 1e3, "tausend": 1e3, "k": 1e3, "million": 1e6, "millionen": 1e6, "mio": 1e6, "m": 1e6,
	"billion": 1e9, "milliarde": 1e9, "milliarden": 1e9, "mrd": 1e9, "bn": 1e9, "trillion": 1e12,
}

var percent = regexp.MustCompile(`^[\s\x{00a0}]?(%|percent\b|per cent\b|prozent\b)`)

// words are numbers in letters. "one" is not among them: it is more often a pronoun.
var words = map[string]int64{
	"zero": 0, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
	"thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30,
	"forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "hundred": 100, "thousand": 1000, "million": 1e6, "billion": 1e9,
	"zwei": 2, "drei": 3, "vier": 4, "fünf": 5, "sechs": 6, "sieben": 7, "acht": 8, "neun": 9, "zehn": 10, "elf": 11, "zwölf": 12,
	"zwanzig": 20, "dreißig": 30, "vierzig": 40, "fünfzig": 50, "hundert": 100, "tausend": 1000,
}

var letters = regexp.MustCompile(`\p{L}+(?:-\p{L}+)?`)

// Find returns the numbers of text in the order in which they stand.
func Find(text string) []Number {
	var found []Number
	for _, at := range digits.FindAllStringIndex(text, -1) {
		if at[0] > 0 && isWordByte(text[at[0]-1]) {
			continue // "B2", "v3"
		}
		value, ok := parse(text[at[0]:at[1]])
		if !ok {
			continue
		}
		n := Number{Start: at[0], End: at[1], Value: value}
		rest := strings.ToLower(text[at[1]:min(len(text), at[1]+24)])
		if m := scale.FindStringSubmatch(rest); m != nil {
			n.Value.Mul(n.Value, new(big.Rat).SetInt64(scales[m[1]]))
			n.End += len(m[0])
			rest = rest[len(m[0]):]
		}
		n.Percent = percent.MatchString(rest)
		if at[0] > 0 && text[at[0]-1] == '-' && (at[0] == 1 || text[at[0]-2] == ' ') {
			n.Start--
			n.Value.Neg(n.Value)
		}
		found = append(found, n)
	}
	return inOrder(append(found, inLetters(text, found)...))
}

func isWordByte(b byte) bool {
	return b|0x20 >= 'a' && b|0x20 <= 'z' || b == '_'
}

// inLetters finds the numbers in letters that are not the scale of a number in digits.
func inLetters(text string, taken []Number) []Number {
	var found []Number
	for _, at := range letters.FindAllStringIndex(text, -1) {
		word := strings.ToLower(text[at[0]:at[1]])
		tens, ones, compound := strings.Cut(word, "-")
		value, ok := words[tens]
		if compound {
			one, known := words[ones]
			if ones == "one" {
				one, known = 1, true
			}
			ok = ok && known && value >= 20 && value <= 90 && one < 10
			value += one
		}
		if ok && !within(taken, at[0]) {
			found = append(found, Number{Start: at[0], End: at[1], Value: new(big.Rat).SetInt64(value), Word: true})
		}
	}
	return found
}

func within(taken []Number, at int) bool {
	for _, n := range taken {
		if n.Start <= at && at < n.End {
			return true
		}
	}
	return false
}

func inOrder(all []Number) []Number {
	for i := 1; i < len(all); i++ { // nearly sorted: two sorted runs
		for j := i; j > 0 && all[j].Start < all[j-1].Start; j-- {
			all[j], all[j-1] = all[j-1], all[j]
		}
	}
	return all
}

// parse reads digits with separators of thousands and decimals in any of the usual customs: 1,234.5 and 1.234,5 and 1 234,5 and 1'234.5.
func parse(s string) (*big.Rat, bool) {
	dot, comma := strings.LastIndexByte(s, '.'), strings.LastIndexByte(s, ',')
	decimal := max(dot, comma)
	if decimal >= 0 {
		separator := s[decimal : decimal+1]
		other := dot >= 0 && comma >= 0 || strings.ContainsAny(s, "'’ \u00a0\u202f")
		grouped := len(s)-decimal-1 == 3 && !other && s[:decimal] != "0"
		// A comma before three digits is one of thousands, everywhere that English is read; a point only when there are several.
		if strings.Count(s, separator) > 1 || grouped && separator == "," {
			decimal = -1
		}
	}
	clean := func(part string) string {
		return strings.Map(func(r rune) rune {
			if r < '0' || r > '9' {
				return -1
			}
			return r
		}, part)
	}
	text := clean(s)
	if decimal >= 0 {
		text = clean(s[:decimal]) + "." + clean(s[decimal+1:])
	}
	return new(big.Rat).SetString(text)
}

// Format writes r with at most places decimals, without trailing zeros; exact says whether nothing was rounded.
func Format(r *big.Rat, places int) (text string, exact bool) {
	text = r.FloatString(places)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		text = "0"
	}
	back, _ := new(big.Rat).SetString(text)
	return text, back.Cmp(r) == 0
}
