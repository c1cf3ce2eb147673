package llm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ragd/llm/grammar"
	"ragd/llm/kvcache"
	"ragd/llm/model"
	"ragd/llm/sample"
	"ragd/llm/tokenizer"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// The test vocabulary spells every byte, and has some longer tokens so that stop strings cross token boundaries.
const (
	unk, bos, eos = Token(0), Token(1), Token(2)
	firstByte     = Token(3)
)

var words = []string{"hello", " world", "END", " of", "EN", "D!"}

func testTokenizer(t testing.TB) *tokenizer.Tokenizer {
	v := tokenizer.Vocabulary{
		Model: "llama", Tokens: []string{"<unk>", "<s>", "</s>"}, Types: []tokenizer.Type{tokenizer.Unknown, tokenizer.Control, tokenizer.Control},
		BOS: bos, EOS: eos, EOT: -1, EOM: -1, UNK: unk, SEP: -1, PAD: -1, CLS: -1, MASK: -1,
	}
	for b := range 256 {
		v.Tokens, v.Types = append(v.Tokens, fmt.Sprintf("<0x%02X>", b)), append(v.Types, tokenizer.Byte)
	}
	for _, w := range words {
		v.Tokens, v.Types = append(v.Tokens, strings.ReplaceAll(w, " ", "▁")), append(v.Types, tokenizer.Normal)
	}
	v.Scores = make([]float32, len(v.Tokens))
	tok, err := tokenizer.New(v)
	require.NoError(t, err)
	return tok
}

// spell returns the tokens of pieces: a test word, or bytes.
func spell(pieces ...string) (out []Token) {
next:
	for _, p := range pieces {
		for i, w := range words {
			if p == w {
				out = append(out, firstByte+256+Token(i))
				continue next
			}
		}
		for _, b := range []byte(p) {
			out = append(out, firstByte+Token(b))
		}
	}
	return out
}

// echo is a model that repeats its prompt: after <s> x y z <unk> it says x y z </s>. It reads the prompt from its pages
// like attention would.
type echo struct {
	slots  []Token
	gate   chan struct{} // when set, every pass waits for a signal
	panics bool
	fails  bool
	passes int
}

func (m *echo) copyPage(dst, src int32) {
	copy(m.slots[dst*kvcache.PageTokens:][:kvcache.PageTokens], m.slots[src*kvcache.PageTokens:][:kvcache.PageTokens])
}

const testVocab = int(firstByte) + 256 + 6 + 10 // ten logits of padding, which always are the highest

func (m *echo) Forward(b *model.Batch) error {
	if m.gate != nil {
		<-m.gate
	}
	m.passes++
	if m.panics {
		panic("a bug")
	}
	if m.fails {
		return errors.New("cannot compute")
	}
	b.Logits = make([]float32, len(b.Out)*testVocab)
	for _, s := range b.Seqs {
		at := func(pos int) *Token {
			return &m.slots[int(s.Pages[pos/kvcache.PageTokens])*kvcache.PageTokens+pos%kvcache.PageTokens]
		}
		for i := range s.N {
			*at(s.Pos + i) = b.Tokens[s.Start+i]
		}
		for o, row := range b.Out {
			if row < s.Start || row >= s.Start+s.N {
				continue
			}
			pos, sep := s.Pos+row-s.Start, 0
			for *at(sep) != unk && sep < pos {
				sep++
			}
			next := *at(min(pos-sep+1, pos))
			if next == unk {
				next = eos
			}
			logits := b.Logits[o*testVocab:][:testVocab]
			logits[next] = 10
			for i := testVocab - 10; i < testVocab; i++ {
				logits[i] = 99
			}
		}
	}
	return nil
}

func echoPrompt(pieces ...string) []Token {
	return append(append([]Token{bos}, spell(pieces...)...), unk)
}

func startEcho(t *testing.T, m *echo, c Config) *Engine {
	const pages = 200
	m.slots = make([]Token, pages*kvcache.PageTokens)
	if c.MaxSeqs == 0 {
		c.MaxSeqs = 4
	}
	c.MaxDraft = defaultDraft
	e := newEngine(m, m.copyPage, testVocab, testTokenizer(t), Memory{Pages: pages, ContextTokens: 1024}, c)
	go e.loop()
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// read returns the whole text of a stream; every piece must be valid UTF-8.
func read(t *testing.T, s *Stream) (text string, tokens []Token) {
	for e, err := range s.Events() {
		require.NoError(t, err)
		require.True(t, utf8.ValidString(e.Text))
		text += e.Text
		if e.Token >= 0 {
			tokens = append(tokens, e.Token)
		}
	}
	return text, tokens
}

func TestGenerate(t *testing.T) {
	e := startEcho(t, &echo{}, Config{})
	s, err := e.Generate(t.Context(), Request{Prompt: echoPrompt("hello", " world", " — naïve 😀 日本語")})
	require.NoError(t, err)
	text, tokens := read(t, s)
	require.Equal(t, "hello world — naïve 😀 日本語", text)
	require.Equal(t, "stop", s.FinishReason())
	require.Equal(t, len(tokens), s.Usage().OutputTokens)
	require.Equal(t, len(tokens)+2, s.Usage().PromptTokens)
	require.Positive(t, s.Usage().FirstToken)

	s, err = e.Generate(t.Context(), Request{Prompt: echoPrompt("naïve"), MaxTokens: 3})
	require.NoError(t, err)
	text, _ = read(t, s)
	require.Equal(t, "na\uFFFD", text, "an answer cut inside a character stays valid UTF-8")
	require.Equal(t, "length", s.FinishReason())
}

func TestCachedTokens(t *testing.T) {
	e := startEcho(t, &echo{}, Config{})
	p := echoPrompt(strings.Repeat("a shared prompt ", 10))
	for i, want := range []int{0, 160, 0} {
		s, err := e.Generate(t.Context(), Request{Prompt: p, MaxTokens: 4, Namespace: []string{"a", "a", "b"}[i]})
		require.NoError(t, err)
		text, _ := read(t, s)
		require.Equal(t, "a sh", text)
		require.Equal(t, want, s.Usage().CachedTokens)
	}
	require.NoError(t, e.Forget(t.Context(), "a"))
	s, err := e.Generate(t.Context(), Request{Prompt: p, MaxTokens: 4, Namespace: "a"})
	require.NoError(t, err)
	read(t, s)
	require.Zero(t, s.Usage().CachedTokens)
}

func TestStopStrings(t *testing.T) {
	e := startEcho(t, &echo{}, Config{})
	for name, tc := range map[string]struct {
		pieces, stop []string
		want, why    string
	}{
		"inside a token":            {[]string{"hello", " world"}, []string{"ll"}, "he", "stop"},
		"across tokens":             {[]string{"x ", "EN", "D!", " more"}, []string{"END"}, "x ", "stop"},
		"byte by byte":              {[]string{"abc STOP def"}, []string{"STOP"}, "abc ", "stop"},
		"at the very start":         {[]string{"END", "x"}, []string{"END"}, "", "stop"},
		"the earliest one counts":   {[]string{"a b c"}, []string{"c", "b"}, "a ", "stop"},
		"a beginning is no stop":    {[]string{"abc STO def"}, []string{"STOP"}, "abc STO def", "stop"},
		"a beginning at the end":    {[]string{"abc STO"}, []string{"STOP"}, "abc STO", "stop"},
		"overlapping beginnings":    {[]string{"aaaab"}, []string{"aab"}, "aa", "stop"},
		"inside a character's text": {[]string{"日本語です"}, []string{"語"}, "日本", "stop"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := e.Generate(t.Context(), Request{Prompt: echoPrompt(tc.pieces...), Stop: tc.stop})
			require.NoError(t, err)
			text := ""
			for ev, err := range s.Events() {
				require.NoError(t, err)
				text += ev.Text
				require.True(t, strings.HasPrefix(tc.want, text), "%q leaks part of a stop string", text)
			}
			require.Equal(t, tc.want, text)
			require.Equal(t, tc.why, s.FinishReason())
			require.Positive(t, s.Usage().OutputTokens)
		})
	}
	_, err := e.Generate(t.Context(), Request{Prompt: echoPrompt("x"), Stop: []string{""}})
	require.Error(t, err)
}

// However a text is cut, the stopper sends exactly the text before the first stop string, and never a part of it.
func FuzzStopper(f *testing.F) {
	f.Add("aaaab", "aab", "b", uint64(1))
	f.Add("abc STOP def", "STOP", "OP d", uint64(2))
	f.Add("日本語", "語", "本語", uint64(3))
	f.Fuzz(func(t *testing.T, text, stop1, stop2 string, seed uint64) {
		if stop1 == "" || stop2 == "" {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		s := stopper{stops: []string{stop1, stop2}}
		out, stopped := "", false
		end := len(text)
		for rest := text; rest != "" && !stopped; {
			n := 1 + rng.IntN(len(rest))
			var piece string
			piece, stopped = s.push(rest[:n])
			out, rest = out+piece, rest[n:]
			end = len(text) - len(rest)
		}
		if !stopped {
			out += s.flush()
		}
		// The stop string that is complete first ends the text; of those complete in one piece, the earliest.
		want, found := text, false
		for _, stop := range []string{stop1, stop2} {
			if i := strings.Index(text[:end], stop); i >= 0 && i <= len(want) {
				want, found = text[:i], true
			}
		}
		require.Equal(t, found, stopped)
		require.Equal(t, want, out)
	})
}

// generate submits a request while the loop is inside a forward pass, and lets that pass end.
func (m *echo) generate(t *testing.T, e *Engine, r Request) (s *Stream, err error) {
	t.Helper()
	pending := func() int { e.mu.Lock(); defer e.mu.Unlock(); return len(e.commands) }
	before, done := pending(), make(chan struct{})
	go func() { s, err = e.Generate(t.Context(), r); close(done) }()
	for pending() == before {
		runtime.Gosched()
	}
	m.gate <- struct{}{}
	<-done
	return s, err
}

func TestRefusals(t *testing.T) {
	m := &echo{gate: make(chan struct{})}
	e := startEcho(t, m, Config{MaxSeqs: 1, MaxQueue: 1})
	_, err := e.Generate(t.Context(), Request{Prompt: echoPrompt(strings.Repeat("x", 1023))})
	require.ErrorIs(t, err, ErrTooLong)
	require.ErrorContains(t, err, "1025 prompt tokens")
	_, err = e.Generate(t.Context(), Request{})
	require.ErrorContains(t, err, "empty")
	_, err = e.Generate(t.Context(), Request{Prompt: []Token{5}, Sampling: sample.Params{TopP: 3}})
	require.ErrorContains(t, err, "top_p")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = e.Generate(cancelled, Request{Prompt: echoPrompt("x")})
	require.ErrorIs(t, err, context.Canceled)

	first, err := e.Generate(t.Context(), Request{Prompt: echoPrompt("first")}) // takes the only place
	require.NoError(t, err)
	second, err := m.generate(t, e, Request{Prompt: echoPrompt("second")}) // waits
	require.NoError(t, err)
	_, err = m.generate(t, e, Request{Prompt: echoPrompt("third")})
	var busy *BusyError
	require.ErrorIs(t, err, ErrBusy)
	require.ErrorAs(t, err, &busy)
	require.GreaterOrEqual(t, busy.RetryAfter, time.Second)
	close(m.gate)
	for s, want := range map[*Stream]string{first: "first", second: "second"} {
		text, _ := read(t, s)
		require.Equal(t, want, text)
	}
}

func TestCancel(t *testing.T) {
	m := &echo{gate: make(chan struct{})}
	e := startEcho(t, m, Config{})
	ctx, cancel := context.WithCancelCause(t.Context())
	a, err := e.Generate(ctx, Request{Prompt: echoPrompt(strings.Repeat("a", 300))})
	require.NoError(t, err)
	b, err := m.generate(t, e, Request{Prompt: echoPrompt("bbb")})
	require.NoError(t, err)
	c, err := m.generate(t, e, Request{Prompt: echoPrompt("ccc")})
	require.NoError(t, err)
	reason := errors.New("the client has gone")
	cancel(reason)
	var got error
	for _, err := range a.Events() {
		got = err
	}
	require.ErrorIs(t, got, reason, "the reader does not wait for the model")
	close(m.gate)
	text, _ := read(t, b)
	require.Equal(t, "bbb", text, "nobody else is affected")
	for range c.Events() {
		break // leaving the loop cancels
	}
	_, err = e.Score(t.Context(), []Token{5}, []Token{6}, "") // a round trip: the loop has seen the cancellations
	require.NoError(t, err)
	st := e.Stats()
	require.Zero(t, st.Running)
	require.GreaterOrEqual(t, st.Cancelled, int64(1))
	require.Equal(t, st.Pages, st.FreePages+st.CachedPages, "no page is lost")
}

func TestStopEndsAnAnswerWithItsUsage(t *testing.T) {
	m := &echo{gate: make(chan struct{}, 12)} // a dozen passes, and the others after Stop: the model must not be done before its reader
	for range cap(m.gate) {
		m.gate <- struct{}{}
	}
	e := startEcho(t, m, Config{})
	s, err := e.Generate(t.Context(), Request{Prompt: echoPrompt(strings.Repeat("a", 300))})
	require.NoError(t, err)
	tokens := 0
	for event, err := range s.Events() {
		require.NoError(t, err)
		if event.Token >= 0 {
			tokens++
		}
		if tokens == 3 {
			s.Stop()
			close(m.gate)
		}
	}
	u := s.Usage()
	require.Equal(t, "stop", s.FinishReason())
	require.Equal(t, len(echoPrompt(strings.Repeat("a", 300))), u.PromptTokens)
	require.Equal(t, tokens, u.OutputTokens)
	require.Less(t, tokens, 300)
	s.Stop() // after the end it changes nothing
	_, err = e.Score(t.Context(), []Token{5}, []Token{6}, "")
	require.NoError(t, err)
	st := e.Stats()
	require.Zero(t, st.Running)
	require.Equal(t, st.Pages, st.FreePages+st.CachedPages, "no page is lost")
}

func TestForwardErrorFailsTheRequestOnly(t *testing.T) {
	m := &echo{fails: true}
	e := startEcho(t, m, Config{})
	s, err := e.Generate(t.Context(), Request{Prompt: echoPrompt("x")})
	require.NoError(t, err)
	n := 0
	for _, err := range s.Events() {
		require.ErrorContains(t, err, "cannot compute")
		n++
	}
	require.Equal(t, 1, n)
	require.True(t, e.Healthy())
}

func TestPanicFailsEveryRequestOnce(t *testing.T) {
	m := &echo{gate: make(chan struct{}), panics: true}
	e := startEcho(t, m, Config{})
	first, err := e.Generate(t.Context(), Request{Prompt: echoPrompt("x")})
	require.NoError(t, err)
	late := make(chan error)
	go func() { _, err := e.Generate(t.Context(), Request{Prompt: echoPrompt("y")}); late <- err }()
	close(m.gate)
	errs := 0
	for _, err := range first.Events() {
		require.ErrorIs(t, err, ErrUnhealthy)
		errs++
	}
	require.Equal(t, 1, errs)
	require.ErrorIs(t, <-late, ErrUnhealthy, "a request that came too late is not left waiting")
	require.False(t, e.Healthy())
	_, err = e.Generate(t.Context(), Request{Prompt: echoPrompt("x")})
	require.ErrorIs(t, err, ErrUnhealthy)
}

// An engine without requests sleeps: its goroutine is found waiting, and nothing but a request wakes it.
func TestIdleEngineSleeps(t *testing.T) {
	m := &echo{}
	e := startEcho(t, m, Config{})
	s, err := e.Generate(t.Context(), Request{Prompt: echoPrompt("hello"), MaxTokens: 3})
	require.NoError(t, err)
	read(t, s)
	require.Eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		for g := range strings.SplitSeq(string(stacks), "\n\n") {
			if strings.Contains(g, "llm.(*Engine).loop(") {
				return strings.Contains(g[:strings.IndexByte(g, '\n')], "[chan receive")
			}
		}
		return false
	}, 10*time.Second, time.Millisecond)
}

func TestCloseDrains(t *testing.T) {
	e := startEcho(t, &echo{}, Config{})
	var streams []*Stream
	for range 6 {
		s, err := e.Generate(t.Context(), Request{Prompt: echoPrompt("some text")})
		require.NoError(t, err)
		streams = append(streams, s)
	}
	require.NoError(t, e.Close())
	for _, s := range streams {
		text, _ := read(t, s)
		require.Equal(t, "some text", text)
	}
	_, err := e.Generate(t.Context(), Request{Prompt: echoPrompt("x")})
	require.ErrorIs(t, err, ErrClosed)
	_, err = e.Score(t.Context(), []Token{5}, []Token{6}, "")
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, e.Close())
}

func TestScore(t *testing.T) {
	e := startEcho(t, &echo{}, Config{})
	p := echoPrompt("abc")
	good, err := e.Score(t.Context(), p, spell("abc"), "")
	require.NoError(t, err)
	require.Len(t, good, 3)
	bad, err := e.Score(t.Context(), p, spell("axc"), "")
	require.NoError(t, err)
	require.Equal(t, good[0], bad[0])
	require.InDelta(t, good[1]-10, bad[1], 1e-4, "the echo's logit is 10, all others are 0")
	none, err := e.Score(t.Context(), p, nil, "")
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestAnswersBeamsAndGrammar(t *testing.T) {
	e := startEcho(t, &echo{}, Config{})
	s, err := e.Generate(t.Context(), Request{Prompt: echoPrompt("abcdef"), Answers: 3, Stop: []string{"d"}, LogProbs: 2})
	require.NoError(t, err)
	texts := make([]string, 3)
	for ev, err := range s.Events() {
		require.NoError(t, err)
		texts[ev.Answer] += ev.Text
		if ev.Token >= 0 {
			require.Len(t, ev.Top, 2)
			require.Equal(t, ev.Token, ev.Top[0].Token)
			require.Equal(t, ev.LogProb, ev.Top[0].LogProb)
		}
	}
	require.Equal(t, []string{"abc", "abc", "abc"}, texts)
	require.Equal(t, 12, s.Usage().OutputTokens)
	for i := range 3 {
		require.Equal(t, "stop", s.FinishReasonOf(i))
	}
	s, err = e.Generate(t.Context(), Request{Prompt: echoPrompt("abcdef"), Beams: 4, Stop: []string{"e"}})
	require.NoError(t, err)
	text, _ := read(t, s)
	require.Equal(t, "abcd", text)
	require.Equal(t, "stop", s.FinishReason())

	choice, err := grammar.Choice(e.Vocab(), []string{"hello world", "hell", "help"})
	require.NoError(t, err)
	two, err := grammar.Choice(e.Vocab(), []string{"x", "y"})
	require.NoError(t, err)
	s, err = e.Generate(t.Context(), Request{Prompt: echoPrompt("yes"), Grammar: two, Beams: 4, Answers: 4})
	require.NoError(t, err)
	texts = make([]string, 4)
	for ev, err := range s.Events() {
		require.NoError(t, err)
		texts[ev.Answer] += ev.Text
	}
	require.Equal(t, []string{"y", "x", "", ""}, texts)
	for prompt, want := range map[string]string{"hello world": "hello world", "help": "help", "hell": "hell"} {
		s, err := e.Generate(t.Context(), Request{Prompt: echoPrompt(prompt), Grammar: choice})
		require.NoError(t, err)
		text, _ := read(t, s)
		require.Equal(t, want, text)
		require.Equal(t, "stop", s.FinishReason())
	}
}

func TestManyClients(t *testing.T) {
	e := startEcho(t, &echo{}, Config{MaxQueue: 1000})
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			want := fmt.Sprintf("client %d says %s", i, strings.Repeat("x", i))
			s, err := e.Generate(ctx, Request{Prompt: echoPrompt(want), Namespace: fmt.Sprint(i % 3)})
			if err != nil {
				t.Error(err)
				return
			}
			text := ""
			for ev, err := range s.Events() {
				if i%7 == 0 && len(text) > 5 {
					cancel()
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				text += ev.Text
			}
			if i%7 != 0 && text != want {
				t.Errorf("%q, want %q", text, want)
			}
		}()
	}
	wg.Wait()
	_, err := e.Score(t.Context(), []Token{5}, []Token{6}, "")
	require.NoError(t, err)
	st := e.Stats()
	require.Equal(t, st.Pages, st.FreePages+st.CachedPages)
}
