package grammar

import (
	"errors"
	"fmt"
	"sync"
)

// Token is a token id.
type Token = int32

// ErrRejected reports a token that the grammar does not allow at this point.
var ErrRejected = errors.New("grammar: token is not allowed here")

// state is a position in an automaton; what the bits mean is the automaton's business.
type state struct{ lo, hi uint64 }

// automaton is a deterministic automaton over bytes. From every state that step returns an accepting state must be
// reachable, so that a text can always be completed.
type automaton interface {
	start() state
	step(s state, b byte) (next state, ok bool)
	accepting(s state) bool // the text may end in s
	loops(s state) bool     // every letter and digit of ASCII leads from s to s; may be false even so
}

// Grammar is a language over the tokens of a vocabulary.
type Grammar struct {
	vocab *Vocab
	auto  automaton

	mu    sync.Mutex
	masks map[state][]uint64 // computed before
}

// maxMasks bounds the memory of a grammar: a mask of 151936 tokens takes 19 KiB. Grammars visit few states often.
const maxMasks = 128

func newGrammar(v *Vocab, a automaton) *Grammar {
	return &Grammar{vocab: v, auto: a, masks: map[state][]uint64{}}
}

// Matcher starts a new text.
func (g *Grammar) Matcher() *Matcher { return &Matcher{g: g, state: g.auto.start()} }

// mask returns the tokens that may follow s, end tokens included. The result must not be modified.
func (g *Grammar) mask(s state) []uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m, ok := g.masks[s]; ok {
		return m
	}
	m := make([]uint64, g.vocab.Words())
	if g.auto.accepting(s) {
		copy(m, g.vocab.end)
	}
	g.vocab.mask(g.auto, s, m, make([]state, g.vocab.depth+1))
	if len(g.masks) == maxMasks {
		clear(g.masks)
	}
	g.masks[s] = m
	return m
}

// Matcher is the progress of one text.
type Matcher struct {
	g     *Grammar
	state state
	ended bool
}

// Mask returns the tokens that may come next as a bit set, bit t of word t/64. It must not be modified.
func (m *Matcher) Mask() []uint64 {
	if m.ended {
		return make([]uint64, m.g.vocab.Words())
	}
	return m.g.mask(m.state)
}

// Allows reports whether Accept would take t. It costs as much as t has bytes, a mask costs a walk over the vocabulary.
func (m *Matcher) Allows(t Token) bool {
	_, ok := m.next(t)
	return ok
}

// next returns the state after t.
func (m *Matcher) next(t Token) (state, bool) {
	v := m.g.vocab
	if m.ended || t < 0 || int(t) >= v.Size() {
		return state{}, false
	}
	if v.isEnd(t) {
		return m.state, m.g.auto.accepting(m.state)
	}
	b := v.bytes(t)
	s, ok := m.state, len(b) > 0
	for i := 0; ok && i < len(b); i++ {
		s, ok = m.g.auto.step(s, b[i])
	}
	return s, ok
}

// Accept appends t to the text. Returns ErrRejected, with the matcher unchanged, when the grammar does not allow it.
func (m *Matcher) Accept(t Token) error {
	s, ok := m.next(t)
	if !ok {
		return fmt.Errorf("%w: token %d", ErrRejected, t)
	}
	m.state, m.ended = s, m.g.vocab.isEnd(t)
	return nil
}

// Complete reports whether the text may end here.
func (m *Matcher) Complete() bool { return m.ended || m.g.auto.accepting(m.state) }

// Done reports whether the text is complete and nothing but an end token could follow.
func (m *Matcher) Done() bool {
	if m.ended {
		return true
	}
	if !m.g.auto.accepting(m.state) {
		return false
	}
	for b := range 256 {
		if _, ok := m.g.auto.step(m.state, byte(b)); ok {
			return false
		}
	}
	return true
}

// Clone returns an independent copy, for a beam or a draft.
func (m *Matcher) Clone() *Matcher {
	c := *m
	return &c
}
