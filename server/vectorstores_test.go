package server_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/internal/pgtest"
	"ragd/server"
	"ragd/store"
)

// sendFile uploads to /v1/files as the SDKs do.
func (h *harness) sendFile(name, purpose, content string) reply {
	h.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", name)
	require.NoError(h.T, err)
	_, err = part.Write([]byte(content))
	require.NoError(h.T, err)
	require.NoError(h.T, form.WriteField("purpose", purpose))
	require.NoError(h.T, form.Close())
	request := h.request(h.Context(), http.MethodPost, "/v1/files", &body)
	request.Header.Set("Content-Type", form.FormDataContentType())
	return h.send(request)
}

// From a file to a vector store to an answer with citations, by the routes of OpenAI's API.
func TestFilesVectorStoresAndResponses(t *testing.T) {
	h, db := whole(t, pgtest.New(t), server.Config{})
	file := h.sendFile("leave 😀.txt", "assistants", "Employees get 30 days of paid leave. Ask the office for more.").json(t)
	id := file["id"].(string)
	require.Equal(t, "leave 😀.txt", file["filename"])
	require.Equal(t, "Employees get 30 days of paid leave. Ask the office for more.", string(h.get("/v1/files/"+id+"/content").body))
	require.Len(t, h.get("/v1/files").json(t)["data"], 1)
	require.Empty(t, h.get("/v1/files?after=" + id).json(t)["data"])

	made := h.post("/v1/vector_stores", `{"name":"Human resources!","file_ids":["`+id+`"]}`).json(t)
	require.Equal(t, "vs_Human-resources", made["id"])
	again := h.post("/v1/vector_stores", `{"name":"Human resources!"}`).json(t)["id"].(string)
	require.NotEqual(t, made["id"], again)
	vs := "/v1/vector_stores/vs_Human-resources"
	require.Eventually(t, func() bool { return h.get(vs + "/files/" + id).json(t)["status"] == "completed" }, time.Minute, 20*time.Millisecond)
	require.Equal(t, "completed", h.get(vs).json(t)["status"])
	require.Len(t, h.get("/v1/vector_stores").json(t)["data"], 2)
	require.Equal(t, 202, h.upload(field{"corpus", "", "Human-resources"}, field{"file", "native.txt", "The office is closed on Sundays."}).StatusCode)
	require.Eventually(t, func() bool { return len(h.get("/v1/documents?state=live").json(t)["documents"].([]any)) == 2 }, time.Minute, 20*time.Millisecond)
	listed := h.get(vs + "/files?limit=1").json(t)
	require.Equal(t, id, listed["last_id"])
	require.Equal(t, true, listed["has_more"])
	listed = h.get(vs + "/files?after=" + id).json(t)
	require.Regexp(t, `^doc-\d+$`, listed["first_id"])

	found := h.post(vs+"/search", `{"query":"days of leave","max_num_results":1}`).json(t)["data"].([]any)
	require.Len(t, found, 1)
	require.Equal(t, id, found[0].(map[string]any)["file_id"])
	require.Equal(t, "leave 😀.txt", found[0].(map[string]any)["filename"])

	const ask = `{"input":"How many days of leave?","instructions":"Be brief.","include":["file_search_call.results"],"tools":[{"type":"file_search","vector_store_ids":["vs_Human-resources"]}]`
	whole := h.post("/v1/responses", ask+`}`)
	require.Equal(t, 200, whole.StatusCode, "%s", whole.body)
	output := whole.json(t)["output"].([]any)
	require.Equal(t, "file_search_call", output[0].(map[string]any)["type"])
	require.NotEmpty(t, output[0].(map[string]any)["results"])
	part := output[1].(map[string]any)["content"].([]any)[0].(map[string]any)
	for _, note := range part["annotations"].([]any) {
		require.LessOrEqual(t, int(note.(map[string]any)["index"].(float64)), len([]rune(part["text"].(string))))
	}
	var kinds []string
	var text strings.Builder
	for i, e := range parseEvents(h.post("/v1/responses", ask+`,"stream":true}`).body) {
		body := e.json(t)
		require.Equal(t, e.name, body["type"])
		require.EqualValues(t, i, body["sequence_number"])
		kinds = append(kinds, e.name)
		if e.name == "response.output_text.delta" {
			text.WriteString(body["delta"].(string))
		}
	}
	require.NotEmpty(t, text.String())
	require.Equal(t, []string{"response.created", "response.in_progress", "response.output_item.added", "response.file_search_call.in_progress",
		"response.file_search_call.searching", "response.file_search_call.completed", "response.output_item.done", "response.output_item.added", "response.content_part.added"}, kinds[:9])
	require.Contains(t, []string{"response.completed", "response.incomplete"}, kinds[len(kinds)-1])
	require.Equal(t, 1, len(slices.DeleteFunc(kinds, func(k string) bool { return k != "response.output_text.done" })))

	plain := h.post("/v1/responses", `{"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}],"max_output_tokens":3}`).json(t)
	require.Equal(t, "incomplete", plain["status"])
	for body, want := range map[string]string{
		`{"input":5}`: "input", `{}`: "input",
		`{"input":"x","tools":[{"type":"web_search"}]}`:                                                                    "web_search",
		`{"input":"x","tools":[{"type":"file_search"}]}`:                                                                   "vector_store_ids",
		`{"input":"x","tools":[{"type":"file_search","vector_store_ids":["x"]}]}`:                                          "vector store",
		`{"input":"x","tools":[{"type":"file_search","vector_store_ids":["vs_a"],"filters":{"type":"eq"}}]}`:               "filters",
		`{"input":"x","previous_response_id":"resp_1"}`:                                                                    "not kept",
		`{"input":"x","text":{"format":{"type":"json_schema","schema":{"type":"object","patternProperties":{"a":true}}}}}`: "patternProperties",
	} {
		got := h.post("/v1/responses", body)
		require.Equal(t, 400, got.StatusCode, body)
		require.Contains(t, got.message(t), want)
	}
	require.Equal(t, 404, h.post("/v1/responses", `{"input":"x","tools":[{"type":"file_search","vector_store_ids":["vs_none"]}]}`).StatusCode)

	// A key confined to a corpus sees that vector store only, and no files.
	narrow := h.with(makeKey(t, db, store.Key{Name: "narrow", Actions: server.Actions, Corpora: []string{strings.TrimPrefix(again, "vs_")}}))
	require.Len(t, narrow.get("/v1/vector_stores").json(t)["data"], 1)
	for _, path := range []string{vs, vs + "/files", vs + "/files/" + id} {
		require.Equal(t, 404, narrow.get(path).StatusCode, path)
	}
	require.Equal(t, 403, narrow.get("/v1/files").StatusCode)
	other := h.with(makeKey(t, db, store.Key{Tenant: "other", Name: "other", Actions: server.Actions}))
	for _, path := range []string{vs, "/v1/files/" + id, "/v1/files/" + id + "/content"} {
		require.Equal(t, 404, other.get(path).StatusCode, path)
	}

	for _, path := range []string{"/v1/files/file-99", "/v1/files/x", "/v1/vector_stores/x", vs + "/files/file-99", vs + "/files/doc-999", vs + "/files/x"} {
		require.Equal(t, 404, h.get(path).StatusCode, path)
	}
	require.Equal(t, true, h.delete("/v1/files/" + id).json(t)["deleted"])
	require.Len(t, h.get(vs + "/files").json(t)["data"], 1, "the document made of it went with the file")
	native := h.get(vs + "/files").json(t)["first_id"]
	require.Equal(t, 200, h.delete(fmt.Sprintf("%s/files/%v", vs, native)).StatusCode)
	require.Equal(t, 200, h.delete(vs).StatusCode)
	require.Equal(t, 404, h.get(vs).StatusCode)
	require.Equal(t, 201, h.post("/v1/corpora", `{"name":"empty"}`).StatusCode)
	require.Equal(t, 400, h.post("/v1/corpora", `{"name":"../x"}`).StatusCode)
	require.Equal(t, 204, h.delete("/v1/corpora/empty").StatusCode)
	require.Equal(t, 404, h.delete("/v1/corpora/empty").StatusCode)
}
