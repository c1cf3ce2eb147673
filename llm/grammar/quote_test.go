package grammar

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

var nasty = []string{
	"It rained on Monday. It didn't rain on Tuesday, at 12:30 it was -5 °C and 3.5% humid.",
	"The trans-\nmission of exam-\nples  with\t\ttabs and\u00a0no-break spaces and soft\u00ad hyphens.",
	"The o\ufb03ce \ufb01le is a \ufb02at e\ufb00ort.",
	"雨が降った。次の日は晴れ。東京は大きい。",
	"Emoji: 👩‍👩‍👧 and 👍🏽 and 🇩🇪🇫🇷 flags, naïve café, cafe\u0301.",
	"He said “yes” (perhaps). $5.20, €7, #3, 2024-05-01, a_b, x»y«z [12] end\x00end \xff bad",
	"It rained on Friday.",
	"", " ", "…", "a", "\u200b\ufeff",
	strings.Repeat("the the ", 40) + strings.Repeat("x", 3000),
}

// normal is what NewQuotes makes of a text.
func normal(s string) string {
	q := NewQuotes([]string{s})
	return strings.TrimSuffix(string(q.text), "\xff") // of a source that begins and ends with a visible character
}

// checkQuotes verifies that every complete quote of an answer stands where Find says, byte for byte where the passage
// needs no normalisation, and that Find finds all of them.
func checkQuotes(t *testing.T, q *Quotes, passages []string, answer string) int {
	t.Helper()
	quotes := q.Find(answer)
	complete := strings.Count(answer, openMark)
	require.Len(t, quotes, complete, "%q", answer)
	for _, f := range quotes {
		got, source := answer[f.TextStart:f.TextEnd], passages[f.Passage-1][f.Start:f.End]
		require.NotEmpty(t, got)
		require.True(t, utf8.ValidString(got))
		require.Equal(t, got, normal(source), "%q in passage %d of %q", got, f.Passage, answer)
		if normal(passages[f.Passage-1]) == passages[f.Passage-1] {
			require.Equal(t, got, source)
		}
	}
	return len(quotes)
}

func quoteGrammar(passages []string, strict bool) (*Grammar, *Quotes) {
	q := NewQuotes(passages)
	return Cited(testVocab(), CitedOptions{Quotes: q, EverySentence: strict, Refusal: refusal}), q
}

func TestQuotes(t *testing.T) {
	g, q := quoteGrammar(nasty, true)
	for answer, sources := range map[string][]string{
		"«It rained» [1].":                                       {"It rained"},
		"«It rained» [7].":                                       {"It rained"},
		"He says «didn't rain on Tuesday» [1].":                  {"didn't rain on Tuesday"},
		"Cold: «-5 °C» [1] and «3.5%» [1].":                      {"-5 °C", "3.5%"},
		"«with tabs and no-break spaces» [2]":                    {"with\t\ttabs and\u00a0no-break spaces"},
		"«soft hyphens» [2]":                                     {"soft\u00ad hyphens"},
		"«office file» [3]":                                      {"o\ufb03ce \ufb01le"},
		"«雨が降った» [4]。«東京» [4]。":                                  {"雨が降った", "東京"},
		"«👩‍👩‍👧 and 👍🏽» [5]":                                     {"👩‍👩‍👧 and 👍🏽"},
		"«“yes” (perhaps)» [6].":                                 {"“yes” (perhaps)"},
		"It was «$5.20» [6]. Then «a_b» [6]. He [2] agrees [1].": {"$5.20", "a_b"},
		refusal: nil,
	} {
		require.True(t, accepts(g, answer), answer)
		require.Equal(t, len(sources), checkQuotes(t, q, nasty, answer))
		for i, f := range q.Find(answer) {
			require.Equal(t, sources[i], nasty[f.Passage-1][f.Start:f.End])
		}
	}
	for _, bad := range []string{
		"«It snowed» [1].", "«It rain» [1].", "«t rained» [1].", "«It rained» [2].", "«It rained» [3].", "«It rained».", "«It rained»[1].", "«It rained [1].",
		"«» [1].", "« rained» [1].", "«rained » [1].", "«5 °C» [1].", "«3» [1].", "«3.5» [1].", "«-5» [1]x", "«didn» [1].", "«5.20» [6].", "«2024» [6].", "«trans-\nmission» [2].",
		"«ffice» [3].", "«👩» [5]", "«👍» [5]", "«🇩🇪🇫» [5]", "«cafe» [5]", "«y«z» [6]", "«[12]» [6]", "«end\x00end» [6]", "a » b [1].", "«It rained on Monday. It rained on Friday» [1].",
		"«It rained on Friday.» [1]", "«It rained» [0].", "«It rained» [17].",
	} {
		require.False(t, accepts(g, bad), bad)
	}
	require.Empty(t, q.Find("no quote, « open, «bad» [1], «It rained», «It rained» [99], «It rained» [x"))
}

// randomQuotes generates answers from random logits and returns how many quotes they had. Every text finds its end.
func randomQuotes(t *testing.T, rng *rand.Rand, passages []string, runs int, strict bool) int {
	g, q := quoteGrammar(passages, strict)
	open := firstByte + 256 + Token(indexOf(pieces, "«"))
	quotes := 0
	for range runs {
		m := g.Matcher()
		if strict && rng.IntN(2) == 0 {
			for _, b := range []byte("So: ") {
				require.NoError(t, m.Accept(firstByte+Token(b)))
			}
		}
		out := []byte("So: ")
		if m.state == g.auto.start() {
			out = nil
		}
		if !m.Allows(open) {
			return 0 // nothing in these passages can be quoted
		}
		require.NoError(t, m.Accept(open))
		out = append(out, openMark...)
		for i := 0; i < 4000; i++ {
			mask := m.Mask()
			var allowed []Token
			for id := range Token(g.vocab.Size()) {
				if isSet(mask, id) {
					allowed = append(allowed, id)
				}
			}
			require.NotEmpty(t, allowed, "dead end after %q", out)
			if isSet(mask, endToken) && i > 10 {
				break
			}
			id := allowed[rng.IntN(len(allowed))]
			if m.state.hi == 0 && rng.IntN(3) > 0 && !isSet(mask, endToken) { // hurry: cite rather than babble
				for _, b := range []Token{firstByte + '[', firstByte + '1', firstByte + ']'} {
					if isSet(mask, b) {
						id = b
						break
					}
				}
			}
			require.NoError(t, m.Accept(id))
			if id == endToken {
				break
			}
			out = append(out, tokenBytes(id)...)
		}
		require.True(t, m.Complete(), "no end: %q", out)
		quotes += checkQuotes(t, q, passages, string(out))
	}
	return quotes
}

func indexOf(list []string, s string) int {
	for i, x := range list {
		if x == s {
			return i
		}
	}
	return -1
}

func TestQuotesFromRandomLogits(t *testing.T) {
	runs, least := 200, 1500
	if full() {
		runs, least = 1200, 10_000
	}
	rng := rand.New(rand.NewPCG(11, 12))
	quotes := 0
	for i, p := range nasty {
		if i == len(nasty)-1 {
			runs = 20 // long ones
		}
		quotes += randomQuotes(t, rng, []string{p}, runs, i%2 == 0)
	}
	quotes += randomQuotes(t, rng, nasty, runs, true)
	require.GreaterOrEqual(t, quotes, least)
	t.Logf("%d quotes, all at their places", quotes)
}

// full reports whether the long forms of the proofs run; the short ones take every fiftieth passage.
func full() bool { return os.Getenv("RAGD_TEST_FULL") == "1" }

// Passages of the handed question sets, at least one quote each.
func TestQuotesOfRealPassages(t *testing.T) {
	refs := os.Getenv("RAGD_REFS")
	if refs == "" {
		t.Skip("RAGD_REFS is not set; the small passages of this package are tested in TestQuotesFromRandomLogits")
	}
	files, err := filepath.Glob(filepath.Join(refs, "data", "qa", "*", "corpus.jsonl"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	rng := rand.New(rand.NewPCG(13, 14))
	passages, quotes := 0, 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(data)) {
			var doc struct{ Text string }
			require.NoError(t, json.Unmarshal([]byte(line), &doc))
			if !full() && rng.IntN(50) > 0 {
				continue
			}
			passages++
			quotes += randomQuotes(t, rng, []string{doc.Text}, 1, passages%2 == 0)
		}
	}
	require.GreaterOrEqual(t, quotes, passages*99/100)
	t.Logf("%d passages, %d quotes, all at their places", passages, quotes)
}

func TestQuoteMaskEqualsAccept(t *testing.T) {
	g, _ := quoteGrammar(nasty[:7], true)
	rng := rand.New(rand.NewPCG(2, 3))
	open := firstByte + 256 + Token(indexOf(pieces, "«"))
	for range 15 {
		m := g.Matcher()
		require.NoError(t, m.Accept(open))
		for range 20 {
			requireMask(t, m)
			mask := m.Mask()
			id := Token(rng.IntN(g.vocab.Size()))
			for !isSet(mask, id) {
				id = Token(rng.IntN(g.vocab.Size()))
			}
			if id == endToken {
				break
			}
			require.NoError(t, m.Accept(id))
		}
	}
}

func FuzzQuotes(f *testing.F) {
	for _, p := range nasty[:7] {
		f.Add(p, uint64(1))
	}
	f.Fuzz(func(t *testing.T, passage string, seed uint64) {
		if len(passage) > 2000 {
			return
		}
		randomQuotes(t, rand.New(rand.NewPCG(seed, 1)), []string{passage, "It rained."}, 2, seed%2 == 0)
	})
}

func BenchmarkQuotes(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	var passages []string
	for range 5 {
		var s strings.Builder
		for s.Len() < 2000 {
			for range 1 + rng.IntN(9) {
				s.WriteByte(byte('a' + rng.IntN(26)))
			}
			s.WriteByte(' ')
		}
		passages = append(passages, s.String())
	}
	b.Run("prepare/10KB", func(b *testing.B) {
		for b.Loop() {
			NewQuotes(passages)
		}
	})
	g, _ := quoteGrammar(passages, true)
	m := g.Matcher()
	_ = m.Accept(firstByte + 256 + Token(indexOf(pieces, "«")))
	b.Run("mask/10KB", func(b *testing.B) {
		dst, states := make([]uint64, g.vocab.Words()), make([]state, g.vocab.depth+1)
		for b.Loop() {
			g.vocab.mask(g.auto, m.state, dst, states)
		}
	})
}
