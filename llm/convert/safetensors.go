package convert

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxHeaderBytes bounds the JSON header of a safetensors file, as the reference implementation does.
const maxHeaderBytes = 100_000_000

// weights are the arrays of a model by name, and what has to be closed when they were read.
type weights struct {
	arrays map[string]*array
	files  []io.Closer
}

func (w *weights) close() {
	for _, f := range w.files {
		f.Close()
	}
}

// openSafetensors reads the directory of model.safetensors, or of all the shards that model.safetensors.index.json names.
func openSafetensors(dir string) (*weights, error) {
	w := &weights{arrays: map[string]*array{}}
	names := []string{"model.safetensors"}
	if index, err := os.ReadFile(filepath.Join(dir, "model.safetensors.index.json")); err == nil {
		var shards struct {
			Map map[string]string `json:"weight_map"`
		}
		if err := json.Unmarshal(index, &shards); err != nil {
			return nil, fmt.Errorf("model.safetensors.index.json: %w", err)
		}
		names = nil
		seen := map[string]bool{}
		for _, name := range shards.Map {
			if name != filepath.Base(name) {
				return nil, fmt.Errorf("model.safetensors.index.json names the shard %q, which is not a plain file name", name)
			}
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		if err := w.add(filepath.Join(dir, name)); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

// add reads the directory of one file.
func (w *weights) add(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	w.files = append(w.files, f)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	arrays, err := parseSafetensors(f, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	for _, a := range arrays {
		if w.arrays[a.name] != nil {
			return fmt.Errorf("%s: the tensor %q is in two shards", filepath.Base(path), a.name)
		}
		w.arrays[a.name] = a
	}
	return nil
}

var safetensorsTypes = map[string]dtype{"F32": float32s, "F16": float16s, "BF16": bfloat16s, "I8": int8s, "U8": uint8s}

// parseSafetensors reads the directory of a file of size bytes and checks it against that size.
func parseSafetensors(r io.ReaderAt, size int64) ([]*array, error) {
	var length [8]byte
	if _, err := r.ReadAt(length[:], 0); err != nil {
		return nil, fmt.Errorf("the file is too short for a safetensors header: %w", err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeaderBytes || int64(n) > size-8 {
		return nil, fmt.Errorf("the header length %d is beyond the file of %d bytes: this is not a safetensors file, or it is truncated", n, size)
	}
	header := make([]byte, n)
	if _, err := r.ReadAt(header, 8); err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(header, &entries); err != nil {
		return nil, fmt.Errorf("the header is no valid JSON: %w", err)
	}
	data := size - 8 - int64(n)
	var arrays []*array
	for name, raw := range entries {
		if name == "__metadata__" {
			continue
		}
		var e struct {
			Type    string  `json:"dtype"`
			Shape   []int64 `json:"shape"`
			Offsets []int64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		if len(e.Offsets) != 2 || e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0] || e.Offsets[1] > data {
			return nil, fmt.Errorf("tensor %q lies at %v, outside the %d bytes of data: the file is truncated or damaged", name, e.Offsets, data)
		}
		typ, ok := safetensorsTypes[e.Type]
		if !ok {
			typ = otherType
		}
		a := &array{name: name, typ: typ, source: e.Type, r: r, offset: 8 + int64(n) + e.Offsets[0]}
		elems := int64(1)
		for _, d := range e.Shape {
			if d < 0 || d > 0 && elems > data/d {
				return nil, fmt.Errorf("tensor %q has the impossible shape %v", name, e.Shape)
			}
			elems *= d
			a.shape = append(a.shape, int(d))
		}
		if have := e.Offsets[1] - e.Offsets[0]; typ != otherType && elems*typ.size() != have {
			return nil, fmt.Errorf("tensor %q of %s %v takes %d bytes, not %d", name, e.Type, e.Shape, elems*typ.size(), have)
		}
		arrays = append(arrays, a)
	}
	return arrays, nil
}

// take removes and returns an array that must be there.
func (w *weights) take(name string) (*array, error) {
	a := w.arrays[name]
	if a == nil {
		return nil, fmt.Errorf("the tensor %q is missing", name)
	}
	delete(w.arrays, name)
	switch {
	case a.elems() == 0:
		return nil, fmt.Errorf("the tensor %q is empty", name)
	case a.typ == otherType:
		return nil, fmt.Errorf("the tensor %q holds elements of the type %s; supported are F32, F16 and BF16, in ONNX files 8-bit integers with scales, too", name, cmp.Or(a.source, "integer"))
	}
	if n := len(a.shape); n != 1 && n != 2 {
		return nil, fmt.Errorf("the tensor %q has %d dimensions instead of 1 or 2", name, n)
	}
	return a, nil
}

// has reports whether an array was not taken yet.
func (w *weights) has(name string) bool { return w.arrays[name] != nil }

// leftOver returns an error when arrays remain that ignore does not accept.
func (w *weights) leftOver(ignore func(name string) bool) error {
	var names []string
	for name := range w.arrays {
		if !ignore(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	const most = 5
	list := fmt.Sprintf("%q", sorted(names)[:min(most, len(names))])
	if len(names) > most {
		list += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return fmt.Errorf("no rule says what to do with the tensors %s: this variant of the architecture is not supported", strings.Trim(list, "[]"))
}
