package distill

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

// ErrTooLittle: the text does not suffice to train on and to hold some of it out.
var ErrTooLittle = errors.New("too little text")

// minWindows is how many training windows are the least that says anything: below it the student learns the text by heart or nothing.
const minWindows = 16

// Text is a tokenized text cut into windows, and the tokens that the student knows.
type Text struct {
	Context  int     // tokens of a window, T
	Known    []int32 // token ids with a row of their own, ascending
	Shared   int     // how many other tokens share the last row
	Train    [][]int32
	Heldout  [][]int32 // windows of T+1 token ids; of documents that Train has nothing of
	OneDoc   bool      // there was one document only, so its end is held out
	Repeated int       // documents left out because another equals them

	class map[int32]int32
}

// NewText cuts documents, as token ids of a vocabulary of vocab tokens, into windows of context+1 tokens that overlap by one. About a tenth of the
// documents, chosen by the seed, is held out. The known most frequent tokens of the training part get a row of their own. maxWindows bounds the training
// windows, 0 does not. It returns ErrTooLittle when less than minWindows windows remain.
func NewText(documents [][]int32, vocab, known, context, maxWindows int, seed uint64) (*Text, error) {
	t := &Text{Context: context, class: map[int32]int32{}}
	documents = t.distinct(documents)
	train, heldout := t.split(documents, seed)
	t.Train, t.Heldout = t.windows(train, maxWindows), t.windows(heldout, max(maxWindows/8, 8))
	if len(t.Train) < minWindows || len(t.Heldout) == 0 {
		tokens := 0
		for _, d := range documents {
			tokens += len(d)
		}
		return nil, fmt.Errorf("distill: %w: %d different documents with %d tokens make %d training and %d held-out windows of %d tokens; at least %d and 1 are needed: add documents or choose a shorter context",
			ErrTooLittle, len(documents), tokens, len(t.Train), len(t.Heldout), context, minWindows)
	}
	t.know(vocab, known)
	return t, nil
}

// distinct drops documents that equal an earlier one.
func (t *Text) distinct(documents [][]int32) [][]int32 {
	seen := map[[32]byte]bool{}
	var all [][]int32
	for _, d := range documents {
		raw := make([]byte, 0, 4*len(d))
		for _, id := range d {
			raw = binary.LittleEndian.AppendUint32(raw, uint32(id))
		}
		if sum := sha256.Sum256(raw); !seen[sum] {
			seen[sum] = true
			all = append(all, d)
		}
	}
	t.Repeated = len(documents) - len(all)
	return all
}

// split holds documents out until they have a tenth of the tokens. Of a single document the last tenth is held out.
func (t *Text) split(documents [][]int32, seed uint64) (train, heldout [][]int32) {
	const share = 10
	if len(documents) == 1 {
		t.OneDoc = true
		cut := len(documents[0]) - len(documents[0])/share
		return [][]int32{documents[0][:cut]}, [][]int32{documents[0][cut:]}
	}
	tokens := 0
	for _, d := range documents {
		tokens += len(d)
	}
	held, taken := make([]bool, len(documents)), 0
	for _, i := range rand.New(rand.NewPCG(seed, 0x5e1f)).Perm(len(documents)) {
		// A document that alone is a large part of the text is kept for training.
		if taken < tokens/share && len(documents[i]) <= tokens/4 {
			held[i], taken = true, taken+len(documents[i])
		}
	}
	for i, d := range documents {
		if held[i] {
			heldout = append(heldout, d)
		} else {
			train = append(train, d)
		}
	}
	return train, heldout
}

// windows joins the documents and cuts them into at most most windows, spread over the whole.
func (t *Text) windows(documents [][]int32, most int) [][]int32 {
	joined := slices.Concat(documents...)
	var all [][]int32
	for at := 0; at+t.Context < len(joined); at += t.Context {
		all = append(all, joined[at:at+t.Context+1])
	}
	if most == 0 || len(all) <= most {
		return all
	}
	few := make([][]int32, most)
	for i := range few {
		few[i] = all[i*len(all)/most]
	}
	return few
}

// know chooses the tokens with a row of their own: the most frequent ones, equally frequent ones by id.
func (t *Text) know(vocab, known int) {
	counts := map[int32]int{}
	for _, w := range t.Train {
		for _, id := range w {
			counts[id]++
		}
	}
	for id := range counts {
		t.Known = append(t.Known, id)
	}
	slices.SortFunc(t.Known, func(a, b int32) int { return cmp.Or(counts[b]-counts[a], int(a-b)) })
	t.Known = slices.Clip(t.Known[:min(known, len(t.Known))])
	slices.Sort(t.Known)
	for i, id := range t.Known {
		t.class[id] = int32(i)
	}
	t.Shared = vocab - len(t.Known)
}

// Classes is the number of rows of the student's embedding.
func (t *Text) Classes() int { return len(t.Known) + 1 }

// Class returns the row of a token.
func (t *Text) Class(token int32) int32 {
	if c, ok := t.class[token]; ok {
		return c
	}
	return int32(len(t.Known))
}

// fill writes the classes of a window: T inputs, and the T that follow them.
func (t *Text) fill(window, inputs, labels []int32) {
	for i := range t.Context {
		inputs[i], labels[i] = t.Class(window[i]), t.Class(window[i+1])
	}
}

// Coverage is the share of tokens in windows that have a row of their own.
func (t *Text) Coverage(windows [][]int32) float64 {
	known, all := 0, 0
	for _, w := range windows {
		for _, id := range w[1:] {
			if int(t.Class(id)) < len(t.Known) {
				known++
			}
			all++
		}
	}
	return float64(known) / float64(max(all, 1))
}
