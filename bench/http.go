package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// HTTPLoad is a load on a running server: questions or searches, by clients that ask one after another, or at a rate that does not care whether the
// server keeps up.
type HTTPLoad struct {
	URL       string // of the server
	Key       string // "": none
	Search    bool   // /v1/search instead of streamed answers
	Corpora   []string
	Questions []string      // asked in turns; a number is added so that no two are the same, unless Repeat
	Repeat    bool          // ask the very same questions again: caches may answer
	MaxTokens int           // of an answer
	Clients   int           // that ask one after another; ignored with a Rate
	Rate      float64       // requests begun per second; 0: Clients
	Polite    bool          // a client that is told to come back later does so then, not at once
	Time      time.Duration // of the load; what is under way then may end
	Limit     time.Duration // of one request
}

// HTTPReport is what came of a load.
type HTTPReport struct {
	Sent, Answered, Refused, Failed int            // Refused: 429 and 503
	Statuses                        map[int]int    // of HTTP; 0: no response
	Hinted                          int            // of the refused: with a Retry-After
	Errors                          map[string]int // what failed, in words
	Seconds                         float64
	First, Whole                    []time.Duration // of the answered, sorted: to the first text, to the end
	Refusal                         []time.Duration // sorted: how long a refusal took
}

// outcome of one request.
type httpOutcome struct {
	status       int
	hint         time.Duration
	hinted       bool
	first, whole time.Duration
	err          error
}

// abruptPause is how soon a client that is not polite asks again after a refusal.
const abruptPause = 50 * time.Millisecond

// Run does the load.
func (l HTTPLoad) Run(ctx context.Context) (HTTPReport, error) {
	if len(l.Questions) == 0 {
		return HTTPReport{}, errors.New("bench: there are no questions")
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096}, Timeout: l.Limit}
	defer client.CloseIdleConnections()
	r := &httpRun{HTTPLoad: l, client: client, begun: time.Now(), report: HTTPReport{Statuses: map[int]int{}, Errors: map[string]int{}}}
	var all sync.WaitGroup
	if l.Rate > 0 {
		tick := time.NewTicker(time.Duration(float64(time.Second) / l.Rate))
		defer tick.Stop()
		for n := 0; time.Since(r.begun) < l.Time && ctx.Err() == nil; n++ {
			all.Go(func() { r.note(r.ask(ctx, n)) })
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	} else {
		for c := range l.Clients {
			all.Go(func() { r.oneByOne(ctx, c) })
		}
	}
	all.Wait()
	r.report.Seconds = time.Since(r.begun).Seconds()
	for _, times := range [][]time.Duration{r.report.First, r.report.Whole, r.report.Refusal} {
		slices.Sort(times)
	}
	return r.report, ctx.Err()
}

type httpRun struct {
	HTTPLoad
	client *http.Client
	begun  time.Time

	mu     sync.Mutex
	report HTTPReport
}

// oneByOne asks one question after another.
func (r *httpRun) oneByOne(ctx context.Context, number int) {
	for n := number; time.Since(r.begun) < r.Time && ctx.Err() == nil; n += r.Clients {
		o := r.ask(ctx, n)
		r.note(o)
		if !o.refused() {
			continue
		}
		pause := abruptPause
		if r.Polite {
			pause = max(o.hint, time.Second)
		}
		select {
		case <-time.After(min(pause, max(0, r.Time-time.Since(r.begun)))):
		case <-ctx.Done():
		}
	}
}

func (o httpOutcome) refused() bool {
	return o.status == http.StatusTooManyRequests || o.status == http.StatusServiceUnavailable
}

func (r *httpRun) note(o httpOutcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.report
	p.Sent++
	p.Statuses[o.status]++
	switch {
	case o.refused():
		p.Refused++
		p.Refusal = append(p.Refusal, o.whole)
		if o.hinted {
			p.Hinted++
		}
	case o.err != nil:
		p.Failed++
		p.Errors[o.err.Error()]++
	default:
		p.Answered++
		p.First, p.Whole = append(p.First, o.first), append(p.Whole, o.whole)
	}
}

// ask sends one request and reads the response to its end.
func (r *httpRun) ask(ctx context.Context, n int) (o httpOutcome) {
	question := r.Questions[n%len(r.Questions)]
	if !r.Repeat {
		question = fmt.Sprintf("%s (%d)", question, n)
	}
	path, body := "/v1/ask", map[string]any{"question": question, "corpora": r.Corpora, "stream": true, "max_tokens": r.MaxTokens}
	if r.Search {
		path, body = "/v1/search", map[string]any{"query": question, "corpora": r.Corpora, "limit": 6}
	}
	text, _ := json.Marshal(body) // strings and numbers
	begun := time.Now()
	defer func() { o.whole = time.Since(begun) }()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(r.URL, "/")+path, bytes.NewReader(text))
	if err != nil {
		return httpOutcome{err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	if r.Key != "" {
		request.Header.Set("Authorization", "Bearer "+r.Key)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return httpOutcome{err: errors.New("no response")}
	}
	defer response.Body.Close()
	o.status = response.StatusCode
	if o.status != http.StatusOK {
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20)) // to use the connection again
		if seconds, err := time.ParseDuration(response.Header.Get("Retry-After") + "s"); err == nil {
			o.hint, o.hinted = seconds, true
		}
		o.err = fmt.Errorf("status %d", o.status)
		return o
	}
	if r.Search {
		_, err = io.Copy(io.Discard, response.Body)
		o.first = time.Since(begun)
	} else {
		o.first, err = readAnswer(response.Body, begun)
	}
	o.err = err
	return o
}

// readAnswer reads a streamed answer and returns when its first text came.
func readAnswer(body io.Reader, begun time.Time) (first time.Duration, err error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		switch name, _ := strings.CutPrefix(lines.Text(), "event: "); name {
		case "text":
			if first == 0 {
				first = time.Since(begun)
			}
		case "done":
			return first, nil
		case "error":
			return first, errors.New("an error in the stream")
		}
	}
	return first, errors.New("the stream broke off")
}

// At returns the value below which a share of sorted times lie; 0 of none.
func At(times []time.Duration, share float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[min(int(share*float64(len(times))), len(times)-1)]
}
