package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"ragd/bench"
)

type loadCmd struct {
	URL       string        `arg:"" optional:"" help:"The server." default:"http://127.0.0.1:8080"`
	Key       string        `help:"API key." env:"RAGD_API_KEY" secret:""`
	Search    bool          `help:"Searches instead of streamed answers."`
	Corpus    []string      `help:"Ask these corpora. None: all." short:"c"`
	Questions string        `help:"File with a question per line. None: questions about the samples of 'ragd demo'." type:"existingfile"`
	Repeat    bool          `help:"Ask the very same questions again, which caches may answer; else each gets a number of its own."`
	MaxTokens int           `help:"Tokens of an answer." default:"64" name:"max-tokens"`
	Clients   int           `help:"Clients, of which each asks one question after another." default:"4"`
	Rate      float64       `help:"Requests per second instead of clients, whether or not the server keeps up." placeholder:"N"`
	Polite    bool          `help:"Clients who are told to come back later wait as long as they are told; else they ask again at once."`
	Idle      int           `help:"Hold this many idle connections besides." placeholder:"N"`
	Time      time.Duration `help:"Length of the load." default:"30s"`
	Limit     time.Duration `help:"Longest that one request may take." default:"10m"`
}

// Help is shown by ragd load --help.
func (loadCmd) Help() string {
	return `Puts load on a running server and says what came of it: answers per second, time to the first text and to the end, refusals with 429 or 503,
and whether they said when to come back. It asks real questions of real documents, so use a server of your own.

  ragd load --clients 8 --time 1m                        # eight people who never pause
  ragd load --rate 20 --time 3m                          # 20 questions a second, come what may
  ragd load --search --clients 16 --idle 1000 http://ragd.example:8080`
}

// sampleQuestions are about the documents of 'ragd demo'.
var sampleQuestions = []string{
	"How many vacation days do I have?", "What is the hotel limit per night in Oslo?", "When do I get my laptop?", "How long is parental leave?",
	"Whom do I tell about a security incident?", "Which benefits are there?", "How do I claim travel costs?", "What is the daily allowance abroad?",
}

func (k loadCmd) Run(ctx ctxBinding) error {
	questions := sampleQuestions
	if k.Questions != "" {
		text, err := os.ReadFile(k.Questions)
		if err != nil {
			return err
		}
		questions = slices.DeleteFunc(strings.Split(string(text), "\n"), func(q string) bool { return strings.TrimSpace(q) == "" })
	}
	if k.Clients < 1 || k.Rate < 0 || k.Time <= 0 || k.Idle < 0 {
		return fmt.Errorf("%w: --clients and --time must be above 0, --rate and --idle not below it", errUsage)
	}
	idle, err := k.idle(ctx)
	if err != nil {
		return err
	}
	report, err := bench.HTTPLoad{URL: k.URL, Key: k.Key, Search: k.Search, Corpora: k.Corpus, Questions: questions, Repeat: k.Repeat, MaxTokens: k.MaxTokens,
		Clients: k.Clients, Rate: k.Rate, Polite: k.Polite, Time: k.Time, Limit: k.Limit}.Run(ctx)
	if err != nil {
		return err
	}
	printLoad(os.Stdout, report)
	if len(idle) > 0 {
		alive := 0
		for _, again := range idle {
			if again() == nil {
				alive++
			}
		}
		fmt.Printf("idle connections  %d of %d still served\n", alive, len(idle))
	}
	return nil
}

// printLoad prints a report.
func printLoad(w io.Writer, r bench.HTTPReport) {
	second := func(d time.Duration) string { return fmt.Sprintf("%.2fs", d.Seconds()) }
	fmt.Fprintf(w, "requests          %d in %.0f s: %d answered, %d refused, %d failed\n", r.Sent, r.Seconds, r.Answered, r.Refused, r.Failed)
	fmt.Fprintf(w, "answered          %.2f/s\n", float64(r.Answered)/r.Seconds)
	fmt.Fprintf(w, "first text        p50 %s  p95 %s\n", second(bench.At(r.First, 0.5)), second(bench.At(r.First, 0.95)))
	fmt.Fprintf(w, "whole answer      p50 %s  p95 %s\n", second(bench.At(r.Whole, 0.5)), second(bench.At(r.Whole, 0.95)))
	if r.Refused > 0 {
		fmt.Fprintf(w, "refused           %.0f %% of requests, %d of %d with Retry-After, p50 %s  p95 %s\n", 100*float64(r.Refused)/float64(r.Sent), r.Hinted, r.Refused,
			second(bench.At(r.Refusal, 0.5)), second(bench.At(r.Refusal, 0.95)))
	}
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		fmt.Fprintf(w, "status %3d        %d\n", status, r.Statuses[status])
	}
	for _, what := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(w, "failed            %d: %s\n", r.Errors[what], what)
	}
}

// idle opens connections that are used once and kept; each is a function that uses it again.
func (k loadCmd) idle(ctx ctxBinding) ([]func() error, error) {
	var all []func() error
	for i := range k.Idle {
		client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}, Timeout: time.Minute}
		again := func() error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(k.URL, "/")+"/livez", nil)
			if err != nil {
				return err
			}
			response, err := client.Do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			_, err = io.Copy(io.Discard, response.Body)
			return err
		}
		if err := again(); err != nil {
			return nil, fmt.Errorf("idle connection %d: %w", i+1, err)
		}
		all = append(all, again)
	}
	return all, nil
}
