package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/ingest"
	"ragd/server"
	"ragd/store"
)

// field is one part of a form; a file has a name.
type field struct{ name, file, content string }

func (h *harness) upload(fields ...field) reply {
	h.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, f := range fields {
		header := textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf(`form-data; name=%q`, f.name)}}
		if f.file != "" {
			header.Set("Content-Disposition", fmt.Sprintf(`form-data; name=%q; filename="%s"`, f.name, f.file))
		}
		part, err := form.CreatePart(header)
		require.NoError(h.T, err)
		_, err = part.Write([]byte(f.content))
		require.NoError(h.T, err)
	}
	require.NoError(h.T, form.Close())
	request := h.request(h.Context(), http.MethodPost, "/v1/documents", &body)
	request.Header.Set("Content-Type", form.FormDataContentType())
	return h.send(request)
}

func TestUpload(t *testing.T) {
	file := field{"file", "report.txt", "text"}
	for name, c := range map[string]struct {
		fields       []field
		corpus, path string
	}{
		"file alone":         {[]field{file}, "default", "report.txt"},
		"fields first":       {[]field{{"corpus", "", "hr"}, {"path", "", "a/b.txt"}, file}, "hr", "a/b.txt"},
		"file first":         {[]field{file, {"path", "", "a/b.txt"}, {"corpus", "", " hr "}}, "hr", "a/b.txt"},
		"empty file":         {[]field{{"file", "empty.txt", ""}}, "default", "empty.txt"},
		"climbing path":      {[]field{{"path", "", "../../etc/passwd"}, file}, "default", "etc/passwd"},
		"absolute path":      {[]field{{"path", "", "/etc//./passwd"}, file}, "default", "etc/passwd"},
		"windows path":       {[]field{{"path", "", `C:\docs\..\a.txt`}, file}, "default", "C:/a.txt"},
		"file name with dir": {[]field{{"file", "../x/report.txt", "text"}}, "default", "report.txt"},
		"unicode":            {[]field{{"path", "", "人事/Übersicht 😀.md"}, file}, "default", "人事/Übersicht 😀.md"},
	} {
		t.Run(name, func(t *testing.T) {
			h := serve(t, sample, server.Config{})
			got := h.upload(c.fields...)
			require.Equal(t, 202, got.StatusCode, "%s", got.body)
			require.Equal(t, "/v1/documents/11", got.Header.Get("Location"))
			require.Equal(t, c.corpus, h.added[0].Corpus)
			require.Equal(t, c.path, h.added[0].Path)
			require.Equal(t, "received", got.json(t)["state"])
			require.Equal(t, 200, h.get("/v1/documents/11").StatusCode)
		})
	}
}

func TestUploadOfTheSameBytesIsNoNews(t *testing.T) {
	h := serve(t, sample, server.Config{})
	h.outcome = ingest.Unchanged
	got := h.upload(field{"file", "a.txt", "x"})
	require.Equal(t, 200, got.StatusCode)
	require.Equal(t, "live", got.json(t)["state"])
}

func TestUploadRefuses(t *testing.T) {
	file := field{"file", "a.txt", "text"}
	for name, c := range map[string]struct {
		fields []field
		want   string
	}{
		"no file":            {[]field{{"corpus", "", "x"}}, "no field named file"},
		"two files":          {[]field{file, file}, "more than one file"},
		"unknown field":      {[]field{file, {"tags", "", "x"}}, `field \"tags\"`},
		"corpus with slash":  {[]field{{"corpus", "", "a/b"}, file}, "1 to 64 letters"},
		"corpus too long":    {[]field{{"corpus", "", strings.Repeat("a", 65)}, file}, "1 to 64 letters"},
		"corpus empty":       {[]field{{"corpus", "", ""}, file}, "1 to 64 letters"},
		"control characters": {[]field{{"path", "", "a\x00b\n"}, file}, "no control characters"},
		"invalid UTF-8":      {[]field{{"path", "", "a\xff"}, file}, "UTF-8"},
		"endless path":       {[]field{{"path", "", strings.Repeat("a", 1<<20)}, file}, "4096 bytes"},
		"only dots":          {[]field{{"path", "", "../.."}, {"file", "..", "x"}}, "no name"},
	} {
		t.Run(name, func(t *testing.T) {
			h := serve(t, sample, server.Config{})
			got := h.upload(c.fields...)
			require.Equal(t, 400, got.StatusCode, "%s", got.body)
			require.Contains(t, string(got.body), c.want)
			require.Empty(t, h.added)
		})
	}
	h := serve(t, sample, server.Config{UploadBytes: 1000})
	require.Equal(t, 400, h.post("/v1/documents", `{}`).StatusCode, "not a form")
	cut := h.request(t.Context(), http.MethodPost, "/v1/documents", strings.NewReader("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\ntext"))
	cut.Header.Set("Content-Type", "multipart/form-data; boundary=b")
	require.Equal(t, 400, h.send(cut).StatusCode, "cut off")
	got := h.upload(field{"file", "a.txt", strings.Repeat("x", 2000)})
	require.Equal(t, 413, got.StatusCode)
	require.Equal(t, "too_large", got.code(t))
	require.Empty(t, h.added)
}

func TestRefusalsOfThePipeline(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{&ingest.Error{Class: ingest.Unsupported, Message: "a.exe: programs are not read"}, 415, "unsupported"},
		{&ingest.Error{Class: ingest.TooLarge, Message: "a.txt is too large"}, 413, "too_large"},
		{&ingest.Error{Class: ingest.TooDeep, Message: "a.zip is nested too deep"}, 422, "too_deep"},
		{&ingest.Error{Class: ingest.Encrypted, Message: "a.pdf is encrypted"}, 422, "encrypted"},
		{fmt.Errorf("store: receive: %w", fmt.Errorf("corpus made with another model: %w", store.ErrIndexMismatch)), 409, "index_mismatch"},
		{fmt.Errorf("store: receive: %w", store.ErrUnavailable), 503, "database_unavailable"},
		{errors.New("disk full"), 500, "internal"},
	} {
		h := serve(t, sample, server.Config{})
		h.refusal = c.err
		got := h.upload(field{"file", "a", "x"})
		require.Equal(t, c.status, got.StatusCode)
		require.Equal(t, c.code, got.code(t))
	}
}

func TestDocuments(t *testing.T) {
	h := serve(t, sample, server.Config{})
	require.Equal(t, []any{}, h.get("/v1/documents").json(t)["documents"])
	h.documents = []store.Document{
		{ID: 1, Corpus: "a", Path: "1.txt", State: ingest.Live, Live: true, Tags: []string{"x"}, Language: "en", Kind: "text"},
		{ID: 2, Corpus: "a", Path: "2.txt", State: ingest.Failed, Error: "2.txt is encrypted", ErrorClass: ingest.Encrypted, Warnings: []string{"w"}},
		{ID: 3, Corpus: "b", Path: "3.txt", State: ingest.Live, Live: true},
	}
	h.corpora = []store.Corpus{{Name: "a", Index: h.Index(), Documents: 1, Failed: 1, Passages: 9}}
	ids := func(query string) (all []any) {
		body := h.get("/v1/documents" + query).json(t)
		for _, d := range body["documents"].([]any) {
			all = append(all, d.(map[string]any)["id"])
		}
		return append(all, body["has_more"])
	}
	require.Equal(t, []any{1., 2., 3., false}, ids(""))
	require.Equal(t, []any{1., 2., false}, ids("?corpus=a"))
	require.Equal(t, []any{2., false}, ids("?state=failed"))
	require.Equal(t, []any{1., 2., true}, ids("?limit=2"))
	require.Equal(t, []any{3., false}, ids("?after=2&limit=2"))
	for _, query := range []string{"?limit=0", "?limit=1001", "?limit=x", "?after=-1", "?after=x", "?state=odd", "?state=%00"} {
		require.Equal(t, 400, h.get("/v1/documents"+query).StatusCode, query)
	}
	require.Equal(t, "a", h.get("/v1/corpora").json(t)["corpora"].([]any)[0].(map[string]any)["name"])
	require.Equal(t, "encrypted", h.get("/v1/documents/2").json(t)["error_class"])

	for _, id := range []string{"0", "-1", "x", "99999999999999999999", "1.5", "%00"} {
		require.Equal(t, 400, h.get("/v1/documents/"+id).StatusCode, id)
		require.Equal(t, 400, h.get("/v1/passages/"+id).StatusCode, id)
	}
	require.Equal(t, 404, h.get("/v1/documents/99").StatusCode)
	remove := func(id string) int {
		return h.send(h.request(t.Context(), http.MethodDelete, "/v1/documents/"+id, nil)).StatusCode
	}
	require.Equal(t, 204, remove("1"))
	require.Equal(t, 404, remove("1"))
	require.Equal(t, 404, h.get("/v1/documents/1").StatusCode)
	h.failure = fmt.Errorf("store: %w", store.ErrUnavailable)
	for _, path := range []string{"/v1/documents", "/v1/documents/2", "/v1/corpora", "/v1/passages/7"} {
		require.Equal(t, 503, h.get(path).StatusCode, path)
	}
	require.Equal(t, 503, remove("2"))
}

func TestPassage(t *testing.T) {
	h := serve(t, sample, server.Config{})
	body := h.get("/v1/passages/7").json(t)
	require.Equal(t, sampleBefore, body["before"])
	require.Equal(t, sampleText, body["text"])
	require.Equal(t, sampleAfter, body["after"])
	require.Equal(t, []any{100., float64(100 + len(sampleText)), 2., true}, []any{body["start"], body["end"], body["page"], body["current"]})
	got := h.get("/v1/passages/8")
	require.Equal(t, 404, got.StatusCode)
	require.Equal(t, "passage 8: not found", got.message(t))
}

func TestSearch(t *testing.T) {
	h := serve(t, sample, server.Config{})
	body := h.post("/v1/search", `{"query":"days","corpora":["handbook"]}`).json(t)
	require.Equal(t, []string{"handbook"}, h.searched[0].Corpora)
	result := body["results"].([]any)[0].(map[string]any)
	require.Equal(t, 1., result["rank"])
	require.Equal(t, 3.5, result["lexical"])
	require.NotContains(t, result, "marker")
	require.NotContains(t, result, "dense")
	for _, bad := range []string{`{}`, `{"query":" "}`, `{"query":"x","limit":101}`, `{"query":"x","limit":-1}`, `{"query":"x","k":3}`} {
		require.Equal(t, 400, h.post("/v1/search", bad).StatusCode, bad)
	}
	require.Equal(t, 404, h.post("/v1/search", `{"query":"missing corpus"}`).StatusCode)
}

func TestRerank(t *testing.T) {
	h := serve(t, sample, server.Config{})
	got := h.post("/v1/rerank", `{"model":"any","query":"q","documents":["a",{"text":"aaa"},"aa"],"top_n":2,"return_documents":true,"max_chunks_per_doc":3}`)
	require.JSONEq(t, `{"results":[{"index":1,"relevance_score":3,"document":{"text":"aaa"}},{"index":2,"relevance_score":2,"document":{"text":"aa"}}]}`, string(got.body))
	got = h.post("/v1/rerank", `{"query":"q","documents":["b","a"]}`)
	require.JSONEq(t, `{"results":[{"index":0,"relevance_score":1},{"index":1,"relevance_score":1}]}`, string(got.body), "equal scores keep their order")
	for _, bad := range []string{`{"query":"q"}`, `{"query":"","documents":["a"]}`, `{"query":"q","documents":[5]}`, `{"query":"q","documents":[null]}`, `{"query":"q","documents":[{}]}`, `{"query":"q","documents":["a"],"top_n":-1}`} {
		require.Equal(t, 400, h.post("/v1/rerank", bad).StatusCode, bad)
	}
	parts, f := newParts(t, answerFunc(sample))
	parts.Reranker = nil
	got = serveParts(t, parts, f, server.Config{}).post("/v1/rerank", `{"query":"q","documents":["a"]}`)
	require.Equal(t, 501, got.StatusCode)
}
