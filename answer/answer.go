package answer

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"ragd/llm"
	"ragd/llm/sample"
	"ragd/retrieve"
	"ragd/verify"
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
	Cross         verify.CrossEncoder // reads question and answer, and passages that come with a question; nil: nobody does
	Keep          bool                // statements that nothing supports stay in the answer, flagged, instead of being taken out
	Passages      int                 // passages in the prompt at most; 0 means 6
	PassageTokens int                 // tokens of passages in the prompt at most; 0 means 1,600: prefill time is what a reader waits for
	MaxTokens     int                 // tokens of an answer at most; 0 means 256
	MinRelevance  float32             // the cross-encoder's logit below which the best passage counts as "nothing found"; 0 means DefaultMinRelevance
}

// DefaultMinRelevance is the logit of the best passage under which the model is not asked. See docs/eval.md for how it was chosen.
const DefaultMinRelevance = -3

// Turn is an earlier question of the conversation with its answer.
type Turn struct {
	Question, Answer string
}

// Question is what one caller asks.
type Question struct {
	Text      string
	History   []Turn
	Filter    retrieve.Filter
	Passages  int               // 0: the configured number
	MaxTokens int               // 0: the configured number
	Sampling  sample.Params     // zero value: greedy, hence reproducible
	Namespace string            // prefix caches are shared only inside one; the tenant's name
	Given     []retrieve.Scored // passages to answer from, most relevant first, instead of what retrieval finds
	Ordered   bool              // Given stays in its order: evaluation measures with it what the place of a passage is worth
	Insist    bool              // never refuse: evaluation measures with it what abstention is worth
	Unchecked bool              // nothing is taken out or withheld: evaluation measures with it what verification is worth
	Beams     int               // answers searched for at a time; 0 and 1: greedy or sampled, see llm.Request
}

// Event is one step of an answer; exactly one field is set.
type Event struct {
	Sources  []Source  // the passages in the prompt; comes first
	Text     string    // newly generated text
	Citation *Citation // a marker of the text so far, resolved
	Replaced *Replaced // what was shown so far does not hold
	Done     *Answer   // the whole; comes last
}

// Replaced withdraws all text and citations shown so far. Statements are shown while they are written and judged when they stand there; a reader
// shows Text instead, whose citations are those of the Answer that follows.
type Replaced struct {
	Text   string
	Reason string
}

// Finish says how an answer ended.
type Finish string

// The ways in which an answer ends.
const (
	FinishStop      Finish = "stop"      // the model had said everything
	FinishLength    Finish = "length"    // the answer had its full length; an unfinished last statement was taken out
	FinishRepeat    Finish = "repeat"    // the model began to repeat itself and was stopped
	FinishAbstained Finish = "abstained" // the documents hold no answer; Reason says how that was found
)

// Source is a passage that an answer rests on: one of the prompt, or one that the second look found.
type Source struct {
	Marker int  // n of [n], as in the prompt
	Rank   int  // 1 for the most relevant
	Added  bool // the model did not read it; it supports a statement that nothing in the prompt supports
	retrieve.Scored
}

// Answer is the result of a question.
type Answer struct {
	ID       string // names the record of the answer
	Question string // as asked
	Query    string // as searched: rewritten when it followed others
	Text     string
	Draft    string // what the model wrote, before anything was judged; "" when it was not asked
	Finish   Finish
	// Unconstrained: an external engine wrote the draft, which no grammar held to markers that exist and to the refusal's words. Its statements were
	// checked against the passages when they stood there, like others, and its quotations were looked up in them.
	Unconstrained bool
	Abstained     bool
	Reason        string   // why it abstained
	Confidence    float64  // estimated probability that the documents hold the answer, 0 to 1
	Sources       []Source // of the prompt, then those that were added
	Citations     []Citation
	Statements    []Judged    // of the draft, in order, with what became of each
	Unsupported   []Statement // that stay in Text and that no passage supports; they carry no marker
	Doubtful      []Statement // that stay in Text with their markers, and whose sources may say something else
	Computed      []Computation
	Evidence      Evidence
	Budget        Budget
	Usage         llm.Usage
	Retrieval     retrieve.Timings
	Rewrite       time.Duration
	Verify        time.Duration // judging statements and the whole
	Total         time.Duration
	FirstToken    time.Duration // from the call to the first generated token
	Trace         Trace
}

// Read returns the sources that stood in the prompt.
func (a *Answer) Read() []Source {
	n := slices.IndexFunc(a.Sources, func(s Source) bool { return s.Added })
	if n < 0 {
		n = len(a.Sources)
	}
	return a.Sources[:n]
}

// Doubts reports whether the statement that c cites is doubtful.
func (a *Answer) Doubts(c *Citation) bool {
	return slices.ContainsFunc(a.Doubtful, func(d Statement) bool { return d.Start == c.Start })
}

// Answerer answers questions. Build it with [New].
type Answerer struct {
	retriever Retriever
	engine    *llm.Engine
	prompts   *prompter
	config    Config
	judge     bool // the model's own opinion of the documents counts
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
	return &Answerer{retriever: r, engine: engine, config: c, prompts: newPrompter(engine), judge: engine.Parameters() >= minJudge}
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
