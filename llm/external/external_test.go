package external

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serve runs a server with one handler for chat completions.
func serve(t *testing.T, config Config, chat http.HandlerFunc) *Client {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"big"},{"id":"other"}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // else a client that leaves would not be noticed
		require.NoError(t, err)
		r.Body = io.NopCloser(bytes.NewReader(body))
		chat(w, r)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	config.URL = s.URL
	c, err := New(config)
	require.NoError(t, err)
	return c
}

// events sends lines as an event stream.
func events(lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, l := range lines {
			fmt.Fprint(w, l, "\n\n")
		}
	}
}

func piece(text string) string {
	b, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"delta": map[string]any{"content": text}}}})
	return "data: " + string(b)
}

const end = `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}`

func ask(t *testing.T, c *Client) (string, Result, error) {
	t.Helper()
	var text strings.Builder
	r, err := c.Chat(t.Context(), Request{Messages: []Message{{"user", "secret words"}}, MaxTokens: 9}, func(s string) { text.WriteString(s) })
	return text.String(), r, err
}

func TestAnswersAreRead(t *testing.T) {
	usage := `data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3}}}`
	for _, c := range []struct {
		name  string
		lines []string
		text  string
		want  Result
	}{
		{"whole", []string{": hello", `data: {"choices":[{"delta":{"role":"assistant","content":null}}]}`, piece("Grü"), piece("ße"), end, usage, "data: [DONE]"}, "Grüße",
			Result{Finish: "stop", PromptTokens: 7, CachedTokens: 3, OutputTokens: 2, Pieces: 2}},
		{"no usage, no end mark", []string{piece("a"), `data:{"choices":[{"delta":{"content":"b"},"finish_reason":"length"}]}`}, "ab", Result{Finish: "length", Pieces: 2}},
		{"thoughts", []string{piece("<thi"), piece("nk>hm"), piece("m</think>\n\nYes"), piece("."), end}, "Yes.", Result{Finish: "stop", Pieces: 4}},
		{"thoughts without an end", []string{piece("<think>hm"), end}, "", Result{Finish: "stop", Pieces: 1}},
		{"no thoughts", []string{piece("<th"), end}, "<th", Result{Finish: "stop", Pieces: 1}},
		{"nothing", []string{end, "data: [DONE]"}, "", Result{Finish: "stop"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, r, err := ask(t, serve(t, Config{}, events(c.lines...)))
			require.NoError(t, err)
			require.Equal(t, c.text, text)
			require.Equal(t, c.want, r)
		})
	}
}

func TestRequestIsWhatTheAPIWants(t *testing.T) {
	var got map[string]any
	c := serve(t, Config{Key: "sk-1"}, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "Bearer sk-1", r.Header.Get("Authorization"))
		require.NoError(t, json.NewDecoder(r.Body).Decode(&got))
		events(end)(w, r)
	})
	require.Equal(t, "external", c.Name())
	_, _, err := ask(t, c)
	require.NoError(t, err)
	require.Equal(t, "big", c.Name(), "the first model that the server lists")
	require.Equal(t, map[string]any{"model": "big", "messages": []any{map[string]any{"role": "user", "content": "secret words"}}, "max_tokens": 9.0, "temperature": 0.0,
		"stream": true, "stream_options": map[string]any{"include_usage": true}}, got)
}

func TestFailuresAreSaid(t *testing.T) {
	status := func(code int, body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	for _, c := range []struct {
		name  string
		chat  http.HandlerFunc
		want  string
		check func(*Error) bool
	}{
		{"busy", status(429, `{}`, "Retry-After", "7"), "status 429", func(e *Error) bool { return e.RetryAfter == 7*time.Second }},
		{"key", status(401, `{"error":{"message":"invalid\nkey"}}`), "401: invalid key", nil},
		{"too long", status(400, `{"error":{"message":"maximum context length is 4096 tokens, secret words"}}`), "status 400", func(e *Error) bool { return e.TooLong }},
		{"other error", status(500, `secret words`), "status 500", nil},
		{"redirect", status(307, "", "Location", "http://127.0.0.1:1/elsewhere"), "status 307", nil},
		{"a page", status(200, "<html>", "Content-Type", "text/html"), "text/html", nil},
		{"one JSON", status(200, `{"choices":[]}`, "Content-Type", "application/json"), "does not stream", nil},
		{"no JSON", events("data: {"), "no JSON", nil},
		{"broken off", events(piece("a")), "broke off", nil},
		{"error in the stream", events(piece("a"), `data: {"error":{"message":"secret words"}}`), "while it was writing", nil},
		{"endless line", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: ", strings.Repeat("x", maxEvent+1))
		}, "broke off", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := ask(t, serve(t, Config{Model: "m"}, c.chat))
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Error(), c.want)
			require.NotContains(t, e.Error(), "secret")
			if c.check != nil {
				require.True(t, c.check(e))
			}
		})
	}
	gone, err := New(Config{URL: "http://127.0.0.1:1", Model: "m"})
	require.NoError(t, err)
	_, _, err = ask(t, gone)
	require.ErrorContains(t, err, "cannot be reached")
	for _, bad := range []string{"", "gpu:8000", "ftp://gpu", "http://"} {
		_, err := New(Config{URL: bad})
		require.ErrorContains(t, err, "http://gpu:8000/v1", bad)
	}
}

func TestSilenceAndCancellingEndACall(t *testing.T) {
	for name, begin := range map[string]bool{"before the first piece": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			left := make(chan struct{})
			c := serve(t, Config{Model: "m", First: 50 * time.Millisecond, Next: 50 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
				if begin {
					events(piece("a"))(w, r)
					w.(http.Flusher).Flush()
				}
				<-r.Context().Done()
				close(left)
			})
			_, _, err := ask(t, c)
			require.ErrorContains(t, err, "fell silent")
			<-left
		})
	}
	left := make(chan struct{})
	c := serve(t, Config{Model: "m"}, func(w http.ResponseWriter, r *http.Request) {
		events(piece("a"))(w, r)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(left)
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	mine := errors.New("mine")
	_, err := c.Chat(ctx, Request{}, func(string) { cancel(mine) })
	require.ErrorIs(t, err, mine)
	<-left // the server is told
}

func FuzzStream(f *testing.F) {
	f.Add([]byte(piece("a") + "\n" + end + "\n"))
	f.Add([]byte("data: [DONE]"))
	f.Add([]byte(`data: {"choices":[{"delta":{"content":"<think>"},"finish_reason":"x"}],"usage":null,"error":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c := serve(t, Config{Model: "m"}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write(body)
		})
		_, _, err := ask(t, c)
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("%T %v", err, err)
		}
	})
}
