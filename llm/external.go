package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ragd/llm/external"
	"ragd/llm/sched"
)

var (
	// ErrExternal: the external engine cannot be reached, refuses, or did not finish its answer. The text says which.
	ErrExternal = errors.New("llm: the external engine failed")
	// ErrNoLogits: what was asked for needs the probabilities of tokens, which an external engine does not give.
	ErrNoLogits = errors.New("llm: not available while an external engine writes the answers")
)

// ExternalConfig says which engine writes in place of a model of this process.
type ExternalConfig struct {
	external.Config
	ContextTokens int          // of its model, or less; 0: 4096
	MaxSeqs       int          // requests that it gets at a time, more are told to come back; 0: 64
	Logger        *slog.Logger // nil: silent
}

// remote is an engine behind an API.
type remote struct {
	*external.Client
	max                                    int
	running, submitted, finished, canceled atomic.Int64
	prompted, written                      atomic.Int64 // tokens
	all                                    sync.WaitGroup

	mu       sync.Mutex
	lost     bool      // the last contact failed
	asked    time.Time // when it was last asked whether it is back
	stopping bool
}

// Connect returns an engine whose answers an OpenAI-compatible server writes. It does not contact the server: one that is down makes the engine
// unhealthy, and requests fail with ErrExternal until it is back. It takes Request.Messages; Score, and requests that need the probabilities of
// tokens (grammar, beams, several answers, log-probabilities, biases), fail with ErrNoLogits. Tokenizer, Chat and Vocab are nil.
func Connect(c ExternalConfig) (*Engine, error) {
	client, err := external.New(c.Config)
	if err != nil {
		return nil, fmt.Errorf("llm: %w", err)
	}
	e := &Engine{logger: c.Logger, memory: Memory{ContextTokens: cmp.Or(c.ContextTokens, defaultContext)}}
	if e.logger == nil {
		e.logger = slog.New(slog.DiscardHandler)
	}
	e.remote = &remote{Client: client, max: cmp.Or(c.MaxSeqs, 64), lost: true} // not known to be there
	return e, nil
}

// External returns the address of the engine that writes in place of a model of this process, "" when there is none.
func (e *Engine) External() string {
	if e.remote == nil {
		return ""
	}
	return e.remote.Address()
}

// CountTokens returns how many tokens a text has: exactly, or for an external engine, whose vocabulary is not known, one for three bytes, which is more
// than most texts have.
func (e *Engine) CountTokens(text string) int {
	if e.remote != nil {
		return (len(text) + 2) / 3
	}
	return len(e.tok.Encode(text, false, false))
}

// check refuses what an external engine cannot do.
func (*remote) check(r Request) error {
	for what, asked := range map[string]bool{
		"a grammar": r.Grammar != nil, "beams": r.Beams > 1, "several answers": r.Answers > 1, "log-probabilities": r.LogProbs > 0,
		"biases of tokens": len(r.Sampling.LogitBias) > 0, "a prompt of tokens": len(r.Prompt) > 0,
	} {
		if asked {
			return fmt.Errorf("%w: %s", ErrNoLogits, what)
		}
	}
	return nil
}

// generate asks the server and follows its answer.
func (x *remote) generate(ctx context.Context, r Request) (*Stream, error) {
	if err := x.check(r); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stopping {
		return nil, ErrClosed
	}
	if x.running.Load() >= int64(x.max) {
		return nil, &BusyError{RetryAfter: 2 * time.Second}
	}
	x.running.Add(1)
	x.submitted.Add(1)
	call, cancel := context.WithCancelCause(ctx)
	s := newStream(1)
	s.cancel = func(cause error) { s.fail(cause); cancel(cause) }
	s.stop = func() { cancel(errEnough) }
	detach := context.AfterFunc(ctx, func() { s.fail(context.Cause(ctx)) })
	x.all.Go(func() {
		defer cancel(nil)
		defer detach()
		defer x.running.Add(-1)
		x.follow(call, s, requestOf(r), r.Stop)
	})
	return s, nil
}

// errEnough ends an answer where it stands.
var errEnough = errors.New("llm: the reader has enough")

func requestOf(r Request) external.Request {
	q := external.Request{MaxTokens: r.MaxTokens, Temperature: r.Sampling.Temperature, TopP: r.Sampling.TopP, Seed: r.Sampling.Seed,
		PresencePenalty: r.Sampling.PresencePenalty, FrequencyPenalty: r.Sampling.FrequencyPenalty, Stop: r.Stop, ResponseFormat: r.ResponseFormat}
	for _, m := range r.Messages {
		q.Messages = append(q.Messages, external.Message{Role: m.Role, Content: m.Content})
	}
	return q
}

// follow passes an answer on until it ends.
func (x *remote) follow(ctx context.Context, s *Stream, q external.Request, stops []string) {
	begun := time.Now()
	var first time.Duration
	stopper := stopper{stops: stops} // servers differ in whether the stop string itself is sent
	var last time.Duration
	result, err := x.Client.Chat(ctx, q, func(text string) {
		last = time.Since(begun)
		if first == 0 {
			first = last
		}
		out, stopped := stopper.push(text)
		if out != "" {
			s.send(Event{Token: -1, Text: out})
		}
		if stopped {
			s.stop()
		}
	})
	u := Usage{PromptTokens: result.PromptTokens, CachedTokens: result.CachedTokens, OutputTokens: cmp.Or(result.OutputTokens, result.Pieces),
		Prefill: first, FirstToken: first, Decode: last - first}
	if u.PromptTokens == 0 && err == nil {
		for _, m := range q.Messages {
			u.PromptTokens += (len(m.Content) + 2) / 3
		}
	}
	x.prompted.Add(int64(u.PromptTokens))
	x.written.Add(int64(u.OutputTokens))
	enough := errors.Is(context.Cause(ctx), errEnough)
	x.note(err == nil || ctx.Err() != nil || answered(err))
	switch {
	case err == nil || enough:
		if rest := stopper.flush(); rest != "" {
			s.send(Event{Token: -1, Text: rest})
		}
		finish := sched.Stop
		if result.Finish == string(sched.Length) {
			finish = sched.Length
		}
		x.finished.Add(1)
		s.finish(0, finish, u)
	case ctx.Err() != nil:
		x.canceled.Add(1)
		s.fail(context.Cause(ctx))
	default:
		s.fail(failure(err))
	}
}

// answered reports an error of a server that is there and refuses this request only.
func answered(err error) bool {
	var e *external.Error
	return errors.As(err, &e) && (e.TooLong || e.Status == 429 || e.Status == 400 || e.Status == 422)
}

// failure is the error of a caller.
func failure(err error) error {
	var e *external.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%w: %w", ErrExternal, err)
	}
	reason := strings.TrimPrefix(e.Error(), "external: ")
	switch {
	case e.TooLong:
		return fmt.Errorf("%w: the external engine says that the prompt does not fit its context: serve it with a longer one, or set a smaller --context", ErrTooLong)
	case e.Status == 429, e.Status == 503 && e.RetryAfter > 0:
		return &BusyError{RetryAfter: max(e.RetryAfter, time.Second)}
	}
	return fmt.Errorf("%w: %s", ErrExternal, reason)
}

// note remembers whether the server was there.
func (x *remote) note(there bool) {
	x.mu.Lock()
	x.lost = !there
	x.mu.Unlock()
}

const (
	askEvery = 5 * time.Second // whether a server that was lost is back
	askLimit = time.Second
)

// healthy reports whether the last contact was a good one, and asks again where it was not.
func (x *remote) healthy() bool {
	x.mu.Lock()
	if !x.lost || time.Since(x.asked) < askEvery {
		defer x.mu.Unlock()
		return !x.lost && !x.stopping
	}
	x.asked = time.Now()
	x.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	back := x.Ping(ctx) == nil
	x.note(back)
	return back
}

func (x *remote) stats() Stats {
	return Stats{Running: int(x.running.Load()), Submitted: x.submitted.Load(), Finished: x.finished.Load(), Cancelled: x.canceled.Load(),
		PrefillTokens: x.prompted.Load(), DecodeTokens: x.written.Load()}
}

// close refuses new requests and waits for those under way.
func (x *remote) close() {
	x.mu.Lock()
	x.stopping = true
	x.mu.Unlock()
	x.all.Wait()
}
