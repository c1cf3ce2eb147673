package kernel

import "time"

// measureTime is how long a measurement repeats its work, and the best of these passes counts: others can only slow a
// pass down.
const measureTime = 300 * time.Millisecond

// MeasureReadBandwidth returns how many bytes per second all threads of the pool together read from huge-page memory,
// most of which is in no cache.
func MeasureReadBandwidth(p *Pool) float64 { return MeasureRereadBandwidth(p, 256<<20) }

// MeasureRereadBandwidth returns how many bytes per second all threads of the pool together read from nbytes of
// huge-page memory, again and again: the bound of decoding with weights of that size, part of which a cache may hold.
func MeasureRereadBandwidth(p *Pool, nbytes int) float64 {
	const piece = 1 << 20
	nbytes = max(nbytes, piece) / piece * piece
	a := NewArena()
	defer a.Close()
	mem := a.Alloc(nbytes + piece) // the loop prefetches a little beyond its end
	p.Run(len(mem)/piece, func(task, _ int) {
		for i := task * piece; i < (task+1)*piece; i += 4096 {
			mem[i] = 1
		}
	})
	d := best(func() {
		p.Run(nbytes/piece, func(task, _ int) { readBytes(mem[task*piece : (task+1)*piece]) })
	})
	return float64(nbytes) / d.Seconds()
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

// best returns the shortest run within measureTime; the first one only touches the memory.
func best(f func()) time.Duration {
	f()
	shortest := time.Duration(1<<63 - 1)
	for begin := time.Now(); time.Since(begin) < measureTime; {
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
