package chat

import (
	"ragd/llm/gguf"
	"ragd/llm/tokenizer"
)

// Message is one turn of a conversation.
type Message struct{ Role, Content string }

// Template turns messages into token ids.
type Template struct{}

func FromGGUF(f *gguf.File, t *tokenizer.Tokenizer) (*Template, error) { panic("unfinished") }
func (t *Template) Spans(msgs []Message, addGenerationPrompt bool) ([]tokenizer.Span, error) {
	return nil, nil
}
func (t *Template) Encode(msgs []Message, addGenerationPrompt bool) ([]int32, error) { return nil, nil }
