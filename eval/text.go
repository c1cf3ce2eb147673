package eval

import (
	"strings"
	"unicode"

	"ragd/arith"
)

// normal brings a text to the form in which answers are compared: lower case, without articles, punctuation and markers, numbers without separators.
func normal(text string) []string {
	var out []string
	text = strings.ToLower(text)
	var b strings.Builder
	at := 0
	for _, n := range arith.Find(text) {
		if n.Word {
			continue
		}
		b.WriteString(text[at:n.Start] + " " + n.Value.RatString() + " ")
		at = n.End
	}
	b.WriteString(text[at:])
	for _, w := range strings.FieldsFunc(b.String(), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) && r != '/'
	}) {
		if w != "a" && w != "an" && w != "the" {
			out = append(out, w)
		}
	}
	return out
}

// ExactMatch reports whether text is one of answers.
func ExactMatch(text string, answers []string) bool {
	got := strings.Join(normal(text), " ")
	for _, a := range answers {
		if strings.Join(normal(a), " ") == got {
			return true
		}
	}
	return false
}

// Contains reports whether text holds one of answers, as whole words.
func Contains(text string, answers []string) bool {
	got := " " + strings.Join(normal(text), " ") + " "
	for _, a := range answers {
		if want := strings.Join(normal(a), " "); want != "" && strings.Contains(got, " "+want+" ") {
			return true
		}
	}
	return false
}

// TokenF1 is the best F1 of the words of text and of an answer.
func TokenF1(text string, answers []string) float64 {
	got := normal(text)
	best := 0.0
	for _, a := range answers {
		best = max(best, wordF1(got, normal(a)))
	}
	return best
}

func wordF1(got, want []string) float64 {
	left := map[string]int{}
	for _, w := range want {
		left[w]++
	}
	same := 0
	for _, w := range got {
		if left[w] > 0 {
			left[w]--
			same++
		}
	}
	if same == 0 {
		return 0
	}
	return 2 * float64(same) / float64(len(got)+len(want))
}

// WordRecall is the best share of the words of an answer that text holds: long answers are judged by it, which no text repeats word for word.
func WordRecall(text string, answers []string) float64 {
	have := map[string]bool{}
	for _, w := range normal(text) {
		have[w] = true
	}
	best := 0.0
	for _, a := range answers {
		held, all := 0, 0
		for _, w := range normal(a) {
			all++
			if have[w] {
				held++
			}
		}
		best = max(best, float64(held)/float64(max(1, all)))
	}
	return best
}
