package server

import (
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"ragd/llm"
)

// pace refuses requests that would have to wait longer than people do: it knows from those before them how fast they end here. A bound of their number
// alone would be too small on a fast machine, or an answer that comes after minutes on a slow one.
type pace struct {
	patience time.Duration // longest wait
	free     int           // so many are always admitted: they are computed together

	mu      sync.Mutex
	running int
	since   time.Time     // when the last one ended, or the first of a busy time began
	each    time.Duration // between two ends while there is work, lately
}

// paceMemory is over how many requests the time between two ends is averaged.
const paceMemory = 16

// enter admits a request, which must leave, or says when to come back.
func (p *pace) enter(now time.Time) (retryAfter time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := time.Duration(p.running) * p.each; p.running >= p.free && wait > p.patience {
		return max(wait-p.patience, p.each, time.Second), false
	}
	if p.running == 0 {
		p.since = now
	}
	p.running++
	return 0, true
}

func (p *pace) leave(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	took := now.Sub(p.since)
	p.since = now
	if p.each == 0 {
		p.each = took
	}
	p.each += (took - p.each) / paceMemory
}

// paced passes a request on if it will not have to wait too long.
func (s *Server) paced(c *gin.Context) {
	retryAfter, ok := s.pace.enter(time.Now())
	if !ok {
		s.fail(c, &llm.BusyError{RetryAfter: retryAfter})
		return
	}
	defer func() { s.pace.leave(time.Now()) }()
	c.Next()
}
