package quantize

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"ragd/llm/gguf"
	"ragd/llm/kernel"
	"ragd/llm/model"
	"ragd/llm/tokenizer"
)

// Importance says for every matrix, by its name, how much each of its input channels matters: the mean square of the
// activations over a text.
type Importance map[string][]float32

// of returns the importance of a matrix's columns; nil when the text says nothing about it.
func (m Importance) of(name string, cols int) []float32 {
	w := m[name]
	if len(w) != cols {
		return nil
	}
	for _, x := range w {
		if x > 0 {
			return w
		}
	}
	return nil
}

// importanceWindow is how many tokens are read together. Longer windows change the means little.
const importanceWindow = 512

// MeasureImportance runs text through the model f with float activations. It reads text as a stream, so its length is
// bounded by patience alone; a few hundred kilobytes of what the model will be used on are plenty. progress, if not nil, is
// called with the bytes read. It fails when the model is no text generator or the text is too short.
func MeasureImportance(ctx context.Context, f *gguf.File, pool *kernel.Pool, text io.Reader, progress func(bytes int64)) (Importance, error) {
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		return nil, fmt.Errorf("quantize: importance: %w", err)
	}
	m, err := load(f, pool, importanceWindow, referenceFloat(f))
	if err != nil {
		return nil, fmt.Errorf("quantize: importance: %w", err)
	}
	defer m.Close()
	channels := map[string]*channelSums{}
	m.Observe(func(tensors []string, x []float32, rows, cols int) {
		c := channels[tensors[0]]
		if c == nil {
			c = &channelSums{squares: make([]float64, cols)}
			for _, name := range tensors {
				channels[name] = c // matrices that share their input share its sums
			}
		}
		c.add(x, rows, cols)
	})
	read := 0
	if err := eachWindow(ctx, tok, text, min(importanceWindow, m.ContextTokens()), progress, func(window []int32) error {
		read += len(window)
		return runWindow(m, window)
	}); err != nil {
		return nil, fmt.Errorf("quantize: importance: %w", err)
	}
	if read < minWindow {
		return nil, fmt.Errorf("quantize: importance: the text has %d tokens; at least %d are needed, thousands are better", read, minWindow)
	}
	imp := Importance{}
	for name, c := range channels {
		imp[name] = make([]float32, len(c.squares))
		for i, v := range c.squares {
			imp[name][i] = float32(v / float64(c.rows))
		}
	}
	return imp, nil
}

// channelSums accumulates Σx² per input channel.
type channelSums struct {
	squares []float64
	rows    int
}

func (c *channelSums) add(x []float32, rows, cols int) {
	c.rows += rows
	for i := range rows {
		for j, v := range x[i*cols:][:cols] {
			c.squares[j] += float64(v) * float64(v)
		}
	}
}

// minWindow is the shortest text that says anything.
const minWindow = 16

// logitRows is how many rows of logits are in memory at a time.
const logitRows = 32

// runWindow feeds one window from position 0, with the logits of all rows, because only those rows reach the end of the
// last layer.
func runWindow(m *model.Model, window []int32) error {
	b := model.Batch{Out: count(logitRows)}
	pages := pagesFor(len(window))
	for lo := 0; lo < len(window); lo += logitRows {
		n := min(logitRows, len(window)-lo)
		b.Tokens, b.Out = window[lo:lo+n], b.Out[:n]
		b.Seqs = []model.Seq{{N: n, Pos: lo, Pages: pages}}
		if err := m.Forward(&b); err != nil {
			return err
		}
	}
	return nil
}

// eachWindow cuts a stream into windows of tokens; the last one may be shorter.
func eachWindow(ctx context.Context, tok *tokenizer.Tokenizer, text io.Reader, size int, progress func(bytes int64), fn func([]int32) error) error {
	const pieceBytes = 64 << 10
	r := bufio.NewReaderSize(text, pieceBytes)
	var tokens []int32
	if tok.AddsBOS() {
		size-- // every window starts with it
	}
	flush := func(least int) error {
		for len(tokens) >= least && len(tokens) > 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(size, len(tokens))
			if err := fn(withBOS(tok, tokens[:n])); err != nil {
				return err
			}
			tokens = tokens[n:]
		}
		return nil
	}
	var total int64
	for {
		piece, err := readPiece(r, pieceBytes)
		total += int64(len(piece))
		tokens = append(tokens, tok.Encode(piece, false, false)...)
		if flushErr := flush(size); flushErr != nil {
			return flushErr
		}
		if progress != nil {
			progress(total)
		}
		switch {
		case errors.Is(err, io.EOF):
			return flush(1)
		case err != nil:
			return err
		}
	}
}

// readPiece returns the next part of the text, cut at the end of a line where there is one, else at a space, else between
// characters.
func readPiece(r *bufio.Reader, n int) (string, error) {
	b, err := r.Peek(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	cut := len(b)
	if len(b) == n {
		if cut = bytes.LastIndexByte(b, '\n') + 1; cut == 0 {
			cut = bytes.LastIndexByte(b, ' ')
		}
		if cut <= 0 {
			for cut = n - 1; cut > 1 && !utf8.RuneStart(b[cut]); {
				cut--
			}
		}
	}
	piece := string(b[:cut])
	if _, discarded := r.Discard(cut); discarded != nil {
		return "", discarded
	}
	return piece, err
}

// withBOS puts the begin token in front where the model wants it.
func withBOS(tok *tokenizer.Tokenizer, tokens []int32) []int32 {
	if bos, ok := tok.BOS(); ok && tok.AddsBOS() {
		return append([]int32{bos}, tokens...)
	}
	return tokens
}

func count(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func pagesFor(tokens int) []int32 {
	pages := make([]int32, (tokens+kernel.PageTokens-1)/kernel.PageTokens)
	for i := range pages {
		pages[i] = int32(i)
	}
	return pages
}

// load loads f for one sequence of up to window tokens, with a float cache, so that only the weights differ.
func load(f *gguf.File, pool *kernel.Pool, window int, float bool) (*model.Model, error) {
	c, err := model.ReadConfig(f)
	if err != nil {
		return nil, err
	}
	return model.Load(f, pool, model.Options{Float: float, KV: kernel.KVF32, ContextTokens: min(window, c.Context)})
}
