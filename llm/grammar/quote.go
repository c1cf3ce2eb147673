package grammar

import (
	"bytes"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quotes knows every stretch of whole words of some passages. It is a suffix array over word starts: a stretch of text
// is an interval of it, so all places where the text stands are known at every byte.
//
// Before that passages are normalised: white space becomes one space, ligatures become letters, and what cannot be seen
// (soft hyphens, zero-width characters) is dropped. A quote cannot contain square brackets, « and », control characters
// or invalid UTF-8, and is at most maxQuote bytes long.
type Quotes struct {
	text   []byte  // normalised passages, each followed by separator
	source []place // per byte of text: the character of the passage it comes from
	bounds []int   // text[bounds[i]:bounds[i+1]] is passage i+1
	starts []int32 // where words begin in text, sorted by what follows
	ends   []bool  // per byte of text: a quote may end before it
}

// place is a byte range of a passage.
type place struct{ start, end int32 }

const (
	separator = 0xff // in no UTF-8 text, so no quote goes across
	maxQuote  = 2000
	// maxCompare is how far the suffix array is sorted: a quote can grow by one character after it is closable.
	maxCompare = maxQuote + utf8.UTFMax
	// What a state has bits for.
	maxQuotePassages = 511
	maxWords         = 1<<20 - 1

	openMark, closeMark = "«", "»"
	openLast, closeLast = 0xab, 0xbb // their last bytes; the first is 0xc2
	markLead            = 0xc2
)

var leadOfMarks = partialRune{left: 1, size: 1, value: markLead & 0x1f}

// NewQuotes prepares passages; passages[i] is cited as [i+1]. Passages after the 511th and words after the first million
// cannot be quoted.
func NewQuotes(passages []string) *Quotes {
	q := &Quotes{}
	for _, p := range passages[:min(len(passages), maxQuotePassages)] {
		q.bounds = append(q.bounds, len(q.text))
		q.add(p)
	}
	q.bounds = append(q.bounds, len(q.text))
	q.starts = q.starts[:min(len(q.starts), maxWords)]
	slices.SortFunc(q.starts, func(a, b int32) int {
		return bytes.Compare(q.text[a:min(len(q.text), int(a)+maxCompare)], q.text[b:min(len(q.text), int(b)+maxCompare)])
	})
	return q
}

// Passages returns the number of passages.
func (q *Quotes) Passages() int { return len(q.bounds) - 1 }

// add normalises one passage and finds its word boundaries.
func (q *Quotes) add(passage string) {
	first := len(q.text)
	var runes []rune
	var at []int // per rune: where it begins in text
	emit := func(r rune, start, end int) {
		if last := len(runes) - 1; r == separator && last >= 0 && runes[last] == ' ' {
			// A quote that had taken this space could not go on and, ending with a space, could not end.
			runes, at = runes[:last], at[:last]
			q.text, q.source = q.text[:len(q.text)-1], q.source[:len(q.source)-1]
		}
		at = append(at, len(q.text))
		runes = append(runes, r)
		if r == separator {
			q.text = append(q.text, separator)
		} else {
			q.text = utf8.AppendRune(q.text, r)
		}
		for len(q.source) < len(q.text) {
			q.source = append(q.source, place{int32(start), int32(end)})
		}
	}
	for i := 0; i < len(passage); {
		r, size := utf8.DecodeRuneInString(passage[i:])
		end := i + size
		switch {
		case unicode.IsSpace(r):
			if last := len(runes) - 1; last >= 0 && runes[last] == ' ' {
				q.source[len(q.source)-1].end = int32(end)
			} else {
				emit(' ', i, end)
			}
		case r == 0xad || strings.ContainsRune(invisible, r):
		case r == utf8.RuneError && size == 1, r == '[', r == '«', r == '»', forbidden(r), r == separator:
			emit(separator, i, end)
		default:
			if letters, ok := ligatures[r]; ok {
				for _, l := range letters {
					emit(l, i, end)
				}
			} else {
				emit(r, i, end)
			}
		}
		i = end
	}
	emit(separator, len(passage), len(passage))

	q.ends = append(q.ends, make([]bool, len(q.text)-first)...)
	for i, r := range runes {
		if !boundary(runes, i) {
			continue
		}
		q.ends[at[i]] = i > 0 && runes[i-1] != ' ' && runes[i-1] != separator
		if r != ' ' && r != separator && !strings.ContainsRune(notFirst, r) {
			q.starts = append(q.starts, int32(at[i]))
		}
	}
}

var ligatures = map[rune]string{'ﬀ': "ff", 'ﬁ': "fi", 'ﬂ': "fl", 'ﬃ': "ffi", 'ﬄ': "ffl", 'ﬅ': "ſt", 'ﬆ': "st"}

// notFirst lists characters that only make sense after something.
const notFirst = ".,;:!?)]}”%。！？、，"

// boundary reports whether a word may end before runes[i] and another one begin there. It never splits a number from
// its sign, currency, fraction or percent sign: that would change what a quote says.
func boundary(runes []rune, i int) bool {
	if i == 0 || runes[i-1] == separator || runes[i] == separator {
		return true
	}
	a, b := runes[i-1], runes[i]
	switch {
	case extends(b), a == 0x200d, isRegional(a) && isRegional(b):
		return false
	case unspaced(a), unspaced(b):
		return true
	case isWord(a) && isWord(b):
		return false
	case unicode.IsDigit(a) && strings.ContainsRune("%‰°", b):
		return false
	case unicode.IsDigit(b) && strings.ContainsRune("-−+±$€£¥#", a):
		return false
	case isWord(a) && i+1 < len(runes) && joins(a, b, runes[i+1]):
		return false
	case isWord(b) && i > 1 && joins(runes[i-2], a, b):
		return false
	}
	return true
}

// joins reports whether the punctuation between a and b belongs to one word: don't, 3.5, 12:30, 2024-05-01.
func joins(a, between, b rune) bool {
	switch between {
	case '\'', '’':
		return unicode.IsLetter(a) && unicode.IsLetter(b)
	case '.', ',', ':', '/', '-', '−', '–':
		return unicode.IsDigit(a) && unicode.IsDigit(b)
	}
	return false
}

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

// extends reports whether r changes the character before it: accents, variation selectors, skin tones, joiners.
func extends(r rune) bool {
	return unicode.Is(unicode.M, r) || r == 0x200c || r == 0x200d || (r >= 0x1f3fb && r <= 0x1f3ff)
}

func isRegional(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

// unspaced reports whether r is of a script without spaces between words.
func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// quoteSpot is an unpacked high half of a state: the quote so far is the first depth bytes at each of starts[lo:hi].
type quoteSpot struct {
	lo, hi, depth int
	phase         quotePhase
	number        int // of the unfinished marker
}

type quotePhase uint8

const (
	quoting   quotePhase = iota
	closing              // after the first byte of », which may also be that of another character
	closed               // after »
	opening              // after the space
	numbering            // after [
)

// Layout, from bit 0: lo 20, hi 20, depth 11, phase 3, number 9; the highest bit is always set.
func (s quoteSpot) pack() uint64 {
	return uint64(s.lo) | uint64(s.hi)<<20 | uint64(s.depth)<<40 | uint64(s.phase)<<51 | uint64(s.number)<<54 | 1<<63
}

func unpackQuote(b uint64) quoteSpot {
	return quoteSpot{
		lo: int(b & (1<<20 - 1)), hi: int(b >> 20 & (1<<20 - 1)), depth: int(b >> 40 & (1<<11 - 1)),
		phase: quotePhase(b >> 51 & 7), number: int(b >> 54 & 511),
	}
}

// any reports whether there is something to quote.
func (q *Quotes) any() bool { return len(q.starts) > 0 }

// all is the beginning of every quote.
func (q *Quotes) all() quoteSpot { return quoteSpot{hi: len(q.starts)} }

// step takes the next byte; done is true when the marker after the quote is complete.
func (q *Quotes) step(s quoteSpot, b byte) (next quoteSpot, done, ok bool) {
	switch s.phase {
	case quoting:
		if b == markLead && q.closable(s) {
			s.phase = closing
			return s, false, true
		}
		s, ok = q.grow(s, b)
		return s, false, ok
	case closing:
		if b == closeLast {
			s.phase = closed
			return s, false, true
		}
		s.phase = quoting
		if s, ok = q.grow(s, markLead); ok {
			s, ok = q.grow(s, b)
		}
		return s, false, ok
	case closed:
		s.phase = opening
		return s, false, b == ' '
	case opening:
		s.phase = numbering
		return s, false, b == '['
	}
	if b == ']' {
		return s, true, s.number > 0 && q.cites(s, func(n int) bool { return n == s.number })
	}
	if b < '0' || b > '9' || (b == '0' && s.number == 0) {
		return s, false, false
	}
	s.number = 10*s.number + int(b-'0')
	return s, false, q.cites(s, func(n int) bool { // s.number begins the number of a passage
		for ; n > s.number; n /= 10 {
		}
		return n == s.number
	})
}

// grow narrows the interval to the places where b follows.
func (q *Quotes) grow(s quoteSpot, b byte) (quoteSpot, bool) {
	if b == separator || q.full(s) {
		return s, false
	}
	in := q.starts[s.lo:s.hi]
	at := func(i int) byte { return q.text[int(in[i])+s.depth] }
	from := sort.Search(len(in), func(i int) bool { return at(i) >= b })
	to := from + sort.Search(len(in)-from, func(i int) bool { return at(from+i) > b })
	s.lo, s.hi, s.depth = s.lo+from, s.lo+to, s.depth+1
	return s, from < to
}

// full reports whether the quote has reached its greatest length.
func (q *Quotes) full(s quoteSpot) bool {
	return s.depth >= maxQuote && utf8.RuneStart(q.text[int(q.starts[s.lo])+s.depth])
}

// complete reports whether the quote may end where it stands at starts[i].
func (q *Quotes) complete(s quoteSpot, i int) bool {
	return q.ends[int(q.starts[i])+s.depth] || q.full(s)
}

func (q *Quotes) closable(s quoteSpot) bool {
	for i := s.lo; s.depth > 0 && i < s.hi; i++ {
		if q.complete(s, i) {
			return true
		}
	}
	return false
}

// cites reports whether the complete quote stands in a passage with a suitable number.
func (q *Quotes) cites(s quoteSpot, suitable func(n int) bool) bool {
	for i := s.lo; i < s.hi; i++ {
		if q.complete(s, i) && suitable(q.passage(q.starts[i])) {
			return true
		}
	}
	return false
}

// passage returns the number of the passage that holds a byte of text.
func (q *Quotes) passage(at int32) int {
	return sort.SearchInts(q.bounds, int(at)+1)
}

// Quote is a verbatim quote in an answer. Ranges are bytes.
type Quote struct {
	Passage            int // as cited, from 1
	Start, End         int // of the passage as it was given to NewQuotes
	TextStart, TextEnd int // of the answer: what stands between the marks
}

// Find returns the quotes of an answer that was written under the grammar, each at its first place in the passage that
// is cited for it. Quotes that are incomplete are left out.
func (q *Quotes) Find(answer string) []Quote {
	var found []Quote
	for at := 0; ; {
		open := strings.Index(answer[at:], openMark)
		if open < 0 {
			return found
		}
		start := at + open + len(openMark)
		length := strings.Index(answer[start:], closeMark)
		if length < 0 {
			return found
		}
		end := start + length
		at = end + len(closeMark)
		if n, ok := markerNumber(answer[at:]); ok {
			if p, ok := q.locate(answer[start:end], n); ok {
				found = append(found, Quote{Passage: n, Start: int(p.start), End: int(p.end), TextStart: start, TextEnd: end})
			}
		}
	}
}

// markerNumber reads " [n]".
func markerNumber(s string) (int, bool) {
	rest, ok := strings.CutPrefix(s, " [")
	if !ok {
		return 0, false
	}
	digits, _, ok := strings.Cut(rest, "]")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil
}

// locate returns the first place of a quote in passage n.
func (q *Quotes) locate(quote string, n int) (place, bool) {
	s := q.all()
	for _, b := range []byte(quote) {
		var ok bool
		if s, ok = q.grow(s, b); !ok {
			return place{}, false
		}
	}
	best := int32(-1)
	for i := s.lo; s.depth > 0 && i < s.hi; i++ {
		if at := q.starts[i]; q.passage(at) == n && q.complete(s, i) && (best < 0 || at < best) {
			best = at
		}
	}
	if best < 0 {
		return place{}, false
	}
	return place{q.source[best].start, q.source[int(best)+s.depth-1].end}, true
}

// quote continues a state that is inside a quote or its marker.
func (c *cited) quote(s state, b byte) (state, bool) {
	next, done, ok := c.quotes.step(unpackQuote(s.hi), b)
	switch {
	case !ok:
		return state{}, false
	case !done:
		s.hi = next.pack()
		return s, true
	case !c.strict:
		return plainFree, true
	}
	p := spot{mode: after, cited: true, solid: true, word: wordStart, said: -1}
	return p.pack(), true
}
