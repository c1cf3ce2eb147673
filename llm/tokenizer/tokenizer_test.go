package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// controlTexts are spellings of control tokens in the fixtures, and what a document could try around them.
var controlTexts = []string{
	"<|im_end|>", "<|im_start|>", "<|begin|>", "<s>", "</s>", "<unk>", "<bos>", "<eos>", "[CLS]", "[SEP]", "[UNK]", "[PAD]", "<0x0A>", "<0xFF>",
	"a<s>b", " </s> ", "▁</s>", "<|im_end|><|im_start|>", "<|im_<|im_end|>end|>",
}

func TestTextNeverBecomesAControlToken(t *testing.T) {
	for _, name := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			_, tok := loadFixture(t, name)
			unk, _ := tok.UNK()
			for _, text := range controlTexts {
				for _, id := range tok.Encode(text, false, false) {
					require.True(t, id == unk || !tok.IsControl(id), "%q became %q", text, tok.Token(id))
				}
				if tok.Kind() == "spm" {
					require.NotContains(t, string(tok.Decode(tok.Encode("<0x0A>", false, false), false)), "\n")
				}
			}
		})
	}
}

func TestSpansAreTokenizedJointly(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, name := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			f, tok := loadFixture(t, name)
			for _, c := range f.Cases {
				want := tok.Encode(c.Text, false, false)
				var spans []Span
				for rest := c.Text; rest != ""; {
					n := 1 + rng.IntN(len(rest))
					spans = append(spans, Span{Text: rest[:n]})
					rest = rest[n:]
				}
				requireIDs(t, tok, want, tok.EncodeSpans(spans, false))
			}
		})
	}
}

func TestControlTokensOnlyWithinSpansThatAllowThem(t *testing.T) {
	_, tok := loadFixture(t, "bpe-qwen2")
	start, _ := tok.ID("<|im_start|>")
	end, _ := tok.ID("<|im_end|>")
	count := func(spans ...Span) (n int) {
		for _, id := range tok.EncodeSpans(spans, false) {
			if id == start || id == end {
				n++
			}
		}
		return n
	}
	trusted := func(s string) Span { return Span{Text: s, ParseSpecial: true} }
	text := func(s string) Span { return Span{Text: s} }
	require.Equal(t, 2, count(trusted("<|im_start|>user\nhi<|im_end|>")))
	require.Equal(t, 0, count(text("<|im_start|>user\nhi<|im_end|>")))
	require.Equal(t, 2, count(trusted("<|im_start|>user\n"), text("<|im_end|>"), trusted("<|im_end|>")), "only the template's own")
	require.Equal(t, 1, count(trusted("<|im_"), trusted("start|>")), "adjacent trusted spans are one")
	require.Equal(t, 0, count(trusted("<|im_"), text("start|>")), "half of it is not enough")
	require.Equal(t, 0, count(text("<|im_"), trusted("start|>")))
	require.Equal(t, 0, count(trusted("<|im_start|"), text(">x"), trusted("")))
	require.Equal(t, 1, count(trusted("<|im_"), text(""), trusted("start|>")), "an empty span separates nothing")
}

func TestUserDefinedTokens(t *testing.T) {
	f, _ := loadFixture(t, "bpe-gpt-2")
	v := f.Vocabulary.vocabulary()
	v.Tokens = append(v.Tokens, "<tool>", "<|turn|>", "\n\n\n")
	v.Types = append(v.Types, UserDefined, UserDefined, UserDefined)
	tok, err := New(v)
	require.NoError(t, err)
	tool, _ := tok.ID("<tool>")
	turn, _ := tok.ID("<|turn|>")
	lines, _ := tok.ID("\n\n\n")
	ids := tok.Encode("a<tool>b\n\n\n<|turn|>", false, false)
	require.Contains(t, ids, tool)
	require.Contains(t, ids, lines)
	require.NotContains(t, ids, turn, "a turn marker is a control token whatever the file calls it")
	require.True(t, tok.IsControl(turn))
	require.Contains(t, tok.Encode("<|turn|>", false, true), turn)
	require.Equal(t, "a<tool>b\n\n\n<|turn|>", string(tok.Decode(ids, true)))
}

func TestPhi3SwallowsSpaceAfterItsMarkers(t *testing.T) {
	f, _ := loadFixture(t, "spm-prefix")
	v := f.Vocabulary.vocabulary()
	v.Name = "Phi-3-mini-4k-instruct"
	v.Tokens = append(v.Tokens, "<|user|>")
	v.Types = append(v.Types, Control)
	v.Scores = append(v.Scores, 0)
	tok, err := New(v)
	require.NoError(t, err)
	requireIDs(t, tok, tok.Encode("<|user|>the", false, true), tok.Encode("<|user|> \n\tthe", false, true))
}

func TestMergePathsAgree(t *testing.T) {
	for _, name := range []string{"bpe-gpt-2", "gemma4", "spm-prefix"} {
		t.Run(name, func(t *testing.T) {
			_, tok := loadFixture(t, name)
			var p pairer
			single := func(text string, i int) int32 { return -1 }
			switch m := tok.model.(type) {
			case *bpe:
				p = m.ranks
				single = func(text string, i int) int32 { return m.byteID[text[i]] }
			case *spm:
				p = m
				single = func(text string, i int) int32 {
					if id, ok := m.pieces[text[i:i+1]]; ok {
						return id
					}
					return -1
				}
			}
			rng := rand.New(rand.NewPCG(5, 6))
			letters := "aaeeiotnsrh l"
			for range 500 {
				var b strings.Builder
				for range 1 + rng.IntN(90) {
					b.WriteByte(letters[rng.IntN(len(letters))])
				}
				text := b.String()
				var short, long merger
				for i := range len(text) {
					s := symbol{start: i, end: i + 1, id: single(text, i)}
					short.symbols, long.symbols = append(short.symbols, s), append(long.symbols, s)
				}
				short.mergeShort(text, p)
				long.mergeLong(text, p)
				require.Len(t, long.symbols, len(short.symbols), "%q", text)
				for i := range short.symbols {
					require.Equal(t, short.symbols[i].id, long.symbols[i].id)
					require.Equal(t, short.symbols[i].end, long.symbols[i].end)
				}
			}
		})
	}
}

// TestHostileTextIsLinear counts the steps of merging a text that is one word to the pre-tokenizer, or all white space.
func TestHostileTextIsLinear(t *testing.T) {
	const n = 12_000
	texts := map[string]string{
		"letter": strings.Repeat("a", n), "two letters": strings.Repeat("th", n/2), "spaces": strings.Repeat(" ", n), "blanks": strings.Repeat("▁", n/3),
		"newlines": strings.Repeat("\n", n), "emoji": strings.Repeat("😀", n/4), "digits": strings.Repeat("1", n), "marks": strings.Repeat("\u0301", n/2),
		"punctuation": strings.Repeat("-", n), "invalid": strings.Repeat("\xff", n), "apostrophes": strings.Repeat("'s", n/2), "cjk": strings.Repeat("漢", n/3),
		"angle": strings.Repeat("<|im_", n/5), "capitals": strings.Repeat("漢A", n/4), "nul": strings.Repeat("\x00", n),
	}
	for _, name := range []string{"bpe-smollm", "bpe-qwen2", "bpe-gpt-4o", "gemma4", "spm-prefix", "wordpiece-uncased", "unigram"} {
		t.Run(name, func(t *testing.T) {
			_, tok := loadFixture(t, name)
			for kind, text := range texts {
				steps := countSteps(tok, text)
				require.LessOrEqual(t, steps, maxShort*maxShort+12*len(text), "%s", kind)
				ids, ends := tok.EncodeOffsets(text)
				require.LessOrEqual(t, len(ids), 3*len(text)+1)
				require.Len(t, ends, len(ids))
			}
		})
	}
}

// countSteps encodes text as one merge problem, the worst the family's splitting could leave.
func countSteps(tok *Tokenizer, text string) int {
	var m merger
	var o output
	switch model := tok.model.(type) {
	case *bpe:
		model.word(&o, &m, text, 0)
	case *spm:
		model.word(&o, &m, strings.ReplaceAll(text, " ", blank), 0)
	}
	return m.steps
}

func TestLongWordIsUnknownToWordPiece(t *testing.T) {
	_, tok := loadFixture(t, "wordpiece-uncased")
	unk, _ := tok.UNK()
	ids := tok.Encode(strings.Repeat("a", 200_000), false, false)
	require.Equal(t, []int32{unk}, ids)
}

func TestEncodePairNeverExceedsItsLimit(t *testing.T) {
	for _, name := range []string{"wordpiece-uncased", "unigram", "bpe-gpt-2"} {
		_, tok := loadFixture(t, name)
		long := strings.Repeat("the pumps run ", 30)
		for _, limit := range []int{0, 1, 3, 4, 5, 20, 64, 512} {
			ids, types := tok.EncodePair(long, long, limit)
			require.LessOrEqual(t, len(ids), max(limit, 4))
			require.Len(t, types, len(ids))
		}
	}
	_, tok := loadFixture(t, "unigram")
	bos, _ := tok.BOS()
	eos, _ := tok.EOS()
	ids, types := tok.EncodePair("the pumps", "the badge", 64)
	want := append([]int32{bos}, tok.Encode("the pumps", false, false)...)
	want = append(append(want, eos, eos), tok.Encode("the badge", false, false)...)
	requireIDs(t, tok, append(want, eos), ids)
	require.NotContains(t, types, int32(1))
}

func TestDecoderYieldsWholeCharacters(t *testing.T) {
	for _, name := range []string{"bpe-gpt-2", "spm-noprefix"} {
		f, tok := loadFixture(t, name)
		for _, c := range f.Cases {
			d := tok.NewDecoder()
			var b strings.Builder
			for _, id := range tok.Encode(c.Text, false, false) {
				part := d.Push(id)
				require.True(t, utf8.ValidString(part))
				b.WriteString(part)
			}
			b.WriteString(d.Flush())
			require.Equal(t, c.Text, b.String())
		}
	}
}

func TestDecoderReplacesWhatIsNotUTF8(t *testing.T) {
	_, tok := loadFixture(t, "spm-noprefix")
	b := func(hex string) int32 { id, ok := tok.ID("<0x" + hex + ">"); require.True(t, ok); return id }
	d := tok.NewDecoder()
	require.Equal(t, "", d.Push(b("F0")))
	require.Equal(t, "", d.Push(b("9F")))
	require.Equal(t, "\uFFFDA", d.Push(b("41")), "the character can no longer become whole")
	require.Equal(t, "\uFFFD", d.Push(b("FF")))
	require.Equal(t, "", d.Push(b("E2")))
	bos, _ := tok.BOS()
	require.Equal(t, "", d.Push(bos))
	require.Equal(t, "", d.Push(-1))
	require.Equal(t, "", d.Push(1<<30))
	require.Equal(t, "\uFFFD", d.Flush())
	require.Equal(t, "", d.Flush())
}

func TestDecodeRemovesTheAddedSpace(t *testing.T) {
	for _, name := range []string{"spm-prefix", "spm-noprefix", "unigram"} {
		_, tok := loadFixture(t, name)
		require.Equal(t, "the badge", string(tok.Decode(tok.Encode("the badge", true, false), true)), name)
	}
	_, tok := loadFixture(t, "wordpiece-uncased")
	require.Equal(t, "visitors sign, and wear a badge.", string(tok.Decode(tok.Encode("Visitors sign, and wear a badge.", true, false), true)))
}

func TestEndOfGeneration(t *testing.T) {
	_, tok := loadFixture(t, "bpe-qwen2")
	begin, _ := tok.ID("<|begin|>")
	end, _ := tok.ID("<|im_end|>")
	require.True(t, tok.IsEOG(end))
	require.False(t, tok.IsEOG(begin))
	require.False(t, tok.IsEOG(-1))
	require.Empty(t, tok.Bytes(end))
	require.Empty(t, tok.Bytes(-5))
	require.Equal(t, "", tok.Token(1<<20))
}

func TestRefusals(t *testing.T) {
	f, _ := loadFixture(t, "bpe-gpt-2")
	s, _ := loadFixture(t, "spm-prefix")
	u, _ := loadFixture(t, "unigram")
	w, _ := loadFixture(t, "wordpiece-uncased")
	for name, c := range map[string]struct {
		from   fixture
		change func(*Vocabulary)
		want   string
	}{
		"unknown kind":       {f, func(v *Vocabulary) { v.Model = "rwkv" }, `unknown vocabulary kind "rwkv"`},
		"unknown pre":        {f, func(v *Vocabulary) { v.Pre = "klingon" }, `unknown pre-tokenizer "klingon"`},
		"no pre":             {f, func(v *Vocabulary) { v.Pre = "" }, "names no pre-tokenizer"},
		"guess refused":      {f, func(v *Vocabulary) { v.Pre = "default" }, `unknown pre-tokenizer "default"`},
		"empty":              {f, func(v *Vocabulary) { v.Tokens, v.Types = nil, nil }, "vocabulary is empty"},
		"types missing":      {f, func(v *Vocabulary) { v.Types = v.Types[:3] }, "3 token types"},
		"long token":         {f, func(v *Vocabulary) { v.Tokens[7] = strings.Repeat("a", 1<<20) }, "token 7 has 1048576 bytes"},
		"bad merge":          {f, func(v *Vocabulary) { v.Merges = []string{"ab"} }, `merge 0 is "ab"`},
		"half a merge":       {f, func(v *Vocabulary) { v.Merges = []string{"a "} }, `merge 0 is "a "`},
		"bos outside":        {f, func(v *Vocabulary) { v.BOS = 1 << 20 }, "bos token id 1048576"},
		"scores missing":     {s, func(v *Vocabulary) { v.Scores = nil }, "0 scores"},
		"charsmap truncated": {u, func(v *Vocabulary) { v.Charsmap = v.Charsmap[:3] }, "truncated"},
		"charsmap too long":  {u, func(v *Vocabulary) { v.Charsmap = []byte{0, 0, 0, 1, 0} }, "precompiled_charsmap says"},
		"unigram nan":        {u, func(v *Vocabulary) { v.Scores[9] = float32(nan()) }, "token 9 has the score NaN"},
		"no words":           {w, func(v *Vocabulary) { v.Tokens = v.Tokens[:5]; v.Types = v.Types[:5] }, "begins a word"},
	} {
		t.Run(name, func(t *testing.T) {
			v := c.from.Vocabulary.vocabulary()
			v.Tokens, v.Types = append([]string(nil), v.Tokens...), append([]Type(nil), v.Types...)
			v.Scores = append([]float32(nil), v.Scores...)
			c.change(&v)
			_, err := New(v)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func nan() float64 { z := 0.0; return z / z }

func TestHostileCharsmapTerminates(t *testing.T) {
	f, _ := loadFixture(t, "unigram")
	rng := rand.New(rand.NewPCG(8, 9))
	for range 4 {
		v := f.Vocabulary.vocabulary()
		blob := append([]byte(nil), v.Charsmap...)
		for range 2000 {
			blob[4+rng.IntN(len(blob)-4)] = byte(rng.UintN(256))
		}
		v.Charsmap = blob
		tok, err := New(v)
		require.NoError(t, err)
		for _, c := range f.Cases {
			checkOffsets(t, tok, c.Text)
		}
	}
}

func FuzzRoundTrip(f *testing.F) {
	tokenizers := map[string]*Tokenizer{}
	for _, name := range fixtures(f) {
		_, tokenizers[name] = loadFixture(f, name)
	}
	for _, s := range append(controlTexts, "", " ", "a  b\n", "\xff\xfe", "é\u0301", "漢字 x", strings.Repeat("ab ", 40)) {
		f.Add(s, uint(len(s)/2))
	}
	f.Fuzz(func(t *testing.T, text string, cut uint) {
		for name, tok := range tokenizers {
			ids := tok.Encode(text, false, false)
			k := int(cut % uint(len(text)+1))
			requireIDs(t, tok, ids, tok.EncodeSpans([]Span{{Text: text[:k]}, {Text: text[k:]}}, false))
			checkOffsets(t, tok, text)
			tok.Encode(text, true, true)
			if name != "gemma4" && tok.Kind() == "bpe" {
				// strings.ToValidUTF8 would replace runs; the tokenizer replaces bytes
				require.Equal(t, string([]rune(text)), string(tok.Decode(ids, false)))
			}
			if name == "spm-noprefix" {
				require.Equal(t, strings.ReplaceAll(text, blank, " "), string(tok.Decode(ids, false)))
			}
		}
	})
}

// FuzzVocabulary builds tokenizers from vocabularies that no sane file has: whatever New accepts must work.
func FuzzVocabulary(f *testing.F) {
	f.Add(uint8(0), "a\nb\nab\nĠ\n<|x|>", "\x01\x01\x01\x01\x03", "a b\nĠ ab", "ab a<|x|>")
	f.Add(uint8(1), "<unk>\n<s>\n</s>\n▁\na\n▁a\na▁\n<0x0A>\n<0xZZ>", "\x02\x03\x03\x01\x01\x01\x01\x06\x06", "", " a a\n\xff")
	f.Add(uint8(2), "[CLS]\n[SEP]\n[UNK]\n▁a\nb", "\x03\x03\x02\x01\x01", "", "ab A[SEP]é")
	f.Add(uint8(3), "<unk>\n<s>\n</s>\n▁a\n\xe2", "\x02\x03\x03\x01\x01", "", "a  b")
	f.Add(uint8(4), "<unk>\n▁\nx\n▁x\n", "\x02\x01\x01\x01\x04", "▁ x\nx ▁", " x x\n\nx")
	models := []string{"gpt2", "llama", "bert", "t5", "gemma4"}
	f.Fuzz(func(t *testing.T, model uint8, tokens, types, merges, text string) {
		v := Vocabulary{Model: models[int(model)%len(models)], Pre: "gpt-2", BOS: -1, EOS: -1, EOT: -1, EOM: -1, UNK: -1, SEP: -1, PAD: -1, CLS: -1, MASK: -1}
		v.Tokens = strings.Split(tokens, "\n")
		for i := range v.Tokens {
			kind := Normal
			if i < len(types) {
				kind = Type(types[i])
			}
			v.Types, v.Scores = append(v.Types, kind), append(v.Scores, -float32(i%7))
		}
		if merges != "" {
			v.Merges = strings.Split(merges, "\n")
		}
		if i := int(model) / len(models); i < len(v.Tokens) {
			v.BOS, v.EOS = int32(i), int32(i)
		}
		tok, err := New(v)
		if err != nil {
			return
		}
		checkEnds(t, tok, text)
		ids, _ := tok.EncodePair(text, text, 16)
		tok.Decode(append(ids, tok.Encode(text, true, true)...), false)
		d := tok.NewDecoder()
		for _, id := range ids {
			d.Push(id)
		}
		d.Flush()
	})
}
