package quant

import "fmt"

// maxHalf is the largest finite half.
const maxHalf = 65504

// Decode writes the values of src into dst: len(dst) elements, which must take exactly len(src) bytes. The arithmetic is
// float32 in the reference order, so results are exact to the bit. dst and src must not overlap.
func Decode(t Type, dst []float32, src []byte) error {
	f, err := check(t, len(dst), len(src))
	if err != nil {
		return err
	}
	if f.decode == nil {
		return fmt.Errorf("quant: tensor type %s holds no weights and cannot be decoded", t)
	}
	f.decode(dst, src)
	return nil
}

// Encode rounds src into dst, which must have exactly the bytes that len(src) elements take. It is the plain reference
// rounding of each format: Q*_0 and Q*_1 round to the nearest step, K-quants search for the scales that minimise a
// weighted squared error. Block formats refuse NaN, infinity and magnitudes above 65504, because their scales are halves.
func Encode(t Type, dst []byte, src []float32) error {
	f, err := check(t, len(src), len(dst))
	if err != nil {
		return err
	}
	if f.encode == nil {
		return fmt.Errorf("quant: no encoder for tensor type %s", t)
	}
	if f.elems > 1 {
		if err := checkFinite(t, src); err != nil {
			return err
		}
	}
	f.encode(dst, src)
	return nil
}

// checkFinite refuses values that would poison a block.
func checkFinite(t Type, src []float32) error {
	for i, x := range src {
		if !(abs(x) <= maxHalf) {
			return fmt.Errorf("quant: element %d is %v and cannot be stored as %s", i, x, t)
		}
	}
	return nil
}

// check returns the format when elems elements take exactly nbytes bytes of it.
func check(t Type, elems, nbytes int) (format, error) {
	want, err := t.RowBytes(elems)
	if err != nil {
		return format{}, err
	}
	if want != nbytes {
		return format{}, fmt.Errorf("quant: %d elements of %s take %d bytes, not %d", elems, t, want, nbytes)
	}
	return formats[t], nil
}
