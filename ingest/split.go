package ingest

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"unicode/utf8"

	"ragd/personal"
	"ragd/sentence"
)

// Splitter cuts documents into passages. The zero value of a field means its
// default. Safe for concurrent use when Ends is.
type Splitter struct {
	MaxTokens int // most tokens of a passage with its context; default 320
	Overlap   int // tokens shared by neighbours within one long paragraph; default 40
	// Ends gives the byte end of each of text's tokens, in the embedder's own
	// vocabulary, special tokens not counted. nil: a rough count of 4 bytes a token.
	Ends func(text string) []int
}

// splitVersion is part of the fingerprint: raise it when what Parse or Split make
// of a file changes.
const splitVersion = 2 // 2: places of words, kinds of personal data

// Fingerprint identifies how passages are cut, for Index.Splitter.
func (s *Splitter) Fingerprint() string {
	return fmt.Sprintf("v%d/%d/%d", splitVersion, s.maxTokens(), s.overlap())
}

func (s *Splitter) maxTokens() int {
	if s.MaxTokens <= 0 {
		return 320
	}
	return s.MaxTokens
}

func (s *Splitter) overlap() int {
	if s.Overlap <= 0 {
		return min(40, s.maxTokens()/8)
	}
	return min(s.Overlap, s.maxTokens()/4)
}

func (s *Splitter) ends(text string) []int {
	if s.Ends != nil {
		return s.Ends(text)
	}
	var ends []int
	for i := range text {
		if i > 0 && i/4 != (i-1)/4 && (len(ends) == 0 || i > ends[len(ends)-1]) {
			ends = append(ends, i)
		}
	}
	if len(text) > 0 {
		ends = append(ends, len(text))
	}
	return ends
}

// Split cuts d into passages, in order. A page never shares a passage with
// another; within a page the cuts are those of least cost: at headings rather
// than between paragraphs, between paragraphs rather than sentences, in
// sentences or rows only when one alone is too long; of even length near three
// quarters of MaxTokens.
func (s *Splitter) Split(d *Document) []Passage {
	w := &splitWalk{s: s, d: d, mixed: mixedLanguages(d)}
	blocks := d.Blocks
	for _, page := range d.Pages {
		w.page = page.Number
		n := 0
		for n < len(blocks) && blocks[n].Start < page.End {
			n++
		}
		w.cover(page.Start, page.End, blocks[:n])
		w.flush()
		blocks = blocks[n:]
	}
	return w.passages
}

// unit is the least that a passage holds: a sentence, a row, a line, a heading.
type unit struct {
	start, end int
	tokens     int
	cost       float64 // of a cut before it
	heading    bool
	path       int // index into splitWalk.paths: the headings over it
	table      int // 1 + index into splitWalk.tables when it continues a table, else 0
	overlap    int // units before it, in its paragraph, that a passage beginning here repeats
}

// splitWalk is one Split: it turns blocks into units and, now and then, units into passages.
type splitWalk struct {
	s        *Splitter
	d        *Document
	mixed    bool // passages may be in other languages than the document
	page     int
	stack    []headingEntry
	paths    [][]string
	tables   []string // headers
	units    []unit
	prev     Block // the block before, to judge a cut
	passages []Passage
	contexts map[contextKey]int // token counts of contexts of the units at hand
}

type headingEntry struct {
	level int
	text  string
}

type contextKey struct {
	path, table int
	heading     bool
	room        int
}

// Costs of a cut, in the same unit as lengthCost: a passage of half the wanted
// length costs 25.
const (
	costHeading   = 0
	costParagraph = 10
	costListItem  = 14
	costTable     = 18
	costRow       = 24
	costSentence  = 35  // inside a paragraph
	costIntro     = 40  // between "the following:" and what follows
	costPiece     = 80  // inside a sentence
	costOrphan    = 400 // between a heading and its text
	costMerge     = 30  // of a heading inside a passage
)

// unitLimit is how many units are cut at once; a page has fewer, a large plain
// text many more.
const unitLimit = 4096

// cover turns [start,end) with its blocks into units; text outside blocks is
// treated as paragraphs, so that nothing is lost.
func (w *splitWalk) cover(start, end int, blocks []Block) {
	for _, k := range blocks {
		w.gap(start, max(start, k.Start))
		if from, to := max(k.Start, start), min(k.End, end); from < to {
			k.Start, k.End = from, to
			w.block(k)
			start = to
		}
	}
	w.gap(start, end)
}

func (w *splitWalk) gap(start, end int) {
	if text := w.d.Text[start:end]; strings.TrimSpace(text) != "" {
		start += len(text) - len(strings.TrimLeft(text, " \t\n"))
		w.block(Block{Kind: Paragraph, Start: start, End: start + len(strings.TrimSpace(text))})
	}
}

func (w *splitWalk) block(k Block) {
	if len(w.units) >= unitLimit && k.Kind != ListItem {
		w.flush()
	}
	if k.Kind == Heading {
		w.push(k)
	}
	if len(w.paths) == 0 || k.Kind == Heading {
		w.paths = append(w.paths, w.headings())
	}
	cost := w.cutCost(k)
	switch k.Kind {
	case Table:
		w.rows(k, cost)
	case Code:
		w.lines(k, cost)
	case Heading:
		w.piece(k.Start, k.End, unit{cost: cost, heading: true})
	default:
		w.sentences(k, cost)
	}
	w.prev = k
}

// push records a heading on the stack of those in force.
func (w *splitWalk) push(k Block) {
	text := w.d.Text[k.Start:k.End]
	switch w.d.Kind {
	case "md", "ipynb", "txt":
		text = headingText(text)
	default:
		text = strings.Join(strings.Fields(text), " ")
	}
	for n := len(w.stack); n > 0 && w.stack[n-1].level >= k.Level; n-- {
		w.stack = w.stack[:n-1]
	}
	w.stack = append(w.stack, headingEntry{k.Level, cutAt(text, 120)})
}

func (w *splitWalk) headings() []string {
	var path []string
	for _, h := range w.stack {
		path = append(path, h.text)
	}
	return path
}

// cutAt shortens s to at most n bytes of whole characters.
func cutAt(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.TrimSpace(s[:n])
}

// cutCost is what a cut between the previous block and k costs.
func (w *splitWalk) cutCost(k Block) float64 {
	switch {
	case w.prev.Kind == Heading:
		return costOrphan
	case k.Kind == Heading:
		return costHeading
	case strings.HasSuffix(strings.TrimRight(w.d.Text[w.prev.Start:w.prev.End], " \n*_"), ":"):
		return costIntro
	case k.Kind == ListItem && w.prev.Kind == ListItem:
		return costListItem + 4*float64(min(k.Level-1, 4))
	case k.Kind == ListItem, k.Kind == Footnote:
		return costListItem
	case k.Kind == Table:
		return costTable
	}
	return costParagraph
}

// sentences adds a paragraph's sentences. Where a line of its own says more
// than a sentence would (verse, addresses, a table without rules), overlong
// sentences are cut at line ends.
func (w *splitWalk) sentences(k Block, cost float64) {
	text := w.d.Text[k.Start:k.End]
	first := len(w.units) // of the paragraph
	add := func(start, end int) {
		before := len(w.units)
		w.piece(k.Start+start, k.Start+end, unit{cost: cost})
		if len(w.units) < before {
			first, before = 0, 0
		}
		w.linkOverlap(first, before)
		cost = costSentence
	}
	for _, span := range sentence.Split(text) {
		if span.End-span.Start <= 2*w.s.maxTokens() {
			add(span.Start, span.End)
			continue
		}
		start := span.Start
		for line := range strings.Lines(text[span.Start:span.End]) {
			add(start, start+len(line))
			start += len(line)
		}
	}
}

// linkOverlap says, for each unit from from on, how many units before it, of
// the paragraph beginning at first, a passage that begins there repeats.
func (w *splitWalk) linkOverlap(first, from int) {
	for i := max(from, first+1); i < len(w.units); i++ {
		total := 0
		for j := i - 1; j >= first; j-- {
			if total += w.units[j].tokens; total > w.s.overlap() {
				break
			}
			w.units[i].overlap++
		}
	}
}

// rows adds a table's rows. A passage that begins in the middle of the table
// gets its header as context.
func (w *splitWalk) rows(k Block, cost float64) {
	start, header := k.Start, 0
	if k.HeaderEnd > k.Start && k.HeaderEnd < k.End {
		w.tables = append(w.tables, w.d.Text[k.Start:k.HeaderEnd])
		header = len(w.tables)
		w.piece(k.Start, k.HeaderEnd, unit{cost: cost})
		start, cost = k.HeaderEnd, costOrphan
	}
	for start < k.End {
		lead := len(w.d.Text[start:k.End]) - len(strings.TrimLeft(w.d.Text[start:k.End], "\n"))
		end := start + lead + recordEnd(w.d.Text[start+lead:k.End])
		w.piece(start, end, unit{cost: cost, table: header})
		start, cost = end, costRow
	}
}

// lines adds the lines of code; an unindented line begins something.
func (w *splitWalk) lines(k Block, cost float64) {
	start := k.Start
	for line := range strings.Lines(w.d.Text[k.Start:k.End]) {
		w.piece(start, start+len(line), unit{cost: cost})
		start += len(line)
		cost = costRow
		if start < k.End && strings.IndexByte(" \t})]", w.d.Text[start]) >= 0 {
			cost = costSentence
		}
	}
}

// pieceBytes bounds how much text is tokenized at once.
const pieceBytes = 64 << 10

// piece adds [start,end), trimmed, as one unit; as several when it alone fills a passage.
func (w *splitWalk) piece(start, end int, u unit) {
	for start < end && isSpaceByte(w.d.Text[start]) {
		start++
	}
	for end > start && isSpaceByte(w.d.Text[end-1]) {
		end--
	}
	u.path = len(w.paths) - 1
	for start < end {
		text := w.d.Text[start:end]
		if len(text) > pieceBytes {
			text = text[:len(cutAt(text, pieceBytes))]
		}
		ends := w.s.ends(text)
		if len(ends) <= w.s.maxTokens()*7/8 && len(text) == end-start {
			u.start, u.end, u.tokens = start, end, len(ends)
			w.units = append(w.units, u)
			return
		}
		n := breakPoint(text, ends, w.s.maxTokens()/2)
		u.start, u.end = start, start+n
		u.tokens = sort.SearchInts(ends, n+1)
		w.units = append(w.units, u)
		u.cost = costPiece
		for start += n; start < end && isSpaceByte(w.d.Text[start]); start++ {
		}
		if len(w.units) >= 2*unitLimit {
			w.flush()
			u.path = len(w.paths) - 1
		}
	}
}

// breakPoint is where to cut text that is too long, at most limit tokens from
// its start: after a line, else a clause, else a word, else between tokens.
func breakPoint(text string, ends []int, limit int) int {
	last := ends[min(limit, len(ends))-1]
	for last > 0 && last < len(text) && !utf8.RuneStart(text[last]) {
		last--
	}
	if last == 0 { // the first character is several tokens
		_, last = utf8.DecodeRuneInString(text)
		return last
	}
	half := last / 2
	for !utf8.RuneStart(text[half]) {
		half--
	}
	for _, stops := range []string{"\n", ";:,)。、，；", " \t"} {
		if j := strings.LastIndexAny(text[half:last], stops); j >= 0 {
			_, n := utf8.DecodeRuneInString(text[half+j:])
			return half + j + n
		}
	}
	return last
}

// flush chooses the cuts of the units so far and writes the passages: a
// shortest path over the places where a cut may be.
func (w *splitWalk) flush() {
	units := w.units
	w.units, w.prev = nil, Block{}
	w.contexts = make(map[contextKey]int)
	best := make([]float64, len(units)+1) // cost of covering units[i:]
	next := make([]int, len(units))
	for i := len(units) - 1; i >= 0; i-- {
		budget := w.s.maxTokens() - w.contextTokens(units[i])
		best[i] = math.Inf(1)
		tokens, merged := 0, 0.0
		for _, u := range units[i-units[i].overlap : i] {
			tokens += u.tokens
		}
		for j := i; j < len(units); j++ {
			tokens += units[j].tokens
			if tokens > budget && j > i {
				break
			}
			if units[j].heading && j > i && !units[j-1].heading {
				merged += costMerge
			}
			cost := w.lengthCost(tokens) + merged + best[j+1]
			if j+1 < len(units) {
				cost += units[j+1].cost
			}
			if cost < best[i] {
				best[i], next[i] = cost, j+1
			}
		}
	}
	for i := 0; i < len(units); i = next[i] {
		w.emit(units[i:next[i]], units[i-units[i].overlap].start)
	}
	w.paths = w.paths[:0]
	if len(w.stack) > 0 {
		w.paths = append(w.paths, w.headings())
	}
}

// lengthCost prefers three quarters of the most that fits.
func (w *splitWalk) lengthCost(tokens int) float64 {
	want := float64(w.s.maxTokens()) * 0.75
	d := (float64(tokens) - want) / want
	return 100 * d * d
}

func (w *splitWalk) path(u unit) []string {
	if u.path >= len(w.paths) || u.path < 0 {
		return nil
	}
	return w.paths[u.path]
}

// context is what a passage that begins at u is told apart from its text:
// title and headings, and the header of the table that it continues.
func (w *splitWalk) context(u unit) string {
	room := w.s.maxTokens() - u.tokens - 1
	var parts []string
	if title := cutAt(strings.Join(strings.Fields(w.d.Title), " "), 120); title != "" {
		parts = append(parts, title)
	}
	path := w.path(u)
	if u.heading && len(path) > 0 { // it begins the text itself
		path = path[:len(path)-1]
	}
	for _, h := range path {
		if len(parts) == 0 || parts[len(parts)-1] != h {
			parts = append(parts, h)
		}
	}
	context, used := w.fit(strings.Join(parts, " > "), min(room, w.s.maxTokens()/5))
	if u.table > 0 {
		if header, _ := w.fit(w.tables[u.table-1], min(room-used-1, w.s.maxTokens()/4)); header != "" {
			context = strings.TrimPrefix(context+"\n"+header, "\n")
		}
	}
	return context
}

// fit cuts text to its first tokens and says how many they are.
func (w *splitWalk) fit(text string, tokens int) (string, int) {
	ends := w.s.ends(cutAt(text, 16*max(tokens, 0)))
	if len(ends) > max(tokens, 0) {
		ends = ends[:max(tokens, 0)]
	}
	if len(ends) == 0 {
		return "", 0
	}
	return cutAt(text, ends[len(ends)-1]), len(ends)
}

func (w *splitWalk) contextTokens(u unit) int {
	key := contextKey{u.path, u.table, u.heading, w.s.maxTokens() / 2}
	if u.tokens > key.room { // a large unit leaves less room than usual
		key.room = w.s.maxTokens() - u.tokens
	}
	n, ok := w.contexts[key]
	if !ok {
		n = len(w.s.ends(w.context(u)))
		w.contexts[key] = n
	}
	return n
}

// emit writes the passage of these units; its text begins at start, before
// them when it repeats the end of the passage before.
func (w *splitWalk) emit(units []unit, start int) {
	first, last, body := units[0], units[len(units)-1], 0
	for body < len(units)-1 && units[body].heading { // "# Handbook ## Leave" is about leave
		body++
	}
	p := Passage{Start: start, End: last.end, Page: w.page, Heading: strings.Join(w.path(units[body]), " > "), Context: w.context(first)}
	p.Text = w.d.Text[p.Start:p.End]
	p.Tokens = len(w.s.ends(p.Indexed()))
	// Tokens may merge differently over the edges of units: rare, and by little.
	if over := p.Tokens - w.s.maxTokens(); over > 0 {
		switch {
		case start < first.start:
			w.emit(units, first.start)
			return
		case len(units) > 1:
			w.emit(units[:len(units)/2], start)
			w.emit(units[len(units)/2:], units[len(units)/2].start)
			return
		}
		for n := len(w.s.ends(p.Context)) - over; p.Context != "" && p.Tokens > w.s.maxTokens(); n-- {
			p.Context, _ = w.fit(p.Context, n)
			p.Tokens = len(w.s.ends(p.Indexed()))
		}
	}
	p.Language = w.passageLanguage(p.Text)
	p.Personal = personal.Kinds(p.Text)
	w.passages = append(w.passages, p)
}

// passageLanguage is the document's language unless it is mixed and a long
// passage is clearly in another.
func (w *splitWalk) passageLanguage(text string) string {
	if !w.mixed || len(text) < 300 {
		return w.d.Language
	}
	if l := languageOf(text); l != "" {
		return l
	}
	return w.d.Language
}
