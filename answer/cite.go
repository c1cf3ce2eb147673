package answer

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"ragd/arith"
	"ragd/retrieve"
	"ragd/verify"
)

// Citation is one marker of an answer, resolved to the bytes of its source.
type Citation struct {
	Marker      int
	Start, End  int // bytes of the cited statement in the answer's text
	Passage     retrieve.PassageID
	Document    retrieve.DocumentID
	Corpus      string
	Path, Title string
	Page        int     // 1-based; 0 in documents without pages
	SourceStart int     // bytes of the quote in the document's normalised text
	SourceEnd   int     //
	CharStart   int     // characters (code points) of the quote in the passage's text
	CharEnd     int     //
	Quote       string  // the document's text at [SourceStart, SourceEnd)
	Support     float64 // share of the statement's terms that the quote holds, rare terms and numbers counting more
	Corrected   bool    // the model had named another passage
}

// marker is what the model writes; bareMarkers finds the same shape in the text of documents.
var (
	marker      = regexp.MustCompile(`^[ \t]*\[(\d{1,3})\]`)
	bareMarkers = regexp.MustCompile(`\[(\d{1,3})\]`)
)

// A statement is cited to every passage whose support is at least citeShare of the best one's, at most maxCited of them, the most relevant first.
// Where a marker stands is the model's choice; which passages it names is decided by the evidence, because small models often write the number of a
// neighbour. Handbooks say the same thing in several places, and a reader should see each.
const (
	citeShare = 0.85
	maxCited  = 3
)

// minSupport is the share of a statement's terms that some passage must hold for the statement to be cited at all. Below it the words have next to
// nothing in common, and a marker would lend the statement an authority that it does not have. See docs/eval.md for how it was chosen.
const minSupport = 0.25

// Statement is a part of an answer: bytes [Start, End) of its text.
type Statement struct{ Start, End int }

// citer takes a growing answer, checks each marker against the passages, corrects the ones that name a wrong passage, and resolves them to spans.
type citer struct {
	sources   []Source          // of the prompt, then those that the second look added
	spare     []retrieve.Scored // found and not in the prompt, most relevant first
	question  string            // what stands in it need not stand in a source
	from      []Computation     // calculations that the engine has done
	evidence  []evidence        // of each source
	byRank    []int             // indices of sources, the most relevant first
	weights   weights
	labels    labels
	text      strings.Builder // what was passed on
	draft     strings.Builder // what the model wrote
	held      string          // what may become a marker
	claimFrom int             // in text: where the statement begins that the next marker cites
	found     []Citation
	parts     []part
	said      map[string]bool   // statements so far
	named     bool              // the last statement was nothing but the name of a place
	closed    bool              // the statement before that had its full stop already; what follows the name is not its
	repeats   bool              // the last statement had been said before; nothing after it is taken
	misread   *verify.Misplaced // why a span was not chosen for the statement
}

// part is a statement with its markers: bytes [from, to) of the text, the statement [start, end) inside.
type part struct {
	from, start, end, to int
	cited                []Citation
	missing              []verify.Fact // details that its sources do not hold; offsets from start
	support              float64
	invented             string // a quotation in it that no source has
	misread              *verify.Misplaced
	verdict              *verify.Verdict
	stated               float64       // log-odds by the model that the documents say it
	assumed              []verify.Fact // details that it has from the question alone; offsets from start
}

func newCiter(sources []Source, spare []retrieve.Scored, question string, computed []Computation) *citer {
	c := &citer{sources: slices.Clip(sources), spare: spare, question: question, said: map[string]bool{}}
	for _, s := range sources {
		c.evidence = append(c.evidence, newEvidence(s.Passage.Text, question))
	}
	c.from = computed
	c.weights, c.labels = weigh(c.evidence), labelsOf(sources)
	c.byRank = make([]int, len(sources))
	for i := range c.byRank {
		c.byRank[i] = i
	}
	slices.SortStableFunc(c.byRank, func(i, j int) int { return cmp.Compare(sources[i].Rank, sources[j].Rank) })
	return c
}

// push takes newly generated text and returns what of it can be shown, with the citations that it completed.
func (c *citer) push(text string) (string, []Citation) {
	if c.repeats {
		return "", nil
	}
	c.draft.WriteString(text)
	text = c.held + text
	shown := c.text.Len()
	var fresh []Citation
	for text != "" {
		at := strings.IndexByte(text, '[')
		if at < 0 {
			break
		}
		from := at - len(text[:at]) + len(strings.TrimRight(text[:at], " \t")) // the space before a marker goes with it
		c.text.WriteString(text[:from])
		text = text[from:]
		m := marker.FindStringSubmatch(text)
		if m == nil {
			if couldBeMarker(text) {
				c.held = text
				return c.text.String()[shown:], fresh
			}
			end := strings.IndexByte(text, '[') + 1
			c.text.WriteString(text[:end])
			text = text[end:]
			continue
		}
		named, _ := strconv.Atoi(m[1])
		fresh = append(fresh, c.cite(named)...)
		text = text[len(m[0]):]
		if c.repeats {
			c.held = "" // the beginning of this marker
			return c.text.String()[shown:], fresh
		}
	}
	// A space at the end may belong to a marker that is still to come.
	keep := strings.TrimRight(text, " \t")
	c.text.WriteString(keep)
	c.held = text[len(keep):]
	return c.text.String()[shown:], fresh
}

// couldBeMarker reports whether text may still grow into a marker.
func couldBeMarker(text string) bool {
	rest := strings.TrimLeft(text, " \t")[1:]
	return len(rest) <= 3 && strings.Trim(rest, "0123456789") == ""
}

// flush returns what was held back.
func (c *citer) flush() string {
	rest := strings.TrimRight(c.held, " \t")
	c.text.WriteString(rest)
	c.held = ""
	if c.named && c.closed && strings.Trim(c.text.String()[c.claimFrom:], ".!?;, \t\n") == "" {
		c.claimFrom = c.text.Len()
	}
	return rest
}

// cite writes the markers of the passages that support the statement before it. A second marker of the model's for the same statement adds nothing, and
// the mere name of a place is no statement: it belongs to no part.
func (c *citer) cite(named int) []Citation {
	text := c.text.String()
	// A marker may stand before the full stop of its sentence, which then begins the next statement.
	body := text[c.claimFrom:]
	start := c.claimFrom + len(body) - len(strings.TrimLeft(body, ".!?;, \t\n"))
	end := start + len(strings.TrimRight(text[start:], " \t\n"))
	if start >= end {
		return nil
	}
	statement := text[start:end]
	if c.said[statement] {
		c.repeats = true
		return nil
	}
	c.said[statement] = true
	p := part{from: c.claimFrom, start: start, end: end}
	lead := text[c.claimFrom:start]
	stop := len(lead) - len(strings.TrimLeft(lead, ".!?;,"))
	if !c.named {
		c.closed = stop == 0
	} else if c.closed {
		p.from += stop
	}
	if c.named = c.labels.only(statement, c.question); c.named {
		c.claimFrom = c.text.Len()
		return nil
	}
	c.misread = nil
	chosen, missing, share := c.choose(statement)
	p.missing, p.support, p.verdict = missing, share, c.check(statement, chosen)
	if (len(chosen) == 0 && c.misread == nil || len(chosen) > 0 && !p.verdict.Supported) && !refuses(statement) && !obeys(statement, c.question, c.evidence) {
		if x, found := c.lookFurther(statement); found {
			chosen, p.missing, p.support, p.verdict = []choice{x}, nil, max(share, x.share), c.check(statement, []choice{x})
		}
	}
	if len(chosen) > 0 {
		p.assumed = c.assumed(statement)
		c.text.WriteByte(' ')
	} else {
		p.misread = c.misread
	}
	for _, x := range chosen {
		s := &c.sources[x.source]
		c.text.WriteString("[" + strconv.Itoa(s.Marker) + "]")
		p.cited = append(p.cited, citationOf(s, x.supportOf, start, end, s.Marker != named))
	}
	c.claimFrom = c.text.Len()
	p.to = c.claimFrom
	c.found = append(c.found, p.cited...)
	c.parts = append(c.parts, p)
	return p.cited
}

func citationOf(s *Source, span supportOf, start, end int, corrected bool) Citation {
	p := &s.Passage
	before := utf8.RuneCountInString(p.Text[:span.start])
	return Citation{
		Marker: s.Marker, Start: start, End: end, Passage: p.ID, Document: p.Document, Corpus: p.Corpus, Path: p.Path, Title: p.Title, Page: p.Page,
		SourceStart: p.Start + span.start, SourceEnd: p.Start + span.end, Quote: p.Text[span.start:span.end], Support: span.share, Corrected: corrected,
		CharStart: before, CharEnd: before + utf8.RuneCountInString(p.Text[span.start:span.end]),
	}
}

// choice is a span of a source that a statement is cited to.
type choice struct {
	supportOf
	source int // index
}

// refuses reports a statement that says nothing but that there is no answer: no document can be cited for that, not even one that says the same.
func refuses(statement string) bool {
	return strings.HasPrefix(statement, strings.TrimSuffix(Refusal, "."))
}

// choose returns the spans that carry a statement, none when nothing does, with the details of the statement that they lack and the best share.
func (c *citer) choose(statement string) ([]choice, []verify.Fact, float64) {
	if refuses(statement) || obeys(statement, c.question, c.evidence) {
		return nil, nil, 0
	}
	want := c.weights.of(statement)
	all := make([]choice, len(c.evidence))
	most := 0.0
	for i, e := range c.evidence {
		all[i] = choice{e.supports(want), i}
		most = max(most, all[i].share)
	}
	if most < minSupport {
		return nil, nil, most
	}
	var chosen []choice
	for _, i := range c.byRank {
		if all[i].share >= citeShare*most && len(chosen) < maxCited && !c.contradicted(statement, all[i]) {
			chosen = append(chosen, all[i])
		}
	}
	missing := c.missing(statement, chosen)
	if len(missing) > 0 || len(chosen) == 0 {
		chosen, missing = c.lookAgain(statement, all, chosen, missing)
	}
	if len(missing) > 0 || len(chosen) == 0 {
		return nil, missing, most
	}
	return c.withOperands(statement, want, chosen), nil, most
}

// withOperands adds the sentences in which the operands of a calculation stand to the spans of a statement that names its result: a reader must be able
// to check it. A number that stands in several places is taken from the sentence that has most in common with the statement.
func (c *citer) withOperands(statement string, want map[string]float64, chosen []choice) []choice {
	for _, x := range c.from {
		if !holdsNumber(statement, x.Result) {
			continue
		}
		for _, o := range x.Operands {
			held := slices.ContainsFunc(chosen, func(s choice) bool { return holdsNumber(c.sources[s.source].Passage.Text[s.start:s.end], o.Text) })
			if o.Marker == 0 || held {
				continue
			}
			if s, found := c.sentenceWith(o.Text, want); found {
				chosen = append(chosen, s)
			}
		}
	}
	return chosen
}

// sentenceWith returns the sentence with a number that holds most of want, the most relevant one among equals.
func (c *citer) sentenceWith(number string, want map[string]float64) (best choice, found bool) {
	for _, i := range c.byRank {
		text := c.sources[i].Passage.Text
		for k, s := range c.evidence[i].sentences {
			if len(c.evidence[i].terms[k]) == 0 || !holdsNumber(text[s.Start:s.End], number) {
				continue
			}
			one := evidence{sentences: c.evidence[i].sentences[k : k+1], terms: c.evidence[i].terms[k : k+1]}
			if x := one.supports(want); !found || x.share > best.share {
				best, found = choice{x, i}, true
			}
		}
	}
	return best, found
}

// holdsNumber reports whether a number of text has the value that another text writes down.
func holdsNumber(text, number string) bool {
	for _, n := range arith.Find(number) {
		for _, m := range arith.Find(text) {
			if m.Value.Cmp(n.Value) == 0 {
				return true
			}
		}
	}
	return false
}

// attribution is how a model says where it has something from; no document says that of itself.
var attribution = regexp.MustCompile(`^(?i:according to the (?:documents?|passages?|texts?|sources?),? |the (?:documents?|passages?|texts?|sources?) (?:also )?(?:states?|says?|mentions?|notes?) (?:that )?)`)

// claimed is what a statement claims, without saying that the documents say it.
func claimed(statement string) string {
	if rest := attribution.ReplaceAllString(statement, ""); strings.Contains(rest, " ") {
		return rest
	}
	return statement
}

// check judges a statement by the passages that it is cited to; nil when there are none.
func (c *citer) check(statement string, chosen []choice) *verify.Verdict {
	if len(chosen) == 0 {
		return nil
	}
	var passages []string
	for _, x := range chosen {
		passages = append(passages, c.sources[x.source].Passage.ForRanking())
	}
	v := verify.Check(claimed(statement), passages)
	return &v
}

// contradicted reports a span that says the same with a negation more, or less, or that has a number of the statement in another row of its table.
func (c *citer) contradicted(statement string, x choice) bool {
	p := &c.sources[x.source].Passage
	if _, no := verify.Contradicts(statement, p.Text[x.start:x.end]); no {
		return true
	}
	computed := c.results(statement)
	for _, done := range c.from {
		if holdsNumber(statement, done.Result) {
			for _, o := range done.Operands {
				computed = append(computed, arith.Find(o.Text)...)
			}
		}
	}
	wrong := verify.InOtherRows(statement, c.question, p.Text, [][2]int{{x.start, x.end}}, computed...)
	if len(wrong) == 0 {
		return false
	}
	if c.misread == nil {
		c.misread = &wrong[0]
	}
	return true
}

// missing returns the details of a statement that none of the spans holds, nor the title over one, nor the question.
func (c *citer) missing(statement string, spans []choice) []verify.Fact {
	var held strings.Builder
	for _, x := range spans {
		p := &c.sources[x.source].Passage
		held.WriteString(p.Title + "\n" + p.Heading + "\n" + p.Path + "\n" + p.Text[x.start:x.end] + "\n")
	}
	return verify.Missing(statement, held.String(), c.question, c.results(statement)...)
}

// year is a number that reads like one.
var year = regexp.MustCompile(`^(?:1\d|20)\d\d$`)

// assumed returns the dates, years and names that a statement has from the question alone: no source holds them, and the question may be in error. Other
// numbers of a question are conditions more often than claims: "after six years", where a table has "5 to 10 years".
func (c *citer) assumed(statement string) []verify.Fact {
	var held strings.Builder
	for i := range c.sources {
		p := &c.sources[i].Passage
		held.WriteString(p.Title + "\n" + p.Heading + "\n" + p.Path + "\n" + p.Text + "\n")
	}
	return slices.DeleteFunc(verify.Missing(statement, held.String(), "", c.results(statement)...), func(f verify.Fact) bool {
		return f.Kind != verify.DateFact && f.Kind != verify.NameFact && !(f.Kind == verify.NumberFact && year.MatchString(f.Text))
	})
}

// results are the computed numbers that a statement may name: not those that it gives another unit.
func (c *citer) results(statement string) []arith.Number {
	var all []arith.Number
	for _, x := range c.from {
		for _, result := range arith.Find(x.Result) {
			wrong := false
			for _, n := range arith.Find(statement) {
				u := unitOf(statement, n.Start, n.End)
				wrong = wrong || n.Value.Cmp(result.Value) == 0 && u != "" && len(x.Units) > 0 && !slices.Contains(x.Units, u)
			}
			if !wrong {
				all = append(all, result)
			}
		}
	}
	return all
}

// lookAgain searches all passages of the prompt for what the chosen spans lack, before a statement loses its citation: first for one span that holds
// every detail, then for sentences that add what is missing.
func (c *citer) lookAgain(statement string, all, chosen []choice, missing []verify.Fact) ([]choice, []verify.Fact) {
	for _, i := range c.byRank {
		if x := all[i]; x.share >= minSupport && len(c.missing(statement, []choice{x})) == 0 && !c.contradicted(statement, x) {
			return []choice{x}, nil
		}
	}
	for _, i := range c.byRank {
		p := &c.sources[i].Passage
		for _, s := range c.evidence[i].sentences {
			if len(chosen) >= maxCited || len(missing) == 0 {
				return chosen, missing
			}
			more := append(slices.Clone(chosen), choice{supportOf{s.Start, s.End, all[i].share}, i})
			if all[i].share < minSupport || !holdsAny(p.Text[s.Start:s.End], missing) {
				continue
			}
			if left := c.missing(statement, more); len(left) < len(missing) && !c.contradicted(statement, more[len(more)-1]) {
				chosen, missing = more, left
			}
		}
	}
	return chosen, missing
}

// lookFurther searches what was found and did not get into the prompt for a span that supports a statement which nothing in the prompt supports, before
// it loses its citation. The passage becomes a source with the next number.
func (c *citer) lookFurther(statement string) (choice, bool) {
	want := c.weights.of(statement)
	for i := range c.spare {
		e := newEvidence(c.spare[i].Passage.Text, c.question)
		x := choice{e.supports(want), len(c.sources)}
		if x.share < minSupport {
			continue
		}
		c.sources = append(c.sources, Source{Marker: x.source + 1, Rank: x.source + 1, Added: true, Scored: c.spare[i]})
		if len(c.missing(statement, []choice{x})) == 0 && !c.contradicted(statement, x) && c.check(statement, []choice{x}).Supported {
			c.evidence, c.byRank = append(c.evidence, e), append(c.byRank, x.source)
			c.spare = slices.Concat(c.spare[:i], c.spare[i+1:])
			return x, true
		}
		c.sources = c.sources[:x.source]
	}
	return choice{}, false
}

// holdsAny is a cheap test before the careful one.
func holdsAny(text string, facts []verify.Fact) bool {
	for _, f := range facts {
		if f.Kind != verify.NameFact || strings.Contains(strings.ToLower(text), strings.ToLower(strings.TrimSuffix(f.Text, "s"))) {
			return true
		}
	}
	return false
}
