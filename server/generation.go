package server

import (
	"cmp"
	"encoding/json"
	"math"
	"strconv"

	"github.com/gin-gonic/gin"

	"ragd/llm"
	"ragd/llm/chat"
	"ragd/llm/grammar"
	"ragd/llm/sample"
)

// Bounds of one request: as many choices as the engine computes together, as many alternatives as it reports.
const (
	maxChoices      = 8
	maxAlternatives = 20
)

// Tokens of an answer whose request does not say how many: enough for a long one, and far from what fills a context on a slow machine. Beams are for
// short answers; each step of theirs costs as much as one of that many requests.
const (
	defaultTokens     = 1024
	defaultBeamTokens = 256
)

// tokens is how many tokens one answer may have.
func (r chatRequest) tokens(outputTokens int) int {
	usual := defaultTokens
	if r.Beams > 1 {
		usual = defaultBeamTokens
	}
	return cmp.Or(r.maxTokens(), min(usual, outputTokens/r.branches()))
}

// generation is the request to the engine that a chat request stands for.
func (s *Server) generation(c *gin.Context, r chatRequest, messages []chat.Message) (request llm.Request, err error) {
	request = llm.Request{MaxTokens: r.tokens(s.config.OutputTokens), Answers: r.N, Namespace: s.tenant(c)}
	external := s.Engine.External() != ""
	if external {
		request.Messages = messages
	} else if request.Prompt, err = s.Engine.Chat().Encode(messages, true); err != nil {
		return request, invalid("messages", "the model's chat template refuses these messages: %v", err)
	}
	if request.Stop, err = r.stops(); err != nil {
		return request, err
	}
	if request.Sampling, err = r.sampling(s.vocabulary()); err != nil {
		return request, err
	}
	if r.Beams > 1 {
		request.Beams, request.LengthPenalty = r.Beams, 1
	}
	if r.LogProbs {
		request.LogProbs = max(1, r.TopLogProbs)
	}
	if external {
		if r.ResponseFormat.constrains() {
			request.ResponseFormat, err = json.Marshal(r.ResponseFormat)
		}
		return request, err
	}
	request.Grammar, err = r.ResponseFormat.grammar(s.Engine.Vocab)
	return request, err
}

// vocabulary is the number of tokens that there may be.
func (s *Server) vocabulary() int {
	if s.Engine.External() != "" { // not known; biases are refused in any case
		return math.MaxInt32
	}
	return s.Engine.Tokenizer().Size()
}

// sampling says how tokens are chosen from a vocabulary of a size.
func (r chatRequest) sampling(vocabulary int) (sample.Params, error) {
	p := sample.Params{Temperature: valueOr(r.Temperature, 1), TopK: max(r.TopK, 0), MinP: r.MinP, Seed: uint64(r.Seed),
		RepetitionPenalty: r.RepetitionPenalty, PresencePenalty: r.PresencePenalty, FrequencyPenalty: r.FrequencyPenalty}
	p.Nucleus(r.TopP)
	for token, bias := range r.LogitBias {
		id, err := strconv.ParseInt(token, 10, 32)
		if err != nil || id < 0 || id >= int64(vocabulary) {
			return p, invalid("logit_bias", "logit_bias has the key %q; keys are token ids below %d", token, vocabulary)
		}
		if !(bias >= -100 && bias <= 100) {
			return p, invalid("logit_bias", "logit_bias of token %s is %g; it must be between -100 and 100", token, bias)
		}
		if p.LogitBias == nil {
			p.LogitBias = map[int32]float32{}
		}
		p.LogitBias[int32(id)] = bias
	}
	return p, nil
}

// responseFormat is OpenAI's response_format: text, any JSON object, or JSON of a schema.
type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema struct {
		Name   string          `json:"name,omitempty"`
		Schema json.RawMessage `json:"schema,omitempty"`
	} `json:"json_schema,omitzero"`
}

func (f responseFormat) constrains() bool { return f.Type != "" && f.Type != "text" }

// anyObject is the schema of every JSON object.
const anyObject = `{"$ref":"#/$defs/object","$defs":{
	"object":{"type":"object","additionalProperties":{"$ref":"#/$defs/value"}},
	"value":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"null"},{"$ref":"#/$defs/object"},{"type":"array","items":{"$ref":"#/$defs/value"}}]}}}`

// grammar is what the model may write; nil for text. A vocabulary takes a moment to build, so it is asked for only where it is needed.
func (f responseFormat) grammar(vocabulary func() *grammar.Vocab) (*grammar.Grammar, error) {
	schema := []byte(anyObject)
	switch f.Type {
	case "", "text":
		return nil, nil
	case "json_object":
	case "json_schema":
		if schema = f.JSONSchema.Schema; len(schema) == 0 {
			return nil, invalid("response_format", "response_format json_schema needs json_schema.schema")
		}
	default:
		return nil, invalid("response_format", "response_format %q is not offered; there are text, json_object and json_schema", f.Type)
	}
	g, err := grammar.JSONSchema(vocabulary(), schema)
	if err != nil {
		return nil, invalid("response_format", "this schema is not supported: %v", err)
	}
	return g, nil
}

// The JSON of log-probabilities.
type (
	logProbs struct {
		Content []tokenLogProb `json:"content"`
	}
	tokenLogProb struct {
		alternative
		Top []alternative `json:"top_logprobs"`
	}
	alternative struct {
		Token   string  `json:"token"`
		LogProb float32 `json:"logprob"`
		Bytes   []int   `json:"bytes"` // tokens may be parts of characters
	}
)

// logProb describes a generated token with the best of what could have stood in its place.
func (s *Server) logProb(e llm.Event, top int) tokenLogProb {
	t := tokenLogProb{alternative: s.alternative(e.Token, e.LogProb), Top: []alternative{}}
	for _, a := range e.Top[:min(top, len(e.Top))] {
		t.Top = append(t.Top, s.alternative(a.Token, a.LogProb))
	}
	return t
}

func (s *Server) alternative(token llm.Token, logProb float32) alternative {
	raw := s.Engine.Tokenizer().Bytes(token)
	a := alternative{Token: string(raw), LogProb: max(logProb, -9999), Bytes: make([]int, len(raw))} // OpenAI's floor; JSON has no infinity
	for i, b := range raw {
		a.Bytes[i] = int(b)
	}
	return a
}
