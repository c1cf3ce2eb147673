package model

import (
	"fmt"
	"math"
	"slices"

	"ragd/llm/kernel"
)

// Batch is the input and output of one forward pass: rows of several sequences,
// prompts and single decoding steps mixed.
type Batch struct {
	Tokens []int32
	Seqs   []Seq // in row order, covering Tokens without gaps
	Out    []int // rows whose logits are wanted, strictly ascending

	// Logits is [len(Out)][V], of a classifier [len(Out)][labels], row-major, filled by Forward. It is reused when
	// large enough and replaced when not.
	Logits []float32
}

// Seq says that rows [Start, Start+N) of a batch are positions [Pos, Pos+N) of
// one sequence. Pages is its page table: Pages[p/16] holds position p. The table
// covers [0, Pos+N); pages before Pos hold what earlier passes wrote.
type Seq struct {
	Start, N, Pos int
	Pages         []int32
}

// check refuses a batch that would read or write outside its buffers.
func (m *Model) check(b *Batch) error {
	row := 0
	for i := range b.Seqs {
		s := &b.Seqs[i]
		if s.Start != row || s.N <= 0 || s.N > len(b.Tokens)-row || s.Pos < 0 {
			return fmt.Errorf("model: sequence %d of the batch has rows [%d,%d) at position %d; rows must follow each other and cover %d tokens", i, s.Start, s.Start+s.N, s.Pos, len(b.Tokens))
		}
		row += s.N
		end := s.Pos + s.N
		if end > m.context {
			return fmt.Errorf("model: sequence %d of the batch reaches position %d; the context is %d tokens", i, end, m.context)
		}
		pages := (end + kernel.PageTokens - 1) / kernel.PageTokens
		if len(s.Pages) < pages {
			return fmt.Errorf("model: sequence %d of the batch has %d pages, needs %d", i, len(s.Pages), pages)
		}
		for _, page := range s.Pages[:pages] {
			if page < 0 || int(page) >= m.pages {
				return fmt.Errorf("model: sequence %d of the batch uses page %d of %d", i, page, m.pages)
			}
		}
	}
	if row != len(b.Tokens) {
		return fmt.Errorf("model: the batch's sequences cover %d of %d tokens", row, len(b.Tokens))
	}
	for i, id := range b.Tokens {
		if id < 0 || int(id) >= m.config.Vocab {
			return fmt.Errorf("model: token %d of the batch is %d, outside the vocabulary of %d", i, id, m.config.Vocab)
		}
	}
	last := -1
	for _, row := range b.Out {
		if row <= last || row >= len(b.Tokens) {
			return fmt.Errorf("model: output rows must be ascending and below %d", len(b.Tokens))
		}
		last = row
	}
	if len(b.Out) > math.MaxInt/m.config.Vocab/4 {
		return fmt.Errorf("model: %d output rows are too many", len(b.Out))
	}
	return nil
}

// step is the part of a batch that runs through the layers together: rows
// [lo, lo+T), with the position of every row.
type step struct {
	tokens []int32 // [T]
	pos    []int32 // [T]
	seqs   []kernel.AttnSeq
	single []kernel.AttnSeq // memory of narrow
}

// plan fills s for rows [lo, hi) of b.
func (s *step) plan(b *Batch, lo, hi int) {
	s.tokens = b.Tokens[lo:hi]
	s.pos, s.seqs = s.pos[:0], s.seqs[:0]
	first, _ := slices.BinarySearchFunc(b.Seqs, lo, func(q Seq, row int) int { return q.Start + q.N - 1 - row })
	for i := first; i < len(b.Seqs) && b.Seqs[i].Start < hi; i++ {
		q := &b.Seqs[i]
		from, to := max(lo, q.Start), min(hi, q.Start+q.N)
		pos := q.Pos + from - q.Start
		s.seqs = append(s.seqs, kernel.AttnSeq{Pages: q.Pages, Pos: pos, N: to - from})
		for p := pos; p < pos+to-from; p++ {
			s.pos = append(s.pos, int32(p))
		}
	}
}

// narrow keeps only the rows outs of the step, which count from lo. Rows of one
// sequence need not be neighbours any more, so each becomes a query of its own.
func (s *step) narrow(outs []int, lo int) {
	s.single = s.single[:0]
	row := 0
	for i := range s.seqs {
		q := &s.seqs[i]
		for len(s.single) < len(outs) && outs[len(s.single)]-lo < row+q.N {
			pos := q.Pos + outs[len(s.single)] - lo - row
			s.pos[len(s.single)] = int32(pos)
			s.single = append(s.single, kernel.AttnSeq{Pages: q.Pages, Pos: pos, N: 1})
		}
		row += q.N
	}
	s.seqs, s.single = s.single, s.seqs
}
