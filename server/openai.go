package server

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"ragd/answer"
	"ragd/embed"
	"ragd/llm"
	"ragd/llm/chat"
	"ragd/llm/sample"
	"ragd/retrieve"
)

// chatRequest is the part of an OpenAI chat completion request that ragd takes. Corpora is ours: when it is present ("*" for all), the last user message
// is answered from the documents, with citations as annotations; otherwise the messages go to the model as they are.
type chatRequest struct {
	Model               string          `json:"model"`
	Messages            []chatMessage   `json:"messages"`
	Corpora             []string        `json:"corpora"`
	MaxTokens           int             `json:"max_tokens"`
	MaxCompletionTokens int             `json:"max_completion_tokens"`
	Temperature         *float32        `json:"temperature"`
	TopP                float32         `json:"top_p"`
	Seed                uint64          `json:"seed"`
	Stop                json.RawMessage `json:"stop"`
	PresencePenalty     float32         `json:"presence_penalty"`
	FrequencyPenalty    float32         `json:"frequency_penalty"`
	Stream              bool            `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	N    int    `json:"n"`
	User string `json:"user"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// text is the message's content: a string, or parts of which the text ones count.
func (m chatMessage) text() (string, error) {
	var plain string
	if json.Unmarshal(m.Content, &plain) == nil {
		return plain, nil
	}
	var parts []struct{ Type, Text string }
	if err := json.Unmarshal(m.Content, &parts); err != nil {
		return "", invalid("messages", "a message's content must be a string or a list of text parts")
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type != "text" {
			return "", invalid("messages", "content parts of type %q are not supported; only text is", p.Type)
		}
		b.WriteString(p.Text)
	}
	return b.String(), nil
}

// The JSON of the OpenAI chat completion API.
type (
	completion struct {
		ID                string             `json:"id"`
		Object            string             `json:"object"`
		Created           int64              `json:"created"`
		Model             string             `json:"model"`
		SystemFingerprint string             `json:"system_fingerprint"`
		Choices           []completionChoice `json:"choices"`
		Usage             *completionUsage   `json:"usage,omitempty"`
	}
	completionChoice struct {
		Index        int                `json:"index"`
		Message      *completionMessage `json:"message,omitempty"`
		Delta        *completionMessage `json:"delta,omitempty"`
		FinishReason *string            `json:"finish_reason"`
	}
	completionMessage struct {
		Role        string       `json:"role,omitempty"`
		Content     string       `json:"content"`
		Refusal     *string      `json:"refusal,omitempty"`
		Annotations []annotation `json:"annotations,omitempty"`
	}
	annotation struct {
		Type        string      `json:"type"` // "url_citation"
		URLCitation urlCitation `json:"url_citation"`
	}
	urlCitation struct {
		StartIndex int    `json:"start_index"` // Unicode code points in the content, end exclusive
		EndIndex   int    `json:"end_index"`
		Title      string `json:"title"`
		URL        string `json:"url"`   // of the passage on this server
		Quote      string `json:"quote"` // the document's own text; not in OpenAI's schema
	}
	completionUsage struct {
		PromptTokens        int           `json:"prompt_tokens"`
		CompletionTokens    int           `json:"completion_tokens"`
		TotalTokens         int           `json:"total_tokens"`
		PromptTokensDetails cachedDetails `json:"prompt_tokens_details"`
	}
	cachedDetails struct {
		CachedTokens int `json:"cached_tokens"`
	}
)

func usageOf(u llm.Usage) *completionUsage {
	return &completionUsage{u.PromptTokens, u.OutputTokens, u.PromptTokens + u.OutputTokens, cachedDetails{u.CachedTokens}}
}

// chatCompletions is POST /v1/chat/completions.
func (s *Server) chatCompletions(c *gin.Context) {
	var body chatRequest
	if err := json.NewDecoder(c.Request.Body).Decode(&body); err != nil { // unknown fields are tolerated here: SDKs send many
		s.fail(c, invalid("", "the body is not a chat completion request: %v", err))
		return
	}
	messages, err := body.messages()
	if err != nil {
		s.fail(c, err)
		return
	}
	reply := &chatReply{server: s, c: c, body: body, head: completion{
		ID: "chatcmpl-" + uuid.NewString(), Object: "chat.completion", Created: time.Now().Unix(),
		Model: s.Engine.Name(), SystemFingerprint: s.Engine.Fingerprint(), Choices: []completionChoice{},
	}}
	if len(body.Corpora) > 0 {
		reply.fromDocuments(messages)
		return
	}
	reply.fromModel(messages)
}

func (r chatRequest) messages() ([]chat.Message, error) {
	if len(r.Messages) == 0 {
		return nil, invalid("messages", "messages is empty")
	}
	if r.N > 1 {
		return nil, invalid("n", "n is %d; one choice per request is supported", r.N)
	}
	if r.Temperature != nil && (*r.Temperature < 0 || *r.Temperature > 2) {
		return nil, invalid("temperature", "temperature is %g; it must be between 0 and 2", *r.Temperature)
	}
	messages := make([]chat.Message, len(r.Messages))
	for i, m := range r.Messages {
		text, err := m.text()
		if err != nil {
			return nil, err
		}
		role := m.Role
		switch role {
		case "developer":
			role = "system"
		case "system", "user", "assistant":
		default:
			return nil, invalid("messages", "message %d has role %q; supported are system, developer, user and assistant", i, m.Role)
		}
		messages[i] = chat.Message{Role: role, Content: text}
	}
	return messages, nil
}

func (r chatRequest) maxTokens() int { return max(r.MaxTokens, r.MaxCompletionTokens) }

func (r chatRequest) sampling() sample.Params {
	p := sample.Params{Temperature: 1, TopP: r.TopP, Seed: r.Seed, PresencePenalty: r.PresencePenalty, FrequencyPenalty: r.FrequencyPenalty}
	if r.Temperature != nil {
		p.Temperature = *r.Temperature
	}
	return p
}

func (r chatRequest) stops() ([]string, error) {
	if len(r.Stop) == 0 || string(r.Stop) == "null" {
		return nil, nil
	}
	var one string
	if json.Unmarshal(r.Stop, &one) == nil {
		return []string{one}, nil
	}
	var many []string
	if err := json.Unmarshal(r.Stop, &many); err != nil || len(many) > 4 {
		return nil, invalid("stop", "stop must be a string or a list of at most 4 strings")
	}
	return many, nil
}

// chatReply writes one completion, whole or as a stream.
type chatReply struct {
	server *Server
	c      *gin.Context
	body   chatRequest
	head   completion
	out    *stream
}

// fromModel lets the model continue the messages.
func (r *chatReply) fromModel(messages []chat.Message) {
	s, ctx := r.server, r.c.Request.Context()
	prompt, err := s.Engine.Chat().Encode(messages, true)
	if err != nil {
		s.fail(r.c, invalid("messages", "the model's chat template refuses these messages: %v", err))
		return
	}
	stops, err := r.body.stops()
	if err != nil {
		s.fail(r.c, err)
		return
	}
	generated, err := s.Engine.Generate(ctx, llm.Request{
		Prompt: prompt, MaxTokens: r.body.maxTokens(), Sampling: r.body.sampling(), Stop: stops, Namespace: s.tenant(r.c),
	})
	if err != nil {
		s.fail(r.c, err)
		return
	}
	var text strings.Builder
	for event, err := range generated.Events() {
		if err != nil {
			r.fail(err)
			return
		}
		text.WriteString(event.Text)
		if event.Text != "" && r.delta(event.Text) != nil {
			return
		}
	}
	r.finish(text.String(), nil, generated.FinishReason(), generated.Usage())
}

// fromDocuments answers the last message from the documents; earlier ones are the conversation.
func (r *chatReply) fromDocuments(messages []chat.Message) {
	s := r.server
	q := answer.Question{MaxTokens: r.body.maxTokens(), Sampling: r.body.sampling(), Namespace: s.tenant(r.c), Filter: retrieve.Filter{Tenant: s.tenant(r.c)}}
	if r.body.Temperature == nil {
		q.Sampling.Temperature = 0 // answers from documents are reproducible unless asked otherwise
	}
	if r.body.Corpora[0] != "*" {
		q.Filter.Corpora = r.body.Corpora
	}
	last := messages[len(messages)-1]
	if last.Role != "user" {
		s.fail(r.c, invalid("messages", "the last message must be the user's question"))
		return
	}
	q.Text = last.Content
	for i := 0; i+1 < len(messages)-1; i++ {
		if messages[i].Role == "user" && messages[i+1].Role == "assistant" {
			q.History = append(q.History, answer.Turn{Question: messages[i].Content, Answer: messages[i+1].Content})
		}
	}
	for event, err := range s.Answerer.Answer(r.c.Request.Context(), q) {
		switch {
		case err != nil:
			r.fail(err)
			return
		case event.Text != "" && r.delta(event.Text) != nil:
			return
		case event.Done != nil:
			s.answered(r.c, event.Done)
			r.finish(event.Done.Text, annotations(event.Done), "stop", event.Done.Usage)
		}
	}
}

// annotations are the citations of a, in code points of its text.
func annotations(a *answer.Answer) []annotation {
	all := []annotation{}
	for _, c := range a.Citations {
		start := utf8.RuneCountInString(a.Text[:c.Start])
		all = append(all, annotation{Type: "url_citation", URLCitation: urlCitation{
			StartIndex: start, EndIndex: start + utf8.RuneCountInString(a.Text[c.Start:c.End]), Title: c.Title,
			URL: "/v1/passages/" + formatID(int64(c.Passage)), Quote: c.Quote,
		}})
	}
	return all
}

// delta sends new text when the reply is a stream.
func (r *chatReply) delta(text string) error {
	if !r.body.Stream {
		return nil
	}
	message := &completionMessage{Content: text}
	if r.out == nil {
		r.out = openStream(r.c, false)
		r.head.Object = "chat.completion.chunk"
		message.Role = "assistant"
	}
	return r.chunk(completionChoice{Delta: message})
}

func (r *chatReply) chunk(choice completionChoice) error {
	chunk := r.head
	chunk.Choices = []completionChoice{choice}
	return r.out.send("", chunk)
}

// finish ends the reply.
func (r *chatReply) finish(text string, notes []annotation, reason string, usage llm.Usage) {
	if !r.body.Stream {
		r.head.Choices = []completionChoice{{Message: &completionMessage{Role: "assistant", Content: text, Annotations: notes}, FinishReason: &reason}}
		r.head.Usage = usageOf(usage)
		r.c.JSON(http.StatusOK, r.head)
		return
	}
	if r.out == nil && r.delta("") != nil {
		return
	}
	defer r.out.close()
	if r.chunk(completionChoice{Delta: &completionMessage{Annotations: notes}, FinishReason: &reason}) != nil {
		return
	}
	if r.body.StreamOptions.IncludeUsage {
		last := r.head
		last.Usage = usageOf(usage)
		if r.out.send("", last) != nil {
			return
		}
	}
	_ = r.out.write("data: [DONE]\n\n")
}

// fail ends the reply with an error: a status before the stream began, an event afterwards.
func (r *chatReply) fail(err error) {
	if r.out == nil {
		r.server.fail(r.c, err)
		return
	}
	defer r.out.close()
	_, detail := describe(err, requestID(r.c))
	_ = r.out.send("", errorBody{detail})
}

// embeddingRequest is the body of POST /v1/embeddings. Role is ours: "query" or "passage", for models that tell them apart.
type embeddingRequest struct {
	Model          string          `json:"model"`
	Input          json.RawMessage `json:"input"`
	EncodingFormat string          `json:"encoding_format"`
	Dimensions     int             `json:"dimensions"`
	Role           string          `json:"role"`
	User           string          `json:"user"`
}

// maxInputs is OpenAI's bound on the texts of one request.
const maxInputs = 2048

func (r embeddingRequest) inputs(dim int) ([]string, error) {
	var one string
	var many []string
	if json.Unmarshal(r.Input, &one) == nil {
		many = []string{one}
	} else if err := json.Unmarshal(r.Input, &many); err != nil {
		return nil, invalid("input", "input must be a string or a list of strings")
	}
	switch {
	case len(many) == 0 || len(many) > maxInputs:
		return nil, invalid("input", "input holds %d texts; it must hold 1 to %d", len(many), maxInputs)
	case r.Dimensions != 0 && r.Dimensions != dim:
		return nil, invalid("dimensions", "the embedding model has %d dimensions; shorter vectors are not offered", dim)
	case r.EncodingFormat != "" && r.EncodingFormat != "float" && r.EncodingFormat != "base64":
		return nil, invalid("encoding_format", "encoding_format is %q; it must be float or base64", r.EncodingFormat)
	}
	return many, nil
}

// embeddings is POST /v1/embeddings.
func (s *Server) embeddings(c *gin.Context) {
	var body embeddingRequest
	if err := decode(c, &body); err != nil {
		s.fail(c, err)
		return
	}
	texts, err := body.inputs(s.Embedder.Dim())
	if err != nil {
		s.fail(c, err)
		return
	}
	role := embed.Passage
	if body.Role == "query" {
		role = embed.Query
	}
	vectors, err := s.Embedder.Embed(c.Request.Context(), role, texts)
	if err != nil {
		s.fail(c, err)
		return
	}
	data := make([]gin.H, len(vectors))
	for i, v := range vectors {
		data[i] = gin.H{"object": "embedding", "index": i, "embedding": v}
		if body.EncodingFormat == "base64" {
			data[i]["embedding"] = base64Vector(v)
		}
	}
	tokens := 0
	for _, t := range texts {
		tokens += s.countTokens(t)
	}
	c.JSON(http.StatusOK, gin.H{"object": "list", "data": data, "model": s.Embedder.Model(), "usage": gin.H{"prompt_tokens": tokens, "total_tokens": tokens}})
}

func (s *Server) countTokens(text string) int {
	if counter, ok := s.Embedder.(interface{ Tokens(string) int }); ok {
		return counter.Tokens(text)
	}
	return 0
}

// base64Vector encodes v as little-endian float32, as OpenAI does.
func base64Vector(v embed.Vector) string {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// models is GET /v1/models.
func (s *Server) models(c *gin.Context) {
	c.JSON(http.StatusOK, gin.H{"object": "list", "data": []gin.H{
		{"id": s.Engine.Name(), "object": "model", "owned_by": "ragd", "created": 0},
		{"id": s.Embedder.Model(), "object": "model", "owned_by": "ragd", "created": 0},
	}})
}
