package external

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
)

// Message is one turn; Role is system, user or assistant.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Request is the body of a chat completion, in the API's own words. Model and streaming are filled in.
type Request struct {
	Model            string          `json:"model"`
	Messages         []Message       `json:"messages"`
	MaxTokens        int             `json:"max_tokens,omitempty"`
	Temperature      float32         `json:"temperature"`
	TopP             float32         `json:"top_p,omitempty"`
	Seed             uint64          `json:"seed,omitempty"`
	PresencePenalty  float32         `json:"presence_penalty,omitempty"`
	FrequencyPenalty float32         `json:"frequency_penalty,omitempty"`
	Stop             []string        `json:"stop,omitempty"`
	ResponseFormat   json.RawMessage `json:"response_format,omitempty"`
	Stream           bool            `json:"stream"`
	StreamOptions    struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// Result is how an answer ended. Tokens are 0 where the server does not say.
type Result struct {
	Finish                                   string // "stop", "length", or another word of the server's
	PromptTokens, CachedTokens, OutputTokens int
	Pieces                                   int // of text that came
}

// maxEvent bounds one event of a stream.
const maxEvent = 4 << 20

// Chat asks and calls text with each piece of the answer, until it ends. A model's thoughts (<think>...</think> at the beginning) are left out.
func (c *Client) Chat(ctx context.Context, r Request, text func(string)) (Result, error) {
	var result Result
	var err error
	if r.Model, err = c.known(ctx); err != nil {
		return result, err
	}
	r.Stream, r.StreamOptions.IncludeUsage = true, true
	body, err := json.Marshal(r)
	if err != nil {
		return result, &Error{Reason: "the request cannot be written", Err: err}
	}
	// The context of the call ends when the server falls silent; the timer is set anew with every line that comes.
	call, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.config.First, func() { cancel(errSilent) })
	defer silence.Stop()
	response, err := c.send(call, http.MethodPost, "/chat/completions", body)
	if err == nil {
		defer response.Body.Close()
		if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
			return result, &Error{Status: response.StatusCode, Reason: "the engine at " + c.Address() + " does not stream its answers: it sent " + mediaType(kind)}
		}
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(make([]byte, 0, 16<<10), maxEvent)
		err = c.read(lines, &result, text, func() { silence.Reset(c.config.Next) })
	}
	switch {
	case ctx.Err() != nil:
		return result, context.Cause(ctx)
	case context.Cause(call) == errSilent:
		return result, &Error{Reason: "the engine at " + c.Address() + " fell silent", Err: errSilent}
	}
	return result, err
}

var errSilent = errors.New("nothing came for too long")

func mediaType(header string) string {
	kind, _, _ := strings.Cut(header, ";")
	if kind == "" || len(kind) > 100 {
		return "something else"
	}
	return kind
}

// event is what is read of a chunk.
type event struct {
	Choices []struct {
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens        int `json:"prompt_tokens"`
		CompletionTokens    int `json:"completion_tokens"`
		PromptTokensDetails struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// read reads the events of an answer.
func (c *Client) read(lines *bufio.Scanner, result *Result, text func(string), alive func()) error {
	var thoughts thoughts
	for lines.Scan() {
		alive()
		data, isData := strings.CutPrefix(lines.Text(), "data:")
		if !isData { // comments, names of events, blank lines
			continue
		}
		data = strings.TrimSpace(data)
		if data == "[DONE]" {
			break
		}
		var e event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return &Error{Status: http.StatusOK, Reason: "the engine at " + c.Address() + " sent an event that is no JSON", Err: err}
		}
		if len(e.Error) > 0 && string(e.Error) != "null" {
			return &Error{Status: http.StatusOK, Reason: "the engine at " + c.Address() + " failed while it was writing"}
		}
		for _, choice := range e.Choices {
			if choice.Delta.Content != "" {
				result.Pieces++
			}
			if piece := thoughts.without(choice.Delta.Content); piece != "" {
				text(piece)
			}
			if choice.FinishReason != "" {
				result.Finish = choice.FinishReason
			}
		}
		if u := e.Usage; u != nil {
			result.PromptTokens, result.OutputTokens, result.CachedTokens = u.PromptTokens, u.CompletionTokens, u.PromptTokensDetails.CachedTokens
		}
	}
	if err := lines.Err(); err != nil {
		return &Error{Status: http.StatusOK, Reason: "the answer of the engine at " + c.Address() + " broke off", Err: err}
	}
	if result.Finish == "" {
		return &Error{Status: http.StatusOK, Reason: "the answer of the engine at " + c.Address() + " broke off"}
	}
	if rest := thoughts.rest(); rest != "" {
		text(rest)
	}
	return nil
}

// thoughts takes what a model thinks aloud out of the beginning of its answer.
type thoughts struct {
	held     string
	thinking bool
	done     bool
}

const openThought, closeThought = "<think>", "</think>"

func (t *thoughts) without(piece string) string {
	if t.done {
		return piece
	}
	t.held += piece
	if !t.thinking {
		begin := strings.TrimLeft(t.held, " \n")
		switch {
		case strings.HasPrefix(begin, openThought):
			t.thinking = true
		case strings.HasPrefix(openThought, begin): // may become one
			return ""
		default:
			t.done = true
			return t.held
		}
	}
	_, after, closed := strings.Cut(t.held, closeThought)
	if !closed {
		return ""
	}
	t.done = true
	return strings.TrimLeft(after, " \n")
}

// rest is what was held back when the answer ended; thoughts that did not end are no answer.
func (t *thoughts) rest() string {
	if t.done || t.thinking {
		return ""
	}
	return t.held
}
