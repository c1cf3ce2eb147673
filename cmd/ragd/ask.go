package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"ragd/answer"
	"ragd/llm/sample"
	"ragd/retrieve"
	"ragd/server"
)

type askCmd struct {
	Question    []string `arg:"" help:"The question; quotes are not needed."`
	Corpus      []string `help:"Ask these corpora only." short:"c"`
	Passages    int      `help:"Passages that the model reads; 0 leaves it to ragd."`
	MaxTokens   int      `help:"Longest answer in tokens; 0 leaves it to ragd."`
	Temperature float32  `help:"0 is reproducible; higher is freer." default:"0"`
	Seed        uint64   `help:"Seed of the random choices when the temperature is above 0."`
	Beams       int      `help:"Search for the most probable answer, this many at a time; 0 and 1 write one word after the other. Slower by about that factor."`
	JSON        bool     `help:"Print the answer as one JSON object, the same as POST /v1/ask." name:"json"`
	Explain     bool     `help:"Show the passages with their scores, the token budget and the timings."`
}

// Help is shown by ragd ask --help.
func (askCmd) Help() string {
	return `Every statement of the answer carries a marker like [1]; below the answer stands the exact text that each marker points to. When the documents
hold no answer, ragd says so instead of guessing.

  ragd ask How many vacation days do I have?
  ragd ask -c handbook --explain "What is the hotel limit in Oslo?"
  ragd ask --beams 4 "Which regulation applies to lithium batteries?"
  ragd ask --json "Who approves trips abroad?" | jq .citations

--beams helps where one wrong word early spoils a short answer; on long, open answers it makes the text bland, and the answer appears only when the
search has ended. docs/decoding.md explains it.`
}

func (k askCmd) Run(ctx ctxBinding, a *app) error {
	if strings.TrimSpace(strings.Join(k.Question, " ")) == "" {
		return fmt.Errorf("%w: the question is empty: ragd ask How many vacation days do I have?", errUsage)
	}
	answerer, err := a.openAnswerer(ctx)
	if err != nil {
		return err
	}
	q := answer.Question{
		Text: strings.Join(k.Question, " "), Filter: retrieve.Filter{Corpora: k.Corpus}, Passages: k.Passages, MaxTokens: k.MaxTokens,
		Sampling: sample.Params{Temperature: k.Temperature, Seed: k.Seed}, Beams: k.Beams,
	}
	for event, err := range answerer.Answer(ctx, q) {
		switch {
		case err != nil:
			return err
		case event.Text != "" && !k.JSON:
			fmt.Print(event.Text)
		case event.Replaced != nil && !k.JSON:
			fmt.Printf("\n\nWithdrawn after checking; the answer is:\n\n%s", event.Replaced.Text)
		case event.Done != nil:
			if err := a.keep(ctx, event.Done); err != nil {
				return err
			}
			if k.JSON {
				return server.WriteAnswer(os.Stdout, event.Done)
			}
			fmt.Println()
			printSources(os.Stdout, event.Done)
			if k.Explain {
				explain(os.Stdout, event.Done)
			}
		}
	}
	return nil
}

// printSources lists what the markers of an answer point to, each quote once.
func printSources(w io.Writer, a *answer.Answer) {
	if a.Abstained {
		fmt.Fprintf(w, "\n  (%s)\n", a.Reason)
		return
	}
	printed := map[string]bool{}
	for _, c := range a.Citations {
		key := fmt.Sprintf("%d %d", c.Marker, c.SourceStart)
		if printed[key] {
			continue
		}
		printed[key] = true
		where := c.Path
		if c.Page > 0 {
			where += fmt.Sprintf(", page %d", c.Page)
		}
		if a.Doubts(&c) {
			where += " (read it: it may say something else)"
		}
		fmt.Fprintf(w, "\n  [%d] %s\n      “%s”\n", c.Marker, where, strings.Join(strings.Fields(c.Quote), " "))
	}
}

// explain shows how an answer came about.
func explain(w io.Writer, a *answer.Answer) {
	fmt.Fprintln(w, "\npassages read")
	for _, s := range a.Sources {
		fmt.Fprintf(w, "  [%d] %-44s", s.Marker, fmt.Sprintf("%s p%d", s.Passage.Path, s.Passage.Page))
		if s.Dense != nil {
			fmt.Fprintf(w, " dense %.3f (#%d)", s.Dense.Score, s.Dense.Rank)
		}
		if s.Lexical != nil {
			fmt.Fprintf(w, " bm25 %.1f (#%d)", s.Lexical.Score, s.Lexical.Rank)
		}
		if s.Rerank != nil {
			fmt.Fprintf(w, " rerank %.1f", *s.Rerank)
		}
		if s.Added {
			fmt.Fprint(w, " (not read by the model: it supports a statement that nothing in the prompt supports)")
		}
		fmt.Fprintln(w)
	}
	for _, d := range a.Trace.Dropped {
		fmt.Fprintf(w, "  not read: %s p%d: %s\n", d.Passage.Path, d.Passage.Page, d.Why)
	}
	b := a.Budget
	fmt.Fprintf(w, "tokens   context %d: rules %d, passages %d, history %d, question %d, answer up to %d\n", b.Context, b.System, b.Passages, b.History, b.Question, b.Answer)
	printTimings(w, a)
	fmt.Fprintf(w, "record   ragd inspect %s\n", a.ID)
}

// printTimings says in one line where the time went.
func printTimings(w io.Writer, a *answer.Answer) {
	t, u := a.Retrieval, a.Usage
	fmt.Fprintf(w, "timings  embed %.0f ms, search %.0f ms, rerank %.0f ms, prefill %d tokens (%d cached) %.1f s, first word after %.1f s, %d tokens written in %.1f s, total %.1f s\n",
		t.Embed.Seconds()*1000, max(t.Dense, t.Lexical).Seconds()*1000, t.Rerank.Seconds()*1000, u.PromptTokens, u.CachedTokens, u.Prefill.Seconds(),
		a.FirstToken.Seconds(), u.OutputTokens, u.Decode.Seconds(), a.Total.Seconds())
}
