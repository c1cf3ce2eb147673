package embed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/model"
	"ragd/llm/tokenizer"
)

// judge is a reranker made of a language model (Qwen3-Reranker and its kind): asked whether a document meets a query, it
// answers yes or no, and the score is how much more it leans to yes.
type judge struct {
	tok     *tokenizer.Tokenizer
	max     int     // tokens of the whole prompt
	yes, no int32   // outputs of the model
	before  []int32 // instructions
	after   []int32 // begins the answer

	mu    sync.Mutex // guards the model and the cache, which holds one prompt
	model *model.Model
	pages []int32
	batch model.Batch
}

// The prompt of the Qwen3-Reranker model card; another wording makes other scores.
const (
	judgeBefore = "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. " +
		"Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n"
	judgeQuery    = "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n<Query>: "
	judgeDocument = "\n<Document>:" // a space and the document follow, which no pre-tokenizer joins with the colon
	judgeAfter    = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"

	// judgeTokens bounds a prompt: passages are a few hundred tokens, and the cache is allocated for it.
	judgeTokens = 2048
	// judgeMin is the room without which instructions, query and document do not fit together in any sensible way.
	judgeMin = 64
)

// isJudge reports whether f says that it is a reranker; a language model that does not was trained for something else.
func isJudge(f *gguf.File) bool {
	kind, _ := f.Uint(f.Architecture() + ".pooling_type")
	name, _ := f.String("general.name")
	return kind == uint64(model.PoolRank) || strings.Contains(strings.ToLower(name+f.Path()), "rerank")
}

func newJudge(f *gguf.File, p *kernel.Pool, maxTokens int) (*judge, error) {
	if !isJudge(f) {
		return nil, errors.New("the model generates text and does not say that it is a reranker; choose a reranker")
	}
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		return nil, err
	}
	c, err := model.ReadConfig(f)
	if err != nil {
		return nil, err
	}
	j := &judge{tok: tok, before: tok.Encode(judgeBefore, true, true), after: tok.Encode(judgeAfter, false, true)}
	for word, id := range map[string]*int32{"yes": &j.yes, "no": &j.no} {
		ok := false
		if c.Labels != nil {
			*id = int32(slices.Index(c.Labels, word))
			ok = *id >= 0
		} else {
			*id, ok = tok.ID(word)
		}
		if !ok {
			return nil, fmt.Errorf("the model has no output %q, with which rerankers of this kind answer", word)
		}
	}
	j.max = min(c.Context, judgeTokens)
	if maxTokens > c.Context {
		return nil, fmt.Errorf("the profile asks for %d tokens; the model takes %d", maxTokens, c.Context)
	}
	if maxTokens > 0 {
		j.max = maxTokens
	}
	if room := j.max - len(j.before) - len(j.after) - len(tok.Encode(judgeQuery+judgeDocument, false, false)); room < judgeMin {
		return nil, fmt.Errorf("the instructions leave %d of %d tokens to query and document; at least %d are needed", max(room, 0), j.max, judgeMin)
	}
	if j.model, err = model.Load(f, p, model.Options{KV: kernel.KVF16, ContextTokens: j.max}); err != nil {
		return nil, err
	}
	for i := range j.model.Pages() {
		j.pages = append(j.pages, int32(i))
	}
	return j, nil
}

// score returns the scores of a prefix of passages. Instructions and query are read once; every passage then overwrites the
// one before it in the cache.
func (j *judge) score(ctx context.Context, query string, passages []string) ([]float32, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	shared := j.shared(query)
	if err := j.forward(shared, 0, nil); err != nil {
		return nil, err
	}
	var scores []float32
	for _, p := range passages {
		if ctx.Err() != nil {
			return scores, fmt.Errorf("embed: %w", context.Cause(ctx))
		}
		rest := j.rest(p, len(shared))
		if err := j.forward(rest, len(shared), []int{len(rest) - 1}); err != nil {
			return scores, err
		}
		scores = append(scores, j.batch.Logits[j.yes]-j.batch.Logits[j.no])
	}
	return scores, nil
}

// shared is the prompt up to the document. A query is cut where it leaves less than half of the room to the passage.
func (j *judge) shared(query string) []int32 {
	frame := len(j.before) + len(j.after) + len(j.tok.Encode(judgeQuery+judgeDocument, false, false))
	if _, ends := j.tok.EncodeOffsets(query); len(ends) > (j.max-frame)/2 {
		query = strings.ToValidUTF8(query[:ends[(j.max-frame)/2-1]], "")
	}
	ids := append([]int32{}, j.before...)
	return append(ids, j.tok.Encode(judgeQuery+query+judgeDocument, false, false)...)
}

// rest is the document, cut to what fits behind the shared part, and the beginning of the answer.
func (j *judge) rest(passage string, shared int) []int32 {
	const bytesPerToken = 256 // only the head of a huge passage is read
	if head := j.max * bytesPerToken; len(passage) > head {
		passage = passage[:head]
	}
	ids := j.tok.Encode(" "+strings.ToValidUTF8(passage, "\uFFFD"), false, false)
	ids = ids[:min(len(ids), j.max-shared-len(j.after))]
	return append(ids, j.after...)
}

func (j *judge) forward(ids []int32, position int, out []int) error {
	j.batch.Tokens, j.batch.Out = ids, out
	j.batch.Seqs = append(j.batch.Seqs[:0], model.Seq{N: len(ids), Pos: position, Pages: j.pages})
	return j.model.Forward(&j.batch)
}
