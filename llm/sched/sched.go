package sched

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"ragd/llm/grammar"
	"ragd/llm/kvcache"
	"ragd/llm/model"
	"ragd/llm/sample"
)

// Token is a token id.
type Token = int32

// Model computes a batch and fills its logits.
type Model interface {
	Forward(*model.Batch) error
}

var (
	// ErrTooLong: prompt and answer exceed the context, or could not be held by the cache even alone.
	ErrTooLong = errors.New("prompt too long")
	// ErrBusy: the queue is full.
	ErrBusy = errors.New("engine busy")
)

// BusyError is ErrBusy with a hint.
type BusyError struct{ RetryAfter time.Duration }

func (e *BusyError) Error() string {
	return fmt.Sprintf("llm: the queue is full; try again in %v", e.RetryAfter.Round(time.Second))
}

// Is makes errors.Is(err, ErrBusy) true.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// Config of a Scheduler. All fields are required unless a default is given.
type Config struct {
	Vocab         int // logits per row
	Tokens        int // ids that exist; the rest of a row is padding and never chosen. 0: Vocab
	ContextTokens int
	MaxSeqs       int              // sequences computed together; a request for n answers or beams takes n of them
	MaxQueue      int              // waiting requests; 0: 64
	MaxDraft      int              // tokens guessed per sequence and step; 0: no speculation
	End           func(Token) bool // end-of-generation tokens
	Now           func() time.Time
}

// Request is one generation, or one scoring when Score is set.
type Request struct {
	Namespace string
	Prompt    []Token
	MaxTokens int // 0: as many as fit
	Sampling  sample.Params
	Grammar   *grammar.Grammar
	LogProbs  int // alternatives per token; 0: not even the token's own log-probability is computed
	Priority  int
	Answers   int // independent samples; 0: one
	Beams     int // >1: beam search for the Answers best hypotheses
	// LengthPenalty is the exponent of the length in a beam's score; see sample.Beams.
	LengthPenalty float64
	// Score asks for the log-probability of each of these tokens after Prompt instead of a generation.
	Score []Token
}

func (r *Request) answers() int { return max(1, r.Answers) }

// width is the number of sequences that r occupies when it decodes.
func (r *Request) width() int { return max(r.answers(), r.Beams) }

// Finish says why an answer ended; empty while it has not.
type Finish string

const (
	Stop   Finish = "stop"   // end token, or the grammar allows nothing more
	Length Finish = "length" // MaxTokens
)

// Event is a token of an answer, or the end of one (Token is -1), or the failure of the request.
type Event struct {
	Request *Request
	Answer  int
	Token   Token
	LogProb float32
	Top     []sample.Alternative
	Finish  Finish
	Usage   Usage // with Finish
	Err     error
}

// Usage is the cost of one answer.
type Usage struct {
	PromptTokens, CachedTokens, OutputTokens int
	Queue, Prefill, Decode, FirstToken       time.Duration
}

// Stats counts work since the start.
type Stats struct {
	Waiting, Running               int
	Steps, Preemptions             int64
	PrefillTokens, DecodeTokens    int64   // computed by the model; recomputed ones count again
	PrefillRate                    float64 // tokens per second, lately
	DecodeStep                     time.Duration
	MaxRows                        int // largest batch so far
	Submitted, Finished, Cancelled int64
	Drafted, Accepted              int64 // guessed tokens that were computed, and that were right
}

// Scheduler holds the waiting and the running sequences of one model.
type Scheduler struct {
	model   Model
	cache   *kvcache.Cache
	config  Config
	pace    pace
	guess   speculation
	share   share
	ws      sample.Workspace
	order   int64 // of submission and admission
	waiting []*sequence
	running []*sequence

	batch  model.Batch
	items  []item
	events []Event
	stats  Stats
}

// New returns an empty scheduler.
func New(m Model, c *kvcache.Cache, config Config) *Scheduler {
	if config.MaxQueue == 0 {
		config.MaxQueue = 64
	}
	if config.Tokens == 0 {
		config.Tokens = config.Vocab
	}
	return &Scheduler{model: m, cache: c, config: config, share: share{served: map[string]float64{}}, guess: newSpeculation()}
}

// Submit queues r. Returns ErrTooLong or a BusyError, or says which parameter is wrong. The scheduler keeps r.
func (s *Scheduler) Submit(r *Request) error {
	maxTokens, err := s.check(r)
	if err != nil {
		return err
	}
	if len(s.waiting) >= s.config.MaxQueue {
		return &BusyError{s.pace.retryAfter(s.waiting, s.config.MaxSeqs)}
	}
	s.order++
	q := &sequence{
		req:       r,
		tokens:    slices.Concat(r.Prompt, r.Score),
		maxTokens: maxTokens,
		order:     s.order,
		submitted: s.config.Now(),
		sampler:   sample.New(r.Sampling, 0, &s.ws),
	}
	if r.Grammar != nil {
		q.matcher = r.Grammar.Matcher()
	}
	s.share.enter(r.Namespace, s.active())
	s.waiting = append(s.waiting, q)
	s.stats.Submitted++
	return nil
}

// check validates r and resolves MaxTokens.
func (s *Scheduler) check(r *Request) (maxTokens int, err error) {
	if len(r.Prompt) == 0 {
		return 0, errors.New("llm: the prompt is empty")
	}
	for _, tokens := range [][]Token{r.Prompt, r.Score} {
		for i, t := range tokens {
			if t < 0 || int(t) >= s.config.Vocab {
				return 0, fmt.Errorf("llm: token %d of the request is %d, outside the vocabulary of %d", i, t, s.config.Vocab)
			}
		}
	}
	if err := r.Sampling.Validate(); err != nil {
		return 0, err
	}
	switch {
	case r.MaxTokens < 0:
		return 0, fmt.Errorf("llm: max tokens is %d", r.MaxTokens)
	case r.LogProbs < 0 || r.LogProbs > 20:
		return 0, fmt.Errorf("llm: %d alternatives per token asked for; 0 to 20 are possible", r.LogProbs)
	case r.width() > s.config.MaxSeqs:
		return 0, fmt.Errorf("llm: %d answers or beams asked for; the engine runs %d sequences together", r.width(), s.config.MaxSeqs)
	case !(r.LengthPenalty >= 0 && r.LengthPenalty <= 10):
		return 0, fmt.Errorf("llm: the length penalty is %g; it must be between 0 and 10", r.LengthPenalty)
	case r.Beams > 1 && (len(r.Sampling.LogitBias) > 0 || r.Sampling.Penalises()):
		return 0, errors.New("llm: beams look for the most probable answer; logit bias and penalties change what is probable and cannot be combined with them")
	case r.Beams > 1 && r.answers() > r.Beams:
		return 0, fmt.Errorf("llm: %d answers asked of %d beams", r.Answers, r.Beams)
	}
	return s.fit(r)
}

// fit returns how many tokens r may generate, or ErrTooLong.
func (s *Scheduler) fit(r *Request) (maxTokens int, err error) {
	prompt := len(r.Prompt) + len(r.Score)
	room := min(s.config.ContextTokens, s.cache.Stats().Pages*kvcache.PageTokens) - prompt
	if r.Beams > 1 {
		// Beams run together or not at all: prompt pages are shared, but each beam may need its own pages for everything
		// after it and one more to copy to.
		own := (s.cache.Stats().Pages-kvcache.PagesFor(prompt))/r.Beams - 2
		room = min(room, own*kvcache.PageTokens)
	}
	maxTokens = r.MaxTokens
	if maxTokens == 0 {
		maxTokens = room
	}
	if len(r.Score) > 0 {
		maxTokens = 0
	} else if maxTokens < 1 {
		maxTokens = 1
	}
	if maxTokens > room {
		return 0, fmt.Errorf("llm: %w: %d prompt tokens and %d to generate exceed the %d that fit; shorten the prompt or ask for fewer tokens",
			ErrTooLong, prompt, maxTokens, prompt+room)
	}
	return maxTokens, nil
}

// Cancel ends every answer of r without an event and frees its pages; whole computed pages stay cached.
func (s *Scheduler) Cancel(r *Request) {
	found := false
	mine := func(q *sequence) bool {
		if q.req != r {
			return false
		}
		found = true
		s.release(q)
		return true
	}
	s.waiting = slices.DeleteFunc(s.waiting, mine)
	s.running = slices.DeleteFunc(s.running, mine)
	if found {
		s.stats.Cancelled++
	}
}

// CancelAnswer ends one answer of r, for example because a stop string was found in its text, and returns its usage.
func (s *Scheduler) CancelAnswer(r *Request, answer int) (Usage, bool) {
	for _, list := range []*[]*sequence{&s.waiting, &s.running} {
		for i, q := range *list {
			if q.req == r && q.answer == answer && q.group == nil {
				u := s.usage(q)
				s.release(q)
				*list = slices.Delete(*list, i, i+1)
				return u, true
			}
		}
	}
	return Usage{}, false
}

// Idle reports whether there is nothing to do.
func (s *Scheduler) Idle() bool { return len(s.waiting) == 0 && len(s.running) == 0 }

// Stats returns the current counts.
func (s *Scheduler) Stats() Stats {
	st := s.stats
	st.Waiting, st.Running = len(s.waiting), len(s.running)
	if s.pace.prefill > 0 {
		st.PrefillRate = 1 / s.pace.prefill.Seconds()
	}
	st.DecodeStep = s.pace.decode
	return st
}

// active returns the namespaces that have a sequence.
func (s *Scheduler) active() map[string]bool {
	names := map[string]bool{}
	for _, list := range [][]*sequence{s.waiting, s.running} {
		for _, q := range list {
			names[q.req.Namespace] = true
		}
	}
	return names
}
