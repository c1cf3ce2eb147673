package model

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/quant"
)

// What a file lacks or has too much of is named, with the shape that was expected.
func TestLoadRefuses(t *testing.T) {
	resize := func(name string, shape ...int) func(string, []int) []int {
		return func(tensor string, s []int) []int {
			if tensor == name {
				return shape
			}
			return s
		}
	}
	setUint := func(key string, n int) func(*gguf.Writer) { return func(w *gguf.Writer) { w.SetUint(key, n) } }
	for _, c := range []struct {
		name, model, message string
		edit                 edit
	}{
		{"unknown architecture", "llama", `architecture "mamba" is not supported; supported: gemma2, gemma3, granite, llama,`, edit{arch: "mamba"}},
		{"encoder as generator", "bert", `architecture "bert" is an encoder`, edit{}},
		{"missing tensor", "llama", "tensor blk.1.ffn_gate.weight [64 160] is missing", edit{drop: "blk.1.ffn_gate.weight"}},
		{"missing norm", "llama", "tensor output_norm.weight [64] is missing", edit{drop: "output_norm.weight"}},
		{"missing embeddings", "llama", "token_embd.weight is missing", edit{drop: "token_embd.weight"}},
		{"missing bias", "qwen2", "tensor blk.0.attn_k.bias [32] is missing", edit{drop: "blk.0.attn_k.bias"}},
		{"wrong shape", "llama", "tensor blk.2.attn_k.weight has shape [64 64], expected [64 32]", edit{shape: resize("blk.2.attn_k.weight", 64, 64)}},
		{"wrong fused shape", "phi3", "tensor blk.0.attn_qkv.weight has shape [64 96], expected [64 128]", edit{shape: resize("blk.0.attn_qkv.weight", 64, 96)}},
		{"unknown tensor", "llama", "tensor blk.0.attn_q.bias is not part of this architecture", edit{extra: "blk.0.attn_q.bias"}},
		{"no heads", "llama", "llama.attention.head_count must be an integer between 1", edit{set: setUint("llama.attention.head_count", 0)}},
		{"heads do not divide", "llama", "4 attention heads cannot share 3", edit{set: setUint("llama.attention.head_count_kv", 3)}},
		{"absurd layers", "llama", "block_count 1000000 exceeds 1024", edit{set: setUint("llama.block_count", 1000000)}},
		{"absurd width", "llama", "llama.embedding_length must be an integer between 1", edit{set: setUint("llama.embedding_length", 1<<31)}},
		{"more layers than tensors", "llama", "tensor blk.3.attn_norm.weight [64] is missing", edit{set: setUint("llama.block_count", 4)}},
		{"fewer layers than tensors", "llama", "is not part of this architecture", edit{set: setUint("llama.block_count", 2)}},
		{"odd rope", "llama", "rope.dimension_count 15 does not fit a head of 16", edit{set: setUint("llama.rope.dimension_count", 15)}},
		{"rope wider than head", "llama", "rope.dimension_count 32 does not fit a head of 16", edit{set: setUint("llama.rope.dimension_count", 32)}},
		{"unknown rope scaling", "llama", `rope scaling "spiral" is not supported`, edit{set: func(w *gguf.Writer) { w.SetString("llama.rope.scaling.type", "spiral") }}},
		{"rope base zero", "llama", "rope.freq_base must be positive", edit{set: func(w *gguf.Writer) { w.SetFloat("llama.rope.freq_base", 0) }}},
		{"NaN epsilon", "llama", "must be a finite number", edit{set: func(w *gguf.Writer) {
			w.SetFloat("llama.attention.layer_norm_rms_epsilon", float32(math.NaN()))
		}}},
		{"other value head", "llama", "attention.value_length 8 differs", edit{set: setUint("llama.attention.value_length", 8)}},
		{"layers differ", "llama", "head_count_kv differs between layers", edit{set: func(w *gguf.Writer) {
			w.SetInts("llama.attention.head_count_kv", []int32{2, 2, 1})
		}}},
		{"experts", "llama", "mixture-of-experts", edit{set: setUint("llama.expert_count", 8)}},
		{"granite scale zero", "granite", "logit_scale must not be 0", edit{set: func(w *gguf.Writer) { w.SetFloat("granite.logit_scale", 0) }}},
		{"NaN norm", "llama", "tensor blk.0.attn_norm.weight holds NaN", edit{change: func(name string, x []float32) {
			if name == "blk.0.attn_norm.weight" {
				x[3] = float32(math.NaN())
			}
		}}},
		{"rope factor zero", "llama-rope3", "tensor rope_freqs.weight holds the factor 0", edit{change: func(name string, x []float32) {
			if name == "rope_freqs.weight" {
				x[0] = 0
			}
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := gguf.Open(rewrite(t, archPath(c.model), c.edit))
			require.NoError(t, err)
			defer f.Close()
			_, err = Load(f, newPool(t, 1), Options{})
			require.ErrorContains(t, err, c.message)
		})
	}
}

// A value given once per layer is accepted when all layers agree.
func TestUniformLayerArrays(t *testing.T) {
	path := rewrite(t, archPath("llama"), edit{set: func(w *gguf.Writer) { w.SetInts("llama.attention.head_count_kv", []int32{2, 2, 2}) }})
	require.Equal(t, 2, openModel(t, path, newPool(t, 1), Options{}).Config().KVHeads)
}

func TestOptions(t *testing.T) {
	f, err := gguf.Open(archPath("llama"))
	require.NoError(t, err)
	defer f.Close()
	p := newPool(t, 1)
	for _, o := range []Options{{ContextTokens: 513}, {ContextTokens: -1}, {KVPages: -1}, {KVPages: 1 << 30}} {
		_, err := Load(f, p, o)
		require.ErrorContains(t, err, "asked for", "%+v", o)
		_, err = Plan(f, o)
		require.ErrorContains(t, err, "asked for", "%+v", o)
	}
	m, err := Load(f, p, Options{ContextTokens: 100})
	require.NoError(t, err)
	defer m.Close()
	require.Equal(t, 100, m.ContextTokens())
	require.Equal(t, 7, m.Pages())
}

// The plan is what loading takes, so that an engine can decide before it loads.
func TestPlan(t *testing.T) {
	for _, kind := range []quant.Type{quant.F32, quant.Q8_0, quant.Q4_0} {
		for _, float := range []bool{false, true} {
			path := quantized(t, "llama-tied-gqa3", kind)
			f, err := gguf.Open(path)
			require.NoError(t, err)
			defer f.Close()
			o := Options{Float: float, KV: kernel.KVF16, KVPages: 64}
			plan, err := Plan(f, o)
			require.NoError(t, err)
			m := openModel(t, path, newPool(t, 1), o)
			require.InDelta(t, plan.Total(), m.Bytes(), 0.2*float64(plan.Total())+1<<20, "%s float %v", kind, float)
		}
	}
}

// YaRN leaves fast pairs alone, divides slow ones by the factor and mixes between.
func TestYarn(t *testing.T) {
	path := rewrite(t, archPath("llama"), edit{set: func(w *gguf.Writer) {
		w.SetString("llama.rope.scaling.type", "yarn")
		w.SetFloat("llama.rope.scaling.factor", 4)
		w.SetUint("llama.rope.scaling.original_context_length", 512)
	}})
	f, err := gguf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	c, err := ReadConfig(f)
	require.NoError(t, err)
	// testdata/yarn.py: inv_freq of transformers' plain rope divided by that of its yarn.
	require.InDeltaSlice(t, []float32{1, 1.230769, 1.6, 2.285714, 4, 4, 4, 4}, c.Rope.Factors, 1e-5)
	require.InDelta(t, 1.1386294, c.Rope.MScale, 1e-6)
}

func FuzzReadConfig(f *testing.F) {
	f.Add("llama", "llama.rope.scaling.type", "yarn", uint32(3), float32(2))
	f.Add("gemma3", "gemma3.attention.key_length", "", uint32(0), float32(0))
	f.Add("bert", "bert.attention.head_count", "", uint32(7), float32(1))
	f.Fuzz(func(t *testing.T, name, key, s string, n uint32, x float32) {
		if name != "bert" && name != "llama" && name != "gemma3" && name != "phi3" && name != "granite" {
			return
		}
		path := rewrite(t, archPath(name), edit{set: func(w *gguf.Writer) {
			if key == "" || w.Has(key) {
				return
			}
			switch {
			case s != "":
				w.SetString(key, s)
			case n%2 == 0:
				w.SetUint(key, int(n))
			default:
				w.SetFloat(key, x)
			}
		}})
		file, err := gguf.Open(path)
		if err != nil {
			return
		}
		defer file.Close()
		p := kernel.NewPool(1)
		defer p.Close()
		if m, err := Load(file, p, Options{KVPages: 1}); err == nil {
			m.Close()
		}
		if e, err := LoadEncoder(file, p, Options{}); err == nil {
			e.Close()
		}
	})
}
