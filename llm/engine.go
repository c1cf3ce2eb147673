package llm

import (
	"errors"
	"log/slog"
	"time"

	"ragd/llm/grammar"
	"ragd/llm/kernel"
	"ragd/llm/sample"
)

// Token is a token id.
type Token = int32

// Errors a caller acts on.
var (
	// ErrTooLong: prompt and answer do not fit the context or the cache. Shorten the prompt or ask for fewer tokens.
	ErrTooLong = errors.New("llm: prompt too long")
	// ErrBusy: the queue is full. Match it with errors.Is; a [*BusyError] carries when to try again.
	ErrBusy = errors.New("llm: engine busy")
	// ErrClosed: the engine was closed.
	ErrClosed = errors.New("llm: engine closed")
	// ErrUnhealthy: the engine stopped after an internal error; the process should be restarted.
	ErrUnhealthy = errors.New("llm: engine stopped after an internal error")
)

// Config holds what Open may choose; the zero value is a sensible default for one machine.
type Config struct {
	Threads       int           // worker threads; 0: what the cgroup and GOMAXPROCS allow
	Pool          *kernel.Pool  // shared worker pool; nil: the engine makes and owns one of Threads workers
	ContextTokens int           // longest prompt plus answer; 0: the model's own, at most 4096
	KV            kernel.KVType // element type of the key/value cache
	MaxSeqs       int           // sequences decoded together; 0: 8
	MemoryBytes   int64         // budget for weights, cache and activations; 0: cache for MaxSeqs contexts, at most 1 GiB
	Float         bool          // dequantize weights to f32: exact and slow
	Logger        *slog.Logger  // nil: silent
}

// Request is one generation. The caller states the whole prompt.
type Request struct {
	Prompt    []Token
	MaxTokens int           // 0: until the context is full
	Sampling  sample.Params // zero value: greedy
	Grammar   *grammar.Grammar
	Stop      []string // answer text ends before the first of these
	Namespace string   // prefixes are shared only within a namespace (tenant)
	LogProbs  int      // alternatives to report per token, at most 20; 0: Event.LogProb stays 0, too
	Priority  int      // higher is served first and preempted last
}

// Alternative is a token that could have been chosen, with the model's own log-probability for it.
type Alternative struct {
	Token   Token
	LogProb float32
}

// Event is one generated token. The last events of a stream may carry text without a new token (Token is -1).
type Event struct {
	Token   Token
	Text    string // newly complete UTF-8; may be empty
	LogProb float32
	Top     []Alternative
}

// Usage says what a request cost.
type Usage struct {
	PromptTokens, CachedTokens, OutputTokens int
	Queue, Prefill, Decode, FirstToken       time.Duration
}
