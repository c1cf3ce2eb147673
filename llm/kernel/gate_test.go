package kernel

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A stream's steps and an encoder's batch on one pool: the batch waits for the step, then gets its share before the next
// step, and no more. The order is that of events, not of clocks.
func TestBackgroundGetsItsShare(t *testing.T) {
	p := testPool(t, 2)
	background := p.Background()
	events := make(chan string, 10)
	next := func() string {
		select {
		case e := <-events:
			return e
		case <-time.After(10 * time.Second):
			return "nothing happened"
		}
	}

	p.Begin()
	background.Begin()
	running, gone := make(chan bool), make(chan bool)
	go func() {
		background.Run(1, func(int, int) { events <- "first kernel of the batch" })
		running <- true
		<-gone
		background.End()
	}()
	p.Run(1, func(int, int) { events <- "step" })
	require.Equal(t, "step", next())
	require.Empty(t, events, "the batch waits for the end of the step")
	p.End()
	require.Equal(t, "first kernel of the batch", next())
	<-running

	p.gate.mu.Lock()
	p.gate.owed = time.Hour
	p.gate.mu.Unlock()
	go func() {
		p.Begin()
		events <- "second step"
		p.End()
	}()
	background.Run(1, func(int, int) { events <- "second kernel of the batch" })
	require.Equal(t, "second kernel of the batch", next(), "the batch is owed time")
	p.gate.pay(time.Hour)
	require.Equal(t, "second step", next())
	p.gate.mu.Lock()
	p.gate.owed = time.Hour
	p.gate.mu.Unlock()
	gone <- true
	p.Begin() // nobody is left to be owed anything
	p.End()
	require.Zero(t, p.gate.owed)
}

func TestShareOfTheBackground(t *testing.T) {
	var g gate
	g.changed.L = &g.mu
	g.enterForeground()
	g.leaveForeground(g.since + time.Second)
	require.Zero(t, g.owed, "nobody is there")
	g.addBackground(1)
	g.foreground, g.since = 1, 0 // a pass that began at 0
	g.leaveForeground(10 * time.Millisecond)
	require.Equal(t, 5*time.Millisecond, g.owed)
	g.pay(2 * time.Millisecond)
	require.Equal(t, 3*time.Millisecond, g.owed)
	g.foreground = 2 // two engines on one pool: their time counts once
	g.leaveForeground(time.Minute)
	require.Equal(t, 3*time.Millisecond, g.owed)
	g.leaveForeground(time.Hour)
	require.Equal(t, maxOwed, g.owed)
	g.pay(time.Hour)
	require.Zero(t, g.owed)
}
