package answer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"ragd/verify"
)

// Judged is a statement of the draft with what became of it.
type Judged struct {
	Text      string
	Supported bool
	Doubtful  bool          // it is supported, so it stays, but its sources may say something else
	Removed   bool          // it is not in the answer
	Support   float64       // share of its terms that the best span holds
	Checked   float64       // probability that its sources support it, by verify.Check; 0 when it has none
	Stated    float64       // log-odds by the model that the documents say it
	Assumed   []verify.Fact // dates, years and names that it has from the question alone; with any it is doubtful
	Missing   []verify.Fact // numbers, dates and names of it that its sources do not hold
	Why       string        // it is not supported
	Quotes    []string      // what it was cited to, removed or not
}

// Doubt says why a statement that stays is doubtful, or "".
func (j *Judged) Doubt() string {
	switch {
	case !j.Doubtful:
		return ""
	case len(j.Assumed) > 0:
		return fmt.Sprintf("only the question has the %s %q", j.Assumed[0].Kind, j.Assumed[0].Text)
	}
	return fmt.Sprintf("its sources may say something else (probability %.2f)", j.Checked)
}

// settle ends a generation: the draft's statements with their citations.
func (r *run) settle(c *citer, reason string) {
	r.answer.Abstained, r.answer.Reason = false, ""
	r.answer.Draft = strings.TrimSpace(c.draft.String())
	r.answer.Finish = Finish(reason)
	if c.repeats {
		r.answer.Finish = FinishRepeat
	}
	r.answer.Sources = c.sources
	r.parts, r.text, r.tail = c.parts, c.text.String(), c.text.String()[c.claimFrom:]
	// What follows the last marker is the end of its sentence, or a statement that was not finished.
	if strings.Trim(r.tail, ".!?;, \t\n") != "" {
		if rest := strings.TrimLeft(r.tail, ".!?"); rest != r.tail {
			r.tail = r.tail[:len(r.tail)-len(rest)]
		} else {
			r.tail = ""
		}
	}
}

// decide judges the statements, takes out what nothing supports, and withholds the answer when too little is left of it.
func (r *run) decide(ctx context.Context, p prompt) error {
	started := time.Now()
	defer func() { r.answer.Verify = time.Since(started) }()
	if r.answer.Unconstrained {
		for i := range r.parts {
			r.parts[i].invented = r.invented(r.text[r.parts[i].start:r.parts[i].end])
		}
	}
	if err := r.states(ctx, p); err != nil {
		return err
	}
	r.compose()
	if err := r.lift(ctx); err != nil {
		return err
	}
	if err := r.answered(ctx); err != nil {
		return err
	}
	r.answer.Confidence = r.answer.Evidence.after()
	below := r.answer.Evidence.estimate().Below
	switch {
	case r.q.Insist, r.q.Unchecked:
	case len(r.answer.Citations) == 0:
		r.refuse("nothing in the passages supports what the model wrote")
	case r.answer.Confidence < below:
		r.refuse(fmt.Sprintf("the passages hardly answer the question (confidence %.2f, needed %.2f)", r.answer.Confidence, below))
	}
	return nil
}

// answered asks the cross-encoder whether the answer answers the question.
func (r *run) answered(ctx context.Context) error {
	if r.config.Cross == nil {
		return nil
	}
	logits, err := r.config.Cross.Score(ctx, r.answer.Query, []string{bareMarkers.ReplaceAllString(r.answer.Draft, "")})
	if err != nil {
		return fmt.Errorf("answer: check the answer: %w", err)
	}
	r.answer.Evidence.Answers = float64(logits[0])
	return nil
}

// why says why a statement is not supported, or "".
func (p *part) why() string {
	switch {
	case p.misread != nil:
		return fmt.Sprintf("its source has %q in another %s than %q", p.misread.Text, p.misread.Kind, p.misread.Place)
	case len(p.missing) > 0:
		return fmt.Sprintf("no source holds the %s %q", p.missing[0].Kind, p.missing[0].Text)
	case p.invented != "":
		return fmt.Sprintf("its quotation %q stands in no source", p.invented)
	case len(p.cited) == 0:
		return "its words stand in no source"
	case p.verdict != nil && !p.verdict.Supported:
		return fmt.Sprintf("its sources say something else (probability %.2f)", p.verdict.Probability)
	}
	return ""
}

// compose builds the answer's text from the statements that stay.
func (r *run) compose() {
	var text strings.Builder
	bare, last := 0, false
	a := &r.answer
	a.Citations, a.Statements, a.Unsupported, a.Doubtful = nil, nil, nil, nil
	for i := range r.parts {
		p := &r.parts[i]
		j := Judged{Text: r.text[p.start:p.end], Support: p.support, Stated: p.stated, Missing: p.missing, Assumed: p.assumed, Why: p.why()}
		for _, c := range p.cited {
			j.Quotes = append(j.Quotes, c.Quote)
		}
		if p.verdict != nil {
			j.Checked = p.verdict.Probability
		}
		j.Supported = j.Why == ""
		j.Doubtful = j.Supported && (p.verdict != nil && !p.verdict.Sure || len(p.assumed) > 0)
		j.Removed = !j.Supported && !r.config.Keep && !r.q.Unchecked
		a.Evidence.Support += p.support / float64(len(r.parts))
		a.Evidence.Stated += p.stated / float64(len(r.parts))
		lead := r.text[p.from:p.start]
		switch {
		case j.Removed:
			bare++
			if closing := strings.TrimSpace(lead); last && closing != "" { // it ends the statement before
				text.WriteString(closing)
			}
		default:
			if !last {
				lead = strings.TrimLeft(lead, ".!?;, \t\n")
				if text.Len() > 0 {
					lead = " " + lead
				}
			}
			text.WriteString(lead)
			shift := text.Len() - p.start
			if !j.Supported {
				bare++
				text.WriteString(r.text[p.start:p.end])
				a.Unsupported = append(a.Unsupported, Statement{p.start + shift, p.end + shift})
				break
			}
			text.WriteString(r.text[p.start:p.to])
			if j.Doubtful {
				a.Doubtful = append(a.Doubtful, Statement{p.start + shift, p.end + shift})
			}
			for _, c := range p.cited {
				c.Start, c.End = c.Start+shift, c.End+shift
				a.Citations = append(a.Citations, c)
			}
		}
		last = !j.Removed
		a.Statements = append(a.Statements, j)
	}
	if last {
		text.WriteString(r.tail)
	}
	a.Evidence.Bare = float64(bare) / float64(max(1, len(r.parts)))
	a.Text = strings.TrimSpace(text.String())
	if r.q.Unchecked && a.Text == "" { // nothing but the name of a place
		a.Text = a.Draft
	}
}
