package sched

import "time"

// pace turns time into tokens: it learns what a step costs and sizes the pieces of prompts accordingly.
type pace struct {
	prefill time.Duration // per prompt token
	decode  time.Duration // a step without prompt tokens
}

const (
	// streamStep bounds a step while somebody is reading: the pause between two of their tokens.
	streamStep = 150 * time.Millisecond
	// quietStep bounds a step when nobody is: the time until a new or cancelled request is noticed.
	quietStep = 400 * time.Millisecond
	// Weights are read once per step, so tiny pieces waste bandwidth; large ones need memory for activations.
	minChunk, maxChunk = 16, 512
	firstChunk         = 64 // before anything was measured
	smoothing          = 4  // a new measurement weighs 1/4
)

// chunk returns how many prompt tokens the next step may compute beside the given number of decoding rows, a multiple
// of 8: the row count of the matrix kernels.
func (p *pace) chunk(decoding int) int {
	if p.prefill == 0 {
		return firstChunk
	}
	budget := quietStep
	if decoding > 0 {
		budget = streamStep - p.decode
	}
	n := int(budget/p.prefill) &^ 7
	return min(max(n, minChunk), maxChunk)
}

// observe learns from a step.
func (p *pace) observe(prefill, decoding int, elapsed time.Duration) {
	mean := func(old *time.Duration, x time.Duration) {
		if *old == 0 {
			*old = x
		} else {
			*old += (x - *old) / smoothing
		}
	}
	switch {
	case prefill == 0 && decoding > 0:
		mean(&p.decode, max(elapsed, 1))
	case prefill >= minChunk:
		if decoding > 0 {
			elapsed -= p.decode
		}
		mean(&p.prefill, max(elapsed/time.Duration(prefill), time.Microsecond))
	}
}

// retryAfter estimates when a place in the queue becomes free: the work of the queue, divided by its length.
func (p *pace) retryAfter(waiting []*sequence, slots int) time.Duration {
	var work time.Duration
	for _, q := range waiting {
		work += time.Duration(q.pending())*p.prefill + time.Duration(q.maxTokens)*p.decode/time.Duration(slots)
	}
	return min(max(work/time.Duration(len(waiting)), time.Second), time.Minute)
}

// share is what each namespace has received, in units of a prompt token.
type share struct{ served map[string]float64 }

// decodeWeight is the cost of a generated token: it occupies a step of its own, a prompt token only a row of one.
const decodeWeight = 4

// maxNamespaces bounds the memory for namespaces that are not active.
const maxNamespaces = 4096

// enter lifts a namespace that was idle to the least served active one: idling earns no credit.
func (f *share) enter(ns string, active map[string]bool) {
	if active[ns] {
		return
	}
	if len(f.served) >= maxNamespaces {
		for name := range f.served {
			if !active[name] {
				delete(f.served, name)
			}
		}
	}
	least, any := 0.0, false
	for name := range active {
		if v := f.served[name]; !any || v < least {
			least, any = v, true
		}
	}
	f.served[ns] = max(f.served[ns], least)
}

func (f *share) charge(ns string, tokens float64) { f.served[ns] += tokens }
