package embed

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/model"
	"ragd/llm/tokenizer"
)

// Vector is a unit-length embedding of Dim numbers.
type Vector []float32

// Role says what a text is, since encoders prefix questions and passages
// differently.
type Role uint8

const (
	Query Role = iota
	Passage
)

// Embedder turns texts into vectors.
type Embedder interface {
	// Model is the stable identity of model, prefixes and pooling; it keys stored
	// vectors.
	Model() string
	Dim() int
	// Embed returns one vector per text. On error it returns the vectors of a
	// prefix of texts, possibly empty, so that finished work can be kept.
	Embed(ctx context.Context, role Role, texts []string) ([]Vector, error)
}

// Profile is how a model wants to be used. The zero value takes what the file
// says and adds no prefix.
type Profile struct {
	Name          string // identity of the model; default: the file's name
	QueryPrefix   string
	PassagePrefix string
	Pooling       string // "mean", "cls" or "last"; default: what the file says, else mean
	MaxTokens     int    // longest text in tokens; default and upper bound: the model's
}

// batchTokens is how many tokens run together: enough for every weight to be
// reused from the cache, and short enough (about 0.2 s for a small model on two
// cores) that a question does not wait long behind an ingestion.
const batchTokens = 1024

// Encoder embeds texts; it implements Embedder.
type Encoder struct {
	texts
	profile Profile
	pooling model.Pooling
}

// Open loads the encoder in the GGUF file at path.
func Open(path string, p *kernel.Pool, profile Profile) (*Encoder, error) {
	t, err := open(path, p, profile.MaxTokens, model.Options{})
	if err != nil {
		return nil, fmt.Errorf("embed: open %s: %w", path, err)
	}
	e := &Encoder{texts: *t, profile: profile, pooling: t.model.Pooling()}
	if e.profile.Name == "" {
		e.profile.Name = strings.TrimSuffix(filepath.Base(path), ".gguf")
	}
	if profile.Pooling != "" {
		e.pooling, err = model.ParsePooling(profile.Pooling)
	} else if e.pooling == model.PoolNone {
		e.pooling = model.PoolMean
	}
	if err == nil && e.pooling == model.PoolRank {
		err = fmt.Errorf("the model scores pairs (pooling %q); open it as a reranker", e.pooling)
	}
	if err == nil {
		err = e.checkPrefixes()
	}
	if err != nil {
		e.Close()
		return nil, fmt.Errorf("embed: open %s: %w", path, err)
	}
	return e, nil
}

// checkPrefixes refuses a profile whose prefix alone fills the model.
func (e *Encoder) checkPrefixes() error {
	for _, prefix := range []string{e.profile.QueryPrefix, e.profile.PassagePrefix} {
		if n := len(e.tok.Encode(prefix, true, false)); n >= e.max {
			return fmt.Errorf("the prefix %q takes %d of %d tokens", prefix, n, e.max)
		}
	}
	return nil
}

// Model is the profile's name.
func (e *Encoder) Model() string { return e.profile.Name }

// Dim is the length of the vectors.
func (e *Encoder) Dim() int { return e.model.Dim() }

// Embed returns one unit vector per text, as Embedder says. It looks at ctx
// between batches.
func (e *Encoder) Embed(ctx context.Context, role Role, texts []string) ([]Vector, error) {
	prefix := e.profile.PassagePrefix
	if role == Query {
		prefix = e.profile.QueryPrefix
	}
	vectors := make([]Vector, 0, len(texts))
	// Batches follow the order of texts: sequences are packed without padding, so
	// sorting by length would gain nothing and would lose the finished prefix.
	err := e.eachBatch(ctx, len(texts), func(i int) (ids, types []int32, err error) {
		ids = e.encode(prefix + texts[i])
		if len(ids) == 0 {
			err = fmt.Errorf("embed: text %d is empty, which %s cannot represent", i, e.profile.Name)
		}
		return ids, nil, err
	}, func(ids, types [][]int32) error {
		batch, err := e.model.Embed(ids, nil, e.pooling, true)
		for _, v := range batch {
			vectors = append(vectors, v)
		}
		return err
	})
	return vectors, err
}

// MaxPassageTokens is how many tokens of a passage the model reads beside its
// prefix and special tokens.
func (e *Encoder) MaxPassageTokens() int {
	return e.max - len(e.tok.Encode(e.profile.PassagePrefix, true, false))
}

// Tokens counts the tokens of text as a passage has them, without prefix and
// special tokens.
func (e *Encoder) Tokens(text string) int {
	return len(e.tok.Encode(strings.ToValidUTF8(text, "\uFFFD"), false, false))
}

// SplitOffsets returns for each token of text the byte offset after it. text must
// be valid UTF-8.
func (e *Encoder) SplitOffsets(text string) []int {
	_, ends := e.tok.EncodeOffsets(text)
	return ends
}

// texts is what Encoder and Reranker share: a model, its tokenizer and batching.
type texts struct {
	model *model.Encoder
	tok   *tokenizer.Tokenizer
	max   int // tokens of one text, special ones included
}

func open(path string, p *kernel.Pool, maxTokens int, o model.Options) (*texts, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		return nil, err
	}
	m, err := model.LoadEncoder(f, p, o)
	if err != nil {
		return nil, err
	}
	t := &texts{model: m, tok: tok, max: m.MaxTokens()}
	switch {
	case maxTokens > t.max:
		err = fmt.Errorf("the profile asks for %d tokens; the model takes %d", maxTokens, t.max)
	case tok.Size() > m.Config().Vocab:
		err = fmt.Errorf("the tokenizer has %d tokens but the model %d embeddings", tok.Size(), m.Config().Vocab)
	case maxTokens > 0:
		t.max = maxTokens
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return t, nil
}

// Close frees the model. It must not be used after.
func (t *texts) Close() { t.model.Close() }

// MaxTokens is the longest text, prefix and special tokens included.
func (t *texts) MaxTokens() int { return t.max }

// encode tokenizes text and cuts it to what the model reads, keeping the special
// token at its end.
func (t *texts) encode(text string) []int32 {
	// Only the head of a huge text can matter. Words of over a hundred characters
	// are one unknown token in WordPiece, so a head that leaves this much slack
	// behind the last token read does not change the ones before.
	const bytesPerToken, slackTokens = 64, 256
	if head := t.max * bytesPerToken; len(text) > head {
		for head > 0 && !utf8.RuneStart(text[head]) {
			head--
		}
		if ids := t.tok.Encode(strings.ToValidUTF8(text[:head], "\uFFFD"), true, false); len(ids) > t.max+slackTokens {
			return t.truncate(ids)
		}
	}
	return t.truncate(t.tok.Encode(strings.ToValidUTF8(text, "\uFFFD"), true, false))
}

func (t *texts) truncate(ids []int32) []int32 {
	if len(ids) <= t.max {
		return ids
	}
	last := ids[len(ids)-1]
	ids = ids[:t.max]
	if t.tok.IsControl(last) {
		ids[t.max-1] = last
	}
	return ids
}

// eachBatch encodes n texts in order and runs them in batches of about
// batchTokens. It stops at the first error, after running what was encoded.
func (t *texts) eachBatch(ctx context.Context, n int, encode func(i int) (ids, types []int32, err error), run func(ids, types [][]int32) error) error {
	var ids, types [][]int32
	tokens := 0
	flush := func() error {
		if len(ids) == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("embed: %w", context.Cause(ctx))
		}
		err := run(ids, types)
		ids, types, tokens = ids[:0], types[:0], 0
		return err
	}
	for i := range n {
		text, segments, err := encode(i)
		if err != nil {
			if flushed := flush(); flushed != nil {
				return flushed
			}
			return err
		}
		if tokens+len(text) > batchTokens {
			if err := flush(); err != nil {
				return err
			}
		}
		ids, types, tokens = append(ids, text), append(types, segments), tokens+len(text)
	}
	return flush()
}
