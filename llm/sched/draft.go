package sched

import (
	"math"
	"time"
)

// history finds the longest earlier text that the tokens so far end with. What came after it is the best guess of what
// comes next, because answers over documents repeat their passages and themselves. It is the matcher of LZ77: chains of
// the places where the same few tokens ended.
type history struct {
	tokens []Token
	ended  map[[minMatch]Token]int32 // the last place where these tokens ended
	before []int32                   // per place: the one before with the same tokens, -1

	match  int // the tokens end like tokens[:match+1] …
	length int // … for this many; 0: no match
}

const (
	minMatch = 3  // shorter repetitions are accidents
	maxChain = 16 // places looked at
	maxMatch = 32 // beyond that a longer match says no more
)

func newHistory(tokens []Token) *history {
	h := &history{ended: make(map[[minMatch]Token]int32, len(tokens))}
	h.extend(tokens)
	return h
}

// extend appends the tokens that are new in all.
func (h *history) extend(all []Token) {
	for _, t := range all[len(h.tokens):] {
		h.push(t)
	}
}

func (h *history) push(t Token) {
	if h.length > 0 && h.tokens[h.match+1] == t {
		h.match, h.length = h.match+1, min(h.length+1, maxMatch)
	} else {
		h.length = 0
	}
	h.tokens = append(h.tokens, t)
	h.before = append(h.before, -1)
	at := len(h.tokens) - 1
	if at < minMatch-1 {
		return
	}
	key := [minMatch]Token(h.tokens[at-minMatch+1:])
	place, ok := h.ended[key]
	h.ended[key] = int32(at)
	if !ok {
		return
	}
	h.before[at] = place
	if h.length > 0 {
		return
	}
	for n := 0; place >= 0 && n < maxChain; n++ {
		if length := h.common(int(place)); length > h.length {
			h.match, h.length = int(place), length
		}
		place = h.before[place]
	}
}

// common returns how many tokens up to place equal the last ones.
func (h *history) common(place int) int {
	n, at := 0, len(h.tokens)-1
	for n <= place && n < maxMatch && h.tokens[place-n] == h.tokens[at-n] {
		n++
	}
	return n
}

// draft appends up to n guessed tokens to dst. A repetition that runs into its own end goes round again.
func (h *history) draft(dst []Token, n int) []Token {
	period := len(h.tokens) - 1 - h.match
	for i := range n {
		if from := h.match + 1 + i; from < len(h.tokens) {
			dst = append(dst, h.tokens[from])
		} else {
			dst = append(dst, dst[len(dst)-period])
		}
	}
	return dst
}

// speculation learns whether drafts pay: how often they are right, by the length of the match, and what a row costs.
type speculation struct {
	right [3]float64 // share of draft tokens that are accepted while all before them were

	// Decayed sums for the line through the cost of steps (seconds) over their rows.
	n, rows, cost, rows2, rowsCost float64
}

// usual is where right starts.
var usual = [3]float64{0.4, 0.6, 0.8}

func newSpeculation() speculation { return speculation{right: usual} }

// class sorts matches by length.
func class(length int) int {
	switch {
	case length < 6:
		return 0
	case length < 12:
		return 1
	}
	return 2
}

// learn books how many of a draft's tokens were accepted.
func (p *speculation) learn(length, drafted, accepted int) {
	r := &p.right[class(length)]
	for i := range min(drafted, accepted+1) {
		right := 0.0
		if i < accepted {
			right = 1
		}
		*r += (right - *r) / 32
	}
}

// rest brings a class that was found not to pay slowly back to another try.
func (p *speculation) rest(length int) {
	c := class(length)
	p.right[c] += (usual[c] - p.right[c]) / 256
}

// observe books a step without prompt tokens.
func (p *speculation) observe(rows int, elapsed time.Duration) {
	const decay = 0.98
	r, c := float64(rows), elapsed.Seconds()
	p.n, p.rows, p.cost = p.n*decay+1, p.rows*decay+r, p.cost*decay+c
	p.rows2, p.rowsCost = p.rows2*decay+r*r, p.rowsCost*decay+r*c
}

// rowCost returns what one more row costs, as a share of what a step costs without it. Before enough was seen it
// assumes that weights dominate.
func (p *speculation) rowCost() float64 {
	const assumed = 0.08
	spread := p.n*p.rows2 - p.rows*p.rows
	if p.n < 8 || spread < 0.5*p.n {
		return assumed
	}
	slope := max((p.n*p.rowsCost-p.rows*p.cost)/spread, 0)
	base := (p.cost - slope*p.rows) / p.n
	if base <= 0 {
		return 1
	}
	return slope / base
}

// size returns the length of a draft, at most most, that gets the most tokens out of the time of a step beside rows
// other ones; 0 when none pays.
func (p *speculation) size(length, rows, most int) int {
	right, row := p.right[class(length)], p.rowCost()
	best, gain := 0, 0.0
	for k := 0; k <= most; k++ {
		tokens := (1 - math.Pow(right, float64(k+1))) / (1 - min(right, 0.999))
		if g := (float64(rows) + tokens) / (1 + row*float64(rows+1+k)); g > gain+1e-9 {
			best, gain = k, g
		}
	}
	return best
}
