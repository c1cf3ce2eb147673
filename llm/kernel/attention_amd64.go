//go:build !purego

package kernel

import "unsafe"

// blockRows returns how many of the rows that are left to hand to the kernels: those whose accumulators fit the
// registers, and of these the number that keeps the multipliers busiest.
func blockRows(left int) int {
	switch {
	case active == AVX512 && left <= 8 || active == Generic:
		return min(left, maxBlockRows)
	}
	return min(left, 6)
}

// scores sets dst[r][16*p+i] = scale[16*p+i] * Σ_d q[r][d] * K_p[d][i] for pages p in [from, to), and may do so for the
// other pages of the groups of four that these belong to. Rows of dst are splitTokens apart, rows of q dim. It
// prefetches what lies ahead bytes behind the keys. kind is a float type.
func scores(kind KVType, dst, q []float32, rows, dim int, k *[splitPages]*byte, from, to, ahead int, scale *[splitTokens]float32) {
	if active == Generic {
		scoresGeneric(kind, dst, q, rows, dim, k, from, to, scale)
		return
	}
	from, to = wholeGroups(from, to)
	_ = dst[(rows-1)*splitTokens+to*PageTokens-1]
	d, x, p, s, n := &dst[from*PageTokens], &q[:rows*dim][0], &k[from], &scale[from*PageTokens], to-from
	switch {
	case active == AVX512 && kind == KVF32:
		scoresF32AVX512(d, x, p, s, rows, dim, n, ahead)
	case active == AVX512:
		scoresF16AVX512(d, x, p, s, rows, dim, n, ahead)
	case kind == KVF32:
		scoresF32AVX2(d, x, p, s, rows, dim, n, ahead)
	default:
		scoresF16AVX2(d, x, p, s, rows, dim, n, ahead)
	}
}

// scoresInt is scores for integer keys and 16-bit queries of pairs elements, an even number; results are also multiplied
// by qScale[r].
func scoresInt(kind KVType, dst []float32, q []int16, qScale []float32, rows, pairs int, k *[splitPages]*byte, from, to, ahead int, scale *[splitTokens]float32) {
	if active == Generic {
		scoresIntGeneric(kind, dst, q, qScale, rows, pairs, k, from, to, scale)
		return
	}
	from, to = wholeGroups(from, to)
	_ = dst[(rows-1)*splitTokens+to*PageTokens-1]
	d, x, f, p, s, n := &dst[from*PageTokens], &q[:rows*pairs][0], &qScale[:rows][0], &k[from], &scale[from*PageTokens], to-from
	switch {
	case active == AVX512 && kind == KVInt8:
		scoresInt8AVX512(d, x, f, p, s, rows, pairs, n, ahead)
	case active == AVX512:
		scoresInt16AVX512(d, x, f, p, s, rows, pairs, n, ahead)
	case kind == KVInt8:
		scoresInt8AVX2(d, x, f, p, s, rows, pairs, n, ahead)
	default:
		scoresInt16AVX2(d, x, f, p, s, rows, pairs, n, ahead)
	}
}

func wholeGroups(from, to int) (int, int) {
	return from &^ (pageGroup - 1), (to + pageGroup - 1) &^ (pageGroup - 1)
}

// weigh sets dst[r][d] = Σ_i w[r][i] * V[i][d] over positions i in [from, to), from a multiple of 16. Rows of dst are
// padded apart, rows of w splitTokens. It prefetches the blocks in next beside those of v. kind is a float type.
func weigh(kind KVType, dst []float32, padded int, w []float32, rows, from, to int, v, next *[splitPages]*byte) {
	if active == Generic {
		weighGeneric(kind, dst, padded, w, rows, from, to, v)
		return
	}
	_, _ = dst[rows*padded-1], w[(rows-1)*splitTokens+to-1]
	x, p, np := &w[0], &v[0], &next[0]
	for at := 0; at < padded; {
		strip := stripWidth(kind, rows, padded-at)
		d, offset := &dst[at], at*kind.valueBytes()
		switch {
		case active == AVX512 && kind == KVF32:
			weighF32AVX512(d, padded, x, rows, p, np, offset, from, to, strip)
		case active == AVX512:
			weighF16AVX512(d, padded, x, rows, p, np, offset, from, to, strip)
		case kind == KVF32:
			weighF32AVX2(d, padded, x, rows, p, np, offset, from, to, strip)
		default:
			weighF16AVX2(d, padded, x, rows, p, np, offset, from, to, strip)
		}
		at += strip
	}
}

// weighInt is weigh for integer values and 16-bit weights; results are also multiplied by wScale[r]. An odd to includes
// position to, whose weight must be 0. It prefetches what lies further bytes behind the parts of next, too.
func weighInt(kind KVType, dst []float32, padded int, w []int16, wScale []float32, rows, from, to int, v, next *[splitPages]*byte, further int) {
	if active == Generic {
		weighIntGeneric(kind, dst, padded, w, wScale, rows, from, to, v)
		return
	}
	_, _ = dst[rows*padded-1], w[(rows-1)*splitTokens+to-1]
	x, f, p, np := &w[0], &wScale[:rows][0], &v[0], &next[0]
	for at := 0; at < padded; {
		strip := stripWidth(kind, rows, padded-at)
		d, offset := &dst[at], 2*at*kind.valueBytes()
		switch {
		case active == AVX512 && kind == KVInt16:
			weighInt16AVX512(d, padded, x, f, rows, p, np, offset, from, to, strip, further)
		case active == AVX512:
			weighInt8AVX512(d, padded, x, f, rows, p, np, offset, from, to, strip, further)
		case kind == KVInt16:
			weighInt16AVX2(d, padded, x, f, rows, p, np, offset, from, to, strip, further)
		default:
			weighInt8AVX2(d, padded, x, f, rows, p, np, offset, from, to, strip, further)
		}
		at += strip
	}
}

// stripWidth returns the widest strip of values that a kernel for so many rows has and that still fits.
func stripWidth(kind KVType, rows, left int) int {
	widest := 64
	switch {
	case active == AVX512 && rows > 6:
		widest = 32
	case active == AVX2 && (rows > 3 || kind.integer()):
		widest = 16
	case active == AVX2:
		widest = 32
	}
	for widest > left {
		widest /= 2
	}
	return widest
}

// expSplit sets s[i] = 2^(s[i]-top) * scale[i] with top = max(s[:n]) for i in [0, n) of each row, and top[r] and
// total[r], the sum of the powers before scaling. n is a multiple of 16; rows are splitTokens apart.
func expSplit(s, scale []float32, rows, n int, top, total []float32) {
	_, _, _, _ = s[(rows-1)*splitTokens+n-1], scale[n-1], top[rows-1], total[rows-1]
	switch active {
	case AVX512:
		expSplitAVX512(&s[0], &scale[0], rows, n, &top[0], &total[0])
	case AVX2:
		expSplitAVX2(&s[0], &scale[0], rows, n, &top[0], &total[0])
	default:
		expSplitGeneric(s, scale, rows, n, top, total)
	}
}

// expSplitInt is expSplit with the scaled powers stored in w as integers, times 1/wScale[r]: none of a row exceeds limit,
// and their sum not budget. Rows of w are splitTokens apart, too. s is left undefined.
func expSplitInt(s, scale []float32, rows, n int, top, total, wScale []float32, w []int16, limit, budget float32) {
	_, _, _, _ = s[(rows-1)*splitTokens+n-1], scale[n-1], top[rows-1], total[rows-1]
	_, _ = wScale[rows-1], w[(rows-1)*splitTokens+n-1]
	switch active {
	case AVX512:
		expSplitIntAVX512(&s[0], &scale[0], rows, n, &top[0], &total[0], &wScale[0], &w[0], limit, budget)
	case AVX2:
		expSplitIntAVX2(&s[0], &scale[0], rows, n, &top[0], &total[0], &wScale[0], &w[0], limit, budget)
	default:
		expSplitIntGeneric(s, scale, rows, n, top, total, wScale, w, limit, budget)
	}
}

func join(sum, part []float32, a, b float32) {
	switch active {
	case AVX512:
		joinAVX512(&sum[0], &part[:len(sum)][0], len(sum), a, b)
	case AVX2:
		joinAVX2(&sum[0], &part[:len(sum)][0], len(sum), a, b)
	default:
		joinGeneric(sum, part, a, b)
	}
}

func finish(dst, sum []float32, s float32) {
	n := len(dst) &^ 15
	switch {
	case n == 0:
	case active == AVX512:
		finishAVX512(&dst[0], &sum[:n][0], n, s)
	case active == AVX2:
		finishAVX2(&dst[0], &sum[:n][0], n, s)
	default:
		n = 0
	}
	finishGeneric(dst[n:], sum[n:], s)
}

// widen converts stored halves to float32.
func widen(dst []float32, src *byte) {
	switch active {
	case AVX512:
		widenF16AVX512(&dst[0], src, len(dst))
	case AVX2:
		widenF16AVX2(&dst[0], src, len(dst))
	default:
		widenGeneric(KVF16, dst, src)
	}
}

// quantize8 and quantize16 set each row of dst to a row of x times the factor that maps its largest magnitude to limit,
// rounded, and scales[r] to the inverse; see quantizeRows. Pitches are in elements.
func quantize8(dst []int8, dstPitch int, x []float32, xPitch int, scales []float32, rows, n int, limit float32) {
	_, _, _ = dst[(rows-1)*dstPitch+n-1], x[(rows-1)*xPitch+n-1], scales[rows-1]
	switch {
	case n%16 != 0 || active == Generic:
		quantizeRows(dst, dstPitch, x, xPitch, scales, rows, n, limit)
	case active == AVX512:
		quantize8AVX512(&dst[0], dstPitch, &x[0], xPitch, &scales[0], rows, n, limit)
	default:
		quantize8AVX2(&dst[0], dstPitch, &x[0], xPitch, &scales[0], rows, n, limit)
	}
}

func quantize16(dst []int16, dstPitch int, x []float32, xPitch int, scales []float32, rows, n int, limit float32) {
	_, _, _ = dst[(rows-1)*dstPitch+n-1], x[(rows-1)*xPitch+n-1], scales[rows-1]
	switch {
	case n%16 != 0 || active == Generic:
		quantizeRows(dst, dstPitch, x, xPitch, scales, rows, n, limit)
	case active == AVX512:
		quantize16AVX512(&dst[0], dstPitch, &x[0], xPitch, &scales[0], rows, n, limit)
	default:
		quantize16AVX2(&dst[0], dstPitch, &x[0], xPitch, &scales[0], rows, n, limit)
	}
}

func toHalf(dst []uint16, x []float32) {
	n := len(x) &^ 15
	switch {
	case n == 0:
	case active == AVX512:
		toHalfAVX512(&dst[:n][0], &x[0], n)
	case active == AVX2:
		toHalfAVX2(&dst[:n][0], &x[0], n)
	default:
		n = 0
	}
	toHalfGeneric(dst[n:], x[n:])
}

// transpose sets dst[d*16+i] = src[i*stride+d] for 16 rows and the given number of columns.
func transpose(dst, src []float32, stride, columns int) {
	n := columns &^ 15
	_, _ = dst[columns*PageTokens-1], src[(PageTokens-1)*stride+columns-1]
	switch {
	case n == 0:
	case active == AVX512:
		transposeAVX512(&dst[0], &src[0], 4*stride, n)
	case active == AVX2:
		transposeAVX2(&dst[0], &src[0], 4*stride, n)
	default:
		n = 0
	}
	if n < columns {
		transposeGeneric(dst[n*PageTokens:], src[n:], stride, columns-n)
	}
}

// zip8 and zip16 store the elements of a and b in turn; len(a) is a multiple of 16.
func zip8(dst unsafe.Pointer, a, b []int8) {
	if active == Generic {
		zipGeneric(dst, a, b)
		return
	}
	zip8AVX2((*byte)(dst), &a[0], &b[:len(a)][0], len(a))
}

func zip16(dst unsafe.Pointer, a, b []int16) {
	if active == Generic {
		zipGeneric(dst, a, b)
		return
	}
	zip16AVX2((*byte)(dst), &a[0], &b[:len(a)][0], len(a))
}
