package convert

import (
	"fmt"
	"slices"
	"strings"

	"ragd/llm/gguf"
)

// bertLayer maps the parameters of a BERT layer; all have weight and bias.
var bertLayer = map[string]string{
	"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
	"attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
	"intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
}

func buildBERT(c *config, w *weights, v *vocabulary, o Options) (*model, error) {
	if c.Activation != "gelu" {
		return nil, fmt.Errorf("config.json: the activation %q is not that of BERT (gelu)", c.Activation)
	}
	if c.PositionType != "" && c.PositionType != "absolute" {
		return nil, fmt.Errorf("config.json: position embeddings of the type %q are not supported; absolute ones are", c.PositionType)
	}
	w.trimPrefix("bert.")
	if a := w.arrays["embeddings.token_type_embeddings.weight"]; a != nil && len(a.shape) == 2 {
		v.segments = a.shape[0]
	}
	tensors, err := bertEmbeddings(w)
	if err != nil {
		return nil, err
	}
	for i := range c.Layers {
		layer, err := bertLayerTensors(w, i)
		if err != nil {
			return nil, err
		}
		tensors = append(tensors, layer...)
	}
	rank, err := rankHead(w)
	if err != nil {
		return nil, err
	}
	tensors = append(tensors, rank...)
	if err := w.leftOver(unusedBERT); err != nil {
		return nil, err
	}
	return &model{arch: "bert", tensors: tensors, meta: func(out *gguf.Writer) {
		encoderMetadata(out, "bert", c, *c.epsilon(), poolingType(o.Pooling, len(rank) > 0))
		v.write(out)
	}}, nil
}

// buildXLMRoBERTa converts the multilingual relatives of BERT: the same network with a Unigram tokenizer, positions that
// are counted from the padding id + 1, and a two-layer classifier under other names.
func buildXLMRoBERTa(c *config, w *weights, v *vocabulary, o Options) (*model, error) {
	w.trimPrefix("roberta.")
	const positions = "embeddings.position_embeddings.weight"
	skip := 2
	if len(c.PAD) > 0 {
		skip = int(c.PAD[0]) + 1
	}
	if a := w.arrays[positions]; a != nil {
		var err error
		if w.arrays[positions], err = a.withoutFirst(skip); err != nil {
			return nil, err
		}
	}
	c.Context -= skip
	for from, to := range map[string]string{"classifier.dense": "pooler.dense", "classifier.out_proj": "classifier"} {
		for _, part := range []string{".weight", ".bias"} {
			if a := w.arrays[from+part]; a != nil {
				delete(w.arrays, from+part)
				w.arrays[to+part] = a
			}
		}
	}
	return buildBERT(c, w, v, o)
}

// unusedBERT says which tensors of a BERT checkpoint a sentence encoder does without: position counters and the heads
// of the training tasks.
func unusedBERT(name string) bool {
	return strings.HasSuffix(name, "position_ids") || strings.HasPrefix(name, "cls.") || strings.HasPrefix(name, "lm_head.") ||
		strings.HasPrefix(name, "pooler.")
}

// trimPrefix drops a common prefix: models with a head nest their encoder below it.
func (w *weights) trimPrefix(prefix string) {
	for name, a := range w.arrays {
		if short, ok := strings.CutPrefix(name, prefix); ok && w.arrays[short] == nil {
			delete(w.arrays, name)
			w.arrays[short] = a
		}
	}
}

// bertEmbeddings takes the embedding tables and their norm. Positions and segments are small and added to every token:
// they stay floats.
func bertEmbeddings(w *weights) ([]tensor, error) {
	var tensors []tensor
	words, err := w.take("embeddings.word_embeddings.weight")
	if err != nil {
		return nil, err
	}
	tensors = append(tensors, words.matrix("token_embd.weight"))
	for _, e := range [][2]string{
		{"embeddings.position_embeddings.weight", "position_embd.weight"},
		{"embeddings.token_type_embeddings.weight", "token_types.weight"},
		{"embeddings.LayerNorm.weight", "token_embd_norm.weight"},
		{"embeddings.LayerNorm.bias", "token_embd_norm.bias"},
	} {
		a, err := w.take(e[0])
		if err != nil {
			return nil, err
		}
		tensors = append(tensors, a.vector(e[1], 0))
	}
	return tensors, nil
}

func bertLayerTensors(w *weights, i int) ([]tensor, error) {
	var names []string
	for hf := range bertLayer {
		names = append(names, hf+".bias", hf+".weight")
	}
	var tensors []tensor
	for _, name := range sorted(names) {
		a, err := w.take(fmt.Sprintf("encoder.layer.%d.%s", i, name))
		if err != nil {
			return nil, err
		}
		dot := strings.LastIndexByte(name, '.')
		to := fmt.Sprintf("blk.%d.%s%s", i, bertLayer[name[:dot]], name[dot:])
		if len(a.shape) == 2 {
			tensors = append(tensors, a.matrix(to))
		} else {
			tensors = append(tensors, a.vector(to, 0))
		}
	}
	return tensors, nil
}

// rankHead takes the pooler and the classifier of a cross-encoder. They are small and their error goes straight into the
// score, so they are stored as floats. A classifier without the pooler that it was trained on is refused.
func rankHead(w *weights) ([]tensor, error) {
	if !w.has("classifier.weight") {
		return nil, nil
	}
	var tensors []tensor
	for _, e := range [][2]string{
		{"pooler.dense.weight", "cls.weight"}, {"pooler.dense.bias", "cls.bias"},
		{"classifier.weight", "cls.output.weight"}, {"classifier.bias", "cls.output.bias"},
	} {
		a, err := w.take(e[0])
		if err != nil {
			return nil, err
		}
		if e[0] == "classifier.weight" && (len(a.shape) != 2 || a.shape[0] != 1) {
			return nil, fmt.Errorf("the classifier has the shape %v; a reranker with one score has [1, hidden size]", a.shape)
		}
		tensors = append(tensors, a.vector(e[1], 0))
	}
	return tensors, nil
}

// poolings are the values of the key pooling_type.
var poolings = []string{"none", "mean", "cls", "last", "rank"}

// poolingType returns the value of pooling_type, -1 when nothing is known. A rank head decides.
func poolingType(name string, rank bool) int {
	if rank {
		name = "rank"
	}
	return slices.Index(poolings, name)
}

// epsilon returns the epsilon of the layer norms, under whichever name.
func (c *config) epsilon() *float64 {
	if c.LayerNormEps != nil {
		return c.LayerNormEps
	}
	if c.NormEps != nil {
		return c.NormEps
	}
	eps := 1e-12 // BERT's
	return &eps
}

func encoderMetadata(out *gguf.Writer, arch string, c *config, eps float64, pooling int) {
	out.SetUint(arch+".block_count", c.Layers)
	out.SetUint(arch+".context_length", c.Context)
	out.SetUint(arch+".embedding_length", c.Embd)
	out.SetUint(arch+".feed_forward_length", c.FFN)
	out.SetUint(arch+".attention.head_count", c.Heads)
	out.SetFloat(arch+".attention.layer_norm_epsilon", float32(eps))
	out.SetBool(arch+".attention.causal", false)
	if pooling >= 0 {
		out.SetUint(arch+".pooling_type", pooling)
	}
}

func buildModernBERT(c *config, w *weights, v *vocabulary, o Options) (*model, error) {
	if c.Activation != "gelu" {
		return nil, fmt.Errorf("config.json: the activation %q is not that of ModernBERT (gelu)", c.Activation)
	}
	if c.GlobalEvery != 0 && c.GlobalEvery != 3 {
		return nil, fmt.Errorf("config.json: global_attn_every_n_layers is %d; the engine has 3", c.GlobalEvery)
	}
	w.trimPrefix("model.")
	if w.has("classifier.weight") {
		return nil, fmt.Errorf("ModernBERT rerankers are not supported yet: the checkpoint has a classifier")
	}
	full, sliding, err := c.ropes()
	if err != nil {
		return nil, err
	}
	globalBase, localBase := full.Theta, sliding.Theta
	if len(c.RopeParameters) == 0 {
		globalBase, localBase = c.GlobalTheta, c.LocalTheta
	}
	if globalBase == 0 || localBase == 0 {
		return nil, fmt.Errorf("config.json: the rotary bases of global and local layers are missing")
	}
	words, err := w.take("embeddings.tok_embeddings.weight")
	if err != nil {
		return nil, err
	}
	tensors := []tensor{words.matrix("token_embd.weight")}
	take := func(from, to string) error {
		a, err := w.take(from)
		if err != nil {
			return err
		}
		if len(a.shape) == 2 {
			tensors = append(tensors, a.matrix(to))
		} else {
			tensors = append(tensors, a.vector(to, 0))
		}
		return nil
	}
	names := [][2]string{{"embeddings.norm.weight", "token_embd_norm.weight"}, {"final_norm.weight", "output_norm.weight"}}
	for i := range c.Layers {
		layer, block := fmt.Sprintf("layers.%d.", i), fmt.Sprintf("blk.%d.", i)
		if i > 0 { // the first layer reads the embedding norm directly
			names = append(names, [2]string{layer + "attn_norm.weight", block + "attn_norm.weight"})
		}
		names = append(names,
			[2]string{layer + "attn.Wqkv.weight", block + "attn_qkv.weight"}, [2]string{layer + "attn.Wo.weight", block + "attn_output.weight"},
			[2]string{layer + "mlp_norm.weight", block + "ffn_norm.weight"},
			[2]string{layer + "mlp.Wi.weight", block + "ffn_up.weight"}, [2]string{layer + "mlp.Wo.weight", block + "ffn_down.weight"})
	}
	for _, n := range names {
		if err := take(n[0], n[1]); err != nil {
			return nil, err
		}
	}
	err = w.leftOver(func(name string) bool { return strings.HasPrefix(name, "head.") || strings.HasPrefix(name, "decoder.") })
	if err != nil {
		return nil, err
	}
	return &model{arch: "modern-bert", tensors: tensors, meta: func(out *gguf.Writer) {
		encoderMetadata(out, "modern-bert", c, *c.epsilon(), poolingType(o.Pooling, false))
		out.SetFloat("modern-bert.rope.freq_base", float32(globalBase))
		out.SetFloat("modern-bert.rope.freq_base_swa", float32(localBase))
		out.SetUint("modern-bert.attention.sliding_window", c.LocalAttention)
		v.write(out)
	}}, nil
}
