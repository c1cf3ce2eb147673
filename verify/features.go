package verify

import (
	"math"
	"slices"
	"strings"

	"ragd/retrieve/analysis"
	"ragd/sentence"
)

// Features are what is known about a statement and its evidence. A statement of several sentences is judged by each of them.
type Features struct {
	Cover     float64 `json:"cover"`      // share of the statement's distinct terms that the evidence holds
	CoverLow  float64 `json:"cover_low"`  // of its worst sentence
	Window    float64 `json:"window"`     // the same, within three neighbouring sentences of the evidence; mean over sentences
	WindowLow float64 `json:"window_low"` // of the worst sentence
	Pairs     float64 `json:"pairs"`      // share of neighbouring terms that neighbour in the evidence
	Copied    float64 `json:"copied"`     // share of terms in stretches of three or more copied from the evidence
	Words     float64 `json:"words"`      // share of all words, stop words too, that the evidence holds
	Numbers   float64 `json:"numbers"`    // numbers and dates that stand nowhere in the evidence, at most 3
	Names     float64 `json:"names"`      // the same for names
	Negation  float64 `json:"negation"`   // 1 when a sentence contradicts its best span by a negation
	Novel     float64 `json:"novel"`      // log(1 + terms that the evidence does not hold)
	Length    float64 `json:"length"`     // log of the statement's terms
	Evidence  float64 `json:"evidence"`   // log of the evidence's terms
	First     float64 `json:"first"`      // share of words of the first and second person, and of question marks: talk, not facts

	Cross     float64 `json:"cross"`     // the cross-encoder's logit of the best passage; mean over sentences
	CrossLow  float64 `json:"cross_low"` // of the worst sentence
	Embedding float64 `json:"embedding"` // cosine similarity of the best passage; mean over sentences

	Checked float64 `json:"checked"` // log-odds by the words alone, see Check
	Stated  float64 `json:"stated"`  // log-odds by a language model, asked for yes or no, that the evidence states the statement
}

// terms are the words that carry meaning, stemmed.
func terms(text string) []string { return analysis.Terms(text, "en") }

// cover is the share of the distinct terms of want that have holds; 1 for none.
func cover(want, have []string) float64 {
	held := map[string]bool{}
	for _, t := range have {
		held[t] = true
	}
	distinct, covered := map[string]bool{}, 0
	for _, t := range want {
		if !distinct[t] {
			distinct[t] = true
			if held[t] {
				covered++
			}
		}
	}
	if len(distinct) == 0 {
		return 1
	}
	return float64(covered) / float64(len(distinct))
}

// lexical fills in what needs no model.
func lexical(statement string, evidence []string) Features {
	all := strings.Join(evidence, "\n\n")
	have, want := terms(all), terms(statement)
	f := Features{Cover: cover(want, have), CoverLow: 1, WindowLow: 1, Length: math.Log1p(float64(len(want))), Evidence: math.Log1p(float64(len(have)))}
	f.Novel = math.Log1p((1 - f.Cover) * float64(len(want)))
	f.Pairs, f.Copied = sequence(want, have)
	f.Words = cover(plainWords(statement), plainWords(all))
	f.First = talk(statement)
	for _, m := range Missing(statement, all, "") {
		if m.Kind == NameFact {
			f.Names = min(3, f.Names+1)
		} else {
			f.Numbers = min(3, f.Numbers+1)
		}
	}
	windows := windowsOf(evidence)
	sentences := Sentences(statement)
	for _, s := range sentences {
		t := terms(s)
		f.CoverLow = min(f.CoverLow, cover(t, have))
		best, at := 0.0, -1
		for i, w := range windows {
			if c := cover(t, w.terms); c > best {
				best, at = c, i
			}
		}
		f.Window += best / float64(len(sentences))
		f.WindowLow = min(f.WindowLow, best)
		if at >= 0 {
			if _, no := Contradicts(s, windows[at].text); no {
				f.Negation = 1
			}
		}
	}
	return f
}

// Sentences returns the sentences of text; text itself when it has none.
func Sentences(text string) []string {
	var all []string
	for _, s := range sentence.Split(text) {
		if strings.ContainsFunc(text[s.Start:s.End], isWordRune) {
			all = append(all, text[s.Start:s.End])
		}
	}
	if len(all) == 0 {
		return []string{text}
	}
	return all
}

func isWordRune(r rune) bool {
	return r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z' || r > 0x7f
}

// window is up to three neighbouring sentences of the evidence.
type window struct {
	text  string
	terms []string
}

const maxWindow = 3

func windowsOf(evidence []string) []window {
	var all []window
	for _, e := range evidence {
		spans := sentence.Split(e)
		for i := range spans {
			text := e[spans[i].Start:spans[min(i+maxWindow, len(spans))-1].End]
			all = append(all, window{text, terms(text)})
		}
	}
	return all
}

// sequence returns the share of neighbouring pairs of want that neighbour in have, and the share of want in copied stretches of at least three.
func sequence(want, have []string) (pairs, copied float64) {
	if len(want) < 2 {
		return cover(want, have), cover(want, have)
	}
	next := map[string][]int{}
	for i, t := range have {
		next[t] = append(next[t], i)
	}
	longest := func(i int) int {
		best := 0
		for _, at := range next[want[i]] {
			n := 0
			for i+n < len(want) && at+n < len(have) && want[i+n] == have[at+n] {
				n++
			}
			best = max(best, n)
		}
		return best
	}
	for i := range len(want) - 1 {
		if longest(i) >= 2 {
			pairs++
		}
	}
	for i := 0; i < len(want); {
		n := longest(i)
		if n >= 3 {
			copied += float64(n)
		}
		i += max(1, n)
	}
	return pairs / float64(len(want)-1), copied / float64(len(want))
}

func plainWords(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !isWordRune(r) })
}

var persons = []string{"i", "you", "my", "your", "me", "we", "our", "us", "yes", "oh", "wow", "lol", "haha", "hi", "hello", "thanks", "think", "guess", "love", "ok"}

// talk is the share of the words of a statement that address somebody.
func talk(statement string) float64 {
	all := plainWords(statement)
	n := strings.Count(statement, "?")
	for _, w := range all {
		if slices.Contains(persons, w) {
			n++
		}
	}
	return float64(n) / float64(max(1, len(all)))
}
