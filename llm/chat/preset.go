package chat

import (
	"strings"

	"ragd/llm/tokenizer"
)

// presets are the formats of the families, for files without a template of their own.
var presets = map[string]string{
	"chatml": `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}` +
		`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`,
	"llama3": `{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content | trim + '<|eot_id|>' }}{% endfor %}` +
		`{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}`,
	// Gemma has no system role; New finds out and merges it.
	"gemma": `{{ bos_token }}{% for m in messages if m.role != 'system' %}{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + m.content | trim + '<end_of_turn>\n' }}` +
		`{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}`,
	// The three spellings of Mistral: plain text, tokens, and tokens with a system prompt.
	"mistral-v1": `{{ bos_token }}{% for m in messages if m.role != 'system' %}{{ ('[INST] ' + m.content + ' [/INST]') if m.role == 'user' else (' ' + m.content | trim + eos_token) }}{% endfor %}`,
	"mistral-v3": `{{ bos_token }}{% for m in messages if m.role != 'system' %}{{ ('[INST] ' + m.content + '[/INST]') if m.role == 'user' else (' ' + m.content | trim + eos_token) }}{% endfor %}`,
	"mistral-v7": `{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}{% elif m.role == 'user' %}` +
		`{{ '[INST]' + m.content + '[/INST]' }}{% else %}{{ m.content + eos_token }}{% endif %}{% endfor %}`,
	"phi3":      `{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}`,
	"phi4-mini": `{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}`,
	"phi4": `{% for m in messages %}{{ '<|im_start|>' + m.role + '<|im_sep|>' + m.content + '<|im_end|>' }}{% endfor %}` +
		`{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}`,
	"granite": `{% for m in messages %}{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' + m.content + '<|end_of_text|>\n' }}{% endfor %}` +
		`{% if add_generation_prompt %}{{ '<|start_of_role|>assistant<|end_of_role|>' }}{% endif %}`,
}

// detect names the preset of the family that has these control tokens; "" if none.
func detect(modelName string, t *tokenizer.Tokenizer) string {
	has := func(tokens ...string) bool {
		for _, token := range tokens {
			if id, ok := t.ID(token); !ok || !t.IsControl(id) {
				return false
			}
		}
		return true
	}
	switch {
	case has("<|start_header_id|>", "<|eot_id|>"):
		return "llama3"
	case has("<|im_start|>", "<|im_sep|>"):
		return "phi4"
	case has("<|im_start|>", "<|im_end|>"):
		return "chatml"
	case has("<start_of_turn>", "<end_of_turn>"):
		return "gemma"
	case has("<|start_of_role|>", "<|end_of_role|>"):
		return "granite"
	case has("<|user|>", "<|end|>") && t.Kind() == "bpe":
		return "phi4-mini"
	case has("<|user|>", "<|end|>"):
		return "phi3"
	case has("[SYSTEM_PROMPT]", "[INST]"):
		return "mistral-v7"
	case has("[INST]"):
		return "mistral-v3"
	case strings.Contains(strings.ToLower(modelName), "mistral"):
		return "mistral-v1"
	}
	return ""
}
