package answer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"ragd/llm"
	"ragd/retrieve"
	"ragd/verify"
)

// How the model is asked what it makes of the documents. Its reply is read off the probabilities of two words; nothing is generated.
const (
	holdsQuestion  = "Do the documents contain the answer to this question: “%s”? Reply with Yes or No only."
	statesQuestion = "Do the documents state this: “%s”? Reply with Yes or No only."
)

// minJudge is the size, in weights, from which a model is asked at all. Smaller ones say much the same to everything: on people's judgements of
// statements their AUROC is near 0.5 (docs/eval.md).
const minJudge = 1e9

// yes is the logarithm of how much likelier the model says yes than no after a prompt.
func (a *Answerer) yes(ctx context.Context, prompt []llm.Token, namespace string) (float64, error) {
	var logs [2]float64
	for i, word := range []string{"Yes", "No"} {
		values, err := a.score(ctx, prompt, a.engine.Tokenizer().Encode(word, false, false), namespace)
		if err != nil {
			return 0, fmt.Errorf("answer: ask the model about the documents: %w", err)
		}
		logs[i] = float64(values[0])
	}
	return logs[0] - logs[1], nil
}

// busyWait is how long a question to the model waits before it is put again when too many others wait.
const busyWait = 50 * time.Millisecond

// score is [llm.Engine.Score] for an answer that has been written: it is not given up because others wait.
func (a *Answerer) score(ctx context.Context, prompt, continuation []llm.Token, namespace string) ([]float32, error) {
	for {
		values, err := a.engine.Score(ctx, prompt, continuation, namespace)
		if !errors.Is(err, llm.ErrBusy) {
			return values, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(busyWait):
		}
	}
}

// odds is what [Answerer.yes] says to a question about the passages of p. They are cached by then, so that it costs the tokens of the question.
func (r *run) odds(ctx context.Context, p prompt, question string) (float64, error) {
	p, err := r.prompts.ask(p, question)
	if err != nil {
		return 0, err
	}
	return r.yes(ctx, p.tokens, r.q.Namespace)
}

// holds asks the model whether the documents hold an answer.
func (r *run) holds(ctx context.Context, p prompt) error {
	if !r.judge {
		return nil
	}
	var err error
	r.answer.Evidence.Asked = true
	r.answer.Evidence.Holds, err = r.odds(ctx, p, fmt.Sprintf(holdsQuestion, r.answer.Query))
	return err
}

// asksAtOnce is how many statements of one answer are asked about at a time: they share a pass over the weights, and leave room for other users.
const asksAtOnce = 4

// states asks the model of each statement whether the documents say it, some at a time, and judges by the words and by that.
func (r *run) states(ctx context.Context, p prompt) error {
	if !r.judge {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(asksAtOnce)
	for i := range r.parts {
		x := &r.parts[i]
		group.Go(func() (err error) {
			statement := claimed(r.text[x.start:x.end])
			if x.stated, err = r.odds(ctx, p, fmt.Sprintf(statesQuestion, statement)); err != nil || len(x.cited) == 0 {
				return err
			}
			var read []string
			for _, c := range x.cited {
				read = append(read, r.answer.Sources[c.Marker-1].Passage.ForRanking())
			}
			v := verify.CheckAsked(statement, read, x.stated)
			x.verdict = &v
			return nil
		})
	}
	return group.Wait()
}

// States asks the model whether texts state a statement, as it is asked of an answer's statements, and returns the log-odds of yes.
func (a *Answerer) States(ctx context.Context, statement string, texts []string, namespace string) (float64, error) {
	if a.engine.External() != "" {
		return 0, fmt.Errorf("answer: what an external engine thinks of a statement is not known: %w", llm.ErrNoLogits)
	}
	passages := make([]retrieve.Scored, len(texts))
	for i, t := range texts {
		passages[i].Passage.Text = t
	}
	p, err := a.prompts.build(Question{Text: fmt.Sprintf(statesQuestion, statement), MaxTokens: 1}, passages, a.config.PassageTokens)
	if err != nil {
		return 0, err
	}
	return a.yes(ctx, p.tokens, namespace)
}
