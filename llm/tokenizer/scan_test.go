package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
	"github.com/stretchr/testify/require"
)

const (
	gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	contr       = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`
	tail        = `|\s*[\r\n]+|\s+(?!\S)|\s+`
	upperSet    = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	lowerSet    = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	prefixSet   = `[^\r\n\p{L}\p{N}]?`
)

// patterns are the published regular expressions, one or several applied in turn. They are the oracle of the scanners.
var patterns = map[string][]string{
	"gpt-2":     {gpt2Pattern},
	"smollm":    {`\p{N}`, gpt2Pattern},
	"llama-bpe": {contr + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*` + tail},
	"qwen2":     {contr + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*` + tail},
	"qwen35":    {contr + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*` + tail},
	"gpt-4o": {prefixSet + upperSet + `*` + lowerSet + `+` + contr + `?|` + prefixSet + upperSet + `+` + lowerSet + `*` + contr +
		`?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*` + tail},
	"tekken": {prefixSet + upperSet + `*` + lowerSet + `+|` + prefixSet + upperSet + `+` + lowerSet + `*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*` + tail},
}

// splitByPattern cuts a text at the matches of each expression in turn; what lies between matches is a piece as well.
func splitByPattern(t testing.TB, text string, list []*regexp2.Regexp) []string {
	pieces := []string{text}
	for _, re := range list {
		var next []string
		for _, p := range pieces {
			at := 0
			m, err := re.FindStringMatch(p)
			for ; m != nil && err == nil; m, err = re.FindNextMatch(m) {
				start, n := m.ByteRange()
				if start > at {
					next = append(next, p[at:start])
				}
				next = append(next, p[start:start+n])
				at = start + n
			}
			require.NoError(t, err)
			if at < len(p) {
				next = append(next, p[at:])
			}
		}
		pieces = next
	}
	return pieces
}

func splitByScanner(text string, p pretokenizer) (pieces []string) {
	for i := 0; i < len(text); {
		end := p.next(text, i)
		pieces = append(pieces, text[i:end])
		i = end
	}
	return pieces
}

// troublemakers has every class of character, the letters of the contractions, and what the patterns treat apart.
var troublemakers = []string{
	"a", "Z", "s", "S", "t", "r", "e", "v", "m", "l", "L", "d", "é", "ß", "Ä", "Я", "я", "ǅ", "ʰ", "ª", "漢", "か", "한", "\u0301", "\u093f", "٣", "²", "Ⅷ", "0", "9",
	" ", "  ", "\n", "\r", "\t", "\u00a0", "\u3000", "\u0085", "\u2028", "'", "'s", "'LL", "’", ".", "/", "-", "_", "$", "😀", "\u200d", "\x00", "\ufffd",
}

func TestScannersEqualPatterns(t *testing.T) {
	for name, list := range patterns {
		t.Run(name, func(t *testing.T) {
			var compiled []*regexp2.Regexp
			for _, p := range list {
				compiled = append(compiled, regexp2.MustCompile(p, regexp2.None))
			}
			check := func(text string) {
				want := splitByPattern(t, text, compiled)
				got := splitByScanner(text, pretokenizers[name])
				require.Equal(t, strings.Join(want, "|"), strings.Join(got, "|"), "%q", text)
			}
			for _, a := range troublemakers {
				check(a)
				for _, b := range troublemakers {
					check(a + b)
				}
			}
			rng := rand.New(rand.NewPCG(1, 2))
			for range 2000 {
				var b strings.Builder
				for range 1 + rng.IntN(12) {
					b.WriteString(troublemakers[rng.IntN(len(troublemakers))])
				}
				check(b.String())
			}
		})
	}
}

func TestEveryPretokenizerHasAnOracle(t *testing.T) {
	probe := strings.Join(troublemakers, "x") + strings.Join(troublemakers, "")
	covered := map[string]bool{}
	for name := range patterns {
		covered[strings.Join(splitByScanner(probe, pretokenizers[name]), "|")] = true
	}
	for name, p := range pretokenizers {
		require.True(t, covered[strings.Join(splitByScanner(probe, p), "|")], "%s splits like no pattern above", name)
	}
}

func FuzzScanners(f *testing.F) {
	for _, s := range []string{"", "I'm  here\r\n x1234 Ä'S", "\xff\xfe '", " \n\t 'll", "aǅ\u0301B/ /\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, p := range pretokenizers {
			at := 0
			for at < len(text) {
				end := p.next(text, at)
				if end <= at || end > len(text) {
					t.Fatalf("%s: piece [%d,%d) of %d bytes", name, at, end, len(text))
				}
				if utf8.ValidString(text) && !utf8.ValidString(text[at:end]) {
					t.Fatalf("%s cuts a character at %d", name, end)
				}
				at = end
			}
		}
	})
}
