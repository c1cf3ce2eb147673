package grammar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// The test vocabulary: an end token, a control token, two tokens without bytes, all single bytes, and pieces that cross
// every boundary the grammars know.
const (
	endToken     = Token(0)
	controlToken = Token(1)
	firstByte    = Token(4)
)

var pieces = []string{
	". ", ".\n", ".\n\n", "! ", "? [", " [", "[1", "[1]", "][", "] [", "1]", "].", "]. ", "] The", "[[", "]]", "[12]", "2][3", "3.5", "e.g.", "e.g. ",
	"Mr. ", " U.S. ", "The ", "the", " rain", "ing", " in", " Spain", "hello", " world", ", ", ": ", ":\n", "\n- ", "1. ", "\n2. ", "\n\n", "  ",
	"日", "本", "語", "。", "」", "\xe3\x80", "\x81", "\x82", "。[", "é", "\xc3", "\xa9", "😀", "\xf0\x9f", "\x98\x80", "…", "” ", "”", "【", "】", "\xe3\x80\x90",
	"I cannot", " find", " this", " in", " the documents", ".", "I", " cannot", "documents.", "the the", "a", "b", " a", "yes", "no", "nope", "{", "}", "\"", "\":", "\\",
	"«", "»", " «", "» [", "true", "false", "null", "0", "10", "-1", "e5", "\\u00", "\\n",
}

func testVocab() *Vocab {
	return NewVocab(int(firstByte)+256+len(pieces), tokenBytes, func(t Token) bool { return t == controlToken }, func(t Token) bool { return t == endToken })
}

func tokenBytes(t Token) []byte {
	switch {
	case t < firstByte:
		return map[Token][]byte{endToken: []byte("</s>"), controlToken: []byte("<s>")}[t]
	case t < firstByte+256:
		return []byte{byte(t - firstByte)}
	}
	return []byte(pieces[t-firstByte-256])
}

func isSet(mask []uint64, t Token) bool { return mask[t/64]>>(t%64)&1 == 1 }

// accepts reports whether the grammar contains text, spelled byte by byte.
func accepts(g *Grammar, text string) bool {
	m := g.Matcher()
	for _, b := range []byte(text) {
		if m.Accept(firstByte+Token(b)) != nil {
			return false
		}
	}
	return m.Complete()
}

// requireMask checks that the mask holds exactly the tokens that Accept takes, and that there is one.
func requireMask(t *testing.T, m *Matcher) {
	t.Helper()
	mask, any := m.Mask(), false
	for id := range Token(m.g.vocab.Size()) {
		err := m.Clone().Accept(id)
		if ok := err == nil; ok != isSet(mask, id) || ok != m.Allows(id) || (!ok && !errors.Is(err, ErrRejected)) {
			require.Fail(t, "mask, Allows and Accept differ", "token %d %q", id, tokenBytes(id))
		}
		any = any || err == nil
	}
	require.True(t, any || m.Done(), "dead end")
	require.False(t, isSet(mask, controlToken))
	require.False(t, isSet(mask, 2), "a token without bytes would be repeated for ever")
}

// generate writes a text from random logits. Pieces are preferred to bytes, as a model does, and after n tokens end
// tokens are taken where they are possible.
func generate(rng *rand.Rand, g *Grammar, n, limit int) (string, bool) {
	m := g.Matcher()
	var out []byte
	for i := range limit {
		mask := m.Mask()
		if i >= n && isSet(mask, endToken) {
			return string(out), true
		}
		best, bestLogit := Token(-1), 0.0
		for id := range Token(g.vocab.Size()) {
			if !isSet(mask, id) || (id == endToken && i < n) {
				continue
			}
			logit := rng.NormFloat64()
			if id >= firstByte+256 {
				logit += 1.5
			}
			if best < 0 || logit > bestLogit {
				best, bestLogit = id, logit
			}
		}
		if best < 0 {
			return string(out), m.Done()
		}
		if err := m.Accept(best); err != nil {
			panic(err)
		}
		out = append(out, tokenBytes(best)...)
	}
	return string(out), m.Complete()
}

func TestVocab(t *testing.T) {
	v := testVocab()
	require.Equal(t, words(v.Size()), v.Words())
	// Walking with an automaton that takes everything must meet every producible token, including equal ones ("." is a
	// byte and a piece).
	mask := make([]uint64, v.Words())
	v.mask(anything{}, state{}, mask, make([]state, v.depth+1))
	for id := range Token(v.Size()) {
		require.Equal(t, id >= firstByte, isSet(mask, id), "token %d", id)
	}
}

type anything struct{}

func (anything) start() state                   { return state{} }
func (anything) step(state, byte) (state, bool) { return state{}, true }
func (anything) accepting(state) bool           { return true }
func (anything) loops(state) bool               { return true }

func TestChoice(t *testing.T) {
	v := testVocab()
	g, err := Choice(v, []string{"yes", "no", "nope", "日本"})
	require.NoError(t, err)
	for _, ok := range []string{"yes", "no", "nope", "日本"} {
		require.True(t, accepts(g, ok), ok)
	}
	for _, bad := range []string{"", "y", "yesno", "nop", "Yes", "日", " yes"} {
		require.False(t, accepts(g, bad), bad)
	}
	m := g.Matcher()
	requireMask(t, m)
	require.False(t, m.Done())
	require.NoError(t, m.Accept(firstByte+256+Token(slices.Index(pieces, "no"))))
	requireMask(t, m)
	require.True(t, m.Complete())
	require.False(t, m.Done(), "nope is still possible")
	clone := m.Clone()
	require.NoError(t, clone.Accept(firstByte+'p'))
	require.NoError(t, clone.Accept(firstByte+'e'))
	require.True(t, clone.Done())
	require.NoError(t, m.Accept(endToken))
	require.True(t, m.Done())
	require.ErrorIs(t, m.Accept(endToken), ErrRejected)
	require.Equal(t, make([]uint64, v.Words()), m.Mask())
	require.ErrorIs(t, clone.Accept(-1), ErrRejected)
	require.ErrorIs(t, clone.Accept(Token(v.Size())), ErrRejected)
	_, err = Choice(v, nil)
	require.Error(t, err)
	_, err = Choice(v, []string{"a", ""})
	require.Error(t, err)
}

const refusal = "I cannot find this in the documents."

func TestCitedStrict(t *testing.T) {
	g := Cited(testVocab(), CitedOptions{Passages: 12, EverySentence: true, Refusal: refusal, Dotted: []string{"ragd.go"}})
	for _, ok := range []string{
		"It rained [1].", "It rained. [1]", "It rained.[1]", "It rained [1]", " It rained [1].", "It rained. [1][2]", "It rained. [1] [12]",
		"It rained [1]. Then it stopped [2].", "It rained. [1] Then it stopped. [2]", "It rained [1]! Really? [2]",
		"Pi is 3.14 [1].", "See ragd.go for details. [3]", "Mr. Smith met Dr. Jones, e.g. in the U.S. last year. [1]", "z.B. heute. [1]",
		"“It rained.” [1]", "It rained (a lot). [1]", "He said \"yes.\" [1]", "It rained [1], then stopped [2].", "It rained [1] and stopped [2].",
		"Points:\n- one [1]\n- two [2]", "1. First point [1]\n2. Second one. [2]", "First [1]\n\nSecond [2]", "**Bold.** [1]", "It rained... [1]",
		"雨が降った。[1]次の日[2]。", "雨が降った[1]。次の日[2]。", "雨[1]が降った[2]。", "彼は「はい。」[1]", "Привет, мир. [1]", "😀 [1]", "It rained [1]. ", "It rained [1].\n",
		refusal, " " + refusal,
	} {
		require.True(t, accepts(g, ok), ok)
	}
	for _, bad := range []string{
		"", " ", "It rained", "It rained.", "It rained. Then it stopped. [1]", "It rained [13].", "It rained [0].", "It rained [01].", "It rained [].",
		"It rained [1", "It rained [a].", "It rained [ 1].", "It rained [1, 2].", "It rained [[1]].", "It rained 1].", "[1]", "[1] It rained.",
		"It rained.\n[1]", "It rained\nThen it stopped [1].", "It rained.\nThen [1].", "It rained [1]Then.", "It rained 【1】.", "It rained ［1］.",
		"It rained.他们 left. [1]", "It rained.此外 [1]", "It rained [1].然而 [2]", "It rained!그 [1]", "雨が降った.次の日 [1]",
		"It rained! Then it stopped [1].", "It rained? Yes [1].", "雨が降った。次の日[2]。", "It rained. [1], then", "It rained [1]. Then", "It rained [1], then.",
		refusal + " [1]", refusal + " Really [1].", refusal + "\n", "I cannot find this in the documents", refusal[1:],
		"It\x00 rained [1].", "It\trained [1].", "It\u00a0rained [1].", "It\u200brained [1].", "It \xff [1].", "It \xc0\xaf [1].", "It \xed\xa0\x80 [1].", "é\xc3 [1]",
	} {
		require.False(t, accepts(g, bad), bad)
	}
}

func TestCitedApart(t *testing.T) {
	g := Cited(testVocab(), CitedOptions{Passages: 3, EverySentence: true, Refusal: refusal, Dotted: []string{"main.go", "www.example.com", "Node.js", "plain"}})
	for _, ok := range []string{"See main.go [1].", "See cmd/main.go. [1]", "See (www.example.com) [1].", "Node.js and node.js run it [1].", "See main.go. [1] See Node.js [2].",
		"It ended in main. [1]", "It rained. [1]", "It rained.[1]", "Pi is 3.14 [1].", "Mr. Smith, e.g. in the U.S. last year. [1] Yes [2].", "He said \"yes.\" [1]", "It rained [1]. Then [2].", "A U.S.-based firm (in 3.5 m) won. [1]", "• It rained. [1]\n• It stopped. [2]",
		"It rained... [1]", "Ж.Ж [1]", refusal} {
		require.True(t, accepts(g, ok), ok)
	}
	for _, bad := range []string{"It rained.(a lot) [1]", "• It rained.• It stopped. [1]", "It rained.- It stopped. [1]", "It rained.(1) [1]", "See ragd.go [1].", "See domain.go [1].", "See main.py [1].", "See example.com [1].", "It ran in main.It stopped. [1]", "Node.Js [1]", "plain.text [1]", "It rained.Then it stopped. [1]", "It rained._then it stopped. [1]", "It was 2026.Then it stopped. [1]", "It rained [1].Then [2].", "In.then [1]"} {
		require.False(t, accepts(g, bad), bad)
	}
	requireMask(t, g.Matcher())
}

func TestCitedOptional(t *testing.T) {
	g := Cited(testVocab(), CitedOptions{Passages: 3, Refusal: refusal})
	for _, ok := range []string{"It rained", "It rained.", "It rained. Then [1] it [2] stopped.\n\nYes.", "[1]", "[3] says so", refusal, "日本"} {
		require.True(t, accepts(g, ok), ok)
	}
	for _, bad := range []string{"", "\n", "[4]", "[10]", "a[0]", "a]", "a[", "a[1", "[x]", "【1】", "a\x1b[1]", refusal + " More."} {
		require.False(t, accepts(g, bad), bad)
	}
	none := Cited(testVocab(), CitedOptions{})
	require.True(t, accepts(none, "It rained. Then not."))
	require.False(t, accepts(none, "It rained [1]."))
	only := Cited(testVocab(), CitedOptions{EverySentence: true, Refusal: refusal})
	require.True(t, accepts(only, refusal))
	require.False(t, accepts(only, "It rained [1]."))
	requireMask(t, only.Matcher())
	many := Cited(testVocab(), CitedOptions{Passages: 5000})
	require.True(t, accepts(many, "[999]"))
	require.False(t, accepts(many, "[1000]"))
}

var (
	bracketed   = regexp.MustCompile(`\[([0-9]+)\]`)
	sentenceEnd = regexp.MustCompile(`[.!?…]["')”’»*_` + "`" + `」.!?…]*([ \n]|$)|[。！？｡]`)
	lastWord    = regexp.MustCompile(`(?:^|[^\pL\pN])([\pL\pN]+)$`)
	listNumber  = regexp.MustCompile(`(?:^|\n)[^\pL\pN]*[0-9]+$`)
	trailing    = regexp.MustCompile(`\][ "')”’»*_` + "`" + `」』）›.!?…।؟۔。！？｡]*$`)
	leading     = regexp.MustCompile("^[\"')”’»*_`」』）›.!?…।؟۔。！？｡]* ?\\[")
)

// checkMarkers is an independent reading of what Cited promises.
func checkMarkers(t *testing.T, text string, passages int) {
	require.True(t, utf8.ValidString(text), "%q", text)
	for _, m := range bracketed.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		require.True(t, n >= 1 && n <= passages && m[1][0] != '0', "%q", text)
	}
	require.False(t, strings.ContainsAny(bracketed.ReplaceAllString(text, ""), "[]【】"), "%q", text)
}

func checkSentences(t *testing.T, text string) {
	solid := func(r rune) bool { return isSolid(r) && !isCloser(r) && !isStop(r) && !isHardStop(r) }
	for _, at := range sentenceEnd.FindAllStringIndex(text, -1) {
		before, rest := text[:at[0]], text[at[0]:]
		if w := lastWord.FindStringSubmatch(before); rest[0] == '.' && w != nil && slices.Contains(abbreviations, strings.ToLower(w[1])) || listNumber.MatchString(before) {
			continue
		}
		cited := trailing.MatchString(before) || strings.HasSuffix(before, "]") || leading.MatchString(rest) || leading.MatchString(strings.TrimLeft(rest, ".!?…"))
		sentence := before[strings.LastIndexAny(before, "]\n")+1:]
		require.True(t, cited || !strings.ContainsFunc(sentence, solid), "sentence without a marker in %q before byte %d", text, at[0])
	}
	require.Regexp(t, "\\][ \n\"')”’»*_`」』）›.!?…।؟۔。！？｡]*$", text)
}

func TestCitedFromRandomLogits(t *testing.T) {
	v := testVocab()
	for _, strict := range []bool{true, false} {
		for _, passages := range []int{1, 5, 12} {
			g := Cited(v, CitedOptions{Passages: passages, EverySentence: strict, Refusal: refusal})
			rng := rand.New(rand.NewPCG(uint64(passages), 9))
			for i := range 80 {
				text, complete := generate(rng, g, rng.IntN(60), 2000)
				require.True(t, complete, "run %d never found an end: %q", i, text)
				if strings.TrimSpace(text) == refusal {
					continue
				}
				checkMarkers(t, text, passages)
				if strict {
					checkSentences(t, text)
				}
			}
		}
	}
}

func TestMaskEqualsAccept(t *testing.T) {
	v := testVocab()
	choice, err := Choice(v, []string{"the rain in Spain", "the rain", "日本"})
	require.NoError(t, err)
	for name, g := range map[string]*Grammar{
		"strict":   Cited(v, CitedOptions{Passages: 12, EverySentence: true, Refusal: refusal}),
		"dotted":   Cited(v, CitedOptions{Passages: 12, EverySentence: true, Refusal: refusal, Dotted: []string{"ragd.go", "a.in.the", "5.rain", "it.S"}}),
		"optional": Cited(v, CitedOptions{Passages: 12, Refusal: "No"}),
		"choice":   choice,
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(2, 3))
			for range 20 {
				m := g.Matcher()
				for range 25 {
					requireMask(t, m)
					if m.Done() {
						break
					}
					mask := m.Mask()
					id := Token(rng.IntN(v.Size()))
					for !isSet(mask, id) || (id == endToken && rng.IntN(4) > 0) {
						id = Token(rng.IntN(v.Size()))
					}
					require.NoError(t, m.Accept(id))
				}
			}
		})
	}
}

// The refusal is reachable from the start whatever the tokens it is spelled with.
func TestRefusalIsReachable(t *testing.T) {
	g := Cited(testVocab(), CitedOptions{Passages: 3, EverySentence: true, Refusal: refusal})
	m := g.Matcher()
	for rest := refusal; rest != ""; {
		longest := Token(-1)
		for id := firstByte; int(id) < g.vocab.Size(); id++ {
			if b := string(tokenBytes(id)); strings.HasPrefix(rest, b) && (longest < 0 || len(b) > len(tokenBytes(longest))) {
				longest = id
			}
		}
		require.True(t, isSet(m.Mask(), longest))
		require.NoError(t, m.Accept(longest))
		rest = rest[len(tokenBytes(longest)):]
	}
	require.True(t, m.Done(), "nothing may follow the refusal")
	require.NoError(t, m.Accept(endToken))
}

func TestStatePacking(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		flag := func() bool { return rng.IntN(2) == 1 }
		p := spot{
			mode: mode(rng.IntN(7)), cited: flag(), solid: flag(), colon: flag(), closed: flag(), hard: flag(),
			word: wordPart(rng.IntN(int(firstAbbreviation) + len(wordTrie))), rune: partialRune{uint8(rng.IntN(4)), uint8(rng.IntN(4)), uint32(rng.IntN(1 << 15))},
			number: rng.IntN(maxPassages + 1), said: rng.IntN(maxRefusal+2) - 1,
		}
		require.Equal(t, p, p.pack().spot())
	}
	require.Less(t, int(firstAbbreviation)+len(wordTrie), 1024)
}

func TestPartialRune(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r += 1 + r/97 {
		var p partialRune
		var got rune
		ok := true
		for _, b := range []byte(string(r)) {
			p, got, ok = p.push(b)
			require.True(t, ok)
		}
		if utf8.ValidRune(r) {
			require.Equal(t, r, got)
		}
	}
}

// FuzzPartialRune: the decoder takes exactly the valid UTF-8 that the standard library takes.
func FuzzPartialRune(f *testing.F) {
	for _, s := range []string{"aé日😀", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xc3"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p partialRune
		ok := true
		for _, b := range data {
			if p, _, ok = p.push(b); !ok {
				break
			}
		}
		require.Equal(t, utf8.Valid(data), ok && p.left == 0)
	})
}

// FuzzCited feeds arbitrary token ids: whatever is accepted keeps the promises, and there is always a way on.
func FuzzCited(f *testing.F) {
	f.Add([]byte("It rained. [1] Then it stopped [2]."), uint8(2), true)
	f.Add([]byte(refusal), uint8(3), true)
	f.Add([]byte("雨が降った。[1]"), uint8(1), true)
	f.Add([]byte("a [12] b"), uint8(12), false)
	v := testVocab()
	f.Fuzz(func(t *testing.T, data []byte, passages uint8, strict bool) {
		g := Cited(v, CitedOptions{Passages: int(passages), EverySentence: strict, Refusal: refusal})
		m := g.Matcher()
		var out []byte
		for _, b := range data {
			if m.Accept(firstByte+Token(b)) == nil {
				out = append(out, b)
			}
		}
		require.True(t, slices.ContainsFunc(m.Mask(), func(w uint64) bool { return w != 0 }), "dead end after %q", out)
		if m.Complete() && strings.TrimSpace(string(out)) != refusal {
			checkMarkers(t, string(out), int(passages))
		}
	})
}

func BenchmarkMask(b *testing.B) {
	// A vocabulary of the size and shape of a real one: random words of letters.
	rng := rand.New(rand.NewPCG(1, 1))
	const size = 49152
	tokens := make([][]byte, size)
	for i := range tokens {
		w := []byte{}
		if rng.IntN(2) == 0 {
			w = append(w, ' ')
		}
		for range 1 + rng.IntN(9) {
			w = append(w, byte('a'+rng.IntN(26)))
		}
		tokens[i] = w
		if i < 256 {
			tokens[i] = []byte{byte(i)}
		}
	}
	v := NewVocab(size, func(t Token) []byte { return tokens[t] }, func(Token) bool { return false }, func(t Token) bool { return t == size-1 })
	for _, strict := range []bool{false, true} {
		g := Cited(v, CitedOptions{Passages: 5, EverySentence: strict, Refusal: refusal})
		m := g.Matcher()
		for _, c := range []byte("It rai") {
			_ = m.Accept(Token(c))
		}
		b.Run(fmt.Sprintf("cited/strict=%v/%d", strict, size), func(b *testing.B) {
			dst, states := make([]uint64, v.Words()), make([]state, v.depth+1)
			for b.Loop() {
				v.mask(g.auto, m.state, dst, states)
			}
		})
	}
}
