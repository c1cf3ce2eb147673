package answer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ragd/llm"
	"ragd/retrieve"
)

// errAbandoned ends a run whose reader left.
var errAbandoned = errors.New("answer: reader left")

// run is one question on its way.
type run struct {
	*Answerer
	q       Question
	started time.Time
	answer  Answer
	yield   func(Event, error) bool
	found   []retrieve.Scored // all that retrieval found, most relevant first
	shown   strings.Builder   // text that the reader has
	muted   bool              // what is written replaces what was shown, once it is checked
	parts   []part            // the draft's statements
	text    string            // the draft with its markers corrected
	tail    string            // of text, after the last marker
}

func (r *run) emit(e Event) error {
	if !r.yield(e, nil) {
		return errAbandoned
	}
	return nil
}

func (r *run) do(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := r.prepare(); err != nil {
		return err
	}
	ranked, err := r.find(ctx)
	if err != nil {
		return err
	}
	reason, err := r.hopeless(ctx, ranked)
	if err != nil {
		return err
	}
	if reason != "" && !(r.q.Insist && len(ranked) > 0) {
		r.answer.Trace.drop(ranked, nil, "the model was not asked: "+reason)
		r.refuse(reason)
		return r.finish()
	}
	worth := r.worthReading(ranked)
	prompt, err := r.prompts.build(r.q, worth, r.config.PassageTokens)
	if err != nil {
		return err
	}
	r.answer.Sources, r.answer.Budget = prompt.sources, prompt.budget
	r.answer.Trace.drop(ranked, worth, "the cross-encoder found it to be about something else")
	r.answer.Trace.drop(worth[min(len(prompt.sources), len(worth)):], nil, "it did not fit into the token budget of passages")
	if err := r.emit(Event{Sources: prompt.sources}); err != nil {
		return err
	}
	if err := r.compute(ctx, &prompt); err != nil {
		return err
	}
	if err := r.write(ctx, prompt); err != nil {
		return err
	}
	return r.finish()
}

// find returns the passages for the question, most relevant first.
func (r *run) find(ctx context.Context) ([]retrieve.Scored, error) {
	if r.q.Given != nil {
		err := r.readGiven(ctx)
		r.found = r.q.Given
		return r.q.Given, err
	}
	if err := r.rewrite(ctx); err != nil {
		return nil, err
	}
	found, err := r.retriever.Retrieve(ctx, r.answer.Query, r.q.Filter, max(r.q.Passages, considered))
	if err != nil {
		return nil, err
	}
	r.answer.Retrieval, r.found = found.Timings, found.Ranked
	r.answer.Trace.drop(found.Ranked[min(r.q.Passages, len(found.Ranked)):], nil, "others are more relevant")
	return found.Ranked[:min(r.q.Passages, len(found.Ranked))], nil
}

// readGiven lets the cross-encoder read passages that came with the question, and puts them in its order.
func (r *run) readGiven(ctx context.Context) error {
	if r.config.Cross == nil || len(r.q.Given) == 0 {
		return nil
	}
	texts := make([]string, len(r.q.Given))
	for i := range r.q.Given {
		texts[i] = r.q.Given[i].Passage.ForRanking()
	}
	logits, err := r.config.Cross.Score(ctx, r.q.Text, texts)
	if err != nil {
		return fmt.Errorf("answer: read the given passages: %w", err)
	}
	for i := range r.q.Given {
		r.q.Given[i].Rerank = &logits[i]
	}
	if r.q.Ordered {
		return nil
	}
	slices.SortStableFunc(r.q.Given, func(a, b retrieve.Scored) int { return cmp.Compare(*b.Rerank, *a.Rerank) })
	return nil
}

// considered is how many passages are kept in mind: a record names those that were left out with the reason, and the second look searches them. The
// cross-encoder reads the first of them; the others cost next to nothing.
const considered = 20

// minRead is how many passages the model reads however little they have to do with the question: the cross-encoder can be wrong.
const minRead = 2

// worthReading leaves out what the cross-encoder found to be about something else: it would cost prefill time and distract a small model.
func (r *run) worthReading(ranked []retrieve.Scored) []retrieve.Scored {
	if r.q.Ordered {
		return ranked
	}
	var worth []retrieve.Scored
	for _, s := range ranked {
		if len(worth) < minRead || s.Rerank == nil || *s.Rerank >= r.config.MinRelevance {
			worth = append(worth, s)
		}
	}
	return worth
}

// unread are the passages of found that are not in the prompt.
func unread(found []retrieve.Scored, prompt []Source) []retrieve.Scored {
	return slices.DeleteFunc(slices.Clone(found), func(f retrieve.Scored) bool {
		return slices.ContainsFunc(prompt, func(s Source) bool { return s.Passage.ID == f.Passage.ID })
	})
}

// prepare checks the question and fills in what it leaves open.
func (r *run) prepare() error {
	r.q.Text = strings.TrimSpace(strings.ToValidUTF8(r.q.Text, "�"))
	if r.q.Text == "" {
		return fmt.Errorf("%w: the question is empty", ErrInvalid)
	}
	for i, t := range append([]Turn{{Question: r.q.Text}}, r.q.History...) {
		if strings.ContainsRune(t.Question+t.Answer, 0) {
			where := "the question"
			if i > 0 {
				where = fmt.Sprintf("turn %d of the history", i)
			}
			return fmt.Errorf("%w: %s holds a NUL character: send it as text", ErrInvalid, where)
		}
	}
	if r.q.Passages <= 0 {
		r.q.Passages = r.config.Passages
	}
	if r.q.MaxTokens <= 0 {
		r.q.MaxTokens = r.config.MaxTokens
	}
	if err := r.prompts.check(r.q); err != nil {
		return err
	}
	r.answer.ID = newID()
	r.answer.Question, r.answer.Query = r.q.Text, r.q.Text
	r.answer.Trace.Question, r.answer.Trace.Model = r.q, r.engine.Fingerprint()
	r.answer.Trace.Question.Given = nil // Sources has what was read of them
	return nil
}

func newID() string {
	var b [9]byte
	_, _ = rand.Read(b[:]) // never fails; it ends the process instead
	return "ans_" + hex.EncodeToString(b[:])
}

// hopeless says why the passages cannot answer the question, or "".
func (r *run) hopeless(ctx context.Context, ranked []retrieve.Scored) (string, error) {
	if len(ranked) == 0 {
		return "no passage was found for the question", nil
	}
	r.answer.Evidence = evidenceOf(r.answer.Query, ranked)
	if other, err := r.aboutSomethingElse(ctx, ranked); err != nil {
		return "", err
	} else if other {
		return fmt.Sprintf("the best of %d passages is not about the question (relevance %.1f, needed %.1f)", len(ranked), r.answer.Evidence.Top, r.config.MinRelevance), nil
	}
	if r.q.Given != nil {
		return "", nil
	}
	// A question about a name that no document holds is about something else, however similar the passages read.
	unknown, err := r.retriever.Unknown(ctx, names(r.answer.Query), r.q.Filter)
	if err != nil || len(unknown) == 0 {
		return "", err
	}
	r.answer.Evidence.Unknown = float64(len(unknown))
	return "the documents nowhere mention " + strings.Join(unknown, ", "), nil
}

// aboutSomethingElse reports passages that have nothing to do with the question, by the cross-encoder. A passage with a table or several headings may read
// like something else as a whole, so that a sentence or row of it may speak for it.
func (r *run) aboutSomethingElse(ctx context.Context, ranked []retrieve.Scored) (bool, error) {
	e, needed := &r.answer.Evidence, float64(r.config.MinRelevance)
	if !e.Read || e.Top >= needed {
		return false, nil
	}
	sources := make([]Source, len(ranked))
	for i := range ranked {
		sources[i].Scored = ranked[i]
	}
	sentence, err := r.nearest(ctx, sources)
	return sentence == "" || e.Nearest < needed, err
}

// write lets the model answer, asks again when it refuses what the passages seem to hold, and judges the whole.
func (r *run) write(ctx context.Context, p prompt) error {
	refusal := Refusal
	if r.q.Insist {
		refusal = ""
	}
	if err := r.generate(ctx, p, refusal); err != nil {
		return err
	}
	// The model's own inclination to refuse is evidence, and small models refuse much that a passage plainly answers.
	if err := r.inclination(ctx, p); err != nil {
		return err
	}
	if err := r.holds(ctx, p); err != nil {
		return err
	}
	if err := r.again(ctx, p); err != nil {
		return err
	}
	if r.answer.Abstained {
		r.answer.Confidence = min(r.answer.Evidence.before(), r.answer.Evidence.estimate().Below)
		return nil
	}
	if err := r.decide(ctx, p); err != nil {
		return err
	}
	return r.reread(ctx, p)
}

// generate lets the model write and resolves the markers as they appear. refusal is the one sentence without a marker that it may choose; nothing of it
// is shown before it is certain.
func (r *run) generate(ctx context.Context, p prompt, refusal string) error {
	request := llm.Request{
		Prompt:    p.tokens,
		MaxTokens: r.q.MaxTokens,
		Sampling:  r.q.Sampling,
		Grammar:   r.prompts.grammar(p.sources, p.question, refusal),
		Namespace: r.q.Namespace,
		LogProbs:  tracedAlternatives,
		Beams:     r.q.Beams,
		// Means of log-probabilities: sums would let an answer win by being short.
		LengthPenalty: 1,
	}
	var marks *marking
	if r.external() {
		marks = &marking{sources: len(p.sources), refusal: refusal}
		request.Messages, request.LogProbs = p.messages, 0
		r.answer.Unconstrained = true
	}
	stream, err := r.engine.Generate(ctx, request)
	if err != nil {
		return fmt.Errorf("answer: generate: %w", err)
	}
	cites := newCiter(p.sources, unread(r.found, p.sources), r.answer.Query, r.answer.Computed)
	r.answer.Trace.begin(p, refusal)
	pending := "" // the beginning of what may become the refusal
	for event, err := range stream.Events() {
		if err != nil {
			return fmt.Errorf("answer: generate: %w", err)
		}
		if cites.repeats {
			continue
		}
		if r.answer.FirstToken == 0 {
			r.answer.FirstToken = time.Since(r.started)
		}
		r.answer.Trace.step(event)
		if marks != nil {
			event.Text = marks.push(event.Text)
		}
		pending += event.Text
		if refusal != "" && cites.text.Len() == 0 && strings.HasPrefix(refusal, strings.TrimSpace(pending)) {
			continue
		}
		if err := r.show(cites.push(pending)); err != nil {
			return err
		}
		pending = ""
		if cites.repeats { // a small model that has said everything begins again
			stream.Stop()
		}
	}
	r.answer.Usage = stream.Usage()
	if marks != nil && !cites.repeats {
		pending += marks.flush(stream.FinishReason() == string(FinishLength))
	}
	if refusal != "" && strings.TrimSpace(pending) == refusal {
		r.refuse("the model found no answer in the passages")
		r.answer.Evidence.Refused = 1
		return nil
	}
	if err := r.show(cites.push(pending)); err != nil {
		return err
	}
	if err := r.show(cites.flush(), nil); err != nil {
		return err
	}
	r.settle(cites, stream.FinishReason())
	return nil
}

// show passes text and citations on to the reader.
func (r *run) show(text string, citations []Citation) error {
	if r.muted {
		return nil
	}
	if text != "" {
		r.shown.WriteString(text)
		if err := r.emit(Event{Text: text}); err != nil {
			return err
		}
	}
	for _, c := range citations {
		if err := r.emit(Event{Citation: &c}); err != nil {
			return err
		}
	}
	return nil
}

// refuse makes the refusal the answer.
func (r *run) refuse(reason string) {
	r.answer.Text, r.answer.Citations, r.answer.Unsupported, r.answer.Doubtful = Refusal, nil, nil, nil
	r.answer.Abstained, r.answer.Reason, r.answer.Finish = true, reason, FinishAbstained
}

// finish makes what the reader saw equal to the answer, and ends the run.
func (r *run) finish() error {
	switch text := r.answer.Text; {
	case r.shown.Len() == 0:
		if err := r.emit(Event{Text: text}); err != nil {
			return err
		}
	case strings.TrimSpace(r.shown.String()) != strings.TrimSpace(text):
		if err := r.emit(Event{Replaced: &Replaced{Text: text, Reason: r.answer.Reason}}); err != nil {
			return err
		}
	}
	r.answer.Total = time.Since(r.started)
	return r.emit(Event{Done: &r.answer})
}
