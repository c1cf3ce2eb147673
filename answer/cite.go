package answer

import (
	"regexp"
	"strconv"
	"strings"

	"ragd/retrieve"
	"ragd/retrieve/analysis"
	"ragd/sentence"
)

// Citation is one marker of an answer, resolved to the bytes of its source.
type Citation struct {
	Marker      int
	Start, End  int // bytes of the cited statement in the answer's text
	Passage     retrieve.PassageID
	Document    retrieve.DocumentID
	Corpus      string
	Path, Title string
	Page        int    // 1-based; 0 in documents without pages
	SourceStart int    // bytes of the quote in the document's normalised text
	SourceEnd   int    //
	Quote       string // the document's text at [SourceStart, SourceEnd)
}

var (
	markers     = regexp.MustCompile(`[ \t]*\[(\d{1,3})\]`)
	bareMarkers = regexp.MustCompile(`\[(\d{1,3})\]`)
)

// citer resolves the markers of a growing text, each once.
type citer struct {
	sources   []Source
	claimFrom int // where the statement begins that the next marker cites
	done      int // text up to here was searched
	found     []Citation
}

func newCiter(sources []Source) *citer { return &citer{sources: sources} }

// next returns the citations of markers that text holds and that were not returned before. While the text grows (final is false) the end of the text
// is left alone, where another marker of the same statement may follow.
func (c *citer) next(text string, final bool) []Citation {
	var fresh []Citation
	for {
		at := markers.FindStringSubmatchIndex(text[c.done:])
		if at == nil || (!final && c.done+at[1] == len(text)) {
			return fresh
		}
		start, end := c.done+at[0], c.done+at[1]
		marker, _ := strconv.Atoi(text[c.done+at[2] : c.done+at[3]])
		// A marker may stand before the full stop of its sentence, which then begins the next claim.
		claim, claimEnd := strings.TrimSpace(strings.TrimLeft(text[c.claimFrom:start], ".!?;, \t\n")), start
		if claim == "" && len(c.found) > 0 { // another marker for the same statement
			last := c.found[len(c.found)-1]
			claim, claimEnd = text[last.Start:last.End], last.End
			c.claimFrom = last.Start
		}
		from := strings.Index(text[c.claimFrom:], claim) + c.claimFrom
		if marker >= 1 && marker <= len(c.sources) && claim != "" {
			citation := resolve(claim, c.sources[marker-1])
			citation.Start, citation.End = from, min(from+len(claim), claimEnd)
			c.found, fresh = append(c.found, citation), append(fresh, citation)
		}
		c.claimFrom, c.done = end, end
	}
}

// resolve finds the sentences of the source that carry the claim.
func resolve(claim string, s Source) Citation {
	p := &s.Passage
	start, end := bestSpan(claim, p.Text)
	return Citation{
		Marker: s.Marker, Passage: p.ID, Document: p.Document, Corpus: p.Corpus, Path: p.Path, Title: p.Title, Page: p.Page,
		SourceStart: p.Start + start, SourceEnd: p.Start + end, Quote: p.Text[start:end],
	}
}

// maxSpan is how many neighbouring sentences one quote may hold.
const maxSpan = 3

// bestSpan returns the bytes of the run of at most three sentences in text that covers the claim's terms best. Coverage counts each term of the claim
// once, numbers double, because they are what a reader checks; a longer run must add coverage to win.
func bestSpan(claim, text string) (start, end int) {
	want := map[string]float64{}
	for _, term := range analysis.Terms(claim, "") {
		want[term] = 1
		if strings.ContainsAny(term, "0123456789") {
			want[term] = 2
		}
	}
	sentences := sentence.Split(text)
	if len(sentences) == 0 {
		return 0, len(text)
	}
	best := -1.0
	for i := range sentences {
		have := map[string]bool{}
		score, length := 0.0, 0
		for j := i; j < min(i+maxSpan, len(sentences)); j++ {
			part := text[sentences[j].Start:sentences[j].End]
			length += len(part)
			for _, term := range analysis.Terms(part, "") {
				if !have[term] {
					have[term] = true
					score += want[term]
				}
			}
			// The small price per sentence and byte prefers the shortest run among equals.
			if s := score - 0.35*float64(j-i) - float64(length)/1e5; s > best {
				best, start, end = s, sentences[i].Start, sentences[j].End
			}
		}
	}
	return start, end
}
