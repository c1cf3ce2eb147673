package kernel

import "math"

// maxBlockRows is the most rows that a kernel call handles.
const maxBlockRows = 8

// attnTile is a worker's memory for one tile of query rows that see the keys and values of one head. For each split
// of the history it computes scores, exponentials and weighted values of a block of rows at a time, so scores never
// take more than [maxBlockRows][splitTokens]. Scores are kept in units of log 2, which saves a multiplication per
// exponential.
type attnTile struct {
	kind              KVType // of the store; KVF32 for encoders
	rows, dim, padded int
	scale, softCap    float32

	lo, hi     []int     // positions that each row sees
	q          []float32 // [rows][dim], times scale
	sum        []float32 // [rows][padded] weighted values of the splits joined so far
	top, total []float32 // [rows] largest score, sum of 2^(score-top)

	scores    [maxBlockRows * splitTokens]float32
	part      []float32 // [maxBlockRows][padded] one split's weighted values
	partTop   [maxBlockRows]float32
	partTotal [maxBlockRows]float32 // 0: the row sees nothing of the split
	k, v      [splitPages]*byte
	next      [splitPages]*byte // blocks to prefetch while those of v are used
	ahead     int               // distance from the keys of a page to what to prefetch meanwhile
	further   int               // keys of 16 bits take twice the room of the values beside which they are prefetched
	kScale    [splitTokens]float32
	vScale    [splitTokens]float32
	unit      bool      // both scales are ones
	kf, vf    []float32 // [splitPages][dim][16] and [splitPages][16][padded]: converted pages
	rest      []float32 // of AttendBidirectional: the last rows of a sequence, filled up with zeros

	// Only for integer keys and values. Queries and weights become 16-bit integers, so that sums are exact and fast, and
	// lose little beside what the bits of keys and values lose.
	pairs  int       // D rounded up to an even number
	q16    []int16   // [rows][pairs]
	qScale []float32 // [rows]
	w16    [maxBlockRows * splitTokens]int16
	wScale [maxBlockRows]float32 // turns sums of w16 times values into sums of weights times values
}

// scoreScale returns the factor on q and the cap on scores. Without a cap the factor carries log2(e); with one, softCap
// applies it afterwards.
func scoreScale(scale, limit float32) (float32, float32) {
	if limit > 0 {
		return scale, limit
	}
	return float32(float64(scale) * log2e), 0
}

func (t *attnTile) size(kind KVType, rows, dim, padded int) {
	t.kind, t.rows, t.dim, t.padded, t.pairs = kind, rows, dim, padded, (dim+1)&^1
	if cap(t.lo) < rows {
		t.lo, t.hi = make([]int, rows), make([]int, rows)
		t.top, t.total = make([]float32, rows), make([]float32, rows)
	}
	t.lo, t.hi, t.top, t.total = t.lo[:rows], t.hi[:rows], t.top[:rows], t.total[:rows]
	t.sum = grow(t.sum, rows*padded)
	t.part = grow(t.part, maxBlockRows*padded)
	if kind.integer() {
		t.q16, t.qScale = grow(t.q16, rows*t.pairs), grow(t.qScale, rows)
	} else {
		t.q = grow(t.q, rows*dim)
	}
	t.reset()
}

// grow returns a slice of n elements of unspecified value, b's memory when it suffices.
func grow[T any](b []T, n int) []T {
	if cap(b) < n {
		return make([]T, n)
	}
	return b[:n]
}

// reset forgets the splits joined so far: a total of 0 marks an empty row.
func (t *attnTile) reset() { clear(t.total) }

// setRows makes rows [row, row+n) of consecutive heads of q, which see the positions [lo, hi).
func (t *attnTile) setRows(row, n int, q []float32, lo, hi int) {
	for i := row; i < row+n; i++ {
		t.lo[i], t.hi[i] = lo, hi
	}
	if t.kind.integer() {
		dst, scales := t.q16[row*t.pairs:], t.qScale[row:row+n]
		quantize16(dst, t.pairs, q, t.dim, scales, n, t.dim, t.kind.queryLimit(t.pairs))
		for i := range scales {
			scales[i] *= t.scale
			if t.pairs > t.dim {
				dst[i*t.pairs+t.dim] = 0
			}
		}
		return
	}
	dst := t.q[row*t.dim : (row+n)*t.dim]
	copy(dst, q)
	scale(dst, t.scale)
}

// pageRange returns the pages of a split, counted from its first, that some row sees.
func (t *attnTile) pageRange(split int) (from, to int) {
	lo, hi := t.bounds(0, t.rows, split*splitTokens)
	return lo / PageTokens, (hi + PageTokens - 1) / PageTokens
}

// bounds returns the union of what rows [row, row+n) see of the split at base, relative to base; lo >= hi if nothing.
func (t *attnTile) bounds(row, n, base int) (lo, hi int) {
	lo = splitTokens
	for i := row; i < row+n; i++ {
		l, h := t.clip(i, base)
		if l < h {
			lo, hi = min(lo, l), max(hi, h)
		}
	}
	return lo, hi
}

// clip returns what one row sees of the split at base, relative to base.
func (t *attnTile) clip(row, base int) (lo, hi int) {
	return max(t.lo[row]-base, 0), min(t.hi[row]-base, splitTokens)
}

func (t *attnTile) unitScales() {
	if t.unit {
		return
	}
	t.unit = true
	for i := range t.kScale {
		t.kScale[i], t.vScale[i] = 1, 1
	}
}

// pageGroup is the number of pages of keys that the kernels for scores take at a time.
const pageGroup = 4

// padGroups lets the groups at the ends of pages [from, to) refer to memory that may be read; their scores are not used.
func (t *attnTile) padGroups(from, to int) {
	for i := from &^ (pageGroup - 1); i < from; i++ {
		t.k[i] = t.k[from]
	}
	for i := to; i%pageGroup != 0; i++ {
		t.k[i] = t.k[to-1]
	}
}

// convert replaces pages [from, to) of halves by float32 copies.
func (t *attnTile) convert(from, to int) {
	kn, vn := PageTokens*t.dim, PageTokens*t.padded
	t.kf, t.vf = grow(t.kf, splitPages*kn), grow(t.vf, splitPages*vn)
	for i := from; i < to; i++ {
		k, v := t.kf[i*kn:(i+1)*kn], t.vf[i*vn:(i+1)*vn]
		widen(k, t.k[i])
		widen(v, t.v[i])
		t.k[i], t.v[i] = floatBytes(k), floatBytes(v)
	}
}

// split adds the split's share to every row that sees some of it.
func (t *attnTile) split(kind KVType, split int) {
	base := split * splitTokens
	for row := 0; row < t.rows; {
		n := blockRows(t.rows - row)
		lo, hi := t.bounds(row, n, base)
		if lo < hi {
			t.block(kind, row, n, base, lo, hi)
		}
		row += n
	}
}

// block handles rows [row, row+n), which see positions [lo, hi) after base between them.
func (t *attnTile) block(kind KVType, row, n, base, lo, hi int) {
	lo &^= PageTokens - 1
	from, to := lo/PageTokens, (hi+PageTokens-1)/PageTokens
	if kind.integer() {
		scoresInt(kind, t.scores[:], t.q16[row*t.pairs:], t.qScale[row:], n, t.pairs, &t.k, from, to, t.ahead, &t.kScale)
	} else {
		scores(kind, t.scores[:], t.q[row*t.dim:], n, t.dim, &t.k, from, to, t.ahead, &t.kScale)
	}
	t.weights(row, n, base, lo, hi)
	if kind.integer() {
		weighInt(kind, t.part, t.padded, t.w16[:], t.wScale[:], n, lo, hi, &t.v, &t.next, t.further)
	} else {
		weigh(kind, t.part, t.padded, t.scores[:], n, lo, hi, &t.v, &t.next)
	}
	for i := range n {
		if total := t.partTotal[i]; total != 0 {
			t.joinRow(row+i, t.part[i*t.padded:(i+1)*t.padded], t.partTop[i], total)
		}
	}
}

// weights turns the scores of n rows at positions [lo, hi) into exponentials relative to the largest score that the row
// sees, zero where it sees nothing. Position i always adds to lane i mod 16 of a total, wherever the visible part begins
// and ends.
func (t *attnTile) weights(row, n, base, lo, hi int) {
	if t.softCap > 0 {
		for i := range n {
			softCap(t.scores[i*splitTokens+lo:i*splitTokens+align16(hi)], t.softCap, float32(float64(t.softCap)*log2e))
		}
	}
	if lo == 0 && hi == splitTokens && t.seesAll(row, n, base) {
		t.powers(0, n, 0, splitTokens)
		return
	}
	for i := range n {
		s, w := t.scores[i*splitTokens:(i+1)*splitTokens], t.w16[i*splitTokens:(i+1)*splitTokens]
		l, h := t.clip(row+i, base)
		if l >= h {
			clear(s[lo:hi])
			clear(w[lo:align16(hi)])
			t.partTotal[i] = 0
			continue
		}
		from, to := l&^(PageTokens-1), align16(h)
		fill(s[from:l], negInf)
		fill(s[h:to], negInf)
		if lo < from {
			clear(s[lo:from])
			clear(w[lo:from])
		}
		if to < hi {
			clear(s[to:hi])
			clear(w[to:align16(hi)])
		}
		t.powers(i, 1, from, to-from)
	}
}

// powers computes the weights of n positions from the given one in some rows of the block. As integers they are as large
// as 16 bits and the sum of their products with values in 32 bits allow.
func (t *attnTile) powers(row, rows, from, n int) {
	s, scale, top, total := t.scores[row*splitTokens+from:], t.vScale[from:], t.partTop[row:], t.partTotal[row:]
	if !t.kind.integer() {
		expSplit(s, scale, rows, n, top, total)
		return
	}
	budget := math.MaxInt32/t.kind.valueLimit() - splitTokens // leaves room for what rounding adds
	expSplitInt(s, scale, rows, n, top, total, t.wScale[row:], t.w16[row*splitTokens+from:], maxInt16, budget)
}

// seesAll reports whether every one of the rows sees the whole split.
func (t *attnTile) seesAll(row, n, base int) bool {
	for i := row; i < row+n; i++ {
		if t.lo[i] > base || t.hi[i] < base+splitTokens {
			return false
		}
	}
	return true
}

var negInf = float32(math.Inf(-1))

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}

// joinRow adds one split to the row: both sides are rescaled to the larger maximum.
func (t *attnTile) joinRow(row int, part []float32, top, total float32) {
	sum := t.sum[row*t.padded : (row+1)*t.padded]
	if t.total[row] == 0 {
		copy(sum, part)
		t.top[row], t.total[row] = top, total
		return
	}
	most := max(t.top[row], top)
	a, b := exp2(t.top[row]-most), exp2(top-most)
	join(sum, part, a, b)
	t.top[row] = most
	t.total[row] = float32(t.total[row]*a) + float32(total*b)
}

// save writes the rows' sums, maxima and totals to b, in rows of the given width.
func (t *attnTile) save(b []float32, width int) {
	for row := range t.rows {
		dst := b[row*width : (row+1)*width]
		copy(dst, t.sum[row*t.padded:(row+1)*t.padded])
		dst[t.padded], dst[t.padded+1] = t.top[row], t.total[row]
	}
}

// join adds what save wrote.
func (t *attnTile) join(b []float32, width int) {
	for row := range t.rows {
		if src := b[row*width : (row+1)*width]; src[t.padded+1] != 0 {
			t.joinRow(row, src[:t.padded], src[t.padded], src[t.padded+1])
		}
	}
}

// finish writes rows [row, row+n) as consecutive heads of dst.
func (t *attnTile) finish(dst []float32, row, n int) {
	for i := range n {
		sum := t.sum[(row+i)*t.padded:][:t.dim]
		finish(dst[i*t.dim:(i+1)*t.dim], sum, 1/t.total[row+i])
	}
}
