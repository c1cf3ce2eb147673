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

// Statement is a part of an answer that no passage supports: bytes [Start, End) of its text.
type Statement struct{ Start, End int }

// citer takes a growing answer, checks each marker against the passages, corrects the ones that name a wrong passage, and resolves them to spans.
type citer struct {
	sources   []Source
	evidence  []evidence // of each source
	byRank    []int      // indices of sources, the most relevant first
	weights   weights
	text      strings.Builder // what was passed on
	held      string          // what may become a marker
	claimFrom int             // in text: where the statement begins that the next marker cites
	found     []Citation
	loose     []Statement     // that nothing supports
	said      map[string]bool // statements so far
	repeats   bool            // the last statement had been said before; nothing after it is taken
}

func newCiter(sources []Source) *citer {
	c := &citer{sources: sources, said: map[string]bool{}}
	for _, s := range sources {
		c.evidence = append(c.evidence, newEvidence(s.Passage.Text))
	}
	c.weights = weigh(c.evidence)
	c.byRank = make([]int, len(sources))
	for i := range c.byRank {
		c.byRank[i] = i
	}
	slices.SortStableFunc(c.byRank, func(i, j int) int { return cmp.Compare(sources[i].Rank, sources[j].Rank) })
	return c
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
		named, _ := strconv.Atoi(m[1])
		fresh = append(fresh, c.cite(named)...)
		text = text[len(m[0]):]
		if c.repeats {
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
	return rest
}

// cite writes the markers of the passages that support the statement before it. A second marker of the model's for the same statement adds nothing.
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
	support := c.supports(statement)
	most := slices.MaxFunc(support, func(a, b supportOf) int { return cmp.Compare(a.share, b.share) }).share
	if most < minSupport {
		c.loose = append(c.loose, Statement{start, end})
		c.claimFrom = end
		return nil
	}
	c.text.WriteByte(' ')
	var cited []Citation
	for _, i := range c.byRank {
		s := support[i]
		if s.share < citeShare*most || len(cited) == maxCited {
			continue
		}
		c.text.WriteString("[" + strconv.Itoa(i+1) + "]")
		p := &c.sources[i].Passage
		cited = append(cited, Citation{
			Marker: i + 1, Start: start, End: end, Passage: p.ID, Document: p.Document, Corpus: p.Corpus, Path: p.Path, Title: p.Title, Page: p.Page,
			SourceStart: p.Start + s.start, SourceEnd: p.Start + s.end, Quote: p.Text[s.start:s.end], Support: s.share, Corrected: i != named-1,
		})
	}
	c.claimFrom = c.text.Len()
	c.found = append(c.found, cited...)
	return cited
}

// supports says how well each source supports a statement.
func (c *citer) supports(statement string) []supportOf {
	want := c.weights.of(statement)
	all := make([]supportOf, len(c.evidence))
	for i, e := range c.evidence {
		all[i] = e.supports(want)
	}
	return all
}
