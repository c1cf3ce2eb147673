package grammar_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/internal/modeltest"
	"ragd/llm/gguf"
	"ragd/llm/grammar"
	"ragd/llm/kernel"
	"ragd/llm/model"
	"ragd/llm/sample"
	"ragd/llm/tokenizer"
)

// BenchmarkStep measures what a grammar adds to a step of a real model: the time per token of a mask and of accepting the
// token, on the texts that the grammar itself leads to, and its share of a decoding step of the same model measured before.
func BenchmarkStep(b *testing.B) {
	for _, name := range []string{"SmolLM2-135M-Instruct.Q4_1", "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M"} {
		path := modeltest.Path(b, name)
		f, err := gguf.Open(path)
		require.NoError(b, err)
		defer f.Close()
		tok, err := tokenizer.FromGGUF(f)
		require.NoError(b, err)
		pool := kernel.NewPool(0)
		defer pool.Close()
		step := decodeStep(b, f, pool)
		vocab := grammar.NewVocab(tok.Size(), tok.Bytes, tok.IsControl, tok.IsEOG)
		passages := examplePassages(b)
		schema := []byte(`{"type":"object","properties":{"name":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}},"n":{"type":"integer"}},"required":["name","tags","n"]}`)
		for kind, build := range map[string]func() *grammar.Grammar{
			"markers": func() *grammar.Grammar {
				return grammar.Cited(vocab, grammar.CitedOptions{Passages: 6, EverySentence: true, Refusal: "The documents do not say."})
			},
			"quotes": func() *grammar.Grammar {
				return grammar.Cited(vocab, grammar.CitedOptions{Quotes: grammar.NewQuotes(passages), EverySentence: true, Refusal: "The documents do not say."})
			},
			"choice": func() *grammar.Grammar {
				g, err := grammar.Choice(vocab, []string{"yes", "no", "not in the documents"})
				require.NoError(b, err)
				return g
			},
			"schema": func() *grammar.Grammar {
				g, err := grammar.JSONSchema(vocab, schema)
				require.NoError(b, err)
				return g
			},
		} {
			b.Run(fmt.Sprintf("%s/%s", strings.SplitN(name, "-", 2)[0], kind), func(b *testing.B) {
				steps, spent := 0, time.Duration(0)
				for i := 0; b.Loop(); i++ {
					n, took := walk(tok, build(), uint64(i), passages[0])
					steps, spent = steps+n, spent+took
				}
				perToken := spent.Seconds() / float64(steps)
				b.ReportMetric(perToken*1e6, "µs/token")
				b.ReportMetric(100*perToken/step.Seconds(), "%step")
				b.ReportMetric(float64(step.Microseconds())/1000, "ms/step")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// walk writes one text under the grammar and returns its tokens and the time the grammar took. A model mostly wants what the
// grammar allows, so the token comes first and the mask only where it is refused: here at every fourth token. Text is that of
// the passage, which a quote can follow.
func walk(tok *tokenizer.Tokenizer, g *grammar.Grammar, seed uint64, passage string) (steps int, spent time.Duration) {
	const most = 160
	rng := rand.New(rand.NewPCG(seed, 5))
	m := g.Matcher()
	want := tok.Encode(passage, false, false)
	at := rng.IntN(len(want) / 2)
	for steps < most {
		id := want[at%len(want)]
		at++
		start := time.Now()
		if rng.IntN(4) == 0 || !m.Allows(id) {
			mask := m.Mask()
			spent += time.Since(start)
			if id = pick(rng, mask); id < 0 {
				return steps + 1, spent
			}
			start = time.Now()
		}
		err := m.Accept(id)
		spent += time.Since(start)
		steps++
		if err != nil || m.Done() {
			return steps, spent
		}
	}
	return steps, spent
}

// pick returns a random token of a mask.
func pick(rng *rand.Rand, mask []uint64) int32 {
	var ids []int32
	for w, word := range mask {
		for bit := range 64 {
			if word>>bit&1 == 1 {
				ids = append(ids, int32(w*64+bit))
			}
		}
	}
	if len(ids) == 0 {
		return -1
	}
	return ids[rng.IntN(len(ids))]
}

// decodeStep is the time of one greedy step of one sequence, sampling included.
func decodeStep(b *testing.B, f *gguf.File, pool *kernel.Pool) time.Duration {
	m, err := model.Load(f, pool, model.Options{KV: kernel.KVInt16, ContextTokens: 512})
	require.NoError(b, err)
	defer m.Close()
	pages := make([]int32, m.Pages())
	for i := range pages {
		pages[i] = int32(i)
	}
	best := time.Hour
	batch := model.Batch{Tokens: []int32{5}, Out: []int{0}}
	s := sample.New(sample.Params{}, 0, new(sample.Workspace))
	for i := range 48 {
		batch.Seqs = []model.Seq{{N: 1, Pos: i, Pages: pages}}
		start := time.Now()
		require.NoError(b, m.Forward(&batch))
		s.Sample(batch.Logits, nil, i)
		best = min(best, time.Since(start))
	}
	return best
}

// examplePassages are six passages of 1.5 KB of this project's own documents.
func examplePassages(b *testing.B) []string {
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "decisions", "*.md"))
	require.NoError(b, err)
	var out []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(b, err)
		if len(raw) >= 1500 && len(out) < 6 {
			out = append(out, strings.ToValidUTF8(string(raw[:1500]), ""))
		}
	}
	require.Len(b, out, 6)
	return out
}
