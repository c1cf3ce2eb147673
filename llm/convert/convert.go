package convert

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ragd/llm/gguf"
	"ragd/llm/quant"
)

// Version is the number that a change of the output raises. VersionKey is the metadata key that carries it.
const (
	Version    = 1
	VersionKey = "ragd.convert.version"
)

// Options says what the source itself does not. The zero value is right for a complete Hugging Face folder.
type Options struct {
	Name    string // general.name; default: the name of the source folder or file
	Pooling string // "mean", "cls" or "last": how an embedding model pools; default: what the source says, if it does
	Heads   int    // attention heads, for ONNX files without a config.json
	Licence string // general.license, an SPDX name; default: none
	Source  string // general.source: where the weights come from; default: none

	// Progress, if set, is called before each piece of tensor data; an error ends the conversion with that error.
	Progress func(done, total int64) error
}

// model is what a converter knows before the first byte is written: metadata and tensors in order.
type model struct {
	arch    string
	meta    func(w *gguf.Writer)
	tensors []tensor
}

// tensor is one tensor of the output. emit produces its bytes in pieces.
type tensor struct {
	name  string
	typ   quant.Type
	shape []int // ne order: shape[0] is the row length
	emit  func(write func([]byte) error) error
}

// write writes m to path.
func (m *model) write(path string, o Options) error {
	return gguf.Create(path, m.arch, func(w *gguf.Writer) error {
		w.SetString("general.type", "model")
		w.SetString("general.name", o.Name)
		if o.Licence != "" {
			w.SetString("general.license", o.Licence)
		}
		if o.Source != "" {
			w.SetString("general.source", o.Source)
		}
		w.SetUint("general.quantization_version", 2)
		w.SetUint(VersionKey, Version)
		m.meta(w)
		var done, total int64
		for _, t := range m.tensors {
			w.Declare(t.name, t.typ, t.shape...)
			total += t.nbytes()
		}
		if err := w.Begin(); err != nil {
			return err
		}
		for _, t := range m.tensors {
			if err := t.emit(func(b []byte) error {
				if o.Progress != nil {
					if err := o.Progress(done, total); err != nil {
						return err
					}
				}
				done += int64(len(b))
				if !finite(t.typ, b) {
					return errors.New("it holds numbers that are infinite or none: the source is damaged")
				}
				return w.Write(t.name, b)
			}); err != nil {
				return fmt.Errorf("tensor %s: %w", t.name, err)
			}
		}
		return nil
	})
}

// finite reports whether whole numbers of an unblocked type are all finite. Quantized ones are made from scales that were looked at.
func finite(t quant.Type, b []byte) bool {
	bits, size := uint32(0), 2 // of an exponent that stands for no finite number
	switch t {
	case quant.F32:
		bits, size = 0x7f800000, 4
	case quant.F16:
		bits = 0x7c00
	case quant.BF16:
		bits = 0x7f80
	default:
		return true
	}
	for i := 0; i+size <= len(b); i += size {
		x := uint32(binary.LittleEndian.Uint16(b[i:]))
		if size == 4 {
			x = binary.LittleEndian.Uint32(b[i:])
		}
		if x&bits == bits {
			return false
		}
	}
	return true
}

// nbytes is the size of the data; 0 for a shape that Declare is about to refuse.
func (t *tensor) nbytes() int64 {
	elems := 1
	for _, n := range t.shape {
		elems *= n
	}
	n, err := t.typ.RowBytes(elems)
	if err != nil {
		return 0
	}
	return int64(n)
}

// FileVersion returns the Version with which a converter of this package wrote the file at path; 0 when it did not write
// it, or when the file cannot be opened.
func FileVersion(path string) int {
	f, err := gguf.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	n, _ := f.Uint(VersionKey)
	return int(n)
}
