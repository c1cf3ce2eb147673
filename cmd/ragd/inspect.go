package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"ragd/answer"
	"ragd/store"
)

type inspectCmd struct {
	ID        string `arg:"" help:"The answer's id: 'ragd ask --explain' and the HTTP API show it."`
	Tokens    bool   `help:"Show every token with its probability and the alternatives."`
	Replay    bool   `help:"Let the model write the answer again and compare."`
	Attribute bool   `help:"Measure which passage carried each statement: what it loses when the passage is taken out."`
	JSON      bool   `help:"Print the whole record as JSON." name:"json"`
}

// Help is shown by ragd inspect --help.
func (inspectCmd) Help() string {
	return `Shows how an answer came about: the prompt as sent, the passages with the score of each leg and why others were left out, the token budget, what
verification said of each statement, and the timings. A record goes when one of its documents is deleted.

  ragd inspect ans_5f0c --tokens
  ragd inspect ans_5f0c --replay --attribute`
}

func (k inspectCmd) Run(ctx ctxBinding, a *app) error {
	db, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	record, err := db.Answer(ctx, store.DefaultTenant, k.ID)
	if err != nil {
		return err
	}
	if k.JSON {
		_, err := fmt.Printf("%s\n", record)
		return err
	}
	found, err := answer.ReadRecord(record)
	if err != nil {
		return err
	}
	printRecord(os.Stdout, found)
	if k.Tokens {
		printTokens(os.Stdout, found)
	}
	if !k.Replay && !k.Attribute {
		return nil
	}
	answerer, err := a.openAnswerer(ctx)
	if err != nil {
		return err
	}
	if k.Replay {
		same, text, err := answerer.Replay(ctx, found, store.DefaultTenant)
		if err != nil {
			return err
		}
		fmt.Printf("\nreplay   the same tokens: %t\n%s\n", same, text)
	}
	if k.Attribute {
		return printAttribution(ctx, answerer, found)
	}
	return nil
}

// keep stores the record of an answer.
func (a *app) keep(ctx context.Context, done *answer.Answer) error {
	record, documents, err := done.Record()
	if err != nil {
		return err
	}
	return a.db.SaveAnswer(ctx, store.DefaultTenant, done.ID, documents, record)
}

func printRecord(w io.Writer, a *answer.Answer) {
	fmt.Fprintf(w, "question %s\n", a.Question)
	if a.Query != a.Question {
		fmt.Fprintf(w, "searched %s\n", a.Query)
	}
	fmt.Fprintf(w, "answer   %s\nfinish   %s %s\nconfidence %.2f\n", a.Text, a.Finish, a.Reason, a.Confidence)
	evidence, _ := json.Marshal(a.Evidence) // numbers only
	fmt.Fprintf(w, "evidence %s\nmodel    %s\n", evidence, a.Trace.Model)
	for _, c := range a.Computed {
		fmt.Fprintf(w, "computed %s = %s\n", c.Expression, c.Result)
	}
	explain(w, a)
	fmt.Fprintf(w, "\nstatements\n")
	for _, s := range a.Statements {
		verdict := "supported"
		switch {
		case !s.Supported:
			verdict = "NOT SUPPORTED: " + s.Why
		case s.Doubtful:
			verdict = "doubtful: " + s.Doubt()
		}
		fmt.Fprintf(w, "  %s\n      %s; words %.2f, stated %.2f, checked %.2f\n", s.Text, verdict, s.Support, s.Stated, s.Checked)
		for _, q := range s.Quotes {
			fmt.Fprintf(w, "      “%s”\n", q)
		}
	}
	fmt.Fprintf(w, "\nprompt\n%s\n", a.Trace.Prompt)
}

func printTokens(w io.Writer, a *answer.Answer) {
	fmt.Fprintf(w, "\ntokens\n")
	for _, s := range a.Trace.Steps {
		fmt.Fprintf(w, "  %-16q %8.3f ", s.Text, s.LogProb)
		for _, t := range s.Top {
			if t.Token != s.Token {
				fmt.Fprintf(w, "  #%d %.3f", t.Token, t.LogProb)
			}
		}
		fmt.Fprintln(w)
	}
}

func printAttribution(ctx context.Context, answerer *answer.Answerer, a *answer.Answer) error {
	found, err := answerer.Attribute(ctx, a, store.DefaultTenant)
	if err != nil {
		return err
	}
	fmt.Println("\nattribution: what a statement's log-probability loses without a passage")
	for _, t := range found {
		fmt.Printf("  %s\n     ", t.Statement)
		for _, s := range a.Read() {
			fmt.Printf(" [%d] %+.2f", s.Marker, t.Drop[s.Marker])
		}
		fmt.Printf("   rests on [%d]\n", t.Carrier())
	}
	return nil
}
