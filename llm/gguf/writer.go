package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"

	"ragd/llm/quant"
)

// Writer writes a GGUF file of version 3 as a stream: first the metadata and the declaration of all tensors, then, after
// Begin, the data of the tensors in the order of their declaration. The first error sticks and is returned by every
// later call, so it is enough to look at the errors of Begin, Write and Close. The caller owns the destination: write to
// a temporary file and rename it after Close, so that no reader ever sees half a model.
type Writer struct {
	w        io.Writer
	pairs    []byte
	keys     map[string]bool
	tensors  []declared
	offset   int // of the next declared tensor's data
	begun    bool
	current  int // index of the tensor being written
	written  int // bytes of the current tensor
	position int // bytes of the file so far
	err      error
}

type declared struct {
	Tensor
	offset, nbytes int
}

// NewWriter returns a Writer on w with the architecture as its first metadata key. Write w through a buffer.
func NewWriter(w io.Writer, architecture string) *Writer {
	wr := &Writer{w: w, keys: map[string]bool{}}
	wr.SetString("general.architecture", architecture)
	return wr
}

// SetString adds a string value.
func (w *Writer) SetString(key, s string) { w.set(key, typeString, appendString(nil, s)) }

// SetBool adds a boolean value.
func (w *Writer) SetBool(key string, b bool) {
	raw := []byte{0}
	if b {
		raw[0] = 1
	}
	w.set(key, typeBool, raw)
}

// SetUint adds an unsigned integer as u32, the width that readers expect for sizes and token ids.
func (w *Writer) SetUint(key string, n int) {
	if n < 0 || n > math.MaxUint32 {
		w.fail(fmt.Errorf("gguf: write: %s: %d does not fit into 32 bits", key, n))
		return
	}
	w.set(key, typeUint32, binary.LittleEndian.AppendUint32(nil, uint32(n)))
}

// SetFloat adds a 32-bit float.
func (w *Writer) SetFloat(key string, x float32) {
	w.set(key, typeFloat32, binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)))
}

// SetStrings adds an array of strings.
func (w *Writer) SetStrings(key string, list []string) {
	raw := arrayHead(typeString, len(list))
	for _, s := range list {
		raw = appendString(raw, s)
	}
	w.set(key, typeArray, raw)
}

// SetInts adds an array of 32-bit integers.
func (w *Writer) SetInts(key string, list []int32) {
	raw := arrayHead(typeInt32, len(list))
	for _, n := range list {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(n))
	}
	w.set(key, typeArray, raw)
}

// SetFloats adds an array of 32-bit floats.
func (w *Writer) SetFloats(key string, list []float32) {
	raw := arrayHead(typeFloat32, len(list))
	for _, x := range list {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	w.set(key, typeArray, raw)
}

// Copy adds all metadata of f, byte for byte, except keys that w has already: set what should differ before. The
// alignment is not copied; w always writes the default.
func (w *Writer) Copy(f *File) { w.CopyPrefix(f, "") }

// CopyPrefix is Copy for the keys that begin with prefix, for example "tokenizer.".
func (w *Writer) CopyPrefix(f *File, prefix string) {
	for _, key := range f.Keys() {
		if w.keys[key] || key == "general.alignment" || !strings.HasPrefix(key, prefix) {
			continue
		}
		v := f.values[key]
		if v.array {
			w.set(key, typeArray, append(arrayHead(v.typ, v.count), v.raw...))
		} else {
			w.set(key, v.typ, v.raw)
		}
	}
}

// Has reports whether a metadata key was set already.
func (w *Writer) Has(key string) bool { return w.keys[key] }

// Declare adds a tensor to the directory. shape[0] is the row length.
func (w *Writer) Declare(name string, t quant.Type, shape ...int) {
	elems := 1
	for _, n := range shape {
		if n < 1 || elems > math.MaxInt/n {
			w.fail(fmt.Errorf("gguf: write: tensor %q has the impossible shape %v", name, shape))
			return
		}
		elems *= n
	}
	if len(shape) < 1 || len(shape) > maxDims {
		w.fail(fmt.Errorf("gguf: write: tensor %q has %d dimensions; 1 to %d are allowed", name, len(shape), maxDims))
		return
	}
	if _, err := t.RowBytes(shape[0]); err != nil {
		w.fail(fmt.Errorf("gguf: write: tensor %q: %w", name, err))
		return
	}
	nbytes, err := t.RowBytes(elems)
	if err != nil {
		w.fail(fmt.Errorf("gguf: write: tensor %q: %w", name, err))
		return
	}
	if w.begun {
		w.fail(fmt.Errorf("gguf: write: tensor %q is declared after the data began", name))
		return
	}
	w.tensors = append(w.tensors, declared{Tensor{Name: name, Type: t, Shape: shape}, w.offset, nbytes})
	w.offset = align(w.offset+nbytes, defaultAlignment)
}

// Begin writes the header, the metadata and the directory.
func (w *Writer) Begin() error {
	if w.begun {
		w.fail(fmt.Errorf("gguf: write: Begin was called twice"))
	}
	w.begun = true
	head := []byte(magic)
	head = binary.LittleEndian.AppendUint32(head, 3)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(w.tensors)))
	head = binary.LittleEndian.AppendUint64(head, uint64(len(w.keys)))
	head = append(head, w.pairs...)
	w.pairs = nil
	names := map[string]bool{}
	for _, t := range w.tensors {
		if names[t.Name] || t.Name == "" {
			w.fail(fmt.Errorf("gguf: write: the tensor name %q is empty or used twice", t.Name))
		}
		names[t.Name] = true
		head = appendString(head, t.Name)
		head = binary.LittleEndian.AppendUint32(head, uint32(len(t.Shape)))
		for _, n := range t.Shape {
			head = binary.LittleEndian.AppendUint64(head, uint64(n))
		}
		head = binary.LittleEndian.AppendUint32(head, uint32(t.Type))
		head = binary.LittleEndian.AppendUint64(head, uint64(t.offset))
	}
	w.emit(head)
	w.pad()
	return w.err
}

// Write appends data to the tensor with the given name, which must be the first one that is not complete yet. A tensor
// may be written in any number of pieces.
func (w *Writer) Write(name string, data []byte) error {
	switch {
	case w.err != nil:
	case !w.begun:
		w.fail(fmt.Errorf("gguf: write: data of %q before Begin", name))
	case w.current == len(w.tensors):
		w.fail(fmt.Errorf("gguf: write: %q has data, but all tensors are complete", name))
	case w.tensors[w.current].Name != name:
		w.fail(fmt.Errorf("gguf: write: %q has data while %q is incomplete", name, w.tensors[w.current].Name))
	case len(data) > w.tensors[w.current].nbytes-w.written:
		w.fail(fmt.Errorf("gguf: write: %q gets more than its %d bytes", name, w.tensors[w.current].nbytes))
	}
	w.emit(data)
	if w.err != nil {
		return w.err
	}
	if w.written += len(data); w.written == w.tensors[w.current].nbytes {
		w.pad()
		w.current, w.written = w.current+1, 0
	}
	return w.err
}

// Close checks that every tensor is complete. It does not close the destination.
func (w *Writer) Close() error {
	if w.err == nil && (!w.begun || w.current < len(w.tensors)) {
		var missing []string
		for _, t := range w.tensors[w.current:] {
			missing = append(missing, t.Name)
		}
		w.fail(fmt.Errorf("gguf: write: the data is incomplete: %s", strings.Join(missing, ", ")))
	}
	return w.err
}

func (w *Writer) set(key string, t valueType, raw []byte) {
	if key == "" || len(key) > maxNameBytes || w.keys[key] || w.begun {
		w.fail(fmt.Errorf("gguf: write: the key %q is empty, too long, set twice or set after Begin", key))
		return
	}
	w.keys[key] = true
	w.pairs = appendString(w.pairs, key)
	w.pairs = binary.LittleEndian.AppendUint32(w.pairs, uint32(t))
	w.pairs = append(w.pairs, raw...)
}

func (w *Writer) emit(b []byte) {
	if w.err != nil {
		return
	}
	if _, err := w.w.Write(b); err != nil {
		w.fail(fmt.Errorf("gguf: write: %w", err))
	}
	w.position += len(b)
}

func (w *Writer) pad() {
	var zeros [defaultAlignment]byte
	w.emit(zeros[:align(w.position, defaultAlignment)-w.position])
}

func (w *Writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func arrayHead(t valueType, n int) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, uint32(t)), uint64(n))
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}
