package tokenizer

import (
	"fmt"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// ranks is the merge table of a BPE vocabulary, by the ids of the two parts.
type ranks map[uint64]merge

type merge struct {
	rank uint32
	id   int32
}

func pairKey(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

func (r ranks) pair(_ string, a, b *symbol) (uint32, int32) {
	if m, ok := r[pairKey(a.id, b.id)]; ok {
		return m.rank, m.id
	}
	return noMerge, 0
}

// newRanks reads the merges. A part or result that is no token of its own gets an id from size upwards: it can take part in further
// merges and is spelled in bytes if it is left over, as in llama.cpp.
func newRanks(merges []string, pieces map[string]int32, size int, decode func(string) string) (ranks, error) {
	r := make(ranks, len(merges))
	virtual := map[string]int32{}
	idOf := func(piece string) int32 {
		if id, ok := pieces[piece]; ok {
			return id
		}
		id, ok := virtual[piece]
		if !ok {
			id = int32(size + len(virtual))
			virtual[piece] = id
		}
		return id
	}
	for i, m := range merges {
		cut := -1
		if m != "" {
			cut = strings.IndexByte(m[1:], ' ')
		}
		if cut < 0 || cut+2 == len(m) {
			return nil, fmt.Errorf("tokenizer: merge %d is %q, not two parts with a space between them (tokenizer.ggml.merges)", i, m)
		}
		left, right := decode(m[:cut+1]), decode(m[cut+2:])
		key := pairKey(idOf(left), idOf(right))
		if _, ok := r[key]; !ok { // the first, lower rank of a repeated pair counts
			r[key] = merge{uint32(i), idOf(left + right)}
		}
	}
	return r, nil
}

// known remembers, per token, whether merging the token's own bytes yields exactly the token. Nearly every word of a text is one
// token, so that most merges are done once. A race only computes the same answer twice.
type known []atomic.Uint32

const (
	unseen uint32 = iota
	whole
	composed
)

// bpe is byte-level BPE: pre-tokenizer, then merges of bytes.
type bpe struct {
	pre      pretokenizer
	pieces   map[string]int32 // bytes of a normal token → id
	maxPiece int
	size     int32
	byteID   [256]int32 // -1: the vocabulary has no token for this byte
	unk      int32
	ranks    ranks
	known    known
}

func (t *Tokenizer) initBPE(v *Vocabulary) error {
	pre, err := lookupPre(v.Pre)
	if err != nil {
		return err
	}
	t.kind = "bpe"
	t.raw = make([]string, len(v.Tokens))
	b := &bpe{pre: pre, pieces: make(map[string]int32, len(v.Tokens)), size: int32(len(v.Tokens)), unk: v.UNK, known: make(known, len(v.Tokens))}
	for i, text := range v.Tokens {
		switch v.Types[i] {
		case UserDefined:
			t.raw[i] = text
		case Normal, Byte:
			raw := fromAlphabet(text)
			t.raw[i] = raw
			if _, ok := b.pieces[raw]; !ok {
				b.pieces[raw] = int32(i)
			}
			b.maxPiece = max(b.maxPiece, len(raw))
		}
	}
	for c := range b.byteID {
		b.byteID[c] = -1
		if id, ok := b.pieces[string([]byte{byte(c)})]; ok {
			b.byteID[c] = id
		}
	}
	if b.ranks, err = newRanks(v.Merges, b.pieces, len(v.Tokens), fromAlphabet); err != nil {
		return err
	}
	t.model = b
	t.surround(option(v.AddBOS, pre.addBOS), option(v.AddEOS, false))
	if len(t.suffix) == 0 && option(v.AddSEP, pre.addSEP) && t.sep >= 0 {
		t.suffix = []int32{t.sep}
	}
	return nil
}

// encode: see model.
func (b *bpe) encode(o *output, text string, _ bool) {
	o.origin = nil
	if !utf8.ValidString(text) {
		text, o.origin = widen(text, "\uFFFD", func(r rune, n int) bool { return r == utf8.RuneError && n == 1 }, o.offsets)
	}
	m := mergers.Get().(*merger)
	defer m.release()
	for i := 0; i < len(text); {
		end := b.pre.next(text, i)
		b.word(o, m, text[:end], i)
		i = end
	}
}

// word encodes text[start:], one piece of the pre-tokenizer.
func (b *bpe) word(o *output, m *merger, text string, start int) {
	id, found := int32(0), false
	if word := text[start:]; len(word) <= b.maxPiece {
		id, found = b.pieces[word]
	}
	if found && (b.pre.ignoreMerges || b.known[id].Load() == whole) {
		o.add(id, len(text))
		return
	}
	m.symbols = m.symbols[:0]
	for i := start; i < len(text); i++ {
		m.symbols = append(m.symbols, symbol{start: i, end: i + 1, id: b.byteID[text[i]]})
	}
	m.merge(text, b.ranks)
	if found {
		state := composed
		if len(m.symbols) == 1 && m.symbols[0].id == id {
			state = whole
		}
		b.known[id].Store(state)
	}
	for _, s := range m.symbols {
		if s.id >= 0 && s.id < b.size {
			o.add(s.id, s.end)
			continue
		}
		for i := s.start; i < s.end; i++ {
			if id := b.byteID[text[i]]; id >= 0 {
				o.add(id, i+1)
			} else if b.unk >= 0 {
				o.add(b.unk, i+1)
			}
		}
	}
}

// widen replaces single bytes of a text by a longer string. With offsets, origin[i] is where in text ends what byte i of the result
// came from; of a replaced byte only the last byte of its replacement ends after it.
func widen(text, with string, replaced func(r rune, n int) bool, offsets bool) (wide string, origin []int) {
	out := make([]byte, 0, len(text)+len(text)/2)
	for i := 0; i < len(text); {
		r, n := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(text[i:])
		}
		if replaced(r, n) {
			out = append(out, with...)
		} else {
			out = append(out, text[i:i+n]...)
		}
		if offsets {
			for ; len(origin) < len(out)-n; origin = append(origin, i) {
			}
			for ; n > 0; n-- {
				i++
				origin = append(origin, i)
			}
		}
		i += n
	}
	return string(out), origin
}

// alphabet is GPT-2's spelling of bytes as printable characters: the printable Latin-1 ones stand for themselves, the
// others follow from U+0100 in order.
var (
	alphabet   [256]rune
	fromLetter = map[rune]byte{}
)

func init() {
	next := rune(0x100)
	for b := range alphabet {
		switch {
		case '!' <= b && b <= '~', 0xA1 <= b && b <= 0xAC, 0xAE <= b && b <= 0xFF:
			alphabet[b] = rune(b)
		default:
			alphabet[b] = next
			next++
		}
		fromLetter[alphabet[b]] = byte(b)
	}
}

// fromAlphabet decodes a token of a byte-level vocabulary; a character that is not in the alphabet stands for itself.
func fromAlphabet(text string) string {
	plain := true
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	if plain { // the printable ASCII characters stand for themselves
		return text
	}
	out := make([]byte, 0, len(text))
	for _, r := range text {
		if b, ok := fromLetter[r]; ok {
			out = append(out, b)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return string(out)
}
