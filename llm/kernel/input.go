package kernel

import (
	"fmt"
	"math"
	"unsafe"
)

// inputTile is how many activation rows lie together: a multiple of what each kernel takes at a time (2, 3, 6 or 12).
// Within a tile the block comes first and the row second, so that a kernel walks memory forwards.
const inputTile = 48

// record is 32 activations of one row: int8 levels with a common scale, and everything a kernel needs beside them, in
// one cache line. The dot products start from the bit pattern of magic = 1.5*2^23, minus the zero point of the weights
// times the sum of the levels: read as a float, the result is magic+dot exactly, and a fused multiply-add with scale and
// -magic*scale turns it into float32(dot)*scale, rounded once, without a conversion instruction. For -magic*scale to be
// exact, scale has at most 22 significant bits.
type record struct {
	levels [blockElems]int8
	scale  float32
	offset float32  // -magic*scale
	sum    float32  // scale * sum of the levels, for the minima of the weights
	start  [3]int32 // magicBits - zero*sum for the zero points 8, 16 and 128
	halves [2]int32 // the same for zero point 32, for elements 0-15 and 16-31
}

const recordBytes = int(unsafe.Sizeof(record{}))

// maxActivation bounds what is quantized: blocks with larger values, infinities or NaNs get the scale NaN, which reaches
// every output that depends on them. Blocks below minActivation are zero.
const (
	maxActivation = 1e30
	minActivation = 1e-30
)

// Input holds activation rows in the forms that matrices multiply. The zero value is empty; memory is reused from one
// Set to the next. Set and MatMul calls on one Input must not overlap.
type Input struct {
	rows, cols int
	hasFloats  bool
	hasRecords bool
	floats     []float32 // tiles of [cols][tile rows]
	records    []record  // tiles of [cols/32][tile rows]
	scratch    []float32 // [threads][cols]: normalised rows
	floatMem   []byte
	recordMem  []byte
}

// Set prepares rows of cols activations, row t starting at x[t*stride], for multiplication with the given matrices (nil
// ones are ignored; with none, for every kind of matrix). x is not kept. A row's values do not depend on the others.
func (in *Input) Set(p *Pool, x []float32, stride, rows, cols int, ms ...*Matrix) {
	in.reset(rows, cols, ms)
	p.Run(in.tasks(p), func(task, _ int) {
		for t := task * in.perTask(p); t < min(rows, (task+1)*in.perTask(p)); t++ {
			in.setRow(t, x[t*stride:][:cols])
		}
	})
}

// SetRMSNorm is Set of rmsnorm(x)*w, computed as RMSNorm does.
func (in *Input) SetRMSNorm(p *Pool, x []float32, stride, rows, cols int, w []float32, eps float32, ms ...*Matrix) {
	in.reset(rows, cols, ms)
	if len(in.scratch) < p.Threads()*cols {
		in.scratch = make([]float32, p.Threads()*cols)
	}
	p.Run(in.tasks(p), func(task, worker int) {
		y := in.scratch[worker*cols:][:cols]
		for t := task * in.perTask(p); t < min(rows, (task+1)*in.perTask(p)); t++ {
			RMSNorm(y, x[t*stride:][:cols], w, eps)
			in.setRow(t, y)
		}
	})
}

// perTask is the number of rows that one task prepares: preparing a row takes about a microsecond.
func (in *Input) perTask(p *Pool) int {
	const few = 4
	return max(few, min(inputTile, (in.rows+4*p.Threads()-1)/(4*p.Threads())))
}

func (in *Input) tasks(p *Pool) int { return (in.rows + in.perTask(p) - 1) / in.perTask(p) }

// reset sizes the memory for the forms that the matrices need.
func (in *Input) reset(rows, cols int, ms []*Matrix) {
	in.rows, in.cols = rows, cols
	in.hasFloats, in.hasRecords = false, false
	known := false
	for _, m := range ms {
		if m == nil {
			continue
		}
		known = true
		if m.cols != cols {
			panic(fmt.Sprintf("kernel: input of %d columns for a matrix of %d", cols, m.cols))
		}
		if m.layout.kind == kindFloat {
			in.hasFloats = true
		} else {
			in.hasRecords = true
		}
	}
	if !known {
		in.hasFloats, in.hasRecords = true, cols%blockElems == 0
	}
	if n := 4 * rows * cols; in.hasFloats {
		if len(in.floatMem) < n {
			in.floatMem = alignedBytes(n)
		}
		in.floats = Float32s(in.floatMem[:n])
	}
	if n := rows * (cols / blockElems); in.hasRecords {
		if len(in.recordMem) < n*recordBytes {
			in.recordMem = alignedBytes(n * recordBytes)
		}
		in.records = unsafe.Slice((*record)(unsafe.Pointer(unsafe.SliceData(in.recordMem))), n)
	}
}

// tile returns where the tile of row t begins, as a row, how many rows it has and which of them t is.
func (in *Input) tile(t int) (start, rows, row int) {
	start = t / inputTile * inputTile
	return start, min(inputTile, in.rows-start), t - start
}

// setRow stores row t.
func (in *Input) setRow(t int, x []float32) {
	start, rows, row := in.tile(t)
	if in.hasFloats {
		dst := in.floats[start*in.cols:]
		for k, v := range x {
			dst[k*rows+row] = v
		}
	}
	if in.hasRecords {
		quantize(in.records[start*(in.cols/blockElems)+row:], rows, x)
	}
}

// set quantizes x, 32 values: levels are rounded to nearest, ties to even, in [-127, 127].
func (r *record) set(x []float32) {
	var bits uint32 // of the largest magnitude: as integers, NaN is above infinity
	for _, v := range x {
		bits = max(bits, math.Float32bits(v)&^(1<<31))
	}
	*r = record{}
	largest := math.Float32frombits(bits)
	var sums [2]int32
	switch {
	case !(largest <= maxActivation):
		r.scale = float32(math.NaN())
	case largest >= minActivation:
		toLevel := 127 / largest
		for i, v := range x {
			q := int32(math.RoundToEven(float64(v * toLevel)))
			r.levels[i] = int8(q)
			sums[i/16] += q
		}
		r.scale = math.Float32frombits(math.Float32bits(largest/127) &^ 3)
	}
	sum := sums[0] + sums[1]
	r.offset = -0x1.8p23 * r.scale
	r.sum = r.scale * float32(sum)
	r.start = [3]int32{magicBits - 8*sum, magicBits - 16*sum, magicBits - 128*sum}
	r.halves = [2]int32{magicBits - 32*sums[0], magicBits - 32*sums[1]}
}

// quantizeGeneric fills one record per 32 values of x; they are stride apart in dst.
func quantizeGeneric(dst []record, stride int, x []float32) {
	for b := range len(x) / blockElems {
		dst[b*stride].set(x[b*blockElems : (b+1)*blockElems])
	}
}
