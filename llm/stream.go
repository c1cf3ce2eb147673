package llm

import (
	"context"
	"iter"
	"strings"
	"sync"

	"ragd/llm/sched"
)

// Event is one generated token, or text that was held back until the end (Token is -1).
type Event struct {
	Answer  int // which of several answers
	Token   Token
	Text    string // newly complete UTF-8; may be empty
	LogProb float32
	Top     []Alternative
}

// Usage says what a request cost. With several answers OutputTokens is the sum and the times are those of the last one.
type Usage = sched.Usage

// Stream delivers one request's events. The engine never waits for its reader.
type Stream struct {
	cancel func(error)
	stop   func()

	mu      sync.Mutex
	queue   []Event
	usage   Usage
	reasons []sched.Finish // per answer; empty while it has not ended
	err     error
	open    int // answers that have not ended
	ready   chan struct{}
}

func newStream(answers int) *Stream {
	return &Stream{reasons: make([]sched.Finish, answers), open: answers, ready: make(chan struct{}, 1)}
}

// Events yields the events in order. After an error, which is yielded last, there are no more. Leaving the loop early
// cancels the request.
func (s *Stream) Events() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			events, ended, err := s.take()
			for _, e := range events {
				if !yield(e, nil) {
					s.cancel(context.Canceled)
					return
				}
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			if ended {
				return
			}
		}
	}
}

// Text reads the events to the end and returns the text of a single answer.
func (s *Stream) Text() (string, error) {
	var text strings.Builder
	for event, err := range s.Events() {
		if err != nil {
			return "", err
		}
		text.WriteString(event.Text)
	}
	return text.String(), nil
}

// Stop ends the answers where they stand, as a stop string would: tokens that were made meanwhile still arrive, the events
// end without an error, and Usage is complete. Beams are delivered when they end, so there is nothing to stop.
func (s *Stream) Stop() { s.stop() }

// take waits for events and returns all there are.
func (s *Stream) take() (events []Event, ended bool, err error) {
	for {
		s.mu.Lock()
		events, s.queue = s.queue, nil
		ended, err = s.open == 0, s.err
		s.mu.Unlock()
		if len(events) > 0 || ended {
			return events, ended, err
		}
		<-s.ready
	}
}

// Usage returns the cost of the request, complete when the events have ended.
func (s *Stream) Usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usage
}

// FinishReason returns "stop" (the model ended, a stop string came, the grammar was complete), "length" (MaxTokens), or
// "" while the answer has not ended or after an error.
func (s *Stream) FinishReason() string { return s.FinishReasonOf(0) }

// FinishReasonOf is FinishReason for one of several answers.
func (s *Stream) FinishReasonOf(answer int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.reasons[answer])
}

// send queues an event.
func (s *Stream) send(e Event) {
	s.update(func() { s.queue = append(s.queue, e) })
}

// finish ends one answer.
func (s *Stream) finish(answer int, why sched.Finish, u Usage) {
	s.update(func() {
		u.OutputTokens += s.usage.OutputTokens
		s.usage, s.reasons[answer] = u, why
		s.open--
	})
}

// fail ends all answers; the first error counts.
func (s *Stream) fail(err error) {
	s.update(func() { s.err, s.open = err, 0 })
}

// update changes the stream unless it has ended.
func (s *Stream) update(change func()) {
	s.mu.Lock()
	if s.open > 0 {
		change()
	}
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

func (s *Stream) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open == 0
}
