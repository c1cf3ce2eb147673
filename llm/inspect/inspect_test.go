package inspect

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/quant"
)

// course holds the numbers of the inference course that concern this package; sampling and beam search are tested in
// llm/sample, which carries the file.
type course struct {
	KV struct {
		Tokens        int
		PassesWith    int64 `json:"token_passes_with_cache"`
		PassesWithout int64 `json:"token_passes_without"`
		PerToken      struct {
			Layers, Hidden int
			BytesPerValue  int `json:"bytes_per_value"`
			Value          int64
		} `json:"bytes_per_token"`
		Sequence4096 int64 `json:"sequence_4096_tokens_bytes"`
		Sequences32  int64 `json:"sequences_32_bytes"`
		Shared       int64 `json:"with_8_of_32_kv_heads_bytes_per_token"`
	} `json:"kv_cache"`
	Decode struct {
		WeightBytes int64   `json:"weight_bytes"`
		Bandwidth   float64 `json:"bandwidth_bytes_per_second"`
		Seconds     float64 `json:"seconds_per_token"`
		PerSecond   float64 `json:"tokens_per_second"`
	} `json:"decode_bound"`
	Quantization struct {
		Parameters int64
		Bytes      map[string]int64
		Max        float64 `json:"max_weight"`
		Levels     int     `json:"positive_levels"`
		Step       float64
	}
	Attention struct {
		Scores1000 int64 `json:"tokens_1000_scores"`
		Scores8000 int64 `json:"tokens_8000_scores"`
		Ratio      int64
	}
}

func loadCourse(t *testing.T) (c course) {
	raw, err := os.ReadFile("../sample/testdata/course-numbers.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &c))
	return c
}

// TestCourseNumbers: every memory and cost figure of the course, by the functions that inspect prints from.
func TestCourseNumbers(t *testing.T) {
	c := loadCourse(t)
	const headDim, users = 128, 32
	kv := c.KV.PerToken
	perToken := KVBytesPerToken(kv.Layers, kv.Hidden/headDim, headDim, kv.BytesPerValue)
	codes := func(q quant.Type, scaleBytes int) int64 { // bytes of the codes alone
		elems, nbytes := q.Block()
		return c.Quantization.Parameters * int64(nbytes-scaleBytes) / int64(elems)
	}
	for _, x := range []struct {
		name      string
		want, got int64
	}{
		{"kv_cache.token_passes_with_cache", c.KV.PassesWith, TokenPasses(c.KV.Tokens, true)},
		{"kv_cache.token_passes_without", c.KV.PassesWithout, TokenPasses(c.KV.Tokens, false)},
		{"kv_cache.bytes_per_token", kv.Value, perToken},
		{"kv_cache.sequence_4096_tokens_bytes", c.KV.Sequence4096, KVBytes(perToken, 4096, 1)},
		{"kv_cache.sequences_32_bytes", c.KV.Sequences32, KVBytes(perToken, 4096, users)},
		{"kv_cache.with_8_of_32_kv_heads_bytes_per_token", c.KV.Shared, KVBytesPerToken(kv.Layers, 8, headDim, kv.BytesPerValue)},
		{"quantization.bytes.fp16", c.Quantization.Bytes["fp16"], WeightBytes(c.Quantization.Parameters, 16)},
		{"quantization.bytes.int8", c.Quantization.Bytes["int8"], WeightBytes(c.Quantization.Parameters, 8)},
		{"quantization.bytes.4bit", c.Quantization.Bytes["4bit"], WeightBytes(c.Quantization.Parameters, 4)},
		{"quantization.bytes.fp16 by the format", c.Quantization.Bytes["fp16"], codes(quant.F16, 0)},
		{"quantization.bytes.int8 by the format", c.Quantization.Bytes["int8"], codes(quant.Q8_0, 2)},
		{"quantization.bytes.4bit by the format", c.Quantization.Bytes["4bit"], codes(quant.Q4_0, 2)},
		{"attention.tokens_1000_scores", c.Attention.Scores1000, AttentionScores(1000)},
		{"attention.tokens_8000_scores", c.Attention.Scores8000, AttentionScores(8000)},
		{"attention.ratio", c.Attention.Ratio, AttentionScores(8000) / AttentionScores(1000)},
	} {
		require.Positive(t, x.want, x.name)
		require.Equal(t, x.want, x.got, x.name)
	}
	seconds := DecodeSeconds(c.Decode.WeightBytes, c.Decode.Bandwidth)
	require.InDelta(t, c.Decode.Seconds, seconds, 1e-9, "decode_bound.seconds_per_token")
	require.InDelta(t, c.Decode.PerSecond, 1/seconds, 0.05, "decode_bound.tokens_per_second")
	require.InDelta(t, c.Quantization.Step, Step(c.Quantization.Max, c.Quantization.Levels), 0.000005, "quantization.step")

	x, block := make([]float32, 32), make([]byte, 34)
	x[5] = float32(c.Quantization.Max)
	require.NoError(t, quant.Encode(quant.Q8_0, block, x))
	require.InDelta(t, c.Quantization.Step, quant.F16ToF32(uint16(block[0])|uint16(block[1])<<8), 0.00001, "quantization.step in a Q8_0 block")
}

// large writes a model of the course's shape, 7 billion half floats, as a file of holes.
func large(t *testing.T, kvHeads int) *gguf.File {
	const layers, embd, ffn, vocab = 32, 4096, 11008, 32000
	path := filepath.Join(t.TempDir(), "large.gguf")
	out, err := os.Create(path)
	require.NoError(t, err)
	w := gguf.NewWriter(out, "llama")
	for key, n := range map[string]int{
		"block_count": layers, "context_length": 4096, "embedding_length": embd, "feed_forward_length": ffn,
		"attention.head_count": 32, "attention.head_count_kv": kvHeads,
	} {
		w.SetUint("llama."+key, n)
	}
	w.SetFloat("llama.attention.layer_norm_rms_epsilon", 1e-5)
	nbytes := 0
	declare := func(name string, shape ...int) {
		w.Declare(name, quant.F16, shape...)
		n := 2
		for _, d := range shape {
			n *= d
		}
		nbytes += n
	}
	declare("token_embd.weight", embd, vocab)
	declare("output_norm.weight", embd)
	declare("output.weight", embd, vocab)
	for i := range layers {
		p := "blk." + string(rune('0'+i/10)) + string(rune('0'+i%10)) + "."
		p = strings.Replace(p, ".0", ".", 1)
		for name, rows := range map[string]int{"attn_q": embd, "attn_k": kvHeads * 128, "attn_v": kvHeads * 128, "attn_output": embd, "ffn_gate": ffn, "ffn_up": ffn} {
			declare(p+name+".weight", embd, rows)
		}
		declare(p+"ffn_down.weight", ffn, embd)
		declare(p+"attn_norm.weight", embd)
		declare(p+"ffn_norm.weight", embd)
	}
	require.NoError(t, w.Begin())
	info, err := out.Stat()
	require.NoError(t, err)
	require.NoError(t, out.Truncate(info.Size()+int64(nbytes)))
	require.NoError(t, out.Close())
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// TestCourseModel: the command prints the course's figures for a model of that shape.
func TestCourseModel(t *testing.T) {
	c := loadCourse(t)
	d := File(large(t, 32), Machine{KV: kernel.KVF16, Users: []int{1, 32}, Bandwidth: c.Decode.Bandwidth})
	require.Empty(t, d.Unsupported)
	require.Equal(t, c.KV.PerToken.Value, d.KV.BytesPerToken)
	require.Equal(t, d.KV.BytesPerToken, d.KV.BytesPerTokenNoShare)
	require.Equal(t, c.KV.PerToken.Value, d.KV.EngineBytesPerToken)
	require.Equal(t, c.KV.Sequence4096, d.KV.BytesPerContext)
	require.Equal(t, c.KV.Sequence4096, d.Plan[0].Cache)
	require.Equal(t, c.KV.Sequences32, d.Plan[1].Cache)
	require.Equal(t, 7, int(float64(d.Parameters)/1e9+0.5))
	require.InEpsilon(t, c.Decode.Seconds, d.Decode.SecondsPerToken, 0.06, "6.7 billion weights without the embedding table")
	require.InDelta(t, 16, d.BitsPerWeight, 1e-9)
	require.EqualValues(t, 64, d.Attention[len(d.Attention)-1].Scores/d.Attention[0].Scores, "eight times the context")

	shared := File(large(t, 8), Machine{KV: kernel.KVF16, Users: []int{1}})
	require.Equal(t, c.KV.Shared, shared.KV.BytesPerToken)
	require.Equal(t, c.KV.PerToken.Value, shared.KV.BytesPerTokenNoShare)
	require.Nil(t, shared.Decode)
}

// TestPrefillShare counts multiplications one by one for a tiny shape.
func TestPrefillShare(t *testing.T) {
	const weights, layers, heads, dim, n = 1000, 2, 3, 4, 5
	attention := 0
	for range layers {
		for i := 1; i <= n; i++ {
			for range heads {
				attention += i*dim + i*dim // a score and a share of the value per earlier token
			}
		}
	}
	require.InDelta(t, float64(attention)/float64(attention+weights*n), PrefillShare(weights, layers, heads, dim, n), 1e-12)
}

// TestKinds: every kind of file is described; what cannot run is named.
func TestKinds(t *testing.T) {
	const arch = "../model/testdata/arch/"
	open := func(path string) *gguf.File {
		f, err := gguf.Open(path)
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	d := File(open(arch+"gemma3.f32.gguf"), Machine{KV: kernel.KVInt16, Users: []int{2}, Context: 100})
	require.Equal(t, "generator", d.Kind)
	require.Positive(t, d.Shape.WindowLayers)
	require.Equal(t, 100, d.KV.Context)
	require.Equal(t, "bpe", d.Tokenizer.Kind)
	require.Contains(t, d.Template, "none: ")
	d = File(open(arch+"bert.f32.gguf"), Machine{})
	require.Equal(t, "embedder", d.Kind)
	require.Nil(t, d.KV)

	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, gguf.Create(path, "mamba", func(w *gguf.Writer) error {
		w.SetString("tokenizer.ggml.model", "rwkv")
		w.SetStrings("tokenizer.ggml.tokens", []string{"a"})
		return w.Begin()
	}))
	d = File(open(path), Machine{})
	require.Equal(t, "unknown", d.Kind)
	require.Contains(t, d.Unsupported, `architecture "mamba" is not supported; supported:`)
	require.Contains(t, d.Tokenizer.Error, `"rwkv"`)
}
