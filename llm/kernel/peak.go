package kernel

import "time"

// measureBytes is far beyond any cache share of one process, and measureRuns picks the best of several passes: others
// can only slow a pass down.
const (
	measureBytes = 256 << 20
	measureRuns  = 8
)

// MeasureReadBandwidth returns how many bytes per second all threads of the pool together read from huge-page memory
// that is in no cache: the bound of decoding.
func MeasureReadBandwidth(p *Pool) float64 {
	a := NewArena()
	defer a.Close()
	mem := a.Alloc(measureBytes + 1<<20) // the loop prefetches a little beyond its end
	const piece = 1 << 20
	p.Run(len(mem)/piece, func(task, _ int) {
		for i := task * piece; i < (task+1)*piece; i += 4096 {
			mem[i] = 1
		}
	})
	d := best(func() {
		p.Run(measureBytes/piece, func(task, _ int) { readBytes(mem[task*piece : (task+1)*piece]) })
	})
	return measureBytes / d.Seconds()
}

// MeasureInt8Peak returns the int8 operations per second (two per multiplication with addition) that all threads of the
// pool together reach without touching memory: the bound of prompt processing.
func MeasureInt8Peak(p *Pool) float64 {
	const loops, pieces = 1 << 12, 64
	perLoop := peakDotOps()
	d := best(func() {
		p.Run(pieces*p.Threads(), func(int, int) { peakDot(loops) })
	})
	return float64(loops*pieces*p.Threads()*perLoop) / d.Seconds()
}

// best returns the shortest of measureRuns runs.
func best(f func()) time.Duration {
	shortest := time.Duration(1<<63 - 1)
	for range measureRuns {
		start := time.Now()
		f()
		shortest = min(shortest, time.Since(start))
	}
	return shortest
}

// peakGeneric is the integer dot product of plain Go, 32 pairs at a time.
func peakGeneric(n int) int32 {
	var w [blockElems]uint8
	var a [blockElems]int8
	var sum int32
	for i := range n {
		w[i%blockElems]++
		for k := range w {
			sum += int32(w[k]) * int32(a[k])
		}
	}
	return sum
}

func readGeneric(b []byte) uint64 {
	var sum uint64
	for i := 0; i+8 <= len(b); i += 8 {
		sum += le.Uint64(b[i:])
	}
	return sum
}
