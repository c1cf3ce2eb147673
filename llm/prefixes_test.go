package llm

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/kvcache"
)

// The echo's pages as bytes.
func (m *echo) PageBytes() int { return kvcache.PageTokens }

func (m *echo) ReadPage(page int32, image []byte) {
	for i := range image {
		image[i] = byte(m.slots[int(page)*kvcache.PageTokens+i] - firstByte)
	}
}

func (m *echo) WritePage(page int32, image []byte) {
	for i := range image {
		m.slots[int(page)*kvcache.PageTokens+i] = firstByte + Token(image[i])
	}
}

// stored starts an echo with a prefix file, asks, and closes it.
func stored(t *testing.T, path, fingerprint string, ask func(e *Engine)) {
	logged(t, path, fingerprint, slog.New(slog.DiscardHandler), ask)
}

func logged(t *testing.T, path, fingerprint string, logger *slog.Logger, ask func(e *Engine)) {
	m := &echo{slots: make([]Token, 64*kvcache.PageTokens)}
	e := newEngine(m, m.copyPage, testVocab, testTokenizer(t), Memory{Pages: 64, ContextTokens: 512}, Config{MaxSeqs: 2})
	e.fingerprint, e.logger = fingerprint, logger
	e.usePrefixes(m, path, defaultPrefixBytes)
	go e.loop()
	ask(e)
	require.NoError(t, e.Close())
}

func cachedTokens(t *testing.T, e *Engine, ns, text string) int {
	// <unk> ends the prompt and must not be in a page that is stored as bytes, so the text is longer than what is shared.
	s, err := e.Generate(t.Context(), Request{Prompt: append(spell(text), unk), MaxTokens: 3, Namespace: ns})
	require.NoError(t, err)
	got, _ := read(t, s)
	require.Equal(t, text[1:4], got)
	return s.Usage().CachedTokens
}

func TestPrefixesSurviveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prefixes")
	text := "a system prompt that everybody uses, and a rest of it that differs"
	stored(t, path, "fp", func(e *Engine) {
		require.Zero(t, cachedTokens(t, e, "a", text))
		require.Equal(t, 64, cachedTokens(t, e, "a", text))
		require.Zero(t, cachedTokens(t, e, "b", text))
	})
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	good, err := os.ReadFile(path)
	require.NoError(t, err)

	stored(t, path, "fp", func(e *Engine) {
		require.Equal(t, 64, cachedTokens(t, e, "a", text))
		require.Equal(t, 64, cachedTokens(t, e, "b", text))
	})
	// What another engine left is no fault, and makes room for this one's.
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	for _, file := range [][]byte{good, other(good)} {
		require.NoError(t, os.WriteFile(path, file, 0o600))
		log.Reset()
		logged(t, path, "another", logger, func(e *Engine) {
			require.Zero(t, cachedTokens(t, e, "a", text))
			require.Equal(t, 64, cachedTokens(t, e, "a", text))
		})
		require.NotContains(t, log.String(), "level=WARN")
		require.Contains(t, log.String(), "another engine")
		stored(t, path, "another", func(e *Engine) {
			require.Equal(t, 64, cachedTokens(t, e, "a", text), "the file is this engine's now")
		})
	}
	for _, damaged := range [][]byte{nil, good[:5], good[:13], flip(good, 0), flip(good, 11)} {
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		log.Reset()
		logged(t, path, "fp", logger, func(e *Engine) { cachedTokens(t, e, "a", text) })
		require.Contains(t, log.String(), "the file is damaged")
	}
	// Damage anywhere costs pages, never a wrong answer: cachedTokens compares the answer.
	for cut := 0; cut < len(good); cut += 1 + len(good)/40 {
		for _, damaged := range [][]byte{good[:cut], flip(good, cut), append(flip(good, cut), good...)} {
			require.NoError(t, os.WriteFile(path, damaged, 0o600))
			stored(t, path, "fp", func(e *Engine) { cachedTokens(t, e, "a", text) })
		}
	}
	require.NoError(t, os.WriteFile(path, good, 0o600))
	stored(t, path, "fp", func(e *Engine) {
		require.NoError(t, e.Forget(context.Background(), "a"))
		_, err := os.Stat(path)
		require.ErrorIs(t, err, os.ErrNotExist)
	})
	stored(t, path, "fp", func(e *Engine) {
		require.Zero(t, cachedTokens(t, e, "a", text), "nothing of the namespace is left")
		require.Equal(t, 64, cachedTokens(t, e, "b", text), "the others' prefixes are")
	})
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 2, "the file and its lock; no temporary file is left")
	stored(t, filepath.Join(path, "impossible"), "fp", func(e *Engine) { cachedTokens(t, e, "a", text) })
}

// A process that deletes documents without an engine leaves nothing of them behind, whether an engine runs elsewhere or not.
func TestForgetPrefixes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prefixes")
	text := "what a document said before it was deleted"
	use := func(e *Engine) {
		cachedTokens(t, e, "a", text)
		require.Equal(t, 32, cachedTokens(t, e, "a", text))
	}
	stored(t, path, "fp", use)
	require.FileExists(t, path)
	require.NoError(t, ForgetPrefixes(path))
	require.NoFileExists(t, path)
	stored(t, path, "fp", func(e *Engine) {
		require.Zero(t, cachedTokens(t, e, "a", text), "nobody ran")
	})
	stored(t, path, "fp", func(e *Engine) {
		use(e)
		require.NoError(t, ForgetPrefixes(path))
	})
	require.NoFileExists(t, path, "an engine ran")
	require.NoFileExists(t, path+forgetMark)
	stored(t, path, "fp", use)
	require.FileExists(t, path, "a mark holds once")

	// A crash between the mark and the removal, before the next start.
	require.NoError(t, os.WriteFile(path+forgetMark, nil, 0o600))
	stored(t, path, "fp", func(e *Engine) {
		require.Zero(t, cachedTokens(t, e, "a", text))
	})
	require.NoError(t, ForgetPrefixes(filepath.Join(t.TempDir(), "nowhere", "prefixes")))
}

// Two engines on one file: the second one neither reads nor writes it.
func TestPrefixesHaveOneOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prefixes")
	text := "a system prompt that everybody uses"
	stored(t, path, "fp", func(e *Engine) {
		cachedTokens(t, e, "a", text)
		cachedTokens(t, e, "a", text)
	})
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	stored(t, path, "fp", func(first *Engine) {
		require.Equal(t, 32, cachedTokens(t, first, "a", text))
		stored(t, path, "fp", func(e *Engine) {
			require.Zero(t, cachedTokens(t, e, "a", text))
		})
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, before, after)
	})
}

func flip(b []byte, at int) []byte {
	out := append([]byte(nil), b...)
	out[at] ^= 0x41
	return out
}

// other is a file in the next version of the format.
func other(b []byte) []byte {
	out := append([]byte(nil), b...)
	out[len(prefixMagic)-1]++
	return out
}

func TestRealPrefixesSurviveARestart(t *testing.T) {
	c := Config{ContextTokens: 512, PrefixFile: filepath.Join(t.TempDir(), "prefixes")}
	text := strings.Repeat("The rain in Spain stays mainly in the plain. ", 12)
	var want string
	for i := range 2 {
		e, err := Open(realPath(t, smolLM2), c)
		require.NoError(t, err)
		r := Request{Prompt: e.Tokenizer().Encode(text, true, false), MaxTokens: 8, LogProbs: 1}
		for range 2 {
			got, u := answerOf(t, e, r)
			if want == "" {
				want = got
			}
			require.Equal(t, want, got)
			require.True(t, i == 0 || u.CachedTokens > 100)
		}
		require.NoError(t, e.Close())
	}
}

func FuzzReadPrefix(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 'a', 16, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		x, image, err := readPrefix(strings.NewReader(string(data)), 32, 512)
		if err == nil {
			require.Len(t, image, 32)
			require.LessOrEqual(t, len(x.Prefix), 512)
		}
	})
}
