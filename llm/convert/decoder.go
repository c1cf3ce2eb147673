package convert

import (
	"fmt"
	"math"
	"strings"

	"ragd/llm/gguf"
	"ragd/llm/quant"
)

// family is what the conversion of one decoder architecture needs to know.
type family struct {
	arch       string
	activation string
	layer      map[string]string // parameter of a layer, without ".weight", to the GGUF name
	biased     []string          // parameters of layer that have a bias
	interleave bool              // rotary pairs are neighbours: permute q and k
	normOffset float32           // added to every norm weight: Gemma stores w-1
	vocabSize  bool              // writes vocab_size and rope.dimension_count
	tied       bool              // shares input and output embeddings unless the config says otherwise
}

var plainLayer = map[string]string{
	"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
	"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
	"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}

// extended returns plainLayer with some entries added or replaced.
func extended(more map[string]string) map[string]string {
	m := map[string]string{}
	for k, v := range plainLayer {
		m[k] = v
	}
	for k, v := range more {
		m[k] = v
	}
	return m
}

var families = map[string]family{
	"llama":   {arch: "llama", activation: "silu", layer: plainLayer, interleave: true, vocabSize: true},
	"mistral": {arch: "llama", activation: "silu", layer: plainLayer, interleave: true, vocabSize: true},
	"granite": {arch: "granite", activation: "silu", layer: plainLayer, interleave: true, vocabSize: true},
	"smollm3": {arch: "smollm3", activation: "silu", layer: plainLayer, interleave: true, vocabSize: true},
	"qwen2": {
		arch: "qwen2", activation: "silu", layer: plainLayer,
		biased: []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
	},
	"qwen3": {
		arch: "qwen3", activation: "silu",
		layer: extended(map[string]string{"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}),
	},
	"gemma2": {
		arch: "gemma2", activation: "gelu_pytorch_tanh", normOffset: 1, tied: true,
		layer: extended(map[string]string{
			"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
			"post_feedforward_layernorm": "post_ffw_norm",
		}),
	},
	"gemma3_text": {
		arch: "gemma3", activation: "gelu_pytorch_tanh", normOffset: 1, tied: true,
		layer: extended(map[string]string{
			"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
			"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
			"post_feedforward_layernorm": "post_ffw_norm",
		}),
	},
	"phi3": {arch: "phi3", activation: "silu", layer: map[string]string{
		"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
		"self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output",
		"mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
	}},
}

func buildDecoder(c *config, w *weights, v *vocabulary, _ Options) (*model, error) {
	fam := families[c.ModelType]
	if c.Activation != fam.activation {
		return nil, fmt.Errorf("config.json: the activation %q is not that of %s (%q)", c.Activation, c.ModelType, fam.activation)
	}
	full, sliding, err := c.ropes()
	if err != nil {
		return nil, err
	}
	d := &decoder{c: c, w: w, fam: fam, rope: full}
	for _, step := range []func() error{d.checkLayers, d.embeddings, d.layers, d.ropeTensors} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	err = w.leftOver(func(name string) bool {
		return strings.HasSuffix(name, "rotary_emb.inv_freq") || name == "lm_head.weight" && d.tiedHead
	})
	if err != nil {
		return nil, err
	}
	return &model{arch: fam.arch, tensors: d.tensors, meta: func(out *gguf.Writer) {
		d.metadata(out, sliding)
		v.write(out)
	}}, nil
}

// decoder is one conversion in progress.
type decoder struct {
	c        *config
	w        *weights
	fam      family
	rope     rope
	tiedHead bool
	tensors  []tensor
}

// checkLayers refuses layer patterns that the engine's architecture does not have.
func (d *decoder) checkLayers() error {
	switch d.c.ModelType {
	case "gemma2":
		for i, kind := range d.c.LayerTypes {
			if want := map[bool]string{true: "sliding_attention", false: "full_attention"}[i%2 == 0]; kind != want {
				return fmt.Errorf("config.json: layer %d is of the kind %q; in gemma2 every other layer has a window, the first one included", i, kind)
			}
		}
		return nil
	case "gemma3_text":
		for i, kind := range d.c.LayerTypes {
			if want := map[bool]string{true: "full_attention", false: "sliding_attention"}[i%6 == 5]; kind != want {
				return fmt.Errorf("config.json: layer %d is of the kind %q; gemma3 has full attention in every sixth layer only", i, kind)
			}
		}
		if s := d.c.AttnSoftCap; s != nil && *s != 0 {
			return fmt.Errorf("config.json: attn_logit_softcapping is not supported for gemma3")
		}
		return nil
	case "smollm3":
		for i, on := range d.c.NoRopeLayers {
			if (on == 0) != (i%4 == 3) {
				return fmt.Errorf("config.json: no_rope_layers differs from smollm3's pattern (every fourth) at layer %d", i)
			}
		}
	}
	return d.c.onlyFullAttention()
}

// embeddings adds the tensors outside the layers.
func (d *decoder) embeddings() error {
	embd, err := d.w.take("model.embed_tokens.weight")
	if err != nil {
		return err
	}
	norm, err := d.w.take("model.norm.weight")
	if err != nil {
		return err
	}
	d.tensors = append(d.tensors, embd.matrix("token_embd.weight"), norm.vector("output_norm.weight", d.fam.normOffset))
	d.tiedHead = d.c.TiedEmbed || d.fam.tied && !d.w.has("lm_head.weight")
	if d.tiedHead {
		return nil
	}
	head, err := d.w.take("lm_head.weight")
	if err != nil {
		return err
	}
	d.tensors = append(d.tensors, head.matrix("output.weight"))
	return nil
}

// layers adds the tensors of all layers.
func (d *decoder) layers() error {
	var names []string
	for hf := range d.fam.layer {
		names = append(names, hf+".weight")
	}
	for _, hf := range d.fam.biased {
		names = append(names, hf+".bias")
	}
	sorted(names)
	for i := range d.c.Layers {
		for _, name := range names {
			a, err := d.w.take(fmt.Sprintf("model.layers.%d.%s", i, name))
			if err != nil {
				return err
			}
			dot := strings.LastIndexByte(name, '.')
			t, err := d.tensor(a, name[:dot], fmt.Sprintf("blk.%d.%s%s", i, d.fam.layer[name[:dot]], name[dot:]))
			if err != nil {
				return err
			}
			d.tensors = append(d.tensors, t)
		}
	}
	return nil
}

// tensor converts one parameter of a layer.
func (d *decoder) tensor(a *array, parameter, name string) (tensor, error) {
	switch {
	case d.fam.interleave && parameter == "self_attn.q_proj":
		return a.permuted(name, d.c.Heads)
	case d.fam.interleave && parameter == "self_attn.k_proj":
		return a.permuted(name, d.c.KVHeads)
	case strings.HasSuffix(parameter, "norm"):
		return a.vector(name, d.fam.normOffset), nil
	case len(a.shape) == 1:
		return a.vector(name, 0), nil
	}
	return a.matrix(name), nil
}

// ropeTensors adds the frequency factors that some scalings need.
func (d *decoder) ropeTensors() error {
	switch d.rope.Type {
	case "default", "linear", "yarn":
	case "llama3":
		factors, err := llama3Factors(d.rope, d.c.headDim())
		if err != nil {
			return err
		}
		d.tensors = append(d.tensors, floatTensor("rope_freqs.weight", factors))
	case "longrope", "su":
		half := d.rotaryDim() / 2
		if len(d.rope.LongFactors) != half || len(d.rope.ShortFactors) != half {
			return fmt.Errorf("config.json: longrope needs %d long and short factors, not %d and %d", half, len(d.rope.LongFactors), len(d.rope.ShortFactors))
		}
		d.tensors = append(d.tensors, floatTensor("rope_factors_long.weight", d.rope.LongFactors), floatTensor("rope_factors_short.weight", d.rope.ShortFactors))
	default:
		return fmt.Errorf("config.json: the rope scaling %q is not supported; supported: default, linear, yarn, llama3, longrope", d.rope.Type)
	}
	return nil
}

// rotaryDim returns how many dimensions of a head are rotated.
func (d *decoder) rotaryDim() int {
	partial := d.rope.PartialRotary
	if partial == 0 {
		partial = d.c.PartialRotary
	}
	if partial == 0 {
		partial = 1
	}
	return int(partial * float64(d.c.headDim()))
}

// llama3Factors computes the divisors of the rotary frequencies that Llama 3.1 introduced: long wavelengths are
// stretched by the factor, short ones stay, those between are interpolated.
func llama3Factors(r rope, dim int) ([]float32, error) {
	if r.Factor < 1 || r.LowFactor <= 0 || r.HighFactor <= r.LowFactor || r.OriginalCtx <= 0 || r.Theta <= 0 {
		return nil, fmt.Errorf("config.json: rope scaling llama3 needs factor, low_freq_factor < high_freq_factor and original_max_position_embeddings")
	}
	original := float64(r.OriginalCtx)
	out := make([]float32, dim/2)
	for i := range out {
		wavelength := 2 * math.Pi * math.Pow(r.Theta, float64(2*i)/float64(dim))
		switch {
		case wavelength < original/r.HighFactor:
			out[i] = 1
		case wavelength > original/r.LowFactor:
			out[i] = float32(r.Factor)
		default:
			smooth := (original/wavelength - r.LowFactor) / (r.HighFactor - r.LowFactor)
			out[i] = float32(1 / ((1-smooth)/r.Factor + smooth))
		}
	}
	return out, nil
}

// metadata writes the architecture's keys.
func (d *decoder) metadata(out *gguf.Writer, sliding rope) {
	c, arch := d.c, d.fam.arch+"."
	out.SetUint(arch+"block_count", c.Layers)
	out.SetUint(arch+"context_length", d.context())
	out.SetUint(arch+"embedding_length", c.Embd)
	out.SetUint(arch+"feed_forward_length", c.FFN)
	out.SetUint(arch+"attention.head_count", c.Heads)
	out.SetUint(arch+"attention.head_count_kv", c.KVHeads)
	if c.RMSEps != nil {
		out.SetFloat(arch+"attention.layer_norm_rms_epsilon", float32(*c.RMSEps))
	}
	if c.HeadDim > 0 {
		out.SetUint(arch+"attention.key_length", c.HeadDim)
		out.SetUint(arch+"attention.value_length", c.HeadDim)
	}
	if d.fam.vocabSize {
		out.SetUint(arch+"vocab_size", c.Vocab)
	}
	if d.fam.vocabSize || d.fam.arch == "phi3" {
		out.SetUint(arch+"rope.dimension_count", d.rotaryDim())
	}
	d.ropeMetadata(out, arch)
	switch d.fam.arch {
	case "gemma2":
		out.SetUint(arch+"attention.sliding_window", c.SlidingWindow)
		out.SetFloat(arch+"attn_logit_softcapping", softCap(c.AttnSoftCap))
		out.SetFloat(arch+"final_logit_softcapping", softCap(c.FinalSoftCap))
		d.attentionScale(out, arch)
	case "gemma3":
		out.SetUint(arch+"attention.sliding_window", c.SlidingWindow)
		local := sliding.Theta
		if len(c.RopeParameters) == 0 {
			local = c.RopeLocalTheta
		}
		if local == 0 {
			local = 10000
		}
		out.SetFloat(arch+"rope.freq_base_swa", float32(local))
		d.attentionScale(out, arch)
		if s := c.FinalSoftCap; s != nil && *s != 0 {
			out.SetFloat(arch+"final_logit_softcapping", float32(*s))
		}
	case "granite":
		out.SetFloat(arch+"attention.scale", float32(c.AttnMultiplier))
		out.SetFloat(arch+"embedding_scale", float32(c.EmbdMultiplier))
		out.SetFloat(arch+"residual_scale", float32(c.ResidMultiplier))
		out.SetFloat(arch+"logit_scale", float32(c.LogitsScaling))
	case "phi3":
		out.SetUint(arch+"attention.sliding_window", c.SlidingWindow)
	}
}

// attentionScale writes the scale of the scores where it is not the usual one.
func (d *decoder) attentionScale(out *gguf.Writer, arch string) {
	if s := d.c.QueryScalar; s > 0 && s != float64(d.c.headDim()) {
		out.SetFloat(arch+"attention.scale", float32(1/math.Sqrt(s)))
	}
}

// softCap is a soft cap of config.json as GGUF has it; 0 means none in both.
func softCap(limit *float64) float32 {
	if limit == nil {
		return 0
	}
	return float32(*limit)
}

// context returns the longest context that the engine computes as the source does: an architecture whose window it does
// not apply is limited to the window, within which windowed and full attention are the same.
func (d *decoder) context() int {
	c := d.c
	windowed := c.UseSlidingWindow == nil || *c.UseSlidingWindow
	if windowed && c.SlidingWindow > 0 && d.fam.arch != "gemma2" && d.fam.arch != "gemma3" && d.fam.arch != "phi3" {
		return min(c.Context, c.SlidingWindow)
	}
	return c.Context
}

func (d *decoder) ropeMetadata(out *gguf.Writer, arch string) {
	r := d.rope
	theta := r.Theta
	if theta == 0 {
		theta = 10000 // the default of every architecture here
	}
	out.SetFloat(arch+"rope.freq_base", float32(theta))
	original := r.OriginalCtx
	if original == 0 {
		original = d.c.OriginalCtx
	}
	switch r.Type {
	case "linear":
		out.SetString(arch+"rope.scaling.type", "linear")
		out.SetFloat(arch+"rope.scaling.factor", float32(r.Factor))
	case "yarn":
		out.SetString(arch+"rope.scaling.type", "yarn")
		out.SetFloat(arch+"rope.scaling.factor", float32(r.Factor))
		if r.BetaFast > 0 {
			out.SetFloat(arch+"rope.scaling.yarn_beta_fast", float32(r.BetaFast))
		}
		if r.BetaSlow > 0 {
			out.SetFloat(arch+"rope.scaling.yarn_beta_slow", float32(r.BetaSlow))
		}
	case "longrope", "su":
		attn := r.AttnFactor
		if scale := float64(d.c.Context) / float64(max(original, 1)); attn == 0 && scale > 1 {
			attn = math.Sqrt(1 + math.Log(scale)/math.Log(float64(original)))
		}
		if attn > 0 {
			out.SetFloat(arch+"rope.scaling.attn_factor", float32(attn))
		}
	}
	if original > 0 && (r.Type == "yarn" || d.fam.arch == "phi3") {
		out.SetUint(arch+"rope.scaling.original_context_length", original)
	}
}

// floatTensor is a one-dimensional F32 tensor of given values.
func floatTensor(name string, x []float32) tensor {
	return tensor{name, quant.F32, []int{len(x)}, func(write func([]byte) error) error {
		return writeFloats(write, quant.F32, x)
	}}
}
