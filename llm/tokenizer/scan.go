package tokenizer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// class is the set of character kinds the pre-tokenizer patterns speak of; every rune has exactly one.
type class uint8

const (
	upper  class = 1 << iota // Lu Lt
	lower                    // Ll
	letter                   // Lm Lo: both an upper and a lower letter to the patterns
	mark                     // M
	number                   // N
	space                    // White_Space
	other                    // everything else

	anyLetter = upper | lower | letter
)

var asciiClass = func() (t [128]class) {
	for r := range t {
		t[r] = classify(rune(r))
	}
	return
}()

func classify(r rune) class {
	switch {
	case unicode.IsLower(r) && unicode.Is(unicode.Ll, r):
		return lower
	case unicode.Is(unicode.Lu, r), unicode.Is(unicode.Lt, r):
		return upper
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	case unicode.IsMark(r):
		return mark
	}
	return other
}

// classAt returns the class of the rune at s[i] and its length; class 0 at the end of the text.
func classAt(s string, i int) (class, int) {
	if i >= len(s) {
		return 0, 0
	}
	if b := s[i]; b < utf8.RuneSelf {
		return asciiClass[b], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return classify(r), n
}

// run returns the end of the longest run of runes of the given classes that starts at i.
func run(s string, i int, set class) int {
	for i < len(s) {
		c, n := classAt(s, i)
		if c&set == 0 {
			break
		}
		i += n
	}
	return i
}

// upTo is run with at most limit runes.
func upTo(s string, i int, set class, limit int) int {
	for ; limit > 0; limit-- {
		c, n := classAt(s, i)
		if c&set == 0 {
			break
		}
		i += n
	}
	return i
}

// A pre-tokenizer cuts a text into the pieces that BPE may not merge across. The patterns are regular expressions with
// look-ahead, matched from left to right; these scanners are the same thing written out, about ten times as fast and linear.
type pretokenizer struct {
	next         func(s string, i int) int // end of the piece that starts at s[i], i < len(s); > i
	ignoreMerges bool                      // a piece that is in the vocabulary is taken whole
	addBOS       bool
	addSEP       bool
}

var (
	gpt2    = pretokenizer{next: scanGPT2}
	digits  = pretokenizer{next: scanDigitsGPT2}
	llama3  = pretokenizer{next: func(s string, i int) int { return scanLlama3(s, i, 3, anyLetter) }}
	qwen2   = pretokenizer{next: func(s string, i int) int { return scanLlama3(s, i, 1, anyLetter) }}
	qwen35  = pretokenizer{next: func(s string, i int) int { return scanLlama3(s, i, 1, anyLetter|mark) }}
	gpt4o   = pretokenizer{next: func(s string, i int) int { return scanGPT4o(s, i, 3, true) }}
	tekken  = pretokenizer{next: func(s string, i int) int { return scanGPT4o(s, i, 1, false) }, ignoreMerges: true, addBOS: true}
	llama3w = pretokenizer{next: llama3.next, ignoreMerges: true, addBOS: true}
	roberta = pretokenizer{next: scanGPT2, addSEP: true}
)

// pretokenizers maps tokenizer.ggml.pre to its scanner. A name that is not here is refused: a wrong guess changes ids
// silently and the model answers worse without anybody knowing why.
var pretokenizers = map[string]pretokenizer{
	"gpt-2": gpt2, "phi-2": gpt2, "modern-bert": gpt2, "mpt": gpt2, "olmo": gpt2, "exaone4": gpt2,
	"jina-es": gpt2, "jina-de": gpt2, "jina-v2-es": gpt2, "jina-v2-de": gpt2, "gigachat": gpt2,
	"roberta-bpe": roberta, "jina-v1-en": roberta, "jina-v2-code": roberta,
	"smollm": digits, "starcoder": digits, "refact": digits, "command-r": digits, "codeshell": digits, "minerva-7b": digits, "exaone": digits,
	"llama3": llama3w, "llama-v3": llama3w, "llama-bpe": llama3w, "falcon3": llama3w, "falcon-h1": llama3w, "pixtral": llama3w, "lfm2": llama3w,
	"dbrx": llama3, "smaug-bpe": llama3, "glm4": llama3, "chatglm-bpe": llama3,
	"qwen2": qwen2, "deepseek-r1-qwen": qwen2, "stablelm2": qwen2, "megrez": qwen2, "hunyuan": qwen2,
	"qwen35": qwen35,
	"gpt-4o": gpt4o, "llama4": gpt4o,
	"tekken": tekken,
}

func lookupPre(name string) (pretokenizer, error) {
	if p, ok := pretokenizers[name]; ok {
		return p, nil
	}
	known := strings.Join(slices.Sorted(maps.Keys(pretokenizers)), ", ")
	if name == "" {
		return pretokenizer{}, fmt.Errorf("tokenizer: the file names no pre-tokenizer (tokenizer.ggml.pre), so its ids would be guesses; "+
			"convert the model with a current converter (known: %s)", known)
	}
	return pretokenizer{}, fmt.Errorf("tokenizer: unknown pre-tokenizer %q (tokenizer.ggml.pre); known: %s", name, known)
}

// contraction returns the end of 's 't 're 've 'm 'll 'd at s[i], or i. fold: in any case.
func contraction(s string, i int, fold bool) int {
	if i >= len(s) || s[i] != '\'' {
		return i
	}
	at := func(k int) byte {
		if i+k >= len(s) {
			return 0
		}
		b := s[i+k]
		if fold && 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		return b
	}
	switch at(1) {
	case 's', 't', 'm', 'd':
		return i + 2
	case 'r', 'v':
		if at(2) == 'e' {
			return i + 3
		}
	case 'l':
		if at(2) == 'l' {
			return i + 3
		}
	}
	return i
}

// spaces ends a run of white space [i, end): \s+(?!\S)|\s+. The last space belongs to the word that follows.
func spaces(s string, i, end int) int {
	if end == len(s) {
		return end
	}
	_, last := utf8.DecodeLastRuneInString(s[i:end])
	if end-last > i {
		return end - last
	}
	return end
}

// scanGPT2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func scanGPT2(s string, i int) int {
	if end := contraction(s, i, false); end > i {
		return end
	}
	j := i
	if s[i] == ' ' {
		j++
	}
	for _, set := range [...]class{anyLetter, number, other | mark} {
		if end := run(s, j, set); end > j {
			return end
		}
	}
	return spaces(s, i, run(s, i, space))
}

// scanDigitsGPT2: first every \p{N} stands alone, then scanGPT2 sees the stretches between them, each as a whole text.
func scanDigitsGPT2(s string, i int) int {
	if end := upTo(s, i, number, 1); end > i {
		return end
	}
	if end := contraction(s, i, false); end > i {
		return end
	}
	j := i
	if s[i] == ' ' {
		j++
	}
	for _, set := range [...]class{anyLetter, other | mark} {
		if end := run(s, j, set); end > j {
			return end
		}
	}
	end := run(s, i, space)
	if c, _ := classAt(s, end); c == number {
		return end // the stretch ends here: no word follows that could claim the last space
	}
	return spaces(s, i, end)
}

// newlines ends a run of white space at s[i]: \s*[\r\n]+|\s+(?!\S)|\s+
func newlines(s string, i int) int {
	end := run(s, i, space)
	if k := strings.LastIndexAny(s[i:end], "\r\n"); k >= 0 {
		return i + k + 1
	}
	return spaces(s, i, end)
}

// punctuation ends ` ?[^\s\p{L}\p{N}]+[tail]*` at s[i], or returns i.
func punctuation(s string, i int, set class, tail string) int {
	j := i
	if s[i] == ' ' {
		j++
	}
	end := run(s, j, set)
	if end == j {
		return i
	}
	for end < len(s) && strings.IndexByte(tail, s[end]) >= 0 {
		end++
	}
	return end
}

// scanLlama3: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,n}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// word is \p{L}, or [\p{L}\p{M}] with \p{M} taken out of the punctuation.
func scanLlama3(s string, i, maxDigits int, word class) int {
	if end := contraction(s, i, true); end > i {
		return end
	}
	c, n := classAt(s, i)
	if c&word != 0 {
		return run(s, i, word)
	}
	if c == number {
		return upTo(s, i, number, maxDigits)
	}
	if s[i] != '\r' && s[i] != '\n' {
		if end := run(s, i+n, word); end > i+n {
			return end
		}
	}
	if end := punctuation(s, i, (other|mark)&^word, "\r\n"); end > i {
		return end
	}
	return newlines(s, i)
}

// scanGPT4o, with U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and L = [\p{Ll}\p{Lm}\p{Lo}\p{M}]:
// [^\r\n\p{L}\p{N}]?U*L+(contraction)?|[^\r\n\p{L}\p{N}]?U+L*(contraction)?|\p{N}{1,n}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
func scanGPT4o(s string, i, maxDigits int, contractions bool) int {
	c, n := classAt(s, i)
	if c == number {
		return upTo(s, i, number, maxDigits)
	}
	if end := caseWord(s, i, c, n); end > i {
		if contractions {
			end = contraction(s, end, true)
		}
		return end
	}
	if end := punctuation(s, i, other|mark, "\r\n/"); end > i {
		return end
	}
	return newlines(s, i)
}

// caseWord matches the two word alternatives of scanGPT4o at s[i], whose rune has class c and length n, or returns i.
// The order of attempts is the expression's: with the optional prefix first, then without.
func caseWord(s string, i int, c class, n int) int {
	prefix := c&anyLetter == 0 && s[i] != '\r' && s[i] != '\n'
	if prefix {
		if end := upperLower(s, i+n); end > i+n {
			return end
		}
	}
	if end := upperLower(s, i); end > i {
		return end
	}
	if prefix {
		if end := run(s, i+n, upper|letter|mark); end > i+n {
			return end
		}
	}
	return run(s, i, upper|letter|mark)
}

// upperLower matches U*L+ at s[i], or returns i. When no L follows the run of U, the expression backtracks to the last
// rune of that run which is in both sets.
func upperLower(s string, i int) int {
	end, both := i, i // both: end of the last rune so far that is in U and in L
	for end < len(s) {
		c, n := classAt(s, end)
		if c&(upper|letter|mark) == 0 {
			break
		}
		end += n
		if c&(letter|mark) != 0 {
			both = end
		}
	}
	if tail := run(s, end, lower|letter|mark); tail > end {
		return tail
	}
	return both
}
