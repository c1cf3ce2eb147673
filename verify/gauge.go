package verify

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"ragd/embed"
)

// CrossEncoder reads a statement and a passage together. *embed.Reranker implements it.
type CrossEncoder interface {
	Score(ctx context.Context, query string, passages []string) ([]float32, error)
}

// LanguageModel says, as log-odds, whether texts state something. *answer.Answerer implements it.
type LanguageModel interface {
	States(ctx context.Context, statement string, texts []string) (float64, error)
}

// Gauge measures what can be known about a statement and its evidence, for fitting. Every helper may be nil.
type Gauge struct {
	Cross    CrossEncoder
	Embedder embed.Embedder
	Language LanguageModel
}

// maxPiece bounds, in bytes, what an encoder reads of the evidence at once: more than it can see would be cut off.
const maxPiece = 640

// Measure computes the features of statement with its evidence.
func (c *Gauge) Measure(ctx context.Context, statement string, evidence []string) (Features, error) {
	f := lexical(statement, evidence)
	f.Checked = checked(f)
	sentences, pieces := Sentences(statement), Pieces(evidence)
	if len(pieces) == 0 {
		return f, nil
	}
	if c.Cross != nil {
		if err := c.cross(ctx, &f, sentences, pieces); err != nil {
			return f, err
		}
	}
	if c.Embedder != nil {
		if err := c.embed(ctx, &f, sentences, pieces); err != nil {
			return f, err
		}
	}
	if c.Language != nil {
		if err := c.language(ctx, &f, statement, evidence); err != nil {
			return f, err
		}
	}
	return f, nil
}

// Pieces cuts evidence into runs of whole sentences that an encoder can read.
func Pieces(evidence []string) []string {
	var all []string
	for _, e := range evidence {
		var piece strings.Builder
		for _, s := range Sentences(e) {
			if piece.Len() > 0 && piece.Len()+len(s) > maxPiece {
				all = append(all, piece.String())
				piece.Reset()
			}
			if piece.Len() > 0 {
				piece.WriteByte(' ')
			}
			piece.WriteString(s)
		}
		if piece.Len() > 0 {
			all = append(all, piece.String())
		}
	}
	return all
}

// nearest returns the n pieces that hold most of a statement's terms: an encoder need not read the others.
func nearest(statement string, pieces []string, n int) []string {
	if len(pieces) <= n {
		return pieces
	}
	want := terms(statement)
	type ranked struct {
		text  string
		cover float64
	}
	all := make([]ranked, len(pieces))
	for i, p := range pieces {
		all[i] = ranked{p, cover(want, terms(p))}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(b.cover, a.cover) })
	best := make([]string, n)
	for i := range best {
		best[i] = all[i].text
	}
	return best
}

// read is how many pieces the encoders read for one sentence.
const read = 2

func (c *Gauge) cross(ctx context.Context, f *Features, sentences, pieces []string) error {
	f.CrossLow = math.Inf(1)
	for _, s := range sentences {
		logits, err := c.Cross.Score(ctx, s, nearest(s, pieces, read))
		if err != nil {
			return fmt.Errorf("verify: cross-encoder: %w", err)
		}
		best := float64(slices.Max(logits))
		f.Cross += best / float64(len(sentences))
		f.CrossLow = min(f.CrossLow, best)
	}
	return nil
}

func (c *Gauge) embed(ctx context.Context, f *Features, sentences, pieces []string) error {
	pieces = nearest(strings.Join(sentences, " "), pieces, 4*read)
	vectors, err := c.Embedder.Embed(ctx, embed.Passage, append(slices.Clone(sentences), pieces...))
	if err != nil {
		return fmt.Errorf("verify: embed: %w", err)
	}
	for _, s := range vectors[:len(sentences)] {
		best := math.Inf(-1)
		for _, p := range vectors[len(sentences):] {
			best = max(best, dot(s, p))
		}
		f.Embedding += best / float64(len(sentences))
	}
	return nil
}

func dot(a, b embed.Vector) float64 {
	var sum float64
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// maxEvidence bounds, in bytes, what the language model reads.
const maxEvidence = 2600

func (c *Gauge) language(ctx context.Context, f *Features, statement string, evidence []string) (err error) {
	pieces := nearest(statement, Pieces(evidence), maxEvidence/maxPiece)
	if f.Stated, err = c.Language.States(ctx, strings.TrimSpace(statement), []string{strings.Join(pieces, " ")}); err != nil {
		return fmt.Errorf("verify: language model: %w", err)
	}
	return nil
}
