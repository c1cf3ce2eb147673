package server_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/server"
)

// While the engine writes on every processor it was given, other requests are served: several of them before one long answer ends. Counted, not
// timed, so that a slow machine does not matter.
func TestRequestsAreServedWhileTheEngineIsBusy(t *testing.T) {
	h := serve(t, sample, server.Config{})
	// The first four tokens are the special ones: without them the answer does not end early.
	const long = `{"messages":[{"role":"user","content":"hello"}],"max_tokens":2000,"stream":true,"logit_bias":{"0":-100,"1":-100,"2":-100,"3":-100}}`
	done := make(chan struct{})
	answer := h.open(t.Context(), "/v1/chat/completions", long)
	_, err := answer.Body.Read(make([]byte, 1))
	require.NoError(t, err)
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, answer.Body)
	}()
	served := 0
	for writing := true; writing; {
		select {
		case <-done:
			writing = false
		default:
			require.Equal(t, 200, h.get("/livez").StatusCode)
			served++
		}
	}
	require.Greater(t, served, 3)
}
