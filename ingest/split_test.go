package ingest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// wordEnds is a tokenizer for tests: a word of up to 6 bytes is a token, white
// space belongs to the token after it, invisible characters to none.
func wordEnds(text string) []int {
	var ends []int
	run := 0
	for i, r := range text {
		n := utf8.RuneLen(r)
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			run = 0
			if unicode.IsPunct(r) || unicode.IsSymbol(r) {
				ends = append(ends, i+n)
			}
		case run > 0 && run+n <= 6:
			ends[len(ends)-1] = i + n
			run += n
		default:
			ends = append(ends, i+n)
			run = n
		}
	}
	return ends
}

// requireSplit checks the invariants of passages against their document.
func requireSplit(t testing.TB, s *Splitter, d *Document) []Passage {
	t.Helper()
	ps := s.Split(d)
	covered := make([]bool, len(d.Text))
	last := 0
	for i, p := range ps {
		require.Less(t, p.Start, p.End)
		require.Equal(t, d.Text[p.Start:p.End], p.Text)
		require.True(t, utf8.ValidString(p.Text), "passage %d cuts a character", i)
		require.True(t, utf8.ValidString(p.Context))
		require.LessOrEqual(t, len(s.ends(p.Indexed())), s.maxTokens(), "passage %d: %q", i, p.Indexed())
		require.Equal(t, len(s.ends(p.Indexed())), p.Tokens)
		require.GreaterOrEqual(t, p.Start, last, "passages are in order")
		last = p.Start
		page := pageAt(d, p.Start)
		require.Equal(t, page.Number, p.Page)
		require.LessOrEqual(t, p.End, page.End, "passage %d straddles pages", i)
		for j := p.Start; j < p.End; j++ {
			covered[j] = true
		}
	}
	for i, r := range d.Text {
		if !covered[i] && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			require.Fail(t, "text in no passage", "byte %d: %q", i, around(d.Text, i))
		}
	}
	return ps
}

func pageAt(d *Document, at int) Page {
	for _, p := range d.Pages {
		if at >= p.Start && at < p.End {
			return p
		}
	}
	return Page{Number: -1}
}

func around(s string, i int) string {
	return strings.ToValidUTF8(s[max(0, i-30):min(len(s), i+30)], "")
}

// TestSplitRandom: documents without rhyme or reason keep the invariants too.
func TestSplitRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	words := []string{"a", "the", "Leave.", "e.g.", "words,", "日本語。", "été", "x\ty", "naïve", "1.", "e\u0301", "\u200b", "—", "unbreakable" + strings.Repeat("x", 300), "\ue000"}
	for round := range 100 {
		var d Document
		var text strings.Builder
		pages := 1 + rng.IntN(3)
		for page := range pages {
			start := text.Len()
			for range rng.IntN(12) {
				text.WriteString([]string{"\n", "\n\n", " "}[rng.IntN(3)])
				from := text.Len()
				for range rng.IntN(120) {
					text.WriteString(words[rng.IntN(len(words))] + []string{" ", " ", " ", "\n", "\t"}[rng.IntN(5)])
				}
				if text.Len() == from || rng.IntN(5) == 0 { // text outside any block
					continue
				}
				b := Block{Kind: BlockKind(rng.IntN(len(blockKindNames))), Level: 1 + rng.IntN(3), Start: from, End: text.Len()}
				if b.HeaderEnd = b.Start; b.Kind == Table && rng.IntN(2) == 0 {
					if i := strings.IndexByte(text.String()[from:], '\n'); i > 0 {
						b.HeaderEnd = from + i
					}
				}
				d.Blocks = append(d.Blocks, b)
			}
			d.Pages = append(d.Pages, Page{Number: page + 1, Start: start, End: text.Len()})
		}
		d.Text, d.Title = text.String(), strings.Repeat("Title ", rng.IntN(30))
		s := &Splitter{MaxTokens: 16 + rng.IntN(300), Overlap: 1 + rng.IntN(60), Ends: wordEnds}
		ps := requireSplit(t, s, &d)
		require.Equal(t, ps, s.Split(&d), "round %d: same input, same passages", round)
	}
}

func sentences(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "Statement number %d tells the reader something about the matter at hand. ", i)
	}
	return strings.TrimSpace(out.String())
}

func TestSplitStructure(t *testing.T) {
	md := "# Handbook\n\n## Leave\n\n" + sentences(8) + "\n\n## Travel\n\n" + sentences(10) + "\n\nThe following is paid:\n\n- trains\n- hotels\n\n### Rates\n\n| City | Rate |\n|---|---|\n" +
		strings.Repeat("| Somewhere far away | 120 |\n", 60)
	d := parseBytes(t, "h.md", []byte(md))
	s := &Splitter{MaxTokens: 200, Ends: wordEnds}
	ps := requireSplit(t, s, d)
	rows := 0
	for _, p := range ps {
		require.NotRegexp(t, `(?m)^#.*\z`, p.Text, "a heading must not be left at the end of a passage")
		require.NotRegexp(t, `:\s*\z`, p.Text, "an introduction must not be cut from its list")
		if strings.HasPrefix(p.Text, "| Somewhere") {
			rows++
			require.Equal(t, "Handbook > Travel > Rates\n| City | Rate |\n|---|---|", p.Context)
			require.Equal(t, "Handbook > Travel > Rates", p.Heading)
			require.True(t, strings.HasSuffix(p.Text, "|"), "a row was cut")
		}
	}
	require.Greater(t, rows, 1)
	require.Equal(t, "Handbook > Leave", passageWith(t, ps, "number 7").Heading)
}

func passageWith(t *testing.T, ps []Passage, text string) Passage {
	t.Helper()
	for _, p := range ps {
		if strings.Contains(p.Text, text) {
			return p
		}
	}
	require.Fail(t, "no passage with "+text)
	return Passage{}
}

// TestSplitOverlap: neighbours share whole sentences, and only inside a paragraph.
func TestSplitOverlap(t *testing.T) {
	text := sentences(60)
	d := parseBytes(t, "long.txt", []byte(text+"\n\n"+sentences(3)))
	s := &Splitter{MaxTokens: 160, Overlap: 30, Ends: wordEnds}
	ps := requireSplit(t, s, d)
	require.Greater(t, len(ps), 4)
	for i := 1; i < len(ps); i++ {
		require.True(t, strings.HasPrefix(ps[i].Text, "Statement number"), ps[i].Text)
		require.True(t, strings.HasSuffix(ps[i].Text, "hand."), ps[i].Text)
		if ps[i].Start < len(text) {
			shared := ps[i-1].End - ps[i].Start
			require.Positive(t, shared)
			require.LessOrEqual(t, len(wordEnds(text[ps[i].Start:ps[i-1].End])), 30)
		}
	}
}

func TestSplitPages(t *testing.T) {
	d := parseBytes(t, "a.pdf", pdfOf(pdfLines("# One", "", "Short first page."), pdfLines("Short second page."), ""))
	ps := requireSplit(t, &Splitter{}, d)
	require.Len(t, ps, 2)
	require.Equal(t, []int{1, 2}, []int{ps[0].Page, ps[1].Page})
	require.Equal(t, "One", ps[1].Heading)
}

// TestSplitLarge bounds the work on text without any structure: neither the
// cuts nor the tokens of all of it may be held or searched at once.
func TestSplitLarge(t *testing.T) {
	for name, text := range map[string]string{
		"one word":  strings.Repeat("x", 1<<20),
		"one line":  strings.Repeat("word ", 1<<18),
		"one table": "a,b\n" + strings.Repeat("1,2\n", 1<<17),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			d, err := Parse(ctx, name+".csv", []byte(text), Limits{})
			require.NoError(t, err)
			requireSplit(t, &Splitter{Ends: wordEnds}, d)
		})
	}
}

func BenchmarkSplit(b *testing.B) {
	d, err := Parse(b.Context(), "a.txt", []byte(strings.Repeat(sentences(40)+"\n\n", 40)), Limits{})
	require.NoError(b, err)
	s := &Splitter{Ends: wordEnds}
	b.SetBytes(int64(len(d.Text)))
	for b.Loop() {
		s.Split(d)
	}
}
