package server

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"ragd/embed"
)

// embeddingRequest is the body of POST /v1/embeddings. Role is ours: "query" or "passage", for models that tell them apart.
type embeddingRequest struct {
	Model          string          `json:"model"`
	Input          json.RawMessage `json:"input"`
	EncodingFormat string          `json:"encoding_format"`
	Dimensions     int             `json:"dimensions"`
	Role           string          `json:"role"`
}

// OpenAI's bounds on the texts of one request, and on their tokens in all.
const (
	maxInputs      = 2048
	maxInputTokens = 300_000
)

func (r embeddingRequest) inputs(dim int) ([]string, error) {
	var one string
	var many []string
	if json.Unmarshal(r.Input, &one) == nil {
		many = []string{one}
	} else if err := json.Unmarshal(r.Input, &many); err != nil {
		return nil, invalid("input", "input must be a string or a list of strings; token ids of another model's tokenizer mean nothing here")
	}
	switch {
	case len(many) == 0 || len(many) > maxInputs:
		return nil, invalid("input", "input holds %d texts; it must hold 1 to %d", len(many), maxInputs)
	case slices.ContainsFunc(many, func(text string) bool { return strings.TrimSpace(text) == "" }):
		return nil, invalid("input", "input holds an empty text")
	case r.Role != "" && r.Role != "query" && r.Role != "passage":
		return nil, invalid("role", "role is %q; it must be query or passage", r.Role)
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
	if err := decode(c, &body, tolerateUnknown); err != nil {
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
	tokens := 0
	for _, t := range texts {
		tokens += s.countTokens(t)
	}
	if tokens > maxInputTokens {
		s.fail(c, invalid("input", "input has %d tokens; one request may have %d in all: send it in parts", tokens, maxInputTokens))
		return
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
	s.charge(c.Request.Context(), caller(c), tokens)
	s.reply(c, http.StatusOK, gin.H{"object": "list", "data": data, "model": s.Embedder.Model(), "usage": gin.H{"prompt_tokens": tokens, "total_tokens": tokens}})
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

// models is GET /v1/models: what this server runs, the answer model first.
func (s *Server) models(c *gin.Context) {
	data := []gin.H{}
	for _, name := range []string{s.Engine.Name(), s.Embedder.Model()} {
		data = append(data, gin.H{"id": name, "object": "model", "owned_by": "ragd", "created": 0})
	}
	s.reply(c, http.StatusOK, gin.H{"object": "list", "data": data})
}
