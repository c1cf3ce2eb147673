package bench

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"ragd/llm"
	"ragd/llm/kernel"
	"ragd/llm/sample"
)

// engine is the whole engine, with scheduler, prefix cache and sampler, as a client sees it.
type engine struct {
	*llm.Engine
	pool   *kernel.Pool
	noEnd  map[int32]float32 // bans the tokens that end an answer, so that every answer has the length that was asked for
	Opened time.Duration     // loading took
}

// contextTokens is the context of the works that drive the whole engine.
const contextTokens = 4096

func openEngine(path string, threads int, kv kernel.KVType, seqs, draft int) (*engine, error) {
	begin := time.Now()
	pool := kernel.NewPool(threads)
	e, err := llm.Open(path, llm.Config{Pool: pool, KV: kv, ContextTokens: contextTokens, MaxSeqs: seqs, MaxDraft: draft})
	if err != nil {
		pool.Close()
		return nil, err
	}
	x := &engine{Engine: e, pool: pool, noEnd: map[int32]float32{}, Opened: time.Since(begin)}
	for id := range int32(e.Tokenizer().Size()) {
		if e.Tokenizer().IsEOG(id) {
			x.noEnd[id] = -1000
		}
	}
	return x, nil
}

func (e *engine) close() {
	_ = e.Close() // it cannot fail once nothing runs
	e.pool.Close()
	debug.FreeOSMemory() // what comes next starts as a fresh process would
}

// Ask answers like a server that is told to ignore the end token.
func (e *engine) Ask(ctx context.Context, prompt []int32, maxTokens int) (Answer, error) {
	a, _, err := e.generate(ctx, prompt, maxTokens)
	return a, err
}

// generate is Ask with the text of the answer.
func (e *engine) generate(ctx context.Context, prompt []int32, maxTokens int) (Answer, string, error) {
	begin := time.Now()
	stream, err := e.Generate(ctx, llm.Request{Prompt: prompt, MaxTokens: maxTokens, Sampling: sample.Params{LogitBias: e.noEnd}})
	if err != nil {
		return Answer{}, "", err
	}
	var a Answer
	var text strings.Builder
	for event, err := range stream.Events() {
		if err != nil {
			return Answer{}, "", err
		}
		if a.First == 0 {
			a.First = time.Since(begin)
		}
		text.WriteString(event.Text)
	}
	u := stream.Usage()
	a.Total, a.Tokens, a.Cached = time.Since(begin), u.OutputTokens, u.CachedTokens
	return a, text.String(), nil
}

// start measures the time from opening the file to the first token of a short prompt.
func (s *Suite) start(ctx context.Context) error {
	prompt := []int32{token(1), token(2), token(3), token(4), token(5), token(6), token(7), token(8)}
	var opened []float64
	ours := func() (float64, error) {
		e, err := openEngine(s.Path, s.Threads, s.KV, 0, 0)
		if err != nil {
			return 0, err
		}
		defer e.close()
		a, err := e.Ask(ctx, prompt, 1)
		opened = append(opened, e.Opened.Seconds())
		return (e.Opened + a.First).Seconds(), err
	}
	theirs := func(p *Peer) (float64, error) {
		server, err := p.Serve(ctx, s.Path, 1, contextTokens)
		if err != nil {
			return 0, err
		}
		defer server.Close()
		a, err := server.Ask(ctx, prompt, 1)
		return (server.Started + a.First).Seconds(), err
	}
	rows, err := s.compare(ctx, "start to first token", "s", ours, s.servers(), theirs)
	if err != nil {
		return err
	}
	return s.report(note(rows, "of it loading %.2f s", Median(opened))...)
}

// memory measures what the process occupies with one context filled to the end.
func (s *Suite) memory(ctx context.Context) error {
	const prompt = contextTokens - 16
	ours := func() (float64, error) {
		e, err := openEngine(s.Path, s.Threads, s.KV, 1, 0)
		if err != nil {
			return 0, err
		}
		defer e.close()
		if _, err := e.Ask(ctx, newWriter(1).tokens(e.Tokenizer(), prompt), 2); err != nil {
			return 0, err
		}
		bytes, err := resident("self")
		return float64(bytes) / (1 << 20), err
	}
	// llama-server touches its whole cache when it starts; a prompt longer than its batch makes it touch the rest.
	theirs := func(p *Peer) (float64, error) {
		server, err := p.Serve(ctx, s.Path, 1, contextTokens)
		if err != nil {
			return 0, err
		}
		defer server.Close()
		long := make([]int32, 600)
		for i := range long {
			long[i] = token(i)
		}
		if _, err := server.Ask(ctx, long, 2); err != nil {
			return 0, err
		}
		bytes, err := server.Resident()
		return float64(bytes) / (1 << 20), err
	}
	once := *s
	once.Repeat = 1 // it is the same every time
	rows, err := once.compare(ctx, fmt.Sprintf("memory, context %d", contextTokens), "MiB", ours, s.servers(), theirs)
	if err != nil {
		return err
	}
	return s.report(rows...)
}

// The prompt that is shared by all, and what a question adds.
const (
	systemTokens   = 600
	questionTokens = 60
	passageTokens  = 800
	answerTokens   = 128
)

// firstToken measures the time to the first token of a question behind a system prompt that nobody has asked with before, and behind one that was seen.
func (s *Suite) firstToken(ctx context.Context) error {
	e, err := openEngine(s.Path, s.Threads, s.KV, 0, 0)
	if err != nil {
		return err
	}
	defer e.close()
	// Every question differs, and so does every system prompt that is to be cold.
	questions := newWriter(7)
	prompt := func(system uint64) []int32 {
		return append(newWriter(system).tokens(e.Tokenizer(), systemTokens), questions.tokens(e.Tokenizer(), questionTokens)...)
	}
	if _, err := e.Ask(ctx, prompt(1000), 1); err != nil { // touches the memory
		return err
	}
	system := uint64(2000)
	cold := func() (float64, error) {
		system++
		a, err := e.Ask(ctx, prompt(system), 1)
		return a.First.Seconds(), err
	}
	seen := func(ask Asker) func() (float64, error) {
		return func() (float64, error) {
			a, err := ask(ctx, prompt(1000), 1)
			return a.First.Seconds(), err
		}
	}
	servers := map[*Peer]*Server{}
	defer func() { s.running = nil }()
	for _, p := range s.servers() {
		server, err := p.Serve(ctx, s.Path, 1, contextTokens)
		if err != nil {
			return err
		}
		defer server.Close()
		servers[p], s.running = server, append(s.running, server)
		if _, err := server.Ask(ctx, prompt(1000), 1); err != nil {
			return err
		}
	}
	rows, err := s.compare(ctx, "first token, prefix seen", "s", seen(e.Ask), s.servers(), func(p *Peer) (float64, error) { return seen(servers[p].Ask)() })
	if err != nil {
		return err
	}
	if err := s.report(rows...); err != nil {
		return err
	}
	rows, err = s.compareWith(ctx, "first token, prefix seen", "s", seen(e.Ask), []contestant{{"ragd, cold", cold}})
	if err != nil {
		return err
	}
	return s.report(rows...)
}

// serve measures the load of a RAG service: clients that share a system prompt and bring passages of their own.
func (s *Suite) serve(ctx context.Context) error {
	begin := readBusy()
	e, err := openEngine(s.Path, s.Threads, s.KV, s.Clients, 0)
	if err != nil {
		return err
	}
	defer e.close()
	load := s.load(e)
	ours, err := load.Run(ctx, e.Ask)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("serve %d clients", s.Clients)
	base := func(work, unit string, value float64) Row {
		r := s.row(work, unit, value, 1, begin)
		r.Note = fmt.Sprintf("%d requests, %.0f of %d prompt tokens cached, %.1f tokens/s", len(load.Prompts), ours.Cached, len(load.Prompts[0]), ours.Tokens)
		return r
	}
	rows := func(peer string, theirs Served, settings string) []Row {
		list := []Row{base(name, "requests/s", ours.PerSecond), base(name+", good", "requests/s", ours.Good),
			base(name+", first token p50", "s", ours.P50), base(name+", first token p95", "s", ours.P95)}
		for i, v := range []float64{theirs.PerSecond, theirs.Good, theirs.P50, theirs.P95} {
			list[i].Peer, list[i].PeerValue = peer, v
			if peer != "" {
				list[i].Note += "; peer " + settings + fmt.Sprintf(" cached %.0f", theirs.Cached)
			}
		}
		return list
	}
	if len(s.servers()) == 0 {
		return s.report(rows("", Served{}, "")...)
	}
	for _, p := range s.servers() {
		best, settings, err := s.bestServed(ctx, p, load)
		if err != nil {
			return err
		}
		if err := s.report(rows(p.Name, best, settings)...); err != nil {
			return err
		}
	}
	return nil
}

// load makes the prompts: two per client, one when it must be quick.
func (s *Suite) load(e *engine) Load {
	l := Load{Clients: s.Clients, Output: answerTokens}
	system := newWriter(1).tokens(e.Tokenizer(), systemTokens)
	each := 1
	if s.Full {
		each = 2
	}
	for i := range s.Clients * each {
		l.Prompts = append(l.Prompts, append(slices.Clone(system), newWriter(uint64(100+i)).tokens(e.Tokenizer(), passageTokens)...))
	}
	return l
}

// bestServed runs the load on a server with a slot per client and, for a full run, with one slot; more answers per second win.
func (s *Suite) bestServed(ctx context.Context, p *Peer, load Load) (best Served, settings string, err error) {
	slots := []int{load.Clients}
	if s.Full {
		slots = append(slots, 1)
	}
	for _, n := range slots {
		served, err := s.servedBy(ctx, p, load, n)
		if err != nil {
			return best, "", err
		}
		if served.PerSecond > best.PerSecond {
			best, settings = served, fmt.Sprintf("with -np %d", n)
		}
	}
	return best, settings, nil
}

func (s *Suite) servedBy(ctx context.Context, p *Peer, load Load, slots int) (Served, error) {
	server, err := p.Serve(ctx, s.Path, slots, 2048)
	if err != nil {
		return Served{}, err
	}
	defer server.Close()
	return load.Run(ctx, server.Ask)
}

// copyWords is the length of the quote.
const copyWords = 100

// copyQuote measures how fast a quote from the prompt is repeated, with and without guessing tokens from the prompt. The bytes must be the same.
func (s *Suite) copyQuote(ctx context.Context) error {
	plain, err := openEngine(s.Path, s.Threads, s.KV, 1, -1)
	if err != nil {
		return err
	}
	defer plain.close()
	guessing, err := openEngine(s.Path, s.Threads, s.KV, 1, 0)
	if err != nil {
		return err
	}
	defer guessing.close()
	quote := newWriter(5).words(copyWords)
	tokens := plain.Tokenizer().Encode(quote, false, false)
	// Small models copy better when they were shown how.
	again := "\n\nThe same notice, word for word:\n"
	prompt := plain.Tokenizer().Encode(newWriter(6).words(200)+"\n\nNotice:\n"+quote+again+quote+again, true, false)
	var texts []string
	run := func(e *engine) func() (float64, error) {
		return func() (float64, error) {
			a, text, err := e.generate(ctx, prompt, len(tokens))
			texts = append(texts, text)
			return float64(a.Tokens-1) / (a.Total - a.First).Seconds(), err
		}
	}
	rows, err := s.compareWith(ctx, fmt.Sprintf("copy %d words", copyWords), "tokens/s", run(guessing), []contestant{{"ragd, no guessing", run(plain)}})
	if err != nil {
		return err
	}
	for _, text := range texts {
		if text != texts[0] {
			return fmt.Errorf("bench: guessing tokens changed the answer, which must not happen")
		}
	}
	same := commonPrefix(strings.TrimSpace(texts[0]), quote)
	return s.report(note(rows, "identical bytes in %d runs; %d of %d bytes of the quote repeated", len(texts), same, len(quote))...)
}

func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
