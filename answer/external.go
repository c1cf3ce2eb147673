package answer

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"ragd/sentence"
)

// external reports whether an engine behind an API writes, which no grammar holds.
func (r *run) external() bool { return r.Answerer.external() }

func (a *Answerer) external() bool { return a.engine.External() != "" }

// marking gives a text that no grammar held the form that a citer reads: every sentence ends with one marker. Markers come in many forms, behind and before
// the full stop, several in one bracket, with words in it, naming passages that do not exist, or not at all; which passages a sentence rests on is
// decided by the evidence in any case. Text comes out by whole sentences.
type marking struct {
	sources int    // markers 1 to sources exist
	refusal string // the sentence that stands alone; "" when refusing is not offered
	held    string
	begun   bool // a sentence came out
	refused bool // nothing that follows a refusal is taken
}

// looseMarker is a bracket that begins with a number: [1], [2, 3], [1-3], [Document 2], 【1†source】.
var looseMarker = regexp.MustCompile(`[ \t]*(?:\[|【)\s*(?i:doc(?:ument)?s?|passages?|sources?)?\s*(\d{1,3})(?:\s*[-–,;]\s*(?i:doc(?:ument)?|passage|source)?\s*\d{1,3})*\s*(?:†[^】\]\n]{0,40})?(?:\]|】)`)

// push takes new text and returns the sentences that are complete with it.
func (m *marking) push(text string) string {
	m.held += text
	// The last sentence may go on, and the markers of the one before may be taken for a sentence of their own.
	spans := sentence.Split(m.held)
	if len(spans) < 3 {
		return ""
	}
	end := spans[len(spans)-2].Start
	end += leading(m.held[end:])
	out := m.mark(m.held[:end])
	m.held = m.held[end:]
	return out
}

// flush returns what is left when the text has ended; a text that was cut off loses its last sentence, which was not finished.
func (m *marking) flush(cut bool) string {
	text := m.held
	m.held = ""
	if spans := sentence.Split(text); cut && len(spans) > 0 && !strings.HasSuffix(strings.TrimSpace(text), ".") {
		text = text[:spans[len(spans)-1].Start]
	}
	return m.mark(text)
}

// mark writes the sentences of a text.
func (m *marking) mark(text string) string {
	var out strings.Builder
	at := 0
	var open string // a sentence whose markers may follow
	close := func() {
		if open != "" {
			out.WriteString(m.sentence(open))
		}
		open = ""
	}
	for _, s := range sentence.Split(text) {
		piece := text[at:s.End]
		at = s.End
		if bare := strings.Trim(looseMarker.ReplaceAllString(piece, ""), ".!?;, \t\n"); bare == "" {
			open += piece
			continue
		}
		n := 0
		if open != "" {
			n = leading(piece)
		}
		open += piece[:n]
		close()
		open = piece[n:]
	}
	open += text[at:]
	close()
	return out.String()
}

// leading is the length of the markers that a text begins with: they belong to the sentence before.
func leading(text string) (n int) {
	for {
		loc := looseMarker.FindStringIndex(text[n:])
		if loc == nil || strings.TrimSpace(text[n:n+loc[0]]) != "" {
			return n
		}
		n += loc[1]
	}
}

// sentence writes one sentence with one marker before its last full stop.
func (m *marking) sentence(text string) string {
	if m.refused {
		return ""
	}
	named := 0
	for _, found := range looseMarker.FindAllStringSubmatch(text, -1) {
		if n, _ := strconv.Atoi(found[1]); named == 0 && n >= 1 && n <= m.sources {
			named = n
		}
	}
	bare := looseMarker.ReplaceAllString(text, "")
	body := strings.TrimRight(bare, " \t\n")
	after := bare[len(body):]
	lead := body[:len(body)-len(strings.TrimLeft(body, " \t\n"))]
	body = body[len(lead):]
	plain := strings.TrimRight(body, ".!?")
	if !m.begun && m.refusal != "" && strings.EqualFold(plain, strings.TrimRight(m.refusal, ".!?")) {
		m.refused = true
		return m.refusal
	}
	if strings.Trim(body, ".!?;,:*#- \t\n") == "" { // nothing is said
		return lead + after
	}
	m.begun = true
	return lead + plain + fmt.Sprintf(" [%d]", named) + body[len(plain):] + after
}

// quotations are what a text puts between quotation marks.
var quotations = regexp.MustCompile(`“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|"([^"]+)"`)

// minQuoted is how many words make a quotation: fewer are a name or a word that is spoken of.
const minQuoted = 3

// invented returns the first quotation of a statement that no source has; "" when all are there.
func (r *run) invented(statement string) string {
	for _, q := range quotations.FindAllStringSubmatch(statement, -1) {
		quoted := strings.Fields(q[1] + q[2] + q[3] + q[4])
		if len(quoted) < minQuoted {
			continue
		}
		want := strings.ToLower(strings.Trim(strings.Join(quoted, " "), ".,;:!?… "))
		found := false
		for i := range r.answer.Sources {
			have := strings.ToLower(strings.Join(strings.Fields(r.answer.Sources[i].Passage.ForRanking()), " "))
			found = found || strings.Contains(have, want)
		}
		if !found {
			return want
		}
	}
	return ""
}
