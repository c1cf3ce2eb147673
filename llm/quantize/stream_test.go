package quantize

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"ragd/llm/gguf"
	"ragd/llm/quant"
	"ragd/llm/tokenizer"
)

func tokensOf(t testing.TB, f *gguf.File, text string) []int32 {
	t.Helper()
	tok, err := tokenizer.FromGGUF(f)
	require.NoError(t, err)
	var all []int32
	require.NoError(t, eachWindow(context.Background(), tok, strings.NewReader(text), importanceWindow, nil, func(w []int32) error {
		require.LessOrEqual(t, len(w), importanceWindow)
		all = append(all, w...)
		return nil
	}))
	return all
}

func decoded(t testing.TB, f *gguf.File, name string) []float32 {
	t.Helper()
	x, ok := f.Tensor(name)
	require.True(t, ok, name)
	out := make([]float32, x.Rows()*x.Cols())
	require.NoError(t, quant.Decode(x.Type, out, x.Data))
	return out
}

// TestReadPiece: the pieces of a stream are the stream, cut between characters and, where possible, lines.
func TestReadPiece(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "lines": strings.Repeat("one two three\n", 40), "words": strings.Repeat("word ", 100), "no spaces": strings.Repeat("x", 300),
		"characters": strings.Repeat("日本語", 70), "invalid": strings.Repeat("\xff\xfe", 100), "continuations": strings.Repeat("\x80", 130),
	} {
		t.Run(name, func(t *testing.T) {
			const n = 64
			r := bufio.NewReaderSize(strings.NewReader(text), n)
			var got strings.Builder
			for {
				piece, err := readPiece(r, n)
				got.WriteString(piece)
				require.LessOrEqual(t, len(piece), n)
				require.True(t, !utf8.ValidString(text) || utf8.ValidString(piece))
				require.True(t, name != "lines" || piece == "" || strings.HasSuffix(piece, "\n"))
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				require.NotEmpty(t, piece)
			}
			require.Equal(t, text, got.String())
		})
	}
}
