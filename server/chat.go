package server

import (
	"cmp"
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
)

// chatRequest is the part of an OpenAI chat completion request that ragd takes. Corpora is ours: when it is present ("*" for all), the last user message
// is answered from the documents, with citations as annotations; otherwise the messages go to the model as they are. There is one answer model, so
// Model is not looked at; the response names the one that wrote.
type chatRequest struct {
	Model               string             `json:"model"`
	Messages            []chatMessage      `json:"messages"`
	Corpora             []string           `json:"corpora"`
	MaxTokens           int                `json:"max_tokens"`
	MaxCompletionTokens int                `json:"max_completion_tokens"`
	Temperature         *float32           `json:"temperature"`
	TopP                *float32           `json:"top_p"`              // nil and 1: all; 0: the most probable token alone
	TopK                int                `json:"top_k"`              // vLLM's; 0 and -1: all
	MinP                float32            `json:"min_p"`              // vLLM's
	RepetitionPenalty   float32            `json:"repetition_penalty"` // vLLM's; 0 and 1: off
	Seed                int64              `json:"seed"`
	Stop                json.RawMessage    `json:"stop"`
	PresencePenalty     float32            `json:"presence_penalty"`
	FrequencyPenalty    float32            `json:"frequency_penalty"`
	LogitBias           map[string]float32 `json:"logit_bias"`
	LogProbs            bool               `json:"logprobs"`
	TopLogProbs         int                `json:"top_logprobs"`
	ResponseFormat      responseFormat     `json:"response_format"`
	N                   int                `json:"n"`
	Beams               int                `json:"beams"` // ours: search for the n most probable answers instead of sampling
	Stream              bool               `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`

	// What would change the answer and is not offered: refused rather than ignored.
	Tools     []json.RawMessage `json:"tools"`
	Functions []json.RawMessage `json:"functions"`
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
		if p.Type != "text" && p.Type != "input_text" && p.Type != "output_text" { // the latter two are those of /v1/responses
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
		LogProbs     *logProbs          `json:"logprobs"`
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
		err = body.check(s.config.OutputTokens)
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

// check refuses what cannot be done; outputTokens is how many tokens one request may have written.
func (r chatRequest) check(outputTokens int) error {
	between := func(name string, x, low, high float32) error {
		if !(x >= low && x <= high) {
			return invalid(name, "%s is %g; it must be between %g and %g", name, x, low, high)
		}
		return nil
	}
	switch {
	case len(r.Messages) == 0:
		return invalid("messages", "messages is empty")
	case r.N < 0 || r.N > maxChoices:
		return invalid("n", "n is %d; it must be between 1 and %d", r.N, maxChoices)
	case r.Beams < 0 || r.Beams > maxChoices || r.Beams > 0 && r.Beams < r.N:
		return invalid("beams", "beams is %d; it must be between n and %d, or absent", r.Beams, maxChoices)
	case r.TopLogProbs < 0 || r.TopLogProbs > maxAlternatives || r.TopLogProbs > 0 && !r.LogProbs:
		return invalid("top_logprobs", "top_logprobs is %d; it must be between 0 and %d, with logprobs true", r.TopLogProbs, maxAlternatives)
	case r.MaxTokens < 0 || r.MaxCompletionTokens < 0:
		return invalid("max_tokens", "max_tokens must not be negative")
	case r.maxTokens() > outputTokens/r.branches():
		return invalid("max_completion_tokens", "max_completion_tokens is %d for each of %d answers or beams; one request may write %d tokens in all, so at most %d here",
			r.maxTokens(), r.branches(), outputTokens, outputTokens/r.branches())
	case len(r.Tools) > 0 || len(r.Functions) > 0:
		return invalid("tools", "tools are not offered")
	}
	if err := r.checkCited(); err != nil {
		return err
	}
	if _, err := r.stops(); err != nil {
		return err
	}
	return errors.Join(between("temperature", valueOr(r.Temperature, 1), 0, 2), between("top_p", valueOr(r.TopP, 1), 0, 1), between("top_k", float32(r.TopK), -1, 1<<24),
		between("min_p", r.MinP, 0, 1), between("repetition_penalty", r.RepetitionPenalty, 0, 10),
		between("presence_penalty", r.PresencePenalty, -2, 2), between("frequency_penalty", r.FrequencyPenalty, -2, 2))
}

// checkCited refuses what cannot be had together with answers from documents, which have a form of their own.
func (r chatRequest) checkCited() error {
	if len(r.Corpora) == 0 {
		return nil
	}
	for name, given := range map[string]bool{
		"n": r.N > 1, "beams": r.Beams > 1, "logprobs": r.LogProbs, "logit_bias": len(r.LogitBias) > 0, "stop": len(r.Stop) > 0 && string(r.Stop) != "null",
		"response_format": r.ResponseFormat.constrains(),
	} {
		if given {
			return invalid(name, "%s cannot be combined with corpora: an answer from documents has a form of its own", name)
		}
	}
	return nil
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

// branches is how many texts are written at once.
func (r chatRequest) branches() int { return max(1, r.N, r.Beams) }

// maxTokens is max_completion_tokens, or its older name; 0 when neither is given.
func (r chatRequest) maxTokens() int { return cmp.Or(r.MaxCompletionTokens, r.MaxTokens) }

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
}

// fromModel lets the model continue the messages.
func (r *chatReply) fromModel(messages []chat.Message) error {
	s, ctx := r.server, r.c.Request.Context()
	request, err := s.generation(r.c, r.body, messages)
	if err != nil {
		return err
	}
	generated, err := s.Engine.Generate(ctx, request)
	if err != nil {
		return err
	}
	defer func() { s.used(r.c, generated.Usage()) }() // also when the client leaves: what was computed counts
	choices := make([]choice, max(1, request.Answers))
	for event, err := range generated.Events() {
		if err == nil {
			err = r.extend(event.Answer, &choices[event.Answer], event)
		}
		if err != nil {
			return err
		}
	}
	for i := range choices {
		choices[i].reason = generated.FinishReasonOf(i)
	}
	return r.finish(choices, generated.Usage())
}

// choice is one answer as it grows.
type choice struct {
	text   strings.Builder
	begun  bool     // the first chunk, which names the role, was sent
	tokens logProbs // of the whole reply; of a stream those that were not sent yet
	notes  []annotation
	reason string
}

// extend takes one event into a choice, and sends it when the reply is a stream.
func (r *chatReply) extend(index int, to *choice, event llm.Event) error {
	to.text.WriteString(event.Text)
	if r.body.LogProbs && event.Token >= 0 {
		to.tokens.Content = append(to.tokens.Content, r.server.logProb(event, r.body.TopLogProbs))
	}
	return r.delta(index, to, event.Text)
}

// fromDocuments answers the last message from the documents; earlier ones are the conversation.
func (r *chatReply) fromDocuments(messages []chat.Message) error {
	s := r.server
	q, err := s.citedQuestion(r.c, r.body, messages)
	if err != nil {
		return err
	}
	choices := make([]choice, 1)
	for event, err := range s.Answerer.Answer(r.c.Request.Context(), q) {
		switch {
		case err != nil:
		case event.Done != nil:
			s.answered(r.c, event.Done)
			choices[0].text.Reset() // what was streamed may have been replaced
			choices[0].text.WriteString(event.Done.Text)
			choices[0].notes, choices[0].reason = annotations(event.Done), "stop"
			err = r.finish(choices, event.Done.Usage)
		case event.Replaced != nil: // this protocol has no way to take back what was sent
			err = r.delta(0, &choices[0], "\n\nWithdrawn after checking; the answer is: "+event.Replaced.Text)
		default:
			choices[0].text.WriteString(event.Text)
			err = r.delta(0, &choices[0], event.Text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// citedQuestion is the question that a conversation ends with.
func (s *Server) citedQuestion(c *gin.Context, r chatRequest, messages []chat.Message) (q answer.Question, err error) {
	last := messages[len(messages)-1]
	if last.Role != "user" {
		return q, invalid("messages", "the last message must be the user's question")
	}
	q = answer.Question{Text: last.Content, MaxTokens: r.maxTokens(), Namespace: s.tenant(c)}
	if q.Sampling, err = r.sampling(s.vocabulary()); err != nil {
		return q, err
	}
	if r.Temperature == nil {
		q.Sampling.Temperature = 0 // answers from documents are reproducible unless asked otherwise
	}
	corpora := r.Corpora
	if slices.Contains(corpora, "*") {
		corpora = nil
	}
	if q.Filter, err = s.filter(c, corpora); err != nil {
		return q, err
	}
	for i := 0; i+1 < len(messages)-1; i++ {
		if messages[i].Role == "user" && messages[i+1].Role == "assistant" {
			q.History = append(q.History, answer.Turn{Question: messages[i].Content, Answer: messages[i+1].Content})
		}
	}
	return q, nil
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
func (r *chatReply) delta(index int, of *choice, text string) error {
	if r.out == nil || text == "" && of.begun {
		return nil
	}
	message := &completionMessage{Content: text}
	if !of.begun {
		of.begun, message.Role = true, "assistant"
	}
	return r.chunk(completionChoice{Index: index, Delta: message, LogProbs: of.takeLogProbs()})
}

// takeLogProbs returns what was collected since the last chunk.
func (c *choice) takeLogProbs() *logProbs {
	if len(c.tokens.Content) == 0 {
		return nil
	}
	taken := c.tokens
	c.tokens = logProbs{}
	return &taken
}

func (r *chatReply) chunk(choice completionChoice) error {
	chunk := r.head
	chunk.Choices = []completionChoice{choice}
	return r.out.send("", chunk)
}

// finish ends the reply. In a stream the citations come with the last delta, because OpenAI's has no place for them.
func (r *chatReply) finish(choices []choice, usage llm.Usage) error {
	if r.out == nil {
		for i := range choices {
			c := &choices[i]
			r.head.Choices = append(r.head.Choices, completionChoice{
				Index: i, Message: &completionMessage{Role: "assistant", Content: c.text.String(), Annotations: c.notes}, LogProbs: c.takeLogProbs(), FinishReason: &c.reason})
		}
		r.head.Usage = usageOf(usage)
		r.server.reply(r.c, http.StatusOK, r.head)
		return nil
	}
	for i := range choices {
		c := &choices[i]
		if err := r.delta(i, c, ""); err != nil {
			return err
		}
		if err := r.chunk(completionChoice{Index: i, Delta: &completionMessage{Annotations: c.notes}, LogProbs: c.takeLogProbs(), FinishReason: &c.reason}); err != nil {
			return err
		}
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
