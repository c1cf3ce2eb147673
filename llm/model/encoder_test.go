package model

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/convert"
	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/quant"
)

func openEncoder(t testing.TB, path string, p *kernel.Pool, o Options) *Encoder {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	e, err := LoadEncoder(f, p, o)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	return e
}

// inputs of a reference, all cases as one packed batch.
func (r *reference) inputs() (ids, types [][]int32) {
	for _, c := range r.Cases {
		ids, types = append(ids, c.Tokens), append(types, c.TokenTypes)
	}
	return ids, types
}

// Pooled vectors equal those of transformers, packed and alone.
func TestEncoderReference(t *testing.T) {
	p := newPool(t, 2)
	ref := readReference(t, "bert")
	ids, types := ref.inputs()
	eachISA(t, func(t *testing.T) {
		e := openEncoder(t, archPath("bert"), p, Options{Float: true})
		mean, err := e.Embed(ids, types, PoolMean, false)
		require.NoError(t, err)
		cls, err := e.Embed(ids, types, PoolCLS, false)
		require.NoError(t, err)
		for i, c := range ref.Cases {
			require.Less(t, maxDiff(t, c.Mean, mean[i]), 2e-3)
			require.Less(t, maxDiff(t, c.CLS, cls[i]), 2e-3)
			alone, err := e.Embed(ids[i:i+1], types[i:i+1], PoolMean, false)
			require.NoError(t, err)
			requireSameBits(t, mean[i:i+1], alone, "alone")
		}
	})
}

// A text's vector does not depend on its company or on the number of threads.
func TestEncoderInvariance(t *testing.T) {
	path := rewrite(t, archPath("bert"), edit{quant: func(name string) quant.Type {
		if isMatrix(name) {
			return quant.Q8_0
		}
		return quant.F32
	}})
	ids, types := readReference(t, "bert").inputs()
	eachISA(t, func(t *testing.T) {
		one, three := openEncoder(t, path, newPool(t, 1), Options{}), openEncoder(t, path, newPool(t, 3), Options{})
		for i := range ids {
			want, err := one.Hidden(ids[i:i+1], types[i:i+1])
			require.NoError(t, err)
			packed, err := three.Hidden(ids, types)
			require.NoError(t, err)
			requireSameBits(t, want, packed[i:i+1], "packed, three threads")
		}
		// Pooling one token computes only that token's last layer.
		hidden, err := three.Hidden(ids, types)
		require.NoError(t, err)
		cls, err := three.Embed(ids, types, PoolCLS, false)
		require.NoError(t, err)
		last, err := three.Embed(ids, types, PoolLast, false)
		require.NoError(t, err)
		for i, h := range hidden {
			requireSameBits(t, [][]float32{h[:64], h[len(h)-64:]}, [][]float32{cls[i], last[i]}, "pooled")
		}
	})
}

func TestEncoderRefuses(t *testing.T) {
	p := newPool(t, 1)
	e := openEncoder(t, archPath("bert"), p, Options{})
	require.Equal(t, 64, e.Dim())
	require.Equal(t, 128, e.MaxTokens())
	require.Equal(t, PoolNone, e.Pooling())
	for _, c := range []struct {
		message string
		ids     []int32
		types   []int32
	}{
		{"takes 1 to 128", nil, nil},
		{"takes 1 to 128", make([]int32, 129), nil},
		{"outside the vocabulary of 384", []int32{384}, nil},
		{"outside the vocabulary of 384", []int32{-1}, nil},
		{"segment id 2", []int32{1}, []int32{2}},
		{"2 tokens but 1 segment", []int32{1, 2}, []int32{0}},
	} {
		_, err := e.Embed([][]int32{c.ids}, [][]int32{c.types}, PoolMean, true)
		require.ErrorContains(t, err, c.message)
	}
	_, err := e.Embed([][]int32{{1}}, [][]int32{}, PoolMean, true)
	require.ErrorContains(t, err, "segments for 0")
	_, err = e.Embed([][]int32{{1}}, nil, PoolRank, true)
	require.ErrorContains(t, err, "gives no vector")
	_, err = e.Score([][]int32{{1}}, nil)
	require.ErrorContains(t, err, "no rank head")
	vectors, err := e.Embed(nil, nil, PoolMean, true)
	require.NoError(t, err)
	require.Empty(t, vectors)

	for _, c := range []struct {
		message string
		edit    edit
	}{
		{"tensor position_embd.weight is missing", edit{drop: "position_embd.weight"}},
		{"tensor blk.2.layer_output_norm.bias [64] is missing", edit{drop: "blk.2.layer_output_norm.bias"}},
		{"cannot be split into 5 heads", edit{set: func(w *gguf.Writer) { w.SetUint("bert.attention.head_count", 5) }}},
		{"pooling_type 9 is not known", edit{set: func(w *gguf.Writer) { w.SetUint("bert.pooling_type", 9) }}},
		{`architecture "t5" is not a supported encoder; supported: bert,`, edit{arch: "t5"}},
	} {
		f, err := gguf.Open(rewrite(t, archPath("bert"), c.edit))
		require.NoError(t, err)
		defer f.Close()
		_, err = LoadEncoder(f, p, Options{})
		require.ErrorContains(t, err, c.message)
	}
}

func TestParsePooling(t *testing.T) {
	for _, p := range []Pooling{PoolNone, PoolMean, PoolCLS, PoolLast, PoolRank} {
		got, err := ParsePooling(p.String())
		require.NoError(t, err)
		require.Equal(t, p, got)
	}
	_, err := ParsePooling("max")
	require.ErrorContains(t, err, "none, mean, cls, last, rank")
}

// convertFolder makes a GGUF file of a Hugging Face folder in testdata/hf.
func convertFolder(t testing.TB, name string) (path string, ref *reference) {
	t.Helper()
	dir := filepath.Join("testdata", "hf", name)
	path = filepath.Join(t.TempDir(), name+".gguf")
	require.NoError(t, convert.HuggingFace(dir, path, convert.Options{}))
	ref = new(reference)
	readJSON(t, filepath.Join(dir, "expected.json"), ref)
	return path, ref
}

// Scores of a cross-encoder need its pooler and the segment ids: both are in the
// files that llm/convert makes.
func TestRerankerReference(t *testing.T) {
	path, ref := convertFolder(t, "bert-reranker")
	ids, types := ref.inputs()
	p := newPool(t, 2)
	eachISA(t, func(t *testing.T) {
		e := openEncoder(t, path, p, Options{Float: true})
		require.True(t, e.HasRankHead())
		require.Equal(t, PoolRank, e.Pooling())
		scores, err := e.Score(ids, types)
		require.NoError(t, err)
		for i, c := range ref.Cases {
			require.InDelta(t, c.Score, scores[i], 1e-4)
		}
	})
}

// ModernBERT: norms before the branches, local and global layers.
func TestModernBERTReference(t *testing.T) {
	path, ref := convertFolder(t, "modernbert")
	ids, _ := ref.inputs()
	p := newPool(t, 2)
	eachISA(t, func(t *testing.T) {
		e := openEncoder(t, path, p, Options{Float: true})
		mean, err := e.Embed(ids, nil, PoolMean, false)
		require.NoError(t, err)
		cls, err := e.Embed(ids, nil, PoolCLS, false)
		require.NoError(t, err)
		for i, c := range ref.Cases {
			require.Less(t, maxDiff(t, c.Mean, mean[i]), 2e-3)
			require.Less(t, maxDiff(t, c.CLS, cls[i]), 2e-3)
		}
	})
}
