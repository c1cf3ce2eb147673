package quant

import "math"

// This file holds the searches behind the K-quant encoders. Rounding each element to the nearest step of a scale that is
// fixed by the largest element wastes levels; the encoders therefore try several scales and keep the one with the least
// weighted error. All arithmetic is float32 in the reference order.

// tiny is the largest scale that counts as zero (GROUP_MAX_EPS of the reference).
const tiny = 1e-15

// search is the trial range of the asymmetric search: trial i uses the inverse scale (rmin+rdelta*i+nmax)/(max-min).
type search struct {
	rmin, rdelta float32
	steps        int
	absolute     bool // minimise absolute instead of squared differences (2 bits)
}

// scaleMin finds scale >= 0 and minimum >= 0 so that scale*level-minimum approximates x with levels 0..nmax, and fills
// levels. Each trial rounds with its own scale and then solves the weighted 2x2 least-squares problem for scale and
// offset; the offset is clamped to <= 0 because the format cannot hold another sign.
func (s search) scaleMin(x, weights []float32, levels []uint8, nmax int) (scale, minimum float32) {
	lowest, highest := extent(x)
	lowest = min(lowest, 0)
	if highest == lowest {
		clear(levels)
		return 0, -lowest
	}
	var sumW, sumX float32
	for i, v := range x {
		sumW += weights[i]
		sumX += float32(weights[i] * v)
	}
	top := float32(nmax)
	inv := top / (highest - lowest)
	scale, offset := 1/inv, lowest
	round(levels, x, inv, lowest, nmax)
	best := s.cost(x, weights, levels, scale, offset)
	var trial [32]uint8
	aux := trial[:len(x)]
	for i := range s.steps + 1 {
		// The offset of the best trial so far, not the smallest element: later trials start from the better place.
		inv = (s.rmin + float32(s.rdelta*float32(i)) + top) / (highest - offset)
		round(aux, x, inv, offset, nmax)
		var sumL, sumLL, sumXL float32
		for j, v := range x {
			wl := weights[j] * float32(aux[j])
			sumL += wl
			sumLL += float32(wl * float32(aux[j]))
			sumXL += float32(wl * v)
		}
		det := float32(sumW*sumLL) - float32(sumL*sumL)
		if det <= 0 {
			continue
		}
		tryScale := (float32(sumW*sumXL) - float32(sumX*sumL)) / det
		tryOffset := (float32(sumLL*sumX) - float32(sumL*sumXL)) / det
		if tryOffset > 0 {
			tryScale, tryOffset = sumXL/sumLL, 0
		}
		if c := s.cost(x, weights, aux, tryScale, tryOffset); c < best {
			best, scale, offset = c, tryScale, tryOffset
			copy(levels, aux)
		}
	}
	return scale, -offset
}

func (s search) cost(x, weights []float32, levels []uint8, scale, offset float32) float32 {
	var sum float32
	for i, v := range x {
		diff := float32(scale*float32(levels[i])) + offset - v
		if s.absolute {
			diff = abs(diff)
		} else {
			diff *= diff
		}
		sum += float32(weights[i] * diff)
	}
	return sum
}

// round fills levels with clamp(rne(inv*(x-offset)), 0, nmax).
func round(levels []uint8, x []float32, inv, offset float32, nmax int) {
	for i, v := range x {
		levels[i] = uint8(level(inv*(v-offset), nmax))
	}
}

// magnitudeWeights gives each element the weight rms(x)+|x|: large weights matter more, yet none is free.
func magnitudeWeights(weights, x []float32) {
	var sum float32
	for _, v := range x {
		sum += float32(v * v)
	}
	rms := float32(math.Sqrt(float64(sum / float32(len(x)))))
	for i, v := range x {
		weights[i] = rms + abs(v)
	}
}

// symmetricScale finds the scale so that scale*level approximates x with levels -nmax..nmax-1 over 19 trials around
// -nmax/signedMax(x). For fixed levels the best scale is Σwxl/Σwl², and the error falls with (Σwxl)²/Σwl², which is what
// the trials maximise. Without weights an element weighs x².
func symmetricScale(x, weights []float32, levels []int8, nmax int) float32 {
	largest := signedMax(x)
	if abs(largest) < tiny {
		clearLevels(levels, nmax)
		return 0
	}
	var scale, best float32
	// The plain scale comes first so that a trial has to be better, not equal, to replace it.
	for _, i := range [...]int{0, -9, -8, -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9} {
		inv := -(float32(nmax) + float32(0.1*float32(i))) / largest
		sumXL, sumLL := projections(x, weights, inv, nmax)
		if sumLL > 0 && (i == 0 || float32(sumXL*sumXL) > float32(best*sumLL)) {
			scale = sumXL / sumLL
			best = scale * sumXL
			for j, v := range x {
				levels[j] = clampSigned(nearest(inv*v), nmax)
			}
		}
	}
	return scale
}

// projections returns Σwxl and Σwl² for the levels that inv gives.
func projections(x, weights []float32, inv float32, nmax int) (sumXL, sumLL float32) {
	for i, v := range x {
		l := float32(clampSigned(nearest(inv*v), nmax))
		w := v * v
		if weights != nil {
			w = weights[i]
		}
		sumXL += float32(float32(w*v) * l)
		sumLL += float32(float32(w*l) * l)
	}
	return sumXL, sumLL
}

// descentScale is the search of Q3_K: start from the plain rounding, then change one level at a time while that raises
// (Σwxl)²/Σwl², in at most five passes.
func descentScale(x []float32, levels []int8, nmax int) float32 {
	largest := signedMax(x)
	if abs(largest) < tiny {
		clearLevels(levels, nmax)
		return 0
	}
	inv := -float32(nmax) / largest
	for i, v := range x {
		levels[i] = clampSigned(nearest(inv*v), nmax)
	}
	sumXL, sumLL := projections(x, nil, inv, nmax)
	for range 5 {
		changed := false
		for i, v := range x {
			w, l := v*v, float32(levels[i])
			restXL := sumXL - float32(float32(w*v)*l)
			if restXL <= 0 {
				continue
			}
			restLL := sumLL - float32(float32(w*l)*l)
			candidate := clampSigned(nearest(float32(v*restLL)/restXL), nmax)
			if candidate == levels[i] {
				continue
			}
			c := float32(candidate)
			restXL += float32(float32(w*v) * c)
			restLL += float32(float32(w*c) * c)
			if restLL > 0 && float32(float32(restXL*restXL)*sumLL) > float32(float32(sumXL*sumXL)*restLL) {
				levels[i], sumXL, sumLL, changed = candidate, restXL, restLL, true
			}
		}
		if !changed {
			break
		}
	}
	return ratio(sumXL, sumLL)
}

// requantize computes the levels again for the rounded scale and minimum. A zero scale leaves them: they decode to
// -minimum whatever they are.
func requantize(levels []uint8, x []float32, scale, minimum float32, nmax int) {
	if scale == 0 {
		return
	}
	for i, v := range x {
		levels[i] = uint8(level((v+minimum)/scale, nmax))
	}
}

// requantizeSymmetric is requantize for levels -nmax..nmax-1.
func requantizeSymmetric(levels []int8, x []float32, scale float32, nmax int) {
	if scale == 0 {
		return
	}
	for i, v := range x {
		levels[i] = clampSigned(nearest(v/scale), nmax)
	}
}

// level rounds x to the nearest of the levels 0..nmax.
func level(x float32, nmax int) int { return max(0, min(nmax, nearest(x))) }

// clearLevels sets the levels that are stored as zero bits, as the reference does for a group without a scale.
func clearLevels(levels []int8, nmax int) {
	for i := range levels {
		levels[i] = int8(-nmax)
	}
}

func clampSigned(l, nmax int) int8 { return int8(max(-nmax, min(nmax-1, l))) }

// nearest rounds to the nearest integer, ties to even. Values beyond ±2^22, where the reference would be undefined,
// saturate; every caller clamps to a few bits anyway.
func nearest(x float32) int {
	return int(math.RoundToEven(float64(max(-1<<22, min(1<<22, x)))))
}

// ratio is a/b, and 0 when b is 0.
func ratio(a, b float32) float32 {
	if b == 0 {
		return 0
	}
	return a / b
}
