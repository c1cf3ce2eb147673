package sched

import (
	"errors"
	"fmt"

	"ragd/llm/sample"
)

// Step computes one batch and returns what came of it. The slice is valid until the next call. Without work it returns
// nil at once. If the model fails, the requests of the batch fail and the scheduler goes on.
func (s *Scheduler) Step() []Event {
	clear(s.events)
	s.events = s.events[:0]
	for len(s.items) == 0 { // a round plans nothing only when everybody gave way; the next one admits somebody
		if s.Idle() {
			return s.events
		}
		s.plan()
	}
	prefill, decoding := s.build()
	begin := s.config.Now()
	err := s.model.Forward(&s.batch)
	elapsed := s.config.Now().Sub(begin)
	s.pace.observe(prefill, decoding, elapsed)
	if prefill == 0 {
		s.guess.observe(decoding, elapsed)
	}
	s.stats.Steps++
	s.stats.PrefillTokens += int64(prefill)
	s.stats.DecodeTokens += int64(decoding)
	s.stats.MaxRows = max(s.stats.MaxRows, prefill+decoding)
	if err != nil {
		for _, it := range s.items {
			if it.seq.lease != nil {
				s.fail(it.seq.req, fmt.Errorf("llm: forward pass: %w", err))
			}
		}
	} else {
		s.apply()
	}
	s.items = s.items[:0]
	return s.events
}

// apply books the computed tokens and uses the logits.
func (s *Scheduler) apply() {
	row := 0
	for _, it := range s.items {
		q := it.seq
		rows := s.rows(row, it.out)
		row += it.out
		if q.lease == nil {
			continue // failed a moment ago, together with another answer of its request
		}
		if q.decoding() {
			s.share.charge(q.req.Namespace, decodeWeight)
		} else {
			s.share.charge(q.req.Namespace, float64(it.n))
		}
		if len(it.draft) > 0 {
			s.verify(it, rows)
			continue
		}
		q.computed = it.pos + it.n
		if it.n > 1 {
			q.lease.Commit(q.tokens[:q.computed])
		}
		switch {
		case it.out == 0:
		case len(q.req.Score) > 0:
			s.score(q, rows)
		case q.req.Beams > 1:
			s.gather(q, rows[0])
		case q.generated() == 0:
			s.fork(q, rows[0])
		default:
			s.advance(q, rows[0])
		}
	}
}

// verify samples after each token of a draft as long as the draft is right, and takes the rest of it back.
func (s *Scheduler) verify(it item, rows [][]float32) {
	q, accepted := it.seq, 0
	for i, logits := range rows {
		q.computed = it.pos + i + 1
		s.advance(q, logits)
		if q.lease == nil { // ended
			break
		}
		if i == len(it.draft) || q.tokens[q.computed] != it.draft[i] {
			q.lease.Truncate(q.computed)
			break
		}
		accepted++
	}
	s.stats.Accepted += int64(accepted)
	s.guess.learn(q.history.length, len(it.draft), accepted)
}

// rows returns the logits of out rows [from, from+n).
func (s *Scheduler) rows(from, n int) [][]float32 {
	rows := make([][]float32, n)
	for i := range rows {
		rows[i] = s.batch.Logits[(from+i)*s.config.Vocab:][:s.config.Tokens]
	}
	return rows
}

// fork starts the other answers of q's request: they share its pages and the logits of its prompt.
func (s *Scheduler) fork(q *sequence, logits []float32) {
	all := []*sequence{q}
	for i := 1; i < q.req.answers(); i++ {
		f := *q
		f.answer = i
		f.tokens = append(make([]Token, 0, len(q.tokens)+16), q.tokens...)
		f.lease = q.lease.Fork()
		f.sampler = sample.New(q.req.Sampling, i, &s.ws)
		if q.matcher != nil {
			f.matcher = q.matcher.Clone()
		}
		all = append(all, &f)
		s.running = append(s.running, &f)
	}
	for _, f := range all {
		if f.lease != nil { // nil: an answer before it failed the request
			s.advance(f, logits)
		}
	}
}

// advance chooses q's next token from the logits after its last one.
func (s *Scheduler) advance(q *sequence, logits []float32) {
	t := s.choose(q, logits)
	if t < 0 {
		s.fail(q.req, errNoToken)
		return
	}
	if q.generated() == 0 {
		q.first = s.config.Now()
	}
	if q.matcher != nil {
		if err := q.matcher.Accept(t); err != nil {
			s.fail(q.req, err)
			return
		}
	}
	if s.config.End(t) {
		s.finish(q, Stop, nil)
		return
	}
	q.sampler.Accept(t)
	q.tokens = append(q.tokens, t)
	e := Event{Request: q.req, Answer: q.answer, Token: t}
	if q.req.LogProbs > 0 { // it costs a pass over the vocabulary
		e.LogProb, e.Top = sample.LogProb(logits, t), sample.Top(logits, q.req.LogProbs)
	}
	s.events = append(s.events, e)
	switch {
	case q.matcher != nil && q.matcher.Done():
		s.finish(q, Stop, nil)
	case q.generated() >= q.maxTokens:
		s.finish(q, Length, nil)
	}
}

// errNoToken has no remedy at hand: either the model's numbers are broken, or the grammar cannot be spelled with the
// vocabulary.
var errNoToken = errors.New("llm: no token is possible: the model returned no usable logits, or its vocabulary cannot spell what the grammar demands")

// choose samples. A greedy choice under a grammar is tried without the mask first: it nearly always is allowed, and a
// mask costs a walk over the vocabulary.
func (s *Scheduler) choose(q *sequence, logits []float32) Token {
	if q.matcher == nil {
		return q.sampler.Sample(logits, nil, q.generated())
	}
	if q.req.Sampling.Greedy() {
		if t := q.sampler.Sample(logits, nil, q.generated()); t >= 0 && q.matcher.Allows(t) {
			return t
		}
	}
	return q.sampler.Sample(logits, q.matcher.Mask(), q.generated())
}

// score reports the log-probabilities of the next tokens of Request.Score.
func (s *Scheduler) score(q *sequence, rows [][]float32) {
	if q.scored == 0 {
		q.first = s.config.Now()
	}
	for _, logits := range rows {
		t := q.req.Score[q.scored]
		s.events = append(s.events, Event{Request: q.req, Token: t, LogProb: sample.LogProb(logits, t)})
		q.scored++
	}
	if q.scored == len(q.req.Score) {
		s.finish(q, Stop, nil)
	}
}
