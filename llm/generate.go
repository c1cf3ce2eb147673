package llm

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"ragd/llm/chat"
	"ragd/llm/grammar"
	"ragd/llm/sample"
	"ragd/llm/sched"
	"ragd/llm/tokenizer"
)

// Alternative is a token that could have been chosen, with the model's own log-probability for it.
type Alternative = sample.Alternative

// Request is one generation. The caller states the whole prompt.
type Request struct {
	Prompt    []Token
	Messages  []chat.Message // instead of Prompt: written by the model's chat template
	MaxTokens int            // 0: until the context is full
	Sampling  sample.Params  // zero value: greedy
	Grammar   *grammar.Grammar
	Stop      []string // answer text ends before the first of these
	Namespace string   // prefixes are shared only within a namespace (tenant)
	LogProbs  int      // alternatives to report per token, at most 20; 0: Event.LogProb stays 0, too
	Priority  int      // higher is served first and preempted last

	ResponseFormat json.RawMessage // OpenAI's response_format, for an external engine, which makes a grammar of its own of it

	Answers int // independent samples of one prompt; 0: one
	// Beams > 1 searches for the Answers most probable answers instead of sampling; they arrive at the end, best first.
	// It helps where one wrong word early spoils a short answer, and hurts open-ended text, which becomes bland and
	// repeats itself. The score is the sum of log-probabilities divided by length^LengthPenalty.
	Beams         int
	LengthPenalty float64
}

// call is the loop's side of a request.
type call struct {
	stream  *Stream
	answers []answer
	scores  []float32
	detach  func() bool // from the caller's context
}

// answer turns the tokens of one answer into text.
type answer struct {
	decoder *tokenizer.Decoder
	stopper stopper
	tokens  int  // sent
	stopped bool // a stop string came; the scheduler's own end is still to come
}

// Generate queues r and returns the stream of its events. It returns ErrTooLong, ErrBusy, ErrClosed or ErrUnhealthy, or
// says which parameter is wrong. When ctx ends, so does the request: its pages are free after the current step.
func (e *Engine) Generate(ctx context.Context, r Request) (*Stream, error) {
	if slices.Contains(r.Stop, "") {
		return nil, errors.New("llm: a stop string is empty")
	}
	if e.remote != nil {
		return e.remote.generate(ctx, r)
	}
	if len(r.Messages) > 0 {
		var err error
		if r.Prompt, err = e.chat.Encode(r.Messages, true); err != nil {
			return nil, err
		}
	}
	n := max(1, r.Answers)
	c := &call{stream: newStream(n), answers: make([]answer, n)}
	for i := range c.answers {
		c.answers[i] = answer{decoder: e.tok.NewDecoder(), stopper: stopper{stops: r.Stop}}
	}
	if err := e.start(ctx, c, &sched.Request{
		Namespace: r.Namespace, Prompt: r.Prompt, MaxTokens: r.MaxTokens, Sampling: r.Sampling, Grammar: r.Grammar,
		LogProbs: r.LogProbs, Priority: r.Priority, Answers: r.Answers, Beams: r.Beams, LengthPenalty: r.LengthPenalty,
	}); err != nil {
		return nil, err
	}
	return c.stream, nil
}

// Score returns the log-probability of each token of continuation, given prompt and the tokens of continuation before
// it. The prompt is cached like any other.
func (e *Engine) Score(ctx context.Context, prompt, continuation []Token, namespace string) ([]float32, error) {
	if e.remote != nil {
		return nil, ErrNoLogits
	}
	if len(continuation) == 0 {
		return nil, nil
	}
	c := &call{stream: newStream(1)}
	if err := e.start(ctx, c, &sched.Request{Namespace: namespace, Prompt: prompt, Score: continuation}); err != nil {
		return nil, err
	}
	for _, err := range c.stream.Events() {
		if err != nil {
			return nil, err
		}
	}
	return c.scores, nil
}

// start hands a request to the loop and ties it to ctx.
func (e *Engine) start(ctx context.Context, c *call, r *sched.Request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.stream.cancel = func(cause error) {
		c.stream.fail(cause)
		e.post(func() {
			e.sched.Cancel(r)
			if e.calls[r] != nil {
				e.forget(r)
			}
		})
	}
	c.stream.stop = func() {
		e.post(func() { e.stop(c, r) })
	}
	return e.call(ctx, func() error {
		if err := e.sched.Submit(r); err != nil {
			return err
		}
		e.calls[r] = c
		c.detach = context.AfterFunc(ctx, func() { c.stream.cancel(context.Cause(ctx)) })
		return nil
	})
}
