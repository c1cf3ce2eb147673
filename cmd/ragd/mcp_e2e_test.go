package main

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"ragd/internal/pgtest"
)

// The official client starts ragd mcp as its users do, and talks to it on standard input and output.
func TestMCPOnStandardInput(t *testing.T) {
	needModels(t)
	url := pgtest.New(t)
	out, err := ragd(t, t.Context(), url, "ingest", "-c", "handbook", handbook(t)).CombinedOutput()
	require.NoError(t, err, string(out))

	var stderr bytes.Buffer
	cmd := ragd(t, context.Background(), url, "mcp")
	cmd.Stderr = &stderr
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	require.NoError(t, err, stderr.String())
	call := func(name string, arguments map[string]any, into any) {
		t.Helper()
		result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
		require.NoError(t, err, stderr.String())
		data, err := json.Marshal(result.StructuredContent)
		require.NoError(t, err)
		require.False(t, result.IsError, string(data))
		require.NoError(t, json.Unmarshal(data, into), string(data))
	}
	type passage struct {
		PassageID int64 `json:"passage_id"`
		Path      string
		Page      int
		Text      string
	}
	var found struct{ Passages []passage }
	call("search", map[string]any{"query": "hotel limit per night in Oslo", "limit": 3}, &found)
	require.NotEmpty(t, found.Passages)
	require.Equal(t, "examples/travel-policy.pdf", found.Passages[0].Path)
	var read passage
	call("read", map[string]any{"passage_id": found.Passages[0].PassageID}, &read)
	require.Equal(t, found.Passages[0].Text, read.Text)
	var answered struct {
		Answer    string
		Abstained bool
		Citations []struct{ Path, Quote string }
	}
	call("ask", map[string]any{"question": "At how much per kilometre is the use of a private car reimbursed?"}, &answered)
	require.False(t, answered.Abstained, answered.Answer)
	require.NotEmpty(t, answered.Citations, answered.Answer)
	require.Equal(t, "examples/travel-policy.pdf", answered.Citations[0].Path)
	require.NoError(t, s.Close(), "it ends when its client leaves: %s", stderr.String())
}
