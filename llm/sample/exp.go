package sample

import "math"

const (
	log2e = 1.44269504088896341
	ln2Hi = 0.693359375 // 355/512: products with small integers are exact
	ln2Lo = -2.12194440054690583e-4

	// Minimax polynomial of e^r on [-ln2/2, ln2/2], from Cephes expf.
	exp2 = 5.0000001201e-1
	exp3 = 1.6666665459e-1
	exp4 = 4.1665795894e-2
	exp5 = 8.3334519073e-3
	exp6 = 1.3981999507e-3
	exp7 = 1.9875691500e-4

	// expMin is where e^x becomes subnormal; below it exp is 0.
	expMin = -87.3
)

// exp is e^x for x <= 0, within 2 units in the last place and several times faster than math.Exp: a row of logits has up
// to 262144 entries.
func exp(x float32) float32 {
	if !(x >= expMin) {
		return 0
	}
	n := int32(x*log2e - 0.5) // rounds to nearest for x <= 0
	f := float32(n)
	r := x - f*ln2Hi - f*ln2Lo
	y := (((((exp7*r+exp6)*r+exp5)*r+exp4)*r+exp3)*r+exp2)*r*r + r + 1
	return y * math.Float32frombits(uint32(n+127)<<23)
}

// expSum returns Σ e^((x-top)*inv) over the exponents that reach least, which is at least expMin. It repeats the body of exp,
// which is too large to be inlined.
func expSum(row []float32, top, inv, least float32) float64 {
	sum := 0.0
	for _, x := range row {
		x = (x - top) * inv
		if !(x >= least) {
			continue
		}
		n := int32(x*log2e - 0.5)
		f := float32(n)
		r := x - f*ln2Hi - f*ln2Lo
		y := (((((exp7*r+exp6)*r+exp5)*r+exp4)*r+exp3)*r+exp2)*r*r + r + 1
		sum += float64(y * math.Float32frombits(uint32(n+127)<<23))
	}
	return sum
}
