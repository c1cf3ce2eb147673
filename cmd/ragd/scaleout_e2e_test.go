package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/internal/modeltest"
	"ragd/internal/pgtest"
	"ragd/store"
)

// process is a ragd that serves.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	url string
}

var servesAt = regexp.MustCompile(`ragd serves (http://\S+)`)

// startServing runs the program on a database and does not wait; the returned function does.
func startServing(t *testing.T, database string, args ...string) func() *process {
	t.Helper()
	cmd := ragd(t, context.Background(), database, append([]string{"serve", "--listen", "127.0.0.1:0", "--reranker", "none"}, args...)...)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	found := make(chan string, 1)
	go func() {
		defer close(found)
		var said strings.Builder
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			said.WriteString(lines.Text() + "\n")
			if m := servesAt.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
				_, _ = io.Copy(io.Discard, stderr)
				return
			}
		}
		t.Log(said.String())
	}()
	return func() *process {
		t.Helper()
		url, ok := <-found
		require.True(t, ok, "it ended before it served")
		return &process{t: t, cmd: cmd, url: url}
	}
}

// call sends a request and returns status, header and body.
func (p *process) call(method, path, key string, kind string, body []byte) (int, http.Header, []byte, error) {
	request, err := http.NewRequest(method, p.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, text, err
}

func (p *process) must(want int, method, path string, kind string, body []byte) []byte {
	p.t.Helper()
	status, _, text, err := p.call(method, path, "", kind, body)
	require.NoError(p.t, err)
	require.Equal(p.t, want, status, string(text))
	return text
}

func form(t *testing.T, corpus, path, content string) (kind string, body []byte) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	require.NoError(t, w.WriteField("corpus", corpus))
	require.NoError(t, w.WriteField("path", path))
	file, err := w.CreateFormFile("file", filepath.Base(path))
	require.NoError(t, err)
	_, _ = io.WriteString(file, content)
	require.NoError(t, w.Close())
	return w.FormDataContentType(), b.Bytes()
}

func (p *process) upload(corpus, path, content string) {
	p.t.Helper()
	kind, body := form(p.t, corpus, path, content)
	p.must(202, http.MethodPost, "/v1/documents", kind, body)
}

// found are the paths that a search finds.
func (p *process) found(query string) (paths []string) {
	p.t.Helper()
	var reply struct {
		Results []struct{ Path string }
	}
	require.NoError(p.t, json.Unmarshal(p.must(200, http.MethodPost, "/v1/search", "application/json", fmt.Appendf(nil, `{"query":%q,"limit":10}`, query)), &reply))
	for _, r := range reply.Results {
		paths = append(paths, r.Path)
	}
	return paths
}

// metric is a value of /metrics.
func (p *process) metric(name string) float64 {
	p.t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(p.must(200, http.MethodGet, "/metrics", "", nil))
	require.NotNil(p.t, m, name)
	value, err := strconv.ParseFloat(string(m[1]), 64)
	require.NoError(p.t, err)
	return value
}

const scaleWait, scaleTick = 2 * time.Minute, 50 * time.Millisecond

func TestTwoProcessesShareOneDatabase(t *testing.T) {
	needModels(t)
	ctx := context.Background()
	url := pgtest.Empty(t)
	// Both find an empty database and want to make the schema.
	waitA, waitB := startServing(t, url), startServing(t, url)
	a, b := waitA(), waitB()
	db, err := store.Open(ctx, url, nil)
	require.NoError(t, err)
	defer db.Close()
	number := func(sql string) (n int) {
		t.Helper()
		require.NoError(t, db.Pool().QueryRow(ctx, sql).Scan(&n))
		return n
	}

	// Jobs: whoever has received a document, each is worked on once, and both find it.
	for i := range 6 {
		[]*process{a, b}[i%2].upload("c", fmt.Sprintf("animals/%d.txt", i), fmt.Sprintf("The zebra number %d lives in hall %d.", i, i+10))
	}
	require.Eventually(t, func() bool { return len(a.found("zebra")) == 6 && len(b.found("zebra")) == 6 }, scaleWait, scaleTick)
	require.Equal(t, 6, number(`SELECT count(*) FROM document_versions`))
	require.Equal(t, 6, number(`SELECT count(*) FROM passage_vectors`))

	// Deletions: what the other process has cached of a document's text goes.
	b.must(200, http.MethodPost, "/v1/ask", "application/json", []byte(`{"question":"In which hall does the zebra number 3 live?","max_tokens":8}`))
	require.Positive(t, b.metric("ragd_kv_pages_cached"))
	id := number(`SELECT id FROM documents WHERE path = 'animals/3.txt'`)
	a.must(204, http.MethodDelete, fmt.Sprintf("/v1/documents/%d", id), "", nil)
	require.NotContains(t, b.found("zebra"), "animals/3.txt")
	require.Eventually(t, func() bool { return b.metric("ragd_kv_pages_cached") == 0 }, scaleWait, scaleTick)

	// Limits: four requests a minute are four of both together. Revoking counts at once.
	secret, key, err := db.CreateKey(ctx, store.Key{Name: "limited", Actions: []string{"read"}, RequestsPerMinute: 4})
	require.NoError(t, err)
	for i := range 6 {
		status, header, _, err := []*process{a, b}[i%2].call(http.MethodGet, "/v1/corpora", secret, "", nil)
		require.NoError(t, err)
		if i < 4 {
			require.Equal(t, 200, status, i)
		} else {
			require.Equal(t, 429, status, i)
			require.NotEmpty(t, header.Get("Retry-After"))
		}
	}
	require.NoError(t, db.RevokeKey(ctx, "", key.ID))
	for _, p := range []*process{a, b} {
		status, _, _, err := p.call(http.MethodGet, "/v1/corpora", secret, "", nil)
		require.NoError(t, err)
		require.Equal(t, 401, status)
	}

	// One is killed in the middle of a document: the other goes on with it.
	require.NoError(t, b.cmd.Process.Signal(syscall.SIGSTOP)) // so that the first one takes it
	var long strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&long, "The giraffe number %d eats %d leaves on every day of the year and sleeps in hall %d of the southern house.\n\n", i, i*7, i%90)
	}
	a.upload("c", "long.txt", long.String())
	require.Eventually(t, func() bool {
		return number(`SELECT count(*) FROM document_versions WHERE state = 'split' AND embedded > 0 AND embedded < passages`) == 1
	}, scaleWait, 5*time.Millisecond)
	require.NoError(t, a.cmd.Process.Kill())
	require.NoError(t, b.cmd.Process.Signal(syscall.SIGCONT))
	done := number(`SELECT embedded FROM document_versions WHERE state = 'split'`)
	_, err = db.Pool().Exec(ctx, `UPDATE document_versions SET lease_until = now() WHERE state = 'split'`) // time passes
	require.NoError(t, err)
	b.upload("c", "wake.txt", "A word that makes it look at the queue.")
	require.Eventually(t, func() bool { return number(`SELECT count(*) FROM document_versions WHERE state = 'live'`) == 7 }, scaleWait, scaleTick)
	require.Positive(t, done, "what was done before is kept")
	require.Equal(t, number(`SELECT sum(passages)::int FROM document_versions`), number(`SELECT count(*) FROM passage_vectors`))
	require.Contains(t, b.found("giraffe number 1199"), "long.txt")

	// Told to stop, it ends by itself.
	require.NoError(t, b.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, b.cmd.Wait())
}

// The database is killed again and again while documents arrive and people search: requests fail as unavailable and say when to come back, nothing that was
// received is lost, and all goes on without hands.
func TestDatabaseKilledUnderLoad(t *testing.T) {
	needModels(t)
	server := pgtest.NewServer(t)
	p := startServing(t, server.URL)()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	var answered, unavailable, received atomic.Int64
	for range 3 {
		all.Go(func() {
			for ctx.Err() == nil {
				status, header, text, err := p.call(http.MethodPost, "/v1/search", "", "application/json", []byte(`{"query":"zebra"}`))
				switch {
				case err != nil:
					t.Errorf("the server is gone: %v", err)
					return
				case status == 200:
					answered.Add(1)
				case status == 503 && header.Get("Retry-After") != "":
					unavailable.Add(1)
				default:
					t.Errorf("status %d %s", status, text)
				}
			}
		})
	}
	all.Go(func() {
		for n := 0; n < 24 && ctx.Err() == nil; {
			kind, body := form(t, "c", fmt.Sprintf("%d.txt", n), fmt.Sprintf("The zebra number %d.", n))
			if status, _, _, err := p.call(http.MethodPost, "/v1/documents", "", kind, body); err == nil && status == 202 {
				received.Add(1)
				n++
			}
		}
	})
	for crash := int64(1); crash <= 2; crash++ {
		before := answered.Load()
		require.Eventually(t, func() bool { return answered.Load() > before && received.Load() >= crash*10 }, scaleWait, scaleTick)
		server.Signal(t, syscall.SIGKILL)
	}
	require.Eventually(t, func() bool { return received.Load() == 24 }, scaleWait, scaleTick)
	stop()
	all.Wait()
	require.Positive(t, unavailable.Load(), "the crashes were seen")
	require.Eventually(t, func() bool {
		status, _, text, err := p.call(http.MethodGet, "/v1/documents?state=live&limit=100", "", "", nil)
		return err == nil && status == 200 && strings.Count(string(text), `"path"`) == 24
	}, scaleWait, scaleTick)
	t.Logf("%d searches answered, %d told to come back, 24 documents received and live", answered.Load(), unavailable.Load())
}

// A model file that is cut while the server runs does not matter to it; at the next start it is refused with its name.
func TestModelFileCutWhileServing(t *testing.T) {
	needModels(t)
	path := filepath.Join(t.TempDir(), "model.gguf")
	data, err := os.ReadFile(modeltest.Path(t, smallModels[0]))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	url := pgtest.New(t)
	p := startServing(t, url, "--model", path)()
	require.NoError(t, os.Truncate(path, int64(len(data)/2)))
	body := []byte(`{"messages":[{"role":"user","content":"Say something long."}],"max_tokens":24}`)
	require.Contains(t, string(p.must(200, http.MethodPost, "/v1/chat/completions", "application/json", body)), `"finish_reason":"`)
	require.NoError(t, p.cmd.Process.Kill())

	out, err := ragd(t, t.Context(), url, "serve", "--listen", "127.0.0.1:0", "--model", path).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "model.gguf")
	require.NotContains(t, string(out), "goroutine ")
}
