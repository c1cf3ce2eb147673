package convert

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/llm/gguf"
	"ragd/llm/tokenizer"
)

// TestByteFallback: SentencePiece BPE arrives as scores and gives the ids that the tokenizers package gives.
func TestByteFallback(t *testing.T) {
	for name, prefix := range map[string]bool{"prefix": true, "plain": false} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("testdata", "spbpe", name)
			raw, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
			require.NoError(t, err)
			v, err := parseTokenizer(raw, &tokenizerConfig{names: map[string]string{"unknown": "<unk>", "bos": "<s>", "eos": "</s>"}}, nil)
			require.NoError(t, err)
			require.Equal(t, prefix, v.flags["add_space_prefix"])
			path := filepath.Join(t.TempDir(), "m.gguf")
			require.NoError(t, gguf.Create(path, "llama", func(w *gguf.Writer) error {
				v.write(w)
				return w.Begin()
			}))
			tok, err := tokenizer.FromGGUF(open(t, path))
			require.NoError(t, err)
			raw, err = os.ReadFile(filepath.Join(dir, "cases.json"))
			require.NoError(t, err)
			var cases []struct {
				Text string
				IDs  []int32
			}
			require.NoError(t, json.Unmarshal(raw, &cases))
			require.NotEmpty(t, cases)
			for _, c := range cases {
				require.Equal(t, c.IDs, tok.Encode(c.Text, true, false), "%q", c.Text)
			}
		})
	}
}

func TestByteFallbackRefusals(t *testing.T) {
	raw, err := os.ReadFile("testdata/spbpe/prefix/tokenizer.json")
	require.NoError(t, err)
	for message, edit := range map[string]func(string) string{
		"255 are there":               func(s string) string { return strings.Replace(s, `"<0x41>"`, `"zzzzzz"`, 1) },
		`the step "NFKC" before`:      func(s string) string { return strings.Replace(s, `"type": "Prepend"`, `"type": "NFKC"`, 1) },
		"does not turn spaces into":   func(s string) string { return strings.Replace(s, `"type": "Replace"`, `"type": "Sequence"`, 1) },
		`of the type "WordLevel" are`: func(s string) string { return strings.Replace(s, `"type": "BPE"`, `"type": "WordLevel"`, 1) },
	} {
		edited := edit(string(raw))
		require.NotEqual(t, string(raw), edited, message)
		_, err := parseTokenizer([]byte(edited), &tokenizerConfig{names: map[string]string{}}, nil)
		require.ErrorContains(t, err, message)
	}
}
