package model

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/quant"
)

// reference is one file of testdata/arch: random weights and the numbers that
// transformers computes with them in float32.
type reference struct {
	Kind  string
	Cases []struct {
		Tokens     []int32
		TokenTypes []int32   `json:"token_types"`
		Argmax     []int     // best next id after each position
		LastLogits []float32 `json:"last_logits"`
		CLS, Mean  []float32
		Score      float32
	}
	Greedy struct {
		Prompt, Continuation []int32
		MinMargin            float32 `json:"min_margin"`
	}
}

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, v), path)
}

func archPath(name string) string { return filepath.Join("testdata", "arch", name+".f32.gguf") }

func readReference(t testing.TB, name string) *reference {
	t.Helper()
	r := new(reference)
	readJSON(t, filepath.Join("testdata", "arch", name+".json"), r)
	require.NotEmpty(t, r.Cases)
	return r
}

var causalReferences = []string{"llama", "llama-tied-gqa3", "llama-rope3", "mistral", "qwen2", "qwen3", "gemma3", "phi3", "granite", "smollm3"}

// eachISA runs fn with every kernel path this machine has.
func eachISA(t *testing.T, fn func(t *testing.T)) {
	before := kernel.Active()
	t.Cleanup(func() { require.NoError(t, kernel.SetISA(before)) })
	for _, isa := range kernel.Available() {
		if raceDetector && isa == kernel.Generic && len(kernel.Available()) > 1 {
			continue
		}
		t.Run(isa.String(), func(t *testing.T) {
			require.NoError(t, kernel.SetISA(isa))
			fn(t)
		})
	}
}

func newPool(t testing.TB, threads int) *kernel.Pool {
	p := kernel.NewPool(threads)
	t.Cleanup(p.Close)
	return p
}

func openModel(t testing.TB, path string, p *kernel.Pool, o Options) *Model {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	m, err := Load(f, p, o)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m
}

// text is a sequence in a model's cache.
type text struct {
	m     *Model
	pages []int32
	pos   int
}

// newText takes the pages in descending order from the given one, so that no test
// passes because page numbers happen to equal positions.
func newText(m *Model, top int) *text {
	s := &text{m: m}
	for p := top; p >= 0; p-- {
		s.pages = append(s.pages, int32(p))
	}
	return s
}

// feed runs tokens in pieces of chunk and returns the logits of every row.
func (s *text) feed(t testing.TB, tokens []int32, chunk int) [][]float32 {
	t.Helper()
	var rows [][]float32
	for len(tokens) > 0 {
		n := min(chunk, len(tokens))
		b := Batch{Tokens: tokens[:n], Seqs: []Seq{{N: n, Pos: s.pos, Pages: s.pages}}, Out: all(n)}
		require.NoError(t, s.m.Forward(&b))
		for i := range n {
			rows = append(rows, b.Logits[i*s.m.Vocab():][:s.m.Vocab()])
		}
		s.pos += n
		tokens = tokens[n:]
	}
	return rows
}

func (s *text) greedy(t testing.TB, prompt []int32, n int) []int32 {
	t.Helper()
	rows := s.feed(t, prompt, len(prompt))
	var ids []int32
	for len(ids) < n {
		ids = append(ids, int32(kernel.ArgMax(rows[len(rows)-1])))
		if len(ids) < n {
			rows = s.feed(t, ids[len(ids)-1:], 1)
		}
	}
	return ids
}

func all(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	return rows
}

func argmaxes(rows [][]float32) []int {
	ids := make([]int, len(rows))
	for i, row := range rows {
		ids[i] = kernel.ArgMax(row)
	}
	return ids
}

func maxDiff(t testing.TB, want, got []float32) float64 {
	t.Helper()
	require.Len(t, got, len(want))
	worst := 0.0
	for i := range want {
		d := math.Abs(float64(want[i]) - float64(got[i]))
		if math.IsNaN(d) {
			return d
		}
		worst = max(worst, d)
	}
	return worst
}

// edit describes a changed copy of a GGUF file.
type edit struct {
	arch   string                            // other architecture name
	set    func(w *gguf.Writer)              // metadata written before the original's
	quant  func(name string) quant.Type      // type of a tensor; nil = as it is
	drop   string                            // tensor left out
	shape  func(name string, s []int) []int  // other shape (data is cut or zero-padded)
	change func(name string, data []float32) // other values
	extra  string                            // additional tensor
}

// rewrite writes the changed copy and returns its path.
func rewrite(t testing.TB, path string, e edit) string {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	out, err := os.Create(filepath.Join(t.TempDir(), "model.gguf"))
	require.NoError(t, err)
	defer out.Close()
	buffer := bufio.NewWriter(out)
	arch := f.Architecture()
	if e.arch != "" {
		arch = e.arch
	}
	w := gguf.NewWriter(buffer, arch)
	if e.set != nil {
		e.set(w)
	}
	w.Copy(f)
	type tensor struct {
		name string
		data []byte
	}
	var tensors []tensor
	for _, src := range f.Tensors() {
		if src.Name == e.drop {
			continue
		}
		values := make([]float32, src.Rows()*src.Cols())
		require.NoError(t, quant.Decode(src.Type, values, src.Data))
		if e.change != nil {
			e.change(src.Name, values)
		}
		shape, kind := src.Shape, src.Type
		if e.shape != nil {
			shape = e.shape(src.Name, shape)
		}
		if e.quant != nil {
			kind = e.quant(src.Name)
		}
		elems := 1
		for _, n := range shape {
			elems *= n
		}
		values = append(values, make([]float32, elems)...)[:elems]
		nbytes, err := kind.RowBytes(elems)
		require.NoError(t, err)
		data := make([]byte, nbytes)
		require.NoError(t, quant.Encode(kind, data, values))
		w.Declare(src.Name, kind, shape...)
		tensors = append(tensors, tensor{src.Name, data})
	}
	if e.extra != "" {
		w.Declare(e.extra, quant.F32, 4)
		tensors = append(tensors, tensor{e.extra, make([]byte, 16)})
	}
	require.NoError(t, w.Begin())
	for _, x := range tensors {
		require.NoError(t, w.Write(x.name, x.data))
	}
	require.NoError(t, w.Close())
	require.NoError(t, buffer.Flush())
	return out.Name()
}
