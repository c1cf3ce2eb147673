package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"ragd/answer"
	"ragd/llm"
	"ragd/retrieve"
)

// tracer makes spans. The parts of an answer measure themselves, so their spans are laid out when it is done, from those times: nothing below this
// package knows of traces. No attribute holds a text of a question, an answer or a document, or a name of a file.
type tracer struct{ trace.Tracer }

func newTracer(from trace.TracerProvider) tracer {
	if from == nil {
		from = noop.NewTracerProvider()
	}
	return tracer{from.Tracer("ragd/server")}
}

// traced is the span of a request of the API; it continues the caller's trace, when there is one.
func (s *Server) traced(c *gin.Context) {
	if route := c.FullPath(); !strings.HasPrefix(route, "/v1/") && route != "/mcp" { // probes would drown the rest
		return
	}
	ctx := propagation.TraceContext{}.Extract(c.Request.Context(), propagation.HeaderCarrier(c.Request.Header))
	ctx, span := s.tracer.Start(ctx, c.Request.Method+" "+c.FullPath(), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", c.Request.Method), attribute.String("http.route", c.FullPath()), attribute.String("ragd.request_id", requestID(c))))
	defer span.End()
	c.Request = c.Request.WithContext(ctx)
	c.Next()
	status := c.Writer.Status()
	span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, http.StatusText(status))
	}
}

// part is a span that took a time from start on; it returns when it ended.
func (t tracer) part(ctx context.Context, name string, start time.Time, took time.Duration, attributes ...attribute.KeyValue) time.Time {
	end := start.Add(took)
	if took > 0 {
		_, span := t.Start(ctx, name, trace.WithTimestamp(start), trace.WithAttributes(attributes...))
		span.End(trace.WithTimestamp(end))
	}
	return end
}

// retrieval lays out the spans of a search that began at start, and returns when it ended. Both legs start together.
func (t tracer) retrieval(ctx context.Context, start time.Time, took retrieve.Timings) time.Time {
	legs := start.Add(took.Embed)
	end := legs.Add(max(took.Dense, took.Lexical) + took.Fetch + took.Rerank)
	ctx, span := t.Start(ctx, "retrieve", trace.WithTimestamp(start))
	defer span.End(trace.WithTimestamp(end))
	t.part(ctx, "embed question", start, took.Embed)
	t.part(ctx, "dense leg", legs, took.Dense)
	t.part(ctx, "lexical leg", legs, took.Lexical)
	fetched := t.part(ctx, "fetch passages", legs.Add(max(took.Dense, took.Lexical)), took.Fetch)
	return t.part(ctx, "rerank", fetched, took.Rerank)
}

// generation lays out the spans of what the engine did from start on, and returns when it ended.
func (t tracer) generation(ctx context.Context, start time.Time, u llm.Usage) time.Time {
	prefill := t.part(ctx, "queue", start, u.Queue)
	decode := t.part(ctx, "prefill", prefill, u.Prefill, attribute.Int("gen_ai.usage.input_tokens", u.PromptTokens), attribute.Int("ragd.cached_tokens", u.CachedTokens))
	return t.part(ctx, "decode", decode, u.Decode, attribute.Int("gen_ai.usage.output_tokens", u.OutputTokens))
}

// answered lays out the spans of an answer that is done now.
func (t tracer) answered(ctx context.Context, a *answer.Answer) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return
	}
	start := time.Now().Add(-a.Total)
	ctx, span := t.Start(ctx, "answer", trace.WithTimestamp(start), trace.WithAttributes(
		attribute.Bool("ragd.abstained", a.Abstained), attribute.Int("ragd.sources", len(a.Sources)), attribute.Int("ragd.citations", len(a.Citations)),
		attribute.Int("gen_ai.usage.input_tokens", a.Usage.PromptTokens), attribute.Int("gen_ai.usage.output_tokens", a.Usage.OutputTokens)))
	defer span.End()
	found := t.retrieval(ctx, t.part(ctx, "rewrite question", start, a.Rewrite), a.Retrieval)
	t.part(ctx, "verify", t.generation(ctx, found, a.Usage), a.Verify)
}

// generated lays out the spans of a generation that is done now.
func (t tracer) generated(ctx context.Context, u llm.Usage) {
	if trace.SpanFromContext(ctx).IsRecording() {
		t.generation(ctx, time.Now().Add(-u.Queue-u.Prefill-u.Decode), u)
	}
}
