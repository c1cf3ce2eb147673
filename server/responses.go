package server

import (
	"cmp"
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"ragd/answer"
	"ragd/llm"
	"ragd/llm/chat"
	"ragd/retrieve"
)

// responseRequest is the part of a request of OpenAI's responses API that ragd takes. With the tool file_search the input's last message is answered
// from the corpora that its vector stores are, with citations; without tools the input goes to the model as it is.
type responseRequest struct {
	Model           string          `json:"model"`
	Input           json.RawMessage `json:"input"`
	Instructions    string          `json:"instructions"`
	Tools           []responseTool  `json:"tools"`
	Include         []string        `json:"include"`
	MaxOutputTokens int             `json:"max_output_tokens"`
	Temperature     *float32        `json:"temperature"`
	TopP            *float32        `json:"top_p"`
	Text            struct {
		Format struct {
			Type   string          `json:"type"`
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"text"`
	Stream     bool   `json:"stream"`
	Previous   string `json:"previous_response_id"`
	Background bool   `json:"background"`
}

type responseTool struct {
	Type           string          `json:"type"`
	VectorStores   []string        `json:"vector_store_ids"`
	MaxNumResults  int             `json:"max_num_results"`
	Filters        json.RawMessage `json:"filters"`
	RankingOptions rankingOptions  `json:"ranking_options"`
}

// chat is the same request in the terms of chat completions.
func (r responseRequest) chat(outputTokens int) (chatRequest, error) {
	out := chatRequest{Temperature: r.Temperature, TopP: r.TopP, MaxCompletionTokens: r.MaxOutputTokens, Stream: r.Stream}
	out.ResponseFormat.Type, out.ResponseFormat.JSONSchema.Schema = r.Text.Format.Type, r.Text.Format.Schema
	switch {
	case r.Previous != "":
		return out, invalid("previous_response_id", "responses are not kept here; send the whole conversation as input")
	case r.Background:
		return out, invalid("background", "background responses are not offered; use stream")
	case len(r.Tools) > 1:
		return out, invalid("tools", "there is one tool: file_search")
	}
	var plain string
	if json.Unmarshal(r.Input, &plain) == nil {
		out.Messages = []chatMessage{message("user", plain)}
	} else if err := json.Unmarshal(r.Input, &out.Messages); err != nil {
		return out, invalid("input", "input must be a string or a list of messages")
	}
	if r.Instructions != "" {
		out.Messages = slices.Insert(out.Messages, 0, message("system", r.Instructions))
	}
	for _, tool := range r.Tools {
		switch {
		case tool.Type != "file_search":
			return out, invalid("tools", "the tool %q is not offered; file_search is", tool.Type)
		case len(tool.VectorStores) == 0:
			return out, invalid("tools", "file_search needs vector_store_ids")
		}
		if err := checkSearch(tool.MaxNumResults, tool.Filters); err != nil {
			return out, err
		}
		for _, id := range tool.VectorStores {
			name, ok := strings.CutPrefix(id, storePrefix)
			if !ok {
				return out, invalid("tools", "%q is not the id of a vector store; see GET /v1/vector_stores", id)
			}
			out.Corpora = append(out.Corpora, name)
		}
	}
	return out, out.check(outputTokens)
}

func message(role, text string) chatMessage {
	content, _ := json.Marshal(text) // a string always can be
	return chatMessage{Role: role, Content: content}
}

// response writes one response, whole or as a stream of events.
type response struct {
	server  *Server
	c       *gin.Context
	out     *stream // nil: whole
	body    gin.H
	output  []gin.H
	search  gin.H // the file_search_call
	message gin.H
	begun   bool // the message was announced
	numbers int  // of events
}

// responses is POST /v1/responses.
func (s *Server) responses(c *gin.Context) {
	var body responseRequest
	err := decode(c, &body, tolerateUnknown)
	var request chatRequest
	if err == nil {
		request, err = body.chat(s.config.OutputTokens)
	}
	var messages []chat.Message
	if err == nil {
		messages, err = request.messages()
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	r := &response{server: s, c: c, message: gin.H{"type": "message", "id": "msg_" + uuid.NewString(), "role": "assistant", "status": "in_progress", "content": []gin.H{}}}
	r.body = gin.H{
		"id": "resp_" + uuid.NewString(), "object": "response", "created_at": time.Now().Unix(), "status": "in_progress", "model": s.Engine.Name(), "output": []gin.H{},
		"error": nil, "incomplete_details": nil, "instructions": orNil(body.Instructions), "metadata": gin.H{}, "parallel_tool_calls": false, "temperature": body.Temperature,
		"top_p": valueOr(body.TopP, 1), "tool_choice": "auto", "tools": toolsOf(body.Tools), "max_output_tokens": nil, "previous_response_id": nil, "usage": nil, "store": false,
	}
	if body.Stream {
		r.out = s.openStream(c, true)
		defer r.out.close()
		err = r.start()
	}
	if err == nil && len(body.Tools) > 0 {
		err = r.fromDocuments(body, request, messages)
	} else if err == nil {
		err = r.fromModel(request, messages)
	}
	switch {
	case err != nil && body.Stream:
		r.out.fail(err)
	case err != nil:
		s.fail(c, err)
	}
}

func orNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// toolsOf echoes the tools, as the API does.
func toolsOf(tools []responseTool) []gin.H {
	all := []gin.H{}
	for _, t := range tools {
		all = append(all, gin.H{"type": t.Type, "vector_store_ids": t.VectorStores, "max_num_results": cmp.Or(t.MaxNumResults, 10)})
	}
	return all
}

// event sends one event of a stream; of a whole response nothing.
func (r *response) event(kind string, fields gin.H) error {
	if r.out == nil {
		return nil
	}
	fields["type"], fields["sequence_number"] = kind, r.numbers
	r.numbers++
	return r.out.send(kind, fields)
}

func (r *response) start() error {
	for _, kind := range []string{"response.created", "response.in_progress"} {
		if err := r.event(kind, gin.H{"response": r.body}); err != nil {
			return err
		}
	}
	return nil
}

// fromModel lets the model continue the messages.
func (r *response) fromModel(request chatRequest, messages []chat.Message) error {
	s := r.server
	generation, err := s.generation(r.c, request, messages)
	if err != nil {
		return err
	}
	generated, err := s.Engine.Generate(r.c.Request.Context(), generation)
	if err != nil {
		return err
	}
	defer func() { s.used(r.c, generated.Usage()) }()
	if err := r.openMessage(); err != nil {
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
	return r.finish(text.String(), []gin.H{}, generated.FinishReason(), generated.Usage())
}

// fromDocuments answers the last message from the corpora of the file_search tool.
func (r *response) fromDocuments(body responseRequest, request chatRequest, messages []chat.Message) error {
	s, tool := r.server, body.Tools[0]
	q, err := s.citedQuestion(r.c, request, messages)
	if err != nil {
		return err
	}
	q.Passages = min(20, tool.MaxNumResults)
	r.search = gin.H{"type": "file_search_call", "id": "fs_" + uuid.NewString(), "status": "in_progress", "queries": []string{q.Text}, "results": nil}
	for _, e := range []struct {
		kind   string
		fields gin.H
	}{
		{"response.output_item.added", gin.H{"output_index": 0, "item": r.search}},
		{"response.file_search_call.in_progress", gin.H{"output_index": 0, "item_id": r.search["id"]}},
		{"response.file_search_call.searching", gin.H{"output_index": 0, "item_id": r.search["id"]}},
	} {
		if err := r.event(e.kind, e.fields); err != nil {
			return err
		}
	}
	for event, err := range s.Answerer.Answer(r.c.Request.Context(), q) {
		switch {
		case err != nil:
		case event.Sources != nil:
			err = r.searched(event.Sources, tool.RankingOptions.ScoreThreshold, slices.Contains(body.Include, "file_search_call.results"))
		case event.Text != "":
			if err = r.openMessage(); err == nil {
				err = r.delta(event.Text)
			}
		case event.Replaced != nil: // this protocol has no way to take back what was sent
			err = r.delta("\n\nWithdrawn after checking; the answer is: " + event.Replaced.Text)
		case event.Done != nil:
			s.answered(r.c, event.Done)
			if err = r.searched(event.Done.Sources, tool.RankingOptions.ScoreThreshold, false); err == nil {
				if err = r.openMessage(); err == nil {
					err = r.finish(event.Done.Text, fileCitations(event.Done), "stop", event.Done.Usage)
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// searched ends the file_search call, once.
func (r *response) searched(sources []answer.Source, threshold float64, include bool) error {
	if r.search["status"] == "completed" {
		return nil
	}
	r.search["status"] = "completed"
	if include {
		results := []gin.H{}
		for _, source := range sources {
			results = append(results, resultsOf([]retrieve.Scored{source.Scored}, threshold)...)
		}
		r.search["results"] = results
	}
	r.output = append(r.output, r.search)
	if err := r.event("response.file_search_call.completed", gin.H{"output_index": 0, "item_id": r.search["id"]}); err != nil {
		return err
	}
	return r.event("response.output_item.done", gin.H{"output_index": 0, "item": r.search})
}

// openMessage begins the message, once.
func (r *response) openMessage() error {
	if r.begun {
		return nil
	}
	r.begun = true
	if err := r.event("response.output_item.added", gin.H{"output_index": len(r.output), "item": r.message}); err != nil {
		return err
	}
	return r.part("response.content_part.added", gin.H{"part": textPart("", []gin.H{})})
}

func textPart(text string, notes []gin.H) gin.H {
	return gin.H{"type": "output_text", "text": text, "annotations": notes, "logprobs": []gin.H{}}
}

// part sends an event about the message's text.
func (r *response) part(kind string, fields gin.H) error {
	fields["item_id"], fields["output_index"], fields["content_index"] = r.message["id"], len(r.output), 0
	return r.event(kind, fields)
}

func (r *response) delta(text string) error {
	if text == "" {
		return nil
	}
	return r.part("response.output_text.delta", gin.H{"delta": text, "logprobs": []gin.H{}})
}

// fileCitations are the citations of a: points behind the statements, in code points of its text.
func fileCitations(a *answer.Answer) []gin.H {
	all := []gin.H{}
	for _, c := range a.Citations {
		all = append(all, gin.H{"type": "file_citation", "index": utf8.RuneCountInString(a.Text[:c.End]), "file_id": fileID(c.Document, c.Path), "filename": path.Base(c.Path), "quote": c.Quote})
	}
	return all
}

// finish ends the response.
func (r *response) finish(text string, notes []gin.H, reason string, usage llm.Usage) error {
	for i, note := range notes {
		if err := r.part("response.output_text.annotation.added", gin.H{"annotation": note, "annotation_index": i}); err != nil {
			return err
		}
	}
	status, last := "completed", "response.completed"
	if reason == "length" {
		status, last = "incomplete", "response.incomplete"
		r.body["incomplete_details"] = gin.H{"reason": "max_output_tokens"}
	}
	r.message["status"], r.message["content"] = status, []gin.H{textPart(text, notes)}
	for _, e := range []struct {
		kind   string
		fields gin.H
	}{
		{"response.output_text.done", gin.H{"text": text, "logprobs": []gin.H{}}},
		{"response.content_part.done", gin.H{"part": textPart(text, notes)}},
	} {
		if err := r.part(e.kind, e.fields); err != nil {
			return err
		}
	}
	if err := r.event("response.output_item.done", gin.H{"output_index": len(r.output), "item": r.message}); err != nil {
		return err
	}
	r.output = append(r.output, r.message)
	r.body["status"], r.body["output"] = status, r.output
	r.body["usage"] = gin.H{
		"input_tokens": usage.PromptTokens, "input_tokens_details": gin.H{"cached_tokens": usage.CachedTokens},
		"output_tokens": usage.OutputTokens, "output_tokens_details": gin.H{"reasoning_tokens": 0}, "total_tokens": usage.PromptTokens + usage.OutputTokens,
	}
	if r.out != nil {
		return r.event(last, gin.H{"response": r.body})
	}
	r.server.reply(r.c, http.StatusOK, r.body)
	return nil
}
