package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/answer"
	"ragd/llm"
	"ragd/server"
	"ragd/store"
)

// A top_p of 0 keeps the most probable token alone, whatever the temperature; 1 and none keep all.
func TestAskCutOffs(t *testing.T) {
	h := serve(t, sample, server.Config{})
	for i, c := range []struct {
		topP   string
		greedy bool
		want   float32
	}{{`"top_p":0,`, true, 0}, {`"top_p":1,`, false, 1}, {`"top_p":null,`, false, 0}, {``, false, 0}, {`"top_p":0.2,`, false, 0.2}} {
		got := h.post("/v1/ask", `{"question":"x",`+c.topP+`"temperature":0.5}`)
		require.Equal(t, http.StatusOK, got.StatusCode, "%s", got.body)
		require.Equal(t, c.greedy, h.questions[i].Sampling.Greedy(), c.topP)
		require.Equal(t, c.want, h.questions[i].Sampling.TopP, c.topP)
	}
}

func TestAskAnswersWithJSON(t *testing.T) {
	h := serve(t, sample, server.Config{})
	got := h.post("/v1/ask", `{"question":"How many days?","corpora":["handbook"],"history":[{"question":"q","answer":"a"}],"passages":3,"max_tokens":9,"temperature":0.5,"top_p":0.9,"seed":4}`)
	require.Equal(t, http.StatusOK, got.StatusCode, "%s", got.body)
	require.Equal(t, "application/json; charset=utf-8", got.Header.Get("Content-Type"))
	require.Equal(t, "no-store", got.Header.Get("Cache-Control"))

	q := h.questions[0]
	require.Equal(t, "How many days?", q.Text)
	require.Equal(t, []string{"handbook"}, q.Filter.Corpora)
	require.Equal(t, []answer.Turn{{Question: "q", Answer: "a"}}, q.History)
	require.Equal(t, []any{3, 9, float32(0.5), float32(0.9), uint64(4)}, []any{q.Passages, q.MaxTokens, q.Sampling.Temperature, q.Sampling.TopP, q.Sampling.Seed})

	var command bytes.Buffer // what ragd ask --json prints
	require.NoError(t, server.WriteAnswer(&command, sampleAnswer()))
	require.Equal(t, command.String(), string(got.body))

	body := got.json(t)
	text := body["text"].(string)
	citation := body["citations"].([]any)[0].(map[string]any)
	// Offsets are bytes: of the answer's text, and of the document's.
	require.Equal(t, "🎉 You get 30 days of leave", text[int(citation["start"].(float64)):int(citation["end"].(float64))])
	require.Equal(t, sampleQuote, sampleText[int(citation["source_start"].(float64))-100:int(citation["source_end"].(float64))-100])
	source := body["sources"].([]any)[0].(map[string]any)
	require.NotContains(t, source, "lexical", "the leg that did not find it")
	require.Equal(t, 4.5, source["rerank"])
}

// A source that the model did not read says so.
func TestSourcesThatWereAddedAreMarked(t *testing.T) {
	h := serve(t, sampleWithAdded, server.Config{})
	got := h.post("/v1/ask", `{"question":"How many days?"}`).json(t)["sources"].([]any)
	require.Len(t, got, 2)
	require.NotContains(t, got[0], "added")
	require.Equal(t, true, got[1].(map[string]any)["added"])
}

func TestAskStreams(t *testing.T) {
	h := serve(t, sample, server.Config{})
	for name, start := range map[string]func(*http.Request) string{
		"by field": func(*http.Request) string { return `{"question":"How many days?","stream":true}` },
		"by accept": func(r *http.Request) string {
			r.Header.Set("Accept", "text/event-stream")
			return `{"question":"How many days?"}`
		},
	} {
		t.Run(name, func(t *testing.T) {
			request := h.request(t.Context(), http.MethodPost, "/v1/ask", nil)
			request.Header.Set("X-Request-Id", "mine")
			request.Header.Set("Accept-Encoding", "gzip")
			request.Body = io.NopCloser(strings.NewReader(start(request)))
			got := h.send(request)
			require.Equal(t, "text/event-stream; charset=utf-8", got.Header.Get("Content-Type"))
			require.Equal(t, "no", got.Header.Get("X-Accel-Buffering"))
			require.Contains(t, got.Header.Get("Cache-Control"), "no-store")
			require.Empty(t, got.Header.Get("Content-Encoding"))

			var names []string
			var text strings.Builder
			events := parseEvents(got.body)
			for i, e := range events {
				require.Equal(t, fmt.Sprintf("mine-%d", i+1), e.id[:strings.LastIndex(e.id, "-")])
				if e.name == "text" {
					text.WriteString(e.json(t)["text"].(string))
				}
				if len(names) == 0 || names[len(names)-1] != e.name {
					names = append(names, e.name)
				}
			}
			require.Equal(t, []string{"sources", "text", "citation", "done"}, names)
			require.Equal(t, sampleAnswer().Text, text.String())
			last := events[len(events)-1]
			require.NoError(t, description(t).check("POST", "/v1/ask", 200, []byte(last.data)))
			require.Equal(t, text.String(), last.json(t)["text"])
		})
	}
}

func TestAbstention(t *testing.T) {
	h := serve(t, func(_ context.Context, q answer.Question, yield func(answer.Event, error) bool) {
		_ = yield(answer.Event{Text: answer.Refusal}, nil) &&
			yield(answer.Event{Done: &answer.Answer{Question: q.Text, Query: q.Text, Text: answer.Refusal, Abstained: true, Reason: "nothing was found"}}, nil)
	}, server.Config{})
	body := h.post("/v1/ask", `{"question":"x"}`).json(t)
	require.Equal(t, true, body["abstained"])
	require.Equal(t, "nothing was found", body["reason"])
	require.Equal(t, []any{}, body["citations"])
	require.Equal(t, []any{}, body["sources"])
	require.Contains(t, string(h.get("/metrics").body), `ragd_answers_total{outcome="abstained"} 1`)
}

// Errors of the parts, each with its status, as an ordinary response and, once a stream has begun, as an event.
func TestErrorsOfTheParts(t *testing.T) {
	for _, c := range []struct {
		err        error
		status     int
		code       string
		retryAfter string
		message    string
	}{
		{fmt.Errorf("%w: the question is empty", answer.ErrInvalid), 400, "invalid_question", "", "the question is empty"},
		{fmt.Errorf("answer: generate: %w", fmt.Errorf("the prompt has 9 tokens: %w", llm.ErrTooLong)), 422, "context_length_exceeded", "", "the prompt has 9 tokens"},
		{fmt.Errorf("answer: generate: %w", &llm.BusyError{RetryAfter: 6500 * time.Millisecond}), 429, "engine_busy", "7", "try again later"},
		{&llm.BusyError{}, 429, "engine_busy", "1", ""},
		{llm.ErrClosed, 503, "shutting_down", "10", ""},
		{llm.ErrUnhealthy, 503, "engine_unhealthy", "", "restarted"},
		{fmt.Errorf("store: dense: %w: secret host", store.ErrUnavailable), 503, "database_unavailable", "2", "try again shortly"},
		{fmt.Errorf("retrieve: %w", fmt.Errorf("corpus %q: %w", "x", store.ErrNotFound)), 404, "not_found", "", `corpus "x": not found`},
		{fmt.Errorf("store: %w", store.ErrIndexMismatch), 409, "index_mismatch", "", ""},
		{fmt.Errorf("embed: %w", context.DeadlineExceeded), 504, "timeout", "", ""},
		{errors.New("secret: disk on fire"), 500, "internal", "", "the-id"},
	} {
		t.Run(c.code, func(t *testing.T) {
			h := serve(t, failing(c.err), server.Config{})
			h.header.Set("X-Request-Id", "the-id")
			for _, body := range []string{`{"question":"x"}`, `{"question":"x","stream":true}`} {
				got := h.post("/v1/ask", body)
				require.Equal(t, c.status, got.StatusCode)
				require.Equal(t, c.code, got.code(t))
				require.Equal(t, c.retryAfter, got.Header.Get("Retry-After"))
				require.Contains(t, got.message(t), c.message)
				require.NotContains(t, string(got.body), "secret")
				require.Equal(t, "the-id", got.Header.Get("X-Request-Id"))
			}
			h = serve(t, func(_ context.Context, _ answer.Question, yield func(answer.Event, error) bool) {
				_ = yield(answer.Event{Text: "half an ans"}, nil) && yield(answer.Event{}, c.err)
			}, server.Config{})
			events := parseEvents(h.post("/v1/ask", `{"question":"x","stream":true}`).body)
			require.Len(t, events, 2)
			require.Equal(t, "error", events[1].name)
			require.Equal(t, c.code, events[1].json(t)["code"])
			require.NotContains(t, events[1].data, "secret")
			chat := parseEvents(h.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"corpora":["*"],"stream":true}`).body)
			require.Equal(t, c.code, chat[len(chat)-1].json(t)["error"].(map[string]any)["code"])
		})
	}
}

func TestAskRefusesBadBodies(t *testing.T) {
	h := serve(t, sample, server.Config{})
	for body, want := range map[string]string{
		``:                                  "no body",
		`{`:                                 "not the JSON",
		`[]`:                                "must be a JSON object",
		`"x"`:                               "must be a JSON object",
		`{"question":"x"}{"question":"y"}`:  "more than one",
		`{"question":"x"}]`:                 "not the JSON",
		`{"question":5}`:                    "question cannot be a number",
		`{"question":"x","pasages":3}`:      "pasages",
		`{"question":"x","passages":21}`:    "between 1 and 20",
		`{"question":"x","passages":-1}`:    "between 1 and 20",
		`{"question":"x","max_tokens":-1}`:  "max_tokens",
		`{"question":"x","max_tokens":5e9}`: "max_tokens",
		`{"question":"x","temperature":3}`:  "temperature",
		`{"question":"x","top_p":1.5}`:      "top_p",
		`{"question":"x","seed":-1}`:        "seed",
		`{"question":"x","history":[` + strings.Repeat(`{},`, 100) + `{}]}`: "at most 100",
		strings.Repeat("[", 1<<20): "not the JSON",
		"{\"question\":\"\x00\"}":  "not the JSON",
	} {
		got := h.post("/v1/ask", body)
		require.Equal(t, 400, got.StatusCode, body)
		require.Contains(t, got.message(t), want)
	}
	got := h.post("/v1/ask", `{"question":"`+strings.Repeat("x", 5<<20)+`"}`)
	require.Equal(t, 413, got.StatusCode)
	require.Equal(t, "too_large", got.code(t))
	require.Empty(t, h.questions)
}

func TestPingsKeepASilentRequestAlive(t *testing.T) {
	pinged := make(chan struct{})
	h := serve(t, func(ctx context.Context, q answer.Question, yield func(answer.Event, error) bool) {
		<-pinged // nothing to send until the client has seen that the server lives
		if q.Text == "fail" {
			yield(answer.Event{}, &llm.BusyError{})
			return
		}
		sample(ctx, q, yield)
	}, server.Config{PingEvery: time.Millisecond})
	for _, want := range []string{"done", "error"} {
		t.Run(want, func(t *testing.T) {
			response := h.open(t.Context(), "/v1/ask", fmt.Sprintf(`{"question":%q,"stream":true}`, map[string]string{"done": "x", "error": "fail"}[want]))
			require.Equal(t, 200, response.StatusCode)
			var last event
			for e := range readEvents(response.Body) {
				if e.comment == "ping" && pinged != nil {
					select {
					case pinged <- struct{}{}:
					default:
					}
				}
				if e.name != "" {
					last = e
				}
			}
			require.Equal(t, want, last.name)
		})
	}
}

func TestClientThatLeavesCancelsItsAnswer(t *testing.T) {
	for _, route := range []string{"/v1/ask", "/v1/chat/completions"} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s %v", route, stream), func(t *testing.T) {
				asked, cancelled := make(chan struct{}), make(chan struct{})
				h := serve(t, func(ctx context.Context, _ answer.Question, yield func(answer.Event, error) bool) {
					yield(answer.Event{Text: "first"}, nil)
					close(asked)
					<-ctx.Done()
					close(cancelled)
					yield(answer.Event{}, ctx.Err())
				}, server.Config{})
				ctx, leave := context.WithCancel(t.Context())
				body := fmt.Sprintf(`{"question":"x","stream":%v}`, stream)
				if route != "/v1/ask" {
					body = fmt.Sprintf(`{"messages":[{"role":"user","content":"x"}],"corpora":["*"],"stream":%v}`, stream)
				}
				left := make(chan error)
				go func() {
					response, err := h.client.Do(h.request(ctx, http.MethodPost, route, strings.NewReader(body)))
					if err == nil {
						_, err = io.ReadAll(response.Body)
						response.Body.Close()
					}
					left <- err
				}()
				<-asked
				leave()
				<-cancelled
				require.ErrorIs(t, <-left, context.Canceled)
			})
		}
	}
}

func TestClientThatDoesNotReadLosesItsStream(t *testing.T) {
	ended := make(chan struct{})
	h := serve(t, func(_ context.Context, _ answer.Question, yield func(answer.Event, error) bool) {
		defer close(ended)
		for yield(answer.Event{Text: strings.Repeat("x", 1<<16)}, nil) { // until the buffers of the connection are full and the deadline passes
		}
	}, server.Config{WriteTimeout: 100 * time.Millisecond})
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	body := `{"question":"x","stream":true}`
	fmt.Fprintf(conn, "POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	<-ended
}

// The write deadline of a stream must not outlive it on a connection that is used again.
func TestConnectionOutlivesTheDeadlinesOfItsStreams(t *testing.T) {
	const timeout = 50 * time.Millisecond
	h := serve(t, func(ctx context.Context, q answer.Question, yield func(answer.Event, error) bool) {
		if q.Text == "slow" {
			<-time.After(2 * timeout) // what is tested is that this is allowed
		}
		sample(ctx, q, yield)
	}, server.Config{WriteTimeout: timeout, ReadTimeout: timeout})
	h.client.Transport.(*http.Transport).MaxConnsPerHost = 1
	for _, body := range []string{`{"question":"x","stream":true}`, `{"question":"slow","stream":true}`, `{"question":"slow"}`, `{"question":"x"}`} {
		require.Equal(t, 200, h.post("/v1/ask", body).StatusCode)
	}
}

func TestBodyThatDoesNotArriveIsGivenUp(t *testing.T) {
	h := serve(t, sample, server.Config{ReadTimeout: 50 * time.Millisecond})
	for _, request := range []string{
		"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"que",
		"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 100\r\n\r\n--b\r\n",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
		require.NoError(t, err)
		_, err = io.WriteString(conn, request)
		require.NoError(t, err)
		got, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.Contains(t, string(got), "408 Request Timeout")
		require.Contains(t, string(got), "body_timeout")
	}
}

func TestPanicIsA500ForOneClient(t *testing.T) {
	calls := 0
	h := serve(t, func(ctx context.Context, q answer.Question, yield func(answer.Event, error) bool) {
		if calls++; calls == 1 {
			panic("secret")
		}
		sample(ctx, q, yield)
	}, server.Config{})
	got := h.post("/v1/ask", `{"question":"x"}`)
	require.Equal(t, 500, got.StatusCode)
	require.NotContains(t, string(got.body), "secret")
	require.Equal(t, 200, h.post("/v1/ask", `{"question":"x"}`).StatusCode)
	require.Contains(t, string(h.get("/metrics").body), `ragd_http_requests_total{route="/v1/ask",status="500"} 1`)
}

func TestPanicInAStreamCutsTheConnection(t *testing.T) {
	h := serve(t, func(_ context.Context, _ answer.Question, yield func(answer.Event, error) bool) {
		yield(answer.Event{Text: "half"}, nil)
		panic("secret")
	}, server.Config{})
	response := h.open(t.Context(), "/v1/ask", `{"question":"x","stream":true}`)
	body, err := io.ReadAll(response.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the client must see that this is not all: %s", body)
}
