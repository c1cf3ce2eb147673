package kernel

import (
	"sync"
	"time"
)

// gate shares the threads of a pool between foreground passes, for whose tokens somebody is waiting one by one, and
// background passes. The runs of both could simply take turns, but a run of an encoder's batch takes as long as many runs
// of a decoding step: the tokens of a stream would come several times as slowly while documents are read. So background runs
// wait while a foreground pass is on, and are owed a share of its time, which the next foreground pass waits for.
type gate struct {
	mu         sync.Mutex
	changed    sync.Cond
	foreground int           // passes in progress
	since      time.Duration // when the first of them began
	background int           // passes in progress
	owed       time.Duration // to background passes
}

const (
	backgroundShare = 2                     // background passes are owed 1/2 of the time of foreground passes: a third of the whole
	maxOwed         = 50 * time.Millisecond // the longest pause between two steps of a stream
)

// enterForeground waits until what is owed to background passes is paid or none of them is left.
func (g *gate) enterForeground() {
	g.mu.Lock()
	for g.background > 0 && g.owed > 0 {
		g.changed.Wait()
	}
	if g.foreground++; g.foreground == 1 {
		g.since = now()
	}
	g.mu.Unlock()
}

func (g *gate) leaveForeground(at time.Duration) {
	g.mu.Lock()
	if g.foreground--; g.foreground == 0 && g.background > 0 {
		g.owed = min(g.owed+(at-g.since)/backgroundShare, maxOwed)
	}
	g.mu.Unlock()
	g.changed.Broadcast()
}

// waitForForeground holds a background run up while foreground passes are on.
func (g *gate) waitForForeground() {
	g.mu.Lock()
	for g.foreground > 0 {
		g.changed.Wait()
	}
	g.mu.Unlock()
}

// pay books the time of a background run.
func (g *gate) pay(elapsed time.Duration) {
	g.mu.Lock()
	g.owed = max(g.owed-elapsed, 0)
	g.mu.Unlock()
	g.changed.Broadcast()
}

func (g *gate) addBackground(n int) {
	g.mu.Lock()
	g.background += n
	if g.background == 0 {
		g.owed = 0 // nobody is there to claim it
	}
	g.mu.Unlock()
	g.changed.Broadcast()
}

// Background returns a view of p for work that streams of tokens go before, like the embedding of documents. Its runs
// get about a third of the time while foreground passes follow each other, and all of it while there are none.
func (p *Pool) Background() *Pool { return &Pool{crew: p.crew, background: true} }

// Begin announces that the caller will call Run several times on end, until it calls End. In the foreground it waits until
// background passes had their share. Passes must not be nested.
func (p *Pool) Begin() {
	if p.background {
		p.gate.addBackground(1)
	} else {
		p.gate.enterForeground()
	}
}

// End ends what Begin began.
func (p *Pool) End() {
	if p.background {
		p.gate.addBackground(-1)
	} else {
		p.gate.leaveForeground(now())
	}
}
