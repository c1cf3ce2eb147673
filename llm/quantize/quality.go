package quantize

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/model"
	"ragd/llm/sample"
	"ragd/llm/tokenizer"
)

// Text is the evaluation text for those who have none of their own: prose, figures, rules, a dialogue, code and a table,
// written for this purpose.
//
//go:embed eval.txt
var Text string

// Quality compares a candidate with the model that it was made from. Every figure but Tokens and the speeds is a mean over
// the scored positions, all of which see at least half a window.
type Quality struct {
	Tokens         int     `json:"tokens"`     // scored
	Perplexity     float64 `json:"perplexity"` // of the candidate
	BasePerplexity float64 `json:"base_perplexity"`
	MeanKL         float64 `json:"mean_kl"` // nats from the base's next-token distribution to the candidate's
	MedianKL       float64 `json:"median_kl"`
	P99KL          float64 `json:"p99_kl"`
	MaxKL          float64 `json:"max_kl"`
	SameTop        float64 `json:"same_top"`    // share of positions at which both prefer the same token
	RMSDeltaP      float64 `json:"rms_delta_p"` // root mean square change of the probability of the text's own next token

	// Tokens per second of decoding, as the engine serves the files.
	BaseSpeed float64 `json:"base_tokens_per_second"`
	Speed     float64 `json:"tokens_per_second"`
}

// qualityWindow is the context of a scored window. It is short, so that a short text has several.
const qualityWindow = 256

// Check refuses what File, Compare and CompareEncoders would refuse: a model that cannot run, weights that Options do not let it round, and a text that is
// too short.
func Check(f *gguf.File, o Options, text string) error {
	if err := check(f, o, text); err != nil {
		return fmt.Errorf("quantize: %s: %w", f.Path(), err)
	}
	return nil
}

func check(f *gguf.File, o Options, text string) error {
	var shape *model.Config // of a text generator
	var err error
	if model.IsEncoder(f) {
		_, err = model.ReadEncoderConfig(f)
	} else if shape, err = model.ReadConfig(f); err == nil && shape.Labels != nil {
		shape = nil
	}
	if err != nil {
		return err
	}
	if _, err := plan(f, o); err != nil {
		return err
	}
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		return err
	}
	if shape == nil {
		return enoughSentences(sentences(text))
	}
	_, err = qualityWindows(tok, text, min(qualityWindow, shape.Context))
	return err
}

// qualityWindows cuts text into whole windows.
func qualityWindows(tok *tokenizer.Tokenizer, text string, window int) ([][]int32, error) {
	tokens := tok.Encode(text, true, false)
	var windows [][]int32
	for ; len(tokens) >= window; tokens = tokens[window:] {
		w := slices.Clone(tokens[:window])
		if bos, ok := tok.BOS(); ok && tok.AddsBOS() {
			w[0] = bos // as the reference tool does
		}
		windows = append(windows, w)
	}
	if len(windows) == 0 {
		return nil, fmt.Errorf("the evaluation text has %d tokens; at least %d are needed", len(tokens), window)
	}
	return windows, nil
}

func enoughSentences(texts []string) error {
	if len(texts) < 2 {
		return fmt.Errorf("the evaluation text has %d sentences; at least 2 are needed", len(texts))
	}
	return nil
}

// Compare runs base and candidate, two versions of one text generator, over text. The base runs with float weights where
// they fit into memory. It fails when the vocabularies differ or the text is shorter than a window.
func Compare(ctx context.Context, base, candidate *gguf.File, pool *kernel.Pool, text string, progress func(done, total int)) (*Quality, error) {
	q, err := compare(ctx, base, candidate, pool, text, progress)
	if err != nil {
		return nil, fmt.Errorf("quantize: compare: %w", err)
	}
	return q, nil
}

func compare(ctx context.Context, base, candidate *gguf.File, pool *kernel.Pool, text string, progress func(done, total int)) (*Quality, error) {
	tok, err := tokenizer.FromGGUF(base)
	if err != nil {
		return nil, err
	}
	q := &Quality{}
	if q.BaseSpeed, err = decodeSpeed(base, pool); err != nil {
		return nil, err
	}
	b, err := load(base, pool, qualityWindow, referenceFloat(base))
	if err != nil {
		return nil, err
	}
	defer b.Close()
	c, err := load(candidate, pool, qualityWindow, false)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if b.Vocab() != c.Vocab() {
		return nil, fmt.Errorf("vocabularies of %d and %d tokens cannot be compared", b.Vocab(), c.Vocab())
	}
	windows, err := qualityWindows(tok, text, min(qualityWindow, b.ContextTokens()))
	if err != nil {
		return nil, err
	}
	s := &scores{pool: pool, base: b, candidate: c}
	for i, w := range windows {
		if err := s.window(ctx, w); err != nil {
			return nil, err
		}
		if progress != nil {
			progress(i+1, len(windows))
		}
	}
	s.summarise(q)
	q.Speed, err = timeDecoding(c)
	return q, err
}

// scores collects one entry per scored position.
type scores struct {
	pool            *kernel.Pool
	base, candidate *model.Model

	baseLog, log []float64 // log-probability of the text's next token
	divergence   []float64
	same         int
}

// window scores the second half of a window.
func (s *scores) window(ctx context.Context, w []int32) error {
	var rows [2]model.Batch
	pages := pagesFor(len(w))
	half := len(w) / 2
	for lo := 0; lo < len(w)-1; {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi, outs := half, 0
		if lo >= half {
			hi = min(lo+logitRows, len(w)-1) // the last token has no next one
			outs = hi - lo
		}
		for i, m := range []*model.Model{s.base, s.candidate} {
			rows[i].Tokens, rows[i].Out = w[lo:hi], count(outs)
			rows[i].Seqs = []model.Seq{{N: hi - lo, Pos: lo, Pages: pages}}
			if err := m.Forward(&rows[i]); err != nil {
				return err
			}
		}
		s.score(rows[0].Logits, rows[1].Logits, w[lo+1:hi+1], outs)
		lo = hi
	}
	return nil
}

// score compares rows of logits; next[i] is the token that the text has after row i.
func (s *scores) score(base, candidate []float32, next []int32, rows int) {
	at := len(s.log)
	s.baseLog, s.log = append(s.baseLog, make([]float64, rows)...), append(s.log, make([]float64, rows)...)
	s.divergence = append(s.divergence, make([]float64, rows)...)
	same := make([]bool, rows)
	vocab := s.base.Vocab()
	s.pool.Run(rows, func(i, _ int) {
		b, c := base[i*vocab:][:vocab], candidate[i*vocab:][:vocab]
		s.baseLog[at+i], s.log[at+i] = float64(sample.LogProb(b, next[i])), float64(sample.LogProb(c, next[i]))
		s.divergence[at+i] = divergence(b, c)
		same[i] = kernel.ArgMax(b) == kernel.ArgMax(c)
	})
	for _, x := range same {
		if x {
			s.same++
		}
	}
}

// divergence is Σ p ln(p/q) of two rows of logits, never below 0.
func divergence(p, q []float32) float64 {
	zp, zq := logSumExp(p), logSumExp(q)
	sum := 0.0
	for i := range p {
		if lp := float64(p[i]) - zp; lp > -40 { // lighter tokens add nothing that a float64 keeps
			sum += math.Exp(lp) * (lp - float64(q[i]) + zq)
		}
	}
	return max(sum, 0)
}

func logSumExp(x []float32) float64 {
	top := float64(slices.Max(x))
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}

func (s *scores) summarise(q *Quality) {
	n := float64(len(s.log))
	q.Tokens = len(s.log)
	var sum, baseSum, kl, square float64
	for i := range s.log {
		sum += s.log[i]
		baseSum += s.baseLog[i]
		kl += s.divergence[i]
		d := math.Exp(s.log[i]) - math.Exp(s.baseLog[i])
		square += d * d
	}
	slices.Sort(s.divergence)
	at := func(share float64) float64 { return s.divergence[min(int(share*n), len(s.divergence)-1)] }
	q.Perplexity, q.BasePerplexity = math.Exp(-sum/n), math.Exp(-baseSum/n)
	q.MeanKL, q.MedianKL, q.P99KL, q.MaxKL = kl/n, at(0.5), at(0.99), at(1)
	q.SameTop, q.RMSDeltaP = float64(s.same)/n, math.Sqrt(square/n)
}

// floatBytes is the largest model that runs with float weights as a reference: 2 billion weights.
const floatBytes = 8 << 30

// referenceFloat reports whether the weights of f are few enough for 4 bytes each.
func referenceFloat(f *gguf.File) bool {
	n := 0
	for _, t := range f.Tensors() {
		n += t.Rows() * t.Cols()
	}
	return 4*n <= floatBytes
}

// decodeSpeed loads f as the engine does and times it.
func decodeSpeed(f *gguf.File, pool *kernel.Pool) (float64, error) {
	m, err := load(f, pool, qualityWindow, false)
	if err != nil {
		return 0, err
	}
	defer m.Close()
	return timeDecoding(m)
}

// timeDecoding returns tokens per second over a few dozen single steps.
func timeDecoding(m *model.Model) (float64, error) {
	const warm, steps = 4, 24
	pages := pagesFor(warm + steps)
	b := model.Batch{Tokens: []int32{0}, Out: []int{0}}
	var start time.Time
	for i := range warm + steps {
		if i == warm {
			start = time.Now()
		}
		b.Seqs = []model.Seq{{N: 1, Pos: i, Pages: pages}}
		if err := m.Forward(&b); err != nil {
			return 0, err
		}
	}
	return steps / time.Since(start).Seconds(), nil
}

// EncoderQuality compares a candidate of an embedding model or a reranker with the model that it was made from.
type EncoderQuality struct {
	Texts       int     `json:"texts"`
	MeanCosine  float64 `json:"mean_cosine"` // between the two vectors of a text; 0 for rerankers
	MinCosine   float64 `json:"min_cosine"`
	SameNearest float64 `json:"same_nearest"`      // share of texts whose nearest other text stays the same
	MeanScore   float64 `json:"mean_score_change"` // absolute difference of the scores of pairs; 0 for embedding models
	MaxScore    float64 `json:"largest_score_change"`
}

// CompareEncoders runs two versions of one encoder, or of one reranker that answers yes or no, over the sentences of text.
func CompareEncoders(ctx context.Context, base, candidate *gguf.File, pool *kernel.Pool, text string) (*EncoderQuality, error) {
	q, err := compareEncoders(ctx, base, candidate, pool, sentences(text))
	if err != nil {
		return nil, fmt.Errorf("quantize: compare: %w", err)
	}
	return q, nil
}

func compareEncoders(ctx context.Context, base, candidate *gguf.File, pool *kernel.Pool, texts []string) (*EncoderQuality, error) {
	if err := enoughSentences(texts); err != nil {
		return nil, err
	}
	tok, err := tokenizer.FromGGUF(base)
	if err != nil {
		return nil, err
	}
	if !model.IsEncoder(base) {
		return compareClassifiers(ctx, base, candidate, pool, tok, texts)
	}
	b, err := model.LoadEncoder(base, pool, model.Options{Float: referenceFloat(base)})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	c, err := model.LoadEncoder(candidate, pool, model.Options{})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	q := &EncoderQuality{Texts: len(texts)}
	if b.HasRankHead() {
		return q, q.pairs(ctx, b, c, tok, texts)
	}
	return q, q.vectors(ctx, b, c, tok, texts)
}

func (q *EncoderQuality) pairs(ctx context.Context, b, c *model.Encoder, tok *tokenizer.Tokenizer, texts []string) error {
	for i, text := range texts[1:] {
		ids, types := tok.EncodePair(texts[i], text, b.MaxTokens())
		var score [2]float32
		for k, e := range []*model.Encoder{b, c} {
			got, err := e.Score([][]int32{ids}, [][]int32{types})
			if err != nil {
				return err
			}
			score[k] = got[0]
		}
		d := math.Abs(float64(score[0]) - float64(score[1]))
		q.MeanScore += d / float64(len(texts)-1)
		q.MaxScore = max(q.MaxScore, d)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// compareClassifiers compares two versions of a decoder with two labels.
func compareClassifiers(ctx context.Context, base, candidate *gguf.File, pool *kernel.Pool, tok *tokenizer.Tokenizer, texts []string) (*EncoderQuality, error) {
	want, err := leanings(ctx, base, pool, referenceFloat(base), tok, texts)
	if err != nil {
		return nil, err
	}
	got, err := leanings(ctx, candidate, pool, false, tok, texts)
	if err != nil {
		return nil, err
	}
	q := &EncoderQuality{Texts: len(texts)}
	for i := range want {
		d := math.Abs(want[i] - got[i])
		q.MeanScore += d / float64(len(want))
		q.MaxScore = max(q.MaxScore, d)
	}
	return q, nil
}

// leanings returns how far f leans to its first label after each text and its neighbour.
func leanings(ctx context.Context, f *gguf.File, pool *kernel.Pool, float bool, tok *tokenizer.Tokenizer, texts []string) ([]float64, error) {
	m, err := load(f, pool, qualityWindow, float)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if len(m.Config().Labels) != 2 {
		return nil, fmt.Errorf("%s has the labels %q; two can be compared", f.Path(), m.Config().Labels)
	}
	var scores []float64
	var b model.Batch
	for i, text := range texts[1:] {
		b.Tokens = tok.Encode(texts[i]+"\n"+text, true, false)
		b.Tokens = b.Tokens[:min(len(b.Tokens), m.ContextTokens())]
		b.Out = []int{len(b.Tokens) - 1}
		b.Seqs = []model.Seq{{N: len(b.Tokens), Pages: pagesFor(len(b.Tokens))}}
		if err := m.Forward(&b); err != nil {
			return nil, err
		}
		scores = append(scores, float64(b.Logits[0]-b.Logits[1]))
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return scores, nil
}

func (q *EncoderQuality) vectors(ctx context.Context, b, c *model.Encoder, tok *tokenizer.Tokenizer, texts []string) error {
	pooling := b.Pooling()
	if pooling == model.PoolNone {
		pooling = model.PoolMean
	}
	var vectors [2][][]float32
	for _, text := range texts {
		ids := tok.Encode(text, true, false)
		ids = ids[:min(len(ids), b.MaxTokens())]
		for k, e := range []*model.Encoder{b, c} {
			v, err := e.Embed([][]int32{ids}, nil, pooling, true)
			if err != nil {
				return err
			}
			vectors[k] = append(vectors[k], v[0])
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	q.MinCosine = 1
	for i := range texts {
		cos := dot(vectors[0][i], vectors[1][i])
		q.MeanCosine += cos / float64(len(texts))
		q.MinCosine = min(q.MinCosine, cos)
		if nearest(vectors[0], i) == nearest(vectors[1], i) {
			q.SameNearest += 1 / float64(len(texts))
		}
	}
	return nil
}

// nearest is the index of the other vector that is most similar to vector i.
func nearest(vectors [][]float32, i int) int {
	best, at := math.Inf(-1), -1
	for j, v := range vectors {
		if cos := dot(vectors[i], v); j != i && cos > best {
			best, at = cos, j
		}
	}
	return at
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// sentences cuts a text at line ends and full stops, roughly: it only has to give many short texts.
func sentences(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		for _, s := range strings.SplitAfter(line, ". ") {
			if s = strings.TrimSpace(s); len(s) > 20 {
				out = append(out, s)
			}
		}
	}
	return out
}
