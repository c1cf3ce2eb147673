package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"ragd/answer"
	"ragd/llm"
	"ragd/llm/chat"
	"ragd/llm/sample"
)

// chatRequest is the part of an OpenAI chat completion request that ragd takes. Corpora is ours: when it is present ("*" for all), the last user message
// is answered from the documents, with citations as annotations; otherwise the messages go to the model as they are. There is one answer model, so
// Model is not looked at; the response names the one that wrote.
type chatRequest struct {
	Model               string          `json:"model"`
	Messages            []chatMessage   `json:"messages"`
	Corpora             []string        `json:"corpora"`
	MaxTokens           int             `json:"max_tokens"`
	MaxCompletionTokens int             `json:"max_completion_tokens"`
	Temperature         *float32        `json:"temperature"`
	TopP                float32         `json:"top_p"`
	Seed                int64           `json:"seed"`
	Stop                json.RawMessage `json:"stop"`
	PresencePenalty     float32         `json:"presence_penalty"`
	FrequencyPenalty    float32         `json:"frequency_penalty"`
	Stream              bool            `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	N int `json:"n"`

	// What would change the answer and is not offered: refused rather than ignored.
	Tools          []json.RawMessage `json:"tools"`
	Functions      []json.RawMessage `json:"functions"`
	LogProbs       bool              `json:"logprobs"`
	ResponseFormat struct {
		Type string `json:"type"`
	} `json:"response_format"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// text is the message's content: a string, or parts of which the text ones count.
func (m chatMessage) text() (string, error) {
	var plain string
	if json.Unmarshal(m.Content, &plain) == nil { // null, as in an assistant's message that only called tools, is ""
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
	err := decode(c, &body, tolerateUnknown)
	if err == nil {
		err = body.check()
	}
	var messages []chat.Message
	if err == nil {
		messages, err = body.messages()
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	reply := &chatReply{server: s, c: c, body: body, head: completion{
		ID: "chatcmpl-" + uuid.NewString(), Object: "chat.completion", Created: time.Now().Unix(),
		Model: s.Engine.Name(), SystemFingerprint: s.Engine.Fingerprint(), Choices: []completionChoice{},
	}}
	if body.Stream {
		reply.head.Object = "chat.completion.chunk"
		reply.out = s.openStream(c, false)
		defer reply.out.close()
	}
	if len(body.Corpora) > 0 {
		err = reply.fromDocuments(messages)
	} else {
		err = reply.fromModel(messages)
	}
	switch {
	case err != nil && body.Stream:
		reply.out.fail(err)
	case err != nil:
		s.fail(c, err)
	}
}

func (r chatRequest) check() error {
	between := func(name string, x, low, high float32) error {
		if !(x >= low && x <= high) {
			return invalid(name, "%s is %g; it must be between %g and %g", name, x, low, high)
		}
		return nil
	}
	switch {
	case len(r.Messages) == 0:
		return invalid("messages", "messages is empty")
	case r.N > 1:
		return invalid("n", "n is %d; one choice per request is offered", r.N)
	case r.MaxTokens < 0 || r.MaxCompletionTokens < 0:
		return invalid("max_tokens", "max_tokens must not be negative")
	case len(r.Tools) > 0 || len(r.Functions) > 0:
		return invalid("tools", "tools are not offered")
	case r.LogProbs:
		return invalid("logprobs", "logprobs are not offered")
	case r.ResponseFormat.Type != "" && r.ResponseFormat.Type != "text":
		return invalid("response_format", "response_format %q is not offered; only text is", r.ResponseFormat.Type)
	}
	if _, err := r.stops(); err != nil {
		return err
	}
	temperature := float32(0)
	if r.Temperature != nil {
		temperature = *r.Temperature
	}
	return errors.Join(between("temperature", temperature, 0, 2), between("top_p", r.TopP, 0, 1),
		between("presence_penalty", r.PresencePenalty, -2, 2), between("frequency_penalty", r.FrequencyPenalty, -2, 2))
}

func (r chatRequest) messages() ([]chat.Message, error) {
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
	p := sample.Params{Temperature: 1, TopP: r.TopP, Seed: uint64(r.Seed), PresencePenalty: r.PresencePenalty, FrequencyPenalty: r.FrequencyPenalty}
	if r.Temperature != nil {
		p.Temperature = *r.Temperature
	}
	return p
}

func (r chatRequest) stops() ([]string, error) {
	if len(r.Stop) == 0 || string(r.Stop) == "null" {
		return nil, nil
	}
	var stops []string
	var one string
	if json.Unmarshal(r.Stop, &one) == nil {
		stops = []string{one}
	} else if err := json.Unmarshal(r.Stop, &stops); err != nil || len(stops) > 4 {
		return nil, invalid("stop", "stop must be a string or a list of at most 4 strings")
	}
	if slices.Contains(stops, "") {
		return nil, invalid("stop", "a stop string is empty")
	}
	return stops, nil
}

// chatReply writes one completion, whole or, when out is not nil, as a stream.
type chatReply struct {
	server *Server
	c      *gin.Context
	body   chatRequest
	head   completion
	out    *stream
	begun  bool // the first chunk, which names the role, was sent
}

// fromModel lets the model continue the messages.
func (r *chatReply) fromModel(messages []chat.Message) error {
	s, ctx := r.server, r.c.Request.Context()
	prompt, err := s.Engine.Chat().Encode(messages, true)
	if err != nil {
		return invalid("messages", "the model's chat template refuses these messages: %v", err)
	}
	stops, err := r.body.stops()
	if err != nil {
		return err
	}
	generated, err := s.Engine.Generate(ctx, llm.Request{
		Prompt: prompt, MaxTokens: r.body.maxTokens(), Sampling: r.body.sampling(), Stop: stops, Namespace: s.tenant(r.c),
	})
	if err != nil {
		return err
	}
	var text strings.Builder
	for event, err := range generated.Events() {
		if err == nil {
			text.WriteString(event.Text)
			err = r.delta(event.Text)
		}
		if err != nil {
			return err
		}
	}
	s.used(r.c, generated.Usage())
	return r.finish(text.String(), nil, generated.FinishReason(), generated.Usage())
}

// fromDocuments answers the last message from the documents; earlier ones are the conversation.
func (r *chatReply) fromDocuments(messages []chat.Message) error {
	s := r.server
	last := messages[len(messages)-1]
	if last.Role != "user" {
		return invalid("messages", "the last message must be the user's question")
	}
	q := answer.Question{
		Text: last.Content, MaxTokens: r.body.maxTokens(), Sampling: r.body.sampling(), Namespace: s.tenant(r.c),
	}
	if r.body.Temperature == nil {
		q.Sampling.Temperature = 0 // answers from documents are reproducible unless asked otherwise
	}
	corpora := r.body.Corpora
	if slices.Contains(corpora, "*") {
		corpora = nil
	}
	var err error
	if q.Filter, err = s.filter(r.c, corpora); err != nil {
		return err
	}
	for i := 0; i+1 < len(messages)-1; i++ {
		if messages[i].Role == "user" && messages[i+1].Role == "assistant" {
			q.History = append(q.History, answer.Turn{Question: messages[i].Content, Answer: messages[i+1].Content})
		}
	}
	for event, err := range s.Answerer.Answer(r.c.Request.Context(), q) {
		switch {
		case err != nil:
		case event.Done != nil:
			s.answered(r.c, event.Done)
			err = r.finish(event.Done.Text, annotations(event.Done), "stop", event.Done.Usage)
		case event.Replaced != nil: // this protocol has no way to take back what was sent
			err = r.delta("\n\nWithdrawn after checking; the answer is: " + event.Replaced.Text)
		default:
			err = r.delta(event.Text)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
	if r.out == nil || text == "" && r.begun {
		return nil
	}
	message := &completionMessage{Content: text}
	if !r.begun {
		r.begun, message.Role = true, "assistant"
	}
	return r.chunk(completionChoice{Delta: message})
}

func (r *chatReply) chunk(choice completionChoice) error {
	chunk := r.head
	chunk.Choices = []completionChoice{choice}
	return r.out.send("", chunk)
}

// finish ends the reply. In a stream the citations come with the last delta, because OpenAI's has no place for them.
func (r *chatReply) finish(text string, notes []annotation, reason string, usage llm.Usage) error {
	if r.out == nil {
		r.head.Choices = []completionChoice{{Message: &completionMessage{Role: "assistant", Content: text, Annotations: notes}, FinishReason: &reason}}
		r.head.Usage = usageOf(usage)
		r.server.reply(r.c, http.StatusOK, r.head)
		return nil
	}
	if err := r.delta(""); err != nil {
		return err
	}
	if err := r.chunk(completionChoice{Delta: &completionMessage{Annotations: notes}, FinishReason: &reason}); err != nil {
		return err
	}
	if r.body.StreamOptions.IncludeUsage {
		last := r.head
		last.Usage = usageOf(usage)
		if err := r.out.send("", last); err != nil {
			return err
		}
	}
	return r.out.write([]byte("data: [DONE]\n\n"))
}
