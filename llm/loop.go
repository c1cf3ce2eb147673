package llm

import (
	"context"
	"fmt"
	"runtime/debug"

	"ragd/llm/sched"
)

// loop is the goroutine that owns scheduler, cache and model. It runs commands between steps and sleeps when there is
// neither a command nor a request.
func (e *Engine) loop() {
	defer close(e.ended)
	defer e.free()
	defer e.recover()
	for {
		commands, closing := e.take()
		for _, command := range commands {
			command()
		}
		if e.sched.Idle() {
			e.publish()
			if closing {
				e.save()
				return
			}
			<-e.wake
			continue
		}
		for _, event := range e.sched.Step() {
			e.deliver(event)
		}
		e.publish()
	}
}

// take returns the commands that are due. Once it has reported closing no command will be accepted.
func (e *Engine) take() (commands []func(), closing bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	commands, e.commands = e.commands, nil
	return commands, e.refusal != nil
}

// recover turns a panic, which is a bug in the engine, into one error for every request. The state behind it cannot be
// trusted any more, so the engine refuses further requests.
func (e *Engine) recover() {
	cause := recover()
	if cause == nil {
		return
	}
	e.logger.Error("engine stopped", "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	e.mu.Lock()
	e.refusal = ErrUnhealthy
	e.mu.Unlock()
	for r, c := range e.calls {
		c.stream.fail(ErrUnhealthy)
		e.forget(r)
	}
}

// post gives the loop a command. It is dropped when the loop has ended, together with what it refers to.
func (e *Engine) post(command func()) {
	e.mu.Lock()
	e.commands = append(e.commands, command)
	e.mu.Unlock()
	e.poke()
}

func (e *Engine) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// call runs a command in the loop and returns its error.
func (e *Engine) call(ctx context.Context, command func() error) error {
	e.mu.Lock()
	if e.refusal != nil {
		defer e.mu.Unlock()
		return e.refusal
	}
	result := make(chan error, 1)
	e.commands = append(e.commands, func() {
		if ctx.Err() != nil { // the caller has left
			result <- ctx.Err()
			return
		}
		result <- command()
	})
	e.mu.Unlock()
	e.poke()
	select {
	case err := <-result:
		return err
	case <-e.ended: // a closed engine has run all commands that it took; only a panic leaves one behind
		select {
		case err := <-result:
			return err
		default:
			return ErrUnhealthy
		}
	}
}

// forget detaches a request that has ended from its context.
func (e *Engine) forget(r *sched.Request) {
	e.calls[r].detach()
	delete(e.calls, r)
}

// deliver passes one event of the scheduler on to its stream.
func (e *Engine) deliver(ev sched.Event) {
	c := e.calls[ev.Request]
	if c == nil {
		return // cancelled in this very step
	}
	switch {
	case ev.Err != nil:
		c.stream.fail(ev.Err)
	case len(ev.Request.Score) > 0 && ev.Token >= 0:
		c.scores = append(c.scores, ev.LogProb)
	case len(ev.Request.Score) > 0:
		c.stream.finish(0, ev.Finish, ev.Usage)
	case ev.Token >= 0:
		e.token(c, ev)
	default:
		c.end(ev)
	}
	if c.stream.ended() {
		e.forget(ev.Request)
	}
}

// token sends a token with the text it completes, and ends the answer when that contains a stop string.
func (e *Engine) token(c *call, ev sched.Event) {
	a := &c.answers[ev.Answer]
	if a.stopped {
		return
	}
	a.tokens++
	text, stopped := a.stopper.push(a.decoder.Push(ev.Token))
	c.stream.send(Event{Answer: ev.Answer, Token: ev.Token, Text: text, LogProb: ev.LogProb, Top: ev.Top})
	if !stopped {
		return
	}
	a.stopped = true
	if u, ok := e.sched.CancelAnswer(ev.Request, ev.Answer); ok {
		c.finish(ev.Answer, sched.Stop, u)
	}
}

// stop ends the answers that have not ended.
func (e *Engine) stop(c *call, r *sched.Request) {
	if e.calls[r] == nil {
		return
	}
	for i := range c.answers {
		if u, ok := e.sched.CancelAnswer(r, i); ok {
			c.answers[i].stopped = true
			c.finish(i, sched.Stop, u)
		}
	}
	if c.stream.ended() {
		e.forget(r)
	}
}

// finish ends an answer. Its tokens are those that were sent: guesses may have carried the scheduler beyond a stop string.
func (c *call) finish(answer int, why sched.Finish, u Usage) {
	u.OutputTokens = c.answers[answer].tokens
	c.stream.finish(answer, why, u)
}

// end sends what was held back and ends the answer.
func (c *call) end(ev sched.Event) {
	a := &c.answers[ev.Answer]
	if a.stopped {
		c.finish(ev.Answer, sched.Stop, ev.Usage)
		return
	}
	text, stopped := a.stopper.push(a.decoder.Flush())
	if !stopped {
		text += a.stopper.flush()
	} else {
		ev.Finish = sched.Stop
	}
	if text != "" {
		c.stream.send(Event{Answer: ev.Answer, Token: -1, Text: text})
	}
	c.finish(ev.Answer, ev.Finish, ev.Usage)
}
