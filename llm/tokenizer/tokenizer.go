package tokenizer

import (
	"fmt"
	"strings"
	"sync"

	"ragd/llm/gguf"
)

// Tokenizer turns text into token ids and back. It is immutable and safe for concurrent use.
type Tokenizer struct {
	kind     string
	tokens   []string // text as the file spells it
	raw      []string // bytes the token stands for; "" for control, unknown and unused tokens
	types    []Type
	model    model
	specials *specials

	bos, eos, pad, unk, cls, sep int32   // -1: none
	prefix, suffix               []int32 // what addSpecial puts around a text
	eog                          map[int32]bool
	stripSpace                   bool // encoding puts a space before the first word, so decoding takes it away
	index                        func() map[string]int32
}

// model is the algorithm of a family.
type model interface {
	// encode appends the ids of text, which holds no special token. first: a special token or nothing precedes it.
	encode(o *output, text string, first bool)
}

// Span is a stretch of text and whether control tokens may be recognised in it. User-defined tokens (white space runs, tool tags)
// are recognised everywhere.
type Span struct {
	Text         string
	ParseSpecial bool
}

// output collects ids and, where offsets is set, the offset in the source text at which each of them ends.
type output struct {
	ids     []int32
	ends    []int
	offsets bool
	base    int   // where the stretch being encoded begins in the source text
	origin  []int // origin[i]: end in that stretch of what normalised byte i came from; nil: nothing was changed
}

// add appends an id whose last byte in the normalised stretch is end-1.
func (o *output) add(id int32, end int) {
	o.ids = append(o.ids, id)
	if !o.offsets {
		return
	}
	if o.origin != nil {
		if end > 0 {
			end = o.origin[end-1]
		}
	}
	o.ends = append(o.ends, o.base+end)
}

// FromGGUF reads the vocabulary of f. An unknown tokenizer.ggml.model or tokenizer.ggml.pre is refused by name. The file may
// be closed afterwards.
func FromGGUF(f *gguf.File) (*Tokenizer, error) {
	v, err := ReadVocabulary(f)
	if err != nil {
		return nil, err
	}
	return New(v)
}

// New builds a tokenizer. It keeps v.Tokens and v.Types.
func New(v Vocabulary) (*Tokenizer, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	t := &Tokenizer{
		tokens: v.Tokens, types: v.Types, specials: newSpecials(&v),
		bos: v.BOS, eos: v.EOS, pad: v.PAD, unk: v.UNK, cls: v.CLS, sep: v.SEP,
	}
	t.index = sync.OnceValue(func() map[string]int32 {
		m := make(map[string]int32, len(t.tokens))
		for i := len(t.tokens) - 1; i >= 0; i-- { // the lowest id of equal texts wins
			m[t.tokens[i]] = int32(i)
		}
		return m
	})
	var err error
	switch v.Model {
	case "gpt2":
		err = t.initBPE(&v)
	case "gemma4":
		err = t.initGemma4(&v)
	case "llama":
		err = t.initSPM(&v)
	case "bert":
		err = t.initWordPiece(&v)
	case "t5":
		err = t.initUnigram(&v)
	default:
		err = fmt.Errorf("tokenizer: unknown vocabulary kind %q (tokenizer.ggml.model); known: bert, gemma4, gpt2, llama, t5", v.Model)
	}
	if err != nil {
		return nil, err
	}
	t.initEOG(&v)
	return t, nil
}

// option returns the value of a flag, or what its family does without it.
func option(flag *bool, otherwise bool) bool {
	if flag != nil {
		return *flag
	}
	return otherwise
}

// surround sets what addSpecial puts around a text.
func (t *Tokenizer) surround(bos, eos bool) {
	if bos && t.bos >= 0 {
		t.prefix = []int32{t.bos}
	}
	if eos && t.eos >= 0 {
		t.suffix = []int32{t.eos}
	}
}

// resolve fills an absent special id with the first of the given texts that is a control token.
func (t *Tokenizer) resolve(id *int32, texts ...string) {
	for _, text := range texts {
		if *id >= 0 {
			return
		}
		if found, ok := t.ID(text); ok && (t.types[found] == Control || t.types[found] == Unknown) {
			*id = found
		}
	}
}

// endOfTurn lists the texts of tokens that end an answer in one family or another. Files often name only one of theirs, and
// a model that emits another would run on; the fill-in-the-middle separators start a new file, which is an end as well.
var endOfTurn = []string{
	"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<turn|>", "<|endoftext|>", "<|end_of_text|>", "<|end_of_role|>",
	"<|return|>", "<|call|>", "<EOT>", "_<EOT>", "<|EOT|>", "<eos>", "</s>", "<｜end▁of▁sentence｜>", "<end_of_utterance>", "<|eot|>", "<|eom|>",
	"<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<fim_pad>", "<file_sep>", "<repo_name>", "<reponame>",
}

func (t *Tokenizer) initEOG(v *Vocabulary) {
	t.eog = map[int32]bool{}
	for _, id := range []int32{v.EOS, v.EOT, v.EOM} {
		if id >= 0 {
			t.eog[id] = true
		}
	}
	for _, text := range endOfTurn {
		if text == "<|end_of_role|>" { // Granite closes the role name with it, at every turn
			continue
		}
		if id, ok := t.ID(text); ok && (t.types[id] == Control || t.specials.control[id]) {
			t.eog[id] = true
		}
	}
}

// Encode returns the ids of text. addSpecial puts the model's begin and end tokens around it; parseSpecial recognises control
// tokens in it and is for trusted text only.
func (t *Tokenizer) Encode(text string, addSpecial, parseSpecial bool) []int32 {
	return t.EncodeSpans([]Span{{Text: text, ParseSpecial: parseSpecial}}, addSpecial)
}

// EncodeSpans returns the ids of the joined spans; control tokens are recognised only where a span (or adjacent spans that
// all allow it) spells them completely.
func (t *Tokenizer) EncodeSpans(spans []Span, addSpecial bool) []int32 {
	var o output
	if addSpecial {
		o.ids = append(o.ids, t.prefix...)
	}
	t.encode(&o, spans)
	if addSpecial {
		o.ids = append(o.ids, t.suffix...)
	}
	return o.ids
}

// EncodeOffsets returns the ids of text without special tokens and, for each, the byte offset in text at which it ends.
// Offsets never decrease; one can lie inside a character of several bytes where the character takes several tokens.
func (t *Tokenizer) EncodeOffsets(text string) (ids []int32, ends []int) {
	o := output{offsets: true}
	t.encode(&o, []Span{{Text: text}})
	return o.ids, o.ends
}

// EncodePair returns the input of a cross-encoder, [CLS] query [SEP] document [SEP] (or <s> query </s></s> document </s> where the
// separator is </s>), with segment ids 0 and 1 for WordPiece models and 0 otherwise. At most maxTokens ids: the document is
// truncated, and the query only if it does not fit alone.
func (t *Tokenizer) EncodePair(query, document string, maxTokens int) (ids, types []int32) {
	begin, sep := t.cls, t.sep
	if begin < 0 {
		begin = t.bos
	}
	if sep < 0 {
		sep = t.eos
	}
	var head, middle, tail []int32
	if begin >= 0 {
		head = []int32{begin}
	}
	if sep >= 0 {
		middle, tail = []int32{sep}, []int32{sep}
		if t.tokens[sep] == "</s>" {
			middle = []int32{sep, sep}
		}
	}
	room := max(0, maxTokens-len(head)-len(middle)-len(tail))
	q := t.Encode(query, false, false)
	q = q[:min(len(q), room)]
	d := t.Encode(document, false, false)
	d = d[:min(len(d), room-len(q))]

	ids = make([]int32, 0, len(head)+len(q)+len(middle)+len(d)+len(tail))
	ids = append(append(append(ids, head...), q...), middle...)
	second := len(ids)
	ids = append(append(ids, d...), tail...)
	types = make([]int32, len(ids))
	if t.kind == "wpm" {
		for i := second; i < len(types); i++ {
			types[i] = 1
		}
	}
	return ids, types
}

// encode cuts special tokens out of the joined spans and hands the rest to the family.
func (t *Tokenizer) encode(o *output, spans []Span) {
	text, allowed := join(spans)
	first := true
	for at := 0; at < len(text); {
		for len(allowed) > 0 && allowed[0].end <= at {
			allowed = allowed[1:]
		}
		start, end, id := t.specials.next(text, at, allowed)
		if start > at {
			o.base = at
			t.model.encode(o, text[at:start], first)
			first = false
		}
		if id >= 0 {
			o.base, o.origin = 0, nil
			o.add(id, end)
			first = true
		}
		at = end
	}
}

// join concatenates spans and returns where control tokens may be recognised.
func join(spans []Span) (text string, allowed []region) {
	var b strings.Builder
	at := 0
	for _, s := range spans {
		end := at + len(s.Text)
		switch last := len(allowed) - 1; {
		case !s.ParseSpecial || at == end:
		case last >= 0 && allowed[last].end == at:
			allowed[last].end = end
		default:
			allowed = append(allowed, region{at, end})
		}
		at = end
	}
	if len(spans) == 1 {
		return spans[0].Text, allowed
	}
	b.Grow(at)
	for _, s := range spans {
		b.WriteString(s.Text)
	}
	return b.String(), allowed
}

// Size returns the number of tokens in the vocabulary.
func (t *Tokenizer) Size() int { return len(t.tokens) }

// Kind returns the family: "bpe", "spm", "wpm" or "unigram".
func (t *Tokenizer) Kind() string { return t.kind }

// BOS returns the token that begins a text; false if the model has none.
func (t *Tokenizer) BOS() (int32, bool) { return t.bos, t.bos >= 0 }

// EOS returns the token that ends a text; see IsEOG for all that end an answer.
func (t *Tokenizer) EOS() (int32, bool) { return t.eos, t.eos >= 0 }

// PAD returns the padding token.
func (t *Tokenizer) PAD() (int32, bool) { return t.pad, t.pad >= 0 }

// UNK returns the token for what the vocabulary cannot spell.
func (t *Tokenizer) UNK() (int32, bool) { return t.unk, t.unk >= 0 }

// CLS returns the token encoders begin with.
func (t *Tokenizer) CLS() (int32, bool) { return t.cls, t.cls >= 0 }

// SEP returns the token between and after the texts of an encoder.
func (t *Tokenizer) SEP() (int32, bool) { return t.sep, t.sep >= 0 }

// IsControl reports whether id is a control or unknown token: it stands for no text. False outside the vocabulary.
func (t *Tokenizer) IsControl(id int32) bool {
	return t.valid(id) && (t.types[id] == Control || t.types[id] == Unknown || t.specials.control[id])
}

// IsEOG reports whether id ends an answer: the model's own end tokens and those its family is known to use.
func (t *Tokenizer) IsEOG(id int32) bool { return t.eog[id] }

// AddsBOS reports whether addSpecial puts a begin token before a text.
func (t *Tokenizer) AddsBOS() bool { return len(t.prefix) > 0 }

// ID returns the token with exactly this text, as the file spells it.
func (t *Tokenizer) ID(token string) (int32, bool) {
	id, ok := t.index()[token]
	return id, ok
}

// Token returns the text of a token as the file spells it, "" outside the vocabulary.
func (t *Tokenizer) Token(id int32) string {
	if !t.valid(id) {
		return ""
	}
	return t.tokens[id]
}

func (t *Tokenizer) valid(id int32) bool { return id >= 0 && int(id) < len(t.tokens) }
