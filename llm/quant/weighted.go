package quant

import (
	"fmt"
	"math"
)

// weighted maps the types whose rounding an importance changes to their encoders, which take one row.
var weighted = map[Type]func(dst []byte, row, importance []float32){
	Q4_0: encodeWeightedQ4_0, Q4_1: encodeWeightedQ4_1, Q5_0: encodeWeightedQ5_0, Q5_1: encodeWeightedQ5_1,
	Q4_K: encodeWeightedQ4_K, Q5_K: encodeWeightedQ5_K, Q6_K: encodeWeightedQ6_K,
}

// EncodeWeighted is Encode for one row of a matrix whose columns matter differently: importance[i], the mean square of the
// activations that column i is multiplied with, weighs the squared error of element i. Types that have no search over
// scales (Q8_0, halves) are encoded as by Encode. It fails as Encode does, and when importance is no finite, non-negative
// number per element or 0 everywhere.
func EncodeWeighted(t Type, dst []byte, row, importance []float32) error {
	encode, ok := weighted[t]
	if !ok {
		return Encode(t, dst, row)
	}
	if len(importance) != len(row) {
		return fmt.Errorf("quant: %d weights for a row of %d elements", len(importance), len(row))
	}
	any := false
	for i, w := range importance {
		if !(w >= 0 && w <= math.MaxFloat32) {
			return fmt.Errorf("quant: the importance of column %d is %v", i, w)
		}
		any = any || w > 0
	}
	if !any {
		return fmt.Errorf("quant: all %d columns have the importance 0", len(row))
	}
	if _, err := check(t, len(row), len(dst)); err != nil {
		return err
	}
	if err := checkFinite(t, row); err != nil {
		return err
	}
	encode(dst, row, importance)
	return nil
}

// weightedSearch is the trial range of the reference when the weights are known: finer and around the plain scale.
var weightedSearch = search{rmin: -0.9, rdelta: 0.05, steps: 36}

// columnWeights combines importance and size: importance·√(variance+x²), so that large elements still matter more.
func columnWeights(weights, x, importance []float32, variance float32) {
	for i, v := range x {
		weights[i] = importance[i] * float32(math.Sqrt(float64(variance+float32(v*v))))
	}
}

// meanSquare is Σx²/n.
func meanSquare(x []float32) float32 {
	var sum float32
	for _, v := range x {
		sum += float32(v * v)
	}
	return sum / float32(len(x))
}

func encodeWeightedQ4_0(dst []byte, row, importance []float32) {
	variance := meanSquare(row)
	for ; len(row) > 0; dst, row, importance = dst[18:], row[32:], importance[32:] {
		levels, d := weightedSymmetric(row[:32], importance, variance, 8)
		putHalf(dst, d)
		for j := range 16 {
			dst[2+j] = byte(levels[j]+8) | byte(levels[j+16]+8)<<4
		}
	}
}

func encodeWeightedQ5_0(dst []byte, row, importance []float32) {
	variance := meanSquare(row)
	for ; len(row) > 0; dst, row, importance = dst[22:], row[32:], importance[32:] {
		levels, d := weightedSymmetric(row[:32], importance, variance, 16)
		putHalf(dst, d)
		packFive(dst[2:22], func(i int) uint32 { return uint32(levels[i] + 16) })
	}
}

func weightedSymmetric(x, importance []float32, variance float32, nmax int) (levels [32]int8, d float32) {
	var weights [32]float32
	columnWeights(weights[:], x, importance, variance)
	d = symmetricScale(x, weights[:], levels[:], nmax)
	return levels, d
}

func encodeWeightedQ4_1(dst []byte, row, importance []float32) {
	variance := meanSquare(row)
	for ; len(row) > 0; dst, row, importance = dst[20:], row[32:], importance[32:] {
		levels, d, m := weightedScaleMin(row[:32], importance, variance, 15)
		putHalf(dst, d)
		putHalf(dst[2:], -m)
		for j := range 16 {
			dst[4+j] = levels[j] | levels[j+16]<<4
		}
	}
}

func encodeWeightedQ5_1(dst []byte, row, importance []float32) {
	variance := meanSquare(row)
	for ; len(row) > 0; dst, row, importance = dst[24:], row[32:], importance[32:] {
		levels, d, m := weightedScaleMin(row[:32], importance, variance, 31)
		putHalf(dst, d)
		putHalf(dst[2:], -m)
		packFive(dst[4:24], func(i int) uint32 { return uint32(levels[i]) })
	}
}

func weightedScaleMin(x, importance []float32, variance float32, nmax int) (levels [32]uint8, scale, minimum float32) {
	var weights [32]float32
	columnWeights(weights[:], x, importance, variance)
	scale, minimum = weightedSearch.scaleMin(x, weights[:], levels[:], nmax)
	return levels, scale, minimum
}

func encodeWeightedQ4_K(dst []byte, row, importance []float32) {
	for ; len(row) > 0; dst, row, importance = dst[144:], row[superBlock:], importance[superBlock:] {
		var levels [superBlock]uint8
		encodeWeightedScaleMin(dst[:16], levels[:], row[:superBlock], importance, 15)
		packNibbles(dst[16:144], &levels)
	}
}

func encodeWeightedQ5_K(dst []byte, row, importance []float32) {
	for ; len(row) > 0; dst, row, importance = dst[176:], row[superBlock:], importance[superBlock:] {
		var levels [superBlock]uint8
		encodeWeightedScaleMin(dst[:16], levels[:], row[:superBlock], importance, 31)
		packFiveBits(dst[16:176], &levels)
	}
}

func encodeWeightedQ6_K(dst []byte, row, importance []float32) {
	for ; len(row) > 0; dst, row, importance = dst[210:], row[superBlock:], importance[superBlock:] {
		encodeBlockQ6_K(dst[:210], row[:superBlock], importance)
	}
}

// encodeWeightedScaleMin is encodeScaleMin with known weights; the scales and mins of the sub-blocks are then rounded by
// a search of their own, weighted by what each sub-block weighs.
func encodeWeightedScaleMin(header []byte, levels []uint8, x, importance []float32, nmax int) {
	var scales, mins, total [8]float32
	variance := 2 * meanSquare(x)
	for g := range 8 {
		var weights [32]float32
		sub := x[32*g : 32*g+32]
		columnWeights(weights[:], sub, importance[32*g:], variance)
		for _, w := range weights {
			total[g] += w
		}
		scales[g], mins[g] = weightedSearch.scaleMin(sub, weights[:], levels[32*g:32*g+32], nmax)
	}
	var scaleLevels, minLevels [8]uint8
	d := positiveScale(scales[:], total[:], scaleLevels[:], 63)
	dmin := positiveScale(mins[:], total[:], minLevels[:], 63)
	putHeader(header, d, dmin, &scaleLevels, &minLevels)
	requantizeSuperBlock(header, levels, x, nmax)
}

// positiveScale finds the scale so that scale*level approximates non-negative x with levels 0..nmax: nine trials around
// nmax/max(x), then up to five passes that change one level at a time while (Σwxl)²/Σwl² rises.
func positiveScale(x, weights []float32, levels []uint8, nmax int) float32 {
	_, highest := extent(x)
	if highest < tiny {
		clear(levels)
		return 0
	}
	inv := float32(nmax) / highest
	best := positiveCost(x, weights, inv, nmax)
	for i := -4; i <= 4; i++ {
		if try := (float32(0.1*float32(i)) + float32(nmax)) / highest; i != 0 {
			if c := positiveCost(x, weights, try, nmax); c < best {
				best, inv = c, try
			}
		}
	}
	var sumXL, sumLL float32
	for i, v := range x {
		levels[i] = uint8(level(inv*v, nmax))
		l := float32(levels[i])
		sumXL += float32(float32(weights[i]*v) * l)
		sumLL += float32(float32(weights[i]*l) * l)
	}
	for range 5 {
		changed := false
		for i, v := range x {
			w, l := weights[i], float32(levels[i])
			restXL := sumXL - float32(float32(w*v)*l)
			restLL := sumLL - float32(float32(w*l)*l)
			if restXL <= 0 || restLL <= 0 {
				continue
			}
			candidate := uint8(level(float32(v*restLL)/restXL, nmax))
			if candidate == levels[i] {
				continue
			}
			c := float32(candidate)
			restXL += float32(float32(w*v) * c)
			restLL += float32(float32(w*c) * c)
			if float32(float32(restXL*restXL)*sumLL) > float32(float32(sumXL*sumXL)*restLL) {
				levels[i], sumXL, sumLL, changed = candidate, restXL, restLL, true
			}
		}
		if !changed {
			break
		}
	}
	return ratio(sumXL, sumLL)
}

// positiveCost is the weighted squared error of x with the inverse scale inv.
func positiveCost(x, weights []float32, inv float32, nmax int) float32 {
	var sum float32
	scale := 1 / inv
	for i, v := range x {
		diff := v - float32(scale*float32(level(inv*v, nmax)))
		sum += float32(float32(weights[i]*diff) * diff)
	}
	return sum
}
