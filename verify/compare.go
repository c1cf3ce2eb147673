package verify

import (
	"regexp"
	"slices"

	"ragd/arith"
)

// comparative is a word after which "als", "que" and the like compare; without one they do other things.
const comparative = `(?:mehr|weniger|höher\pL*|niedriger\pL*|länger\pL*|kürzer\pL*|größer\pL*|kleiner\pL*|geringer\pL*|teurer|billiger|günstiger|früher|später|besser|anders|meer|minder|hoger|lager|langer|korter|` +
	`más|menos|mayor\pL*|menor\pL*|plus|moins|autres?|più|meno|maggior\pL*|minor\pL*|superior\pL*|inferior\pL*|supérieur\pL*|inférieur\pL*)`

var (
	than = regexp.MustCompile(`(?i)\b(?:than|as opposed to|instead of|compared (?:with|to)|in comparison (?:with|to)|versus|vs|statt|anstatt|anstelle|gegenüber|verglichen mit|im vergleich zu[mr]?|` +
		`au lieu de|plutôt que|par rapport|en lugar de|en vez de|comparad[oa]s? con|frente a|invece di|rispetto a\pL*|istedenfor|i stedet for|sammenlignet med|enn|in plaats van|vergeleken met|` +
		comparative + `\s+(?:\pL+\s+){0,3}?(?:als|dan|que|de|di|che))\s+`)
	// notMore says what a number is at most, which is no comparison.
	notMore = regexp.MustCompile(`(?i)\b(?:no|not|nicht|nie|ikke|niet|non|pas|never)\s+(?:be\s+)?\pL+\s+(?:than|als|enn|dan|di|de|que)\s+$`)
	// by is what follows a number that says by how much things differ: "1 month more", "25 percent higher".
	by         = regexp.MustCompile(`(?i)^\s*(?:%|[€$£])?\s*(?:\pL{1,12}\.?\s+){0,2}?(?:more|less|fewer|higher|lower|longer|shorter|mehr|weniger|höher|niedriger|länger|kürzer|de plus|de moins|más|menos|in più|in meno|mer|mindre|meer|minder)\b`)
	joining    = regexp.MustCompile(`(?i)^\s*\pL*\.?\s*(?:\b(?:or|and|no|not|oder|und|ou|y|o|og|en)\b)`)
	difference = regexp.MustCompile(`(?i)\b(?:differences?|unterschied\pL*|différence|diferencia|differenza|forskjell\pL*|verschil)\b`)
	stops      = regexp.MustCompile(`[,;:.()–—!?]\s|[.!?)]$|\n`)
	which      = regexp.MustCompile(`(?i)^,\s+(?:which|where|whose|that|who|wo|die|der|das|für die|où|qui|que|donde|dove|hvor|som|waar)\b`)
)

// clauseEnd is where the clause ends in which place at stands.
func clauseEnd(text string, at int) int {
	for _, stop := range stops.FindAllStringIndex(text, -1) {
		if stop[0] >= at {
			return stop[0]
		}
	}
	return len(text)
}

// comparedWith are the parts [start, end) of a statement that name what it compares something with: "less than [the 2,600 NOK of other capitals]". Each
// has one number at most.
func comparedWith(statement string, named []mention) (parts [][2]int) {
	numbers := arith.Find(statement)
	for _, m := range than.FindAllStringIndex(statement, -1) {
		inLabel := slices.ContainsFunc(named, func(o mention) bool {
			// In "more than 10 years" the words belong to the row that is named, not to a comparison of rows.
			return o.start <= m[0] && m[1] <= o.end || o.start == m[1] && slices.ContainsFunc(numbers, func(n arith.Number) bool { return n.Start == m[1] })
		})
		if inLabel || notMore.MatchString(statement[:m[1]]) {
			continue
		}
		end := clauseEnd(statement, m[1])
		if which.MatchString(statement[end:]) && !slices.ContainsFunc(numbers, func(n arith.Number) bool { return m[1] <= n.Start && n.End <= end }) {
			end = clauseEnd(statement, end+1) // "than in other capitals, where it is 2,600 NOK"
		}
		first := -1
		for _, n := range numbers {
			if n.Start < m[1] || n.Start >= end {
				continue
			}
			if first >= 0 {
				end = first
				break
			}
			first = n.End
		}
		parts = append(parts, [2]int{m[1], end})
	}
	return parts
}

// compared reports a number that says what something is compared with, or by how much it differs.
func compared(statement string, parts [][2]int, n arith.Number) bool {
	if within(parts, n.Start, n.End) {
		return true
	}
	if rest := statement[n.End:]; by.MatchString(rest) && !joining.MatchString(rest) {
		return true
	}
	start := 0
	for _, stop := range stops.FindAllStringIndex(statement[:n.Start], -1) {
		start = stop[1]
	}
	return difference.MatchString(statement[start:clauseEnd(statement, n.End)])
}
