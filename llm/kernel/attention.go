package kernel

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// splitTokens is the number of consecutive positions whose scores exist at a time. Every row sums over each split
// separately and then joins the splits in order of position, however the work was cut: this is what makes a row's
// bits independent of chunking, batching, threads and cached prefixes. Changing it changes results (in the last bits).
const splitTokens = 256

const splitPages = splitTokens / PageTokens

// attnTileRows is about the number of query rows, positions times heads, that share one pass over the history: enough that
// converting keys and values to float32 costs little beside using them, few enough for the cache nearest the core.
const attnTileRows = 96

// maxPartials bounds the floats that hold splits before they are joined (16 MiB).
const maxPartials = 4 << 20

// Attention is causal attention of one layer over the pages of a KVStore. Heads is a multiple of the store's kv heads;
// consecutive query heads share a kv head.
type Attention struct {
	KV      *KVStore
	Heads   int     // H
	Scale   float32 // multiplies q·k
	SoftCap float32 // scores become SoftCap*tanh(score/SoftCap); 0 = off
	Window  int     // a position attends to itself and the Window-1 before it; 0 = to all before it
}

// AttnSeq is one sequence's part of a batch: N queries at positions [Pos, Pos+N), whose keys and values are stored
// already.
type AttnSeq struct {
	Pages  []int32 // position p lives in slot p%16 of page Pages[p/16]; entries wholly outside every query's window are not looked at
	Pos, N int
	Q, Dst []float32 // row i at [i*Stride], [H*D] long; Dst may be Q
	Stride int

	K, V     []float32 // what KVStore.Append stores: row i at [i*KVStride], [KV*D] long
	KVStride int
}

// Run computes Dst = softmax(Scale * Q·K) V for every query of every sequence. The bits of a row depend only on its
// query and on the keys and values it sees.
func (a *Attention) Run(p *Pool, seqs []AttnSeq) {
	if a.Heads < a.KV.heads || a.Heads%a.KV.heads != 0 {
		panic("kernel: query heads must be a multiple of kv heads")
	}
	r := newAttnRun(a, p.Threads())
	defer r.release()
	for i := range seqs {
		r.add(&seqs[i])
	}
	r.plan(p.Threads())
	p.Run(len(r.tasks), r.do)
}

// sees returns the positions that a query at pos attends to.
func (a *Attention) sees(pos int) (lo, hi int) {
	if a.Window > 0 {
		lo = max(0, pos+1-a.Window)
	}
	return lo, pos + 1
}

// attnUnit is the work of one kv head for a few consecutive queries of one sequence.
type attnUnit struct {
	seq      *AttnSeq
	head     int
	start, n int // queries [start, start+n) of seq
	lo, hi   int // splits [lo, hi) that they see
	partials int // where the unit's unjoined splits begin, when it is cut
	pending  atomic.Int32
}

// attnTask is one unit, or one split of one unit.
type attnTask struct {
	unit  *attnUnit
	split int // -1: all
}

// attnRun is the plan and the memory of one Run.
type attnRun struct {
	*Attention
	group    int // query heads per kv head
	units    []attnUnit
	tasks    []attnTask
	partials []float32  // per split and row of a cut unit: [D'] sum, then maximum and total
	tiles    []attnTile // one per worker
	puts     []putTask  // of KVStore.Append
}

var attnRuns = sync.Pool{New: func() any { return new(attnRun) }}

func newAttnRun(a *Attention, threads int) *attnRun {
	r := attnRuns.Get().(*attnRun)
	r.Attention, r.group = a, a.Heads/a.KV.heads
	r.workers(threads)
	return r
}

// workers returns one tile per worker.
func (r *attnRun) workers(threads int) []attnTile {
	if len(r.tiles) < threads {
		r.tiles = make([]attnTile, threads)
	}
	return r.tiles
}

func (r *attnRun) release() {
	clear(r.units)
	clear(r.tasks)
	clear(r.puts)
	r.Attention, r.units, r.tasks, r.puts = nil, r.units[:0], r.tasks[:0], r.puts[:0]
	attnRuns.Put(r)
}

// add appends the units of one sequence, the last queries first: they see the longest history, and the short ones
// fill the gaps at the end.
func (r *attnRun) add(seq *AttnSeq) {
	if seq.N <= 0 {
		return
	}
	width := r.Heads * r.KV.dim
	if seq.Pos < 0 || (seq.Pos+seq.N+PageTokens-1)/PageTokens > len(seq.Pages) ||
		min(len(seq.Q), len(seq.Dst)) < (seq.N-1)*seq.Stride+width {
		panic("kernel: attention over queries that the page table or the buffers do not cover")
	}
	per := max(attnTileRows/r.group, 8)
	for start := (seq.N - 1) / per * per; start >= 0; start -= per {
		n := min(per, seq.N-start)
		first, _ := r.sees(seq.Pos + start)
		_, last := r.sees(seq.Pos + start + n - 1)
		for head := range r.KV.heads {
			r.units = append(r.units, attnUnit{
				seq: seq, head: head, start: start, n: n,
				lo: first / splitTokens, hi: (last + splitTokens - 1) / splitTokens,
			})
		}
	}
}

// plan makes a task of every unit, or of every split where there are too few units for all threads (one long
// conversation).
func (r *attnRun) plan(threads int) {
	row, total := r.KV.padded+2, 0
	for i := range r.units {
		u := &r.units[i]
		u.partials = total
		total += (u.hi - u.lo) * u.n * r.group * row
	}
	cut := threads > 1 && len(r.units) < 4*threads && total <= maxPartials
	if cut && len(r.partials) < total {
		r.partials = make([]float32, total)
	}
	for i := range r.units {
		u := &r.units[i]
		if !cut || u.hi-u.lo == 1 {
			r.tasks = append(r.tasks, attnTask{u, -1})
			continue
		}
		u.pending.Store(int32(u.hi - u.lo))
		for split := u.lo; split < u.hi; split++ {
			r.tasks = append(r.tasks, attnTask{u, split})
		}
	}
}

func (r *attnRun) do(task, worker int) {
	u, split, t := r.tasks[task].unit, r.tasks[task].split, &r.tiles[worker]
	r.load(t, u)
	if split < 0 {
		for split := u.lo; split < u.hi; split++ {
			r.attend(t, task, u, split)
		}
		r.store(t, u)
		return
	}
	r.attend(t, task, u, split)
	row := r.KV.padded + 2
	at := func(split int) []float32 {
		return r.partials[u.partials+(split-u.lo)*t.rows*row:][:t.rows*row]
	}
	t.save(at(split), row)
	if u.pending.Add(-1) > 0 {
		return
	}
	t.reset()
	for split := u.lo; split < u.hi; split++ { // the last to finish joins all, in order
		t.join(at(split), row)
	}
	r.store(t, u)
}

// load fills the tile with the unit's scaled queries: row i*group+g is query start+i, head g of the group.
func (r *attnRun) load(t *attnTile, u *attnUnit) {
	dim := r.KV.dim
	t.size(r.KV.kind, u.n*r.group, dim, r.KV.padded)
	t.scale, t.softCap = scoreScale(r.Scale, r.SoftCap)
	for i := range u.n {
		lo, hi := r.sees(u.seq.Pos + u.start + i)
		q := u.seq.Q[(u.start+i)*u.seq.Stride+u.head*r.group*dim:]
		t.setRows(i*r.group, r.group, q, lo, hi)
	}
}

func (r *attnRun) store(t *attnTile, u *attnUnit) {
	dim := r.KV.dim
	for i := range u.n {
		dst := u.seq.Dst[(u.start+i)*u.seq.Stride+u.head*r.group*dim:]
		t.finish(dst, i*r.group, r.group)
	}
}

// attend adds one split to every row of the tile.
func (r *attnRun) attend(t *attnTile, task int, u *attnUnit, split int) {
	s := r.KV
	from, to := t.pageRange(split)
	table := u.seq.Pages[split*splitPages:]
	for i := from; i < to; i++ {
		page := int(table[i])
		block := s.kBlock(page, u.head)
		t.k[i], t.v[i] = (*byte)(block), (*byte)(unsafe.Add(block, s.kBytes))
		if s.kind.integer() {
			k, v := s.scales(page, u.head)
			*(*[PageTokens]float32)(t.kScale[i*PageTokens:]) = *k
			*(*[PageTokens]float32)(t.vScale[i*PageTokens:]) = *v
		}
	}
	kind := s.kind
	if kind.integer() {
		t.unit = false
	} else {
		t.unitScales()
	}
	if kind == KVF16 && t.rows > maxBlockRows {
		t.convert(from, to) // worth it when several blocks of rows read the same pages
		kind = KVF32
	}
	t.padGroups(from, to)
	t.next, t.ahead, t.further = t.v, 0, 0
	if t.rows <= maxBlockRows { // memory is read once, and as fast as it comes: keep it busy
		t.ahead = s.kBytes
		if s.kind == KVMixed {
			t.further = PageTokens * s.padded
		}
		r.prefetch(t, from, to, task, u, split)
	}
	t.split(kind, split)
}

// prefetch guesses which keys this worker needs next: those of the unit's next split, or of the task that comes after the
// other workers have taken one each.
func (r *attnRun) prefetch(t *attnTile, from, to, task int, u *attnUnit, split int) {
	split++
	if r.tasks[task].split >= 0 || split == u.hi {
		task += len(r.tiles)
		if task >= len(r.tasks) {
			return
		}
		u, split = r.tasks[task].unit, max(r.tasks[task].split, r.tasks[task].unit.lo)
	}
	table := u.seq.Pages[split*splitPages:]
	for i := from; i < min(to, len(table)); i++ {
		if page := int(table[i]); page >= 0 && page < r.KV.pages {
			t.next[i] = (*byte)(r.KV.head(page, u.head))
		}
	}
}
