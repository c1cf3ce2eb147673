package tokenizer

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// blank stands for a space in SentencePiece and Unigram vocabularies, and for a word's beginning in WordPiece ones.
const blank = "▁"

// spm is SentencePiece's BPE (Llama 2, Gemma): symbols are characters, any two whose concatenation is a token merge, the highest score first;
// what is left over is spelled in byte tokens. With ranks set it is Gemma 4's variant, which merges by a list instead.
type spm struct {
	pieces    map[string]int32
	maxPiece  int
	priority  []uint32 // by id: order of the scores, descending
	ranks     ranks
	size      int32
	byteID    [256]int32
	unk       int32
	addPrefix bool
	lines     bool // nothing merges across line ends
	// joins[b]: some token has b right before a blank that is not at its beginning. Elsewhere no merge can cross the beginning of a
	// word, so words are merged one by one: same result, and each word is small.
	joins [256]bool
	known known
}

func (t *Tokenizer) initSPM(v *Vocabulary) error {
	s := t.newSPM(v)
	s.priority = make([]uint32, len(v.Tokens))
	for i, score := range v.Scores {
		s.priority[i] = descending(score)
	}
	s.addPrefix = option(v.AddSpacePrefix, true)
	t.stripSpace = s.addPrefix
	t.resolve(&t.bos, "<s>", "<bos>")
	t.resolve(&t.eos, "</s>", "<eos>")
	t.resolve(&t.unk, "<unk>")
	s.unk = t.unk
	t.surround(option(v.AddBOS, true), option(v.AddEOS, false))
	return nil
}

func (t *Tokenizer) initGemma4(v *Vocabulary) error {
	t.resolve(&t.bos, "<bos>")
	t.resolve(&t.eos, "<eos>")
	t.resolve(&t.unk, "<unk>")
	s := t.newSPM(v)
	t.kind, s.lines = "bpe", true
	r, err := newRanks(v.Merges, s.pieces, len(v.Tokens), func(piece string) string { return piece })
	if err != nil {
		return err
	}
	s.ranks = r
	for _, m := range v.Merges { // results that are no tokens can still take part in merges
		markJoins(&s.joins, strings.Replace(m, " ", "", 1))
	}
	t.surround(option(v.AddBOS, true), option(v.AddEOS, false))
	return nil
}

// newSPM fills the tables both variants share.
func (t *Tokenizer) newSPM(v *Vocabulary) *spm {
	t.kind = "spm"
	t.raw = make([]string, len(v.Tokens))
	s := &spm{pieces: make(map[string]int32, len(v.Tokens)), size: int32(len(v.Tokens)), unk: t.unk, known: make(known, len(v.Tokens))}
	for b := range s.byteID {
		s.byteID[b] = -1
	}
	t.model = s
	for i, text := range v.Tokens {
		switch v.Types[i] {
		case UserDefined:
			t.raw[i] = strings.ReplaceAll(text, blank, " ")
		case Byte:
			if b, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(text, "<0x"), ">"), 16, 8); err == nil {
				t.raw[i] = string([]byte{byte(b)})
				s.byteID[b] = int32(i)
			}
		case Normal:
			t.raw[i] = strings.ReplaceAll(text, blank, " ")
			if _, ok := s.pieces[text]; !ok {
				s.pieces[text] = int32(i)
			}
			s.maxPiece = max(s.maxPiece, len(text))
			markJoins(&s.joins, text)
		}
	}
	return s
}

// markJoins notes the bytes before each blank of a piece that is not at its beginning.
func markJoins(joins *[256]bool, piece string) {
	for at := len(piece) - len(strings.TrimLeft(piece, blank)); ; {
		k := strings.Index(piece[at:], blank)
		if k < 0 {
			return
		}
		at += k
		if b := piece[at-1]; b != blank[len(blank)-1] {
			joins[b] = true
		}
		at += len(blank)
	}
}

// descending maps scores to numbers that sort the other way round; not-a-number sorts last.
func descending(score float32) uint32 {
	if score != score {
		return noMerge - 1
	}
	bits := math.Float32bits(score)
	if bits>>31 == 0 {
		return ^(bits | 1<<31)
	}
	return bits
}

func (s *spm) pair(text string, a, b *symbol) (uint32, int32) {
	if s.ranks != nil {
		return s.ranks.pair(text, a, b)
	}
	if b.end-a.start > s.maxPiece {
		return noMerge, 0
	}
	id, ok := s.pieces[text[a.start:b.end]]
	if !ok {
		return noMerge, 0
	}
	return s.priority[id], id
}

// encode: see model.
func (s *spm) encode(o *output, text string, first bool) {
	wide, origin := widen(text, blank, func(r rune, _ int) bool { return r == ' ' }, o.offsets)
	if s.addPrefix && first {
		wide = blank + wide
		if o.offsets {
			origin = append(make([]int, len(blank)), origin...)
		}
	}
	o.origin = origin
	m := mergers.Get().(*merger)
	defer m.release()
	for start := 0; start < len(wide); {
		end := s.segment(wide, start)
		s.word(o, m, wide[:end], start)
		start = end
	}
}

// segment returns the end of the part from start on that merges with nothing after it.
func (s *spm) segment(text string, start int) int {
	if s.lines {
		if k := strings.IndexByte(text[start:], '\n'); k > 0 {
			text = text[:start+k]
		} else if k == 0 {
			return start + len(text[start:]) - len(strings.TrimLeft(text[start:], "\n"))
		}
	}
	for at := start; ; {
		k := strings.Index(text[at:], blank)
		if k < 0 {
			return len(text)
		}
		at += k
		if at > start && !s.joins[text[at-1]] && text[at-1] != blank[len(blank)-1] {
			return at
		}
		at += len(blank)
	}
}

// word encodes text[start:], which merges with nothing around it.
func (s *spm) word(o *output, m *merger, text string, start int) {
	id, found := int32(0), false
	if word := text[start:]; len(word) <= s.maxPiece {
		id, found = s.pieces[word]
	}
	if found && s.known[id].Load() == whole {
		o.add(id, len(text))
		return
	}
	m.symbols = m.symbols[:0]
	for i := start; i < len(text); {
		end := min(i+symbolLen(text[i]), len(text))
		single := int32(-1)
		if id, ok := s.pieces[text[i:end]]; ok {
			single = id
		}
		m.symbols = append(m.symbols, symbol{start: i, end: end, id: single})
		i = end
	}
	m.merge(text, s)
	if found {
		state := composed
		if len(m.symbols) == 1 && m.symbols[0].id == id {
			state = whole
		}
		s.known[id].Store(state)
	}
	for _, sym := range m.symbols {
		s.emit(o, text, sym)
	}
}

// emit adds the token of a symbol, or its bytes, or what stands for the unknown.
func (s *spm) emit(o *output, text string, sym symbol) {
	if sym.id >= 0 && sym.id < s.size {
		o.add(sym.id, sym.end)
		return
	}
	for i := sym.start; i < sym.end; i++ {
		if id := s.byteID[text[i]]; id >= 0 {
			o.add(id, i+1)
		} else if s.unk >= 0 {
			o.add(s.unk, sym.end)
			return
		}
	}
}

// symbolLen is the length of a character by its first byte alone, as in the reference implementation: in text that is not UTF-8 it
// decides which bytes stay together.
func symbolLen(first byte) int {
	switch {
	case first >= 0xF0:
		return utf8.UTFMax
	case first >= 0xE0:
		return 3
	case first >= 0xC0:
		return 2
	}
	return 1
}
