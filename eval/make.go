package eval

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"ragd/llm"
	"ragd/llm/chat"
	"ragd/retrieve"
	"ragd/verify"
)

// Drafted is a question of a set that a model drafted and a person has yet to accept: a line of queries.jsonl with what it was made from.
type Drafted struct {
	ID       string   `json:"id"`
	Text     string   `json:"text"`
	Answers  []string `json:"answers"`
	Passage  string   `json:"passage"`
	Review   string   `json:"review"` // "draft": change it to "ok", or delete the line
	Warnings []string `json:"warnings,omitempty"`
}

const draftPrompt = "Write one question that the text below answers, as somebody would ask who has not seen the text and needs the fact. Name what the question is about; " +
	"never write \"the text\" or \"the document\". Reply with the question on the first line and the short answer, copied from the text, on the second."

// Draft writes a set of questions over passages into dir: corpus.jsonl, queries.jsonl and qrels.tsv. Each draft is checked: its answer must stand in the
// passage, and two drafts may not ask the same; what fails is dropped, and doubts are written beside the question.
func Draft(ctx context.Context, engine *llm.Engine, passages []retrieve.Passage, dir string, progress func(done, total int)) (int, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return 0, fmt.Errorf("eval: draft: %w: give a folder that does not exist yet", err)
	}
	var corpus, queries, gains strings.Builder
	gains.WriteString("query-id\tcorpus-id\tscore\n")
	seen := map[string]bool{}
	n := 0
	for i := range passages {
		p := &passages[i]
		id := fmt.Sprintf("p%d", p.ID)
		if err := writeLine(&corpus, Passage{ID: id, Title: p.Title, Text: p.Text}); err != nil {
			return 0, err
		}
		d, err := draft(ctx, engine, p)
		if err != nil {
			return 0, err
		}
		if key := strings.Join(normal(d.Text), " "); d.Text != "" && !seen[key] {
			seen[key] = true
			d.ID, d.Passage, d.Review = fmt.Sprintf("q%d", n), id, "draft"
			if err := writeLine(&queries, d); err != nil {
				return 0, err
			}
			fmt.Fprintf(&gains, "%s\t%s\t1\n", d.ID, id)
			n++
		}
		if progress != nil {
			progress(i+1, len(passages))
		}
	}
	return n, writeFiles(dir, corpus.String(), queries.String(), gains.String())
}

func writeLine(b *strings.Builder, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("eval: draft: %w", err)
	}
	b.Write(append(line, '\n'))
	return nil
}

// draft asks the model for one question; an empty one when it wrote nothing that can be used.
func draft(ctx context.Context, engine *llm.Engine, p *retrieve.Passage) (Drafted, error) {
	tokens, err := engine.Chat().Encode([]chat.Message{{Role: "system", Content: draftPrompt}, {Role: "user", Content: p.ForRanking()}}, true)
	if err != nil {
		return Drafted{}, fmt.Errorf("eval: draft: %w", err)
	}
	stream, err := engine.Generate(ctx, llm.Request{Prompt: tokens, MaxTokens: 96, Namespace: Tenant})
	if err != nil {
		return Drafted{}, fmt.Errorf("eval: draft: %w", err)
	}
	text, err := stream.Text()
	if err != nil {
		return Drafted{}, fmt.Errorf("eval: draft: %w", err)
	}
	return readDraft(text, p.Text), nil
}

// readDraft takes question and answer out of what a model wrote, and checks them.
func readDraft(text, passage string) Drafted {
	var d Drafted
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		for _, label := range []string{"Question:", "Answer:", "Q:", "A:"} {
			line = strings.TrimSpace(strings.TrimPrefix(line, label))
		}
		switch {
		case line == "":
		case d.Text == "":
			d.Text = line
		case d.Answers == nil:
			d.Answers = []string{strings.TrimSuffix(line, ".")}
		}
	}
	if !strings.HasSuffix(d.Text, "?") || d.Answers == nil || WordRecall(passage, d.Answers) < 0.8 {
		return Drafted{}
	}
	if !Contains(passage, d.Answers) {
		d.Warnings = append(d.Warnings, "the answer is not copied from the passage word for word")
	}
	if missing := verify.Missing(d.Text, passage, ""); len(missing) > 0 {
		d.Warnings = append(d.Warnings, fmt.Sprintf("the question names %q, which the passage does not", missing[0].Text))
	}
	return d
}

// NearDuplicates returns pairs of questions of the tuning and the held-out part that say nearly the same: what is tuned on one was seen for the other.
func NearDuplicates(d *Dataset, share float64) [][2]string {
	words := make([]map[string]bool, len(d.Queries))
	for i := range d.Queries {
		words[i] = map[string]bool{}
		for _, w := range normal(d.Queries[i].Text) {
			words[i][w] = true
		}
	}
	var pairs [][2]string
	for i := range d.Queries {
		for j := range i {
			if d.Queries[i].IsHeldOut() == d.Queries[j].IsHeldOut() || d.Queries[i].Text == "" {
				continue
			}
			both := 0
			for w := range words[i] {
				if words[j][w] {
					both++
				}
			}
			if float64(both) >= share*float64(len(words[i])+len(words[j])-both) {
				pairs = append(pairs, [2]string{d.Queries[j].ID, d.Queries[i].ID})
			}
		}
	}
	return pairs
}
