package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
)

// pingEvery keeps proxies from closing a stream in which nothing happens for a while, as during the prefill of a long prompt.
const pingEvery = 15 * time.Second

// stream writes server-sent events to one client.
type stream struct {
	mu       sync.Mutex // a ping may come while an event is written
	c        *gin.Context
	control  *http.ResponseController
	named    bool // events carry a name; OpenAI-shaped streams have none
	stopPing chan struct{}
	pinging  sync.WaitGroup
}

// openStream sends the headers of an event stream. Close it.
func openStream(c *gin.Context, named bool) *stream {
	h := c.Writer.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	c.Writer.WriteHeader(http.StatusOK)
	s := &stream{c: c, control: http.NewResponseController(c.Writer), named: named, stopPing: make(chan struct{})}
	s.pinging.Go(s.ping)
	return s
}

func (s *stream) ping() {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if s.write(": ping\n\n") != nil {
				return
			}
		case <-s.stopPing:
			return
		}
	}
}

// send writes one event.
func (s *stream) send(event string, data any) error {
	body, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("server: encode event %s: %w", event, err)
	}
	if s.named {
		return s.write("event: " + event + "\ndata: " + string(body) + "\n\n")
	}
	return s.write("data: " + string(body) + "\n\n")
}

// writeTimeout bounds one write: a client that stops reading for longer loses its stream, not a server thread.
const writeTimeout = 30 * time.Second

func (s *stream) write(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The error of a writer without deadlines (a test recorder) is of no consequence.
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := s.c.Writer.WriteString(text); err != nil {
		return err
	}
	s.c.Writer.Flush()
	return nil
}

// close ends the pings; the handler's return ends the stream.
func (s *stream) close() {
	close(s.stopPing)
	s.pinging.Wait()
}
