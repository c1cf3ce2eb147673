package grammar

import "strings"

// CitedOptions describes an answer with citation markers.
type CitedOptions struct {
	// Passages is the number of passages in the prompt: [1] to [Passages] can be written, at most maxPassages. With none
	// only the refusal can.
	Passages int
	// EverySentence demands that every sentence ends with a marker, before or after its full stop: "It rained [1]." or
	// "It rained. [1][2]". A line ends a sentence, too, unless it ends with a colon. Otherwise markers are optional. It
	// has no effect without both passages and a refusal: there would be nothing to write.
	EverySentence bool
	// Refusal is the one sentence without a marker that may be the answer, so that the model can abstain; nothing may
	// follow it. Empty: there is none.
	Refusal string
	// Dotted are the words that may have a full stop inside, like "ragd.go" or "example.com". In no other word can a letter
	// follow a full stop directly, abbreviations aside: a model that wants to begin its next sentence where only a marker can
	// follow would otherwise leave out the space ("It rained.It snowed") and never write a marker.
	Dotted []string
	// Quotes makes «…» the marks of verbatim quotes: between them the model can only write text of these passages, whole
	// words, and after them comes the marker of a passage that contains it: «It rained» [1]. Nil: they are ordinary
	// characters. The number of its passages replaces Passages.
	Quotes *Quotes
}

const (
	maxPassages = 999
	maxRefusal  = 4096 // bytes
)

// Cited returns the grammar of answers in valid UTF-8 without control characters in which square brackets, and what
// looks like them, occur only as markers of admitted passages.
//
// A sentence ends at . ! ? followed by a space, or at 。！？. What is written without spaces cannot follow . ! ? directly either: a model that cannot
// begin its next sentence with a space would go on in Chinese. Nor can the sign of a list item or an opening parenthesis: one that cannot begin the next
// item on a line of its own would glue it on, and never write a marker. Full stops inside numbers and names ("3.5", "ragd.go") and
// after common abbreviations, single letters and list numbers do not end one. After a sentence without a marker only a
// marker can follow.
func Cited(v *Vocab, o CitedOptions) *Grammar {
	c := &cited{passages: min(max(o.Passages, 0), maxPassages), quotes: o.Quotes, dotted: newDotted(o.Dotted)}
	if o.Quotes != nil {
		c.passages = min(o.Quotes.Passages(), maxPassages)
	}
	c.refusal = strings.TrimSpace(o.Refusal[:min(len(o.Refusal), maxRefusal)])
	c.closing = strings.HasSuffix(c.refusal, ".") || strings.HasSuffix(c.refusal, "!") || strings.HasSuffix(c.refusal, "?")
	c.strict = o.EverySentence && (c.passages > 0 || c.refusal != "")
	return newGrammar(v, c)
}

// cited is the automaton. It follows two readings of the text at once: the refusal, byte by byte, and an answer, rune by
// rune; the text is admitted while one of them is alive.
type cited struct {
	passages int
	strict   bool
	refusal  string
	dotted   dotted
	closing  bool // the refusal ends a sentence, so it cannot begin a longer answer
	quotes   *Quotes
}

// spot is an unpacked state.
type spot struct {
	mode   mode
	cited  bool // nothing but space, full stops and closing quotes since the last marker
	solid  bool // the sentence has a letter or digit
	colon  bool // the last character of the line was a colon
	closed bool // the sentence has ended, its markers are being written
	hard   bool // the sentence has ended for certain: its full stop needs no space after it
	word   wordPart
	rune   partialRune
	number int // of an unfinished marker; within text the node of a dotted word, 0 for none
	said   int // bytes of the refusal so far; -1: the text is no refusal
}

type mode uint8

const (
	dead   mode = iota // no answer, maybe a refusal
	text               // within a sentence, or before the first
	stop               // after a full stop, before what decides whether it ends the sentence
	need               // a sentence without a marker has ended: a marker must follow
	marker             // after [
	after              // after ]
	gap                // between sentences
)

// Layout of the low half of a state, from bit 0 (the high half belongs to a quote): mode 3, flags 5, word 10, rune 2+2+15, number 10, said+1 13.
func (p *spot) pack() state {
	s := uint64(p.mode)
	for i, f := range [...]bool{p.cited, p.solid, p.colon, p.closed, p.hard} {
		if f {
			s |= 1 << (3 + i)
		}
	}
	return state{lo: s | uint64(p.word)<<8 | uint64(p.rune.left)<<18 | uint64(p.rune.size)<<20 | uint64(p.rune.value)<<22 |
		uint64(p.number)<<37 | uint64(p.said+1)<<47}
}

func (s state) spot() spot {
	b := s.lo
	return spot{
		mode:   mode(b & 7),
		cited:  b>>3&1 == 1,
		solid:  b>>4&1 == 1,
		colon:  b>>5&1 == 1,
		closed: b>>6&1 == 1,
		hard:   b>>7&1 == 1,
		word:   wordPart(b >> 8 & 1023),
		rune:   partialRune{left: uint8(b >> 18 & 3), size: uint8(b >> 20 & 3), value: uint32(b >> 22 & (1<<15 - 1))},
		number: int(b >> 37 & 1023),
		said:   int(b>>47&(1<<13-1)) - 1,
	}
}

func (c *cited) start() state {
	p := spot{mode: text, word: lineStart, said: -1}
	if c.refusal != "" {
		p.said = 0
	}
	if c.strict && c.passages == 0 {
		p.mode = dead
	}
	return p.pack()
}

func (c *cited) accepting(s state) bool {
	p := s.spot()
	switch {
	case s.hi != 0:
		return false
	case p.said == len(c.refusal):
		return true
	case p.rune.left > 0 || p.mode == dead || p.mode == marker:
		return false
	}
	return p.cited || (!c.strict && p.solid)
}

// Within a word that is no abbreviation most bytes change nothing; a walk over the vocabulary spends its time there.
var (
	plainStrict = (&spot{mode: text, solid: true, word: plainWord, said: -1}).pack()
	plainFree   = (&spot{mode: text, solid: true, word: lineStart, said: -1}).pack() // words do not matter
)

// loops: a word that is no abbreviation goes on as such.
func (c *cited) loops(s state) bool { return s == plainStrict || (s == plainFree && !c.strict) }

func (c *cited) step(s state, b byte) (state, bool) {
	switch {
	case s.hi != 0:
		return c.quote(s, b)
	case s == plainStrict && isPlain(b),
		s == plainFree && !c.strict && b >= ' ' && b < 0x7f && b != '[' && b != ']':
		return s, true
	}
	p := s.spot()
	said := c.say(p.said, b)
	if p.mode != dead {
		mark := c.quotes != nil && p.rune == leadOfMarks
		if p = c.answer(p, b); mark && p.mode != dead {
			switch {
			case b == openLast && c.quotes.any():
				p.said = -1
				next := p.pack()
				next.hi = c.quotes.all().pack()
				return next, true
			case b == openLast, b == closeLast:
				p = spot{}
			}
		}
	}
	p.said = said
	if p.mode == dead || (c.closing && p.said == len(c.refusal)) {
		p = spot{said: p.said}
		return p.pack(), p.said >= 0
	}
	return p.pack(), true
}

// say advances the refusal; leading spaces are allowed because some tokenizers only have words that begin with one.
func (c *cited) say(said int, b byte) int {
	switch {
	case said == 0 && b == ' ':
		return 0
	case said >= 0 && said < len(c.refusal) && c.refusal[said] == b:
		return said + 1
	}
	return -1
}

// answer advances the other reading; the result is dead when b cannot follow.
func (c *cited) answer(p spot, b byte) spot {
	next, r, ok := p.rune.push(b)
	switch {
	case !ok:
		return spot{}
	case next.left == 0:
		p.rune = next
		return c.char(p, r)
	}
	switch p.mode { // a character of several bytes must be able to become one that is allowed here
	case marker, need:
		return spot{}
	case after:
		if c.strict && p.closed && !p.hard && !c.mayFollow(next) {
			return spot{}
		}
	case stop:
		if (p.hard || c.strict && next.unspaced()) && !c.mayFollow(next) {
			return spot{}
		}
	}
	p.rune = next
	return p
}

// mayFollow reports whether a character can become one that may stand directly after a full stop or a marker. With
// quotes » is none, and no other of them begins like it.
func (c *cited) mayFollow(p partialRune) bool {
	return p.among(afterMarker) && (c.quotes == nil || p != leadOfMarks)
}

func (c *cited) char(p spot, r rune) spot {
	switch {
	case p.mode == marker:
		return c.digit(p, r)
	case r == '[':
		return c.open(p)
	case forbidden(r):
		return spot{}
	case !c.strict:
		p.mode, p.solid = text, p.solid || !isSpace(r)
		return p
	}
	node := c.dotted.step(p, r)
	switch p.mode {
	case text:
		p = p.write(r)
	case stop:
		if isOpener(r) || isLetter(r) && node == 0 {
			return spot{}
		}
		p = p.decide(r)
	case after:
		p = p.leave(r)
	case gap:
		p = p.begin(r)
	default:
		return spot{} // need: only a marker
	}
	if p.number = 0; p.mode == text || p.mode == stop {
		p.number = node
	}
	return p
}

// open begins a marker.
func (c *cited) open(p spot) spot {
	switch {
	case c.passages == 0:
		return spot{}
	case !c.strict:
	case p.mode == text && !p.solid, p.mode == gap && p.word == lineStart:
		return spot{} // a marker belongs to the text before it
	case p.mode == stop, p.mode == need, p.mode == gap:
		p.closed = true
	}
	p.mode, p.number = marker, 0
	return p
}

// digit continues or closes a marker.
func (c *cited) digit(p spot, r rune) spot {
	switch {
	case r >= '0' && r <= '9':
		p.number = 10*p.number + int(r-'0')
		if p.number == 0 || p.number > c.passages {
			return spot{}
		}
	case r == ']' && p.number > 0:
		p = spot{mode: after, cited: true, solid: true, closed: p.closed, hard: p.hard, word: wordStart}
	default:
		return spot{}
	}
	return p
}

// write continues a sentence.
func (p spot) write(r rune) spot {
	p.mode = text
	switch {
	case r == ' ':
		if p.solid || p.word != lineStart {
			p.word = wordStart
		}
	case r == '\n':
		switch {
		case p.cited:
			return spot{mode: gap, cited: true, word: lineStart}
		case p.solid && !p.colon:
			return spot{}
		}
		return spot{mode: text, word: lineStart}
	case r == '.' && p.word.abbreviates():
		p.cited, p.colon, p.word = false, false, wordStart
	case isStop(r):
		p.mode, p.colon = stop, false
	case isHardStop(r):
		return p.end()
	case isCloser(r):
		p.word = wordStart
	default:
		p.cited, p.colon = false, r == ':'
		p.word = p.word.next(r, p.solid)
		p.solid = p.solid || isSolid(r)
	}
	return p
}

// end handles a full stop that needs no space after it.
func (p spot) end() spot {
	switch {
	case p.cited:
		return spot{mode: gap, cited: true, word: wordStart}
	case p.solid:
		p.mode, p.hard, p.colon = stop, true, false
	}
	return p
}

// decide continues after a full stop.
func (p spot) decide(r rune) spot {
	switch {
	case isSpace(r) && p.cited:
		return spot{mode: gap, cited: true, word: wordAfter(r)}
	case r == ' ' && p.solid:
		p.mode = need
	case isSpace(r) && !p.solid:
		p.mode, p.word = text, wordAfter(r)
	case r == '\n':
		return spot{}
	case isHardStop(r):
		return p.end()
	case isStop(r), isCloser(r):
	case p.hard:
		return spot{}
	default:
		p.word = wordStart
		return p.write(r)
	}
	return p
}

// leave continues after a marker.
func (p spot) leave(r rune) spot {
	switch {
	case r == '\n', r == ' ' && p.closed:
		return spot{mode: gap, cited: true, word: wordAfter(r)}
	case isHardStop(r):
		return p.end()
	case isStop(r):
		p.mode = stop
	case isCloser(r):
	case r == ' ', !p.closed && (strings.ContainsRune(joiners, r) || r >= 0x80): // many scripts put no spaces
		return p.write(r)
	case p.hard:
		return p.begin(r)
	default:
		return spot{}
	}
	return p
}

// begin starts a sentence, or continues the space before it.
func (p spot) begin(r rune) spot {
	switch {
	case isSpace(r):
		if r == '\n' {
			p.word = lineStart
		}
		return p
	case isStop(r), isHardStop(r):
		return spot{}
	}
	return spot{mode: text, word: p.word}.write(r)
}
