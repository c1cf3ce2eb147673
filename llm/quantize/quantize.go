package quantize

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"ragd/llm/gguf"
	"ragd/llm/quant"
)

// ErrQuantized says that the source is rounded already and Options.Requantize is not set.
var ErrQuantized = errors.New("the weights are quantized already, and rounding them again adds to their error; start from an F16 or F32 file, or allow it")

// Options says how to quantize.
type Options struct {
	Mix        Mix
	Importance Importance // nil: every column weighs the same
	Requantize bool       // round weights again that are rounded already
	Threads    int

	// Progress, if set, is called after every piece with bytes of the source.
	Progress func(done, total int64)
}

// Tensor reports on one tensor of the output.
type Tensor struct {
	Name     string
	From, To quant.Type
	Wanted   quant.Type // differs from To where the rows do not fit its blocks
	Rounded  bool       // else the bytes were copied
	Weights  int64
	Bytes    int64
	// RelError is the root mean square of the rounding error divided by that of the weights; MaxError the largest error and
	// Outlier the largest weight, both divided by the root mean square of the weights. 0 for copied tensors.
	RelError, MaxError, Outlier float64
}

// Result reports on a written file.
type Result struct {
	Tensors            []Tensor
	SourceBytes, Bytes int64 // of all tensors
}

// BitsPerWeight is the mean over all tensors.
func (r *Result) BitsPerWeight() float64 {
	var weights int64
	for _, t := range r.Tensors {
		weights += t.Weights
	}
	return 8 * float64(r.Bytes) / float64(weights)
}

// File writes the model f, rounded as o.Mix says, to path. It returns ErrQuantized, errors of the disk, and errors that name
// the tensor and the row that cannot be rounded. When ctx ends, so does the work, and nothing is left behind.
func File(ctx context.Context, f *gguf.File, path string, o Options) (*Result, error) {
	r, err := plan(f, o)
	if err != nil {
		return nil, fmt.Errorf("quantize: %s: %w", f.Path(), err)
	}
	err = gguf.Create(path, f.Architecture(), func(w *gguf.Writer) error {
		w.SetUint("general.file_type", o.Mix.fileType)
		w.SetUint("general.quantization_version", 2)
		w.Copy(f)
		for i, t := range f.Tensors() {
			w.Declare(t.Name, r.Tensors[i].To, t.Shape...)
		}
		if err := w.Begin(); err != nil {
			return err
		}
		var done int64
		for i, t := range f.Tensors() {
			report := &r.Tensors[i]
			step := func(n int) error {
				if done += int64(n); o.Progress != nil {
					o.Progress(done, r.SourceBytes)
				}
				return ctx.Err()
			}
			if err := convert(w, t, report, o, step); err != nil {
				return fmt.Errorf("tensor %s: %w", t.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("quantize: write %s: %w", path, err)
	}
	return r, nil
}

// plan decides the type of every tensor.
func plan(f *gguf.File, o Options) (*Result, error) {
	recipe := newRecipe(o.Mix, f, o.Importance != nil)
	r := &Result{}
	for _, t := range f.Tensors() {
		x := Tensor{Name: t.Name, From: t.Type, To: t.Type, Wanted: t.Type, Weights: int64(t.Rows()) * int64(t.Cols())}
		if quantizes(t) {
			x.Wanted, x.To = recipe.typeOf(t)
			x.Rounded = x.To != x.From
			if elems, _ := t.Type.Block(); x.Rounded && elems > 1 && !o.Requantize {
				return nil, fmt.Errorf("tensor %s is %s: %w", t.Name, t.Type, ErrQuantized)
			}
			if x.Rounded && !t.Type.Decodes() {
				return nil, fmt.Errorf("tensor %s has the type %s, which cannot be decoded", t.Name, t.Type)
			}
		}
		n, err := x.To.RowBytes(t.Cols())
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", t.Name, err)
		}
		x.Bytes = int64(n) * int64(t.Rows())
		r.Bytes += x.Bytes
		r.SourceBytes += int64(len(t.Data))
		r.Tensors = append(r.Tensors, x)
	}
	return r, nil
}

// pieceElems is about how many elements are in memory at a time.
const pieceElems = 1 << 22

// convert writes one tensor; step is called with the bytes of the source that a piece took.
func convert(w *gguf.Writer, t *gguf.Tensor, report *Tensor, o Options, step func(n int) error) error {
	rowBytes := len(t.Data) / t.Rows()
	perPiece := max(1, pieceElems/t.Cols())
	outBytes, err := report.To.RowBytes(t.Cols())
	if err != nil {
		return err
	}
	var sum errorSum
	out := make([]byte, min(perPiece, t.Rows())*outBytes)
	for lo := 0; lo < t.Rows(); lo += perPiece {
		hi := min(lo+perPiece, t.Rows())
		data := t.Data[lo*rowBytes : hi*rowBytes]
		if report.Rounded {
			sums, err := roundRows(out[:(hi-lo)*outBytes], data, t, report.To, o)
			if err != nil {
				return fmt.Errorf("row %d and on: %w", lo, err)
			}
			sum.add(sums)
			err = w.Write(t.Name, out[:(hi-lo)*outBytes])
			if err != nil {
				return err
			}
		} else if err := w.Write(t.Name, data); err != nil {
			return err
		}
		if err := step(len(data)); err != nil {
			return err
		}
	}
	report.RelError, report.MaxError, report.Outlier = sum.figures(report.Weights)
	return nil
}

// roundRows decodes the rows in src and encodes them into dst, on all threads. The sums of the rows are added in their
// order, so that they do not depend on the threads.
func roundRows(dst, src []byte, t *gguf.Tensor, to quant.Type, o Options) (errorSum, error) {
	cols := t.Cols()
	srcBytes := len(t.Data) / t.Rows()
	rows := len(src) / srcBytes
	dstBytes := len(dst) / rows
	importance := o.Importance.of(t.Name, cols)
	sums, errs := make([]errorSum, rows), make([]error, rows)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range max(1, o.Threads) {
		wg.Go(func() {
			x, y := make([]float32, cols), make([]float32, cols)
			for {
				row := int(next.Add(1)) - 1
				if row >= rows {
					return
				}
				encoded := dst[row*dstBytes:][:dstBytes]
				errs[row] = quant.Decode(t.Type, x, src[row*srcBytes:][:srcBytes])
				if errs[row] == nil && importance != nil {
					errs[row] = quant.EncodeWeighted(to, encoded, x, importance)
				} else if errs[row] == nil {
					errs[row] = quant.Encode(to, encoded, x)
				}
				if errs[row] == nil {
					errs[row] = quant.Decode(to, y, encoded)
				}
				sums[row] = compareRows(x, y)
			}
		})
	}
	wg.Wait()
	var total errorSum
	for i := range sums {
		if errs[i] != nil {
			return total, errs[i]
		}
		total.add(sums[i])
	}
	return total, nil
}

// errorSum accumulates the error of a rounding.
type errorSum struct{ squares, errors, largest, worst float64 }

func compareRows(x, y []float32) errorSum {
	var s errorSum
	for i, v := range x {
		d := float64(v) - float64(y[i])
		s.squares += float64(v) * float64(v)
		s.errors += d * d
		s.largest = max(s.largest, math.Abs(float64(v)))
		s.worst = max(s.worst, math.Abs(d))
	}
	return s
}

func (s *errorSum) add(o errorSum) {
	s.squares += o.squares
	s.errors += o.errors
	s.largest = max(s.largest, o.largest)
	s.worst = max(s.worst, o.worst)
}

func (s *errorSum) figures(n int64) (relative, worst, outlier float64) {
	rms := math.Sqrt(s.squares / float64(n))
	if rms == 0 {
		return 0, 0, 0
	}
	return math.Sqrt(s.errors / s.squares), s.worst / rms, s.largest / rms
}
