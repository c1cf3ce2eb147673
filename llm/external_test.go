package llm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/llm"
	"ragd/llm/chat"
	"ragd/llm/external"
	"ragd/llm/grammar"
)

// connect returns an engine on a server with one handler for everything.
func connect(t *testing.T, max int, handler http.HandlerFunc) *llm.Engine {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else a client that leaves would not be noticed
		handler(w, r)
	}))
	t.Cleanup(s.Close)
	e, err := llm.Connect(llm.ExternalConfig{Config: external.Config{URL: s.URL, Model: "big"}, MaxSeqs: max})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

func say(w http.ResponseWriter, words ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, word := range words {
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", word)
		w.(http.Flusher).Flush()
	}
}

const stopped = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\n"

var hello = llm.Request{Messages: []chat.Message{{Role: "user", Content: "hello"}}}

func collect(s *llm.Stream) (text string, err error) {
	for event, err := range s.Events() {
		if err != nil {
			return text, err
		}
		text += event.Text
	}
	return text, nil
}

func TestExternalEngineStreams(t *testing.T) {
	e := connect(t, 0, func(w http.ResponseWriter, _ *http.Request) {
		say(w, "one ", "two", "\nthree")
		fmt.Fprint(w, stopped)
	})
	require.Equal(t, "big", e.Name())
	require.NotEmpty(t, e.External())
	s, err := e.Generate(t.Context(), hello)
	require.NoError(t, err)
	text, err := collect(s)
	require.NoError(t, err)
	require.Equal(t, "one two\nthree", text)
	require.Equal(t, "stop", s.FinishReason())
	require.Equal(t, 5, s.Usage().PromptTokens)
	require.Equal(t, 2, s.Usage().OutputTokens)
	// A stop string ends it although this server does not know of it.
	stop := hello
	stop.Stop = []string{"\n"}
	s, err = e.Generate(t.Context(), stop)
	require.NoError(t, err)
	text, err = collect(s)
	require.NoError(t, err)
	require.Equal(t, "one two", text)
	require.NoError(t, e.ForgetAll(t.Context()))
}

func TestExternalEngineRefusesWhatNeedsLogits(t *testing.T) {
	e := connect(t, 0, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	for name, change := range map[string]func(*llm.Request){
		"grammar": func(r *llm.Request) { r.Grammar = &grammar.Grammar{} }, "beams": func(r *llm.Request) { r.Beams = 2 },
		"several answers": func(r *llm.Request) { r.Answers = 2 }, "log-probabilities": func(r *llm.Request) { r.LogProbs = 1 },
		"biases": func(r *llm.Request) { r.Sampling.LogitBias = map[int32]float32{1: 1} },
	} {
		r := hello
		change(&r)
		_, err := e.Generate(t.Context(), r)
		require.ErrorIs(t, err, llm.ErrNoLogits, name)
		require.ErrorContains(t, err, name)
	}
	_, err := e.Score(t.Context(), nil, []llm.Token{1}, "")
	require.ErrorIs(t, err, llm.ErrNoLogits)
}

func TestExternalEngineCancelsAndBounds(t *testing.T) {
	left := make(chan struct{}, 2)
	e := connect(t, 1, func(w http.ResponseWriter, r *http.Request) {
		say(w, "one")
		<-r.Context().Done()
		left <- struct{}{}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := e.Generate(ctx, hello)
	require.NoError(t, err)
	_, err = e.Generate(t.Context(), hello)
	var busy *llm.BusyError
	require.ErrorAs(t, err, &busy)
	require.Positive(t, busy.RetryAfter)
	for range s.Events() {
		cancel()
	}
	<-left // the server is told
	require.Eventually(t, func() bool { return e.Stats().Running == 0 }, time.Minute, time.Millisecond)
	s, err = e.Generate(t.Context(), hello)
	require.NoError(t, err)
	for range s.Events() {
		break // a reader that leaves
	}
	<-left
	require.NoError(t, e.Close())
	_, err = e.Generate(t.Context(), hello)
	require.ErrorIs(t, err, llm.ErrClosed)
}

func TestExternalEngineFails(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   error
	}{
		{429, "", llm.ErrBusy}, {400, "this exceeds the context size", llm.ErrTooLong}, {500, "", llm.ErrExternal}, {401, "no key", llm.ErrExternal}, {400, "bad", llm.ErrExternal},
	} {
		var asked atomic.Bool
		e := connect(t, 0, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/models") {
				fmt.Fprint(w, `{"data":[]}`)
				return
			}
			asked.Store(true)
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		s, err := e.Generate(t.Context(), hello)
		require.NoError(t, err)
		_, err = collect(s)
		require.ErrorIs(t, err, c.want, "%d", c.status)
		require.True(t, asked.Load())
		require.Equal(t, "", s.FinishReason())
		if errors.Is(c.want, llm.ErrBusy) {
			var busy *llm.BusyError
			require.ErrorAs(t, err, &busy)
			require.Equal(t, 3*time.Second, busy.RetryAfter)
			require.True(t, e.Healthy(), "it is there")
		}
	}
}

func TestExternalEngineComesBack(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	e := connect(t, 0, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case down.Load():
			w.WriteHeader(http.StatusBadGateway)
		case strings.HasSuffix(r.URL.Path, "/models"):
			fmt.Fprint(w, `{"data":[]}`)
		default:
			say(w, "one")
			fmt.Fprint(w, stopped)
		}
	})
	require.False(t, e.Healthy(), "it was never reached")
	down.Store(false)
	s, err := e.Generate(t.Context(), hello)
	require.NoError(t, err)
	_, err = collect(s)
	require.NoError(t, err)
	require.True(t, e.Healthy())
}
