package answer

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ragd/retrieve"
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
	Quote       string  // the document's text at [SourceStart, SourceEnd)
	Support     float64 // share of the statement's terms that the quote holds, rare terms and numbers counting more
	Corrected   bool    // the model had named a passage that supports the statement less
}

// marker is what the model writes; bareMarkers finds the same shape in the text of documents.
var (
	marker      = regexp.MustCompile(`^[ \t]*\[(\d{1,3})\]`)
	bareMarkers = regexp.MustCompile(`\[(\d{1,3})\]`)
)

// tieShare is how much of the best passage's support another must have to count as equal. Among equals the one that ranks first for the question is
// cited. Where a marker stands is the model's choice; which passage it names is decided by the evidence, because small models often write the number
// of a neighbour.
const tieShare = 0.95

// minSupport is the share of a statement's terms that some passage must hold for the statement to be cited at all. Below it the words have next to
// nothing in common, and a marker would lend the statement an authority that it does not have. See docs/eval.md for how it was chosen.
const minSupport = 0.25

// Statement is a part of an answer that no passage supports: bytes [Start, End) of its text.
type Statement struct{ Start, End int }

// citer takes a growing answer, checks each marker against the passages, corrects the ones that name a wrong passage, and resolves them to spans.
type citer struct {
	sources   []Source
	evidence  []evidence // of each source
	weights   weights
	text      strings.Builder // what was passed on
	held      string          // what may become a marker
	claimFrom int             // in text: where the statement begins that the next marker cites
	claim     claim           // the last one that was cited
	found     []Citation
	loose     []Statement // that nothing supports
}

func newCiter(sources []Source) *citer {
	c := &citer{sources: sources}
	for _, s := range sources {
		c.evidence = append(c.evidence, newEvidence(s.Passage.Text))
	}
	c.weights = weigh(c.evidence)
	return c
}

// claim is a statement of the answer and what its markers cited so far.
type claim struct {
	start, end int // in the text
	cited      map[int]bool
	support    []support // by source
	best       int       // index of the source to cite
}

// push takes newly generated text and returns what of it can be shown, with the citations that it completed.
func (c *citer) push(text string) (string, []Citation) {
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
		n, _ := strconv.Atoi(m[1])
		if citation, ok := c.cite(n); ok {
			fresh = append(fresh, citation)
		}
		text = text[len(m[0]):]
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
	return rest
}

// cite writes the marker of the passage that supports the statement before it best. The model's second marker for a statement adds nothing then.
func (c *citer) cite(named int) (Citation, bool) {
	text := c.text.String()
	// A marker may stand before the full stop of its sentence, which then begins the next statement.
	body := text[c.claimFrom:]
	start := c.claimFrom + len(body) - len(strings.TrimLeft(body, ".!?;, \t\n"))
	end := start + len(strings.TrimRight(text[start:], " \t\n"))
	if start < end {
		c.claim = c.weighClaim(text, start, end)
	}
	if named < 1 || named > len(c.sources) || c.claim.cited == nil {
		return Citation{}, false
	}
	if c.claim.support[c.claim.best].share < minSupport {
		if start < end {
			c.loose = append(c.loose, Statement{start, end})
			c.claimFrom = end
		}
		return Citation{}, false
	}
	i := c.claim.best
	if c.claim.cited[i] {
		return Citation{}, false
	}
	c.claim.cited[i] = true
	if len(c.claim.cited) == 1 {
		c.text.WriteByte(' ')
	}
	c.text.WriteString("[" + strconv.Itoa(i+1) + "]")
	c.claimFrom = c.text.Len()
	p, span := &c.sources[i].Passage, c.claim.support[i]
	citation := Citation{
		Marker: i + 1, Start: c.claim.start, End: c.claim.end, Passage: p.ID, Document: p.Document, Corpus: p.Corpus, Path: p.Path, Title: p.Title,
		Page: p.Page, SourceStart: p.Start + span.start, SourceEnd: p.Start + span.end, Quote: p.Text[span.start:span.end],
		Support: span.share, Corrected: i != named-1,
	}
	c.found = append(c.found, citation)
	return citation, true
}

func (c *citer) weighClaim(text string, start, end int) claim {
	k := claim{start: start, end: end, cited: map[int]bool{}, support: make([]support, len(c.evidence))}
	want := c.weights.of(text[start:end])
	for i, e := range c.evidence {
		k.support[i] = e.supports(want)
	}
	most := slices.MaxFunc(k.support, func(a, b support) int { return cmp.Compare(a.share, b.share) }).share
	k.best = -1
	for i, s := range k.support {
		if s.share >= tieShare*most && (k.best < 0 || c.sources[i].Rank < c.sources[k.best].Rank) {
			k.best = i
		}
	}
	return k
}
