package answer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"ragd/llm"
	"ragd/llm/chat"
	"ragd/retrieve/analysis"
)

// rewriteTokens bounds a rewritten question.
const rewriteTokens = 64

// historyTurns is how many turns a rewriting looks back: pronouns rarely reach farther, and each turn costs prefill time.
const historyTurns = 3

// rewrite replaces a follow-up question by one that can be searched for alone. The first question of a conversation costs nothing.
func (r *run) rewrite(ctx context.Context) error {
	if len(r.q.History) == 0 {
		return nil
	}
	started := time.Now()
	query, err := r.Rewrite(ctx, r.q.Text, r.q.History, r.q.Namespace)
	if err != nil {
		return err
	}
	r.answer.Query, r.answer.Rewrite = query, time.Since(started)
	return nil
}

// Rewrite returns question as it would be asked without its history. When the model returns nothing usable the question stays as it is, with the
// question before it, whose words are most likely meant.
func (a *Answerer) Rewrite(ctx context.Context, question string, history []Turn, namespace string) (string, error) {
	var talk strings.Builder
	for _, t := range history[max(0, len(history)-historyTurns):] {
		fmt.Fprintf(&talk, "User: %s\nAssistant: %s\n", t.Question, firstWords(t.Answer, 60))
	}
	fmt.Fprintf(&talk, "User: %s\n\nThe last question, rewritten:", question)
	messages := []chat.Message{{Role: "system", Content: strings.TrimSpace(rewriteText)}, {Role: "user", Content: talk.String()}}
	stream, err := a.engine.Generate(ctx, llm.Request{Messages: messages, MaxTokens: rewriteTokens, Stop: []string{"\n"}, Namespace: namespace})
	if err != nil {
		return "", fmt.Errorf("answer: rewrite the question: %w", err)
	}
	text, err := stream.Text()
	if err != nil {
		return "", fmt.Errorf("answer: rewrite the question: %w", err)
	}
	rewritten := strings.Trim(strings.TrimSpace(text), `"`)
	switch {
	case rewritten == "" || stream.FinishReason() == "length":
		return history[len(history)-1].Question + " " + question, nil
	case !keeps(rewritten, question): // small models sometimes repeat an earlier question instead
		return question, nil
	}
	return rewritten, nil
}

// keeps reports whether a rewritten question still asks what the question asked: most of its terms are there.
func keeps(rewritten, question string) bool {
	have := map[string]bool{}
	for _, t := range analysis.Terms(rewritten, "en") {
		have[t] = true
	}
	terms := analysis.Terms(question, "en")
	kept := 0
	for _, t := range terms {
		if have[t] {
			kept++
		}
	}
	return 2*kept >= len(terms)
}

// firstWords returns at most n words of text.
func firstWords(text string, n int) string {
	words := strings.Fields(text)
	return strings.Join(words[:min(n, len(words))], " ")
}
