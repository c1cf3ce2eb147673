package llm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ragd/llm/chat"
	"ragd/llm/gguf"
	"ragd/llm/grammar"
	"ragd/llm/kernel"
	"ragd/llm/kvcache"
	"ragd/llm/model"
	"ragd/llm/sched"
	"ragd/llm/tokenizer"
)

// Token is a token id.
type Token = int32

// BusyError is ErrBusy with the time after which to try again.
type BusyError = sched.BusyError

// Errors a caller acts on; match them with errors.Is.
var (
	// ErrTooLong: prompt and answer do not fit the context or the cache. Shorten the prompt or ask for fewer tokens.
	ErrTooLong = sched.ErrTooLong
	// ErrBusy: the queue is full. The error is a *BusyError, which says when to try again.
	ErrBusy = sched.ErrBusy
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
	MaxSeqs       int           // sequences computed together; 0: 8
	MaxQueue      int           // requests that may wait; 0: 64
	MaxDraft      int           // tokens guessed from the prompt per step and sequence; 0: 12, negative: none
	MemoryBytes   int64         // budget for weights, cache and activations; 0: what is available, see Memory
	Float         bool          // dequantize weights to f32: exact and slow
	PrefixFile    string        // keeps the pages of the prompts that were used last over a restart; "": none
	PrefixBytes   int64         // bound of that file; 0: 256 MiB
	Base          bool          // a model without a chat template will do: Chat returns nil, then
	Logger        *slog.Logger  // nil: silent
}

const (
	defaultContext = 4096
	defaultSeqs    = 8
	defaultDraft   = 12
)

// Engine runs one model for any number of requests.
type Engine struct {
	remote            *remote // writes in place of a model of this process; then nothing below but memory and logger is used
	name, fingerprint string
	parameters        int64
	tok               *tokenizer.Tokenizer
	chat              *chat.Template
	vocab             func() *grammar.Vocab
	memory            Memory
	logger            *slog.Logger
	prefixFile        string
	save              func() // writes the prefix file; called when the loop ends well
	free              func() // releases the model; called once, after the loop has ended

	sched *sched.Scheduler // of the loop's goroutine
	cache *kvcache.Cache   // likewise
	calls map[*sched.Request]*call

	mu       sync.Mutex
	commands []func() // to be run by the loop
	refusal  error    // why new requests are refused
	wake     chan struct{}
	ended    chan struct{}
	stats    atomic.Pointer[Stats]
}

// Open loads a GGUF file of a causal model and starts its engine. It refuses a file it cannot run by naming what is not
// supported, and a memory budget that is too small by naming what would fit.
func Open(path string, c Config) (*Engine, error) {
	e, err := open(path, c)
	if err != nil {
		return nil, fmt.Errorf("llm: open %s: %w", path, err)
	}
	return e, nil
}

func open(path string, c Config) (*Engine, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var words language
	var wordsErr error
	read := make(chan struct{})
	go func() { // beside the weights: a large vocabulary takes one thread a fifth of a second
		defer close(read)
		words, wordsErr = readLanguage(f, c.Base)
	}()
	defer func() { <-read }() // before f is closed
	shape, err := model.ReadConfig(f)
	if err != nil {
		return nil, err
	}
	if shape.Labels != nil {
		return nil, fmt.Errorf("the model is a reranker that only answers %s; it cannot write text (ragd --reranker FILE uses it)", strings.Join(shape.Labels, " or "))
	}
	if c.ContextTokens == 0 {
		c.ContextTokens = min(shape.Context, defaultContext)
	}
	c.MaxSeqs = cmp.Or(c.MaxSeqs, defaultSeqs)
	c.MaxDraft = max(cmp.Or(c.MaxDraft, defaultDraft), 0)
	memory, err := planMemory(f, shape.Vocab, c)
	if err != nil {
		return nil, err
	}
	pool, free := c.Pool, func() {}
	if pool == nil {
		pool = kernel.NewPool(c.Threads)
		free = pool.Close
	}
	m, err := model.Load(f, pool, model.Options{Float: c.Float, KV: c.KV, ContextTokens: c.ContextTokens, KVPages: memory.Pages})
	if err != nil {
		free()
		return nil, err
	}
	if <-read; wordsErr != nil {
		m.Close()
		free()
		return nil, wordsErr
	}
	memory.HugePages = m.HugePages()
	e := newEngine(m, m.CopyPage, m.Vocab(), words.tok, memory, c)
	e.name = strings.TrimSuffix(filepath.Base(path), ".gguf")
	e.fingerprint = fingerprint(f, c)
	for _, t := range f.Tensors() {
		e.parameters += int64(t.Rows()) * int64(t.Cols())
	}
	e.chat = words.chat
	e.free = func() { m.Close(); free() }
	e.usePrefixes(m, c.PrefixFile, cmp.Or(c.PrefixBytes, defaultPrefixBytes))
	e.logger.Info("engine ready", "model", e.name, "architecture", shape.Arch, "isa", kernel.Active().String(),
		"threads", pool.Threads(), "context_tokens", memory.ContextTokens, "memory", memory.String())
	go e.loop()
	return e, nil
}

// language turns messages into tokens and tokens into text.
type language struct {
	tok  *tokenizer.Tokenizer
	chat *chat.Template
}

func readLanguage(f *gguf.File, base bool) (l language, err error) {
	if l.tok, err = tokenizer.FromGGUF(f); err != nil {
		return l, err
	}
	if l.chat, err = chat.FromGGUF(f, l.tok); base {
		err = nil
	}
	return l, err
}

// newEngine assembles an engine around any model; the caller starts its loop.
func newEngine(m sched.Model, copyPage func(dst, src int32), vocab int, tok *tokenizer.Tokenizer, memory Memory, c Config) *Engine {
	logger := c.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	e := &Engine{
		tok:    tok,
		memory: memory,
		logger: logger,
		save:   func() {},
		free:   func() {},
		cache:  kvcache.New(memory.Pages, copyPage),
		calls:  map[*sched.Request]*call{},
		wake:   make(chan struct{}, 1),
		ended:  make(chan struct{}),
	}
	e.vocab = sync.OnceValue(func() *grammar.Vocab {
		return grammar.NewVocab(tok.Size(), tok.Bytes, tok.IsControl, tok.IsEOG)
	})
	e.sched = sched.New(m, e.cache, sched.Config{
		Vocab:         vocab,
		Tokens:        min(vocab, tok.Size()),
		ContextTokens: memory.ContextTokens,
		MaxSeqs:       c.MaxSeqs,
		MaxQueue:      c.MaxQueue,
		MaxDraft:      c.MaxDraft,
		End:           tok.IsEOG,
		Now:           time.Now,
	})
	e.publish()
	return e
}

// fingerprint identifies what determines an answer: weights, element types and kernel path.
func fingerprint(f *gguf.File, c Config) string {
	h := sha256.New()
	fmt.Fprintln(h, f.Architecture(), f.Size(), kernel.Active(), c.KV, c.Float)
	for _, t := range f.Tensors() {
		fmt.Fprintln(h, t.Name, t.Type, t.Shape)
		h.Write(t.Data[:min(len(t.Data), 256)]) // a changed model changes everywhere, and reading all of it takes seconds
	}
	return "fp_" + hex.EncodeToString(h.Sum(nil)[:8])
}

// Name returns the file's name without extension.
func (e *Engine) Name() string {
	if e.remote != nil {
		return e.remote.Name()
	}
	return e.name
}

// Fingerprint changes whenever equal requests might get different answers.
func (e *Engine) Fingerprint() string {
	if e.remote != nil { // what it depends on is not known
		return "external:" + e.remote.Name()
	}
	return e.fingerprint
}

// Parameters is the number of the model's weights; 0 for an external engine.
func (e *Engine) Parameters() int64 { return e.parameters }

// Tokenizer returns the model's tokenizer.
func (e *Engine) Tokenizer() *tokenizer.Tokenizer { return e.tok }

// Chat returns the model's chat template.
func (e *Engine) Chat() *chat.Template { return e.chat }

// Vocab returns the vocabulary that grammars for this engine are built on. The first call takes a moment.
func (e *Engine) Vocab() *grammar.Vocab { return e.vocab() }

// ContextTokens returns the largest sum of prompt and answer.
func (e *Engine) ContextTokens() int { return e.memory.ContextTokens }

// Memory returns the plan the engine was started with; of an external one only ContextTokens.
func (e *Engine) Memory() Memory { return e.memory }

// Stats describes the engine's load and its work since the start.
type Stats struct {
	Running, Waiting                          int
	Pages, FreePages, CachedPages             int
	PromptTokensSeen, PromptTokensFound       int64 // by the prefix cache
	PrefillTokens, DecodeTokens, Preemptions  int64
	Evictions, Finished, Cancelled, Submitted int64
	Drafted, Accepted                         int64 // tokens guessed, and guessed right
}

// Stats returns counts that are at most one step old.
func (e *Engine) Stats() Stats {
	if e.remote != nil {
		return e.remote.stats()
	}
	return *e.stats.Load()
}

func (e *Engine) publish() {
	s, c := e.sched.Stats(), e.cache.Stats()
	e.stats.Store(&Stats{
		Running: s.Running, Waiting: s.Waiting,
		Pages: c.Pages, FreePages: c.Free, CachedPages: c.Cached,
		PromptTokensSeen: c.LookupTokens, PromptTokensFound: c.HitTokens,
		PrefillTokens: s.PrefillTokens, DecodeTokens: s.DecodeTokens, Preemptions: s.Preemptions,
		Evictions: c.Evictions, Finished: s.Finished, Cancelled: s.Cancelled, Submitted: s.Submitted,
		Drafted: s.Drafted, Accepted: s.Accepted,
	})
}

// Healthy reports whether the engine accepts requests.
func (e *Engine) Healthy() bool {
	if e.remote != nil {
		return e.remote.healthy()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.refusal == nil
}

// Forget drops everything cached for a namespace, in memory and on disk, for example when a tenant's documents were
// erased.
func (e *Engine) Forget(ctx context.Context, ns string) error {
	return e.erase(ctx, func() []string { return []string{ns} })
}

// ForgetAll is Forget for every namespace: for when it is not known which one's documents were erased.
func (e *Engine) ForgetAll(ctx context.Context) error {
	return e.erase(ctx, func() []string { return e.cache.Namespaces() })
}

func (e *Engine) erase(ctx context.Context, namespaces func() []string) error {
	if e.remote != nil { // its caches are not ours
		return nil
	}
	return e.call(ctx, func() error {
		for _, ns := range namespaces() {
			e.cache.Drop(ns)
		}
		if e.prefixFile == "" {
			return nil
		}
		// The other namespaces' pages are written again when the engine closes.
		if err := remove(e.prefixFile); err != nil {
			return fmt.Errorf("llm: forget cached text: %w", err)
		}
		return nil
	})
}

// Close refuses new requests, lets the accepted ones end (cancel their contexts to hurry them) and frees the model.
func (e *Engine) Close() error {
	if e.remote != nil {
		e.remote.close()
		return nil
	}
	e.mu.Lock()
	if e.refusal == nil {
		e.refusal = ErrClosed
	}
	e.mu.Unlock()
	e.poke()
	<-e.ended
	return nil
}
