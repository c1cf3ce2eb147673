package sched

import (
	"slices"

	"ragd/llm/sample"
)

// group is a beam search: its members are the live beams, in the order of beams.Live, and advance together.
type group struct {
	leader  *sequence // the prompt, from which a search can start again
	beams   sample.Beams
	members []*sequence
	rows    [][]float32 // logits of the members, as far as gathered in this step
}

// members returns how many running sequences have to give way together with q.
func (q *sequence) members() int {
	if q.group == nil {
		return 1
	}
	return len(q.group.members)
}

// slots is q's share of MaxSeqs: the whole width of a request until its answers or beams run by themselves.
func (q *sequence) slots() int {
	switch {
	case q.group != nil:
		if q == q.group.members[0] {
			return q.req.Beams
		}
		return 0
	case q.generated() == 0:
		return q.req.width()
	}
	return 1
}

// restart returns a sequence that begins the search anew.
func (g *group) restart() *sequence {
	q := *g.leader
	return &q
}

// gather collects the logits of a beam and takes a step of the search when those of all beams are there.
func (s *Scheduler) gather(q *sequence, logits []float32) {
	if q.group == nil {
		leader := *q
		leader.tokens = slices.Clip(q.tokens)
		leader.lease, leader.computed = nil, 0
		q.group = &group{
			leader:  &leader,
			beams:   sample.Beams{Width: q.req.Beams, LengthPenalty: q.req.LengthPenalty, End: s.config.End, Alternatives: q.req.LogProbs},
			members: []*sequence{q},
		}
	}
	g := q.group
	g.rows = append(g.rows, logits)
	if len(g.rows) == len(g.members) {
		s.grow(g)
		g.rows = g.rows[:0]
	}
}

// grow extends the beams of g and shares the pages of parents among their children.
func (s *Scheduler) grow(g *group) {
	var masks [][]uint64
	if g.leader.matcher != nil {
		for _, m := range g.members {
			masks = append(masks, m.matcher.Mask())
		}
	}
	old := g.members
	g.members = nil
	for _, e := range g.beams.Step(g.rows, masks) {
		q := *old[e.Parent]
		q.tokens = append(slices.Clone(q.tokens), e.Token)
		q.lease = q.lease.Fork()
		if q.matcher != nil {
			q.matcher = q.matcher.Clone()
			if err := q.matcher.Accept(e.Token); err != nil {
				panic(err) // the mask has just allowed it
			}
		}
		g.members = append(g.members, &q)
	}
	for i := len(g.members) - 1; i >= 0; i-- {
		if m := g.members[i]; m.matcher != nil && m.matcher.Done() {
			g.beams.Finish(i)
			s.release(m)
			g.members = slices.Delete(g.members, i, i+1)
		}
	}
	for _, m := range old {
		s.release(m)
	}
	s.running = slices.DeleteFunc(s.running, func(q *sequence) bool { return q.lease == nil })
	s.running = append(s.running, g.members...)
	if g.beams.Done() || (len(g.members) > 0 && g.members[0].generated() >= g.leader.maxTokens) {
		s.conclude(g)
	}
}

// conclude reports the best hypotheses as if they had been generated in one go.
func (s *Scheduler) conclude(g *group) {
	for _, m := range g.members {
		s.release(m)
	}
	s.running = slices.DeleteFunc(s.running, func(q *sequence) bool { return q.lease == nil })
	best := g.beams.Best()
	if len(best) == 0 {
		s.fail(g.leader.req, errNoToken)
		return
	}
	for i := range g.leader.req.answers() {
		q := *g.leader
		q.answer, q.first = i, s.config.Now()
		why := Stop
		if i < len(best) { // a grammar can have fewer texts than answers were asked for; the others stay empty
			if !best[i].Ended {
				why = Length
			}
			for j, t := range best[i].Tokens {
				if !s.config.End(t) {
					q.tokens = append(q.tokens, t)
					e := Event{Request: q.req, Answer: i, Token: t, LogProb: best[i].LogProbs[j]}
					if best[i].Tops != nil {
						e.Top = best[i].Tops[j]
					}
					s.events = append(s.events, e)
				}
			}
		}
		s.finish(&q, why, nil)
	}
}
