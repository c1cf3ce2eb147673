package llm

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/model"
)

// Ten defects of other engines' caches and servers, and the tests that show this one does not have them:
//
//  1. a prefix is lost after another prompt came between: TestPeersPrefixSurvives, kvcache.TestPrefixSurvivesOtherPrompts
//  2. a warm prefix is recomputed for each parallel request: TestPeersPrefixSurvives, sched.TestSharedPrefixIsComputedOnce
//  3. models with sliding windows recompute everything: TestPeersSlidingWindow, TestRealSlidingWindow
//  4. the prompt cache grows without bound: TestPeersCacheIsBounded
//  5. the front of a long prompt is dropped silently: TestRefusals
//  6. a generation shifts its context and never stops: TestPeersContextEnds
//  7. a long prompt stalls every other stream: sched.TestLongPromptDoesNotStallStreams
//  8. a disconnect cancels nothing, or somebody else's request: TestCancel
//  9. too many requests for the cache abort all of them: sched.TestPreemption
//  10. greedy output changes once the prompt is cached: TestRealDeterminism

func TestPeersPrefixSurvives(t *testing.T) {
	e := startEcho(t, &echo{}, Config{MaxSeqs: 8})
	system := strings.Repeat("you are a helpful assistant. ", 10)
	ask := func(text string) Usage {
		s, err := e.Generate(t.Context(), Request{Prompt: echoPrompt(text), MaxTokens: 2})
		require.NoError(t, err)
		read(t, s)
		return s.Usage()
	}
	require.Zero(t, ask(system+"one").CachedTokens)
	ask("something quite different " + strings.Repeat("x", 300))
	require.Equal(t, 288, ask(system+"two").CachedTokens)
	var streams []*Stream
	for i := range 8 {
		s, err := e.Generate(t.Context(), Request{Prompt: echoPrompt(system + fmt.Sprint(i)), MaxTokens: 2})
		require.NoError(t, err)
		streams = append(streams, s)
	}
	for _, s := range streams {
		read(t, s)
		require.GreaterOrEqual(t, s.Usage().CachedTokens, 288)
	}
}

func TestPeersCacheIsBounded(t *testing.T) {
	e := startEcho(t, &echo{}, Config{})
	for i := range 100 {
		s, err := e.Generate(t.Context(), Request{Prompt: echoPrompt(strings.Repeat(fmt.Sprint(i, " "), 100)), MaxTokens: 2, Namespace: fmt.Sprint(i)})
		require.NoError(t, err)
		read(t, s)
	}
	st := e.Stats()
	require.Positive(t, st.Evictions)
	require.Equal(t, st.Pages, st.FreePages+st.CachedPages)
}

func TestPeersContextEnds(t *testing.T) {
	e := startEcho(t, &echo{}, Config{})
	prompt := echoPrompt(strings.Repeat("x", 700))
	s, err := e.Generate(t.Context(), Request{Prompt: prompt}) // the echo wants 700 tokens, the context has room for 322
	require.NoError(t, err)
	_, tokens := read(t, s)
	require.Len(t, tokens, 1024-len(prompt))
	require.Equal(t, "length", s.FinishReason())
}

func TestPeersSlidingWindow(t *testing.T) {
	f, err := gguf.Open(filepath.Join("model", "testdata", "arch", "gemma3.f32.gguf"))
	require.NoError(t, err)
	defer f.Close()
	pool := kernel.NewPool(2)
	const pages = 40
	m, err := model.Load(f, pool, model.Options{KV: kernel.KVInt16, KVPages: pages})
	require.NoError(t, err)
	e := newEngine(m, m.CopyPage, m.Vocab(), testTokenizer(t), Memory{Pages: pages, ContextTokens: m.ContextTokens()}, Config{MaxSeqs: 4})
	e.free = func() { m.Close(); pool.Close() }
	go e.loop()
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	r := Request{MaxTokens: 6, LogProbs: 1}
	for i := range m.ContextTokens() - 8 {
		r.Prompt = append(r.Prompt, firstByte+Token(i*i%200))
	}
	require.Greater(t, len(r.Prompt), 3*m.Config().Layers[0].Window, "a hit leaves tokens that window layers no longer see")
	require.Positive(t, m.Config().Layers[0].Window)
	cold, u := answerOf(t, e, r)
	require.Zero(t, u.CachedTokens)
	warm, u := answerOf(t, e, r)
	require.Equal(t, cold, warm)
	require.GreaterOrEqual(t, u.CachedTokens, len(r.Prompt)-16)
}

func TestRealSlidingWindow(t *testing.T) {
	e := openReal(t, "gemma-3-270m-q4_k_m", Config{KV: kernel.KVF16, ContextTokens: 1536})
	// Longer than the window of 512 tokens, so that a hit leaves tokens that window layers no longer see.
	text := strings.Repeat("The quick brown fox jumps over the lazy dog near the river bank. ", 60)
	r := Request{Prompt: e.Tokenizer().Encode(text, true, false), MaxTokens: 8, LogProbs: 1}
	require.Greater(t, len(r.Prompt), 700)
	cold, u := answerOf(t, e, r)
	require.Zero(t, u.CachedTokens)
	warm, u := answerOf(t, e, r)
	require.Equal(t, cold, warm)
	require.GreaterOrEqual(t, u.CachedTokens, len(r.Prompt)-17)
}
