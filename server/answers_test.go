package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/png"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/internal/pgtest"
	"ragd/server"
	"ragd/store"
)

func TestAnswersAreKeptInspectedAndJudged(t *testing.T) {
	h, db := whole(t, pgtest.New(t), server.Config{})
	require.Equal(t, 202, h.upload(field{"corpus", "", "hr"}, field{"file", "leave.txt", "Employees get 30 days of paid leave."}).StatusCode)
	require.Eventually(t, func() bool { return len(h.get("/v1/documents?state=live").json(t)["documents"].([]any)) == 1 }, time.Minute, 20*time.Millisecond)
	answer := h.post("/v1/ask", `{"question":"How many days of paid leave do employees get?","corpora":["hr"]}`).json(t)
	id := answer["id"].(string)
	record := h.get("/v1/answers/" + id)
	require.Equal(t, 200, record.StatusCode, "%s", record.body)
	kept := record.json(t)
	require.Equal(t, answer["text"], kept["answer"].(map[string]any)["text"])
	require.Equal(t, []any{"hr"}, kept["corpora"])
	require.Equal(t, string(record.body), string(h.get("/v1/answers/"+id).body))

	feedback := "/v1/answers/" + id + "/feedback"
	require.Equal(t, 204, h.post(feedback, `{"good":false,"comment":"no number","expected":"30 days"}`).StatusCode)
	require.Equal(t, 400, h.post(feedback, `{"comment":"x"}`).StatusCode)
	require.Equal(t, 404, h.post("/v1/answers/none/feedback", `{"good":true}`).StatusCode)
	lines := strings.Split(strings.TrimSpace(string(h.get("/v1/feedback").body)), "\n")
	require.Len(t, lines, 1)
	var line map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &line))
	require.Equal(t, []any{"30 days"}, line["answers"])
	require.Equal(t, "How many days of paid leave do employees get?", line["text"])

	other := h.with(makeKey(t, db, store.Key{Tenant: "other", Name: "o", Actions: server.Actions}))
	require.Equal(t, 404, other.get("/v1/answers/"+id).StatusCode)
	require.Empty(t, other.get("/v1/feedback").body)
	narrow := h.with(makeKey(t, db, store.Key{Name: "n", Actions: server.Actions, Corpora: []string{"else"}}))
	require.Equal(t, 404, narrow.get("/v1/answers/"+id).StatusCode)
	require.Empty(t, narrow.get("/v1/feedback").body)

	document := h.get("/v1/documents").json(t)["documents"].([]any)[0].(map[string]any)["id"]
	require.Equal(t, 404, h.get(fmt.Sprintf("/v1/documents/%v/pages/1", document)).StatusCode, "a text has no pages")
	require.Equal(t, 204, h.delete(fmt.Sprintf("/v1/documents/%v", document)).StatusCode)
	require.Equal(t, 404, h.get("/v1/answers/"+id).StatusCode, "the record quotes the document and goes with it")
}

// A stream that broke goes on behind the last event that came, on whatever server; when the client has other events than there are now, all come again.
func TestStreamsResume(t *testing.T) {
	h := serve(t, sample, server.Config{})
	const body = `{"question":"x","stream":true}`
	all := parseEvents(h.post("/v1/ask", body).body)
	for _, at := range []int{0, 3, len(all) - 2} {
		h.header = http.Header{"Last-Event-Id": {all[at].id}}
		rest := parseEvents(h.post("/v1/ask", body).body)
		require.Equal(t, all[at+1].data, rest[0].data)
		require.Len(t, rest, len(all)-at-1)
	}
	h.header = http.Header{"Last-Event-Id": {all[3].id}}
	again := parseEvents(h.post("/v1/ask", strings.Replace(body, "x", "y", 1)).body)
	require.Len(t, again, len(all)-4, "the events so far do not depend on the question")
	wrong := all[3].id[:len(all[3].id)-16] + "0000000000000000"
	h.header = http.Header{"Last-Event-Id": {wrong}}
	again = parseEvents(h.post("/v1/ask", body).body)
	require.Equal(t, "restart", again[0].name)
	require.Len(t, again, len(all)+1)
	for _, nonsense := range []string{"", "x", "a-b-c", "x-999999-0", "-1-1"} {
		h.header = http.Header{"Last-Event-Id": {nonsense}}
		again = parseEvents(h.post("/v1/ask", body).body)
		require.Equal(t, "done", again[len(again)-1].name, nonsense)
	}
}

func TestPagesOfAPDF(t *testing.T) {
	data, err := os.ReadFile("../examples/travel-policy.pdf")
	require.NoError(t, err)
	h, db := whole(t, pgtest.New(t), server.Config{})
	require.Equal(t, 202, h.upload(field{"corpus", "", "pdf"}, field{"file", "a.pdf", string(data)}).StatusCode)
	require.Eventually(t, func() bool { return len(h.get("/v1/documents?state=live").json(t)["documents"].([]any)) == 1 }, time.Minute, 50*time.Millisecond)
	id := h.get("/v1/documents").json(t)["documents"].([]any)[0].(map[string]any)["id"]
	page := fmt.Sprintf("/v1/documents/%v/pages/1?width=400", id)
	plain := h.get(page)
	require.Equal(t, 200, plain.StatusCode, "%s", plain.body)
	require.Equal(t, "image/png", plain.Header.Get("Content-Type"))
	picture, err := png.Decode(bytes.NewReader(plain.body))
	require.NoError(t, err)
	require.InDelta(t, 400, picture.Bounds().Dx(), 1)
	marked := h.get(page + "&start=0&end=20")
	require.False(t, slices.Equal(plain.body, marked.body), "the words are marked")
	boxes := h.get(fmt.Sprintf("/v1/documents/%v/boxes?start=0&end=20", id)).json(t)["pages"].([]any)
	require.NotEmpty(t, boxes)
	require.Equal(t, 404, h.get(fmt.Sprintf("/v1/documents/%v/pages/999", id)).StatusCode)
	for _, bad := range []string{"pages/0", "pages/x", "pages/1?width=9", "pages/1?width=99999", "boxes", "boxes?start=5&end=1"} {
		require.Equal(t, 400, h.get(fmt.Sprintf("/v1/documents/%v/%s", id, bad)).StatusCode, bad)
	}
	other := h.with(makeKey(t, db, store.Key{Tenant: "other", Name: "o", Actions: server.Actions}))
	require.Equal(t, 404, other.get(page).StatusCode)
}
