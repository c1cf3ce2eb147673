package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/quant"
)

// sample returns a valid file with every kind of value and two tensors.
func sample(t testing.TB) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := NewWriter(&buf, "llama")
	w.SetUint("llama.block_count", 2)
	w.SetFloat("llama.rope.freq_base", 10000)
	w.SetBool("tokenizer.ggml.add_bos_token", true)
	w.SetStrings("tokenizer.ggml.tokens", []string{"<s>", "", "päper", "a\x00b"})
	w.SetFloats("tokenizer.ggml.scores", []float32{0, -1.5})
	w.SetInts("tokenizer.ggml.token_type", []int32{3, 1, -1})
	w.Declare("a.weight", quant.F32, 3, 2)
	w.Declare("b.weight", quant.Q8_0, 32)
	require.NoError(t, w.Begin())
	a := make([]byte, 24)
	a[23] = 7
	require.NoError(t, w.Write("a.weight", a[:10])) // in pieces
	require.NoError(t, w.Write("a.weight", a[10:]))
	require.NoError(t, w.Write("b.weight", bytes.Repeat([]byte{5}, 34)))
	require.NoError(t, w.Close())
	return buf.Bytes()
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	data := sample(t)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	f, err := Open(path)
	require.NoError(t, err)
	require.Equal(t, path, f.Path())
	require.Equal(t, int64(len(data)), f.Size())
	require.Equal(t, "llama", f.Architecture())
	require.Equal(t, "llama.block_count", f.Keys()[1])
	n, ok := f.Uint("llama.block_count")
	require.True(t, ok)
	require.Equal(t, uint64(2), n)
	x, ok := f.Float("llama.rope.freq_base")
	require.True(t, ok)
	require.Equal(t, 10000.0, x)
	b, ok := f.Bool("tokenizer.ggml.add_bos_token")
	require.True(t, ok && b)
	words, ok := f.Strings("tokenizer.ggml.tokens")
	require.True(t, ok)
	require.Equal(t, []string{"<s>", "", "päper", "a\x00b"}, words)
	scores, ok := f.Floats("tokenizer.ggml.scores")
	require.True(t, ok)
	require.Equal(t, []float32{0, -1.5}, scores)
	types, ok := f.Ints("tokenizer.ggml.token_type")
	require.True(t, ok)
	require.Equal(t, []int32{3, 1, -1}, types)
	require.Equal(t, `["<s>", "", "päper", "a\x00b"]`, f.Describe("tokenizer.ggml.tokens"))
	require.Equal(t, "[0, -1.5]", f.Describe("tokenizer.ggml.scores"))
	require.Equal(t, "2", f.Describe("llama.block_count"))
	require.Equal(t, "true", f.Describe("tokenizer.ggml.add_bos_token"))
	require.Empty(t, f.Describe("absent"))

	require.Len(t, f.Tensors(), 2)
	a, ok := f.Tensor("a.weight")
	require.True(t, ok)
	require.Equal(t, []int{3, 2}, a.Shape)
	require.Equal(t, 2, a.Rows())
	require.Equal(t, 3, a.Cols())
	require.Equal(t, byte(7), a.Data[23])
	f.Release()
	require.Equal(t, byte(7), a.Data[23])
	q, ok := f.Tensor("b.weight")
	require.True(t, ok)
	require.Equal(t, quant.Q8_0, q.Type)
	require.Equal(t, 1, q.Rows())
	require.Equal(t, bytes.Repeat([]byte{5}, 34), q.Data)
	_, ok = f.Tensor("c")
	require.False(t, ok)

	var copied bytes.Buffer // Copy keeps all values, in order, but not those set before
	w := NewWriter(&copied, "llama")
	w.SetUint("llama.block_count", 9)
	w.Copy(f)
	require.NoError(t, w.Begin())
	require.NoError(t, w.Close())
	g, err := parse("copy", copied.Bytes())
	require.NoError(t, err)
	require.Equal(t, f.Keys(), g.Keys())
	for _, key := range f.Keys() {
		if key != "llama.block_count" {
			require.Equal(t, f.values[key], g.values[key])
		}
	}

	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	require.Equal(t, "päper", words[2], "strings outlive the mapping")
}

// TestWrongType: a getter of another type says no instead of guessing.
func TestWrongType(t *testing.T) {
	f, err := parse("m", sample(t))
	require.NoError(t, err)
	for _, key := range append(f.Keys(), "absent") {
		answers := 0
		for _, ok := range []bool{second(f.String(key)), second(f.Uint(key)), second(f.Float(key)), second(f.Bool(key)),
			second(f.Strings(key)), second(f.Floats(key)), second(f.Ints(key))} {
			if ok {
				answers++
			}
		}
		require.Equal(t, map[bool]int{true: 1, false: 0}[f.Has(key)], answers, key)
	}
}

func second[T any](_ T, ok bool) bool { return ok }

// TestTruncated: every prefix of a valid file is refused with an offset inside it, except that nothing follows the last
// tensor but padding.
func TestTruncated(t *testing.T) {
	data := sample(t)
	for n := range len(data) - 30 {
		_, err := parse("m", data[:n])
		var format *FormatError
		require.ErrorAs(t, err, &format, "prefix of %d bytes", n)
		require.LessOrEqual(t, format.Offset, int64(n))
		require.Equal(t, "m", format.Path)
	}
}

// raw builds hostile files field by field.
type raw []byte

func (r raw) u32(n uint32) raw { return binary.LittleEndian.AppendUint32(r, n) }
func (r raw) u64(n uint64) raw { return binary.LittleEndian.AppendUint64(r, n) }
func (r raw) str(s string) raw { return append(r.u64(uint64(len(s))), s...) }
func (r raw) fill(n int) raw   { return append(r, make([]byte, n)...) }

func head(tensors, pairs uint64) raw { return raw("GGUF").u32(3).u64(tensors).u64(pairs) }

func (r raw) tensor(name string, t quant.Type, offset uint64, ne ...uint64) raw {
	r = r.str(name).u32(uint32(len(ne)))
	for _, n := range ne {
		r = r.u64(n)
	}
	return r.u32(uint32(t)).u64(offset)
}

func TestRefusals(t *testing.T) {
	const huge = 1 << 62
	for name, c := range map[string]struct {
		data raw
		want string
	}{
		"empty":                  {nil, "too few"},
		"other format":           {raw("PK\x03\x04").fill(40), "not a GGUF file"},
		"version 1":              {raw("GGUF").u32(1).fill(16), "version 1 is obsolete"},
		"version 4":              {raw("GGUF").u32(4).fill(16), "version 4"},
		"big endian":             {raw("GGUF\x00\x00\x00\x03").fill(16), "big endian"},
		"tensor count":           {head(huge, 0), "tensor count is 4611686018427387904"},
		"metadata count":         {head(0, huge).fill(100), "metadata count"},
		"key length":             {head(0, 1).u64(huge).fill(64), "length of a metadata key"},
		"key empty":              {head(0, 1).u64(0).fill(64), "empty"},
		"key invalid":            {head(0, 1).str("\xff\xfe").fill(64), "UTF-8"},
		"key twice":              {head(0, 2).str("k").u32(4).u32(1).str("k").u32(4).u32(1), `"k" appears twice`},
		"value type":             {head(0, 1).str("k").u32(13).fill(64), "unknown type 13"},
		"string length":          {head(0, 1).str("k").u32(8).u64(huge).fill(64), "string length"},
		"array length":           {head(0, 1).str("k").u32(9).u32(10).u64(huge).fill(64), "length of the value"},
		"array length overflow":  {head(0, 1).str("k").u32(9).u32(10).u64(1 << 61).fill(64), "length of the value"},
		"array of arrays":        {head(0, 1).str("k").u32(9).u32(9).u64(1).fill(64), "array of arrays"},
		"array of strings":       {head(0, 1).str("k").u32(9).u32(8).u64(3).str("a").u64(9), "string length"},
		"alignment zero":         {head(0, 1).str("general.alignment").u32(4).u32(0), "general.alignment is 0"},
		"alignment odd":          {head(0, 1).str("general.alignment").u32(4).u32(24), "power of two"},
		"alignment text":         {head(0, 1).str("general.alignment").u32(8).str("x"), "power of two"},
		"split":                  {head(0, 1).str("split.count").u32(4).u32(3), "one of 3 parts"},
		"dimensions":             {head(1, 0).str("w").u32(5).fill(64), "5 dimensions"},
		"zero dimension":         {head(1, 0).tensor("w", quant.F32, 0, 0, 4).fill(64), "dimension 0"},
		"shape overflow":         {head(1, 0).tensor("w", quant.F32, 0, 1<<40, 1<<40).fill(64), "too large"},
		"bytes overflow":         {head(1, 0).tensor("w", quant.F32, 0, 1<<62).fill(64), "too many"},
		"tensor type":            {head(1, 0).tensor("w", 16, 0, 256).fill(256), `"w" has the type IQ2_XXS, which is not supported; supported: F32, F16, Q4_0`},
		"unknown tensor type":    {head(1, 0).tensor("w", 1000, 0, 256).fill(256), "type 1000"},
		"row is no block":        {head(1, 0).tensor("w", quant.Q4_K, 0, 128, 2).fill(256), "Q4_K block"},
		"tensor twice":           {head(2, 0).tensor("w", quant.F32, 0, 1).tensor("w", quant.F32, 32, 1).fill(99), "twice"},
		"offset unaligned":       {head(1, 0).tensor("w", quant.F32, 4, 1).fill(99), "alignment"},
		"offset outside":         {head(1, 0).tensor("w", quant.F32, 1<<63, 1).fill(99), "truncated"},
		"data outside":           {head(1, 0).tensor("w", quant.F32, 0, 100).fill(99), "truncated"},
		"overlap":                {head(2, 0).tensor("v", quant.F32, 0, 16).tensor("w", quant.F32, 32, 1).fill(128), "overlaps"},
		"ends inside padding":    {head(1, 0).tensor("w", quant.F32, 0, 1), "padding"},
		"more tensors than file": {head(2, 0).tensor("w", quant.F32, 0, 1), "tensor count"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse("m.gguf", c.data)
			var format *FormatError
			require.ErrorAs(t, err, &format)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "m.gguf: byte ")
		})
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(filepath.Join(dir, "absent.gguf"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Open(dir)
	require.ErrorContains(t, err, "not a regular file")
	empty := filepath.Join(dir, "empty.gguf")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	_, err = Open(empty)
	var format *FormatError
	require.ErrorAs(t, err, &format)
}

func TestWriterErrors(t *testing.T) {
	broken := errors.New("disk full")
	for name, c := range map[string]struct {
		do   func(w *Writer)
		want string
	}{
		"key twice":        {func(w *Writer) { w.SetBool("a", true); w.SetBool("a", true) }, "set twice"},
		"negative":         {func(w *Writer) { w.SetUint("a", -1) }, "32 bits"},
		"shape":            {func(w *Writer) { w.Declare("t", quant.F32, 0) }, "shape"},
		"dimensions":       {func(w *Writer) { w.Declare("t", quant.F32) }, "dimensions"},
		"block":            {func(w *Writer) { w.Declare("t", quant.Q4_K, 100) }, "Q4_K"},
		"name twice":       {func(w *Writer) { w.Declare("t", quant.F32, 1); w.Declare("t", quant.F32, 1); w.Begin() }, "twice"},
		"late declaration": {func(w *Writer) { w.Begin(); w.Declare("t", quant.F32, 1) }, "after the data"},
		"late key":         {func(w *Writer) { w.Begin(); w.SetBool("a", true) }, "after Begin"},
		"early data":       {func(w *Writer) { w.Write("t", nil) }, "before Begin"},
		"wrong order": {func(w *Writer) {
			w.Declare("t", quant.F32, 1)
			w.Declare("u", quant.F32, 1)
			w.Begin()
			w.Write("u", make([]byte, 4))
		}, `while "t" is incomplete`},
		"too much":   {func(w *Writer) { w.Declare("t", quant.F32, 1); w.Begin(); w.Write("t", make([]byte, 5)) }, "more than its 4"},
		"incomplete": {func(w *Writer) { w.Declare("t", quant.F32, 1); w.Begin() }, "incomplete: t"},
		"no begin":   {func(*Writer) {}, "incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWriter(io.Discard, "x")
			c.do(w)
			require.ErrorContains(t, w.Close(), c.want)
		})
	}
	w := NewWriter(failing{broken}, "x")
	require.ErrorIs(t, w.Begin(), broken)
	require.ErrorIs(t, w.Close(), broken)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestRealFiles opens every GGUF file in the reference and model folders.
func TestRealFiles(t *testing.T) {
	var paths []string
	if refs := os.Getenv("RAGD_REFS"); refs != "" {
		found, err := filepath.Glob(filepath.Join(refs, "refs", "arch", "*.gguf"))
		require.NoError(t, err)
		require.NotEmpty(t, found, "RAGD_REFS has no refs/arch/*.gguf")
		paths = append(paths, found...)
	}
	if models := os.Getenv("RAGD_MODELS"); models != "" {
		found, err := filepath.Glob(filepath.Join(models, "*.gguf"))
		require.NoError(t, err)
		paths = append(paths, found...)
	}
	for _, path := range paths {
		f, err := Open(path)
		require.NoError(t, err)
		require.NotEmpty(t, f.Architecture())
		require.NotEmpty(t, f.Tensors())
		words, ok := f.Strings("tokenizer.ggml.tokens")
		require.True(t, ok)
		t.Logf("%s: %s, %d keys, %d tensors, %d tokens", filepath.Base(path), f.Architecture(), len(f.Keys()), len(f.Tensors()), len(words))
		for _, tensor := range f.Tensors() { // one row of each tensor decodes
			n, err := tensor.Type.RowBytes(tensor.Cols())
			require.NoError(t, err)
			require.NoError(t, quant.Decode(tensor.Type, make([]float32, tensor.Cols()), tensor.Data[:n]))
		}
		require.NoError(t, f.Close())
	}
}

// FuzzOpen: no bytes make the parser panic, and what it accepts can be read completely.
func FuzzOpen(f *testing.F) {
	f.Add(sample(f))
	f.Add([]byte(head(1, 1).str("general.alignment").u32(4).u32(64).tensor("w", quant.Q4_0, 0, 32, 2).fill(200)))
	f.Add([]byte(head(0, 1).str("k").u32(9).u32(8).u64(2).str("a").str("b")))
	f.Add([]byte(head(2, 0).tensor("v", quant.F32, 0, 1).tensor("w", quant.F16, 32).fill(128)))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := parse("fuzz", data)
		if err != nil {
			var format *FormatError
			require.ErrorAs(t, err, &format)
			require.True(t, format.Offset >= 0 && format.Offset <= int64(len(data)), "%v", err)
			require.False(t, strings.Contains(err.Error(), "%!"), "%v", err)
			return
		}
		for _, key := range file.Keys() {
			require.NotEmpty(t, file.Describe(key))
			file.String(key)
			file.Uint(key)
			file.Float(key)
			file.Bool(key)
			file.Strings(key)
			file.Floats(key)
			file.Ints(key)
		}
		total := 0
		for _, tensor := range file.Tensors() {
			n, err := tensor.Type.RowBytes(tensor.Rows() * tensor.Cols())
			require.NoError(t, err)
			require.Len(t, tensor.Data, n)
			total += n
		}
		require.LessOrEqual(t, total, len(data))
	})
}
