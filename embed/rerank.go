package embed

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/model"
)

// Reranker scores how well passages answer a query, reading both together: a
// cross-encoder, or a language model that answers yes or no.
type Reranker struct {
	texts        // of a cross-encoder
	judge *judge // of a language model; nil for a cross-encoder
	name  string
}

// OpenReranker loads the reranker in the GGUF file at path. An encoder without a
// rank head and a language model that is no reranker are refused: their scores
// would be noise.
func OpenReranker(path string, p *kernel.Pool, profile Profile) (*Reranker, error) {
	r, err := openReranker(path, p, profile)
	if err != nil {
		return nil, fmt.Errorf("embed: open %s: %w", path, err)
	}
	if r.name = profile.Name; r.name == "" {
		r.name = strings.TrimSuffix(filepath.Base(path), ".gguf")
	}
	return r, nil
}

func openReranker(path string, p *kernel.Pool, profile Profile) (*Reranker, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if slices.Contains(model.Architectures(), f.Architecture()) {
		j, err := newJudge(f, p, profile.MaxTokens)
		return &Reranker{judge: j}, err
	}
	t, err := open(path, p, profile.MaxTokens, model.Options{})
	if err != nil {
		return nil, err
	}
	if !t.model.HasRankHead() {
		t.Close()
		return nil, errors.New("the model has no rank head (tensor cls.output.weight); choose a reranker")
	}
	return &Reranker{texts: *t}, nil
}

// Close frees the model. It must not be used after.
func (r *Reranker) Close() {
	if r.judge != nil {
		r.judge.model.Close()
		return
	}
	r.texts.Close()
}

// MaxTokens is the longest prompt or pair, special tokens included.
func (r *Reranker) MaxTokens() int {
	if r.judge != nil {
		return r.judge.max
	}
	return r.texts.MaxTokens()
}

// Model is the profile's name.
func (r *Reranker) Model() string { return r.name }

// Score returns one raw score per passage: higher = more relevant, comparable
// within and between queries of this model. A passage that does not fit beside the
// query is cut; a query longer than half the model is cut too. On error it returns
// the scores of a prefix of passages. It looks at ctx between batches.
func (r *Reranker) Score(ctx context.Context, query string, passages []string) ([]float32, error) {
	query = strings.ToValidUTF8(query, "\uFFFD")
	if r.judge != nil {
		return r.judge.score(ctx, query, passages)
	}
	query = r.cutQuery(query)
	scores := make([]float32, 0, len(passages))
	err := r.eachBatch(ctx, len(passages), func(i int) (ids, types []int32, err error) {
		ids, types = r.pair(query, passages[i])
		return ids, types, nil
	}, func(ids, types [][]int32) error {
		batch, err := r.model.Score(ids, types)
		scores = append(scores, batch...)
		return err
	})
	return scores, err
}

// pair encodes one pair. As in encode, only the head of a huge passage is read.
func (r *Reranker) pair(query, passage string) (ids, types []int32) {
	const bytesPerToken = 256
	if head := r.max * bytesPerToken; len(passage) > head {
		passage = passage[:head]
	}
	return r.tok.EncodePair(query, strings.ToValidUTF8(passage, "\uFFFD"), r.max)
}

// cutQuery leaves at least half of the model to the passage.
func (r *Reranker) cutQuery(query string) string {
	_, ends := r.tok.EncodeOffsets(query)
	if len(ends) <= r.max/2 {
		return query
	}
	return query[:ends[r.max/2-1]]
}
