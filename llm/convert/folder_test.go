package convert

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/gguf"
	"ragd/llm/quant"
)

// archDir has GGUF files that llama.cpp's converter made, and the config.json that each was made from.
const archDir = "../model/testdata/arch"

// folderOf undoes a conversion: it makes the Hugging Face folder that the GGUF file name was made from.
func folderOf(t *testing.T, name string) string {
	t.Helper()
	f := open(t, filepath.Join(archDir, name+".f32.gguf"))
	b, err := os.ReadFile(filepath.Join(archDir, name+".json"))
	require.NoError(t, err)
	var ref struct{ Config json.RawMessage }
	require.NoError(t, json.Unmarshal(b, &ref))
	var c config
	require.NoError(t, json.Unmarshal(ref.Config, &c))

	dir := t.TempDir()
	writeFile(t, dir, "config.json", ref.Config)
	tensors := map[string]*gguf.Tensor{}
	for _, x := range f.Tensors() {
		if from, y := original(t, x, &c); from != "" {
			tensors[from] = y
		}
	}
	writeFile(t, dir, "model.safetensors", safetensors(t, tensors))
	writeFile(t, dir, "tokenizer.json", tokenizerOf(t, f))
	return dir
}

func writeFile(t testing.TB, dir, name string, b []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
}

var block = regexp.MustCompile(`^blk\.(\d+)\.(.+)\.(weight|bias)$`)

// original returns the name and content that a tensor had before its conversion; "" for computed ones.
func original(t *testing.T, x *gguf.Tensor, c *config) (string, *gguf.Tensor) {
	t.Helper()
	y := *x
	if c.ModelType == "bert" {
		top := map[string]string{
			"token_embd.weight": "embeddings.word_embeddings.weight", "position_embd.weight": "embeddings.position_embeddings.weight",
			"token_types.weight": "embeddings.token_type_embeddings.weight", "token_embd_norm.weight": "embeddings.LayerNorm.weight",
			"token_embd_norm.bias": "embeddings.LayerNorm.bias",
		}
		if name := top[x.Name]; name != "" {
			return name, &y
		}
		m := block.FindStringSubmatch(x.Name)
		require.NotNil(t, m, x.Name)
		return fmt.Sprintf("encoder.layer.%s.%s.%s", m[1], inverse(bertLayer)[m[2]], m[3]), &y
	}
	fam := families[c.ModelType]
	if strings.HasSuffix(x.Name, "norm.weight") && fam.normOffset != 0 {
		y.Data = shifted(x.Data, -fam.normOffset)
	}
	switch x.Name {
	case "token_embd.weight":
		return "model.embed_tokens.weight", &y
	case "output_norm.weight":
		return "model.norm.weight", &y
	case "output.weight":
		return "lm_head.weight", &y
	case "rope_freqs.weight":
		return "", nil
	}
	m := block.FindStringSubmatch(x.Name)
	require.NotNil(t, m, x.Name)
	if fam.interleave && (m[2] == "attn_q" || m[2] == "attn_k") {
		y.Data = halves(x.Data, c.headDim(), 4*x.Cols())
	}
	return fmt.Sprintf("model.layers.%s.%s.%s", m[1], inverse(fam.layer)[m[2]], m[3]), &y
}

func inverse(m map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[v] = k
	}
	return out
}

// shifted adds delta to F32 values.
func shifted(data []byte, delta float32) []byte {
	x := make([]float32, len(data)/4)
	_ = quant.Decode(quant.F32, x, data)
	for i := range x {
		x[i] += delta
	}
	out := make([]byte, len(data))
	_ = quant.Encode(quant.F32, out, x)
	return out
}

// halves undoes the interleaving of rotary pairs: row 2i of a head becomes row i, row 2i+1 row i+dim/2.
func halves(data []byte, dim, rowBytes int) []byte {
	out := make([]byte, len(data))
	for r := range len(data) / rowBytes {
		head, i := r/dim*dim, r%dim
		copy(out[(head+i/2+i%2*dim/2)*rowBytes:], data[r*rowBytes:(r+1)*rowBytes])
	}
	return out
}

// safetensors builds a file.
func safetensors(t testing.TB, tensors map[string]*gguf.Tensor) []byte {
	t.Helper()
	header, data := map[string]any{"__metadata__": map[string]string{"format": "pt"}}, []byte(nil)
	for _, name := range sortedKeys(tensors) {
		x := tensors[name]
		a := array{shape: x.Shape}
		header[name] = map[string]any{"dtype": x.Type.String(), "shape": a.ne(), "data_offsets": []int{len(data), len(data) + len(x.Data)}}
		data = append(data, x.Data...)
	}
	h, err := json.Marshal(header)
	require.NoError(t, err)
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(h))), h...), data...)
}

// tokenizerOf builds the tokenizer.json that the vocabulary of f was made from.
func tokenizerOf(t *testing.T, f *gguf.File) []byte {
	t.Helper()
	words, _ := f.Strings("tokenizer.ggml.tokens")
	types, _ := f.Ints("tokenizer.ggml.token_type")
	merges, _ := f.Strings("tokenizer.ggml.merges")
	wordPiece := f.Architecture() == "bert"
	vocab := map[string]int{}
	var added []map[string]any
	for i, w := range words {
		if wordPiece && types[i] == normalToken {
			rest, start := strings.CutPrefix(w, "\u2581")
			if w = rest; !start {
				w = "##" + w
			}
		}
		vocab[w] = i
		if types[i] == controlToken {
			added = append(added, map[string]any{"id": i, "content": w, "special": true})
		}
	}
	out := map[string]any{"added_tokens": added, "normalizer": nil, "post_processor": nil}
	if wordPiece {
		out["model"] = map[string]any{"type": "WordPiece", "continuing_subword_prefix": "##", "vocab": vocab}
		out["normalizer"] = map[string]any{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "lowercase": true}
	} else {
		out["model"] = map[string]any{"type": "BPE", "vocab": vocab, "merges": merges}
		out["pre_tokenizer"] = map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}
	}
	b, err := json.Marshal(out)
	require.NoError(t, err)
	return b
}

// TestFamilies: what the independent converter made of each architecture comes out again, metadata included.
func TestFamilies(t *testing.T) {
	for _, name := range []string{
		"llama", "llama-rope3", "llama-tied-gqa3", "mistral", "granite", "smollm3", "qwen2", "qwen3", "gemma3", "phi3", "bert",
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "m.gguf")
			require.NoError(t, HuggingFace(folderOf(t, name), out, Options{}))
			requireSame(t, open(t, filepath.Join(archDir, name+".f32.gguf")), open(t, out), wordPieceKeys(name)...)
		})
	}
}

// wordPieceKeys are keys that the other converter writes for BERT and nobody reads: WordPiece has no pre-tokenizer, and
// pairs have their own template.
func wordPieceKeys(name string) []string {
	if name != "bert" {
		return nil
	}
	return []string{"tokenizer.ggml.pre", "tokenizer.ggml.add_sep_token"}
}

// edited copies the folder of an architecture with one text of config.json or tokenizer.json replaced.
func edited(t *testing.T, name, file, from, to string) string {
	t.Helper()
	dir := folderOf(t, name)
	b, err := os.ReadFile(filepath.Join(dir, file))
	require.NoError(t, err)
	if from == "" {
		require.NoError(t, os.Remove(filepath.Join(dir, file)))
		return dir
	}
	require.Contains(t, string(b), from)
	writeFile(t, dir, file, bytes.Replace(b, []byte(from), []byte(to), 1))
	return dir
}

// TestRefusedFolders: every gap has an error that names it, and no output appears.
func TestRefusedFolders(t *testing.T) {
	for name, c := range map[string]struct{ arch, file, from, to, want string }{
		"no config":            {"llama", "config.json", "", "", "config.json is missing"},
		"broken config":        {"llama", "config.json", "{", "", "config.json: "},
		"no weights":           {"llama", "model.safetensors", "", "", "model.safetensors"},
		"no tokenizer":         {"llama", "tokenizer.json", "", "", "tokenizer is missing"},
		"model type":           {"llama", "config.json", `"model_type": "llama"`, `"model_type": "mamba"`, `"mamba" is not supported`},
		"activation":           {"llama", "config.json", `"silu"`, `"relu"`, `"relu"`},
		"heads":                {"llama", "config.json", `"num_attention_heads": 4`, `"num_attention_heads": 0`, "num_attention_heads"},
		"odd heads":            {"llama", "config.json", `"num_attention_heads": 4`, `"num_attention_heads": 7`, "7 heads"},
		"more layers":          {"llama", "config.json", `"num_hidden_layers": 3`, `"num_hidden_layers": 4`, `"model.layers.3.input_layernorm.weight" is missing`},
		"fewer layers":         {"llama", "config.json", `"num_hidden_layers": 3`, `"num_hidden_layers": 2`, "model.layers.2."},
		"missing head":         {"llama-tied-gqa3", "config.json", `"tie_word_embeddings": true`, `"tie_word_embeddings": false`, "lm_head.weight"},
		"rope scaling":         {"llama-rope3", "config.json", `"llama3"`, `"magic"`, `"magic"`},
		"rope factors":         {"llama-rope3", "config.json", `"factor": 8.0`, `"factor": 0.5`, "llama3"},
		"layer kinds":          {"gemma3", "config.json", `"full_attention"`, `"sliding_attention"`, "sixth"},
		"no rope layers":       {"smollm3", "config.json", `[1, 1, 1, 0]`, `[1, 1, 0, 0]`, "no_rope_layers"},
		"pre-tokenizer":        {"llama", "tokenizer.json", `"use_regex":true`, `"use_regex":false`, "pre-tokenizer"},
		"tokenizer type":       {"llama", "tokenizer.json", `"type":"BPE"`, `"type":"Magic"`, `"Magic"`},
		"duplicate token id":   {"llama", "tokenizer.json", `"!":3`, `"!":4`, "same id 4"},
		"absurd token id":      {"llama", "tokenizer.json", `"!":3`, `"!":2000000000`, "impossible id"},
		"normalizer":           {"bert", "tokenizer.json", `"clean_text":true`, `"clean_text":false`, "normalizer"},
		"relative positions":   {"bert", "config.json", `"model_type"`, `"position_embedding_type": "relative_key", "model_type"`, "relative_key"},
		"another bert variant": {"bert", "config.json", `"gelu"`, `"gelu_new"`, "gelu_new"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, out := edited(t, c.arch, c.file, c.from, c.to), t.TempDir()
			err := HuggingFace(dir, filepath.Join(out, "m.gguf"), Options{})
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "convert: ")
			entries, err := os.ReadDir(out)
			require.NoError(t, err)
			require.Empty(t, entries)
		})
	}
}

// TestDamagedWeights: element types that are not known are named, and numbers that are none, in any matrix or vector, stop the conversion.
func TestDamagedWeights(t *testing.T) {
	refused := func(dir string) error {
		out := t.TempDir()
		err := HuggingFace(dir, filepath.Join(out, "m.gguf"), Options{})
		entries, readErr := os.ReadDir(out)
		require.NoError(t, readErr)
		require.Empty(t, entries)
		return err
	}
	dir := folderOf(t, "llama")
	path := filepath.Join(dir, "model.safetensors")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bytes.Replace(whole, []byte(`"F32"`), []byte(`"F8" `), 1), 0o600))
	require.ErrorContains(t, refused(dir), "elements of the type F8; supported are F32, F16 and BF16")
	header := 8 + int(binary.LittleEndian.Uint64(whole))
	for at, bits := range map[int]uint32{header: 0x7fc00000, header + (len(whole)-header)/8*4: 0xff800000, len(whole) - 4: 0x7f800000} {
		b := bytes.Clone(whole)
		binary.LittleEndian.PutUint32(b[at:], bits)
		require.NoError(t, os.WriteFile(path, b, 0o600))
		require.ErrorContains(t, refused(dir), "the source is damaged")
	}
	for kind, x := range map[quant.Type]uint16{quant.F16: 0x7c00, quant.BF16: 0xff80} {
		require.False(t, finite(kind, binary.LittleEndian.AppendUint16([]byte{0, 0}, x)))
		require.True(t, finite(kind, binary.LittleEndian.AppendUint16([]byte{0, 0}, x-1)))
	}
}

// TestTruncatedWeights: no prefix of a safetensors file is taken for a model.
func TestTruncatedWeights(t *testing.T) {
	dir := folderOf(t, "bert")
	path := filepath.Join(dir, "model.safetensors")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, n := range []int{0, 7, 8, 100, 5000, len(b) / 2, len(b) - 1} {
		require.NoError(t, os.WriteFile(path, b[:n], 0o600))
		out := t.TempDir()
		require.ErrorContains(t, HuggingFace(dir, filepath.Join(out, "m.gguf"), Options{}), "model.safetensors", "%d bytes", n)
		entries, err := os.ReadDir(out)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}

// TestHalfFloats: matrices keep their 16-bit type, permuted ones too; vectors become F32; shards are joined.
func TestHalfFloats(t *testing.T) {
	dir := folderOf(t, "llama")
	w, err := openSafetensors(dir)
	require.NoError(t, err)
	defer w.close()
	shards := []map[string]*gguf.Tensor{{}, {}}
	index := map[string]string{}
	files := []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}
	for i, name := range sortedKeys(w.arrays) {
		a := w.arrays[name]
		x, err := a.floats()
		require.NoError(t, err)
		typ := []quant.Type{quant.F16, quant.BF16}[i%2]
		b := make([]byte, 2*len(x))
		require.NoError(t, quant.Encode(typ, b, x))
		shards[i%2][name] = &gguf.Tensor{Type: typ, Shape: a.ne(), Data: b}
		index[name] = files[i%2]
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "model.safetensors")))
	for i, file := range files {
		writeFile(t, dir, file, safetensors(t, shards[i]))
	}
	b, err := json.Marshal(map[string]any{"weight_map": index})
	require.NoError(t, err)
	writeFile(t, dir, "model.safetensors.index.json", b)

	out := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, HuggingFace(dir, out, Options{Name: "halves", Licence: "MIT", Source: "a test"}))
	want, got := open(t, filepath.Join(archDir, "llama.f32.gguf")), open(t, out)
	require.Equal(t, Version, FileVersion(out))
	licence, _ := got.String("general.license")
	require.Equal(t, "MIT", licence)
	for _, x := range want.Tensors() {
		y, ok := got.Tensor(x.Name)
		require.True(t, ok, x.Name)
		require.Equal(t, len(x.Shape) == 1, y.Type == quant.F32, x.Name)
		a, b := make([]float32, x.Rows()*x.Cols()), make([]float32, x.Rows()*x.Cols())
		require.NoError(t, quant.Decode(x.Type, a, x.Data))
		require.NoError(t, quant.Decode(y.Type, b, y.Data))
		require.InDeltaSlice(t, a, b, 1e-2, x.Name)
	}
}

// FuzzSafetensors: no header makes the reader panic or claim data that is not there.
func FuzzSafetensors(f *testing.F) {
	f.Add(safetensors(f, map[string]*gguf.Tensor{"w": {Type: quant.F32, Shape: []int{2, 3}, Data: make([]byte, 24)}}))
	f.Add([]byte("\x10\x00\x00\x00\x00\x00\x00\x00{\"w\":{\"shape\":1}"))
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, '{'})
	f.Fuzz(func(t *testing.T, b []byte) {
		arrays, err := parseSafetensors(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		for _, a := range arrays {
			if a.typ != otherType {
				_, err := a.raw()
				require.NoError(t, err)
			}
		}
	})
}

// FuzzTokenizer: no tokenizer.json makes the converter panic.
func FuzzTokenizer(f *testing.F) {
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b",["b","a"]]},"pre_tokenizer":{"type":"ByteLevel"},"added_tokens":[{"id":1,"content":"b"}]}`))
	f.Add([]byte(`{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1.5]]},"normalizer":{"type":"Sequence","normalizers":[{"type":"Precompiled","precompiled_charsmap":"AAAA"}]},"added_tokens":[{"id":3,"content":"<mask>","special":true}]}`))
	f.Add([]byte(`{"model":{"type":"WordPiece","continuing_subword_prefix":"##","vocab":{"[CLS]":0,"##a":1}},"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true},"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]"}},{"Sequence":{}}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := parseTokenizer(b, &tokenizerConfig{names: map[string]string{}}, nil)
		if err == nil {
			require.Len(t, v.types, len(v.tokens))
		}
	})
}
