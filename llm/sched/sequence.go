package sched

import (
	"slices"
	"time"

	"ragd/llm/grammar"
	"ragd/llm/kvcache"
	"ragd/llm/sample"
)

// sequence is one row of tokens: an answer in the making, or one beam.
//
// tokens[:computed] are in the cache through lease; tokens[computed:target()] are still to be computed.
type sequence struct {
	req       *Request
	answer    int
	tokens    []Token // prompt, then generated (or scored) tokens
	maxTokens int
	computed  int
	scored    int // of Request.Score, events already sent

	lease   *kvcache.Lease // nil while waiting
	sampler *sample.Sampler
	matcher *grammar.Matcher
	group   *group   // of a beam
	history *history // for drafts; nil before the first

	order    int64 // of submission
	admitted int64 // order of first admission; 0: never

	cachedTokens int // found in the cache at first admission
	submitted    time.Time
	started      time.Time // first admission
	first        time.Time // first token
}

// generated returns how many tokens were generated so far.
func (q *sequence) generated() int { return len(q.tokens) - len(q.req.Prompt) }

// target is how many tokens have to be computed: all, except that the last scored token needs no logits after it.
func (q *sequence) target() int {
	if len(q.req.Score) > 0 {
		return len(q.tokens) - 1
	}
	return len(q.tokens)
}

func (q *sequence) pending() int { return q.target() - q.computed }

// decoding reports whether q needs just the row of its newest token.
func (q *sequence) decoding() bool {
	return q.pending() == 1 && q.generated() > 0 && len(q.req.Score) == 0
}

// lookup is what the cache may serve: for scoring, the position before the next token to score must be computed.
func (q *sequence) lookup() []Token {
	if len(q.req.Score) > 0 {
		return q.tokens[:len(q.req.Prompt)+q.scored]
	}
	return q.tokens
}

// before reports whether q ranks higher than p: it is planned first and preempted last.
func (q *sequence) before(p *sequence) bool {
	if q.req.Priority != p.req.Priority {
		return q.req.Priority > p.req.Priority
	}
	if q.admitted != p.admitted {
		return q.admitted < p.admitted
	}
	return q.answer < p.answer
}

// admit takes q from the waiting list and gives it the cached part of its tokens. It returns false, with nothing
// changed, when the rest does not fit beside what is running.
func (s *Scheduler) admit(q *sequence) bool {
	q.lease = s.cache.Acquire(q.req.Namespace, q.lookup())
	q.computed = q.lease.Len()
	need := kvcache.PagesFor(q.target()) - len(q.lease.Pages()) + len(s.running) // each running one may want a page soon
	if len(s.running) > 0 && s.cache.Available() < need {
		s.release(q)
		return false
	}
	if q.admitted == 0 {
		s.order++
		q.admitted = s.order
		q.started = s.config.Now()
		q.cachedTokens = q.computed
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(p *sequence) bool { return p == q })
	s.running = append(s.running, q)
	return true
}

// release gives the pages of q back; what was computed stays cached.
func (s *Scheduler) release(q *sequence) {
	if q.lease != nil {
		q.lease.Release(q.tokens[:q.computed])
		q.lease, q.computed = nil, 0
	}
}

// preempt puts q, with all beams of its group, back into the waiting list. Generated tokens are kept and their keys and
// values recomputed; a beam search starts again and takes the same course.
func (s *Scheduler) preempt(q *sequence) {
	s.stats.Preemptions++
	victims := []*sequence{q}
	if q.group != nil {
		victims = q.group.members
	}
	for _, v := range victims {
		s.release(v)
	}
	s.running = slices.DeleteFunc(s.running, func(p *sequence) bool { return p.lease == nil })
	s.unplan()
	if q.group != nil {
		q = q.group.restart()
	}
	s.waiting = append(s.waiting, q)
}

// unplan takes sequences that gave their pages back out of the batch.
func (s *Scheduler) unplan() {
	s.items = slices.DeleteFunc(s.items, func(it item) bool { return it.seq.lease == nil })
}

// finish ends q with an event.
func (s *Scheduler) finish(q *sequence, why Finish, err error) {
	s.events = append(s.events, Event{Request: q.req, Answer: q.answer, Token: -1, Finish: why, Usage: s.usage(q), Err: err})
	s.release(q)
	s.running = slices.DeleteFunc(s.running, func(p *sequence) bool { return p == q })
	s.stats.Finished++
}

// fail ends all of r's answers with one error.
func (s *Scheduler) fail(r *Request, err error) {
	s.Cancel(r)
	s.stats.Cancelled--
	s.stats.Finished++
	s.events = append(s.events, Event{Request: r, Token: -1, Err: err})
}

func (s *Scheduler) usage(q *sequence) Usage {
	now := s.config.Now()
	u := Usage{PromptTokens: len(q.req.Prompt), CachedTokens: q.cachedTokens, OutputTokens: q.generated() - len(q.req.Score)}
	started, first := q.started, q.first
	if started.IsZero() {
		started = now
	}
	if first.IsZero() {
		first = now
	}
	u.Queue, u.Prefill, u.Decode = started.Sub(q.submitted), first.Sub(started), now.Sub(first)
	u.FirstToken = first.Sub(q.submitted)
	return u
}
