package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxWordRunes is the length beyond which a word is unknown: max_input_chars_per_word of every BERT.
const maxWordRunes = 100

// wordPiece is BERT's tokenizer: normalise, cut at white space, punctuation and ideographs, then spell each word with the longest pieces
// from the left; a word that cannot be spelled is one unknown token.
//
// GGUF spells the first piece of a word "▁piece" and the others "piece" (Hugging Face: "piece" and "##piece").
type wordPiece struct {
	trie         *trie
	begin        int32 // node after the blank: where the first piece of a word is looked up
	unk          int32
	lowercase    bool
	stripAccents bool
}

func (t *Tokenizer) initWordPiece(v *Vocabulary) error {
	t.kind = "wpm"
	t.stripSpace = true
	t.resolve(&t.cls, "[CLS]")
	if t.cls < 0 {
		t.cls = t.bos
	}
	t.resolve(&t.sep, "[SEP]")
	if t.sep < 0 {
		t.sep = t.eos
	}
	t.resolve(&t.unk, "[UNK]")
	t.resolve(&t.pad, "[PAD]")
	if t.cls < 0 || t.sep < 0 || t.unk < 0 {
		return fmt.Errorf("tokenizer: a WordPiece vocabulary needs [CLS], [SEP] and [UNK]")
	}
	t.prefix, t.suffix = []int32{t.cls}, []int32{t.sep}

	t.raw = make([]string, len(v.Tokens))
	var keys []string
	var ids []int32
	cased, accented := false, false
	for i, text := range v.Tokens {
		switch v.Types[i] {
		case Normal:
			keys, ids = append(keys, text), append(ids, int32(i))
			cased = cased || isCased(text)
			accented = accented || hasAccent(text)
			fallthrough
		case UserDefined:
			t.raw[i] = strings.ReplaceAll(text, blank, " ")
		}
	}
	w := &wordPiece{trie: newTrie(keys, ids), unk: t.unk}
	for i := range len(blank) {
		if w.begin >= 0 {
			w.begin = w.trie.step(w.begin, blank[i])
		}
	}
	if w.begin < 0 {
		return fmt.Errorf("tokenizer: no token of the WordPiece vocabulary begins a word (%q): convert the file with a current converter", blank+"word")
	}
	// A vocabulary with capitals (or accents) would hold tokens that no text can reach if letters were lower-cased (or stripped). Most files
	// do not say which it is; the words tell.
	w.lowercase = option(v.Lowercase, !cased)
	w.stripAccents = option(v.StripAccents, w.lowercase && !accented)
	t.model = w
	return nil
}

// isCased reports whether a piece has a capital. Only ASCII counts: uncased vocabularies hold capitals without a small form (ℝ). Special
// tokens that a file marks as normal do not count either; their brackets make them unreachable.
func isCased(text string) bool {
	return strings.ContainsAny(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") && !strings.Contains(text, "[")
}

// hasAccent reports whether stripping accents would change a piece.
func hasAccent(text string) bool {
	for _, r := range text {
		if f := appendFolded(nil, r, true, false); len(f) != 1 || f[0] != r {
			return true
		}
	}
	return false
}

// word is the word being collected, with where each byte of it came from.
type word struct {
	text   []byte
	origin []int
	runes  int
}

// encode: see model.
func (w *wordPiece) encode(o *output, text string, _ bool) {
	var cur word
	var folded []rune
	flush := func() {
		if len(cur.text) > 0 {
			w.word(o, &cur)
		}
		cur.text, cur.origin, cur.runes = cur.text[:0], cur.origin[:0], 0
	}
	push := func(r rune, end int) {
		cur.text = utf8.AppendRune(cur.text, r)
		for len(cur.origin) < len(cur.text) {
			cur.origin = append(cur.origin, end)
		}
		cur.runes++
	}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		i += n
		switch {
		case isDropped(r):
		case unicode.IsSpace(r):
			flush()
		default:
			cjk := isCJK(r)
			if cjk {
				flush()
			}
			folded = appendFolded(folded[:0], r, w.stripAccents, w.lowercase)
			for _, f := range folded {
				if isPunctuation(f) {
					flush()
					push(f, i)
					flush()
				} else {
					push(f, i)
				}
			}
			if cjk {
				flush()
			}
		}
	}
	flush()
}

// word spells one word.
func (w *wordPiece) word(o *output, cur *word) {
	o.origin = cur.origin
	ids, ends := len(o.ids), len(o.ends)
	if cur.runes <= maxWordRunes {
		node, at := w.begin, 0
		for at < len(cur.text) {
			best, bestEnd := int32(-1), 0
			for j := at; j < len(cur.text); j++ {
				if node = w.trie.step(node, cur.text[j]); node < 0 {
					break
				}
				if id := w.trie.nodes[node].id; id >= 0 {
					best, bestEnd = id, j+1
				}
			}
			if best < 0 {
				break
			}
			o.add(best, bestEnd)
			node, at = 0, bestEnd
		}
		if at == len(cur.text) {
			return
		}
	}
	o.ids, o.ends = o.ids[:ids], o.ends[:ends]
	o.add(w.unk, len(cur.text))
}
