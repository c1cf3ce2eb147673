package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"ragd/answer"
	"ragd/examples"
	"ragd/retrieve"
	"ragd/server"
)

type demoCmd struct {
	Listen  string `help:"Where the page is served afterwards." env:"RAGD_LISTEN" default:"127.0.0.1:8080"`
	NoServe bool   `help:"End after the questions."`
}

// Help is shown by ragd demo --help.
func (demoCmd) Help() string {
	return `Fetches the models for this machine (pip is enough), starts a private PostgreSQL, ingests the sample handbook that is inside the binary, asks three
questions, one of which the handbook does not answer, and serves the page. Everything that was finished is kept: interrupted, the same command goes on.`
}

// demoQuestions are asked of the sample corpus; the last one has no answer in it.
var demoQuestions = []string{
	"How many paid vacation days does an employee have per year?",
	"What is the hotel limit per night in Oslo?",
	"Which dress code applies at customer meetings?",
}

// demoCorpus keeps the sample apart from the user's own documents.
const demoCorpus = "demo"

func (k demoCmd) Run(ctx ctxBinding, a *app) error {
	started := time.Now()
	set, reason := a.defaults()
	a.progress.step("1. Models: %s for answers, %s for search, %s to read the best passages again", set.Answer, set.Embed, set.Rerank)
	a.progress.step("   (%s; --model NAME overrides)", reason)
	for _, name := range []string{set.Embed, set.Rerank, set.Answer} {
		if _, err := a.modelPath(ctx, name); err != nil {
			return err
		}
	}
	a.progress.step("2. Database")
	if _, err := a.openStore(ctx); err != nil {
		return err
	}
	a.progress.step("3. Documents: the sample handbook, corpus %q", demoCorpus)
	if err := a.ingestExamples(ctx); err != nil {
		return err
	}
	a.progress.step("4. Questions")
	answerer, err := a.openAnswerer(ctx)
	if err != nil {
		return err
	}
	for _, q := range demoQuestions {
		if err := demoAsk(ctx, answerer, q); err != nil {
			return err
		}
	}
	a.progress.step("\nReady after %s.", time.Since(started).Round(100*time.Millisecond))
	if k.NoServe {
		return nil
	}
	a.progress.step("5. The page: open http://%s", k.Listen)
	return a.serve(ctx, nil, server.Config{Listen: k.Listen, Version: version()})
}

// ingestExamples writes the sample documents to a folder, because ingestion reads files, and ingests them. The folder's name is part of each path, so it
// is the same every time: a second run finds everything unchanged.
func (a *app) ingestExamples(ctx ctxBinding) error {
	temporary, err := os.MkdirTemp("", "ragd-")
	if err != nil {
		return fmt.Errorf("unpack the sample documents: %w", err)
	}
	defer os.RemoveAll(temporary)
	folder := filepath.Join(temporary, "examples")
	if err := os.CopyFS(folder, examples.Files()); err != nil {
		return fmt.Errorf("unpack the sample documents: %w", err)
	}
	_, err = a.ingest(ctx, demoCorpus, []string{folder})
	return err
}

// demoAsk asks one question and prints answer, sources and timings.
func demoAsk(ctx ctxBinding, answerer *answer.Answerer, question string) error {
	fmt.Printf("\n? %s\n\n", question)
	for event, err := range answerer.Answer(ctx, answer.Question{Text: question, Filter: retrieve.Filter{Corpora: []string{demoCorpus}}}) {
		if err != nil {
			return err
		}
		fmt.Print(event.Text)
		if event.Replaced != nil {
			fmt.Printf("\n\nWithdrawn after checking; the answer is:\n\n%s", event.Replaced.Text)
		}
		if event.Done != nil {
			fmt.Println()
			printSources(os.Stdout, event.Done)
			printTimings(os.Stdout, event.Done)
			return nil
		}
	}
	return errors.New("the answer ended early")
}
