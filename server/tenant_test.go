package server_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/answer"
	"ragd/ingest"
	"ragd/internal/pgtest"
	"ragd/retrieve"
	"ragd/server"
	"ragd/store"
)

// whole starts a server over everything that is real but the size of the models.
func whole(t *testing.T, database string, c server.Config) (*harness, *store.Store) {
	t.Helper()
	db, err := store.Open(t.Context(), database, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
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
		Answerer: answer.New(retriever, testEngine(t), answer.Config{Passages: 2, PassageTokens: 200, MaxTokens: 12}), Retriever: retriever, Library: db, Uploads: db, Jobs: db, Keys: db, Files: db, Answers: db,
		Pipeline: &ingest.Pipeline{Store: db, Embedder: words{}, Splitter: splitter}, Embedder: words{}, Engine: testEngine(t),
	}, c)
	h := &harness{T: t, url: url, client: &http.Client{Transport: &http.Transport{}}, header: http.Header{}}
	t.Cleanup(func() {
		h.client.CloseIdleConnections()
		stop()
		require.NoError(t, <-ended)
		db.Close()
	})
	return h, db
}

// with returns a client of the same server that sends a key.
func (h *harness) with(secret string) *harness {
	other := *h
	other.header = http.Header{"Authorization": {"Bearer " + secret}}
	return &other
}

func makeKey(t *testing.T, db *store.Store, k store.Key) string {
	t.Helper()
	secret, _, err := db.CreateKey(context.Background(), k)
	require.NoError(t, err)
	return secret
}

func (h *harness) delete(path string) reply {
	h.Helper()
	return h.send(h.request(h.Context(), http.MethodDelete, path, nil))
}

func TestKeysOfTheDatabase(t *testing.T) {
	h, db := whole(t, pgtest.New(t), server.Config{NeedKey: true, APIKey: "the server's own"})
	reader := h.with(makeKey(t, db, store.Key{Tenant: "acme", Name: "reader", Actions: []string{server.Read}}))
	editor := h.with(makeKey(t, db, store.Key{Tenant: "acme", Name: "editor", Actions: []string{server.Read, server.Write}}))
	admin := h.with(makeKey(t, db, store.Key{Tenant: "acme", Name: "admin", Actions: server.Actions}))
	own := h.with("the server's own")
	for _, wrong := range []*harness{h, h.with("ragd_nonsense"), h.with("")} {
		require.Equal(t, 401, wrong.get("/v1/corpora").StatusCode)
		require.Equal(t, 401, wrong.get("/metrics").StatusCode)
	}

	// Actions.
	require.Equal(t, 200, reader.get("/v1/corpora").StatusCode)
	require.Equal(t, 403, reader.upload(field{"file", "a.txt", "text"}).StatusCode)
	require.Equal(t, 403, reader.delete("/v1/documents/1").StatusCode)
	require.Equal(t, 202, editor.upload(field{"file", "a.txt", "text"}).StatusCode)
	for _, path := range []string{"/v1/keys", "/v1/audit"} {
		require.Equal(t, 403, editor.get(path).StatusCode)
		require.Equal(t, 200, admin.get(path).StatusCode)
	}
	require.Equal(t, 403, admin.get("/metrics").StatusCode, "the whole process is no tenant's business")
	require.Equal(t, 200, own.get("/metrics").StatusCode)
	require.Equal(t, "editor", editor.get("/v1/key").json(t)["name"])

	// Keys over HTTP stay within the tenant and the reach of the key that makes them.
	made := admin.post("/v1/keys", `{"name":"bot","actions":["read"],"corpora":["default"],"expires_in_seconds":3600,"requests_per_minute":2}`)
	require.Equal(t, 201, made.StatusCode)
	bot := h.with(made.json(t)["secret"].(string))
	require.NotNil(t, bot.get("/v1/key").json(t)["expires_at"])
	id := made.json(t)["id"]
	require.Equal(t, 200, bot.get("/v1/corpora").StatusCode)
	limited := bot.get("/v1/corpora")
	require.Equal(t, 429, limited.StatusCode)
	require.Equal(t, "rate_limit_exceeded", limited.code(t))
	require.NotEmpty(t, limited.Header.Get("Retry-After"))
	rotated := admin.post(fmt.Sprintf("/v1/keys/%v/rotate?grace_seconds=0", id), "")
	require.Equal(t, 201, rotated.StatusCode)
	require.Equal(t, 401, bot.get("/v1/corpora").StatusCode)
	require.Equal(t, 204, admin.delete(fmt.Sprintf("/v1/keys/%v", rotated.json(t)["id"])).StatusCode)
	require.Equal(t, 401, h.with(rotated.json(t)["secret"].(string)).get("/v1/corpora").StatusCode)
	narrow := h.with(makeKey(t, db, store.Key{Tenant: "acme", Name: "narrow", Actions: server.Actions, Corpora: []string{"hr"}}))
	require.Equal(t, 404, narrow.post("/v1/keys", `{"name":"x","actions":["read"],"corpora":["default"]}`).StatusCode)
	require.Equal(t, []any{"hr"}, narrow.post("/v1/keys", `{"name":"x","actions":["read"]}`).json(t)["corpora"])
	require.Equal(t, 404, narrow.post("/v1/keys/1/rotate", "").StatusCode, "would widen its reach")
	require.Equal(t, 404, own.delete("/v1/keys/1").StatusCode, "another tenant's")
	for _, body := range []string{`{}`, `{"name":"x","actions":["fly"]}`, `{"name":"x","actions":["read"],"expires_in_seconds":-1}`, `{"name":"x","actions":["read"],"corpora":["../x"]}`} {
		require.Equal(t, 400, admin.post("/v1/keys", body).StatusCode, body)
	}

	// What was changed and what was refused is on record, without any text.
	var log []string
	for _, e := range admin.get("/v1/audit").json(t)["entries"].([]any) {
		e := e.(map[string]any)
		log = append(log, fmt.Sprint(e["key_name"], " ", e["action"], " ", e["status"]))
	}
	require.Subset(t, log, []string{"reader POST /v1/documents 403", "editor POST /v1/documents 202", "editor GET /v1/keys 403", "admin POST /v1/keys 201",
		"admin POST /v1/keys/:id/rotate 201", "admin DELETE /v1/keys/:id 204"})
	require.Empty(t, own.get("/v1/audit").json(t)["entries"].([]any)[1:], "only its own refusal")
}

func TestAKeySeesOnlyItsCorpora(t *testing.T) {
	h, db := whole(t, pgtest.New(t), server.Config{NeedKey: true})
	all := h.with(makeKey(t, db, store.Key{Name: "all", Actions: server.Actions}))
	hr := h.with(makeKey(t, db, store.Key{Name: "hr", Actions: server.Actions, Corpora: []string{"hr"}}))
	for _, corpus := range []string{"hr", "board"} {
		require.Equal(t, 202, all.upload(field{"corpus", "", corpus}, field{"file", "a.txt", "The number of " + corpus + " is secret."}).StatusCode)
	}
	require.Eventually(t, func() bool { return len(all.get("/v1/documents?state=live").json(t)["documents"].([]any)) == 2 }, time.Minute, 20*time.Millisecond)
	var foreign float64
	for _, d := range all.get("/v1/documents").json(t)["documents"].([]any) {
		if d := d.(map[string]any); d["corpus"] == "board" {
			foreign = d["id"].(float64)
		}
	}
	require.Len(t, hr.get("/v1/documents").json(t)["documents"], 1)
	require.Len(t, hr.get("/v1/corpora").json(t)["corpora"], 1)
	require.Equal(t, 404, hr.get("/v1/documents?corpus=board").StatusCode)
	require.Equal(t, 404, hr.get(fmt.Sprintf("/v1/documents/%v", foreign)).StatusCode)
	require.Equal(t, 404, hr.delete(fmt.Sprintf("/v1/documents/%v", foreign)).StatusCode)
	require.Equal(t, 404, hr.upload(field{"corpus", "", "board"}, field{"file", "b.txt", "x"}).StatusCode)
	for _, path := range []string{"/v1/search", "/v1/ask"} {
		require.Equal(t, 404, hr.post(path, map[string]string{"/v1/search": `{"query":"number","corpora":["board"]}`, "/v1/ask": `{"question":"number?","corpora":["board"]}`}[path]).StatusCode)
	}
	require.Equal(t, 404, hr.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"number?"}],"corpora":["board"]}`).StatusCode)
	found := all.post("/v1/search", `{"query":"number secret"}`).json(t)["results"].([]any)
	require.Len(t, found, 2)
	require.Len(t, hr.post("/v1/search", `{"query":"number secret"}`).json(t)["results"], 1)
	seen := 0
	for _, r := range found {
		if hr.get(fmt.Sprintf("/v1/passages/%v", r.(map[string]any)["passage_id"])).StatusCode == 200 {
			seen++
		}
	}
	require.Equal(t, 1, seen)
	require.NotContains(t, string(hr.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"number secret?"}],"corpora":["*"]}`).body), "board")
}

// Two tenants with corpora and paths of the same names work at once, each also asking for whatever ids there may be. Nothing of one ever reaches the other.
func TestNothingLeaksBetweenTenantsUnderLoad(t *testing.T) {
	h, db := whole(t, pgtest.New(t), server.Config{NeedKey: true})
	tenants := []string{"acme", "globex"}
	var group sync.WaitGroup
	for i, tenant := range tenants {
		secret, foreign := "secret-of-"+tenant, []byte("secret-of-"+tenants[1-i])
		client := h.with(makeKey(t, db, store.Key{Tenant: tenant, Name: tenant, Actions: server.Actions}))
		for worker := range 3 {
			group.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), uint64(worker)))
				for range 40 {
					got := client.anything(random, secret)
					if bytes.Contains(got.body, foreign) {
						t.Errorf("%s sees %s", tenant, got.body)
					}
				}
			})
		}
	}
	group.Wait()
	for _, tenant := range tenants {
		documents, err := db.Documents(t.Context(), tenant, nil, "", 0, 1000)
		require.NoError(t, err)
		require.NotEmpty(t, documents)
	}
}

// anything makes one request of a random kind; every text that it sends carries the tenant's secret.
func (h *harness) anything(random *rand.Rand, secret string) reply {
	id := 1 + random.IntN(40)
	question := fmt.Sprintf("what is %s number %d", secret, random.IntN(5))
	switch random.IntN(10) {
	case 0, 1, 2:
		return h.upload(field{"corpus", "", "shared"}, field{"file", fmt.Sprintf("%d.txt", random.IntN(6)), strings.Repeat(question+" ", 1+random.IntN(20))})
	case 3:
		return h.get(fmt.Sprintf("/v1/passages/%d", id))
	case 4:
		return h.get(fmt.Sprintf("/v1/documents/%d", id))
	case 5:
		return h.get("/v1/documents")
	case 6:
		return h.post("/v1/search", `{"query":"what is secret number"}`)
	case 7:
		return h.post("/v1/ask", `{"question":"what is the secret number?"}`)
	case 8:
		return h.post("/v1/chat/completions", fmt.Sprintf(`{"messages":[{"role":"user","content":"what is the secret number?"}],"corpora":["*"],"stream":%t}`, random.IntN(2) == 0))
	default:
		return h.delete(fmt.Sprintf("/v1/documents/%d", id))
	}
}
