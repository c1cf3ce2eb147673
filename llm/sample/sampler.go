package sample

import (
	"cmp"
	"math"
	"slices"
)

// Sampler chooses the tokens of one sequence.
type Sampler struct {
	p      Params
	stream uint64
	counts map[int32]int32 // how often each token was generated
	ws     *Workspace
}

// Workspace is scratch memory of the size of the vocabulary. Samplers that are used by one goroutine share it.
type Workspace struct {
	logits []float32 // modified copy of a row
	cands  []candidate
}

// candidate is a token that is still in the race. weight is proportional to its probability.
type candidate struct {
	id     int32
	weight float32
}

// byWeight orders the most probable first, ties by id.
func byWeight(a, b candidate) int {
	return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.id, b.id))
}

// before is byWeight(a, b) < 0, for loops over a vocabulary.
func before(a, b candidate) bool {
	return a.weight > b.weight || a.weight == b.weight && a.id < b.id
}

// New returns a sampler. Sequences that share a seed but must differ (several answers to one prompt) get different
// streams.
func New(p Params, stream int, ws *Workspace) *Sampler {
	return &Sampler{p: p, stream: uint64(stream), counts: map[int32]int32{}, ws: ws}
}

// Sample returns the token for the given position of the answer (0 is the first generated token), or -1 when no token
// is possible. mask has bit t set where token t is allowed; nil allows all. logits is not modified.
func (s *Sampler) Sample(logits []float32, mask []uint64, position int) int32 {
	row := s.modify(logits, mask)
	if s.p.Greedy() {
		return argMax(row)
	}
	return draw(s.survivors(row), uniform(s.p.Seed, s.stream, uint64(position)))
}

// Accept counts a generated token for the penalties.
func (s *Sampler) Accept(id int32) {
	if s.p.Penalises() {
		s.counts[id]++
	}
}

// modify applies bias, mask and penalties. It returns logits itself when there is nothing to do.
func (s *Sampler) modify(logits []float32, mask []uint64) []float32 {
	if len(s.p.LogitBias) == 0 && mask == nil && len(s.counts) == 0 {
		return logits
	}
	s.ws.logits = append(s.ws.logits[:0], logits...)
	row := s.ws.logits
	for id, bias := range s.p.LogitBias {
		if int(id) < len(row) && id >= 0 {
			row[id] += bias
		}
	}
	for id, n := range s.counts {
		l := row[id]
		if r := s.p.RepetitionPenalty; r != 0 {
			if l > 0 {
				l /= r
			} else {
				l *= r
			}
		}
		row[id] = l - s.p.PresencePenalty - s.p.FrequencyPenalty*float32(n)
	}
	if mask != nil {
		applyMask(row, mask)
	}
	return row
}

func applyMask(row []float32, mask []uint64) {
	for w := 0; w*64 < len(row); w++ {
		var allowed uint64
		if w < len(mask) {
			allowed = mask[w]
		}
		if allowed == ^uint64(0) {
			continue
		}
		chunk := row[w*64 : min(w*64+64, len(row))]
		for i := range chunk {
			if allowed>>i&1 == 0 {
				chunk[i] = negInf
			}
		}
	}
}

var negInf = float32(math.Inf(-1))

// argMax returns the lowest id with the highest logit; NaN and -Inf never win. -1: there is none.
func argMax(row []float32) int32 {
	best, id := negInf, int32(-1)
	for i, l := range row {
		if l > best {
			best, id = l, int32(i)
		}
	}
	return id
}

// survivors applies temperature, min-p, top-k and top-p. The order of the result depends on the row and the parameters
// alone. A vocabulary has up to 262144 tokens, so weights are computed for those that can still survive.
func (s *Sampler) survivors(row []float32) []candidate {
	best := argMax(row)
	if best < 0 {
		return nil
	}
	c, top, inv := s.ws.cands[:0], row[best], 1/s.p.Temperature
	if top > math.MaxFloat32 { // +Inf: the differences are NaN
		s.ws.cands = append(c, candidate{best, 1})
		return s.ws.cands
	}
	floor := float32(expMin) // lighter ones weigh nothing
	if s.p.MinP > 0 {
		floor = max(floor, float32(math.Log(float64(s.p.MinP))))
	}
	k, p := s.p.TopK, float64(s.p.TopP)
	cut := p > 0 && p < 1
	var total float64
	if k > 0 && k < len(row) {
		c = topK(c, row, top, inv, floor, k)
		total = mass(c)
	} else {
		if cut {
			// All tokens lighter than this together weigh less than 1-p, so top-p keeps none of them. The factor leaves
			// room for rounding.
			total = expSum(row, top, inv, floor)
			floor = max(floor, float32(math.Log((1-p)*total/float64(len(row))*(1-1e-5))))
		}
		for i, l := range row {
			if x := (l - top) * inv; x >= floor { // false for NaN
				c = append(c, candidate{int32(i), exp(x)})
			}
		}
	}
	s.ws.cands = c
	if cut {
		c = topP(c, p*total)
	}
	return c
}

// topK appends to c, which is empty, the k heaviest tokens of at least the floor, sorted.
func topK(c []candidate, row []float32, top, inv, floor float32, k int) []candidate {
	for i, l := range row { // weight holds the exponent; once full, c is a heap with the lightest at the root
		x := (l - top) * inv
		switch {
		case !(x >= floor) || len(c) == k && x <= c[0].weight: // of equals the lower id stays
		case len(c) < k:
			if c = append(c, candidate{int32(i), x}); len(c) == k {
				for at := k/2 - 1; at >= 0; at-- {
					sink(c, at)
				}
			}
		default:
			c[0] = candidate{int32(i), x}
			sink(c, 0)
		}
	}
	slices.SortFunc(c, byWeight)
	for i := range c {
		c[i].weight = exp(c[i].weight)
	}
	return c
}

func sink(h []candidate, i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if r := child + 1; r < len(h) && before(h[child], h[r]) {
			child = r
		}
		if before(h[child], h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// topP keeps the smallest set of heaviest candidates that weighs at least target, in an order that depends on c alone. It
// selects instead of sorting: of a flat distribution over a large vocabulary nearly all is kept.
func topP(c []candidate, target float64) []candidate {
	const mostRounds = 64          // far more than pivots from the middle need; beyond it the rest is sorted
	in, out, sum := 0, len(c), 0.0 // c[:in] is in the set and weighs sum, c[out:] is not
	for round := 0; out-in > 1; round++ {
		if round == mostRounds {
			slices.SortFunc(c[in:out], byWeight)
			for sum += float64(c[in].weight); sum < target && in+1 < out; sum += float64(c[in].weight) {
				in++
			}
			return c[:in+1]
		}
		pivot := in + partition(c[in:out])
		heavier := mass(c[in:pivot])
		switch with := heavier + float64(c[pivot].weight); {
		case sum+heavier >= target:
			out = pivot
		case sum+with >= target:
			return c[:pivot+1]
		default:
			in, sum = pivot+1, sum+with
		}
	}
	return c[:out]
}

// partition moves the candidates that come before a pivot by weight in front of it and returns its index. The pivot is the
// median of the first, the middle and the last candidate.
func partition(c []candidate) int {
	last := len(c) - 1
	middle := last / 2
	if before(c[middle], c[0]) {
		c[middle], c[0] = c[0], c[middle]
	}
	if before(c[last], c[0]) {
		c[last], c[0] = c[0], c[last]
	}
	if before(c[middle], c[last]) {
		c[middle], c[last] = c[last], c[middle]
	}
	pivot, n := c[last], 0
	for i, x := range c[:last] {
		if before(x, pivot) {
			c[n], c[i] = c[i], c[n]
			n++
		}
	}
	c[n], c[last] = c[last], c[n]
	return n
}

func mass(c []candidate) float64 {
	sum := 0.0
	for _, x := range c {
		sum += float64(x.weight)
	}
	return sum
}

// draw picks the candidate in whose share of the mass u of [0,1) falls; -1: there is none.
func draw(c []candidate, u float64) int32 {
	target, sum := u*mass(c), 0.0
	id := int32(-1)
	for _, x := range c {
		if x.weight == 0 {
			continue
		}
		id = x.id // the last one also serves when rounding leaves target at the very end
		if sum += float64(x.weight); sum > target {
			break
		}
	}
	return id
}
