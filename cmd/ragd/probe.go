package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"ragd/embed"
	"ragd/llm/chat"
	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/model"
	"ragd/llm/tokenizer"
)

// probeOptions choose the numeric path. The zero value is the quantized path with
// a float32 cache on all threads.
type probeOptions struct {
	Float   bool
	KV      kernel.KVType
	Threads int
	Profile embed.Profile // the catalogue's prefixes and pooling, for encoders
}

// probeRequest is one line of input; docs/probe.md describes the fields.
type probeRequest struct {
	ID           json.RawMessage `json:"id"`
	Tokens       []int32         `json:"tokens"`
	Text         *string         `json:"text"`
	TextHex      *string         `json:"text_hex"`
	Raw          bool            `json:"raw"`
	Role         string          `json:"role"` // of a text for an encoder: "query" or "passage" (default)
	AddSpecial   *bool           `json:"add_special"`
	ParseSpecial *bool           `json:"parse_special"`
	Logits       string          `json:"logits"`
	Greedy       int             `json:"greedy"`
	Chunk        int             `json:"chunk"`
	Pair         []string        `json:"pair"`
	TokenTypes   []int32         `json:"token_types"`
	Pooling      string          `json:"pooling"`
	Normalise    *bool           `json:"normalise"`
}

// probeResponse is one line of output. Pointers and nil slices are left out.
type probeResponse struct {
	ID         json.RawMessage `json:"id,omitempty"`
	Tokens     []int32         `json:"tokens,omitempty"`
	TokenTypes []int32         `json:"token_types,omitempty"`
	Argmax     []int           `json:"argmax,omitempty"`
	Logits     any             `json:"logits,omitempty"` // []float32 or [][]float32
	Greedy     []int           `json:"greedy,omitempty"`
	LogProbSum *float64        `json:"logprob_sum,omitempty"`
	Vector     []float32       `json:"vector,omitempty"`
	Score      *float32        `json:"score,omitempty"`
	Error      string          `json:"error,omitempty"`
}

// prober answers requests about one loaded model.
type prober interface {
	answer(r *probeRequest, a *probeResponse) error
	close()
}

// runProbe loads the GGUF file at path and answers JSON lines from in, one line
// each, in order. A request that cannot be answered gets a line with "error"; only
// a model that cannot be loaded, a failing stream or ctx end the run.
func runProbe(ctx context.Context, path string, in io.Reader, out io.Writer, o probeOptions) error {
	pool := kernel.NewPool(o.Threads)
	defer pool.Close()
	p, err := openProbe(path, pool, o)
	if err != nil {
		return err
	}
	defer p.close()
	lines, w := bufio.NewReader(in), bufio.NewWriter(out)
	for ctx.Err() == nil {
		line, readErr := lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := answerLine(p, line, w); err != nil {
				return err
			}
		}
		if readErr == io.EOF {
			return nil
		}
		if readErr != nil {
			return fmt.Errorf("read requests: %w", readErr)
		}
	}
	return ctx.Err()
}

func answerLine(p prober, line []byte, w *bufio.Writer) error {
	var request probeRequest
	var response probeResponse
	err := json.Unmarshal(line, &request)
	if err != nil {
		err = fmt.Errorf("the request is not valid JSON of the expected form: %w", err)
	} else {
		response.ID = request.ID
		err = p.answer(&request, &response)
	}
	if err != nil {
		response = probeResponse{ID: request.ID, Error: err.Error()}
	}
	raw, err := json.Marshal(&response)
	if err != nil { // a NaN among the numbers
		if raw, err = json.Marshal(&probeResponse{ID: request.ID, Error: "the result has no JSON form: " + err.Error()}); err != nil {
			return err
		}
	}
	if _, err := w.Write(append(raw, '\n')); err != nil {
		return fmt.Errorf("write responses: %w", err)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write responses: %w", err)
	}
	return nil
}

func openProbe(path string, pool *kernel.Pool, o probeOptions) (prober, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// A file without a usable tokenizer can still be probed with token ids.
	text := textSource{}
	text.tok, text.err = tokenizer.FromGGUF(f)
	options := model.Options{Float: o.Float, KV: o.KV}
	if model.IsEncoder(f) {
		m, err := model.LoadEncoder(f, pool, options)
		if err != nil {
			return nil, err
		}
		return newEncoderProbe(m, text, o.Profile)
	}
	if text.err == nil {
		text.template, _ = chat.FromGGUF(f, text.tok) // base models have none: texts are taken as they are
	}
	m, err := model.Load(f, pool, options)
	if err != nil {
		return nil, err
	}
	p := &causalProbe{model: m, text: text, pages: make([]int32, m.Pages())}
	p.openJudge = func() (*embed.Reranker, error) { return embed.OpenReranker(path, pool, o.Profile) }
	for i := range p.pages {
		p.pages[i] = int32(i)
	}
	return p, nil
}

// textSource turns the text of a request into token ids.
type textSource struct {
	tok      *tokenizer.Tokenizer
	err      error          // why tok is nil
	template *chat.Template // nil = none
}

// ids returns the tokens of a request. A request that sets a tokenizer switch
// states how its text is read, so no profile is applied to it, as with raw.
func (s *textSource) ids(r *probeRequest, prefix string) ([]int32, error) {
	if r.Tokens != nil {
		return r.Tokens, nil
	}
	var text string
	switch {
	case r.Text != nil:
		text = *r.Text
	case r.TextHex != nil:
		raw, err := hex.DecodeString(*r.TextHex)
		if err != nil {
			return nil, fmt.Errorf("text_hex: %w", err)
		}
		text = string(raw)
	default:
		return nil, errors.New("the request has neither tokens nor text nor text_hex")
	}
	if s.err != nil {
		return nil, s.err
	}
	plain := r.Raw || r.AddSpecial != nil || r.ParseSpecial != nil || r.TextHex != nil
	if !plain && s.template != nil {
		return s.template.Encode([]chat.Message{{Role: "user", Content: text}}, true)
	}
	if !plain {
		text = prefix + text
	}
	addSpecial, parseSpecial := true, false
	if r.AddSpecial != nil {
		addSpecial = *r.AddSpecial
	}
	if r.ParseSpecial != nil {
		parseSpecial = *r.ParseSpecial
	}
	return s.tok.Encode(text, addSpecial, parseSpecial), nil
}

// causalProbe answers with logits, probabilities and continuations.
type causalProbe struct {
	model *model.Model
	text  textSource
	pages []int32 // one sequence owns the whole cache; each request starts over
	batch model.Batch

	openJudge func() (*embed.Reranker, error)
	judge     *embed.Reranker // of pairs; nil until there is one
}

func (p *causalProbe) close() {
	p.model.Close()
	if p.judge != nil {
		p.judge.Close()
	}
}

// score asks a model that is a reranker whether a document meets a query.
func (p *causalProbe) score(pair []string, a *probeResponse) error {
	if len(pair) != 2 {
		return errors.New("pair must be [query, document]")
	}
	if p.judge == nil {
		var err error
		if p.judge, err = p.openJudge(); err != nil {
			return fmt.Errorf("pair needs a reranker: %w", err)
		}
	}
	scores, err := p.judge.Score(context.Background(), pair[0], pair[1:])
	if err != nil {
		return err
	}
	a.Score = &scores[0]
	return nil
}

// maxLogits bounds the logits held at a time: 256 MiB.
const maxLogits = 1 << 26

func (p *causalProbe) answer(r *probeRequest, a *probeResponse) error {
	if r.Pair != nil {
		return p.score(r.Pair, a)
	}
	if labels := p.model.Config().Labels; labels != nil {
		return fmt.Errorf("the model has no logits of tokens, it answers %s; ask with pair", strings.Join(labels, " or "))
	}
	ids, err := p.text.ids(r, "")
	if err != nil {
		return err
	}
	n, vocab := len(ids), p.model.Vocab()
	switch {
	case n == 0:
		return errors.New("the request has no tokens")
	case r.Greedy < 0 || r.Chunk < 0:
		return errors.New("greedy and chunk must not be negative")
	case r.Logits != "" && r.Logits != "last" && r.Logits != "all":
		return fmt.Errorf(`logits must be "last" or "all", not %q`, r.Logits)
	case n+r.Greedy > p.model.ContextTokens():
		return fmt.Errorf("%d tokens and %d more do not fit the context of %d", n, r.Greedy, p.model.ContextTokens())
	case r.Logits == "all" && n > maxLogits/vocab:
		return fmt.Errorf("logits of %d positions are too many; at most %d for this model", n, maxLogits/vocab)
	}
	a.Tokens = ids
	chunk := n
	if r.Chunk > 0 {
		chunk = min(chunk, r.Chunk)
	}
	// Cutting further where logits would not fit changes no number.
	chunk = min(chunk, max(maxLogits/vocab, 1))

	var every [][]float32
	var last []float32
	sum := 0.0
	for lo := 0; lo < n; lo += chunk {
		hi := min(lo+chunk, n)
		if err := p.forward(ids[lo:hi], lo); err != nil {
			return err
		}
		for row := range hi - lo {
			last = p.batch.Logits[row*vocab:][:vocab]
			a.Argmax = append(a.Argmax, kernel.ArgMax(last))
			if next := lo + row + 1; next < n {
				sum += logProb(last, ids[next])
			}
			if r.Logits == "all" {
				every = append(every, slices.Clone(last))
			}
		}
	}
	a.LogProbSum = &sum
	switch r.Logits {
	case "all":
		a.Logits = every
	case "last":
		a.Logits = slices.Clone(last)
	}
	return p.greedy(r.Greedy, n, kernel.ArgMax(last), a)
}

// greedy appends n ids, the first of which is next, at position pos.
func (p *causalProbe) greedy(n, pos, next int, a *probeResponse) error {
	for i := range n {
		a.Greedy = append(a.Greedy, next)
		if i == n-1 {
			break
		}
		if err := p.forward([]int32{int32(next)}, pos+i); err != nil {
			return err
		}
		next = kernel.ArgMax(p.batch.Logits)
	}
	return nil
}

// forward runs tokens at pos and leaves the logits of all of them in p.batch.
func (p *causalProbe) forward(tokens []int32, pos int) error {
	b := &p.batch
	b.Tokens, b.Seqs, b.Out = tokens, []model.Seq{{N: len(tokens), Pos: pos, Pages: p.pages}}, b.Out[:0]
	for row := range tokens {
		b.Out = append(b.Out, row)
	}
	return p.model.Forward(b)
}

// logProb is ln p(id) under logits.
func logProb(logits []float32, id int32) float64 {
	largest := float64(slices.Max(logits))
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - largest)
	}
	return float64(logits[id]) - largest - math.Log(sum)
}

// encoderProbe answers with vectors and scores.
type encoderProbe struct {
	model   *model.Encoder
	text    textSource
	profile embed.Profile
	pooling model.Pooling // when a request does not say
}

func newEncoderProbe(m *model.Encoder, text textSource, profile embed.Profile) (*encoderProbe, error) {
	p := &encoderProbe{model: m, text: text, profile: profile, pooling: m.Pooling()}
	if profile.Pooling != "" {
		pooling, err := model.ParsePooling(profile.Pooling)
		if err != nil {
			m.Close()
			return nil, err
		}
		p.pooling = pooling
	}
	if p.pooling == model.PoolNone {
		p.pooling = model.PoolMean
	}
	if m.HasRankHead() {
		p.pooling = model.PoolRank
	}
	return p, nil
}

func (p *encoderProbe) close() { p.model.Close() }

func (p *encoderProbe) maxTokens() int {
	if n := p.profile.MaxTokens; n > 0 && n < p.model.MaxTokens() {
		return n
	}
	return p.model.MaxTokens()
}

func (p *encoderProbe) answer(r *probeRequest, a *probeResponse) error {
	if r.Greedy != 0 || r.Logits != "" {
		return errors.New("this model is an encoder: it has no logits and generates no text")
	}
	ids, types, err := p.input(r)
	if err != nil {
		return err
	}
	a.Tokens, a.TokenTypes = ids, types
	pooling := p.pooling
	if r.Pooling != "" {
		if pooling, err = model.ParsePooling(r.Pooling); err != nil {
			return err
		}
	}
	if pooling == model.PoolRank {
		scores, err := p.model.Score([][]int32{ids}, [][]int32{types})
		if err != nil {
			return err
		}
		a.Score = &scores[0]
		return nil
	}
	vectors, err := p.model.Embed([][]int32{ids}, [][]int32{types}, pooling, r.Normalise == nil || *r.Normalise)
	if err != nil {
		return err
	}
	a.Vector = vectors[0]
	return nil
}

// input returns the tokens and segments of a request. Texts are cut to what the
// model reads, keeping the special token at the end; token ids are not.
func (p *encoderProbe) input(r *probeRequest) (ids, types []int32, err error) {
	if r.Pair != nil {
		if len(r.Pair) != 2 {
			return nil, nil, fmt.Errorf("pair has %d texts; it must be [query, document]", len(r.Pair))
		}
		if p.text.err != nil {
			return nil, nil, p.text.err
		}
		ids, types = p.text.tok.EncodePair(r.Pair[0], r.Pair[1], p.maxTokens())
		return ids, types, nil
	}
	prefix := p.profile.PassagePrefix
	switch r.Role {
	case "query":
		prefix = p.profile.QueryPrefix
	case "", "passage":
	default:
		return nil, nil, fmt.Errorf(`role must be "query" or "passage", not %q`, r.Role)
	}
	if ids, err = p.text.ids(r, prefix); err != nil {
		return nil, nil, err
	}
	if most := p.maxTokens(); r.Tokens == nil && len(ids) > most {
		last := ids[len(ids)-1]
		ids = ids[:most]
		if p.text.tok.IsControl(last) {
			ids[most-1] = last
		}
	}
	return ids, r.TokenTypes, nil
}
