package tokenizer

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Bytes returns the bytes a token stands for in the middle of a text; empty for control, unknown and unused tokens and outside the
// vocabulary. The caller owns the result.
func (t *Tokenizer) Bytes(id int32) []byte {
	if !t.valid(id) {
		return nil
	}
	return []byte(t.raw[id])
}

// Decode returns the bytes of a whole text. Control tokens appear as their name unless skipSpecial is set. The space that encoding puts
// before the first word is removed; WordPiece output is cleaned as Hugging Face does, since words carry no spacing of their own.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) []byte {
	var out []byte
	start := t.stripSpace
	for _, id := range ids {
		switch {
		case !t.valid(id):
		case t.IsControl(id):
			if !skipSpecial {
				out = append(out, t.tokens[id]...)
			}
		default:
			raw := t.raw[id]
			if start {
				raw = strings.TrimPrefix(raw, " ")
				start = false
			}
			out = append(out, raw...)
		}
	}
	if t.kind == "wpm" {
		out = []byte(wordPieceSpacing.Replace(string(bytes.TrimLeft(out, " "))))
	}
	return out
}

var wordPieceSpacing = strings.NewReplacer(" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't", "n't", " 'm", "'m", " 's", "'s", " 've", "'ve", " 're", "'re")

// Decoder turns the ids of one stream into text, holding back the bytes of a character until all of them are there.
type Decoder struct {
	t       *Tokenizer
	pending []byte // at most 3: the beginning of a character
}

// NewDecoder returns a decoder for text that continues another one: no space is removed at its start.
func (t *Tokenizer) NewDecoder() *Decoder { return &Decoder{t: t} }

// Push adds a token and returns the text that is now complete, which may be "". A byte that cannot be part of UTF-8
// becomes U+FFFD. Control tokens yield nothing.
func (d *Decoder) Push(id int32) string {
	if d.t.valid(id) && !d.t.IsControl(id) {
		d.pending = append(d.pending, d.t.raw[id]...)
	}
	cut := len(d.pending)
	for back := 1; back <= min(utf8.UTFMax-1, cut); back++ {
		if utf8.RuneStart(d.pending[cut-back]) {
			if !utf8.FullRune(d.pending[cut-back:]) {
				cut -= back
			}
			break
		}
	}
	text := strings.ToValidUTF8(string(d.pending[:cut]), "\uFFFD")
	d.pending = append(d.pending[:0], d.pending[cut:]...)
	return text
}

// Flush ends the stream and returns what was held back, a truncated character, as U+FFFD.
func (d *Decoder) Flush() string {
	text := strings.ToValidUTF8(string(d.pending), "\uFFFD")
	d.pending = d.pending[:0]
	return text
}
