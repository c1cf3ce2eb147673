package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/answer"
	"ragd/internal/pgtest"
	"ragd/server"
)

func TestOneRequestMayWriteSoManyTokens(t *testing.T) {
	h := serve(t, sample, server.Config{OutputTokens: 24})
	for _, c := range []struct {
		body   string
		status int
	}{
		{`"max_completion_tokens":24`, 200}, {`"max_completion_tokens":25`, 400}, {`"max_tokens":25`, 400}, {`"n":3,"max_tokens":8`, 200}, {`"n":3,"max_tokens":9`, 400},
		{`"beams":4,"max_tokens":6`, 200}, {`"beams":4,"max_tokens":7`, 400}, {`"max_tokens":9223372036854775807`, 400}, {`"n":8`, 200}, {`"beams":8`, 200}, {`"stream":true`, 200},
		{`"stream":true,"max_tokens":100`, 400}, {`"corpora":["*"],"max_tokens":100`, 400},
	} {
		got := h.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"hello"}],`+c.body+`}`)
		require.Equal(t, c.status, got.StatusCode, "%s: %s", c.body, got.body)
		if c.status == 400 {
			require.Contains(t, got.message(t), "one request may write 24 tokens in all")
		} else if !strings.HasPrefix(got.Header.Get("Content-Type"), "text/event-stream") {
			require.LessOrEqual(t, got.json(t)["usage"].(map[string]any)["completion_tokens"], 24.0)
		}
	}
	require.Equal(t, 400, h.post("/v1/responses", `{"input":"hello","max_output_tokens":25}`).StatusCode)
	require.Equal(t, 200, h.post("/v1/responses", `{"input":"hello"}`).StatusCode)
}

func TestEmbeddingsAreBounded(t *testing.T) {
	h := serve(t, sample, server.Config{})
	text := func(n int) string { return `{"input":"` + strings.Repeat("x", n) + `"}` }
	require.Equal(t, 200, h.post("/v1/embeddings", text(3_000_000)).StatusCode)
	got := h.post("/v1/embeddings", text(3_000_010))
	require.Equal(t, 400, got.StatusCode)
	require.Contains(t, got.message(t), "one request may have 300000 in all")
}

func TestARequestEndsInTime(t *testing.T) {
	h := serve(t, func(ctx context.Context, _ answer.Question, yield func(answer.Event, error) bool) {
		if yield(answer.Event{Text: "first"}, nil) {
			<-ctx.Done()
			yield(answer.Event{}, fmt.Errorf("answer: generate: %w", ctx.Err()))
		}
	}, server.Config{RequestTime: 50 * time.Millisecond})
	got := h.post("/v1/ask", `{"question":"x"}`)
	require.Equal(t, 504, got.StatusCode)
	require.Equal(t, "timeout", got.code(t))
	events := parseEvents(h.post("/v1/ask", `{"question":"x","stream":true}`).body)
	require.Equal(t, "error", events[len(events)-1].name)
	require.Contains(t, events[len(events)-1].data, "timeout")
}

func TestPagesOfTheAuditLogTakeEveryID(t *testing.T) {
	h, _ := whole(t, pgtest.New(t), server.Config{APIKey: "own"})
	require.Equal(t, 200, h.with("own").get("/v1/audit?limit=683&before=7506082218479").StatusCode)
}
