package server_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/answer"
	"ragd/ingest"
	"ragd/server"
	"ragd/store"
)

func TestListeningBeyondLoopbackNeedsAKey(t *testing.T) {
	parts, _ := newParts(t, answerFunc(sample))
	for listen, allowed := range map[string]bool{
		"": true, "127.0.0.1:0": true, "localhost:8080": true, "[::1]:8080": true, "127.1.2.3:1": true,
		"0.0.0.0:8080": false, ":8080": false, "[::]:8080": false, "192.168.1.5:80": false, "example.com:80": false,
	} {
		_, err := server.New(parts, server.Config{Listen: listen}, slog.New(slog.DiscardHandler))
		if allowed {
			require.NoError(t, err, listen)
		} else {
			require.ErrorIs(t, err, server.ErrKeyNeeded, listen)
		}
		if listen != "" {
			_, err = server.New(parts, server.Config{Listen: listen, APIKey: "k"}, slog.New(slog.DiscardHandler))
			require.NoError(t, err, listen)
		}
	}
	_, err := server.New(parts, server.Config{Listen: "8080"}, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "write host:port")
}

func TestKey(t *testing.T) {
	h := serve(t, sample, server.Config{APIKey: "correct horse"})
	for header, status := range map[string]int{
		"": 401, "correct horse": 401, "Bearer": 401, "Bearer wrong": 401, "Basic correct horse": 401, "Bearer correct horse": 200, "bearer correct horse": 200,
	} {
		h.header = http.Header{"Authorization": {header}}
		for _, path := range []string{"/v1/models", "/v1/documents", "/v1/corpora", "/metrics"} {
			got := h.get(path)
			require.Equal(t, status, got.StatusCode, "%s %q", path, header)
			if status == 401 {
				require.Equal(t, "invalid_api_key", got.code(t))
				require.Equal(t, "Bearer", got.Header.Get("WWW-Authenticate"))
			}
		}
		// What tells nothing about documents stays open: probes, the page, the API's description.
		for _, path := range []string{"/livez", "/readyz", "/healthz", "/", "/main.js", "/openapi.yaml"} {
			require.Equal(t, 200, h.get(path).StatusCode, path)
		}
	}
}

func TestForeignSitesAreRefusedWithoutAKey(t *testing.T) {
	for name, c := range map[string]struct {
		host   string
		header http.Header
		code   string
	}{
		"a program":       {"", nil, ""},
		"the page":        {"", http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"SELF"}}, ""},
		"typed address":   {"", http.Header{"Sec-Fetch-Site": {"none"}}, ""},
		"other name":      {"localhost:1234", nil, ""},
		"DNS rebinding":   {"evil.example:8080", nil, "forbidden_host"},
		"a name, no port": {"evil.example", nil, "forbidden_host"},
		"other site":      {"", http.Header{"Sec-Fetch-Site": {"cross-site"}}, "cross_site"},
		"other port":      {"", http.Header{"Sec-Fetch-Site": {"same-site"}}, "cross_site"},
		"old browser":     {"", http.Header{"Origin": {"https://evil.example"}}, "cross_site"},
		"sandboxed frame": {"", http.Header{"Origin": {"null"}}, "cross_site"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, key := range []string{"", "k"} {
				h := serve(t, sample, server.Config{APIKey: key})
				request := h.request(t.Context(), http.MethodPost, "/v1/ask", strings.NewReader(`{"question":"x"}`))
				for k, v := range c.header {
					request.Header.Set(k, strings.ReplaceAll(v[0], "SELF", h.url))
				}
				if c.host != "" {
					request.Host = c.host
				}
				request.Header.Set("Authorization", "Bearer k")
				got := h.send(request)
				if c.code == "" || key != "" {
					require.Equal(t, 200, got.StatusCode)
					continue
				}
				require.Equal(t, 403, got.StatusCode)
				require.Equal(t, c.code, got.code(t))
			}
		})
	}
}

func TestSecurityHeaders(t *testing.T) {
	h := serve(t, sample, server.Config{})
	for _, path := range []string{"/", "/main.js", "/v1/models", "/v1/nothing", "/livez"} {
		header := h.get(path).Header
		require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"), path)
		require.Equal(t, "DENY", header.Get("X-Frame-Options"), path)
		require.Equal(t, "no-referrer", header.Get("Referrer-Policy"), path)
		require.Contains(t, header.Get("Content-Security-Policy"), "default-src 'none'", path)
		require.NotContains(t, header.Get("Content-Security-Policy"), "unsafe", path)
		require.Empty(t, header.Get("Access-Control-Allow-Origin"), path)
	}
}

func TestRequestIDs(t *testing.T) {
	h := serve(t, sample, server.Config{})
	for sent, kept := range map[string]bool{"": false, "abc-123": true, strings.Repeat("x", 65): false, "two words": false, "ü": false} {
		h.header = http.Header{"X-Request-Id": {sent}}
		got := h.get("/v1/models").Header.Get("X-Request-Id")
		require.Equal(t, kept, got == sent, sent)
		require.NotEmpty(t, got)
	}
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	h := serve(t, sample, server.Config{})
	for _, c := range []struct {
		method, path string
		status       int
		code, allow  string
	}{
		{"GET", "/v1/nothing", 404, "not_found", ""},
		{"POST", "/nothing", 404, "not_found", ""},
		{"GET", "/v1/ask/", 404, "not_found", ""},
		{"GET", "/v1/ask", 405, "method_not_allowed", "POST"},
		{"PUT", "/v1/documents", 405, "method_not_allowed", "GET, POST"},
		{"DELETE", "/v1/corpora", 405, "method_not_allowed", "GET, POST"},
		{"OPTIONS", "/v1/documents", 204, "", "GET, POST"},
		{"HEAD", "/livez", 200, "", ""},
		{"HEAD", "/readyz", 200, "", ""},
		{"HEAD", "/", 200, "", ""},
		{"GET", "/nothing.html", 404, "", ""},
		{"GET", "/../server.go", 404, "", ""},
	} {
		got := h.send(h.request(t.Context(), c.method, c.path, nil))
		require.Equal(t, c.status, got.StatusCode, c)
		if c.code != "" {
			require.Equal(t, c.code, got.code(t), c)
		}
		require.Equal(t, c.allow, got.Header.Get("Allow"), c)
	}
}

func TestProbes(t *testing.T) {
	h := serve(t, sample, server.Config{Requests: 7})
	require.Equal(t, "ok\n", string(h.get("/livez").body))
	require.Equal(t, "ok\n", string(h.get("/readyz").body))
	require.Equal(t, "[+]postgres ok\n[+]engine ok: running=0 waiting=0\n[+]accepting ok: requests=0 of 7\n", string(h.get("/readyz?verbose").body))

	h.mu.Lock()
	h.failure = store.ErrUnavailable
	h.mu.Unlock()
	got := h.get("/readyz")
	require.Equal(t, 503, got.StatusCode)
	require.Contains(t, string(got.body), "[-]postgres failed: cannot be reached")
	require.Equal(t, 200, h.get("/livez").StatusCode, "a process that only lost its database must not be killed")
}

func TestMetrics(t *testing.T) {
	h := serve(t, sample, server.Config{Version: "v1"})
	require.Equal(t, 200, h.post("/v1/ask", `{"question":"a secret question"}`).StatusCode)
	got := string(h.get("/metrics").body)
	for _, line := range []string{
		`ragd_build_info{model="tiny",version="v1"} 1`, `ragd_http_requests_total{route="/v1/ask",status="200"} 1`, `ragd_answers_total{outcome="answered"} 1`,
		`ragd_tokens_total{kind="cached"} 200`, `ragd_retrieval_seconds_count{part="rerank"} 1`, "ragd_engine_waiting 0", "ragd_kv_pages_free ", "ragd_prefix_tokens_found_total ",
	} {
		require.Contains(t, got, line)
	}
	require.NotContains(t, got, "secret")
}

func TestNotReadyWithoutItsEngine(t *testing.T) {
	parts, f := newParts(t, answerFunc(sample))
	engine, err := openEngine(t.TempDir())
	require.NoError(t, err)
	parts.Engine = engine
	h := serveParts(t, parts, f, server.Config{})
	require.Equal(t, 200, h.get("/readyz").StatusCode)
	require.NoError(t, engine.Close())
	got := h.get("/readyz")
	require.Equal(t, 503, got.StatusCode)
	require.Contains(t, string(got.body), "[-]engine failed")
	chat := h.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`)
	require.Equal(t, 503, chat.StatusCode)
	require.Equal(t, "shutting_down", chat.code(t))
}

func TestFullServerRefuses(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	h := serve(t, func(ctx context.Context, q answer.Question, yield func(answer.Event, error) bool) {
		close(entered)
		<-release
		sample(ctx, q, yield)
	}, server.Config{Requests: 1})
	first := make(chan int)
	go func() { first <- h.post("/v1/ask", `{"question":"x"}`).StatusCode }()
	<-entered
	got := h.get("/v1/models")
	require.Equal(t, 429, got.StatusCode)
	require.Equal(t, "too_many_requests", got.code(t))
	require.Equal(t, "2", got.Header.Get("Retry-After"))
	require.Equal(t, 200, h.get("/readyz").StatusCode, "probes are not counted")
	close(release)
	require.Equal(t, 200, <-first)
	require.Eventually(t, func() bool { return h.get("/v1/models").StatusCode == 200 }, 10*time.Second, time.Millisecond)
}

// start runs Serve and returns its address, what stops it, and its result.
func start(t *testing.T, parts server.Parts, c server.Config) (url string, stop func(), ended chan error) {
	t.Helper()
	c.Listen = "127.0.0.1:0"
	s, err := server.New(parts, c, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- s.Serve(ctx, func(a string) { address <- a }) }()
	return "http://" + <-address, stop, ended
}

func TestShutdownLetsAnswersFinish(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	parts, f := newParts(t, answerFunc(func(ctx context.Context, q answer.Question, yield func(answer.Event, error) bool) {
		yield(answer.Event{Text: "first"}, nil)
		close(entered)
		<-release
		sample(ctx, q, yield)
	}))
	url, stop, ended := start(t, parts, server.Config{})
	h := &harness{T: t, fakes: f, url: url, client: &http.Client{Transport: &http.Transport{}}, header: http.Header{}}
	t.Cleanup(h.client.CloseIdleConnections)
	response := h.open(t.Context(), "/v1/ask", `{"question":"x","stream":true}`)
	<-entered
	require.Equal(t, 200, h.get("/readyz").StatusCode)
	stop()
	require.Eventually(t, func() bool { return h.get("/readyz").StatusCode == 503 }, 10*time.Second, time.Millisecond)
	require.Contains(t, string(h.get("/readyz").body), "[-]accepting failed: the server is stopping")
	got := h.post("/v1/ask", `{"question":"y"}`)
	require.Equal(t, 503, got.StatusCode)
	require.Equal(t, "shutting_down", got.code(t))
	require.Equal(t, "10", got.Header.Get("Retry-After"))

	close(release)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	events := parseEvents(body)
	require.Equal(t, "done", events[len(events)-1].name)
	h.client.CloseIdleConnections()
	require.NoError(t, <-ended)
	_, err = net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.Error(t, err, "nobody listens any more")
}

func TestShutdownCutsOffWhatDoesNotEnd(t *testing.T) {
	cancelled := make(chan struct{})
	parts, f := newParts(t, answerFunc(func(ctx context.Context, _ answer.Question, yield func(answer.Event, error) bool) {
		yield(answer.Event{Text: "first"}, nil)
		<-ctx.Done()
		close(cancelled)
	}))
	url, stop, ended := start(t, parts, server.Config{DrainTime: 20 * time.Millisecond})
	h := &harness{T: t, fakes: f, url: url, client: &http.Client{Transport: &http.Transport{}}, header: http.Header{}}
	h.open(t.Context(), "/v1/ask", `{"question":"x","stream":true}`)
	stop()
	require.ErrorContains(t, <-ended, "cut off")
	<-cancelled
}

func TestPortInUse(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	parts, _ := newParts(t, answerFunc(sample))
	s, err := server.New(parts, server.Config{Listen: listener.Addr().String()}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	err = s.Serve(t.Context(), func(string) { t.Error("it is not ready") })
	require.ErrorContains(t, err, "choose another address with --listen")
	require.ErrorContains(t, err, "address already in use")
}

func TestWaitingDocumentsAreWorkedOff(t *testing.T) {
	parts, f := newParts(t, answerFunc(sample))
	f.ran = make(chan string, 10)
	f.corpora = []store.Corpus{
		{Name: "done", Index: f.Index()},
		{Name: "other-model", Index: ingest.Index{Model: "other", Dim: 3}, Waiting: 1},
		{Name: "left", Index: f.Index(), Waiting: 2},
	}
	url, stop, ended := start(t, parts, server.Config{})
	require.Equal(t, "left", <-f.ran, "what an earlier process left is worked on at the start; vectors of another model are left alone")
	h := &harness{T: t, fakes: f, url: url, client: &http.Client{Transport: &http.Transport{}}, header: http.Header{}}
	require.Equal(t, 202, h.upload(field{"corpus", "", "left"}, field{"file", "a.txt", "text"}).StatusCode)
	require.Equal(t, "left", <-f.ran)
	h.client.CloseIdleConnections()
	stop()
	require.NoError(t, <-ended)
	require.Empty(t, f.ran)
}
