package server_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"ragd/answer"
	"ragd/internal/otlptest"
	"ragd/llm"
	"ragd/retrieve"
	"ragd/server"
)

// spanOf finds the span with a name; parent is that of its parent.
func spanOf(t *testing.T, spans []*tracepb.Span, name string) (span *tracepb.Span, parent string) {
	t.Helper()
	for _, s := range spans {
		if s.Name == name {
			span = s
		}
	}
	require.NotNil(t, span, "no span %q", name)
	for _, s := range spans {
		if string(s.SpanId) == string(span.ParentSpanId) {
			parent = s.Name
		}
	}
	return span, parent
}

func TestTraces(t *testing.T) {
	receiver := otlptest.New(t)
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(receiver.URL+"/v1/traces"))
	require.NoError(t, err)
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	parts, f := newParts(t, answerFunc(func(ctx context.Context, q answer.Question, yield func(answer.Event, error) bool) {
		sample(ctx, q, func(e answer.Event, err error) bool {
			if e.Done != nil {
				e.Done.Retrieval = retrieve.Timings{Embed: 1e6, Dense: 2e6, Lexical: 3e6, Fetch: 4e6, Rerank: 5e6}
				e.Done.Usage = llm.Usage{PromptTokens: 1100, CachedTokens: 200, OutputTokens: 16, Queue: 6e6, Prefill: 7e6, Decode: 8e6}
				e.Done.Rewrite, e.Done.Verify, e.Done.Total = 9e6, 10e6, 60*time.Millisecond
			}
			return yield(e, err)
		})
	}))
	parts.Traces = provider
	h := serveParts(t, parts, f, server.Config{APIKey: "secret key"})
	h = h.with("secret key")
	h.header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	require.Equal(t, 200, h.post("/v1/ask", `{"question":"What is a confidential question?","stream":true}`).StatusCode)
	require.Equal(t, 200, h.get("/livez").StatusCode)
	require.NoError(t, provider.ForceFlush(t.Context()))
	spans, _ := receiver.Spans()
	want := []struct{ name, parent string }{
		{"POST /v1/ask", ""}, {"answer", "POST /v1/ask"}, {"rewrite question", "answer"}, {"retrieve", "answer"}, {"embed question", "retrieve"}, {"dense leg", "retrieve"},
		{"lexical leg", "retrieve"}, {"fetch passages", "retrieve"}, {"rerank", "retrieve"}, {"queue", "answer"}, {"prefill", "answer"}, {"decode", "answer"}, {"verify", "answer"},
	}
	require.Len(t, spans, len(want))
	for _, w := range want {
		span, parent := spanOf(t, spans, w.name)
		require.Equal(t, w.parent, parent, w.name)
		require.Equal(t, "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c", string(span.TraceId), "the caller's trace goes on")
		require.GreaterOrEqual(t, span.EndTimeUnixNano, span.StartTimeUnixNano)
		for _, text := range []string{"confidential", "Employees", "leave", "30 days", "hr/", "secret key"} { // of the question, the passages, the answer, the key
			require.NotContains(t, span.String(), text)
		}
	}
	took := func(name string) time.Duration {
		span, _ := spanOf(t, spans, name)
		return time.Duration(span.EndTimeUnixNano - span.StartTimeUnixNano)
	}
	require.Equal(t, 3*time.Millisecond, took("lexical leg"))
	require.Equal(t, 13*time.Millisecond, took("retrieve"), "the legs run beside each other")
	dense, _ := spanOf(t, spans, "dense leg")
	lexical, _ := spanOf(t, spans, "lexical leg")
	require.Equal(t, dense.StartTimeUnixNano, lexical.StartTimeUnixNano)

	// What goes wrong is marked, and a plain generation has its parts, too.
	require.Equal(t, 200, h.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"confidential"}],"max_tokens":3}`).StatusCode)
	require.Equal(t, 200, h.post("/v1/search", `{"query":"confidential"}`).StatusCode)
	h.failure = http.ErrServerClosed
	require.Equal(t, 500, h.get("/v1/corpora").StatusCode)
	require.NoError(t, provider.Shutdown(t.Context()))
	spans, _ = receiver.Spans()
	failed, _ := spanOf(t, spans, "GET /v1/corpora")
	require.Equal(t, tracepb.Status_STATUS_CODE_ERROR, failed.Status.Code)
	_, parent := spanOf(t, spans, "decode")
	require.Equal(t, "POST /v1/chat/completions", parent)
	_, parent = spanOf(t, spans, "retrieve")
	require.Equal(t, "POST /v1/search", parent)
}
