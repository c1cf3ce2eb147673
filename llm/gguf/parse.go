package gguf

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"ragd/llm/quant"
)

const (
	magic            = "GGUF"
	defaultAlignment = 32
	maxAlignment     = 1 << 20 // far beyond any file seen; keeps the arithmetic away from overflow
	maxNameBytes     = 1<<16 - 1
	maxDims          = 4

	// The fewest bytes one entry can take; they bound the counts of the header by the size of the file.
	minPairBytes   = 8 + 4 + 1     // empty key, type, one byte
	minTensorBytes = 8 + 4 + 4 + 8 // empty name, no dimension, type, offset
)

// parser reads the header from the front. The first failure sticks: every read after it returns zeros, so that the
// callers check once per entry.
type parser struct {
	path string
	data []byte
	at   int
	err  *FormatError
}

// parse validates a whole file. The File aliases data.
func parse(path string, data []byte) (*File, error) {
	p := &parser{path: path, data: data}
	tensors, pairs := p.header()
	f := &File{path: path, data: data, values: map[string]value{}, byName: map[string]*Tensor{}}
	for i := 0; i < pairs && p.err == nil; i++ {
		p.pair(f)
	}
	alignment := p.alignment(f)
	var infos []info
	for i := 0; i < tensors && p.err == nil; i++ {
		infos = append(infos, p.info(f))
	}
	p.place(f, infos, alignment)
	if p.err != nil {
		return nil, p.err
	}
	return f, nil
}

// header reads magic, version and the two counts.
func (p *parser) header() (tensors, pairs int) {
	if len(p.data) < 24 {
		p.fail(0, "the file has %d bytes, too few for a GGUF header", len(p.data))
		return 0, 0
	}
	if m := p.data[:4]; string(m) != magic {
		p.fail(0, "this is not a GGUF file: it starts with %q", m)
		return 0, 0
	}
	p.at = 4
	switch version := p.uint32("version"); {
	case version == 2 || version == 3:
	case version == 1:
		p.fail(4, "GGUF version 1 is obsolete; convert the model again (versions 2 and 3 are read)")
	case bits.ReverseBytes32(version) <= 3:
		p.fail(4, "the file is big endian; convert it for little-endian machines")
	default:
		p.fail(4, "GGUF version %d is not supported (versions 2 and 3 are)", version)
	}
	tensors = p.count("tensor count", minTensorBytes)
	pairs = p.count("metadata count", minPairBytes)
	return tensors, pairs
}

// pair reads one key and its value into f.
func (p *parser) pair(f *File) {
	start := p.at
	key := p.name("metadata key")
	typ := valueType(p.uint32("type of " + key))
	v := value{typ: typ, count: 1}
	what := fmt.Sprintf("value of %q", key)
	if typ == typeArray {
		v.array = true
		v.typ = valueType(p.uint32("element type of " + key))
		if v.typ == typeArray {
			p.fail(p.at-4, "%s is an array of arrays, which is not supported", what)
		}
	}
	if p.err == nil && v.typ != typeString && v.typ.width() == 0 {
		p.fail(p.at-4, "%s has the unknown type %d", what, v.typ)
	}
	if v.array {
		v.count = p.count("length of the "+what, max(v.typ.width(), 1))
	}
	from := p.at
	if v.typ == typeString {
		length := "string length in the " + what // once, not per word of a vocabulary
		for i := 0; i < v.count && p.err == nil; i++ {
			p.bytes(p.count(length, 1), what)
		}
	} else {
		p.bytes(v.count*v.typ.width(), what) // count bounds the count by the file, so this cannot overflow
	}
	if p.err != nil {
		return
	}
	v.raw = p.data[from:p.at]
	if _, ok := f.values[key]; ok {
		p.fail(start, "the metadata key %q appears twice", key)
		return
	}
	f.keys = append(f.keys, key)
	f.values[key] = v
	if parts, _ := f.Uint("split.count"); key == "split.count" && parts > 1 {
		p.fail(start, "this is one of %d parts of a split model; merge the parts into one file first", parts)
	}
}

// alignment returns general.alignment, checked.
func (p *parser) alignment(f *File) int {
	if p.err != nil || !f.Has("general.alignment") {
		return defaultAlignment
	}
	n, ok := f.Uint("general.alignment")
	if !ok || n == 0 || n > maxAlignment || n&(n-1) != 0 {
		p.fail(p.at, "general.alignment is %s; it must be a power of two up to %d", f.Describe("general.alignment"), maxAlignment)
		return defaultAlignment
	}
	return int(n)
}

// info is a directory entry before its data is located.
type info struct {
	tensor *Tensor
	at     int    // of the entry in the file, for messages
	offset uint64 // of the data, relative to the start of all data
	nbytes int
}

// info reads one directory entry into f.
func (p *parser) info(f *File) info {
	start := p.at
	name := p.name("tensor name")
	dims := p.uint32("dimensions of " + name)
	if p.err == nil && dims > maxDims {
		p.fail(start, "tensor %q has %d dimensions; at most %d are allowed", name, dims, maxDims)
	}
	if p.err != nil {
		return info{}
	}
	shape, elems := make([]int, dims, max(dims, 1)), 1
	for i := range shape {
		n := p.uint64("shape of " + name)
		if p.err == nil && (n == 0 || n > uint64(math.MaxInt/elems)) {
			p.fail(p.at-8, "dimension %d of tensor %q is %d: zero, or too large together with the others", i, name, n)
		}
		if p.err != nil {
			return info{}
		}
		shape[i] = int(n)
		elems *= int(n)
	}
	if dims == 0 { // a scalar
		shape = append(shape, 1)
	}
	typ := quant.Type(p.uint32("type of " + name))
	offset := p.uint64("offset of " + name)
	if p.err != nil {
		return info{}
	}
	block, _ := typ.Block()
	if block == 0 {
		p.fail(start, "tensor %q has the type %s, which is not supported; supported: %s", name, typ, strings.Join(quant.Decodable(), ", "))
		return info{}
	}
	if shape[0]%block != 0 {
		p.fail(start, "the rows of tensor %q have %d elements, no multiple of the %d of a %s block", name, shape[0], block, typ)
		return info{}
	}
	nbytes, err := typ.RowBytes(elems)
	if err != nil {
		p.fail(start, "tensor %q: %v", name, err)
		return info{}
	}
	t := &Tensor{Name: name, Type: typ, Shape: shape}
	if _, ok := f.byName[name]; ok {
		p.fail(start, "the tensor %q appears twice", name)
		return info{}
	}
	f.byName[name] = t
	f.tensors = append(f.tensors, t)
	return info{tensor: t, at: start, offset: offset, nbytes: nbytes}
}

// place locates the data of all tensors: aligned, inside the file, and without overlap.
func (p *parser) place(f *File, infos []info, alignment int) {
	if p.err != nil || len(infos) == 0 {
		return
	}
	start := align(p.at, alignment)
	if start > len(p.data) {
		p.fail(len(p.data), "the file ends inside the padding before the tensor data, which starts at byte %d", start)
		return
	}
	data := p.data[start:]
	for _, e := range infos {
		if e.offset%uint64(alignment) != 0 {
			p.fail(e.at, "the data offset %d of tensor %q is not a multiple of the alignment %d", e.offset, e.tensor.Name, alignment)
			return
		}
		if e.offset > uint64(len(data)) || e.nbytes > len(data)-int(e.offset) {
			p.fail(e.at, "tensor %q needs %d bytes at data offset %d, but the file has only %d bytes of data: it is truncated or damaged",
				e.tensor.Name, e.nbytes, e.offset, len(data))
			return
		}
		e.tensor.Data = data[e.offset:][:e.nbytes:e.nbytes]
	}
	slices.SortFunc(infos, func(a, b info) int { return cmp.Compare(a.offset, b.offset) })
	for i, e := range infos[1:] {
		if before := infos[i]; before.offset+uint64(before.nbytes) > e.offset {
			p.fail(e.at, "the data of tensor %q overlaps that of %q", e.tensor.Name, before.tensor.Name)
			return
		}
	}
}

// align rounds n up to a multiple of alignment, a power of two.
func align(n, alignment int) int { return (n + alignment - 1) &^ (alignment - 1) }

func (p *parser) fail(at int, format string, args ...any) {
	if p.err == nil {
		p.err = &FormatError{Path: p.path, Offset: int64(at), What: fmt.Sprintf(format, args...)}
	}
}

// bytes consumes n bytes; nil after a failure.
func (p *parser) bytes(n int, what string) []byte {
	if p.err != nil {
		return nil
	}
	if n > len(p.data)-p.at {
		p.fail(p.at, "the file ends inside the %s: %d bytes wanted, %d left", what, n, len(p.data)-p.at)
		return nil
	}
	b := p.data[p.at : p.at+n]
	p.at += n
	return b
}

func (p *parser) uint32(what string) uint32 {
	if b := p.bytes(4, what); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (p *parser) uint64(what string) uint64 {
	if b := p.bytes(8, what); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// count reads the number of entries that follow, each of at least minBytes bytes, and refuses more than the rest of the
// file can hold: this is what bounds every allocation and loop.
func (p *parser) count(what string, minBytes int) int {
	n := p.uint64(what)
	if rest := (len(p.data) - p.at) / minBytes; p.err == nil && n > uint64(rest) {
		p.fail(p.at-8, "the %s is %d, but the file has room for at most %d", what, n, rest)
	}
	if p.err != nil {
		return 0
	}
	return int(n)
}

// name reads a non-empty UTF-8 string of bounded length.
func (p *parser) name(what string) string {
	start := p.at
	n := p.count("length of a "+what, 1)
	if n > maxNameBytes {
		p.fail(start, "a %s of %d bytes is too long", what, n)
	}
	b := p.bytes(n, what)
	if p.err == nil && (n == 0 || !utf8.Valid(b)) {
		p.fail(start, "a %s is empty or no valid UTF-8: %q", what, b)
	}
	return string(b)
}
