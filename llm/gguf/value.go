package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// valueType is the type tag of a metadata value.
type valueType uint32

const (
	typeUint8 valueType = iota
	typeInt8
	typeUint16
	typeInt16
	typeUint32
	typeInt32
	typeFloat32
	typeBool
	typeString
	typeArray
	typeUint64
	typeInt64
	typeFloat64
)

// width is the size in bytes of a value of fixed size, 0 for strings, arrays and unknown tags.
func (t valueType) width() int {
	switch t {
	case typeUint8, typeInt8, typeBool:
		return 1
	case typeUint16, typeInt16:
		return 2
	case typeUint32, typeInt32, typeFloat32:
		return 4
	case typeUint64, typeInt64, typeFloat64:
		return 8
	}
	return 0
}

// value is a metadata value as it lies in the file. It is decoded on use, because vocabularies are large and most
// readers want a few keys. The parser has checked that raw holds exactly count values.
type value struct {
	typ   valueType // of the elements when array is set
	array bool
	count int
	raw   []byte
}

// Has reports whether the metadata has the key, whatever its type.
func (f *File) Has(key string) bool {
	_, ok := f.values[key]
	return ok
}

// Keys returns the metadata keys in file order. The caller must not change the slice.
func (f *File) Keys() []string { return f.keys }

// Architecture returns general.architecture, or "" when the file names none.
func (f *File) Architecture() string {
	arch, _ := f.String("general.architecture")
	return arch
}

// String returns a string value.
func (f *File) String(key string) (string, bool) {
	v, ok := f.scalar(key)
	if !ok || v.typ != typeString {
		return "", false
	}
	return string(v.raw[8:]), true
}

// Uint returns an integer value of any width; negative ones give false.
func (f *File) Uint(key string) (uint64, bool) {
	v, ok := f.scalar(key)
	if !ok {
		return 0, false
	}
	if v.typ == typeUint64 {
		return binary.LittleEndian.Uint64(v.raw), true
	}
	n, ok := v.integer(0)
	return uint64(n), ok && n >= 0
}

// Float returns a floating-point value of either width.
func (f *File) Float(key string) (float64, bool) {
	v, ok := f.scalar(key)
	if !ok {
		return 0, false
	}
	return v.float(0)
}

// Bool returns a boolean value.
func (f *File) Bool(key string) (bool, bool) {
	v, ok := f.scalar(key)
	if !ok || v.typ != typeBool {
		return false, false
	}
	return v.raw[0] != 0, true
}

// Strings returns an array of strings. The strings share one copy of the bytes and do not alias the mapping.
func (f *File) Strings(key string) ([]string, bool) {
	v, ok := f.list(key)
	if !ok || v.typ != typeString {
		return nil, false
	}
	all := string(v.raw)
	out := make([]string, v.count)
	for i, at := 0, 0; i < v.count; i++ {
		n := int(binary.LittleEndian.Uint64(v.raw[at:]))
		out[i] = all[at+8 : at+8+n]
		at += 8 + n
	}
	return out, true
}

// Floats returns an array of floating-point values, converted to float32.
func (f *File) Floats(key string) ([]float32, bool) {
	v, ok := f.list(key)
	if !ok || v.typ != typeFloat32 && v.typ != typeFloat64 {
		return nil, false
	}
	out := make([]float32, v.count)
	for i := range out {
		x, _ := v.float(i)
		out[i] = float32(x)
	}
	return out, true
}

// Ints returns an array of integers or booleans of any width; false when one does not fit into an int32.
func (f *File) Ints(key string) ([]int32, bool) {
	v, ok := f.list(key)
	if !ok || v.typ == typeString {
		return nil, false
	}
	out := make([]int32, v.count)
	for i := range out {
		n, ok := v.integer(i)
		if !ok || n != int64(int32(n)) {
			return nil, false
		}
		out[i] = int32(n)
	}
	return out, true
}

// Describe returns a value of any type as text for people: long strings and arrays are cut. "" when the key is absent.
func (f *File) Describe(key string) string {
	const most = 8 // elements of an array
	v, ok := f.values[key]
	if !ok {
		return ""
	}
	if !v.array {
		return v.text(0)
	}
	parts := make([]string, 0, most+1)
	for i, at := 0, 0; i < v.count; i++ {
		if i == most {
			parts = append(parts, fmt.Sprintf("… %d in all", v.count))
			break
		}
		parts = append(parts, v.text(at))
		if at += v.typ.width(); v.typ == typeString {
			at += 8 + int(binary.LittleEndian.Uint64(v.raw[at:]))
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// text formats the element at byte offset at.
func (v value) text(at int) string {
	const most = 200 // bytes of a string
	switch v.typ {
	case typeString:
		n := int(binary.LittleEndian.Uint64(v.raw[at:]))
		s := v.raw[at+8 : at+8+n]
		if n > most {
			return fmt.Sprintf("%q… %d bytes", s[:most], n)
		}
		return fmt.Sprintf("%q", s)
	case typeFloat32, typeFloat64:
		x, _ := v.float(at / v.typ.width())
		return fmt.Sprint(float32(x))
	case typeBool:
		return fmt.Sprint(v.raw[at] != 0)
	case typeUint64:
		return fmt.Sprint(binary.LittleEndian.Uint64(v.raw[at:]))
	}
	n, _ := v.integer(at / v.typ.width())
	return fmt.Sprint(n)
}

func (f *File) scalar(key string) (value, bool) {
	v, ok := f.values[key]
	return v, ok && !v.array
}

func (f *File) list(key string) (value, bool) {
	v, ok := f.values[key]
	return v, ok && v.array
}

// integer returns element i; false for other types and for unsigned values beyond int64.
func (v value) integer(i int) (int64, bool) {
	raw := v.raw[i*v.typ.width():]
	switch v.typ {
	case typeUint8:
		return int64(raw[0]), true
	case typeBool:
		return int64(raw[0]), v.array
	case typeInt8:
		return int64(int8(raw[0])), true
	case typeUint16:
		return int64(binary.LittleEndian.Uint16(raw)), true
	case typeInt16:
		return int64(int16(binary.LittleEndian.Uint16(raw))), true
	case typeUint32:
		return int64(binary.LittleEndian.Uint32(raw)), true
	case typeInt32:
		return int64(int32(binary.LittleEndian.Uint32(raw))), true
	case typeUint64, typeInt64:
		n := int64(binary.LittleEndian.Uint64(raw))
		return n, v.typ == typeInt64 || n >= 0
	}
	return 0, false
}

// float returns element i; false for other types.
func (v value) float(i int) (float64, bool) {
	switch v.typ {
	case typeFloat32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v.raw[4*i:]))), true
	case typeFloat64:
		return math.Float64frombits(binary.LittleEndian.Uint64(v.raw[8*i:])), true
	}
	return 0, false
}
