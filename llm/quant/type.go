package quant

import (
	"fmt"
	"maps"
	"slices"
)

// Type is a GGML tensor type as stored in a GGUF tensor directory.
type Type uint32

// The types this package knows. Ids that are missing were removed from the format or are not used by any model that the
// engine runs; a file that contains one is refused by name or number.
const (
	F32    Type = 0
	F16    Type = 1
	Q4_0   Type = 2
	Q4_1   Type = 3
	Q5_0   Type = 6
	Q5_1   Type = 7
	Q8_0   Type = 8
	Q2_K   Type = 10
	Q3_K   Type = 11
	Q4_K   Type = 12
	Q5_K   Type = 13
	Q6_K   Type = 14
	IQ4_NL Type = 20
	IQ4_XS Type = 23
	I8     Type = 24
	I16    Type = 25
	I32    Type = 26
	I64    Type = 27
	F64    Type = 28
	BF16   Type = 30
)

// superBlock is QK_K of the reference: the elements of one K-quant block.
const superBlock = 256

// format describes one type. decode and encode work on whole blocks: len(dst) and len(src) agree and were checked.
// They are nil for types that only have a size (integers) or only a decoder.
type format struct {
	name          string
	elems, nbytes int
	decode        func(dst []float32, src []byte)
	encode        func(dst []byte, src []float32)
}

var formats = map[Type]format{
	F32:    {"F32", 1, 4, decodeF32, encodeF32},
	F16:    {"F16", 1, 2, decodeF16, encodeF16},
	BF16:   {"BF16", 1, 2, decodeBF16, encodeBF16},
	Q4_0:   {"Q4_0", 32, 18, decodeQ4_0, encodeQ4_0},
	Q4_1:   {"Q4_1", 32, 20, decodeQ4_1, encodeQ4_1},
	Q5_0:   {"Q5_0", 32, 22, decodeQ5_0, encodeQ5_0},
	Q5_1:   {"Q5_1", 32, 24, decodeQ5_1, encodeQ5_1},
	Q8_0:   {"Q8_0", 32, 34, decodeQ8_0, encodeQ8_0},
	Q2_K:   {"Q2_K", superBlock, 84, decodeQ2_K, encodeQ2_K},
	Q3_K:   {"Q3_K", superBlock, 110, decodeQ3_K, encodeQ3_K},
	Q4_K:   {"Q4_K", superBlock, 144, decodeQ4_K, encodeQ4_K},
	Q5_K:   {"Q5_K", superBlock, 176, decodeQ5_K, encodeQ5_K},
	Q6_K:   {"Q6_K", superBlock, 210, decodeQ6_K, encodeQ6_K},
	IQ4_NL: {"IQ4_NL", 32, 18, decodeIQ4_NL, nil},
	IQ4_XS: {"IQ4_XS", superBlock, 136, decodeIQ4_XS, nil},
	I8:     {"I8", 1, 1, nil, nil},
	I16:    {"I16", 1, 2, nil, nil},
	I32:    {"I32", 1, 4, nil, nil},
	I64:    {"I64", 1, 8, nil, nil},
	F64:    {"F64", 1, 8, nil, nil},
}

// foreignNames names types of the format that this package does not decode, so that a refusal can name them.
var foreignNames = map[Type]string{
	4: "Q4_2 (removed)", 5: "Q4_3 (removed)", 9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS",
	19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S", 29: "IQ1_M", 31: "Q4_0_4_4 (removed)", 32: "Q4_0_4_8 (removed)",
	33: "Q4_0_8_8 (removed)", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4",
}

// Parse returns the type with the given name, as String prints it ("Q4_K", "F16").
func Parse(name string) (Type, bool) {
	for t, f := range formats {
		if f.name == name {
			return t, true
		}
	}
	return 0, false
}

// String returns the customary name of the type, for example "Q4_K"; unknown ids print as "type 99".
func (t Type) String() string {
	if f, ok := formats[t]; ok {
		return f.name
	}
	if name, ok := foreignNames[t]; ok {
		return name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Block returns how many elements one block holds and how many bytes it takes; 0, 0 for a type this package does not know.
func (t Type) Block() (elems, nbytes int) {
	f := formats[t]
	return f.elems, f.nbytes
}

// Decodable lists the types whose weights can be decoded, by their numbers.
func Decodable() []string {
	var names []string
	for _, t := range slices.Sorted(maps.Keys(formats)) {
		if t.Decodes() {
			names = append(names, t.String())
		}
	}
	return names
}

// Decodes reports whether Decode supports the type.
func (t Type) Decodes() bool { return formats[t].decode != nil }

// Encodes reports whether Encode supports the type.
func (t Type) Encodes() bool { return formats[t].encode != nil }

// RowBytes returns the bytes that n elements take. It fails when the type is unknown or n is negative, not a multiple of
// the block, or so large that the result would overflow.
func (t Type) RowBytes(n int) (int, error) {
	f, ok := formats[t]
	if !ok {
		return 0, fmt.Errorf("quant: tensor type %s is not supported", t)
	}
	if n < 0 || n%f.elems != 0 {
		return 0, fmt.Errorf("quant: %d elements are no whole number of %s blocks of %d", n, f.name, f.elems)
	}
	blocks := n / f.elems
	if blocks > maxInt/f.nbytes {
		return 0, fmt.Errorf("quant: %d elements of %s are too many", n, f.name)
	}
	return blocks * f.nbytes, nil
}

const maxInt = int(^uint(0) >> 1)
