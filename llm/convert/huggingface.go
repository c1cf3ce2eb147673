package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// HuggingFace converts the model folder dir - config.json, model.safetensors or its shards, tokenizer.json and
// tokenizer_config.json - into the GGUF file out.
func HuggingFace(dir, out string, o Options) error {
	if err := huggingFace(dir, out, o); err != nil {
		return fmt.Errorf("convert: %s: %w", dir, err)
	}
	return nil
}

func huggingFace(dir, out string, o Options) error {
	c, err := readConfig(dir)
	if err != nil {
		return err
	}
	if o.Name == "" {
		o.Name = filepath.Base(filepath.Clean(dir))
	}
	if o.Pooling == "" {
		if o.Pooling, err = readPooling(dir); err != nil {
			return err
		}
	}
	v, err := readTokenizer(dir, c)
	if err != nil {
		return err
	}
	w, err := openSafetensors(dir)
	if err != nil {
		return err
	}
	defer w.close()
	build, ok := builders[c.ModelType]
	if !ok {
		return fmt.Errorf("the model type %q is not supported; supported: %s", c.ModelType, strings.Join(ModelTypes(), ", "))
	}
	m, err := build(c, w, v, o)
	if err != nil {
		return err
	}
	return m.write(out, o)
}

// builders maps the model_type of config.json to its rules.
var builders = map[string]func(*config, *weights, *vocabulary, Options) (*model, error){
	"llama": buildDecoder, "mistral": buildDecoder, "qwen2": buildDecoder, "qwen3": buildDecoder,
	"gemma2": buildDecoder, "gemma3_text": buildDecoder, "granite": buildDecoder, "smollm3": buildDecoder, "phi3": buildDecoder,
	"bert": buildBERT, "xlm-roberta": buildXLMRoBERTa, "modernbert": buildModernBERT,
}

// ModelTypes lists the values of model_type in config.json that HuggingFace converts, sorted.
func ModelTypes() []string {
	var names []string
	for name := range builders {
		names = append(names, name)
	}
	return sorted(names)
}

// config is config.json: the fields that some rule reads. Pointers tell absent from zero.
type config struct {
	ModelType     string   `json:"model_type"`
	Architectures []string `json:"architectures"`

	Vocab     int  `json:"vocab_size"`
	Context   int  `json:"max_position_embeddings"`
	Embd      int  `json:"hidden_size"`
	FFN       int  `json:"intermediate_size"`
	Layers    int  `json:"num_hidden_layers"`
	Heads     int  `json:"num_attention_heads"`
	KVHeads   int  `json:"num_key_value_heads"`
	HeadDim   int  `json:"head_dim"`
	TiedEmbed bool `json:"tie_word_embeddings"`

	RMSEps       *float64 `json:"rms_norm_eps"`
	LayerNormEps *float64 `json:"layer_norm_eps"`
	NormEps      *float64 `json:"norm_eps"`
	Activation   string   `json:"hidden_act"`
	Activation2  string   `json:"hidden_activation"`

	RopeTheta      float64         `json:"rope_theta"`
	RopeLocalTheta float64         `json:"rope_local_base_freq"`
	GlobalTheta    float64         `json:"global_rope_theta"`
	LocalTheta     float64         `json:"local_rope_theta"`
	RopeScaling    json.RawMessage `json:"rope_scaling"`
	RopeParameters json.RawMessage `json:"rope_parameters"`
	PartialRotary  float64         `json:"partial_rotary_factor"`
	OriginalCtx    int             `json:"original_max_position_embeddings"`

	SlidingWindow    int      `json:"sliding_window"`
	UseSlidingWindow *bool    `json:"use_sliding_window"`
	LayerTypes       []string `json:"layer_types"`
	NoRopeLayers     []int    `json:"no_rope_layers"`
	LocalAttention   int      `json:"local_attention"`
	GlobalEvery      int      `json:"global_attn_every_n_layers"`

	QueryScalar     float64  `json:"query_pre_attn_scalar"`
	FinalSoftCap    *float64 `json:"final_logit_softcapping"`
	AttnSoftCap     *float64 `json:"attn_logit_softcapping"`
	EmbdMultiplier  float64  `json:"embedding_multiplier"`
	ResidMultiplier float64  `json:"residual_multiplier"`
	AttnMultiplier  float64  `json:"attention_multiplier"`
	LogitsScaling   float64  `json:"logits_scaling"`

	PositionType string `json:"position_embedding_type"`

	BOS tokenIDs `json:"bos_token_id"`
	EOS tokenIDs `json:"eos_token_id"`
	PAD tokenIDs `json:"pad_token_id"`
}

// tokenIDs is a token id, a list of them, or null.
type tokenIDs []int32

func (t *tokenIDs) UnmarshalJSON(b []byte) error {
	var one *int32
	if err := json.Unmarshal(b, &one); err == nil {
		if *t = nil; one != nil {
			*t = tokenIDs{*one}
		}
		return nil
	}
	return json.Unmarshal(b, (*[]int32)(t))
}

// readConfig reads and checks config.json.
func readConfig(dir string) (*config, error) {
	b, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("config.json is missing: the folder of a model as its publisher distributes it is needed")
	}
	if err != nil {
		return nil, err
	}
	c := &config{}
	if err := json.Unmarshal(b, c); err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	if c.Activation == "" {
		c.Activation = c.Activation2
	}
	return c, c.check()
}

// check refuses values that later arithmetic could not stand.
func (c *config) check() error {
	const most = 1 << 24
	for _, e := range []struct {
		key string
		n   int
	}{
		{"vocab_size", c.Vocab}, {"max_position_embeddings", c.Context}, {"hidden_size", c.Embd},
		{"intermediate_size", c.FFN}, {"num_hidden_layers", c.Layers}, {"num_attention_heads", c.Heads},
		{"num_key_value_heads", c.KVHeads},
	} {
		if e.n < 1 || e.n > most {
			return fmt.Errorf("config.json: %s is %d, which is missing or impossible", e.key, e.n)
		}
	}
	if c.HeadDim < 0 || c.HeadDim > most || c.HeadDim == 0 && c.Embd%c.Heads != 0 {
		return fmt.Errorf("config.json: a hidden_size of %d cannot be split into %d heads", c.Embd, c.Heads)
	}
	return nil
}

// headDim returns the dimension of a head, given or derived.
func (c *config) headDim() int {
	if c.HeadDim > 0 {
		return c.HeadDim
	}
	return c.Embd / c.Heads
}

// onlyFullAttention refuses a mixture of layer kinds.
func (c *config) onlyFullAttention() error {
	if i := slices.IndexFunc(c.LayerTypes, func(s string) bool { return s != "full_attention" }); i >= 0 {
		return fmt.Errorf("config.json: layer %d is of the kind %q, which %s does not have in the engine", i, c.LayerTypes[i], c.ModelType)
	}
	return nil
}

// rope is one set of rotary parameters, in either of the two spellings of config.json.
type rope struct {
	Theta         float64 `json:"rope_theta"`
	Type          string  `json:"rope_type"`
	OldType       string  `json:"type"`
	Factor        float64 `json:"factor"`
	LowFactor     float64 `json:"low_freq_factor"`
	HighFactor    float64 `json:"high_freq_factor"`
	OriginalCtx   int     `json:"original_max_position_embeddings"`
	PartialRotary float64 `json:"partial_rotary_factor"`
	BetaFast      float64 `json:"beta_fast"`
	BetaSlow      float64 `json:"beta_slow"`
	AttnFactor    float64 `json:"attention_factor"`

	LongFactors  []float32 `json:"long_factor"`
	ShortFactors []float32 `json:"short_factor"`
}

// ropes returns the rotary parameters of full and of sliding layers (equal where a model has one set).
func (c *config) ropes() (full, sliding rope, err error) {
	full = rope{Theta: c.RopeTheta}
	if len(c.RopeScaling) > 0 && string(c.RopeScaling) != "null" {
		if err := json.Unmarshal(c.RopeScaling, &full); err != nil {
			return full, full, fmt.Errorf("config.json: rope_scaling: %w", err)
		}
	}
	sliding = full
	if len(c.RopeParameters) > 0 && string(c.RopeParameters) != "null" {
		var sets struct {
			Full    *rope `json:"full_attention"`
			Sliding *rope `json:"sliding_attention"`
		}
		if err := json.Unmarshal(c.RopeParameters, &sets); err != nil {
			return full, full, fmt.Errorf("config.json: rope_parameters: %w", err)
		}
		if sets.Full != nil && sets.Sliding != nil {
			full, sliding = *sets.Full, *sets.Sliding
		} else {
			if err := json.Unmarshal(c.RopeParameters, &full); err != nil {
				return full, full, fmt.Errorf("config.json: rope_parameters: %w", err)
			}
			sliding = full
		}
	}
	for _, r := range []*rope{&full, &sliding} {
		if r.Type == "" {
			r.Type = r.OldType
		}
		if r.Type == "" {
			r.Type = "default"
		}
	}
	return full, sliding, nil
}

// readPooling returns the pooling that a sentence-transformers folder declares, "" when there is none.
func readPooling(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, "1_Pooling", "config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var p struct {
		CLS  bool `json:"pooling_mode_cls_token"`
		Mean bool `json:"pooling_mode_mean_tokens"`
		Last bool `json:"pooling_mode_lasttoken"`
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return "", fmt.Errorf("1_Pooling/config.json: %w", err)
	}
	switch {
	case p.CLS && !p.Mean && !p.Last:
		return "cls", nil
	case p.Mean && !p.CLS && !p.Last:
		return "mean", nil
	case p.Last && !p.CLS && !p.Mean:
		return "last", nil
	}
	return "", fmt.Errorf("1_Pooling/config.json asks for a pooling other than one of cls, mean and last token")
}

// sorted sorts names in place and returns them.
func sorted(names []string) []string {
	slices.Sort(names)
	return names
}
