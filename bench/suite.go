package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ragd/llm/kernel"
)

// Suite measures one model. Its fields are set once; works run one after the other.
type Suite struct {
	Path    string // of the model
	Threads int
	KV      kernel.KVType
	Full    bool  // longer works, more of them
	Prompts []int // lengths of the prefill cases; empty: 512, and for a full run 128 and 2048
	Depths  []int // tokens in the cache before; empty: 0, and for a full run 2048
	Streams []int // sizes of batches; empty: 1, 4 and 16, and for a full run 2 and 8
	Repeat  int
	Clients int // of the serving load
	Peers   []*Peer
	Embed   Embedding

	Commit, CPU string
	Report      func(Row) error // called for every row as soon as it is known

	running []*Server // while rows are measured
}

// Work is one kind of measurement.
type Work struct {
	Name, Help string
	Quick      bool // part of a run that is not told what to do
	Encoder    bool // about the embedding model
	run        func(*Suite, context.Context) error
}

// Works lists all works, in the order in which they should run: what depends on a fresh process comes first.
var Works = []Work{
	{"memory", "what the process occupies with a full context", false, false, (*Suite).memory},
	{"start", "from opening the file to the first token", true, false, (*Suite).start},
	{"limits", "read bandwidth and integer peak of this machine", true, false, (*Suite).limits},
	{"prefill", "reading prompts of several lengths, at depth 0 and 2048", true, false, (*Suite).prefill},
	{"decode", "writing, one stream, at depth 0 and 2048", true, false, (*Suite).decode},
	{"batch", "writing, 1 to 16 streams together: throughput against latency", true, false, (*Suite).batch},
	{"first-token", "time to the first token behind a system prompt, seen before or not", true, false, (*Suite).firstToken},
	{"copy", "repeating a quote, with and without guessing tokens from the prompt", true, false, (*Suite).copyQuote},
	{"no-cache", "what a key/value cache saves, by counting token passes", true, false, (*Suite).noCache},
	{"serve", "clients that share a system prompt and bring passages", false, false, (*Suite).serve},
	{"embed", "embedding passages", true, true, (*Suite).embed},
}

// Run does the work of that name.
func (s *Suite) Run(ctx context.Context, name string) error {
	for _, w := range Works {
		if w.Name == name {
			path := s.Path
			if w.Encoder {
				path = s.Embed.Path
			}
			if err := w.run(s, ctx); err != nil {
				return fmt.Errorf("%s of %s: %w", name, modelName(path), err)
			}
			return nil
		}
	}
	return fmt.Errorf("bench: there is no work %q", name)
}

// contestant is somebody to compare with.
type contestant struct {
	name string
	run  func() (float64, error)
}

// servers are the peers that can serve.
func (s *Suite) servers() []*Peer {
	return slices.DeleteFunc(slices.Clone(s.Peers), func(p *Peer) bool { return !p.has("llama-server") })
}

// compare is compareWith for peers.
func (s *Suite) compare(ctx context.Context, work, unit string, ours func() (float64, error), peers []*Peer, theirs func(*Peer) (float64, error)) ([]Row, error) {
	var others []contestant
	for _, p := range peers {
		others = append(others, contestant{p.Name, func() (float64, error) { return theirs(p) }})
	}
	return s.compareWith(ctx, work, unit, ours, others)
}

// compareWith runs ours and the others in turns and returns a row per comparison, or one row when there is nobody to compare with.
func (s *Suite) compareWith(ctx context.Context, work, unit string, ours func() (float64, error), others []contestant) ([]Row, error) {
	begin := readBusy(s.running...)
	var own []float64
	theirs := make([][]float64, len(others))
	for range s.Repeat {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		v, err := ours()
		if err != nil {
			return nil, err
		}
		own = append(own, v)
		for i, o := range others {
			if v, err = o.run(); err != nil {
				return nil, err
			}
			theirs[i] = append(theirs[i], v)
		}
	}
	base := s.row(work, unit, Median(own), s.Repeat, begin)
	if len(others) == 0 {
		return []Row{base}, nil
	}
	var rows []Row
	for i, o := range others {
		r := base
		r.Peer, r.PeerValue = o.name, Median(theirs[i])
		rows = append(rows, r)
	}
	return rows, nil
}

// row is a figure of this model on this machine.
func (s *Suite) row(work, unit string, value float64, runs int, begin busy) Row {
	return Row{
		Date: time.Now().UTC().Format("2006-01-02"), Commit: s.Commit, CPU: s.CPU, Model: modelName(s.Path), ISA: kernel.Active().String(), Threads: s.Threads,
		Work: work, Value: value, Unit: unit, Runs: runs, Others: readBusy(s.running...).others(begin),
	}
}

// modelName is the file's name; "" for no model.
func modelName(path string) string {
	if path == "" {
		return ""
	}
	return strings.TrimSuffix(filepath.Base(path), ".gguf")
}

// note adds a remark to rows.
func note(rows []Row, format string, args ...any) []Row {
	for i := range rows {
		rows[i].Note = fmt.Sprintf(format, args...)
	}
	return rows
}

func (s *Suite) report(rows ...Row) error {
	for _, r := range rows {
		r.complete()
		if err := s.Report(r); err != nil {
			return err
		}
	}
	return nil
}

// limits reports what the machine can do; it is the same for every model.
func (s *Suite) limits(context.Context) error {
	machine := *s
	machine.Path = ""
	begin := readBusy()
	l := MeasureLimits(s.Threads, 256<<20)
	return s.report(machine.row("read bandwidth, huge pages", "GB/s", l.BytesPerSecond/1e9, 1, begin), machine.row("int8 peak", "GOPS", l.OpsPerSecond/1e9, 1, begin))
}

// deep is the depth at which prefill and decoding are measured beside 0.
const deep = 2048

func (s *Suite) prefill(ctx context.Context) error {
	var cases []Case
	for _, n := range s.choose(s.Prompts, []int{512}, []int{128, 512, 2048}) {
		cases = append(cases, Case{Prompt: n})
	}
	for _, depth := range s.choose(s.Depths, nil, []int{deep}) {
		if depth > 0 {
			cases = append(cases, Case{Prompt: 512, Depth: depth})
		}
	}
	return s.cases(ctx, cases, func(c Cost, _ Case, r *Row, l Limits) { c.prefill(r, l) })
}

func (s *Suite) decode(ctx context.Context) error {
	var cases []Case
	for _, depth := range s.choose(s.Depths, []int{0}, []int{0, deep}) {
		cases = append(cases, Case{Decode: s.choose(nil, []int{64}, []int{128})[0], Depth: depth})
	}
	return s.cases(ctx, cases, func(c Cost, w Case, r *Row, l Limits) { c.decode(r, l, 1, w.Depth+w.Decode/2, 0) })
}

// choose returns what was asked for, or the default of a quick or a full run.
func (s *Suite) choose(asked, quick, full []int) []int {
	switch {
	case len(asked) > 0:
		return asked
	case s.Full:
		return full
	}
	return quick
}

// cases measures some cases of one sequence beside the peers' llama-bench; limit sets the limits of a row.
func (s *Suite) cases(ctx context.Context, cases []Case, limit func(Cost, Case, *Row, Limits)) error {
	cost, err := ReadCost(s.Path, s.KV)
	if err != nil {
		return err
	}
	most := 0
	for _, c := range cases {
		most = max(most, c.Depth+c.tokens())
	}
	m, err := Open(s.Path, s.Threads, most, s.KV)
	if err != nil {
		return err
	}
	defer m.Close()
	if _, err := m.Run(Case{Prompt: min(256, most)}); err != nil { // touches the memory
		return err
	}
	for _, c := range cases {
		peers := slices.DeleteFunc(slices.Clone(s.Peers), func(p *Peer) bool { return !p.depth && c.Depth > 0 && c.Decode == 0 })
		var rows []Row
		limits, err := bracket(s.Threads, int(cost.WeightBytes), func() error {
			rows, err = s.compare(ctx, c.String(), "tokens/s", func() (float64, error) { return m.Run(c) }, peers,
				func(p *Peer) (float64, error) { return p.Run(ctx, s.Path, c) })
			return err
		})
		if err != nil {
			return err
		}
		for i := range rows {
			limit(cost, c, &rows[i], limits)
		}
		if err := s.report(rows...); err != nil {
			return err
		}
	}
	return nil
}

// batchPrompt is the prompt that the streams of a batch share.
const batchPrompt = 512

// batch measures how throughput grows and each stream slows down with the number of streams.
func (s *Suite) batch(ctx context.Context) error {
	streams, decode := s.choose(s.Streams, []int{1, 4, 16}, []int{1, 2, 4, 8, 16}), s.choose(nil, []int{32}, []int{64})[0]
	cost, err := ReadCost(s.Path, s.KV)
	if err != nil {
		return err
	}
	m, err := Open(s.Path, s.Threads, batchPrompt+slices.Max(streams)*decode, s.KV)
	if err != nil {
		return err
	}
	defer m.Close()
	peers := slices.DeleteFunc(slices.Clone(s.Peers), func(p *Peer) bool { return !p.has("llama-batched-bench") })
	begin := readBusy()
	r := batchRates{streams: streams, decode: decode, own: make([][]float64, len(streams)), peers: peers, theirs: make([][][]float64, len(peers))}
	for i := range peers {
		r.theirs[i] = make([][]float64, len(streams))
	}
	limits, err := bracket(s.Threads, int(cost.WeightBytes), func() error { return r.measure(ctx, s, m) })
	if err != nil {
		return err
	}
	return s.reportBatch(r, cost, limits, begin)
}

// batchRates are the rates of all streams together, [stream count][repetition].
type batchRates struct {
	streams []int
	decode  int
	own     [][]float64
	peers   []*Peer
	theirs  [][][]float64 // by peer
}

func (r *batchRates) measure(ctx context.Context, s *Suite, m *Model) error {
	for range s.Repeat {
		for i, n := range r.streams {
			rate, err := m.RunBatch(n, batchPrompt, r.decode)
			if err != nil {
				return err
			}
			r.own[i] = append(r.own[i], rate)
		}
		for k, p := range r.peers {
			rates, err := p.RunBatch(ctx, s.Path, r.streams, batchPrompt, r.decode)
			if err != nil {
				return err
			}
			for i, rate := range rates {
				r.theirs[k][i] = append(r.theirs[k][i], rate)
			}
		}
	}
	return nil
}

func (s *Suite) reportBatch(r batchRates, cost Cost, limits Limits, begin busy) error {
	for i, n := range r.streams {
		base := s.row(fmt.Sprintf("batch of %d", n), "tokens/s", Median(r.own[i]), s.Repeat, begin)
		cost.decode(&base, limits, n, batchPrompt+r.decode/2, batchPrompt)
		base.Note = fmt.Sprintf("a token of each stream every %.1f ms", 1000*float64(n)/base.Value)
		rows := []Row{base}
		for k, p := range r.peers {
			beside := base
			beside.Peer, beside.PeerValue = p.Name, Median(r.theirs[k][i])
			rows = append(rows[:k], beside)
		}
		if n == 4 && r.streams[0] == 1 { // what three more readers cost the first one
			rows = append(rows, s.row("step of 4 / step of 1", "times", 4*Median(r.own[0])/base.Value, s.Repeat, begin))
		}
		if err := s.report(rows...); err != nil {
			return err
		}
	}
	return nil
}

// noCache writes the same answer with a key/value cache and without one and counts the tokens that go through the layers.
func (s *Suite) noCache(ctx context.Context) error {
	n := 100
	if s.Full {
		n = 1000
	}
	m, err := Open(s.Path, s.Threads, n+1, s.KV)
	if err != nil {
		return err
	}
	defer m.Close()
	begin := readBusy()
	with, err := m.Generate(token(0), n, true)
	if err != nil {
		return err
	}
	without, err := m.Generate(token(0), n, false)
	if err != nil {
		return err
	}
	if !slices.Equal(with.Tokens, without.Tokens) {
		return fmt.Errorf("bench: the answer depends on the cache, which must not happen")
	}
	remark := fmt.Sprintf("the same %d tokens; with N tokens it is N against N(N+1)/2 passes, for 1000 it is 1000 against 500500", n)
	passes := s.row(fmt.Sprintf("%d tokens without cache, passes", n), "passes", float64(with.Passes), 1, begin)
	passes.Peer, passes.PeerValue, passes.Note = "ragd, no cache", float64(without.Passes), remark
	times := s.row(fmt.Sprintf("%d tokens without cache, time", n), "s", with.Elapsed.Seconds(), 1, begin)
	times.Peer, times.PeerValue, times.Note = "ragd, no cache", without.Elapsed.Seconds(), remark
	return s.report(passes, times)
}
