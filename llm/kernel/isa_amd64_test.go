//go:build !purego

package kernel

// withoutVNNI switches AVX-VNNI off where AVX2 uses it and returns what switches it on again, or nil.
func withoutVNNI(isa ISA) func() {
	if isa != AVX2 || !hasVNNI {
		return nil
	}
	hasVNNI = false
	return func() { hasVNNI = true }
}
