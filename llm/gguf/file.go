package gguf

import (
	"fmt"
	"os"
	"runtime/debug"
	"unsafe"

	"ragd/llm/quant"
)

// A FormatError says that a file breaks the GGUF format, or uses a part of it that is not supported. What names the
// entry concerned and the limit it broke.
type FormatError struct {
	Path   string
	Offset int64 // byte offset of the offending field
	What   string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("gguf: %s: byte %d: %s", e.Path, e.Offset, e.What)
}

// File is an open GGUF file.
type File struct {
	path    string
	data    []byte // the whole file, read-only
	unmap   func() error
	keys    []string // in file order
	values  map[string]value
	tensors []*Tensor // in file order
	byName  map[string]*Tensor
}

// Tensor is one entry of the directory with its data.
type Tensor struct {
	Name  string
	Type  quant.Type
	Shape []int  // Shape[0] is the contiguous row length; 1 to 4 dimensions, all >= 1
	Data  []byte // aliases the mapping: read-only, valid until File.Close
}

// Cols returns the row length, Shape[0].
func (t *Tensor) Cols() int { return t.Shape[0] }

// Rows returns the number of rows: the product of all dimensions but the first.
func (t *Tensor) Rows() int {
	rows := 1
	for _, n := range t.Shape[1:] {
		rows *= n
	}
	return rows
}

// Open maps the file at path and validates it as a whole. Errors are *FormatError for anything about the content, and
// wrapped file system errors otherwise. The file must not be truncated or rewritten while it is open; replace models by
// renaming a new file over the old one.
func Open(path string) (*File, error) {
	data, unmap, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: open %s: %w", path, err)
	}
	f, err := parse(path, data)
	if err != nil {
		unmap()
		return nil, err
	}
	f.unmap = unmap
	return f, nil
}

// readFile returns the bytes of a regular file, mapped where the system can.
func readFile(path string) (data []byte, unmap func() error, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close() // a mapping outlives its descriptor
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", path)
	}
	if info.Size() == 0 { // an empty file cannot be mapped
		return nil, func() error { return nil }, nil
	}
	return mapFile(file, info.Size())
}

// Close unmaps the file. No Tensor.Data may be used afterwards; strings and slices that the getters returned are copies
// and stay valid.
func (f *File) Close() error {
	if f.unmap == nil {
		return nil
	}
	unmap := f.unmap
	f.unmap, f.data = nil, nil
	return unmap()
}

// Reading calls read, which reads tensor data, also on workers of a kernel.Pool. Where the file loses what is being read,
// because somebody cuts it or its disk fails, Reading returns an error, instead of the process being killed (SIGBUS).
func (f *File) Reading(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		fault, ok := v.(interface{ Addr() uintptr })
		if !ok || len(f.data) == 0 || fault.Addr()-uintptr(unsafe.Pointer(&f.data[0])) >= uintptr(len(f.data)) {
			panic(v)
		}
		err = fmt.Errorf("gguf: read %s: the file was cut or cannot be read any more: replace models by renaming a new file over the old one", f.path)
	}()
	return read()
}

// Release tells the system that the pages read so far are not needed for now: after the weights were copied elsewhere
// they would count twice. The data stays accessible and is read again from the file on use.
func (f *File) Release() {
	if len(f.data) > 0 {
		dropPages(f.data)
	}
}

// ReleaseTensor is Release for the data of one tensor.
func (f *File) ReleaseTensor(t *Tensor) {
	if len(t.Data) == 0 {
		return
	}
	from := int(uintptr(unsafe.Pointer(&t.Data[0])) - uintptr(unsafe.Pointer(&f.data[0])))
	dropPages(f.data[from&^(os.Getpagesize()-1) : from+len(t.Data)])
}

// Path returns the path that Open was given.
func (f *File) Path() string { return f.path }

// Size returns the size of the file in bytes.
func (f *File) Size() int64 { return int64(len(f.data)) }

// Tensor returns the tensor with the given name.
func (f *File) Tensor(name string) (*Tensor, bool) {
	t, ok := f.byName[name]
	return t, ok
}

// Tensors returns all tensors in the order of the directory. The caller must not change the slice.
func (f *File) Tensors() []*Tensor { return f.tensors }
