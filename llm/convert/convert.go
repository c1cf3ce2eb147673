package convert

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"

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

// write writes m to path, through a temporary file in the same folder that is renamed when it is complete and on disk.
func (m *model) write(path string, o Options) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	buf := bufio.NewWriterSize(f, 1<<20)
	w := gguf.NewWriter(buf, m.arch)
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
	for _, t := range m.tensors {
		w.Declare(t.name, t.typ, t.shape...)
	}
	if err := w.Begin(); err != nil {
		return err
	}
	for _, t := range m.tensors {
		if err := t.emit(func(b []byte) error { return w.Write(t.name, b) }); err != nil {
			return fmt.Errorf("tensor %s: %w", t.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := buf.Flush(); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil { // CreateTemp makes it private
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
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
