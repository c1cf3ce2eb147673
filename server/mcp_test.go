package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"ragd/internal/pgtest"
	"ragd/server"
	"ragd/store"
)

// bearer adds a key to requests.
type bearer struct {
	next   http.RoundTripper
	secret string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.secret)
	return b.next.RoundTrip(r)
}

// session connects the official client to /mcp.
func session(t *testing.T, h *harness, secret string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: h.url + "/mcp", HTTPClient: &http.Client{Transport: bearer{h.client.Transport, secret}}, MaxRetries: -1, DisableStandaloneSSE: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func call(t *testing.T, s *mcp.ClientSession, name string, arguments map[string]any) (out map[string]any, failed bool) {
	t.Helper()
	result, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	require.NoError(t, err)
	if !result.IsError {
		data, err := json.Marshal(result.StructuredContent)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &out))
	}
	return out, result.IsError
}

func TestMCP(t *testing.T) {
	h, db := whole(t, pgtest.New(t), server.Config{NeedKey: true})
	secret := makeKey(t, db, store.Key{Tenant: "acme", Name: "acme", Actions: server.Actions})
	acme := h.with(secret)
	require.Equal(t, 202, acme.upload(field{"corpus", "", "hr"}, field{"file", "leave.txt", "Employees get 30 days of paid leave."}).StatusCode)
	require.Eventually(t, func() bool { return len(acme.get("/v1/documents?state=live").json(t)["documents"].([]any)) == 1 }, time.Minute, 20*time.Millisecond)

	s := session(t, h, secret)
	tools, err := s.ListTools(t.Context(), nil)
	require.NoError(t, err)
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
		require.NotEmpty(t, tool.Description)
	}
	require.ElementsMatch(t, []string{"search", "read", "ask"}, names)
	found, failed := call(t, s, "search", map[string]any{"query": "days of leave"})
	require.False(t, failed)
	passage := found["passages"].([]any)[0].(map[string]any)
	require.Equal(t, "Employees get 30 days of paid leave.", passage["text"])
	read, failed := call(t, s, "read", map[string]any{"passage_id": passage["passage_id"]})
	require.False(t, failed)
	require.Equal(t, passage["text"], read["text"])
	answered, failed := call(t, s, "ask", map[string]any{"question": "How many days of leave?"})
	require.False(t, failed)
	require.NotEmpty(t, answered["answer"])
	for name, arguments := range map[string]map[string]any{"search": {"query": " "}, "read": {"passage_id": 999}, "ask": {"question": ""}} {
		_, failed := call(t, s, name, arguments)
		require.True(t, failed, name)
	}

	other := session(t, h, makeKey(t, db, store.Key{Tenant: "globex", Name: "globex", Actions: server.Actions}))
	found, failed = call(t, other, "search", map[string]any{"query": "days of leave"})
	require.False(t, failed)
	require.Empty(t, found["passages"])
	_, failed = call(t, other, "read", map[string]any{"passage_id": passage["passage_id"]})
	require.True(t, failed)
	require.Equal(t, 401, h.post("/mcp", `{}`).StatusCode)
	require.Equal(t, 403, h.with(makeKey(t, db, store.Key{Name: "w", Actions: []string{server.Write}})).post("/mcp", `{}`).StatusCode)
}
