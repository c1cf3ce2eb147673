package server_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/answer"
	"ragd/server"
)

func TestChatFromDocuments(t *testing.T) {
	h := serve(t, sample, server.Config{})
	got := h.post("/v1/chat/completions", `{"model":"any","corpora":["handbook"],"messages":[{"role":"system","content":"s"},{"role":"user","content":"q1"},{"role":"assistant","content":"a1"},
		{"role":"user","content":[{"type":"text","text":"How many "},{"type":"text","text":"days?"}]}],"max_completion_tokens":50,"user":"u","metadata":{}}`)
	require.Equal(t, 200, got.StatusCode, "%s", got.body)
	q := h.questions[0]
	require.Equal(t, "How many days?", q.Text)
	require.Equal(t, []answer.Turn{{Question: "q1", Answer: "a1"}}, q.History)
	require.Equal(t, []string{"handbook"}, q.Filter.Corpora)
	require.Equal(t, 50, q.MaxTokens)
	require.Zero(t, q.Sampling.Temperature, "reproducible unless asked otherwise")

	body := got.json(t)
	choice := body["choices"].([]any)[0].(map[string]any)
	require.Equal(t, "stop", choice["finish_reason"])
	message := choice["message"].(map[string]any)
	content := []rune(message["content"].(string))
	annotation := message["annotations"].([]any)[0].(map[string]any)["url_citation"].(map[string]any)
	// Offsets are code points here, in front of which stands a character of four bytes.
	require.Equal(t, "🎉 You get 30 days of leave", string(content[int(annotation["start_index"].(float64)):int(annotation["end_index"].(float64))]))
	second := message["annotations"].([]any)[1].(map[string]any)["url_citation"].(map[string]any)
	require.Equal(t, "Ask the 人事部", string(content[int(second["start_index"].(float64)):int(second["end_index"].(float64))]))
	require.Equal(t, "/v1/passages/7", annotation["url"])
	require.Equal(t, sampleQuote, annotation["quote"])
	require.Equal(t, map[string]any{"prompt_tokens": 1100., "completion_tokens": 16., "total_tokens": 1116., "prompt_tokens_details": map[string]any{"cached_tokens": 200.}}, body["usage"])

	h.post("/v1/chat/completions", `{"corpora":["*"],"messages":[{"role":"user","content":"x"}],"temperature":0.7}`)
	require.Empty(t, h.questions[1].Filter.Corpora)
	require.InDelta(t, 0.7, h.questions[1].Sampling.Temperature, 1e-6)
}

// chunks reads a chat stream: its chunks, each held against the description, and whether it ended with [DONE].
func chunks(t *testing.T, body []byte) (all []map[string]any) {
	events := parseEvents(body)
	require.Equal(t, "[DONE]", events[len(events)-1].data)
	for _, e := range events[:len(events)-1] {
		require.Empty(t, e.name, "OpenAI's clients know no names")
		require.Empty(t, e.id)
		require.NoError(t, description(t).check("POST", "/v1/chat/completions", 200, []byte(e.data)))
		all = append(all, e.json(t))
	}
	return all
}

func TestChatStreamsFromDocuments(t *testing.T) {
	h := serve(t, sample, server.Config{})
	got := h.post("/v1/chat/completions", `{"corpora":["*"],"messages":[{"role":"user","content":"x"}],"stream":true,"stream_options":{"include_usage":true}}`)
	require.Equal(t, "text/event-stream; charset=utf-8", got.Header.Get("Content-Type"))
	all := chunks(t, got.body)
	var text strings.Builder
	for i, chunk := range all[:len(all)-1] {
		require.Equal(t, "chat.completion.chunk", chunk["object"])
		require.Equal(t, all[0]["id"], chunk["id"])
		choice := chunk["choices"].([]any)[0].(map[string]any)
		delta := choice["delta"].(map[string]any)
		text.WriteString(delta["content"].(string))
		require.Equal(t, i == 0, delta["role"] == "assistant")
		last := i == len(all)-2
		require.Equal(t, last, choice["finish_reason"] == "stop")
		require.Equal(t, last, delta["annotations"] != nil)
	}
	require.Equal(t, sampleAnswer().Text, text.String())
	usage := all[len(all)-1]
	require.Equal(t, []any{}, usage["choices"])
	require.Equal(t, 1116., usage["usage"].(map[string]any)["total_tokens"])

	all = chunks(t, h.post("/v1/chat/completions", `{"corpora":["*"],"messages":[{"role":"user","content":"x"}],"stream":true}`).body)
	require.NotContains(t, all[len(all)-1], "usage")
}

func TestChatWithTheModel(t *testing.T) {
	h := serve(t, sample, server.Config{})
	const request = `{"messages":[{"role":"developer","content":"s"},{"role":"user","content":"hello 😀"}],"temperature":0,"max_tokens":12,"stream":STREAM,"stream_options":{"include_usage":true}}`
	whole := h.post("/v1/chat/completions", strings.Replace(request, "STREAM", "false", 1))
	require.Equal(t, 200, whole.StatusCode, "%s", whole.body)
	body := whole.json(t)
	require.Equal(t, "tiny", body["model"])
	require.Equal(t, testEngine(t).Fingerprint(), body["system_fingerprint"])
	choice := body["choices"].([]any)[0].(map[string]any)
	require.Contains(t, []any{"length", "stop"}, choice["finish_reason"])
	require.Empty(t, h.questions, "the documents were not asked")
	usage := body["usage"].(map[string]any)
	require.Positive(t, usage["prompt_tokens"])
	require.LessOrEqual(t, usage["completion_tokens"], 12.)

	all := chunks(t, h.post("/v1/chat/completions", strings.Replace(request, "STREAM", "true", 1)).body)
	var text strings.Builder
	for _, chunk := range all[:len(all)-1] {
		text.WriteString(chunk["choices"].([]any)[0].(map[string]any)["delta"].(map[string]any)["content"].(string))
	}
	require.Equal(t, choice["message"].(map[string]any)["content"], text.String())
	require.Positive(t, all[len(all)-1]["usage"].(map[string]any)["prompt_tokens_details"].(map[string]any)["cached_tokens"], "the second time the prefix is in the cache")
	require.Contains(t, string(h.get("/metrics").body), `ragd_tokens_total{kind="output"}`)
}

func TestChatRefuses(t *testing.T) {
	h := serve(t, sample, server.Config{})
	user := `"messages":[{"role":"user","content":"x"}]`
	for body, want := range map[string]string{
		`{}`: "messages is empty",
		`{"messages":[{"role":"tool","content":"x"}]}`:                      "role",
		`{"messages":[{"role":"user","content":5}]}`:                        "content",
		`{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`:   "image_url",
		`{"corpora":["*"],"messages":[{"role":"assistant","content":"x"}]}`: "last message",
		`{` + user + `,"n":9}`:                                              "between 1 and 8",
		`{` + user + `,"n":3,"beams":2}`:                                    "beams",
		`{` + user + `,"corpora":["*"],"n":2}`:                              "combined with corpora",
		`{` + user + `,"logit_bias":{"x":1}}`:                               "token ids",
		`{` + user + `,"logit_bias":{"1":101}}`:                             "between -100 and 100",
		`{` + user + `,"temperature":-0.1}`:                                 "temperature",
		`{` + user + `,"top_p":2}`:                                          "top_p",
		`{` + user + `,"presence_penalty":3}`:                               "presence_penalty",
		`{` + user + `,"top_k":-2}`:                                         "top_k",
		`{` + user + `,"min_p":2}`:                                          "min_p",
		`{` + user + `,"repetition_penalty":-1}`:                            "repetition_penalty",
		`{` + user + `,"max_tokens":-1}`:                                    "max_tokens",
		`{` + user + `,"stop":5}`:                                           "stop",
		`{` + user + `,"stop":["a","b","c","d","e"]}`:                       "at most 4",
		`{` + user + `,"stop":""}`:                                          "empty",
		`{` + user + `,"tools":[{}]}`:                                       "tools",
		`{` + user + `,"top_logprobs":3}`:                                   "logprobs true",
		`{` + user + `,"response_format":{"type":"xml"}}`:                   "response_format",
		`{` + user + `,"response_format":{"type":"json_schema"}}`:           "needs json_schema.schema",
		`{` + user + `,"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"string","pattern":"a+"}}}}`: "pattern",
		`{` + user + `,"stream":"yes"}`: "stream",
		`nonsense`:                      "not the JSON",
	} {
		got := h.post("/v1/chat/completions", body)
		require.Equal(t, 400, got.StatusCode, body)
		require.Contains(t, got.message(t), want, body)
	}
	long, err := json.Marshal(map[string]any{"messages": []map[string]string{{"role": "user", "content": strings.Repeat("word ", 5000)}}})
	require.NoError(t, err)
	for _, stream := range []string{"", `,"stream":true`} {
		got := h.post("/v1/chat/completions", strings.TrimSuffix(string(long), "}")+stream+"}")
		require.Equal(t, 422, got.StatusCode)
		require.Equal(t, "context_length_exceeded", got.code(t))
	}
	got := h.post("/v1/chat/completions", `{"x":"`+strings.Repeat("x", 5<<20)+`"}`)
	require.Equal(t, 413, got.StatusCode)
}

func TestEmbeddings(t *testing.T) {
	h := serve(t, sample, server.Config{})
	got := h.post("/v1/embeddings", `{"model":"any","input":["a","b"],"role":"query","user":"u"}`)
	require.JSONEq(t, `{"object":"list","model":"fake","usage":{"prompt_tokens":4,"total_tokens":4},"data":[
		{"object":"embedding","index":0,"embedding":[0,0.5,-1]},{"object":"embedding","index":1,"embedding":[0,0.5,-1]}]}`, string(got.body))

	got = h.post("/v1/embeddings", `{"input":"a","encoding_format":"base64","dimensions":3}`)
	text := got.json(t)["data"].([]any)[0].(map[string]any)["embedding"].(string)
	raw, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	var vector []float32
	for ; len(raw) > 0; raw = raw[4:] {
		vector = append(vector, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	}
	require.Equal(t, []float32{1, 0.5, -1}, vector)

	for body, want := range map[string]string{
		`{}`:                                     "input",
		`{"input":[]}`:                           "1 to 2048",
		`{"input":""}`:                           "empty text",
		`{"input":["a"," "]}`:                    "empty text",
		`{"input":[1,2]}`:                        "token ids",
		`{"input":"a","dimensions":2}`:           "3 dimensions",
		`{"input":"a","encoding_format":"int8"}`: "float or base64",
		`{"input":"a","role":"question"}`:        "query or passage",
		`{"input":["a"` + strings.Repeat(`,"a"`, 2048) + `]}`: "1 to 2048",
	} {
		got := h.post("/v1/embeddings", body)
		require.Equal(t, 400, got.StatusCode, body)
		require.Contains(t, got.message(t), want)
	}
}

func TestChatChoicesLogProbsAndSchemas(t *testing.T) {
	h := serve(t, sample, server.Config{})
	const user = `{"messages":[{"role":"user","content":"x"}],"max_completion_tokens":24,`
	// Every cut-off that leaves one token makes sampling greedy.
	content := func(body string) any {
		return h.post("/v1/chat/completions", user+body).json(t)["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)["content"]
	}
	greedy := content(`"temperature":0}`)
	free := content(`"temperature":1,"seed":7}`)
	require.NotEqual(t, greedy, free)
	for _, one := range []string{`"top_k":1`, `"min_p":1`, `"top_p":1e-9`, `"top_p":0`, `"top_p":-0.0`} {
		require.Equal(t, greedy, content(`"temperature":1,"seed":7,`+one+`}`), one)
	}
	for _, all := range []string{`"top_k":0`, `"top_k":-1`, `"min_p":0`, `"top_p":1`, `"top_p":null`} {
		require.Equal(t, free, content(`"temperature":1,"seed":7,`+all+`}`), all)
	}
	require.NotEqual(t, greedy, content(`"temperature":0,"repetition_penalty":10}`))
	// Several answers, with log-probabilities; whole and as a stream they are the same.
	const request = user + `"n":3,"seed":7,"temperature":1,"logprobs":true,"top_logprobs":2,"max_tokens":999`
	whole := h.post("/v1/chat/completions", request+`}`).json(t)["choices"].([]any)
	require.Len(t, whole, 3)
	texts, tokens := make([]string, 3), make([]int, 3)
	for _, chunk := range chunks(t, h.post("/v1/chat/completions", request+`,"stream":true}`).body) {
		choice := chunk["choices"].([]any)[0].(map[string]any)
		i := int(choice["index"].(float64))
		texts[i] += choice["delta"].(map[string]any)["content"].(string)
		if p, ok := choice["logprobs"].(map[string]any); ok {
			tokens[i] += len(p["content"].([]any))
		}
	}
	for i, choice := range whole {
		choice := choice.(map[string]any)
		require.Equal(t, choice["message"].(map[string]any)["content"], texts[i])
		content := choice["logprobs"].(map[string]any)["content"].([]any)
		require.Len(t, content, tokens[i])
		require.NotEmpty(t, content)
		first := content[0].(map[string]any)
		require.Len(t, first["top_logprobs"], 2)
		require.LessOrEqual(t, first["logprob"], 0.)
	}
	require.NotEqual(t, texts[0], texts[1])

	// A bias of 100 leaves no choice, and -100 forbids it again.
	biased := h.post("/v1/chat/completions", user+`"temperature":0,"logprobs":true,"logit_bias":{"70":100}}`).json(t)["choices"].([]any)[0].(map[string]any)
	for _, token := range biased["logprobs"].(map[string]any)["content"].([]any) {
		require.Equal(t, string(testEngine(t).Tokenizer().Bytes(70)), token.(map[string]any)["token"])
	}
	beams := h.post("/v1/chat/completions", user+`"beams":4,"n":2}`).json(t)["choices"].([]any)
	require.Len(t, beams, 2)

	// A model of random weights writes what the schema admits, and nothing else.
	format := `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{"ok":{"type":"boolean"},"n":{"enum":[1,2]}},"required":["ok","n"]}}}}`
	text := h.post("/v1/chat/completions", user+format).json(t)["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)["content"].(string)
	var object struct {
		OK *bool
		N  int
	}
	require.NoError(t, json.Unmarshal([]byte(text), &object), text)
	require.NotNil(t, object.OK)
	got := h.post("/v1/chat/completions", user+`"response_format":{"type":"json_object"}}`)
	require.Equal(t, 200, got.StatusCode, "%s", got.body)
	require.True(t, strings.HasPrefix(got.json(t)["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)["content"].(string), "{"))
}

func TestModels(t *testing.T) {
	body := serve(t, sample, server.Config{}).get("/v1/models").json(t)
	require.Equal(t, "tiny", body["data"].([]any)[0].(map[string]any)["id"])
	require.Equal(t, "fake", body["data"].([]any)[1].(map[string]any)["id"])
}
