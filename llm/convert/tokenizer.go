package convert

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"ragd/llm/gguf"
)

// Token types of tokenizer.ggml.token_type.
const (
	normalToken      = 1
	unknownToken     = 2
	controlToken     = 3
	userDefinedToken = 4
	unusedToken      = 5
	byteToken        = 6
)

// vocabulary is a tokenizer in the terms of GGUF.
type vocabulary struct {
	model  string // tokenizer.ggml.model
	pre    string
	tokens []string
	types  []int32
	scores []float32
	merges []string

	special map[string]int32 // key without "_token_id"
	flags   map[string]bool  // key below tokenizer.ggml.
	charmap []int32          // Unigram normalisation, one byte per element

	segments     int // token types of BERT
	chatTemplate string
}

// tokenizerJSON is the part of tokenizer.json that matters.
type tokenizerJSON struct {
	Added []struct {
		ID      int32  `json:"id"`
		Content string `json:"content"`
		Special bool   `json:"special"`
	} `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Model         struct {
		Type         string          `json:"type"`
		Unknown      any             `json:"unk_token"`
		UnknownID    *int32          `json:"unk_id"`
		Prefix       string          `json:"continuing_subword_prefix"`
		ByteFallback bool            `json:"byte_fallback"`
		Vocab        json.RawMessage `json:"vocab"`
		Merges       []merge         `json:"merges"`
	} `json:"model"`
}

// merge is "left right" or ["left", "right"].
type merge string

func (m *merge) UnmarshalJSON(b []byte) error {
	var pair []string
	if err := json.Unmarshal(b, &pair); err != nil {
		return json.Unmarshal(b, (*string)(m))
	}
	if len(pair) != 2 {
		return fmt.Errorf("a merge of %d parts", len(pair))
	}
	*m = merge(pair[0] + " " + pair[1])
	return nil
}

// readTokenizer reads tokenizer.json, or vocab.txt where a BERT folder has only that.
func readTokenizer(dir string, c *config) (*vocabulary, error) {
	settings, err := readTokenizerConfig(dir)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return readVocabTxt(dir, settings)
	}
	if err != nil {
		return nil, err
	}
	v, err := parseTokenizer(b, settings, c)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	return v, nil
}

// parseTokenizer converts tokenizer.json. c may be nil when there is no config.json.
func parseTokenizer(b []byte, settings *tokenizerConfig, c *config) (*vocabulary, error) {
	var t tokenizerJSON
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, err
	}
	v := &vocabulary{special: map[string]int32{}, flags: map[string]bool{}, chatTemplate: settings.template}
	var err error
	switch {
	case t.Model.Type == "WordPiece" || t.Model.Type == "" && t.Model.Prefix == "##":
		err = v.wordPiece(&t)
	case t.Model.Type == "BPE" && !t.Model.ByteFallback:
		err = v.bytePair(&t, c)
	case t.Model.Type == "BPE":
		err = v.sentencePiece(&t, c)
	case t.Model.Type == "Unigram":
		err = v.unigram(&t)
	default:
		err = fmt.Errorf("tokenizers of the type %q are not supported; WordPiece, BPE (of bytes, or of characters with byte fallback) and Unigram are", t.Model.Type)
	}
	if err != nil {
		return nil, err
	}
	if err := v.postProcessor(t.PostProcessor); err != nil {
		return nil, err
	}
	settings.specials(v, c)
	return v, nil
}

// table orders a {token: id} object by id, with the added tokens, up to at least size entries. Ids that nothing names
// become unused tokens.
func (v *vocabulary) table(t *tokenizerJSON, size int) error {
	var ids map[string]int32
	if err := json.Unmarshal(t.Model.Vocab, &ids); err != nil {
		return fmt.Errorf("model.vocab: %w", err)
	}
	const most = 1 << 22 // far beyond any vocabulary; bounds the table against one absurd id
	for _, a := range t.Added {
		ids[a.Content] = a.ID
	}
	for token, id := range ids {
		if id < 0 || id >= most {
			return fmt.Errorf("the token %q has the impossible id %d", token, id)
		}
		size = max(size, int(id)+1)
	}
	v.tokens = make([]string, size)
	v.types = make([]int32, size)
	for token, id := range ids {
		if v.types[id] != 0 {
			return fmt.Errorf("the tokens %q and %q have the same id %d", v.tokens[id], token, id)
		}
		v.tokens[id], v.types[id] = token, normalToken
	}
	for i, typ := range v.types {
		if typ == 0 {
			v.tokens[i], v.types[i] = fmt.Sprintf("[PAD%d]", i), unusedToken
		}
	}
	for _, a := range t.Added {
		v.types[a.ID] = map[bool]int32{true: controlToken, false: userDefinedToken}[a.Special]
	}
	return nil
}

// wordPiece converts a BERT vocabulary. GGUF marks the start of a word with U+2581 where BERT marks continuations with ##.
func (v *vocabulary) wordPiece(t *tokenizerJSON) error {
	if t.Model.Prefix != "##" {
		return fmt.Errorf("WordPiece with the continuation prefix %q is not supported; ## is", t.Model.Prefix)
	}
	if err := v.table(t, 0); err != nil {
		return err
	}
	var n struct {
		Type         string `json:"type"`
		CleanText    bool   `json:"clean_text"`
		Chinese      bool   `json:"handle_chinese_chars"`
		StripAccents *bool  `json:"strip_accents"`
		Lowercase    bool   `json:"lowercase"`
	}
	if err := json.Unmarshal(t.Normalizer, &n); err != nil || n.Type != "BertNormalizer" || !n.CleanText || !n.Chinese {
		return fmt.Errorf("the normalizer %s is not supported; BertNormalizer that cleans text and isolates Chinese characters is", cut(t.Normalizer))
	}
	v.model = "bert"
	v.markWords()
	v.caseRules(n.Lowercase, n.StripAccents)
	return nil
}

// markWords turns BERT's continuation marks into GGUF's word marks.
func (v *vocabulary) markWords() {
	for i, token := range v.tokens {
		if v.types[i] != normalToken {
			continue
		}
		if rest, ok := strings.CutPrefix(token, "##"); ok {
			v.tokens[i] = rest
		} else {
			v.tokens[i] = "\u2581" + token
		}
	}
}

// caseRules stores what the normalizer does; accents go with the case unless it says otherwise.
func (v *vocabulary) caseRules(lowercase bool, stripAccents *bool) {
	v.flags["normalizer.lowercase"] = lowercase
	v.flags["normalizer.strip_accents"] = lowercase
	if stripAccents != nil {
		v.flags["normalizer.strip_accents"] = *stripAccents
	}
}

// bytePair converts byte-level BPE.
func (v *vocabulary) bytePair(t *tokenizerJSON, c *config) error {
	size := 0
	if c != nil {
		size = c.Vocab
	}
	if err := v.table(t, size); err != nil {
		return err
	}
	pre, err := preTokenizer(t.PreTokenizer)
	if err != nil {
		return err
	}
	v.model, v.pre = "gpt2", pre
	for _, m := range t.Model.Merges {
		v.merges = append(v.merges, string(m))
	}
	return nil
}

// sentencePiece converts BPE over characters with byte fallback (Llama 2, Mistral, Gemma, Phi-3). GGUF has scores instead of
// merges, and joins any two neighbours that make a token, the highest score first: the score is the rank of the first merge
// that makes the token. What no merge makes can never come out, so it is set apart as unused.
func (v *vocabulary) sentencePiece(t *tokenizerJSON, c *config) error {
	size := 0
	if c != nil {
		size = c.Vocab
	}
	if err := v.table(t, size); err != nil {
		return err
	}
	prefix, err := spacePrefix(t)
	if err != nil {
		return err
	}
	rank := map[string]int{}
	for i, m := range t.Model.Merges {
		token := strings.Replace(string(m), " ", "", 1)
		if _, ok := rank[token]; !ok {
			rank[token] = i
		}
	}
	unknown, _ := t.Model.Unknown.(string)
	bytes := 0
	v.scores = make([]float32, len(v.tokens))
	for i, token := range v.tokens {
		r, made := rank[token]
		switch {
		case token == unknown:
			v.types[i] = unknownToken
		case v.types[i] != normalToken:
		case len(token) == 6 && strings.HasPrefix(token, "<0x") && token[5] == '>':
			v.types[i] = byteToken
			bytes++
		case made:
			v.scores[i] = -float32(r)
		case utf8.RuneCountInString(token) > 1:
			v.types[i] = unusedToken
		}
	}
	if bytes != 256 {
		return fmt.Errorf("byte fallback needs 256 tokens <0x00> to <0xFF>; %d are there", bytes)
	}
	v.model = "llama"
	v.flags["add_space_prefix"] = prefix
	return nil
}

// spacePrefix reports whether a text begins with a space that it does not have. It refuses steps before the merges other
// than those of SentencePiece.
func spacePrefix(t *tokenizerJSON) (bool, error) {
	type step struct {
		Type    string `json:"type"`
		Prepend string `json:"prepend"`
		Scheme  string `json:"prepend_scheme"`
		Old     *bool  `json:"add_prefix_space"`
		Pattern struct {
			String string `json:"String"`
		} `json:"pattern"`
		Content     string `json:"content"`
		Normalizers []step `json:"normalizers"`
		Steps       []step `json:"pretokenizers"`
	}
	prefix, blanks := false, false
	var visit func(s step) error
	visit = func(s step) error {
		for _, inner := range append(s.Normalizers, s.Steps...) {
			if err := visit(inner); err != nil {
				return err
			}
		}
		switch {
		case s.Type == "Sequence" || s.Type == "":
		case s.Type == "Prepend" && s.Prepend == "\u2581":
			prefix = true
		case s.Type == "Replace" && s.Pattern.String == " " && s.Content == "\u2581":
			blanks = true
		case s.Type == "Metaspace":
			blanks = true
			prefix = prefix || s.Scheme == "always" || s.Scheme == "first" || s.Scheme == "" && (s.Old == nil || *s.Old)
		case s.Type == "Split" && s.Pattern.String == " ": // after the replacement there is none
		default:
			return fmt.Errorf("the step %q before byte-fallback BPE is not supported; Prepend, Replace and Metaspace of SentencePiece are", s.Type)
		}
		return nil
	}
	for name, raw := range map[string]json.RawMessage{"normalizer": t.Normalizer, "pre_tokenizer": t.PreTokenizer} {
		var s *step
		if len(raw) == 0 {
			continue
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return false, fmt.Errorf("%s: %w", name, err)
		}
		if s == nil {
			continue
		}
		if err := visit(*s); err != nil {
			return false, err
		}
	}
	if !blanks {
		return false, fmt.Errorf("byte-fallback BPE that does not turn spaces into U+2581 is not supported")
	}
	return prefix, nil
}

// unigram converts a SentencePiece Unigram model.
func (v *vocabulary) unigram(t *tokenizerJSON) error {
	var pieces [][2]any
	if err := json.Unmarshal(t.Model.Vocab, &pieces); err != nil {
		return fmt.Errorf("model.vocab: %w", err)
	}
	for i, p := range pieces {
		token, ok1 := p[0].(string)
		score, ok2 := p[1].(float64)
		if !ok1 || !ok2 {
			return fmt.Errorf("model.vocab: entry %d is no pair of a piece and a score", i)
		}
		v.tokens, v.scores, v.types = append(v.tokens, token), append(v.scores, float32(score)), append(v.types, normalToken)
	}
	if id := t.Model.UnknownID; id != nil && *id >= 0 && int(*id) < len(v.types) {
		v.types[*id] = unknownToken
		v.special["unknown"] = *id
	}
	for _, a := range t.Added {
		for int(a.ID) >= len(v.tokens) && len(v.tokens) <= len(pieces)+len(t.Added) {
			v.tokens, v.scores, v.types = append(v.tokens, a.Content), append(v.scores, 0), append(v.types, unusedToken)
		}
		if a.ID < 0 || int(a.ID) >= len(v.tokens) {
			return fmt.Errorf("the added token %q has the impossible id %d", a.Content, a.ID)
		}
		v.tokens[a.ID] = a.Content
		if v.types[a.ID] != unknownToken {
			v.types[a.ID] = map[bool]int32{true: controlToken, false: userDefinedToken}[a.Special]
		}
	}
	v.model = "t5"
	v.flags["add_space_prefix"] = true
	v.flags["remove_extra_whitespaces"] = true
	return v.readCharmap(t.Normalizer)
}

// readCharmap finds the precompiled normalisation table, alone or in a sequence.
func (v *vocabulary) readCharmap(normalizer json.RawMessage) error {
	type step struct {
		Type    string `json:"type"`
		Charmap string `json:"precompiled_charsmap"`
	}
	var n struct {
		step
		Steps []step `json:"normalizers"`
	}
	if err := json.Unmarshal(normalizer, &n); err != nil {
		return fmt.Errorf("normalizer: %w", err)
	}
	for _, s := range append(n.Steps, n.step) {
		if s.Type != "Precompiled" {
			continue
		}
		b, err := base64.StdEncoding.DecodeString(s.Charmap)
		if err != nil {
			return fmt.Errorf("normalizer: precompiled_charsmap: %w", err)
		}
		for _, x := range b {
			v.charmap = append(v.charmap, int32(x))
		}
	}
	return nil
}

// Patterns of tokenizer.json and the names that GGUF has for them.
var preTokenizerPatterns = map[string]string{
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                                                                                                                "llama-bpe",
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                                                                                                                     "qwen2",
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`: "gpt-4o",
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                "tekken",
}

// preTokenizer names the pre-tokenizer of a byte-level BPE model. What it does not know it refuses: a wrong one changes
// ids silently.
func preTokenizer(raw json.RawMessage) (string, error) {
	type step struct {
		Type       string `json:"type"`
		UseRegex   *bool  `json:"use_regex"`
		AddPrefix  bool   `json:"add_prefix_space"`
		Individual bool   `json:"individual_digits"`
		Pattern    struct {
			Regex string `json:"Regex"`
		} `json:"pattern"`
	}
	var p struct {
		step
		Steps []step `json:"pretokenizers"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return "", fmt.Errorf("pre_tokenizer: %w", err)
	}
	steps := p.Steps
	if p.Type != "Sequence" {
		steps = []step{p.step}
	}
	regex := func(s step) bool { return s.UseRegex == nil || *s.UseRegex }
	last := steps[max(len(steps)-1, 0):]
	if len(last) == 1 && last[0].Type == "ByteLevel" && !last[0].AddPrefix {
		switch {
		case len(steps) == 1 && regex(last[0]):
			return "gpt-2", nil
		case len(steps) == 2 && steps[0].Type == "Digits" && steps[0].Individual && regex(last[0]):
			return "smollm", nil
		case len(steps) == 2 && steps[0].Type == "Split" && !regex(last[0]):
			if name, ok := preTokenizerPatterns[steps[0].Pattern.Regex]; ok {
				return name, nil
			}
		}
	}
	return "", fmt.Errorf("the pre-tokenizer %s is not known", cut(raw))
}

// postProcessor learns from the template of a single text which tokens stand before and after it.
func (v *vocabulary) postProcessor(raw json.RawMessage) error {
	type part struct {
		Special *struct {
			ID string `json:"id"`
		} `json:"SpecialToken"`
		Sequence *struct{} `json:"Sequence"`
	}
	type step struct {
		Type   string `json:"type"`
		Single []part `json:"single"`
		CLS    []any  `json:"cls"`
		SEP    []any  `json:"sep"`
	}
	var p struct {
		step
		Steps []step `json:"processors"`
	}
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return fmt.Errorf("post_processor: %w", err)
	}
	v.flags["add_bos_token"], v.flags["add_eos_token"] = false, false
	for _, s := range append(p.Steps, p.step) {
		if s.Type == "BertProcessing" || s.Type == "RobertaProcessing" {
			v.flags["add_bos_token"], v.flags["add_eos_token"] = true, true
		}
		after := false
		for _, x := range s.Single {
			if x.Sequence != nil {
				after = true
			} else if x.Special != nil && !after {
				v.flags["add_bos_token"] = true
				v.setSpecial("bos", x.Special.ID)
			} else if x.Special != nil {
				v.flags["add_eos_token"] = true
				v.setSpecial("eos", x.Special.ID)
			}
		}
	}
	return nil
}

// setSpecial records the id of a special token by its text, unless one is known already.
func (v *vocabulary) setSpecial(key, token string) {
	if _, ok := v.special[key]; ok || token == "" {
		return
	}
	for i, t := range v.tokens {
		if t == token {
			v.special[key] = int32(i)
			return
		}
	}
}

// cut shortens JSON for a message.
func cut(raw json.RawMessage) string {
	const most = 200
	if len(raw) > most {
		return string(raw[:most]) + "…"
	}
	return string(raw)
}

// write writes the tokenizer keys.
func (v *vocabulary) write(w *gguf.Writer) {
	w.SetString("tokenizer.ggml.model", v.model)
	if v.pre != "" {
		w.SetString("tokenizer.ggml.pre", v.pre)
	}
	w.SetStrings("tokenizer.ggml.tokens", v.tokens)
	w.SetInts("tokenizer.ggml.token_type", v.types)
	if v.scores != nil {
		w.SetFloats("tokenizer.ggml.scores", v.scores)
	}
	if v.model == "gpt2" {
		w.SetStrings("tokenizer.ggml.merges", v.merges)
	}
	if v.charmap != nil {
		w.SetInts("tokenizer.ggml.precompiled_charsmap", v.charmap)
	}
	for _, key := range sortedKeys(v.special) {
		w.SetUint("tokenizer.ggml."+key+"_token_id", int(v.special[key]))
	}
	for _, key := range sortedKeys(v.flags) {
		w.SetBool("tokenizer.ggml."+key, v.flags[key])
	}
	if v.segments > 0 {
		w.SetUint("tokenizer.ggml.token_type_count", v.segments)
	}
	if v.chatTemplate != "" {
		w.SetString("tokenizer.chat_template", v.chatTemplate)
	}
}

// sortedKeys makes the order of the written keys reproducible.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	return sorted(keys)
}
