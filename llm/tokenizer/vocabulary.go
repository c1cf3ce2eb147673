package tokenizer

import (
	"fmt"
	"strings"

	"ragd/llm/gguf"
)

// Type says what a token of the vocabulary is for; the numbers are those of tokenizer.ggml.token_type.
type Type int32

// The token types of a GGUF file.
const (
	Normal      Type = 1
	Unknown     Type = 2
	Control     Type = 3 // never produced from ordinary text
	UserDefined Type = 4 // matched before anything else, in every text
	Unused      Type = 5
	Byte        Type = 6 // "<0x0A>": one raw byte
)

// Vocabulary is everything New needs to know; FromGGUF reads it from a file. A special token id is -1 where the model has
// none. A nil option takes the default of the family.
type Vocabulary struct {
	Model  string // "gpt2" (BPE), "llama" (SentencePiece), "bert" (WordPiece), "t5" (Unigram), "gemma4"
	Pre    string // pre-tokenizer, BPE only: a key of the table in scan.go
	Name   string // general.name: some families strip white space after their special tokens
	Tokens []string
	Scores []float32 // SentencePiece and Unigram
	Types  []Type    // empty: all normal
	Merges []string  // BPE: "left right", by rank

	BOS, EOS, EOT, EOM, UNK, SEP, PAD, CLS, MASK int32

	AddBOS, AddEOS, AddSEP  *bool
	AddSpacePrefix          *bool  // SentencePiece, Unigram
	RemoveExtraWhitespaces  *bool  // Unigram
	TreatWhitespaceAsSuffix *bool  // Unigram
	Lowercase, StripAccents *bool  // WordPiece; nil: derived from the vocabulary
	Charsmap                []byte // Unigram: sentencepiece's precompiled normalisation
}

// ReadVocabulary reads the tokenizer.* keys of a file. The strings are copied: the file may be closed afterwards.
func ReadVocabulary(f *gguf.File) (Vocabulary, error) {
	var v Vocabulary
	var ok bool
	if v.Model, ok = f.String("tokenizer.ggml.model"); !ok {
		return v, fmt.Errorf("tokenizer: the file has no tokenizer.ggml.model: it carries no vocabulary")
	}
	v.Pre, _ = f.String("tokenizer.ggml.pre")
	v.Name, _ = f.String("general.name")
	tokens, _ := f.Strings("tokenizer.ggml.tokens")
	v.Tokens = cloneAll(tokens)
	v.Scores, _ = f.Floats("tokenizer.ggml.scores")
	types, _ := f.Ints("tokenizer.ggml.token_type")
	for _, t := range types {
		v.Types = append(v.Types, Type(t))
	}
	merges, _ := f.Strings("tokenizer.ggml.merges")
	v.Merges = merges // only read by New
	charsmap, _ := f.Ints("tokenizer.ggml.precompiled_charsmap")
	for _, b := range charsmap {
		v.Charsmap = append(v.Charsmap, byte(b))
	}
	for key, id := range map[string]*int32{
		"bos": &v.BOS, "eos": &v.EOS, "eot": &v.EOT, "eom": &v.EOM, "unknown": &v.UNK,
		"seperator": &v.SEP, // spelled so in the format
		"padding":   &v.PAD, "cls": &v.CLS, "mask": &v.MASK,
	} {
		*id = -1
		if n, ok := f.Uint("tokenizer.ggml." + key + "_token_id"); ok {
			if n >= uint64(len(v.Tokens)) {
				return v, fmt.Errorf("tokenizer: tokenizer.ggml.%s_token_id is %d, but the vocabulary has %d tokens", key, n, len(v.Tokens))
			}
			*id = int32(n)
		}
	}
	for key, option := range map[string]**bool{
		"add_bos_token": &v.AddBOS, "add_eos_token": &v.AddEOS, "add_sep_token": &v.AddSEP,
		"add_space_prefix": &v.AddSpacePrefix, "remove_extra_whitespaces": &v.RemoveExtraWhitespaces,
		"treat_whitespace_as_suffix": &v.TreatWhitespaceAsSuffix,
		"normalizer.lowercase":       &v.Lowercase, "normalizer.strip_accents": &v.StripAccents,
	} {
		if b, ok := f.Bool("tokenizer.ggml." + key); ok {
			*option = &b
		}
	}
	return v, nil
}

// cloneAll copies strings that may alias a mapped file into one allocation.
func cloneAll(list []string) []string {
	var b strings.Builder
	n := 0
	for _, s := range list {
		n += len(s)
	}
	b.Grow(n)
	for _, s := range list {
		b.WriteString(s)
	}
	all := b.String()
	out := make([]string, len(list))
	at := 0
	for i, s := range list {
		out[i] = all[at : at+len(s)]
		at += len(s)
	}
	return out
}

// maxToken bounds the text of a token. The longest of real vocabularies have some hundred bytes; looking up special tokens takes time
// in proportion to the longest, at every place of a text.
const maxToken = 1 << 12

// check refuses a vocabulary whose parts do not fit together and fills in what the family defines.
func (v *Vocabulary) check() error {
	n := len(v.Tokens)
	if n == 0 {
		return fmt.Errorf("tokenizer: the vocabulary is empty")
	}
	if v.Types == nil {
		v.Types = make([]Type, n)
		for i := range v.Types {
			v.Types[i] = Normal
		}
	}
	if len(v.Types) != n {
		return fmt.Errorf("tokenizer: %d token types for %d tokens", len(v.Types), n)
	}
	if (v.Model == "llama" || v.Model == "t5") && len(v.Scores) != n {
		return fmt.Errorf("tokenizer: %d scores for %d tokens", len(v.Scores), n)
	}
	for i, text := range v.Tokens {
		if len(text) > maxToken {
			return fmt.Errorf("tokenizer: token %d has %d bytes; the limit is %d", i, len(text), maxToken)
		}
	}
	for name, id := range map[string]int32{
		"bos": v.BOS, "eos": v.EOS, "eot": v.EOT, "eom": v.EOM, "unk": v.UNK, "sep": v.SEP, "pad": v.PAD, "cls": v.CLS, "mask": v.MASK,
	} {
		if id < -1 || int(id) >= n {
			return fmt.Errorf("tokenizer: %s token id %d is outside the vocabulary of %d tokens", name, id, n)
		}
	}
	return nil
}
