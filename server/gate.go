package server

import (
	"errors"
	"sync"
)

// Refusals of a [gate].
var (
	errFull     = errors.New("server: too many requests are under way")
	errStopping = errors.New("server: stopping")
)

// gate counts the API requests under way, bounds them, and closes for good when the server stops. The engine has a queue of its own; this bound also
// covers what comes before it, so that a flood is refused while it is cheap to refuse.
type gate struct {
	mu      sync.Mutex
	running int
	limit   int
	closed  bool
	empty   chan struct{} // closed when the gate is and nothing runs any more
}

func newGate(limit int) *gate { return &gate{limit: limit, empty: make(chan struct{})} }

// enter admits one request, which must leave.
func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return errStopping
	case g.running >= g.limit:
		return errFull
	}
	g.running++
	return nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.closed && g.running == 0 {
		close(g.empty)
	}
}

// close lets nobody in any more; the channel is closed when the last request has left.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.closed = true
		if g.running == 0 {
			close(g.empty)
		}
	}
	return g.empty
}

// load says how many requests are under way, how many may be, and whether the gate is closed.
func (g *gate) load() (running, limit int, closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running, g.limit, g.closed
}
