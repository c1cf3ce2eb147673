package tokenizer

import "strings"

// region is a stretch [start, end) of the joined text in which control tokens may be recognised.
type region struct{ start, end int }

// specials finds the tokens that are cut out of a text before the model of the family sees the rest.
type specials struct {
	trie    *trie
	first   [256]bool      // bytes some special token starts with: skips nearly all positions at once
	control map[int32]bool // recognised only inside a region; the others everywhere
	rstrip  map[int32]bool // swallow the white space that follows
}

func newSpecials(v *Vocabulary) *specials {
	s := &specials{control: map[int32]bool{}, rstrip: map[int32]bool{}}
	var keys []string
	var ids []int32
	name := strings.ToLower(v.Name)
	phi3 := strings.Contains(name, "phi-3") || strings.Contains(name, "phi3")
	for i, text := range v.Tokens {
		id := int32(i)
		switch v.Types[i] {
		case Control, Unknown:
			s.control[id] = true
		case UserDefined:
			// Converters mark some turn markers as user defined; a document must not be able to write one.
			if looksLikeControl(text) {
				s.control[id] = true
			}
		default:
			continue
		}
		if text == "" {
			continue
		}
		// Phi-3's tokenizer_config marks its added tokens rstrip, which GGUF does not carry.
		if phi3 && text != "<unk>" && text != "<s>" && text != "<|endoftext|>" {
			s.rstrip[id] = true
		}
		keys, ids = append(keys, text), append(ids, id)
		s.first[text[0]] = true
	}
	s.trie = newTrie(keys, ids)
	return s
}

// looksLikeControl tells turn and role markers from the rest of the user-defined tokens (tool tags, white space runs, HTML).
func looksLikeControl(text string) bool {
	inner := func(prefix, suffix string) bool {
		return len(text) > len(prefix)+len(suffix) && strings.HasPrefix(text, prefix) && strings.HasSuffix(text, suffix)
	}
	switch {
	case inner("<|", "|>"), inner("<｜", "｜>"), inner("<<", ">>"), inner("<", "_of_turn>"):
		return true
	case inner("[", "]"): // [INST], [/INST], [SYSTEM_PROMPT]; not [multimodal]
		return strings.Trim(text[1:len(text)-1], "/_ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
	}
	return text == "<s>" || text == "</s>" || text == "<bos>" || text == "<eos>"
}

// next returns the first special token at or after from: its place [start, end) and its id, or start = len(text) and id -1.
// Of several that begin at one place the longest wins, as in Hugging Face's added-token matcher.
func (s *specials) next(text string, from int, allowed []region) (start, end int, id int32) {
	for i := from; i < len(text); i++ {
		if !s.first[text[i]] {
			continue
		}
		for len(allowed) > 0 && allowed[0].end <= i {
			allowed = allowed[1:]
		}
		limit := i // control tokens must end at or before
		if len(allowed) > 0 && allowed[0].start <= i {
			limit = allowed[0].end
		}
		best, bestEnd := int32(-1), 0
		node := int32(0)
		for j := i; j < len(text); j++ {
			if node = s.trie.step(node, text[j]); node < 0 {
				break
			}
			if id := s.trie.nodes[node].id; id >= 0 && (j < limit || !s.control[id]) {
				best, bestEnd = id, j+1
			}
		}
		if best >= 0 {
			if s.rstrip[best] {
				bestEnd = len(text) - len(strings.TrimLeft(text[bestEnd:], " \t\r\n\v\f"))
			}
			return i, bestEnd, best
		}
	}
	return len(text), len(text), -1
}
