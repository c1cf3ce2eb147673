package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"ragd/llm/chat/jinja"
	"ragd/llm/gguf"
	"ragd/llm/tokenizer"
)

// The roles of a message.
const (
	System    = "system"
	User      = "user"
	Assistant = "assistant"
)

// Message is one turn of a conversation.
type Message struct{ Role, Content string }

// ErrNoTemplate says that nothing tells how to talk to a model: it is probably not an instruction-tuned one.
var ErrNoTemplate = errors.New("chat: the file has no chat template and its vocabulary is of no known family: it is probably a base model, not one that was tuned for chat")

// Template turns messages into token ids.
type Template struct {
	template *jinja.Template
	tok      *tokenizer.Tokenizer
	origin   string
	// mergeSystem: the template refuses or ignores a system message, so it is put before the first user message.
	mergeSystem bool
}

// FromGGUF returns the chat template of f, or a preset of the family that the vocabulary belongs to when the file has none or one that is
// not understood. ErrNoTemplate if there is neither.
func FromGGUF(f *gguf.File, t *tokenizer.Tokenizer) (*Template, error) {
	name, _ := f.String("general.name")
	source, _ := f.String("tokenizer.chat_template")
	return choose(source, name, t)
}

func choose(source, modelName string, t *tokenizer.Tokenizer) (*Template, error) {
	var refused error
	if strings.TrimSpace(source) != "" {
		tpl, err := New(strings.Clone(source), t)
		if err == nil {
			return tpl, nil
		}
		refused = err
	}
	family := detect(modelName, t)
	if family == "" {
		if refused != nil {
			return nil, refused
		}
		return nil, ErrNoTemplate
	}
	tpl, err := New(presets[family], t)
	if err != nil {
		return nil, err
	}
	tpl.origin = "preset " + family
	if refused != nil {
		tpl.origin += fmt.Sprintf(" (the file's own template is not understood: %v)", refused)
	}
	return tpl, nil
}

// New parses a template and tries it on a short conversation, so that one that cannot work is refused here.
func New(source string, t *tokenizer.Tokenizer) (*Template, error) {
	parsed, err := jinja.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("chat: the model's chat template: %w", err)
	}
	tpl := &Template{template: parsed, tok: t, origin: "the model's file"}
	if _, err := tpl.render([]Message{{User, "u"}}, true); err != nil {
		return nil, fmt.Errorf("chat: the model's chat template fails on a plain question: %w", err)
	}
	const probe = "system-probe"
	text, err := tpl.render([]Message{{System, probe}, {User, "u"}}, true)
	tpl.mergeSystem = err != nil || !strings.Contains(text.String(), probe)
	return tpl, nil
}

// Origin says where the template comes from: the file, or which preset and why.
func (t *Template) Origin() string { return t.origin }

// Spans renders the conversation; only spans that the template wrote allow control tokens. addGenerationPrompt begins the assistant's turn. Encode
// the spans without adding special tokens, or use Encode. The error names an unknown role, or is the template's refusal, for example of a
// conversation in which the roles do not alternate.
func (t *Template) Spans(msgs []Message, addGenerationPrompt bool) ([]tokenizer.Span, error) {
	if len(msgs) == 0 {
		return nil, errors.New("chat: the conversation has no messages")
	}
	for i, m := range msgs {
		if m.Role != System && m.Role != User && m.Role != Assistant {
			return nil, fmt.Errorf("chat: message %d has the role %q; it must be system, user or assistant", i, m.Role)
		}
	}
	if t.mergeSystem {
		msgs = mergeSystem(msgs)
	}
	text, err := t.render(msgs, addGenerationPrompt)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	segments := text.Segments()
	spans := make([]tokenizer.Span, len(segments))
	for i, s := range segments {
		spans[i] = tokenizer.Span{Text: s.Text, ParseSpecial: s.Trusted}
	}
	return spans, nil
}

// Encode returns the ids of the conversation, with one begin token if the model uses one.
func (t *Template) Encode(msgs []Message, addGenerationPrompt bool) ([]int32, error) {
	spans, err := t.Spans(msgs, addGenerationPrompt)
	if err != nil {
		return nil, err
	}
	ids := t.tok.EncodeSpans(spans, false)
	bos, ok := t.tok.BOS()
	if ok && t.tok.AddsBOS() && (len(ids) == 0 || ids[0] != bos) {
		ids = slices.Insert(ids, 0, bos)
	}
	return ids, nil
}

// render runs the template. The roles have been checked.
func (t *Template) render(msgs []Message, addGenerationPrompt bool) (jinja.Text, error) {
	list := &jinja.List{}
	for _, m := range msgs {
		d := jinja.NewDict()
		// Trusted, since it is one of our three words by now: some templates build the token from it, "<|" + role + "|>".
		d.Set(jinja.Trusted("role"), jinja.Trusted(m.Role))
		d.Set(jinja.Trusted("content"), jinja.Untrusted(m.Content))
		list.Items = append(list.Items, d)
	}
	vars := map[string]jinja.Value{
		"messages": list, "add_generation_prompt": addGenerationPrompt,
		"tools": nil, "documents": nil,
		// Answers come from passages: pages of reasoning before them would cost more than they bring on a CPU.
		"enable_thinking": false,
	}
	for name, get := range map[string]func() (int32, bool){
		"bos_token": t.tok.BOS, "eos_token": t.tok.EOS, "pad_token": t.tok.PAD, "unk_token": t.tok.UNK,
	} {
		text := ""
		if id, ok := get(); ok {
			text = t.tok.Token(id)
		}
		vars[name] = jinja.Trusted(text)
	}
	return t.template.Render(vars, jinja.Limits{})
}

// mergeSystem puts system messages before the user message that follows them.
func mergeSystem(msgs []Message) []Message {
	var out []Message
	pending := ""
	for _, m := range msgs {
		switch {
		case m.Role == System && pending == "":
			pending = m.Content
		case m.Role == System:
			pending += "\n\n" + m.Content
		case m.Role == User && pending != "":
			out = append(out, Message{User, pending + "\n\n" + m.Content})
			pending = ""
		default:
			out = append(out, m)
		}
	}
	if pending != "" {
		out = append(out, Message{User, pending})
	}
	return out
}
