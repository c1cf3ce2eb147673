package server

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
)

// stream writes server-sent events to one client. It opens with the first event, so that until then an ordinary error response is possible, or with
// the first ping: a request that waits long, in the queue or for the prefill of a long prompt, must show proxies that it lives. Close it.
type stream struct {
	server   *Server
	c        *gin.Context
	control  *http.ResponseController
	numbered bool // events have a name and an id; OpenAI-shaped ones have neither

	mu       sync.Mutex // a ping may come while an event is written
	opened   bool
	events   int
	closing  sync.Once
	stopPing chan struct{}
	pinging  sync.WaitGroup
}

func (s *Server) openStream(c *gin.Context, numbered bool) *stream {
	out := &stream{server: s, c: c, control: http.NewResponseController(c.Writer), numbered: numbered, stopPing: make(chan struct{})}
	out.pinging.Go(out.ping)
	return out
}

func (s *stream) ping() {
	ticker := time.NewTicker(s.server.config.PingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if s.write([]byte(": ping\n\n")) != nil {
				return
			}
		case <-s.stopPing:
			return
		}
	}
}

// send writes one event.
func (s *stream) send(event string, data any) error {
	var b bytes.Buffer
	if s.numbered {
		s.events++
		fmt.Fprintf(&b, "id: %s-%d\nevent: %s\n", requestID(s.c), s.events, event)
	}
	b.WriteString("data: ")
	if err := encode(&b, data); err != nil { // ends with a line feed
		return fmt.Errorf("server: event %s: %w", event, err)
	}
	b.WriteByte('\n')
	return s.write(b.Bytes())
}

// write sends what a client must take within the write timeout: one that stops reading loses its stream, not a goroutine of the server.
func (s *stream) write(text []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened {
		s.opened = true
		h := s.c.Writer.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-store, no-transform") // no-transform: a proxy that compresses would hold events back
		h.Set("X-Accel-Buffering", "no")
		s.c.Writer.WriteHeader(http.StatusOK)
	}
	// A writer without deadlines (a test recorder) does without.
	_ = s.control.SetWriteDeadline(time.Now().Add(s.server.config.WriteTimeout))
	if _, err := s.c.Writer.Write(text); err != nil {
		return err
	}
	s.c.Writer.Flush()
	return s.c.Request.Context().Err() // ended by net/http when the flush failed
}

// close ends the pings; the handler's return ends the stream. It may be called again.
func (s *stream) close() {
	s.closing.Do(func() { close(s.stopPing) })
	s.pinging.Wait()
}

// fail closes the stream with err: as an ordinary response when nothing was sent yet, else as an event.
func (s *stream) fail(err error) {
	s.close()
	if !s.opened {
		s.server.fail(s.c, err)
		return
	}
	if s.c.Request.Context().Err() != nil { // the client left: nobody reads, and it is no error of ours
		return
	}
	_, detail := s.server.explain(s.c, err)
	if s.numbered {
		_ = s.send("error", detail)
		return
	}
	_ = s.send("", errorBody{detail})
}
