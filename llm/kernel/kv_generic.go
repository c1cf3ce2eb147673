package kernel

import "ragd/llm/quant"

// maxHalf is the largest finite IEEE half.
const maxHalf = 65504

func toHalfGeneric(dst []uint16, x []float32) {
	for i, v := range x {
		dst[i] = quant.F32ToF16(finite(v, maxHalf))
	}
}
