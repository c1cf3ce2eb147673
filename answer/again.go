package answer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"ragd/retrieve/analysis"
	"ragd/sentence"
)

// maxNearest bounds how many sentences the cross-encoder reads when it looks for the one that comes nearest to an answer.
const maxNearest = 48

// nearest returns the sentence of the sources that comes nearest to an answer, by the cross-encoder, and keeps its logit as evidence; "" when nobody
// can tell.
func (r *run) nearest(ctx context.Context, sources []Source) (string, error) {
	sentences := sentencesAbout(r.answer.Query, sources)
	if r.config.Cross == nil || len(sentences) == 0 {
		return "", nil
	}
	logits, err := r.config.Cross.Score(ctx, r.answer.Query, sentences)
	if err != nil {
		return "", fmt.Errorf("answer: look for the nearest sentence: %w", err)
	}
	best := 0
	for i := range logits {
		if logits[i] > logits[best] {
			best = i
		}
	}
	r.answer.Evidence.Nearest = float64(logits[best])
	return sentences[best], nil
}

// sentencesAbout returns the sentences of the sources that share most terms with the question, at most maxNearest, each once and on one line. A row of a
// table stands behind the table's header: alone it says nothing.
func sentencesAbout(question string, sources []Source) []string {
	want := analysis.Terms(question, "en")
	cover := map[string]float64{}
	var all []string
	for i := range sources {
		text, header := sources[i].Passage.Text, ""
		for _, s := range sentence.Split(text) {
			line := strings.Join(strings.Fields(text[s.Start:s.End]), " ")
			switch {
			case !strings.HasPrefix(line, "|"):
				header = ""
			case strings.Trim(line, "|-: ") == "":
				continue
			case header == "":
				header = line
			default:
				line = header + " " + line
			}
			if _, again := cover[line]; again || line == "" || givesOrders(line, question) {
				continue
			}
			cover[line] = termCover(want, analysis.Terms(line, "en"))
			all = append(all, line)
		}
	}
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(cover[b], cover[a]) })
	return all[:min(maxNearest, len(all))]
}

// again decides whether a refusal is taken at its word. When what was found speaks against it, the model is asked once more: without the rule that lets
// it refuse, and with the sentence beside the question that comes nearest to an answer. What it writes then is verified like everything else.
func (r *run) again(ctx context.Context, p prompt) error {
	near, err := r.nearest(ctx, p.sources)
	if err != nil || !r.answer.Abstained || r.answer.Evidence.before() < r.answer.Evidence.estimate().AskAgain {
		return err
	}
	return r.askAgain(ctx, p, near)
}

// askAgain lets the model answer with a text of the documents beside the question and without the rule that lets it refuse.
func (r *run) askAgain(ctx context.Context, p prompt, near string) error {
	question := p.question
	if near != "" {
		question += "\n\nThe documents say: “" + bareMarkers.ReplaceAllString(near, "($1)") + "”"
	}
	p, err := r.prompts.again(p, question)
	if err != nil || len(p.tokens)+r.q.MaxTokens > r.prompts.context {
		return err
	}
	return r.generate(ctx, p, "")
}

// minMisread is the share of statements without support from which an answer is written anew when it read another row or column of a table.
const minMisread = 0.5

// reread asks once more when the draft was taken from another row or column of a table than the one that it is about, with the right row beside the question. The
// reader sees what comes of it when it has been checked.
func (r *run) reread(ctx context.Context, p prompt) error {
	i := slices.IndexFunc(r.parts, func(x part) bool { return x.misread != nil })
	if i < 0 || r.q.Insist || r.q.Unchecked || r.answer.Trace.Again || r.answer.Evidence.Bare < minMisread {
		return nil
	}
	row, before := r.parts[i].misread.Row, r.answer.Trace
	if givesOrders(row, r.answer.Query) {
		return nil
	}
	r.muted = true
	if err := r.askAgain(ctx, p, row); err != nil || !r.answer.Trace.Again {
		r.answer.Trace = before
		return err
	}
	e := &r.answer.Evidence
	e.Support, e.Stated, e.LogProb, e.Lowest = 0, 0, 0, 0 // they are summed up
	return r.decide(ctx, p)
}
