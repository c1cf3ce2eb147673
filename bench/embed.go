package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"ragd/embed"
	"ragd/llm/kernel"
)

// Embedding says which encoder is measured and against what.
type Embedding struct {
	Path      string
	Profile   embed.Profile
	Reference string   // the same model in float32, whose vectors count as exact; "" for none
	Against   []string // a program and its arguments that prints {"name": …, "tokens_per_second": …}, such as docs/bench/onnx_embed.py; empty for none
}

// Passages of the embedding work.
const (
	embedPassages = 16
	embedTokens   = 256
)

// passages writes texts of about embedTokens tokens each and counts their tokens.
func passages(e *embed.Encoder) (texts []string, tokens int) {
	for i := range embedPassages {
		w := newWriter(uint64(500 + i))
		text := w.sentence()
		for {
			longer := text + " " + w.sentence()
			if e.Tokens(longer)+2 > embedTokens {
				break
			}
			text = longer
		}
		texts = append(texts, text)
		tokens += e.Tokens(text) + 2 // with the tokens around it
	}
	return texts, tokens
}

// embed measures how many tokens of passages become vectors per second.
func (s *Suite) embed(ctx context.Context) error {
	pool := kernel.NewPool(s.Threads)
	defer pool.Close()
	e, err := embed.Open(s.Embed.Path, pool, s.Embed.Profile)
	if err != nil {
		return err
	}
	defer e.Close()
	texts, tokens := passages(e)
	vectors, err := e.Embed(ctx, embed.Passage, texts) // touches the memory
	if err != nil {
		return err
	}
	remark := ""
	if s.Embed.Reference != "" {
		worst, err := s.fidelity(ctx, pool, texts, vectors)
		if err != nil {
			return err
		}
		remark = fmt.Sprintf("cosine to the float32 model at least %.5f", worst)
	}
	ours := func() (float64, error) {
		const rounds = 4
		begin := time.Now()
		for range rounds {
			if _, err := e.Embed(ctx, embed.Passage, texts); err != nil {
				return 0, err
			}
		}
		return float64(rounds*tokens) / time.Since(begin).Seconds(), nil
	}
	var others []contestant
	if len(s.Embed.Against) > 0 {
		name, _, err := s.embedPeer(ctx)
		if err != nil {
			return err
		}
		others = append(others, contestant{name, func() (float64, error) {
			_, rate, err := s.embedPeer(ctx)
			return rate, err
		}})
	}
	encoder := *s
	encoder.Path = s.Embed.Path
	rows, err := encoder.compareWith(ctx, fmt.Sprintf("embed %d passages of %d tokens", embedPassages, embedTokens), "tokens/s", ours, others)
	if err != nil {
		return err
	}
	return s.report(note(rows, "%s", remark)...)
}

// fidelity returns the smallest cosine between vectors and those of the reference.
func (s *Suite) fidelity(ctx context.Context, pool *kernel.Pool, texts []string, vectors []embed.Vector) (float64, error) {
	e, err := embed.Open(s.Embed.Reference, pool, s.Embed.Profile)
	if err != nil {
		return 0, err
	}
	defer e.Close()
	exact, err := e.Embed(ctx, embed.Passage, texts)
	if err != nil {
		return 0, err
	}
	worst := 1.0
	for i, v := range vectors {
		if len(v) != len(exact[i]) {
			return 0, fmt.Errorf("bench: %s makes vectors of %d numbers and the reference of %d", modelName(s.Embed.Path), len(v), len(exact[i]))
		}
		dot := 0.0
		for k := range v {
			dot += float64(v[k]) * float64(exact[i][k])
		}
		worst = min(worst, dot)
	}
	return worst, nil
}

// embedPeer runs the other program once.
func (s *Suite) embedPeer(ctx context.Context) (name string, rate float64, err error) {
	out, err := exec.CommandContext(ctx, s.Embed.Against[0], s.Embed.Against[1:]...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, tail(exit.Stderr))
		}
		return "", 0, fmt.Errorf("bench: %s: %w", s.Embed.Against[0], err)
	}
	return parseEmbedPeer(out)
}

func parseEmbedPeer(out []byte) (name string, rate float64, err error) {
	var result struct {
		Name string  `json:"name"`
		Rate float64 `json:"tokens_per_second"`
	}
	if err := json.Unmarshal(out, &result); err != nil || result.Name == "" || result.Rate <= 0 {
		return "", 0, fmt.Errorf(`bench: the embedding program must print {"name": …, "tokens_per_second": …}, not %q`, tail(out))
	}
	return result.Name, result.Rate, nil
}
