package convert

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"ragd/llm/quant"
)

// dtype is the element type of a source array.
type dtype uint8

const (
	float32s dtype = iota + 1
	float16s
	bfloat16s
	uint8s
	int8s
	otherType // integers and the like: allowed to exist, not to be used
)

func (d dtype) size() int64 { return [...]int64{0, 4, 2, 2, 1, 1, 1}[d] }

func (d dtype) quant() quant.Type {
	return [...]quant.Type{0, quant.F32, quant.F16, quant.BF16, quant.I8, quant.I8, quant.I8}[d]
}

// array is a named array of a source file: where it lies and how to read it. Arrays of rank 2 count as [out][in];
// transposed says that the file holds [in][out], as ONNX does for the right operand of a product.
type array struct {
	name       string
	typ        dtype
	source     string // what the file calls a type that is none of these
	shape      []int  // outermost first, as [out][in] even when transposed
	r          io.ReaderAt
	offset     int64
	inline     []byte // the bytes, when they do not lie in r as such
	transposed bool
	scale      []float32 // one, or one per output; nil: plain floats
	zero       []int32   // as scale: the code that stands for 0
}

func (a *array) elems() int64 {
	n := int64(1)
	for _, d := range a.shape {
		n *= int64(d)
	}
	return n
}

func (a *array) nbytes() int64 { return a.elems() * a.typ.size() }

// reader returns the bytes of the array as they lie in the source.
func (a *array) reader() io.Reader {
	if a.inline != nil {
		return io.NewSectionReader(bytesAt(a.inline), 0, int64(len(a.inline)))
	}
	return io.NewSectionReader(a.r, a.offset, a.nbytes())
}

// bytesAt makes a slice an io.ReaderAt.
type bytesAt []byte

func (b bytesAt) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// raw reads the whole array.
func (a *array) raw() ([]byte, error) {
	b := make([]byte, a.nbytes())
	if _, err := io.ReadFull(a.reader(), b); err != nil {
		return nil, fmt.Errorf("read %s: %w", a.name, err)
	}
	return b, nil
}

// codes reads an 8-bit array in [out][in] order; unsigned codes come as they are, 0..255.
func (a *array) codes() ([]int16, error) {
	b, err := a.raw()
	if err != nil {
		return nil, err
	}
	out := make([]int16, len(b))
	for i, c := range b {
		if out[i] = int16(c); a.typ == int8s {
			out[i] = int16(int8(c))
		}
	}
	if a.transposed {
		out = transpose(out, a.shape[1], a.shape[0])
	}
	return out, nil
}

// floats reads the whole array as float32 in [out][in] order, dequantized.
func (a *array) floats() ([]float32, error) {
	switch a.typ {
	case float32s, float16s, bfloat16s:
		b, err := a.raw()
		if err != nil {
			return nil, err
		}
		x := make([]float32, a.elems())
		if err := quant.Decode(a.typ.quant(), x, b); err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
		if a.transposed {
			x = transpose(x, a.shape[1], a.shape[0])
		}
		return x, nil
	case uint8s, int8s:
		if a.scale == nil {
			break
		}
		codes, err := a.codes()
		if err != nil {
			return nil, err
		}
		cols := len(codes)
		if len(a.shape) == 2 {
			cols = a.shape[1]
		}
		x := make([]float32, len(codes))
		for i, c := range codes {
			scale, zero := a.quantization(i / cols)
			x[i] = float32(int32(c)-zero) * scale
		}
		return x, nil
	}
	return nil, fmt.Errorf("%s does not hold floating-point numbers", a.name)
}

// quantization returns the scale and zero point of an output row.
func (a *array) quantization(row int) (scale float32, zero int32) {
	return a.scale[row%len(a.scale)], a.zero[row%len(a.zero)]
}

// transpose returns x, rows x cols, as cols x rows.
func transpose[T any](x []T, rows, cols int) []T {
	out := make([]T, len(x))
	for r := range rows {
		for c := range cols {
			out[c*rows+r] = x[r*cols+c]
		}
	}
	return out
}

// ne returns the shape in the order of GGUF.
func (a *array) ne() []int {
	shape := slices.Clone(a.shape)
	slices.Reverse(shape)
	return shape
}

// vector is a tensor of F32 values, each plus add.
func (a *array) vector(name string, add float32) tensor {
	return tensor{name, quant.F32, a.ne(), func(write func([]byte) error) error {
		x, err := a.floats()
		if err != nil {
			return err
		}
		for i := range x {
			x[i] += add
		}
		return writeFloats(write, quant.F32, x)
	}}
}

// matrix is a tensor that keeps the precision of the source: see invariant 1 of the package.
func (a *array) matrix(name string) tensor {
	switch {
	case a.typ == int8s && a.exactQ8():
		return tensor{name, quant.Q8_0, a.ne(), a.emitQ8}
	case a.scale != nil:
		return tensor{name, a.dequantizedType(), a.ne(), func(write func([]byte) error) error {
			x, err := a.floats()
			if err != nil {
				return err
			}
			return writeFloats(write, a.dequantizedType(), x)
		}}
	case a.transposed:
		return tensor{name, a.typ.quant(), a.ne(), func(write func([]byte) error) error {
			x, err := a.floats()
			if err != nil {
				return err
			}
			return writeFloats(write, a.typ.quant(), x) // from and back to the same type: exact
		}}
	}
	return tensor{name, a.typ.quant(), a.ne(), a.stream}
}

// stream copies the bytes of the source.
func (a *array) stream(write func([]byte) error) error {
	buf := make([]byte, min(a.nbytes(), 1<<20))
	r := a.reader()
	for left := a.nbytes(); left > 0; {
		piece := buf[:min(left, int64(len(buf)))]
		if _, err := io.ReadFull(r, piece); err != nil {
			return fmt.Errorf("read %s: %w", a.name, err)
		}
		if err := write(piece); err != nil {
			return err
		}
		left -= int64(len(piece))
	}
	return nil
}

// smallestNormalHalf bounds the scales that a half stores with full precision.
const smallestNormalHalf = 0x1p-14

// scalesFitHalf reports whether rounding the scales to halves costs no more than a relative 2^-11.
func (a *array) scalesFitHalf() bool {
	return !slices.ContainsFunc(a.scale, func(s float32) bool {
		return s != 0 && !(s >= smallestNormalHalf && s <= math.MaxUint16)
	})
}

// exactQ8 reports whether the codes can be stored as Q8_0 as they are.
func (a *array) exactQ8() bool {
	return len(a.shape) == 2 && a.shape[1]%32 == 0 && a.scalesFitHalf() &&
		!slices.ContainsFunc(a.zero, func(z int32) bool { return z != 0 })
}

// dequantizedType is F16 where that costs no more than a relative 2^-11: the code 1 times the scale must be a normal half.
func (a *array) dequantizedType() quant.Type {
	if a.scalesFitHalf() {
		return quant.F16
	}
	return quant.F32
}

// emitQ8 writes Q8_0 rows: every block of a row has the row's scale.
func (a *array) emitQ8(write func([]byte) error) error {
	codes, err := a.codes()
	if err != nil {
		return err
	}
	cols := a.shape[1]
	row := make([]byte, cols/32*34)
	for r := range a.shape[0] {
		scale, _ := a.quantization(r)
		for i, c := range codes[r*cols : (r+1)*cols] {
			block := row[i/32*34:]
			if i%32 == 0 {
				binary.LittleEndian.PutUint16(block, quant.F32ToF16(scale))
			}
			block[2+i%32] = byte(int8(c))
		}
		if err := write(row); err != nil {
			return err
		}
	}
	return nil
}

// writeFloats writes x as an unblocked float type, in pieces.
func writeFloats(write func([]byte) error, t quant.Type, x []float32) error {
	const piece = 1 << 16
	_, size := t.Block()
	buf := make([]byte, min(len(x), piece)*size)
	for ; len(x) > 0; x = x[min(len(x), piece):] {
		part := x[:min(len(x), piece)]
		b := buf[:len(part)*size]
		if err := quant.Encode(t, b, part); err != nil {
			return err
		}
		if err := write(b); err != nil {
			return err
		}
	}
	return nil
}

// withoutFirst drops the first n rows of a matrix that lies in a file as [out][in].
func (a *array) withoutFirst(n int) (*array, error) {
	if len(a.shape) != 2 || n < 0 || a.shape[0] <= n || a.transposed || a.inline != nil {
		return nil, fmt.Errorf("%s has the shape %v: the first %d rows cannot be dropped", a.name, a.shape, n)
	}
	b := *a
	b.shape = []int{a.shape[0] - n, a.shape[1]}
	b.offset += int64(n) * int64(a.shape[1]) * a.typ.size()
	return &b, nil
}

// permuted is a matrix of query or key projections with the rows of each head reordered for interleaved rotary pairs:
// row 2i of a head is row i of the source, row 2i+1 is row i+headDim/2. The engine rotates neighbouring pairs in the
// architectures that need it, Hugging Face rotates the halves.
func (a *array) permuted(name string, heads int) (tensor, error) {
	if len(a.shape) != 2 || heads <= 0 || a.shape[0]%(2*heads) != 0 {
		return tensor{}, fmt.Errorf("%s has the shape %v, whose rows cannot be split into %d heads of even size", a.name, a.shape, heads)
	}
	t := a.matrix(name)
	t.emit = func(write func([]byte) error) error {
		rowBytes := int64(a.shape[1]) * a.typ.size()
		headDim := a.shape[0] / heads
		head := make([]byte, int64(headDim)*rowBytes)
		row := func(i int) []byte { return head[int64(i)*rowBytes:][:rowBytes] }
		r := a.reader()
		for range heads {
			if _, err := io.ReadFull(r, head); err != nil {
				return fmt.Errorf("read %s: %w", a.name, err)
			}
			for i := range headDim / 2 {
				if err := write(row(i)); err != nil {
					return err
				}
				if err := write(row(i + headDim/2)); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return t, nil
}
