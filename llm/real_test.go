package llm

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/internal/modeltest"
	"ragd/llm/grammar"
	"ragd/llm/kernel"
	"ragd/llm/sample"
)

// realModel opens SmolLM2 from the folder RAGD_MODELS.
func realModel(t testing.TB, c Config) *Engine {
	return openReal(t, smolLM2, c)
}

const smolLM2 = "SmolLM2-135M-Instruct.Q4_1"

// realPath returns the path of a model of the catalogue, or skips the test.
func realPath(t testing.TB, name string) string {
	return modeltest.Path(t, name)
}

func openReal(t testing.TB, name string, c Config) *Engine {
	e, err := Open(realPath(t, name), c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// answerOf runs r alone or beside others; it fails the test from any goroutine.
func answerOf(t testing.TB, e *Engine, r Request) (string, Usage) {
	s, err := e.Generate(t.Context(), r)
	if err != nil {
		t.Error(err)
		return "", Usage{}
	}
	var b strings.Builder
	for ev, err := range s.Events() {
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(&b, "%d:%x:%s ", ev.Token, ev.LogProb, ev.Text)
	}
	return b.String(), s.Usage()
}

// The promise of determinism, as bytes: tokens, text and the bits of the log-probabilities are equal alone, in a batch,
// after a cache hit, with the prompt cut differently, after preemption, and on one and two threads.
func TestRealDeterminism(t *testing.T) {
	e := realModel(t, Config{KV: kernel.KVF16, ContextTokens: 1024})
	system := "You answer questions about the weather. " + strings.Repeat("Rain falls from clouds when drops grow heavy. ", 12)
	var requests []Request
	for i, question := range []string{"Why does it rain?", "What is snow made of?", "Name three kinds of clouds.", "How does wind begin?"} {
		r := Request{Prompt: e.Tokenizer().Encode(system+question, true, false), MaxTokens: 24, LogProbs: 1}
		if i%2 == 1 {
			r.Sampling = sample.Params{Temperature: 0.8, TopP: 0.95, Seed: uint64(i)}
		}
		requests = append(requests, r)
	}
	want := make([]string, len(requests))
	for i, r := range requests {
		r.Namespace = fmt.Sprint("alone", i)
		var u Usage
		want[i], u = answerOf(t, e, r)
		require.Zero(t, u.CachedTokens)
	}
	t.Run("together", func(t *testing.T) { requireTogether(t, e, requests, want) })
	t.Run("after a cache hit", func(t *testing.T) {
		for i, r := range requests {
			r.Namespace = "alone0"
			got, u := answerOf(t, e, r)
			require.Equal(t, want[i], got)
			require.Greater(t, u.CachedTokens, 80)
		}
	})
	t.Run("answers of one prompt", func(t *testing.T) {
		r := requests[1]
		r.Answers = 3
		s, err := e.Generate(t.Context(), r)
		require.NoError(t, err)
		texts := make([]strings.Builder, 3)
		for ev, err := range s.Events() {
			require.NoError(t, err)
			fmt.Fprintf(&texts[ev.Answer], "%d:%x:%s ", ev.Token, ev.LogProb, ev.Text)
		}
		require.Equal(t, want[1], texts[0].String(), "the first of several answers is the only one of one")
		require.NotEqual(t, texts[0].String(), texts[1].String())
	})
	t.Run("few pages, one thread", func(t *testing.T) {
		// Room for one context only: the four requests push each other out.
		small := realModel(t, Config{KV: kernel.KVF16, ContextTokens: 256, Threads: 1, MemoryBytes: e.Memory().WeightBytes + e.Memory().ActivationBytes + 18*e.Memory().PageBytes})
		require.Less(t, small.Stats().Pages, 24)
		requireTogether(t, small, requests, want)
	})
}

func requireTogether(t *testing.T, e *Engine, requests []Request, want []string) {
	got := make([]string, len(requests))
	var wg sync.WaitGroup
	for i, r := range requests {
		r.Namespace = fmt.Sprintf("%s%d", t.Name(), i%2)
		wg.Add(1)
		go func() {
			defer wg.Done()
			got[i], _ = answerOf(t, e, r)
		}()
	}
	wg.Wait()
	require.Equal(t, want, got)
}

// Guessing tokens changes the time, not one bit of the result, greedy or sampled.
func TestRealSpeculation(t *testing.T) {
	passage := "The lighthouse of Vernholm was built in 1874 from granite that came by barge from the quarries of Aldermoor. Its lamp burned whale oil for eleven years, then paraffin, and since 1921 it has been lit by electricity from the mill. "
	var texts []string
	for _, draft := range []int{-1, 0} {
		e := realModel(t, Config{KV: kernel.KVF16, ContextTokens: 1024, MaxDraft: draft})
		prompt := e.Tokenizer().Encode(strings.Repeat(passage, 3), true, false)
		text := ""
		for _, p := range []sample.Params{{}, {Temperature: 0.5, Seed: 9}} {
			got, u := answerOf(t, e, Request{Prompt: prompt, MaxTokens: 100, LogProbs: 1, Sampling: p})
			text += got
			t.Logf("draft %d, temperature %v: %.1f tokens/s", draft, p.Temperature, float64(u.OutputTokens)/u.Decode.Seconds())
		}
		st := e.Stats()
		t.Logf("%d guessed, %d right", st.Drafted, st.Accepted)
		require.Equal(t, draft == 0, st.Accepted > 50)
		texts = append(texts, text)
	}
	require.Equal(t, texts[0], texts[1])
}

func TestRealScore(t *testing.T) {
	e := realModel(t, Config{ContextTokens: 512})
	tok := e.Tokenizer()
	prompt := tok.Encode("The capital of France is", true, false)
	paris, err := e.Score(t.Context(), prompt, tok.Encode(" Paris", false, false), "")
	require.NoError(t, err)
	cheese, err := e.Score(t.Context(), prompt, tok.Encode(" cheese", false, false), "")
	require.NoError(t, err)
	require.Greater(t, paris[0], cheese[0])
	// Generation reports the same numbers for the tokens it chose.
	s, err := e.Generate(t.Context(), Request{Prompt: prompt, MaxTokens: 16, LogProbs: 3})
	require.NoError(t, err)
	var tokens []Token
	var lps []float32
	for ev, err := range s.Events() {
		require.NoError(t, err)
		tokens, lps = append(tokens, ev.Token), append(lps, ev.LogProb)
		require.Equal(t, ev.Token, ev.Top[0].Token)
	}
	scores, err := e.Score(t.Context(), prompt, tokens, "elsewhere")
	require.NoError(t, err)
	require.Equal(t, lps, scores)
}

func TestRealGrammar(t *testing.T) {
	e := realModel(t, Config{ContextTokens: 512})
	prompt := e.Tokenizer().Encode("Passages: [1] Rain falls. [2] Snow is frozen water.\nAnswer with citations: ", true, false)
	g := grammar.Cited(e.Vocab(), grammar.CitedOptions{Passages: 2, EverySentence: true, Refusal: "I cannot say."})
	for _, p := range []sample.Params{{}, {Temperature: 1, Seed: 3}, {Temperature: 1.5, Seed: 4}} {
		s, err := e.Generate(t.Context(), Request{Prompt: prompt, Grammar: g, MaxTokens: 80, Sampling: p})
		require.NoError(t, err)
		text, _ := read(t, s)
		t.Logf("%s: %q", s.FinishReason(), text)
		require.NotContains(t, strings.NewReplacer("[1]", "", "[2]", "").Replace(text), "]")
	}
	choice, err := grammar.Choice(e.Vocab(), []string{"supported", "contradicted", "not mentioned"})
	require.NoError(t, err)
	s, err := e.Generate(t.Context(), Request{Prompt: prompt, Grammar: choice})
	require.NoError(t, err)
	text, _ := read(t, s)
	require.Contains(t, []string{"supported", "contradicted", "not mentioned"}, text)
}

func TestRealMemoryBudget(t *testing.T) {
	path := realPath(t, smolLM2)
	_, err := Open(path, Config{MemoryBytes: 100 << 20})
	require.ErrorContains(t, err, "the budget is 100 MiB")
	_, err = Open(path, Config{ContextTokens: 1 << 20})
	require.ErrorContains(t, err, "a context of 1048576 tokens")
}

func BenchmarkMaskReal(b *testing.B) {
	e := realModel(b, Config{ContextTokens: 64})
	v := e.Vocab()
	for b.Loop() {
		g := grammar.Cited(v, grammar.CitedOptions{Passages: 5, EverySentence: true, Refusal: "I cannot say."})
		m := g.Matcher()
		for _, id := range e.Tokenizer().Encode("It rained", false, false) {
			_ = m.Accept(id)
		}
		m.Mask()
	}
}
