package convert

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/quant"
)

// TestONNXCodes: the codes of an 8-bit matrix arrive unchanged as Q8_0, transposed, with one scale per row; embeddings
// with a zero point as F16; the head as F32.
func TestONNXCodes(t *testing.T) {
	out := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, ONNX("testdata/reranker_int8.onnx", "testdata", out, Options{Heads: 2}))
	f := open(t, out)
	require.Equal(t, "bert", f.Architecture())
	pooling, _ := f.Uint("bert.pooling_type")
	require.Equal(t, uint64(4), pooling, "a classifier makes a reranker")
	layers, _ := f.Uint("bert.block_count")
	require.Equal(t, uint64(2), layers)

	file, err := os.Open("testdata/reranker_int8.onnx")
	require.NoError(t, err)
	defer file.Close()
	info, err := file.Stat()
	require.NoError(t, err)
	g, err := parseONNX(file, info.Size())
	require.NoError(t, err)
	w, err := g.weights()
	require.NoError(t, err)
	up := w.arrays["bert.encoder.layer.0.intermediate.dense.weight"]
	require.NotNil(t, up)
	require.Equal(t, []int{64, 32}, up.shape)
	require.Len(t, up.scale, 64)
	codes, err := up.codes()
	require.NoError(t, err)

	x, ok := f.Tensor("blk.0.ffn_up.weight")
	require.True(t, ok)
	require.Equal(t, quant.Q8_0, x.Type)
	require.Equal(t, []int{32, 64}, x.Shape)
	for r := range 64 {
		row := x.Data[34*r : 34*r+34]
		require.Equal(t, quant.F32ToF16(up.scale[r]), uint16(row[0])|uint16(row[1])<<8)
		for i := range 32 {
			require.Equal(t, codes[32*r+i], int16(int8(row[2+i])))
		}
	}
	for name, typ := range map[string]quant.Type{
		"token_embd.weight": quant.F16, "position_embd.weight": quant.F32, "cls.weight": quant.F32, "cls.output.weight": quant.F32,
	} {
		x, ok := f.Tensor(name)
		require.True(t, ok, name)
		require.Equal(t, typ, x.Type, name)
	}
	words, _ := f.Strings("tokenizer.ggml.tokens")
	require.Equal(t, "\u2581a", words[5])
	require.Equal(t, "a", words[31])
	unknown, _ := f.Uint("tokenizer.ggml.unknown_token_id")
	require.Equal(t, uint64(1), unknown)
}

// TestScalesBeyondHalf: where a half cannot hold a scale well, the matrix becomes F32 instead of losing precision.
func TestScalesBeyondHalf(t *testing.T) {
	a := &array{typ: int8s, shape: []int{2, 32}, scale: []float32{0.01, 1e-7}, zero: []int32{0}, inline: make([]byte, 64)}
	require.Equal(t, quant.F32, a.matrix("w").typ)
	a.scale[1] = 0.02
	require.Equal(t, quant.Q8_0, a.matrix("w").typ)
	a.zero[0] = 3
	require.Equal(t, quant.F16, a.matrix("w").typ)
	a.zero[0], a.shape = 0, []int{4, 16}
	require.Equal(t, quant.F16, a.matrix("w").typ)
}

func TestRefusedONNX(t *testing.T) {
	good, err := os.ReadFile("testdata/encoder.onnx")
	require.NoError(t, err)
	tokenizer, err := os.ReadFile("testdata/tokenizer.json")
	require.NoError(t, err)
	convert := func(model []byte, o Options, files map[string]string) error {
		dir, out := t.TempDir(), t.TempDir()
		writeFile(t, dir, "m.onnx", model)
		writeFile(t, dir, "tokenizer.json", tokenizer)
		for name, text := range files {
			writeFile(t, dir, name, []byte(text))
		}
		err := ONNX(filepath.Join(dir, "m.onnx"), dir, filepath.Join(out, "m.gguf"), o)
		entries, _ := os.ReadDir(out)
		require.Equal(t, err == nil, len(entries) == 1)
		return err
	}
	heads := Options{Heads: 2}
	require.NoError(t, convert(good, heads, nil))
	require.ErrorContains(t, convert(good, Options{}, nil), "attention heads")
	require.ErrorContains(t, convert(good, heads, map[string]string{"tokenizer.json": "["}), "tokenizer.json")
	require.ErrorContains(t, convert(good, heads, map[string]string{"config.json": "{}"}), "config.json")
	require.ErrorContains(t, convert([]byte("GGUF, not ONNX"), heads, nil), "no valid ONNX model")
	require.ErrorContains(t, convert(nil, heads, nil), "no graph")
	renamed := bytes.ReplaceAll(good, []byte("encoder.layer.0.output.dense.bias"), []byte("encoder.layer.0.output.thick.bias"))
	require.ErrorContains(t, convert(renamed, heads, nil), "parameter names")
	for n := 1; n < len(good); n += 997 {
		require.Error(t, convert(good[:n], heads, nil), "prefix of %d bytes", n)
	}
	require.Error(t, ONNX("testdata/absent.onnx", "testdata", filepath.Join(t.TempDir(), "m.gguf"), heads))
	require.Error(t, ONNX("testdata/encoder.onnx", "testdata", filepath.Join(t.TempDir(), "no", "such", "folder.gguf"), heads))
}

// FuzzONNX: no bytes make the reader panic or allocate beyond the file.
func FuzzONNX(f *testing.F) {
	f.Add([]byte{0x3a, 4, 0x0a, 2, 0x22, 0})
	f.Add([]byte{0x3a, 12, 0x2a, 10, 0x08, 1, 0x10, 1, 0x42, 1, 'w', 0x4a, 1, 0})
	f.Add([]byte{0x3a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := parseONNX(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		w, err := g.weights()
		if err != nil {
			return
		}
		for _, a := range w.arrays {
			if _, err := a.floats(); err != nil {
				require.NotContains(t, err.Error(), "EOF", "an accepted array lies inside the file")
			}
		}
	})
}
