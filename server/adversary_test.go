package server_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"ragd/internal/pgtest"
	"ragd/login"
	"ragd/server"
	"ragd/store"
)

// public are the routes that need no key.
var public = []string{"/livez", "/healthz", "/readyz", "/openapi.yaml", "/login", login.CallbackPath}

// routes are all routes of the API, parameters filled with 1.
func (h *harness) routes() (all []gin.RouteInfo) {
	for _, r := range h.server.Handler().(*gin.Engine).Routes() {
		r.Path = regexp.MustCompile(`:\w+`).ReplaceAllString(r.Path, "1")
		all = append(all, r)
	}
	return all
}

// status sends a request whose answer may have no body.
func (h *harness) status(request *http.Request) int {
	h.Helper()
	response, err := h.client.Do(request)
	require.NoError(h.T, err)
	response.Body.Close()
	return response.StatusCode
}

func TestNothingButTheKeyInItsHeaderGetsIn(t *testing.T) {
	h := serve(t, sample, server.Config{APIKey: "correct horse"})
	count := 0
	for _, route := range h.routes() {
		if strings.HasPrefix(route.Path, "/login") || strings.Contains(strings.Join(public, " ")+" ", route.Path+" ") {
			continue
		}
		count++
		require.Equal(t, 401, h.status(h.request(t.Context(), route.Method, route.Path, strings.NewReader("{}"))), "%s %s", route.Method, route.Path)
	}
	require.Greater(t, count, 45)
	for name, change := range map[string]func(r *http.Request){
		"in the query": func(r *http.Request) {
			r.URL.RawQuery = "api_key=correct+horse&key=correct+horse&access_token=correct+horse"
		},
		"in another header":      func(r *http.Request) { r.Header.Set("X-Api-Key", "correct horse") },
		"as a user":              func(r *http.Request) { r.SetBasicAuth("ragd", "correct horse") },
		"without the scheme":     func(r *http.Request) { r.Header.Set("Authorization", "correct horse") },
		"a part of it":           func(r *http.Request) { r.Header.Set("Authorization", "Bearer correct") },
		"more than it":           func(r *http.Request) { r.Header.Set("Authorization", "Bearer correct horse battery") },
		"in other case":          func(r *http.Request) { r.Header.Set("Authorization", "Bearer Correct Horse") },
		"a list":                 func(r *http.Request) { r.Header.Set("Authorization", "Bearer correct horse, Bearer x") },
		"in a cookie":            func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "ragd-session", Value: "correct horse"}) },
		"as a second header":     func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer x", "Bearer correct horse"} },
		"from this very machine": func(r *http.Request) { r.Header.Set("X-Forwarded-For", "127.0.0.1"); r.Host = "localhost" },
		"an empty one":           func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") },
		"as another method":      func(r *http.Request) { r.Header.Set("X-Http-Method-Override", "OPTIONS") },
	} {
		request := h.request(t.Context(), http.MethodGet, "/v1/corpora", nil)
		change(request)
		require.Equal(t, 401, h.send(request).StatusCode, name)
	}
	require.Equal(t, 200, h.with("correct horse").get("/v1/corpora").StatusCode)
}

func TestKeysThatEndedDoNotGetIn(t *testing.T) {
	h, db := whole(t, pgtest.New(t), server.Config{NeedKey: true})
	expired := makeKey(t, db, store.Key{Name: "expired", Actions: server.Actions, ExpiresAt: time.Now().Add(-time.Second)})
	secret, made, err := db.CreateKey(t.Context(), store.Key{Name: "revoked", Actions: server.Actions})
	require.NoError(t, err)
	require.Equal(t, 200, h.with(secret).get("/v1/corpora").StatusCode)
	require.NoError(t, db.RevokeKey(t.Context(), "", made.ID))
	for _, s := range []string{expired, secret, strings.ToUpper(secret), secret + "\u0000", secret + "'--", "ragd_' OR '1'='1", "ragd_" + strings.Repeat("A", 5000)} {
		request := h.request(t.Context(), http.MethodGet, "/v1/corpora", nil)
		request.Header["Authorization"] = []string{"Bearer " + strings.ReplaceAll(s, "\x00", "%00")}
		require.Equal(t, 401, h.send(request).StatusCode)
	}
}

// A key of one corpus tries every route with what belongs to another. Nothing of it comes back, and nothing of it changes.
func TestAKeyOfOneCorpusReachesNothingOfAnother(t *testing.T) {
	h, db := whole(t, pgtest.New(t), server.Config{NeedKey: true})
	all := h.with(makeKey(t, db, store.Key{Name: "all", Actions: server.Actions}))
	hr := h.with(makeKey(t, db, store.Key{Name: "hr", Actions: server.Actions, Corpora: []string{"hr"}}))
	require.Equal(t, 202, all.upload(field{"corpus", "", "hr"}, field{"file", "a.txt", "The number of hr is public."}).StatusCode)
	require.Equal(t, 202, all.upload(field{"corpus", "", "board"}, field{"file", "merger.txt", "The number of the merger is classified."}).StatusCode)
	require.Eventually(t, func() bool { return len(all.get("/v1/documents?state=live").json(t)["documents"].([]any)) == 2 }, time.Minute, 20*time.Millisecond)
	file := all.sendFile("merger plan.txt", "assistants", "classified").json(t)["id"].(string)
	document := fmt.Sprint(all.get("/v1/documents?corpus=board").json(t)["documents"].([]any)[0].(map[string]any)["id"])
	passage := fmt.Sprint(all.post("/v1/search", `{"query":"merger","corpora":["board"]}`).json(t)["results"].([]any)[0].(map[string]any)["passage_id"])
	answered := all.post("/v1/ask", `{"question":"What is the number of the merger?","corpora":["board"]}`).json(t)["id"].(string)
	require.Equal(t, 204, all.post("/v1/answers/"+answered+"/feedback", `{"good":false,"comment":"classified"}`).StatusCode)
	require.Equal(t, 201, all.post("/v1/keys", `{"name":"merger key","actions":["read"],"corpora":["board"]}`).StatusCode)

	call := func(tool, arguments string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments)
	}
	question := `"input":"What is the number of the merger?","tools":[{"type":"file_search","vector_store_ids":`
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/v1/documents", ""}, {"GET", "/v1/documents?corpus=board", ""}, {"GET", "/v1/documents/" + document, ""}, {"GET", "/v1/documents/" + document + "/pages/1", ""},
		{"GET", "/v1/documents/" + document + "/boxes?start=0&end=9", ""}, {"POST", "/v1/documents/" + document + "/retry", ""}, {"POST", "/v1/documents/" + document + "/cancel", ""},
		{"DELETE", "/v1/documents/" + document, ""}, {"GET", "/v1/passages/" + passage, ""}, {"GET", "/v1/answers/" + answered, ""},
		{"POST", "/v1/answers/" + answered + "/feedback", `{"good":true}`}, {"GET", "/v1/feedback", ""}, {"GET", "/v1/jobs", ""}, {"GET", "/v1/jobs?corpus=board", ""},
		{"GET", "/v1/corpora", ""}, {"DELETE", "/v1/corpora/board", ""}, {"POST", "/v1/corpora", `{"name":"board"}`}, {"GET", "/v1/keys", ""}, {"GET", "/v1/audit", ""}, {"GET", "/metrics", ""},
		{"GET", "/v1/files", ""}, {"GET", "/v1/files/" + file, ""}, {"GET", "/v1/files/" + file + "/content", ""}, {"DELETE", "/v1/files/" + file, ""},
		{"GET", "/v1/vector_stores", ""}, {"GET", "/v1/vector_stores/vs_board", ""}, {"DELETE", "/v1/vector_stores/vs_board", ""}, {"GET", "/v1/vector_stores/vs_board/files", ""},
		{"GET", "/v1/vector_stores/vs_board/files/doc-" + document, ""}, {"GET", "/v1/vector_stores/vs_hr/files/doc-" + document, ""},
		{"DELETE", "/v1/vector_stores/vs_board/files/doc-" + document, ""}, {"DELETE", "/v1/vector_stores/vs_hr/files/doc-" + document, ""},
		{"POST", "/v1/vector_stores/vs_board/search", `{"query":"merger"}`}, {"POST", "/v1/vector_stores/vs_*/search", `{"query":"merger"}`}, {"POST", "/v1/vector_stores/vs_board/files", `{"file_id":"` + file + `"}`},
		{"POST", "/v1/vector_stores/vs_hr/files", `{"file_id":"` + file + `"}`}, {"POST", "/v1/vector_stores", `{"name":"board","file_ids":["` + file + `"]}`},
		{"POST", "/v1/search", `{"query":"merger"}`}, {"POST", "/v1/search", `{"query":"merger","corpora":["board"]}`}, {"POST", "/v1/search", `{"query":"merger","corpora":["hr","board"]}`},
		{"POST", "/v1/search", `{"query":"merger","corpora":["*"]}`}, {"POST", "/v1/ask", `{"question":"merger?","corpora":["board"]}`}, {"POST", "/v1/ask", `{"question":"merger?","corpora":["board"],"stream":true}`},
		{"POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"number?"}],"corpora":["*"]}`}, {"POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"corpora":["board","*"]}`},
		{"POST", "/v1/responses", `{` + question + `["vs_board"]}]}`}, {"POST", "/v1/responses", `{"input":"number?","tools":[{"type":"file_search","vector_store_ids":["vs_*"]}],"include":["file_search_call.results"]}`},
		{"POST", "/v1/keys", `{"name":"x","actions":["read"],"corpora":["board"]}`},
		{"POST", "/mcp", call("search", `{"query":"merger"}`)}, {"POST", "/mcp", call("search", `{"query":"merger","corpora":["board"]}`)}, {"POST", "/mcp", call("read", `{"passage_id":`+passage+`}`)},
		{"POST", "/mcp", call("ask", `{"question":"number?","corpora":["board"]}`)}, {"POST", "/mcp", call("ask", `{"question":"number?"}`)},
	} {
		request := hr.request(t.Context(), c.method, c.path, strings.NewReader(c.body))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		got := hr.send(request)
		require.Less(t, got.StatusCode, 500, "%s %s: %s", c.method, c.path, got.body)
		for _, secret := range []string{"classified", "merger", "board"} {
			if strings.Contains(c.body+c.path, secret) && got.StatusCode >= 400 || bytes.Contains([]byte(c.body), []byte(secret)) && secret != "classified" {
				continue // what was sent may be said back
			}
			require.NotContains(t, string(got.body), secret, "%s %s %s", c.method, c.path, c.body)
		}
	}
	require.Equal(t, 404, hr.upload(field{"corpus", "", "board"}, field{"file", "b.txt", "x"}).StatusCode)
	kept := all.get("/v1/documents?corpus=board").json(t)["documents"].([]any)
	require.Len(t, kept, 1, "nothing was changed")
	require.Equal(t, "live", kept[0].(map[string]any)["state"])
	require.Len(t, all.get("/v1/files").json(t)["data"], 1)
	require.Len(t, strings.Split(strings.TrimSpace(string(all.get("/v1/feedback").body)), "\n"), 1)
	require.Len(t, all.get("/v1/corpora").json(t)["corpora"], 2)
}

// raw sends bytes as they are and returns the status and headers of what comes back.
func (h *harness) raw(text string) (status int, header http.Header) {
	h.Helper()
	u, err := url.Parse(h.url)
	require.NoError(h.T, err)
	conn, err := net.Dial("tcp", u.Host)
	require.NoError(h.T, err)
	defer conn.Close()
	require.NoError(h.T, conn.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = conn.Write([]byte(strings.ReplaceAll(text, "HOST", u.Host)))
	require.NoError(h.T, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, nil // closed without a word
	}
	response.Body.Close()
	return response.StatusCode, response.Header
}

func TestHostileRequests(t *testing.T) {
	h := serve(t, sample, server.Config{APIKey: "k"})
	hasty := serve(t, sample, server.Config{APIKey: "k", ReadTimeout: 100 * time.Millisecond})
	key := h.with("k")
	post := func(path, kind, body string) reply {
		request := key.request(t.Context(), http.MethodPost, path, strings.NewReader(body))
		request.Header.Set("Content-Type", kind)
		return key.send(request)
	}
	deep := func(open, end string, n int) string { return strings.Repeat(open, n) + strings.Repeat(end, n) }
	for name, body := range map[string]string{
		"none": "", "no JSON": "hello", "half": `{"question":`, "two": `{"question":"x"}{}`, "a list": `[]`, "null": `null`, "wrong kind": `{"question":7}`, "unknown": `{"question":"x","admin":true}`,
		"deep lists": `{"question":` + deep("[", "]", 200_000) + `}`, "deep objects": strings.Repeat(`{"a":`, 200_000), "NUL": "{\"question\":\"\x00\"}", "BOM": "\ufeff{\"question\":\"x\"}",
		"a large number": `{"question":"x","passages":1e999}`, "a negative one": `{"question":"x","passages":-1}`, "a fraction": `{"question":"x","seed":-1.5}`,
	} {
		require.Equal(t, 400, post("/v1/ask", "application/json", body).StatusCode, name)
	}
	for _, path := range []string{"/v1/ask", "/v1/search", "/v1/chat/completions", "/v1/embeddings", "/v1/rerank", "/v1/responses", "/v1/corpora", "/mcp"} {
		got := post(path, "application/json", `{"model":"`+strings.Repeat("x", 5<<20)+`"}`)
		require.Contains(t, []int{400, 413}, got.StatusCode, path)
		for _, kind := range []string{"text/html", "application/xml", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "\"", "application/json; charset=utf-16"} {
			require.Less(t, post(path, kind, "<x/>").StatusCode, 500, "%s %s", path, kind)
		}
		status, _ := hasty.raw("POST " + path + " HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer k\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"question\"")
		require.Contains(t, []int{400, 408}, status, "%s: a body that stops arriving", path)
	}
	for _, kind := range []string{"application/json", "multipart/form-data", "multipart/form-data; boundary=" + strings.Repeat("x", 100)} {
		for _, path := range []string{"/v1/documents", "/v1/files"} {
			require.Contains(t, []int{400, 413, 415, 501}, post(path, kind, "--x\r\n").StatusCode, path)
		}
	}
	require.Equal(t, 200, key.post("/v1/ask", `{"question":"x"}`).StatusCode, "it still works")
}

// A body that comes byte by byte, each in time, ends all the same.
func TestADrippingBodyEnds(t *testing.T) {
	h := serve(t, sample, server.Config{ReadTimeout: 200 * time.Millisecond})
	body, drip := io.Pipe()
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = drip.Write([]byte(" "))
			case <-done:
				drip.Close()
				return
			}
		}
	}()
	require.Equal(t, 408, h.status(h.request(t.Context(), http.MethodPost, "/v1/ask", body)))
	close(done)
}

func TestMethodsAndPathsThatDoNotExist(t *testing.T) {
	h := serve(t, sample, server.Config{APIKey: "k"})
	for _, route := range h.routes() {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get"} {
			status, header := h.raw(method + " " + route.Path + " HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			require.NotZero(t, status)
			require.Less(t, status, 500, "%s %s", method, route.Path)
			if strings.HasPrefix(route.Path, "/v1/") {
				require.Contains(t, []int{204, 401, 404, 405}, status, "%s %s", method, route.Path)
				require.Empty(t, header.Get("Access-Control-Allow-Origin"))
			}
		}
	}
	for _, path := range []string{"/v1/../metrics", "//v1/corpora", "/v1//corpora", "/V1/corpora", "/v1/corpora/", "/v1/corpora;x", "/%76%31/corpora", "/v1/documents/%2e%2e", "/v1/documents/1%2f..%2f2", "/v1/documents/%00",
		"/v1/documents/-1", "/v1/documents/99999999999999999999", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%5c..%5cetc/passwd", "/static/../server.go", "/doc.go", "/.git/config", "/index.html/..", "http://evil.example.com/v1/corpora", "*"} {
		status, header := h.raw("GET " + path + " HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n")
		require.Contains(t, []int{0, 301, 307, 308, 400, 401, 404}, status, path)
		require.NotContains(t, header.Get("Location"), "evil", path)
	}
	status, _ := h.raw("GET / HTTP/1.1\r\nHost: HOST\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n")
	require.Contains(t, []int{0, 431}, status)
	status, _ = h.raw("POST /v1/ask HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	require.Contains(t, []int{400, 401}, status, "two lengths")
}

// What a document holds and what it is called never acts: not in a browser, not in a header, not in a log.
func TestDocumentsAreNeverActive(t *testing.T) {
	var log bytes.Buffer
	db, err := store.Open(t.Context(), pgtest.New(t), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer db.Close()
	parts, f := newParts(t, answerFunc(sample))
	parts.Files, parts.Keys, parts.Answers = db, db, db
	s, err := server.New(parts, server.Config{}, slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	require.NoError(t, err)
	h := serveHandler(t, s, f)
	for name, content := range map[string]string{
		"evil.html": "<script>alert('private text')</script>", "evil.svg": `<svg xmlns="http://www.w3.org/2000/svg" onload="alert('private text')"/>`, "evil.js": "alert('private text')",
		"a\"; filename=evil.html": "private text", "a%0d%0aSet-Cookie: x=y.txt": "private text", "\u202egpj.exe": "private text", "<img src=x>.txt": "private text",
	} {
		got := h.sendFile(name, "assistants", content)
		require.Equal(t, 200, got.StatusCode, "%s: %s", name, got.body)
		id := got.json(t)["id"].(string)
		read := h.get("/v1/files/" + id + "/content")
		require.Equal(t, content, string(read.body))
		require.Equal(t, "application/octet-stream", read.Header.Get("Content-Type"))
		require.Equal(t, "attachment", read.Header.Get("Content-Disposition"))
		require.Equal(t, "nosniff", read.Header.Get("X-Content-Type-Options"))
		require.Contains(t, read.Header.Get("Content-Security-Policy"), "default-src 'none'")
		require.NotContains(t, read.Header.Get("Content-Security-Policy"), "unsafe")
		for _, path := range []string{"/v1/files/" + id, "/v1/files"} {
			about := h.get(path)
			require.Equal(t, "application/json; charset=utf-8", about.Header.Get("Content-Type"))
			require.Empty(t, about.Header.Get("Set-Cookie"))
		}
	}
	require.Equal(t, 200, h.post("/v1/ask", `{"question":"a private text"}`).StatusCode)
	require.Equal(t, 200, h.post("/v1/ask", `{"question":"a private text","stream":true}`).StatusCode)
	require.Equal(t, 200, h.post("/v1/search", `{"query":"a private text"}`).StatusCode)
	require.Equal(t, 200, h.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"a private text"}],"max_tokens":2}`).StatusCode)
	require.Equal(t, 400, h.post("/v1/chat/completions", `{"messages":[{"role":"private text","content":"a private text"}]}`).StatusCode)
	h.get("/v1/documents?state=private+text")
	h.get("/v1/documents/private%20text")
	h.get("/private%20text")
	require.NotEmpty(t, log.String())
	for _, text := range []string{"private", "Employees", "30 days", "evil"} {
		require.NotContains(t, log.String(), text)
	}
	for _, line := range strings.Split(strings.TrimSpace(log.String()), "\n") {
		require.True(t, json.Valid([]byte(line)))
	}
}

// Sites that a user of a server without a key visits can neither ask nor change anything, whatever they send.
func TestForeignSitesCannotUseAServerWithoutAKey(t *testing.T) {
	h := serve(t, sample, server.Config{})
	for _, route := range h.routes() {
		if !strings.HasPrefix(route.Path, "/v1/") && route.Path != "/mcp" && route.Path != "/metrics" {
			continue
		}
		for _, header := range []string{"Origin: https://evil.example.com", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"} {
			name, value, _ := strings.Cut(header, ": ")
			request := h.request(t.Context(), route.Method, route.Path, strings.NewReader("{}"))
			request.Header.Set(name, value)
			request.Header.Set("Content-Type", "text/plain")
			require.Equal(t, 403, h.status(request), "%s %s %s", route.Method, route.Path, header)
		}
		request := h.request(t.Context(), route.Method, route.Path, strings.NewReader("{}"))
		request.Host = "evil.example.com" // a name that resolves to this machine
		require.Equal(t, 403, h.status(request), "%s %s", route.Method, route.Path)
	}
}
