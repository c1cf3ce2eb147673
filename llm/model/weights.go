package model

import (
	"fmt"
	"math"
	"slices"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/quant"
)

// loader looks tensors up by name, checks them and repacks them into the arena.
// It keeps the first error, so that loading reads as a list of assignments.
type loader struct {
	f     *gguf.File
	pool  *kernel.Pool
	arena *kernel.Arena
	float bool
	round bool // store matrices of half floats as Q8_0
	used  map[string]bool
	err   error
}

func newLoader(f *gguf.File, p *kernel.Pool, arena *kernel.Arena, float bool) *loader {
	return &loader{f: f, pool: p, arena: arena, float: float, used: map[string]bool{}}
}

func (l *loader) fail(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf(format, args...)
	}
}

// ignore marks tensors that are known and need not be loaded.
func (l *loader) ignore(names ...string) {
	for _, name := range names {
		l.used[name] = true
	}
}

// tensor finds a tensor and checks its shape, given as in the file: row length
// first.
func (l *loader) tensor(name string, shape ...int) *gguf.Tensor {
	if l.err != nil {
		return nil
	}
	t, ok := l.f.Tensor(name)
	if !ok {
		l.fail("tensor %s %v is missing", name, shape)
		return nil
	}
	if !slices.Equal(trimOnes(t.Shape), trimOnes(shape)) {
		l.fail("tensor %s has shape %v, expected %v", name, t.Shape, shape)
		return nil
	}
	l.used[name] = true
	return t
}

// trimOnes cuts trailing dimensions of 1, which some writers leave out.
func trimOnes(shape []int) []int {
	for len(shape) > 1 && shape[len(shape)-1] == 1 {
		shape = shape[:len(shape)-1]
	}
	return shape
}

// matrix loads a weight of rows outputs and cols inputs.
func (l *loader) matrix(name string, rows, cols int) *kernel.Matrix {
	return l.split(name, cols, rows)[0]
}

// split loads a weight whose rows are several matrices on top of each other.
func (l *loader) split(name string, cols int, rows ...int) []*kernel.Matrix {
	total := 0
	for _, n := range rows {
		total += n
	}
	out := make([]*kernel.Matrix, len(rows))
	t := l.tensor(name, cols, total)
	if t == nil {
		return out
	}
	rowBytes, err := t.Type.RowBytes(cols)
	if err != nil {
		l.fail("tensor %s: %w", name, err)
		return out
	}
	kind, data := t.Type, t.Data
	if l.round && (kind == quant.F16 || kind == quant.BF16) {
		if q8, n, err := l.toQ8(t); err == nil {
			kind, data, rowBytes = quant.Q8_0, q8, n
		}
	}
	for i, n := range rows {
		m, err := kernel.NewMatrix(l.pool, l.arena, kind, n, cols, data[:n*rowBytes], l.float)
		if err != nil {
			l.fail("tensor %s: %w", name, err)
			return out
		}
		out[i], data = m, data[n*rowBytes:]
	}
	l.f.ReleaseTensor(t) // or the file would count beside the panels until all of it is loaded
	return out
}

// toQ8 rounds a matrix to Q8_0. It fails when rows are not whole blocks.
func (l *loader) toQ8(t *gguf.Tensor) (data []byte, rowBytes int, err error) {
	cols := t.Cols()
	if rowBytes, err = quant.Q8_0.RowBytes(cols); err != nil {
		return nil, 0, err
	}
	srcBytes := len(t.Data) / t.Rows()
	data = make([]byte, t.Rows()*rowBytes)
	rows := make([][]float32, l.pool.Threads())
	l.pool.Run(t.Rows(), func(row, worker int) {
		if rows[worker] == nil {
			rows[worker] = make([]float32, cols)
		}
		x := rows[worker]
		if decoded := quant.Decode(t.Type, x, t.Data[row*srcBytes:][:srcBytes]); decoded != nil {
			panic("model: " + decoded.Error()) // lengths follow from the type
		}
		if encoded := quant.Encode(quant.Q8_0, data[row*rowBytes:][:rowBytes], x); encoded != nil {
			panic("model: " + encoded.Error())
		}
	})
	return data, rowBytes, nil
}

// vector loads n finite numbers (a norm or a bias).
func (l *loader) vector(name string, n int) []float32 {
	return l.floats(name, n)
}

// floats decodes a whole tensor, which stays on the Go heap: only for small ones.
func (l *loader) floats(name string, shape ...int) []float32 {
	t := l.tensor(name, shape...)
	if t == nil {
		return nil
	}
	x := make([]float32, t.Rows()*t.Cols())
	if err := quant.Decode(t.Type, x, t.Data); err != nil {
		l.fail("tensor %s: %w", name, err)
		return nil
	}
	for _, v := range x {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			l.fail("tensor %s holds %g: the file is damaged", name, v)
			return nil
		}
	}
	return x
}

// optional loads n numbers if the tensor exists.
func (l *loader) optional(name string, n int) []float32 {
	if _, ok := l.f.Tensor(name); !ok {
		return nil
	}
	return l.vector(name, n)
}

// done refuses a file with tensors nothing asked for: the model would be a
// different one than the file describes.
func (l *loader) done() error {
	if l.err != nil {
		return l.err
	}
	for _, t := range l.f.Tensors() {
		if !l.used[t.Name] {
			return fmt.Errorf("tensor %s is not part of this architecture as implemented: the file needs features that are not supported", t.Name)
		}
	}
	return nil
}

// lookup is a token embedding table. When the output matrix is the same tensor
// (tied) its repacked rows serve both; else the file's rows are kept as they are,
// since single rows are all that is ever read.
type lookup struct {
	tied *kernel.Matrix

	t        quant.Type
	raw      []byte // [V][rowBytes]
	rowBytes int
}

// copyBytes is the part of a table that a worker copies at a time.
const copyBytes = 1 << 20

func (l *loader) lookup(name string, rows, cols int) lookup {
	t := l.tensor(name, cols, rows)
	if t == nil {
		return lookup{}
	}
	rowBytes, err := t.Type.RowBytes(cols)
	if err != nil {
		l.fail("tensor %s: %w", name, err)
		return lookup{}
	}
	raw := l.arena.Alloc(len(t.Data))
	l.pool.Run((len(raw)+copyBytes-1)/copyBytes, func(task, _ int) {
		copy(raw[task*copyBytes:], t.Data[task*copyBytes:min((task+1)*copyBytes, len(raw))])
	})
	l.f.ReleaseTensor(t)
	e := lookup{t: t.Type, raw: raw, rowBytes: rowBytes}
	if err := quant.Decode(t.Type, make([]float32, cols), raw[:rowBytes]); err != nil {
		l.fail("tensor %s: %w", name, err)
	}
	return e
}

// row decodes row i into dst [E].
func (e *lookup) row(dst []float32, i int) {
	if e.tied != nil {
		e.tied.DecodeRow(dst, i)
		return
	}
	if err := quant.Decode(e.t, dst, e.raw[i*e.rowBytes:][:e.rowBytes]); err != nil {
		panic("model: embedding row: " + err.Error()) // its type and length were checked at load
	}
}
