package kernel

// AttendBidirectional is the attention of encoders over sequences packed one after the other: sequence s has the rows
// [starts[s], starts[s+1]) and attends within itself, in both directions. q and dst are [T][H*D], k and v [T][KV*D]; dst
// may be q. scale multiplies q·k. With a window w > 0 a row attends to rows at most w/2 away; 0 means all rows.
// The bits of a sequence's rows do not depend on its neighbours in the pack.
func AttendBidirectional(p *Pool, q, k, v, dst []float32, starts []int, heads, kvHeads, dim int, scale float32, window int) {
	if kvHeads <= 0 || dim <= 0 || heads < kvHeads || heads%kvHeads != 0 {
		panic("kernel: query heads must be a multiple of kv heads")
	}
	if len(starts) < 2 {
		return
	}
	total := starts[len(starts)-1]
	if min(len(q), len(dst)) < total*heads*dim || min(len(k), len(v)) < total*kvHeads*dim {
		panic("kernel: attention over buffers shorter than the pack")
	}
	r := encRun{q: q, k: k, v: v, dst: dst, heads: heads, kvHeads: kvHeads, dim: dim, window: window, scale: scale}
	per := max(1, encTileRows*kvHeads/heads)
	for s := range len(starts) - 1 {
		for at := starts[s]; at < starts[s+1]; at += per {
			for head := range kvHeads {
				r.tasks = append(r.tasks, encTask{starts[s], starts[s+1], at, min(at+per, starts[s+1]), head})
			}
		}
	}
	work := attnRuns.Get().(*attnRun)
	defer attnRuns.Put(work)
	r.tiles = work.workers(p.Threads())
	p.Run(len(r.tasks), r.do)
}

// encTileRows is the number of query rows that share one transposition of the keys.
const encTileRows = 256

type encRun struct {
	q, k, v, dst                []float32
	heads, kvHeads, dim, window int
	scale                       float32
	tasks                       []encTask
	tiles                       []attnTile
}

// encTask is rows [from, to) of the sequence [start, end), for one kv head.
type encTask struct{ start, end, from, to, head int }

func (r *encRun) do(task, worker int) {
	t, u := &r.tiles[worker], r.tasks[task]
	group := r.heads / r.kvHeads
	t.size(KVF32, (u.to-u.from)*group, r.dim, align16(r.dim))
	t.scale, t.softCap = scoreScale(r.scale, 0)
	at := func(row int) int { return row*r.heads*r.dim + u.head*group*r.dim }
	for row := u.from; row < u.to; row++ {
		lo, hi := u.start, u.end
		if r.window > 0 {
			lo, hi = max(lo, row-r.window/2), min(hi, row+r.window/2+1)
		}
		t.setRows((row-u.from)*group, group, r.q[at(row):], lo-u.start, hi-u.start)
	}
	t.unitScales()
	for split := range (u.end - u.start + splitTokens - 1) / splitTokens {
		if from, to := t.pageRange(split); from < to {
			r.pack(t, u, split, from, to)
			t.padGroups(from, to)
			t.split(KVF32, split)
		}
	}
	for row := u.from; row < u.to; row++ {
		t.finish(r.dst[at(row):], (row-u.from)*group, group)
	}
}

// pack lays pages [from, to) of a split out as a KVStore would. Slots past the sequence's end are zeros.
func (r *encRun) pack(t *attnTile, u encTask, split, from, to int) {
	kn, vn, stride := PageTokens*t.dim, PageTokens*t.padded, r.kvHeads*r.dim
	t.kf, t.vf = grow(t.kf, splitPages*kn), grow(t.vf, splitPages*vn)
	for i := from; i < to; i++ {
		first := u.start + split*splitTokens + i*PageTokens
		n := min(PageTokens, u.end-first)
		k, v, pitch := r.k[first*stride+u.head*r.dim:], r.v[first*stride+u.head*r.dim:], stride
		if n < PageTokens {
			k, v, pitch = t.padRows(k, v, n, stride), t.rest[PageTokens*t.dim:], t.dim
		}
		kp, vp := t.kf[i*kn:(i+1)*kn], t.vf[i*vn:(i+1)*vn]
		t.k[i], t.v[i] = floatBytes(kp), floatBytes(vp)
		transpose(kp, k, pitch, t.dim)
		for j := range PageTokens {
			copy(vp[j*t.padded:(j+1)*t.padded], v[j*pitch:][:r.dim])
			clear(vp[j*t.padded+r.dim : (j+1)*t.padded])
		}
	}
}

// padRows copies n rows of k and v to the halves of rest, which it fills up with zeros, and returns the first.
func (t *attnTile) padRows(k, v []float32, n, stride int) []float32 {
	t.rest = grow(t.rest, 2*PageTokens*t.dim)
	clear(t.rest)
	for j := range n {
		copy(t.rest[j*t.dim:(j+1)*t.dim], k[j*stride:])
		copy(t.rest[(PageTokens+j)*t.dim:(PageTokens+j+1)*t.dim], v[j*stride:])
	}
	return t.rest
}
