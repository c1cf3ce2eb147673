package server_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
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

// uploading is a server on a real database; a second one on the same url is that server after a restart.
func uploading(t *testing.T, url string, c server.Config) *harness {
	t.Helper()
	db, err := store.Open(t.Context(), url, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(db.Close)
	retriever := retrieve.New(db, words{}, nil, retrieve.Config{})
	engine := testEngine(t)
	address, stop, ended := start(t, server.Parts{
		Answerer: answer.New(retriever, engine, answer.Config{}), Retriever: retriever, Library: db, Uploads: db, Jobs: db,
		Pipeline: &ingest.Pipeline{Store: db, Embedder: words{}, Splitter: &ingest.Splitter{MaxTokens: 60}}, Embedder: words{}, Engine: engine,
	}, c)
	h := &harness{T: t, url: address, client: &http.Client{Transport: &http.Transport{}}, header: http.Header{}}
	h.stop = func() {
		h.client.CloseIdleConnections()
		stop()
		require.NoError(t, <-ended)
	}
	return h
}

// tus sends a request of the upload protocol. headers come in pairs.
func (h *harness) tus(method, path string, body io.Reader, headers ...string) *http.Response {
	h.Helper()
	request := h.request(h.Context(), method, path, body)
	request.Header.Set("Tus-Resumable", "1.0.0")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := h.client.Do(request)
	if err != nil {
		return nil // the connection broke
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	return response
}

func metadata(pairs ...string) string {
	var parts []string
	for i := 0; i < len(pairs); i += 2 {
		parts = append(parts, pairs[i]+" "+base64.StdEncoding.EncodeToString([]byte(pairs[i+1])))
	}
	return strings.Join(parts, ",")
}

// breaking gives its bytes and then, instead of an end, an error, as soon as the server has some of them: before that, a server that is closed may not
// have seen the request at all.
type breaking struct {
	io.Reader
	arrived func() bool
}

func (b breaking) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		for !b.arrived() {
			runtime.Gosched()
		}
		err = errors.New("the cable was pulled")
	}
	return n, err
}

// An upload breaks off, the server restarts, and the client goes on where the server says it is.
func TestInterruptedUploadResumesAfterARestart(t *testing.T) {
	url := pgtest.New(t)
	h := uploading(t, url, server.Config{UploadBytes: 8 << 20})
	options := h.tus(http.MethodOptions, "/v1/uploads", nil)
	require.Equal(t, 204, options.StatusCode)
	require.Equal(t, "creation,termination", options.Header.Get("Tus-Extension"))
	require.Equal(t, fmt.Sprint(8<<20), options.Header.Get("Tus-Max-Size"))

	content := []byte(strings.Repeat("Employees get 30 days of paid leave. ", 80_000)) // three pieces
	size := fmt.Sprint(len(content))
	created := h.tus(http.MethodPost, "/v1/uploads", nil, "Upload-Length", size, "Upload-Metadata", metadata("corpus", "hr", "path", "hr/leave 😀.txt"), "Idempotency-Key", "one")
	require.Equal(t, 201, created.StatusCode)
	location := created.Header.Get("Location")
	arrived := func() bool { // a refusal, by a machine under load, has no offset
		head := h.tus(http.MethodHead, location, nil)
		return head != nil && head.StatusCode == 200 && head.Header.Get("Upload-Offset") != "0"
	}
	require.Nil(t, h.tus(http.MethodPatch, location, breaking{bytes.NewReader(content[:1_200_000]), arrived}, "Upload-Offset", "0", "Content-Type", "application/offset+octet-stream"))
	h.stop()

	h = uploading(t, url, server.Config{UploadBytes: 8 << 20})
	again := h.tus(http.MethodPost, "/v1/uploads", nil, "Upload-Length", size, "Upload-Metadata", metadata("corpus", "hr", "path", "hr/leave 😀.txt"), "Idempotency-Key", "one")
	require.Equal(t, 200, again.StatusCode, "begun already")
	require.Equal(t, location, again.Header.Get("Location"))
	head := h.tus(http.MethodHead, location, nil)
	require.Equal(t, 200, head.StatusCode)
	require.Equal(t, size, head.Header.Get("Upload-Length"))
	offset := 0
	_, err := fmt.Sscan(head.Header.Get("Upload-Offset"), &offset)
	require.NoError(t, err)
	require.Positive(t, offset)
	require.LessOrEqual(t, offset, 1_200_000)
	require.Equal(t, 409, h.tus(http.MethodPatch, location, strings.NewReader("x"), "Upload-Offset", "5", "Content-Type", "application/offset+octet-stream").StatusCode)
	done := h.tus(http.MethodPatch, location, bytes.NewReader(content[offset:]), "Upload-Offset", fmt.Sprint(offset), "Content-Type", "application/offset+octet-stream")
	require.Equal(t, 204, done.StatusCode)
	require.Equal(t, size, done.Header.Get("Upload-Offset"))
	id := done.Header.Get("Ragd-Document-Id")
	document := h.get("/v1/documents/" + id).json(t)
	require.Equal(t, "hr/leave 😀.txt", document["path"])
	require.EqualValues(t, len(content), document["size"])
	jobs := h.get("/v1/jobs?corpus=hr").json(t)["jobs"].([]any)
	require.Len(t, jobs, 1, "it is long, and in work still")
	require.Equal(t, id, fmt.Sprint(jobs[0].(map[string]any)["document_id"]))
	h.stop()
}

func TestUploadsThatAreRefused(t *testing.T) {
	h := uploading(t, pgtest.New(t), server.Config{UploadBytes: 1000})
	defer h.stop()
	ok := metadata("path", "a.txt")
	for name, c := range map[string]struct {
		length, metadata string
		status           int
	}{
		"no length":        {"", ok, 400},
		"negative":         {"-1", ok, 400},
		"too large":        {"1001", ok, 413},
		"no name":          {"5", "", 400},
		"not base64":       {"5", "path !!!", 400},
		"bad corpus":       {"5", metadata("path", "a", "corpus", "a/b"), 400},
		"bad path":         {"5", metadata("path", "a\x00"), 400},
		"filename will do": {"5", metadata("filename", "../a.txt"), 201},
	} {
		require.Equal(t, c.status, h.tus(http.MethodPost, "/v1/uploads", nil, "Upload-Length", c.length, "Upload-Metadata", c.metadata).StatusCode, name)
	}
	require.Equal(t, 412, h.tus(http.MethodPost, "/v1/uploads", nil, "Tus-Resumable", "0.2.2", "Upload-Length", "5", "Upload-Metadata", ok).StatusCode)
	require.Equal(t, 404, h.tus(http.MethodHead, "/v1/uploads/unknown", nil).StatusCode)
	empty := h.tus(http.MethodPost, "/v1/uploads", nil, "Upload-Length", "0", "Upload-Metadata", ok)
	require.Equal(t, 201, empty.StatusCode)
	require.NotEmpty(t, empty.Header.Get("Ragd-Document-Id"), "an empty file is complete at once")
	created := h.tus(http.MethodPost, "/v1/uploads", nil, "Upload-Length", "5", "Upload-Metadata", ok).Header.Get("Location")
	require.Equal(t, 415, h.tus(http.MethodPatch, created, strings.NewReader("12345"), "Upload-Offset", "0", "Content-Type", "text/plain").StatusCode)
	require.Equal(t, 413, h.tus(http.MethodPatch, created, strings.NewReader("123456"), "Upload-Offset", "0", "Content-Type", "application/offset+octet-stream").StatusCode)
	require.Equal(t, 204, h.tus(http.MethodDelete, created, nil).StatusCode)
	require.Equal(t, 404, h.tus(http.MethodHead, created, nil).StatusCode)
}

// The same request with the same key happens once.
func TestIdempotencyKey(t *testing.T) {
	h := uploading(t, pgtest.New(t), server.Config{})
	defer h.stop()
	h.header.Set("Idempotency-Key", "k1")
	first := h.upload(field{"path", "", "a.txt"}, field{"file", "x", "Some text."})
	require.Equal(t, 202, first.StatusCode)
	id := first.json(t)["id"]
	again := h.upload(field{"file", "x", "Some text."}, field{"path", "", "a.txt"})
	require.Equal(t, 202, again.StatusCode)
	require.Equal(t, id, again.json(t)["id"])
	other := h.upload(field{"path", "", "a.txt"}, field{"file", "x", "Other text."})
	require.Equal(t, 422, other.StatusCode)
	require.Equal(t, "idempotency_key_reused", other.code(t))
	h.header.Del("Idempotency-Key")
	require.Equal(t, id, h.upload(field{"path", "", "a.txt"}, field{"file", "x", "Other text."}).json(t)["id"], "without a key it replaces")
}

func TestJobsRetryAndCancel(t *testing.T) {
	h := uploading(t, pgtest.New(t), server.Config{})
	defer h.stop()
	failed := h.upload(field{"file", "broken.pdf", "%PDF-1.4 broken"}).json(t)["id"]
	var jobs []any
	require.Eventually(t, func() bool {
		jobs = h.get("/v1/jobs?corpus=default").json(t)["jobs"].([]any)
		return len(jobs) == 1 && jobs[0].(map[string]any)["state"] == "failed"
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, "corrupt", jobs[0].(map[string]any)["error_class"])
	require.EqualValues(t, 1, h.post(fmt.Sprintf("/v1/documents/%v/retry", failed), "").json(t)["retried"])
	require.Equal(t, 200, h.post(fmt.Sprintf("/v1/documents/%v/cancel", failed), "").StatusCode, "it may be in work again, or not")
	require.Equal(t, 404, h.post("/v1/documents/999999/retry", "").StatusCode)
	require.Equal(t, 400, h.get("/v1/jobs?limit=0").StatusCode)
}
