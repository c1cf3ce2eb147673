package server

import (
	"bytes"
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"
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

	seen, seenHash uint64 // events that the client has from an earlier connection, and their hash
	held           []byte // those of them that were made again
	hash           hash.Hash64

	mu       sync.Mutex // a ping may come while an event is written
	opened   bool
	events   int
	closing  sync.Once
	stopPing chan struct{}
	pinging  sync.WaitGroup
}

func (s *Server) openStream(c *gin.Context, numbered bool) *stream {
	out := &stream{server: s, c: c, control: http.NewResponseController(c.Writer), numbered: numbered, hash: fnv.New64a(), stopPing: make(chan struct{})}
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
	var body, b bytes.Buffer
	if err := encode(&body, data); err != nil { // ends with a line feed
		return fmt.Errorf("server: event %s: %w", event, err)
	}
	if s.numbered {
		s.events++
		_, _ = fmt.Fprintf(s.hash, "%s\n%s", event, body.Bytes()) // a hash takes everything
		fmt.Fprintf(&b, "id: %s-%d-%016x\nevent: %s\n", requestID(s.c), s.events, s.hash.Sum64(), event)
	}
	fmt.Fprintf(&b, "data: %s\n", body.Bytes())
	if s.seen > 0 && uint64(s.events) <= s.seen {
		return s.catchUp(b.Bytes())
	}
	return s.write(b.Bytes())
}

// resume lets the stream go on behind the event with an id that an earlier connection got. Nothing is kept for that, on any server: the same request
// gives the same events, so they are made again, much of it from caches, and those that the client has are left out.
func (s *stream) resume(lastEventID string) {
	parts := strings.Split(lastEventID, "-")
	if len(parts) < 3 {
		return
	}
	seen, err := strconv.ParseUint(parts[len(parts)-2], 10, 31)
	sum, hashErr := strconv.ParseUint(parts[len(parts)-1], 16, 64)
	if err == nil && hashErr == nil {
		s.seen, s.seenHash = seen, sum
	}
}

// catchUp holds an event back that the client has. If it turns out that it has others, because documents changed meanwhile or the request is another
// one, the event restart tells it to forget them, and all follow.
func (s *stream) catchUp(event []byte) error {
	s.held = append(s.held, event...)
	if uint64(s.events) < s.seen {
		return nil
	}
	held := s.held
	s.held, s.seen = nil, 0
	if s.hash.Sum64() == s.seenHash {
		return nil
	}
	return s.write(append([]byte("event: restart\ndata: {}\n\n"), held...))
}

// release ends the wait for events that the client has and that did not come again.
func (s *stream) release() {
	if len(s.held) > 0 {
		_ = s.write(append([]byte("event: restart\ndata: {}\n\n"), s.held...)) // its only error is that the client left
		s.held, s.seen = nil, 0
	}
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
	if left(s.c) { // also: ended by net/http when the flush failed
		return context.Canceled
	}
	return nil
}

// close ends the pings; the handler's return ends the stream. It may be called again.
func (s *stream) close() {
	s.closing.Do(func() { close(s.stopPing) })
	s.pinging.Wait()
}

// fail closes the stream with err: as an ordinary response when nothing was sent yet, else as an event.
func (s *stream) fail(err error) {
	s.close()
	s.release()
	if !s.opened {
		s.server.fail(s.c, err)
		return
	}
	if left(s.c) { // the client left: nobody reads, and it is no error of ours
		return
	}
	_, detail := s.server.explain(s.c, err)
	if s.numbered {
		_ = s.send("error", detail)
		return
	}
	_ = s.send("", errorBody{detail})
}
