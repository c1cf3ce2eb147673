package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tokenizerConfig is tokenizer_config.json.
type tokenizerConfig struct {
	names     map[string]string // GGUF key to token
	lowercase *bool
	accents   *bool
	template  string
}

// readTokenizerConfig reads tokenizer_config.json and chat_template.jinja; both may be missing.
func readTokenizerConfig(dir string) (*tokenizerConfig, error) {
	s := &tokenizerConfig{names: map[string]string{}}
	b, err := os.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		b, err = []byte("{}"), nil
	}
	if err != nil {
		return nil, err
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	for key, to := range map[string]string{
		"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "sep_token": "seperator", // spelled so in the format
		"pad_token": "padding", "cls_token": "cls", "mask_token": "mask",
	} {
		var object struct {
			Content string `json:"content"`
		}
		var text string
		if json.Unmarshal(raw[key], &text) != nil && json.Unmarshal(raw[key], &object) == nil {
			text = object.Content
		}
		s.names[to] = text
	}
	_ = json.Unmarshal(raw["do_lower_case"], &s.lowercase) // absent or of another type: unknown
	_ = json.Unmarshal(raw["strip_accents"], &s.accents)
	if s.template, err = chatTemplate(raw["chat_template"]); err != nil {
		return nil, err
	}
	if b, err := os.ReadFile(filepath.Join(dir, "chat_template.jinja")); err == nil {
		s.template = string(b)
	}
	return s, nil
}

// chatTemplate reads a template, or the one named default of a list.
func chatTemplate(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var list []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", fmt.Errorf("tokenizer_config.json: chat_template: %w", err)
	}
	for _, t := range list {
		if t.Name == "default" {
			return t.Template, nil
		}
	}
	return "", fmt.Errorf("tokenizer_config.json: none of the %d chat templates is named default", len(list))
}

// specials fills in the ids of special tokens: by name from tokenizer_config.json, else from config.json.
func (s *tokenizerConfig) specials(v *vocabulary, c *config) {
	for key, name := range s.names {
		v.setSpecial(key, name)
	}
	if v.model == "bert" { // their names are fixed, whether the settings repeat them or not
		for key, name := range map[string]string{"unknown": "[UNK]", "seperator": "[SEP]", "padding": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"} {
			v.setSpecial(key, name)
		}
	}
	if c != nil {
		for key, ids := range map[string]tokenIDs{"bos": c.BOS, "eos": c.EOS, "padding": c.PAD} {
			if _, ok := v.special[key]; !ok && len(ids) > 0 && ids[0] >= 0 && int(ids[0]) < len(v.tokens) {
				v.special[key] = ids[0]
			}
		}
	}
	if v.model != "bert" {
		return
	}
	// BERT's [CLS] and [SEP] play the roles of begin and end.
	for key, from := range map[string]string{"bos": "cls", "eos": "seperator"} {
		if id, ok := v.special[from]; ok {
			v.special[key] = id
		}
	}
	v.flags["add_bos_token"], v.flags["add_eos_token"] = true, true
}

// readVocabTxt reads the word list of an older BERT folder.
func readVocabTxt(dir string, s *tokenizerConfig) (*vocabulary, error) {
	b, err := os.ReadFile(filepath.Join(dir, "vocab.txt"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the tokenizer is missing: neither tokenizer.json nor vocab.txt is there")
	}
	if err != nil {
		return nil, err
	}
	if s.lowercase == nil {
		return nil, fmt.Errorf("tokenizer_config.json does not say do_lower_case, without which vocab.txt is ambiguous")
	}
	v := &vocabulary{model: "bert", special: map[string]int32{}, flags: map[string]bool{}}
	special := map[string]bool{"[PAD]": true, "[UNK]": true, "[CLS]": true, "[SEP]": true, "[MASK]": true}
	for _, token := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		token = strings.TrimSuffix(token, "\r")
		v.tokens = append(v.tokens, token)
		v.types = append(v.types, map[bool]int32{true: controlToken, false: normalToken}[special[token]])
	}
	s.specials(v, nil)
	v.markWords()
	v.caseRules(*s.lowercase, s.accents)
	return v, nil
}
