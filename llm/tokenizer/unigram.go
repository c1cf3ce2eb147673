package tokenizer

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// unknownPenalty is how far below the worst piece an unknown character scores: kUnkPenalty of sentencepiece.
const unknownPenalty = 10

// unigram is SentencePiece's Unigram model (T5, XLM-RoBERTa): the segmentation whose pieces have the highest total score.
type unigram struct {
	trie         *trie
	scores       []float32
	unknownScore float64
	unk          int32
	charsmap     charsmap
	addPrefix    bool
	mergeSpaces  bool
	asSuffix     bool // the blank follows its word
}

func (t *Tokenizer) initUnigram(v *Vocabulary) error {
	t.kind = "unigram"
	t.resolve(&t.bos, "<s>")
	t.resolve(&t.eos, "</s>")
	t.resolve(&t.unk, "<unk>")
	if t.unk < 0 {
		return fmt.Errorf("tokenizer: a Unigram vocabulary needs an unknown token")
	}
	u := &unigram{
		scores: v.Scores, unk: t.unk,
		addPrefix: option(v.AddSpacePrefix, true), mergeSpaces: option(v.RemoveExtraWhitespaces, true),
		asSuffix: option(v.TreatWhitespaceAsSuffix, false),
	}
	var err error
	if u.charsmap, err = newCharsmap(v.Charsmap); err != nil {
		return err
	}
	t.raw = make([]string, len(v.Tokens))
	var keys []string
	var ids []int32
	lowest := math.Inf(1)
	for i, text := range v.Tokens {
		switch v.Types[i] {
		case Normal:
			if math.IsNaN(float64(v.Scores[i])) || math.IsInf(float64(v.Scores[i]), 0) {
				return fmt.Errorf("tokenizer: token %d has the score %v", i, v.Scores[i])
			}
			keys, ids = append(keys, text), append(ids, int32(i))
			lowest = min(lowest, float64(v.Scores[i]))
			fallthrough
		case UserDefined:
			t.raw[i] = strings.ReplaceAll(text, blank, " ")
		}
	}
	if len(keys) == 0 {
		return fmt.Errorf("tokenizer: the Unigram vocabulary has no normal token")
	}
	u.trie = newTrie(keys, ids)
	u.unknownScore = lowest - unknownPenalty
	t.stripSpace = u.addPrefix && !u.asSuffix
	t.model = u
	t.surround(option(v.AddBOS, false), option(v.AddEOS, true))
	return nil
}

// lattice is the best way to reach one byte of the text.
type lattice struct {
	score float64
	start int32
	id    int32
}

// encode: see model. first is not used: white space is normalised per stretch.
func (u *unigram) encode(o *output, text string, _ bool) {
	normal, origin := u.normalize(text)
	o.origin = origin
	best := make([]lattice, len(normal)+1)
	for i := range best[1:] {
		best[i+1].score = math.Inf(-1)
	}
	for i := 0; i < len(normal); {
		_, n := utf8.DecodeRune(normal[i:])
		here := best[i].score
		single := false
		for node, j := int32(0), i; j < len(normal); {
			if node = u.trie.step(node, normal[j]); node < 0 {
				break
			}
			j++
			id := u.trie.nodes[node].id
			if id < 0 {
				continue
			}
			single = single || j == i+n
			if score := here + float64(u.scores[id]); score > best[j].score {
				best[j] = lattice{score, int32(i), id}
			}
		}
		if !single {
			if score := here + u.unknownScore; score > best[i+n].score {
				best[i+n] = lattice{score, int32(i), u.unk}
			}
		}
		i += n
	}
	u.path(o, best)
}

// path appends the pieces of the best segmentation; unknown characters side by side are one token.
func (u *unigram) path(o *output, best []lattice) {
	var ends []int32
	for at := int32(len(best) - 1); at > 0; at = best[at].start {
		ends = append(ends, at)
	}
	for i := len(ends) - 1; i >= 0; i-- {
		id := best[ends[i]].id
		if id == u.unk && i > 0 && best[ends[i-1]].id == u.unk {
			continue
		}
		o.add(id, int(ends[i]))
	}
}

// normalize maps text through the character map, turns spaces into blanks, and merges, trims and adds them as the model asks. origin[i] is
// the end in text of what byte i came from.
func (u *unigram) normalize(text string) (out []byte, origin []int) {
	put := func(s string, end int) {
		out = append(out, s...)
		for len(origin) < len(out) {
			origin = append(origin, end)
		}
	}
	if u.addPrefix && !u.asSuffix && !u.mergeSpaces {
		put(blank, 0)
	}
	inWord, words := false, 0
	for i := 0; i < len(text); {
		mapped, n := u.charsmap.prefix(text[i:])
		for k := range len(mapped) {
			switch {
			case mapped[k] != ' ':
				if !inWord && u.mergeSpaces && (words > 0 || u.addPrefix && !u.asSuffix) {
					put(blank, i)
				}
				if !inWord {
					words++
				}
				inWord = true
				put(mapped[k:k+1], i+n)
			case u.mergeSpaces:
				inWord = false
			default:
				put(blank, i+n)
			}
		}
		i += n
	}
	if u.asSuffix && u.addPrefix && len(out) > 0 {
		put(blank, len(text))
	}
	return out, origin
}

// charsmap is sentencepiece's precompiled normalisation: a double-array trie (XOR-compressed) over UTF-8, and the replacements it points
// into, each ending in NUL.
type charsmap struct {
	array        []uint32
	replacements string
}

// newCharsmap checks the blob: u32 size of the trie in bytes, trie, replacements. Empty: text is kept as it is.
func newCharsmap(blob []byte) (charsmap, error) {
	if len(blob) == 0 {
		return charsmap{}, nil
	}
	if len(blob) < 4 {
		return charsmap{}, fmt.Errorf("tokenizer: precompiled_charsmap of %d bytes is truncated", len(blob))
	}
	n := int64(binary.LittleEndian.Uint32(blob))
	if n%4 != 0 || n > int64(len(blob)-4) {
		return charsmap{}, fmt.Errorf("tokenizer: precompiled_charsmap says its trie has %d bytes, but %d follow", n, len(blob)-4)
	}
	c := charsmap{array: make([]uint32, n/4), replacements: string(blob[4+n:])}
	for i := range c.array {
		c.array[i] = binary.LittleEndian.Uint32(blob[4+4*i:])
	}
	return c, nil
}

// prefix returns what the longest mapped prefix of text becomes and its length; without one, the first character as it is.
func (c *charsmap) prefix(text string) (mapped string, n int) {
	best, bestLen := -1, 0
	if len(c.array) > 0 {
		unit := c.array[0]
		at := unitBase(unit)
		for i := 0; i < len(text) && text[i] != 0; i++ {
			at ^= uint32(text[i])
			if int64(at) >= int64(len(c.array)) {
				break
			}
			unit = c.array[at]
			if unit&(1<<31|0xFF) != uint32(text[i]) { // the label, and not a leaf's value
				break
			}
			at ^= unitBase(unit)
			if unit>>8&1 == 1 { // a key ends here: its value is at the base
				if int64(at) >= int64(len(c.array)) {
					break
				}
				best, bestLen = int(c.array[at]&(1<<31-1)), i+1
			}
		}
	}
	if bestLen > 0 && best < len(c.replacements) {
		mapped = c.replacements[best:]
		if end := strings.IndexByte(mapped, 0); end >= 0 {
			mapped = mapped[:end]
		}
		return mapped, bestLen
	}
	r, n := utf8.DecodeRuneInString(text)
	if r == utf8.RuneError && n == 1 {
		return "\uFFFD", 1
	}
	return text[:n], n
}

// unitBase is the offset a unit of the double array points to.
func unitBase(unit uint32) uint32 { return (unit >> 10) << (((unit >> 9) & 1) * 8) }
