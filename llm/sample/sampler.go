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
	if s.penalises() {
		s.counts[id]++
	}
}

func (s *Sampler) penalises() bool {
	return s.p.PresencePenalty != 0 || s.p.FrequencyPenalty != 0 || (s.p.RepetitionPenalty != 0 && s.p.RepetitionPenalty != 1)
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
// alone.
func (s *Sampler) survivors(row []float32) []candidate {
	best := argMax(row)
	if best < 0 {
		return nil
	}
	top, inv := row[best], 1/s.p.Temperature
	floor := negInf
	if s.p.MinP > 0 {
		floor = float32(math.Log(float64(s.p.MinP)))
	}
	c := s.ws.cands[:0]
	for i, l := range row {
		if x := (l - top) * inv; x >= floor && l > negInf { // false for NaN
			c = append(c, candidate{int32(i), exp(x)})
		}
	}
	if top > math.MaxFloat32 { // +Inf: l-top is NaN everywhere
		c = append(c, candidate{best, 1})
	}
	s.ws.cands = c
	if k := s.p.TopK; k > 0 && k < len(c) {
		c = topK(c, k)
	}
	if p := float64(s.p.TopP); p > 0 && p < 1 {
		c = topP(c, p)
	}
	return c
}

// topK keeps the k heaviest candidates, sorted.
func topK(c []candidate, k int) []candidate {
	h := c[:k] // heap with the lightest survivor at the root
	for i := k/2 - 1; i >= 0; i-- {
		sink(h, i)
	}
	for _, x := range c[k:] {
		if byWeight(x, h[0]) < 0 {
			h[0] = x
			sink(h, 0)
		}
	}
	slices.SortFunc(h, byWeight)
	return h
}

func sink(h []candidate, i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if r := child + 1; r < len(h) && byWeight(h[r], h[child]) > 0 {
			child = r
		}
		if byWeight(h[child], h[i]) < 0 {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// topP keeps the smallest set of heaviest candidates whose share of the mass reaches p, in an order that depends on c alone.
// It selects instead of sorting: a flat distribution over a large vocabulary keeps nearly all of it.
func topP(c []candidate, p float64) []candidate {
	const mostRounds = 64 // far more than pivots from the middle need; beyond it the rest is sorted
	total := mass(c)
	target := p * total
	// All candidates lighter than this together weigh less than 1-p, so none of them is in the set. The factor leaves room
	// for rounding.
	c = heavierThan(c, (1-p)*total/float64(len(c))*(1-1e-6))
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

// heavierThan keeps the candidates of at least a weight, in their order.
func heavierThan(c []candidate, weight float64) []candidate {
	n := 0
	for _, x := range c {
		if float64(x.weight) >= weight {
			c[n] = x
			n++
		}
	}
	return c[:n]
}

// partition moves the candidates that come before a pivot by weight in front of it and returns its index. The pivot is the
// median of the first, the middle and the last candidate.
func partition(c []candidate) int {
	last := len(c) - 1
	middle := last / 2
	if byWeight(c[middle], c[0]) < 0 {
		c[middle], c[0] = c[0], c[middle]
	}
	if byWeight(c[last], c[0]) < 0 {
		c[last], c[0] = c[0], c[last]
	}
	if byWeight(c[middle], c[last]) < 0 {
		c[middle], c[last] = c[last], c[middle]
	}
	pivot, n := c[last], 0
	for i, x := range c[:last] {
		if byWeight(x, pivot) < 0 {
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
