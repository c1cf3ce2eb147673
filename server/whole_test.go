package server_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/answer"
	"ragd/embed"
	"ragd/ingest"
	"ragd/internal/pgtest"
	"ragd/retrieve"
	"ragd/server"
	"ragd/store"
)

// words embeds a text as the normalised sum of a direction for each of its words: texts that share words are near each other.
type words struct{}

func (words) Model() string { return "words" }
func (words) Dim() int      { return 64 }
func (words) Embed(_ context.Context, _ embed.Role, texts []string) ([]embed.Vector, error) {
	vectors := make([]embed.Vector, len(texts))
	for i, text := range texts {
		v, sum := make(embed.Vector, 64), 0.0
		for _, word := range strings.Fields(strings.ToLower(text)) {
			h := fnv.New32()
			_, _ = h.Write([]byte(strings.Trim(word, ".,?")))
			v[h.Sum32()%64]++
		}
		for _, x := range v {
			sum += float64(x * x)
		}
		for j := range v {
			v[j] /= float32(math.Sqrt(sum))
		}
		vectors[i] = v
	}
	return vectors, nil
}

// The server over everything that is real but the size of the models: PostgreSQL, ingestion, retrieval, and an engine that writes nonsense under the
// grammar of cited answers.
func TestFromUploadToCitation(t *testing.T) {
	db, err := store.Open(t.Context(), pgtest.New(t), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer db.Close()
	splitter := &ingest.Splitter{MaxTokens: 60, Ends: func(text string) (ends []int) {
		for i, r := range text {
			if r == ' ' {
				ends = append(ends, i)
			}
		}
		return append(ends, len(text))
	}}
	retriever := retrieve.New(db, words{}, nil, retrieve.Config{})
	url, stop, ended := start(t, server.Parts{
		Answerer: answer.New(retriever, testEngine(t), answer.Config{Passages: 1, PassageTokens: 120, MaxTokens: 24}), Retriever: retriever, Library: db, Uploads: db, Jobs: db,
		Pipeline: &ingest.Pipeline{Store: db, Embedder: words{}, Splitter: splitter}, Embedder: words{}, Engine: testEngine(t),
	}, server.Config{})
	h := &harness{T: t, url: url, client: &http.Client{Transport: &http.Transport{}}, header: http.Header{}}

	require.Equal(t, 202, h.upload(field{"corpus", "", "hr"}, field{"path", "", "hr/leave 😀.txt"}, field{"file", "x", "Employees 😀 get 30 days of paid leave."}).StatusCode)
	require.Equal(t, 202, h.upload(field{"corpus", "", "hr"}, field{"file", "blank.txt", " \n "}).StatusCode)
	var documents []any
	require.Eventually(t, func() bool {
		documents = h.get("/v1/documents?corpus=hr").json(t)["documents"].([]any)
		return documents[0].(map[string]any)["state"] == "live" && documents[1].(map[string]any)["state"] == "failed"
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, "empty", documents[1].(map[string]any)["error_class"])
	require.Equal(t, 1., h.get("/v1/corpora").json(t)["corpora"].([]any)[0].(map[string]any)["documents"])
	again := h.upload(field{"corpus", "", "hr"}, field{"path", "", "hr/leave 😀.txt"}, field{"file", "x", "Employees 😀 get 30 days of paid leave."})
	require.Equal(t, 200, again.StatusCode, "the same bytes")

	found := h.post("/v1/search", `{"query":"days of leave","corpora":["hr"]}`).json(t)["results"].([]any)
	require.Len(t, found, 1)
	passage := h.get(fmt.Sprintf("/v1/passages/%v", found[0].(map[string]any)["passage_id"])).json(t)
	require.Equal(t, "Employees 😀 get 30 days of paid leave.", passage["text"])
	require.Equal(t, 404, h.post("/v1/search", `{"query":"x","corpora":["no such corpus"]}`).StatusCode)
	require.Equal(t, 404, h.post("/v1/ask", `{"question":"x","corpora":["no such corpus"]}`).StatusCode)

	got := h.post("/v1/ask", `{"question":"How many days of leave?","corpora":["hr"]}`)
	require.Equal(t, 200, got.StatusCode, "%s", got.body)
	body := got.json(t)
	for _, c := range body["citations"].([]any) {
		c := c.(map[string]any)
		quote := "Employees 😀 get 30 days of paid leave."[int(c["source_start"].(float64)):int(c["source_end"].(float64))]
		require.Equal(t, quote, c["quote"])
	}
	require.Equal(t, 422, h.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"`+strings.Repeat("word ", 5000)+`"}]}`).StatusCode)

	id := documents[0].(map[string]any)["id"]
	require.Equal(t, 204, h.send(h.request(t.Context(), http.MethodDelete, fmt.Sprintf("/v1/documents/%v", id), nil)).StatusCode)
	require.Empty(t, h.post("/v1/search", `{"query":"days of leave"}`).json(t)["results"])
	require.Equal(t, 404, h.get(fmt.Sprintf("/v1/passages/%v", found[0].(map[string]any)["passage_id"])).StatusCode)
	require.Equal(t, true, h.post("/v1/ask", `{"question":"How many days of leave?"}`).json(t)["abstained"])
	h.client.CloseIdleConnections()
	stop()
	require.NoError(t, <-ended)
}
