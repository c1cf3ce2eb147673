package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
)

// encode writes v as one line of JSON. Nothing is escaped for HTML: a response is never part of a page, and the escapes would make it hard to read.
func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode JSON: %w", err)
	}
	return nil
}

// reply sends v, which the client must take within the write timeout.
func (s *Server) reply(c *gin.Context, status int, v any) {
	s.deadline(c)
	c.Header("Content-Type", "application/json; charset=utf-8")
	c.Status(status)
	if err := encode(c.Writer, v); err != nil && c.Request.Context().Err() == nil {
		s.log.Warn("response not sent", "request_id", requestID(c), "route", c.FullPath(), "error", err)
	}
}

// deadline is when a client must have taken a response that is not a stream.
func (s *Server) deadline(c *gin.Context) {
	_ = http.NewResponseController(c.Writer).SetWriteDeadline(time.Now().Add(s.config.WriteTimeout))
}

// decodeOptional reads a body that may be missing.
func decodeOptional(c *gin.Context, into any) error {
	if c.Request.ContentLength == 0 {
		return nil
	}
	return decode(c, into, tolerateUnknown)
}

// unknownFields says what happens to fields that a route does not know.
type unknownFields bool

const (
	refuseUnknown   unknownFields = false // ours: a misspelt option that is ignored is worse than a refusal
	tolerateUnknown unknownFields = true  // OpenAI's: its SDKs send many that mean nothing here
)

// decode reads a body of exactly one JSON object.
func decode(c *gin.Context, into any, unknown unknownFields) error {
	body := bufio.NewReader(c.Request.Body)
	if first, _ := body.Peek(4); string(first) == "null" { // which would set nothing, and pass
		return invalid("", "the body must be a JSON object, not null")
	}
	dec := json.NewDecoder(body)
	if unknown == refuseUnknown {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(into); err != nil {
		return bodyError(err)
	}
	var rest json.RawMessage
	switch err := dec.Decode(&rest); {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return invalid("", "the body holds more than one JSON value")
	default:
		return bodyError(err)
	}
}

// bodyError says what is wrong with a body, in terms of JSON.
func bodyError(err error) error {
	var tooLarge *http.MaxBytesError
	var kind *json.UnmarshalTypeError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &tooLarge), errors.As(err, &timeout) && timeout.Timeout():
		return err
	case errors.Is(err, io.EOF):
		return invalid("", "the request has no body; send JSON")
	case errors.As(err, &kind) && kind.Field == "":
		return invalid("", "the body must be a JSON object, not a %s", kind.Value)
	case errors.As(err, &kind):
		return invalid(kind.Field, "%s cannot be a %s; see /openapi.yaml for what it takes", kind.Field, kind.Value)
	}
	return invalid("", "the body is not the JSON that this route takes: %v", err)
}

// valueOr is the value of a field that may be absent.
func valueOr[T any](field *T, absent T) T {
	if field == nil {
		return absent
	}
	return *field
}
