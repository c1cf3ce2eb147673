package kernel

import (
	"math"
	"sync/atomic"
)

// ropeChunk is the number of positions whose angles are computed together.
const ropeChunk = 64

// maxRopeTable bounds the positions whose angles are kept, whatever the context: 32768 positions of 128 dimensions
// are 16 MiB (32 MiB in the interleaved order). Later positions are computed when they are met.
const maxRopeTable = 32768

// Rope rotates pairs of a head's leading dimensions by angles proportional to the position. One Rope serves every
// layer that shares its parameters; it is safe for concurrent use.
type Rope struct {
	dim    int
	neox   bool
	mscale float64
	freqs  []float64                   // [dim/2] radians per position
	table  []atomic.Pointer[[]float32] // per ropeChunk positions: rows of width(); filled when first met
}

// NewRope describes the rotation of pair i by the angle pos * freqScale * base^(-2i/dim) / factors[i].
//   - dim is the even number of leading dimensions of a head that rotate; the others stay as they are.
//   - factors has dim/2 entries, or is nil for all ones.
//   - neox pairs (i, i+dim/2), otherwise the pairs are (2i, 2i+1).
//   - mscale multiplies sines and cosines (YaRN, LongRoPE); 1 when unused.
//   - context is the number of positions expected; it only bounds the table that is kept.
//
// Angles are computed in float64, once per position.
func NewRope(dim int, base, freqScale float64, factors []float32, neox bool, mscale float32, context int) *Rope {
	if dim <= 0 || dim%2 != 0 || factors != nil && len(factors) != dim/2 {
		panic("kernel: rope needs an even number of dimensions and one factor per pair")
	}
	r := &Rope{dim: dim, neox: neox, mscale: float64(mscale), freqs: make([]float64, dim/2)}
	for i := range r.freqs {
		r.freqs[i] = freqScale * math.Pow(base, -2*float64(i)/float64(dim))
		if factors != nil {
			r.freqs[i] /= float64(factors[i])
		}
	}
	kept := min(max(context, 0), maxRopeTable)
	r.table = make([]atomic.Pointer[[]float32], (kept+ropeChunk-1)/ropeChunk)
	return r
}

// Apply rotates x, laid out [heads][dim], as position pos. dim is the head size, at least the rotated dimensions.
func (r *Rope) Apply(x []float32, heads, dim, pos int) {
	if dim < r.dim || len(x) < heads*dim || pos < 0 {
		panic("kernel: rope applied to too short a vector or a negative position")
	}
	row := r.row(pos)
	for h := range heads {
		head := x[h*dim : h*dim+r.dim]
		if r.neox {
			rotateHalves(head, row)
		} else {
			rotatePairs(head, row)
		}
	}
}

// width is the length of a table row. Halves: [dim/2] cosines, [dim/2] sines. Pairs: [dim] cosines, each twice, then
// [dim] sines, each twice with the first negated, so that a rotated vector is x*cos + swapped(x)*sin.
func (r *Rope) width() int {
	if r.neox {
		return r.dim
	}
	return 2 * r.dim
}

func (r *Rope) row(pos int) []float32 {
	width, chunk := r.width(), pos/ropeChunk
	if chunk >= len(r.table) {
		row := make([]float32, width)
		r.angles(row, pos)
		return row
	}
	rows := r.table[chunk].Load()
	if rows == nil {
		fresh := make([]float32, ropeChunk*width)
		for i := range ropeChunk {
			r.angles(fresh[i*width:(i+1)*width], chunk*ropeChunk+i)
		}
		r.table[chunk].Store(&fresh) // a concurrent store holds the same numbers
		rows = &fresh
	}
	at := pos % ropeChunk * width
	return (*rows)[at : at+width]
}

func (r *Rope) angles(row []float32, pos int) {
	for i, f := range r.freqs {
		sin64, cos64 := math.Sincos(float64(pos) * f)
		sin, cos := float32(sin64*r.mscale), float32(cos64*r.mscale)
		if r.neox {
			row[i], row[r.dim/2+i] = cos, sin
			continue
		}
		row[2*i], row[2*i+1] = cos, cos
		row[r.dim+2*i], row[r.dim+2*i+1] = -sin, sin
	}
}

// rotateHalvesGeneric rotates the pairs (lo[i], hi[i]).
func rotateHalvesGeneric(lo, hi, cos, sin []float32) {
	for i := range lo {
		a, b := lo[i], hi[i]
		lo[i] = float32(a*cos[i]) - float32(b*sin[i])
		hi[i] = float32(b*cos[i]) + float32(a*sin[i])
	}
}

// rotatePairsGeneric rotates the pairs (x[2i], x[2i+1]); the even entries of sin are negated.
func rotatePairsGeneric(x, cos, sin []float32) {
	for i := 0; i+1 < len(x); i += 2 {
		a, b := x[i], x[i+1]
		x[i] = float32(a*cos[i]) + float32(b*sin[i])
		x[i+1] = float32(b*cos[i+1]) + float32(a*sin[i+1])
	}
}
