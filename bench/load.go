package bench

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Answer is what a client saw of one request.
type Answer struct {
	First  time.Duration // until the first token
	Total  time.Duration
	Tokens int
	Cached int // prompt tokens that the engine did not have to compute
}

// Asker answers a prompt: the engine of this process, or a server.
type Asker func(ctx context.Context, prompt []int32, maxTokens int) (Answer, error)

// Load is a number of clients, each of which asks its share of the prompts one after the other.
type Load struct {
	Clients int
	Prompts [][]int32
	Output  int // tokens per answer
}

// Served is what came of a Load.
type Served struct {
	PerSecond float64 // answers
	Good      float64 // of these, per second, those that a reader finds fast: see goodFirst and goodPause
	P50, P95  float64 // seconds to the first token
	Tokens    float64 // generated per second
	Cached    float64 // prompt tokens found in the cache, mean
}

// A reader waits some seconds for an answer to begin and reads on at about five words per second.
const (
	goodFirst = 5 * time.Second
	goodPause = 150 * time.Millisecond
)

func (a Answer) good() bool {
	return a.First <= goodFirst && a.Total-a.First <= time.Duration(a.Tokens)*goodPause
}

// Run asks everything and returns when the last answer has ended, or the first error.
func (l Load) Run(ctx context.Context, ask Asker) (Served, error) {
	var (
		clients sync.WaitGroup
		mu      sync.Mutex
		answers []Answer
		failed  error
		next    int
	)
	take := func() []int32 {
		mu.Lock()
		defer mu.Unlock()
		if next == len(l.Prompts) || failed != nil {
			return nil
		}
		next++
		return l.Prompts[next-1]
	}
	begin := time.Now()
	for range l.Clients {
		clients.Go(func() {
			for prompt := take(); prompt != nil; prompt = take() {
				a, err := ask(ctx, prompt, l.Output)
				mu.Lock()
				answers, failed = append(answers, a), errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	return summary(answers, time.Since(begin)), failed
}

func summary(answers []Answer, elapsed time.Duration) Served {
	var s Served
	var first []float64
	for _, a := range answers {
		first = append(first, a.First.Seconds())
		s.Tokens += float64(a.Tokens)
		s.Cached += float64(a.Cached) / float64(len(answers))
		if a.good() {
			s.Good++
		}
	}
	s.PerSecond = float64(len(answers)) / elapsed.Seconds()
	s.Good /= elapsed.Seconds()
	s.Tokens /= elapsed.Seconds()
	s.P50, s.P95 = Percentile(first, 0.5), Percentile(first, 0.95)
	return s
}
