package answer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"ragd/llm"
	"ragd/llm/sample"
	"ragd/retrieve"
)

// ErrInvalid is returned for a question that cannot be asked; the text says why.
var ErrInvalid = errors.New("answer: invalid question")

// Refusal is the sentence with which the model says that the documents hold no answer.
const Refusal = "The documents do not contain the answer."

// Retriever finds passages. *retrieve.Retriever implements it.
type Retriever interface {
	Retrieve(ctx context.Context, query string, f retrieve.Filter, k int) (retrieve.Result, error)
	Unknown(ctx context.Context, words []string, f retrieve.Filter) ([]string, error)
}

// Config tunes an [Answerer]. Its zero value is the documented default.
type Config struct {
	Passages      int     // passages in the prompt at most; 0 means 6
	PassageTokens int     // tokens of passages in the prompt at most; 0 means 1,600: prefill time is what a reader waits for
	MaxTokens     int     // tokens of an answer at most; 0 means 256
	MinRelevance  float32 // the cross-encoder's logit below which the best passage counts as "nothing found"; 0 means DefaultMinRelevance
}

// DefaultMinRelevance is the logit of the best passage under which the model is not asked. See docs/eval.md for how it was chosen.
const DefaultMinRelevance = -3

// strongRelevance is the logit of the best passage from which a refusal by the model is not taken at its word: small models refuse about one in ten
// questions that a passage plainly answers. The model is asked again without the choice to refuse, and what it writes must be supported as always.
const strongRelevance = 5

// Turn is an earlier question of the conversation with its answer.
type Turn struct {
	Question, Answer string
}

// Question is what one caller asks.
type Question struct {
	Text      string
	History   []Turn
	Filter    retrieve.Filter
	Passages  int           // 0: the configured number
	MaxTokens int           // 0: the configured number
	Sampling  sample.Params // zero value: greedy, hence reproducible
	Namespace string        // prefix caches are shared only inside one; the tenant's name
}

// Event is one step of an answer; exactly one field is set.
type Event struct {
	Sources  []Source  // the passages in the prompt; comes first
	Text     string    // newly generated text
	Citation *Citation // a marker of the text so far, resolved
	Done     *Answer   // the whole; comes last
}

// Source is a passage in the prompt.
type Source struct {
	Marker int // n of [n], the place in the prompt
	Rank   int // 1 for the most relevant
	retrieve.Scored
}

// Answer is the result of a question.
type Answer struct {
	Question    string // as asked
	Query       string // as searched: rewritten when it followed others
	Text        string
	Abstained   bool
	Reason      string // why it abstained
	Sources     []Source
	Citations   []Citation
	Unsupported []Statement // what the model wrote and no passage supports; it carries no marker
	Budget      Budget
	Usage       llm.Usage
	Retrieval   retrieve.Timings
	Rewrite     time.Duration
	Total       time.Duration
	FirstToken  time.Duration // from the call to the first generated token
}

// Answerer answers questions. Build it with [New].
type Answerer struct {
	retriever Retriever
	engine    *llm.Engine
	prompts   *prompter
	config    Config
}

// New returns an answerer that finds passages with r and writes with engine.
func New(r Retriever, engine *llm.Engine, c Config) *Answerer {
	if c.Passages <= 0 {
		c.Passages = 6
	}
	if c.PassageTokens <= 0 {
		c.PassageTokens = 1600
	}
	if c.MaxTokens <= 0 {
		c.MaxTokens = 256
	}
	if c.MinRelevance == 0 {
		c.MinRelevance = DefaultMinRelevance
	}
	return &Answerer{retriever: r, engine: engine, config: c, prompts: newPrompter(engine)}
}

// Answer answers q as a sequence of events: Sources, then Text and Citation as they arise, then Done. An error ends the sequence. The sequence may be
// abandoned at any time; that, like ctx, stops the generation.
func (a *Answerer) Answer(ctx context.Context, q Question) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		run := &run{Answerer: a, q: q, started: time.Now(), yield: yield}
		if err := run.do(ctx); err != nil && !errors.Is(err, errAbandoned) {
			yield(Event{}, err)
		}
	}
}

// errAbandoned ends a run whose reader left.
var errAbandoned = errors.New("answer: reader left")

// run is one question on its way.
type run struct {
	*Answerer
	q       Question
	started time.Time
	answer  Answer
	yield   func(Event, error) bool

	relevance float32 // of the best passage that the cross-encoder read
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
	if err := r.rewrite(ctx); err != nil {
		return err
	}
	found, err := r.retriever.Retrieve(ctx, r.answer.Query, r.q.Filter, r.q.Passages)
	if err != nil {
		return err
	}
	r.answer.Retrieval = found.Timings
	reason, err := r.hopeless(ctx, found.Ranked)
	if err != nil {
		return err
	}
	if reason != "" {
		return r.abstain(reason)
	}
	prompt, err := r.prompts.build(r.q, r.worthReading(found.Ranked), r.config.PassageTokens)
	if err != nil {
		return err
	}
	r.answer.Sources, r.answer.Budget = prompt.sources, prompt.budget
	if err := r.emit(Event{Sources: prompt.sources}); err != nil {
		return err
	}
	if err := r.generate(ctx, prompt, Refusal); err != nil {
		return err
	}
	if r.answer.Abstained && r.relevance >= strongRelevance {
		if err := r.generate(ctx, prompt, ""); err != nil {
			return err
		}
	}
	return r.finish()
}

// minRead is how many passages the model reads however little they have to do with the question: the cross-encoder can be wrong.
const minRead = 2

// worthReading leaves out what the cross-encoder found to be about something else: it would cost prefill time and distract a small model.
func (r *run) worthReading(ranked []retrieve.Scored) []retrieve.Scored {
	var worth []retrieve.Scored
	for _, s := range ranked {
		if len(worth) < minRead || s.Rerank == nil || *s.Rerank >= r.config.MinRelevance {
			worth = append(worth, s)
		}
	}
	return worth
}

// prepare checks the question and fills in what it leaves open.
func (r *run) prepare() error {
	r.q.Text = strings.TrimSpace(strings.ToValidUTF8(r.q.Text, "�"))
	if r.q.Text == "" {
		return fmt.Errorf("%w: the question is empty", ErrInvalid)
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
	r.answer.Question, r.answer.Query = r.q.Text, r.q.Text
	return nil
}

// hopeless says why the passages cannot answer the question, or "".
func (r *run) hopeless(ctx context.Context, ranked []retrieve.Scored) (string, error) {
	if reason := r.irrelevant(ranked); reason != "" {
		return reason, nil
	}
	// A question about a name that no document holds is about something else, however similar the passages read.
	unknown, err := r.retriever.Unknown(ctx, names(r.answer.Query), r.q.Filter)
	if err != nil || len(unknown) == 0 {
		return "", err
	}
	return "the documents nowhere mention " + strings.Join(unknown, ", "), nil
}

// irrelevant says that the passages are not about the question, or "".
func (r *run) irrelevant(ranked []retrieve.Scored) string {
	if len(ranked) == 0 {
		return "no passage was found for the question"
	}
	best := float32(0)
	read := false
	for _, s := range ranked {
		if s.Rerank != nil && (!read || *s.Rerank > best) {
			best, read = *s.Rerank, true
		}
	}
	r.relevance = best
	if read && best < r.config.MinRelevance {
		return fmt.Sprintf("the best of %d passages is not about the question (relevance %.1f, needed %.1f)", len(ranked), best, r.config.MinRelevance)
	}
	return ""
}

// abstain ends the run without asking the model.
func (r *run) abstain(reason string) error {
	r.refuse(reason)
	return r.finish()
}

// generate lets the model write and resolves the markers as they appear. refusal is the one sentence without a marker that it may choose; nothing of it
// is shown before it is certain.
func (r *run) generate(ctx context.Context, p prompt, refusal string) error {
	stream, err := r.engine.Generate(ctx, llm.Request{
		Prompt:    p.tokens,
		MaxTokens: r.q.MaxTokens,
		Sampling:  r.q.Sampling,
		Grammar:   r.prompts.grammar(len(p.sources), refusal),
		Namespace: r.q.Namespace,
	})
	if err != nil {
		return fmt.Errorf("answer: generate: %w", err)
	}
	cites := newCiter(p.sources)
	pending := "" // the beginning of what may become the refusal
	for event, err := range stream.Events() {
		if err != nil {
			return fmt.Errorf("answer: generate: %w", err)
		}
		if r.answer.FirstToken == 0 {
			r.answer.FirstToken = time.Since(r.started)
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
			break
		}
	}
	return r.judge(cites, stream, strings.TrimSpace(pending) == refusal && refusal != "")
}

// judge ends a generation: it keeps what is supported, or the refusal.
func (r *run) judge(cites *citer, stream *llm.Stream, refused bool) error {
	r.answer.Usage = stream.Usage()
	if refused {
		r.refuse("the model found no answer in the passages")
		return nil
	}
	if err := r.show(cites.flush(), nil); err != nil {
		return err
	}
	text := cites.text.String()
	if rest, found := strings.CutSuffix(strings.TrimSpace(text), Refusal); found { // said after an answer, it says only that there is no more
		text = strings.TrimSpace(rest)
	}
	if (cites.repeats || stream.FinishReason() == "length") && len(cites.found) > 0 {
		text = strings.TrimSpace(text[:min(len(text), cites.claimFrom)]) // the last statement was not finished, or not new
	}
	if len(cites.found) == 0 {
		// The model answered from memory. What was streamed is withdrawn: the final text is the refusal.
		r.refuse("nothing in the passages supports what the model wrote")
		return nil
	}
	r.answer.Abstained, r.answer.Reason = false, ""
	r.answer.Text, r.answer.Citations = text, cites.found
	for _, s := range cites.loose {
		if s.End <= len(text) {
			r.answer.Unsupported = append(r.answer.Unsupported, s)
		}
	}
	return nil
}

// refuse makes the refusal the answer.
func (r *run) refuse(reason string) {
	r.answer.Text, r.answer.Citations, r.answer.Unsupported = Refusal, nil, nil
	r.answer.Abstained, r.answer.Reason = true, reason
}

// show passes text and citations on to the reader.
func (r *run) show(text string, citations []Citation) error {
	if text != "" {
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

// finish shows the refusal, which nothing showed before, and ends the run.
func (r *run) finish() error {
	if r.answer.Abstained {
		if err := r.emit(Event{Text: r.answer.Text}); err != nil {
			return err
		}
	}
	r.answer.Total = time.Since(r.started)
	return r.emit(Event{Done: &r.answer})
}
