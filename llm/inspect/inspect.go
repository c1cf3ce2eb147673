package inspect

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"ragd/llm/chat"
	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/model"
	"ragd/llm/tokenizer"
)

// Machine is what the costs depend on beside the file.
type Machine struct {
	Bandwidth float64 // bytes per second that all threads read together; 0: not measured
	Threads   int
	KV        kernel.KVType // of the engine's cache
	Context   int           // tokens per user; 0: what the model was trained for
	Users     []int         // rows of the memory plan
}

// Description is everything there is to say about a file.
type Description struct {
	File          string  `json:"file"`
	Name          string  `json:"name,omitempty"`
	Architecture  string  `json:"architecture"`
	Kind          string  `json:"kind"` // generator, embedder, reranker, unknown
	Licence       string  `json:"licence,omitempty"`
	Unsupported   string  `json:"unsupported,omitempty"` // why the engine would refuse it
	FileBytes     int64   `json:"file_bytes"`
	Parameters    int64   `json:"parameters"`
	BitsPerWeight float64 `json:"bits_per_weight"`

	Types     []TypeShare `json:"types"`
	Tokenizer *Tokenizer  `json:"tokenizer,omitempty"`
	Template  string      `json:"template,omitempty"` // where the chat template comes from
	Shape     *Shape      `json:"shape,omitempty"`
	KV        *KV         `json:"kv_cache,omitempty"`
	Plan      []PlanRow   `json:"memory_plan,omitempty"`
	Decode    *Decode     `json:"decode,omitempty"`
	Attention []Attention `json:"attention,omitempty"`
}

// TypeShare is how much of a model has one element type.
type TypeShare struct {
	Type    string `json:"type"`
	Tensors int    `json:"tensors"`
	Weights int64  `json:"weights"`
	Bytes   int64  `json:"bytes"`
}

// Tokenizer describes the vocabulary.
type Tokenizer struct {
	Kind   string `json:"kind"`
	Pre    string `json:"pre_tokenizer,omitempty"`
	Tokens int    `json:"tokens"`
	BOS    string `json:"bos,omitempty"`
	EOS    string `json:"eos,omitempty"`
	AddBOS bool   `json:"adds_bos"`
	Error  string `json:"error,omitempty"`
}

// Shape holds the dimensions.
type Shape struct {
	Layers       int `json:"layers"`
	Embedding    int `json:"embedding"`
	FeedForward  int `json:"feed_forward"`
	Heads        int `json:"heads"`
	KVHeads      int `json:"kv_heads"`
	HeadDim      int `json:"head_dim"`
	Vocabulary   int `json:"vocabulary"`
	Context      int `json:"context"`
	Window       int `json:"window,omitempty"` // of the layers that see only their neighbourhood
	WindowLayers int `json:"window_layers,omitempty"`
}

// KV is the cost of remembering. The first figures count 2 bytes per value; Engine* is what ragd keeps, with its scales.
type KV struct {
	BytesPerToken        int64  `json:"bytes_per_token"`
	BytesPerTokenNoShare int64  `json:"bytes_per_token_without_shared_heads"` // a key-value head per query head
	Context              int    `json:"context"`
	BytesPerContext      int64  `json:"bytes_per_context"`
	BytesNoShare         int64  `json:"bytes_per_context_without_shared_heads"`
	EngineType           string `json:"engine_type"`
	EngineBytesPerToken  int64  `json:"engine_bytes_per_token"`
}

// PlanRow is the memory that the engine takes for some users with a whole context each.
type PlanRow struct {
	Users       int   `json:"users"`
	Weights     int64 `json:"weights"`
	Activations int64 `json:"activations"`
	Cache       int64 `json:"cache"`
	Total       int64 `json:"total"`
}

// Decode is the speed limit of writing.
type Decode struct {
	Bandwidth       float64 `json:"bandwidth_bytes_per_second"`
	BytesPerToken   int64   `json:"weight_bytes_per_token"` // all weights but an embedding table of which one row is read
	SecondsPerToken float64 `json:"seconds_per_token"`
	TokensPerSecond float64 `json:"tokens_per_second"`
}

// Attention is what attention costs at one length.
type Attention struct {
	Tokens       int     `json:"tokens"`
	Scores       int64   `json:"scores"` // per head and layer, every token with every token
	PrefillShare float64 `json:"share_of_prefill"`
	KVBytes      int64   `json:"kv_bytes_read_per_token"`
	DecodeLimit  float64 `json:"decode_limit_tokens_per_second,omitempty"`
}

// File describes f.
func File(f *gguf.File, m Machine) *Description {
	d := &Description{File: filepath.Base(f.Path()), Architecture: f.Architecture(), Kind: "unknown", FileBytes: f.Size()}
	d.Name, _ = f.String("general.name")
	d.Licence, _ = f.String("general.license")
	d.types(f)
	d.vocabulary(f)
	var err error
	if model.IsEncoder(f) {
		err = d.encoder(f)
	} else {
		err = d.generator(f, m)
	}
	if err != nil {
		d.Unsupported = err.Error()
	}
	return d
}

// types counts parameters by element type.
func (d *Description) types(f *gguf.File) {
	byType := map[string]*TypeShare{}
	var bytes int64
	for _, t := range f.Tensors() {
		s := byType[t.Type.String()]
		if s == nil {
			s = &TypeShare{Type: t.Type.String()}
			byType[s.Type] = s
		}
		s.Tensors++
		s.Weights += int64(t.Rows()) * int64(t.Cols())
		s.Bytes += int64(len(t.Data))
		d.Parameters += int64(t.Rows()) * int64(t.Cols())
		bytes += int64(len(t.Data))
	}
	for _, s := range byType {
		d.Types = append(d.Types, *s)
	}
	slices.SortFunc(d.Types, func(a, b TypeShare) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Type, b.Type))
	})
	if d.Parameters > 0 {
		d.BitsPerWeight = 8 * float64(bytes) / float64(d.Parameters)
	}
}

// vocabulary describes tokenizer and template.
func (d *Description) vocabulary(f *gguf.File) {
	d.Tokenizer = &Tokenizer{}
	d.Tokenizer.Pre, _ = f.String("tokenizer.ggml.pre")
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		d.Tokenizer.Error = err.Error()
		return
	}
	d.Tokenizer.Kind, d.Tokenizer.Tokens, d.Tokenizer.AddBOS = tok.Kind(), tok.Size(), tok.AddsBOS()
	if id, ok := tok.BOS(); ok {
		d.Tokenizer.BOS = tok.Token(id)
	}
	if id, ok := tok.EOS(); ok {
		d.Tokenizer.EOS = tok.Token(id)
	}
	if model.IsEncoder(f) {
		return
	}
	template, err := chat.FromGGUF(f, tok)
	if err != nil {
		d.Template = "none: " + err.Error()
		return
	}
	d.Template = template.Origin()
}

func (d *Description) encoder(f *gguf.File) error {
	c, err := model.ReadEncoderConfig(f)
	if err != nil {
		return err
	}
	d.Kind = "embedder"
	if _, ok := f.Tensor("cls.output.weight"); ok || c.Pooling == model.PoolRank {
		d.Kind = "reranker"
	}
	d.Shape = &Shape{Layers: len(c.Layers), Embedding: c.Embd, FeedForward: c.FFN, Heads: c.Heads, KVHeads: c.Heads, HeadDim: c.HeadDim,
		Vocabulary: c.Vocab, Context: c.Context}
	d.Shape.windows(c.Layers)
	return nil
}

func (s *Shape) windows(layers []model.LayerConfig) {
	for _, l := range layers {
		if l.Window > 0 {
			s.Window = l.Window
			s.WindowLayers++
		}
	}
}

func (d *Description) generator(f *gguf.File, m Machine) error {
	c, err := model.ReadConfig(f)
	if err != nil {
		return err
	}
	d.Kind = "generator"
	if c.Labels != nil {
		d.Kind = "reranker"
	}
	s := &Shape{Layers: len(c.Layers), Embedding: c.Embd, FeedForward: c.FFN, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
		Vocabulary: c.Vocab, Context: c.Context}
	s.windows(c.Layers)
	d.Shape = s
	context := c.Context
	if m.Context > 0 {
		context = min(m.Context, context)
	}
	d.KV = keyValues(s, context, m.KV)
	var read, weights int64
	_, untied := f.Tensor("output.weight")
	for _, t := range f.Tensors() {
		if t.Name == "token_embd.weight" && (untied || c.Labels != nil) {
			continue // one row of it is read
		}
		read += int64(len(t.Data))
		weights += int64(t.Rows()) * int64(t.Cols())
	}
	if m.Bandwidth > 0 {
		seconds := DecodeSeconds(read, m.Bandwidth)
		d.Decode = &Decode{Bandwidth: m.Bandwidth, BytesPerToken: read, SecondsPerToken: seconds, TokensPerSecond: 1 / seconds}
	}
	d.Attention = attention(s, d.KV, weights, read, m.Bandwidth)
	plan, err := model.Plan(f, model.Options{KV: m.KV, ContextTokens: context})
	if err != nil {
		return err
	}
	for _, users := range m.Users {
		row := PlanRow{Users: users, Weights: plan.Weights, Activations: plan.Activations, Cache: plan.Page * int64(plan.Pages) * int64(users)}
		row.Total = row.Weights + row.Activations + row.Cache
		d.Plan = append(d.Plan, row)
	}
	return nil
}

func keyValues(s *Shape, context int, kv kernel.KVType) *KV {
	const half = 2 // bytes
	k := &KV{
		BytesPerToken:        KVBytesPerToken(s.Layers, s.KVHeads, s.HeadDim, half),
		BytesPerTokenNoShare: KVBytesPerToken(s.Layers, s.Heads, s.HeadDim, half),
		Context:              context,
		EngineType:           kv.String(),
		EngineBytesPerToken:  int64(s.Layers) * int64(kernel.KVPageBytes(kv, s.KVHeads, s.HeadDim)) / kernel.PageTokens,
	}
	k.BytesPerContext, k.BytesNoShare = KVBytes(k.BytesPerToken, context, 1), KVBytes(k.BytesPerTokenNoShare, context, 1)
	return k
}

// attention doubles the length from 512 to the model's context.
func attention(s *Shape, kv *KV, matrixWeights, weightBytes int64, bandwidth float64) []Attention {
	var rows []Attention
	for n := min(512, s.Context); ; n = min(2*n, s.Context) {
		row := Attention{
			Tokens: n, Scores: AttentionScores(n), KVBytes: int64(n) * kv.EngineBytesPerToken,
			PrefillShare: PrefillShare(matrixWeights, s.Layers, s.Heads, s.HeadDim, n),
		}
		if bandwidth > 0 {
			row.DecodeLimit = 1 / DecodeSeconds(weightBytes+row.KVBytes, bandwidth)
		}
		rows = append(rows, row)
		if n == s.Context {
			return rows
		}
	}
}
