package ingest

import (
	"slices"
	"time"
)

// Progress is a truthful count: DocumentsKnown and PassagesKnown grow while
// folders are still being read and documents still being split.
type Progress struct {
	Walking                    bool   // DocumentsKnown may still grow
	Path                       string // the document this event is about
	State                      State  // its new state
	Documents, DocumentsKnown  int    // live; all files found but the skipped ones
	Passages, PassagesKnown    int    // embedded; split so far
	Bytes, BytesKnown          int64  // of the documents that are split; of all that are to be worked on
	Skipped, Unchanged, Failed int
	Files                      []FileProgress // that are worked on, the oldest first
	PerSecond                  float64        // passages embedded, lately; 0 until that is known
	Remaining                  time.Duration  // until all is embedded, at that rate; 0 while it cannot be told
}

// Done is the share of the work that is finished, of what is known, from 0 to 1:
// embedding is nearly all of it.
func (p Progress) Done() float64 {
	if expected := p.expected(); expected > 0 {
		return min(1, float64(p.Passages)/expected)
	}
	return 0
}

// expected is how many passages there will be: those that are known, and as many
// for each byte that is not split yet as the split ones had.
func (p Progress) expected() float64 {
	if p.Bytes <= 0 || p.BytesKnown <= p.Bytes {
		return float64(p.PassagesKnown)
	}
	return float64(p.PassagesKnown) * float64(p.BytesKnown) / float64(p.Bytes)
}

// FileProgress is how far one document has come.
type FileProgress struct {
	Path                    string
	State                   State
	Passages, PassagesKnown int
}

// pace measures how fast passages are embedded, over the last half minute: the
// first ones pay for warming up, and what other work does to the machine changes.
type pace struct {
	samples []paceSample // in order of time
}

type paceSample struct {
	at       time.Time
	passages int
}

const (
	paceWindow = 30 * time.Second
	paceLeast  = 2 * time.Second // a shorter time says nothing
)

// rate takes a sample and returns passages per second; 0 when that cannot be told.
func (c *pace) rate(now time.Time, passages int) float64 {
	if n := len(c.samples); n == 0 || now.Sub(c.samples[n-1].at) >= paceWindow/100 {
		c.samples = append(c.samples, paceSample{now, passages})
	}
	c.samples = slices.DeleteFunc(c.samples, func(s paceSample) bool { return now.Sub(s.at) > paceWindow })
	if len(c.samples) == 0 {
		return 0
	}
	first := c.samples[0]
	if took := now.Sub(first.at); took >= paceLeast && passages > first.passages {
		return float64(passages-first.passages) / took.Seconds()
	}
	return 0
}

// measure fills in rate and remaining time.
func (p *Progress) measure(c *pace, now time.Time) {
	p.PerSecond, p.Remaining = c.rate(now, p.Passages), 0
	if p.PerSecond > 0 && !p.Walking && p.Bytes > 0 {
		p.Remaining = time.Duration((p.expected() - float64(p.Passages)) / p.PerSecond * float64(time.Second))
	}
}
