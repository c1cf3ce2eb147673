package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"ragd/answer"
	"ragd/ingest"
	"ragd/llm"
	"ragd/store"
)

// errorBody is the OpenAI error envelope.
type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   string `json:"param,omitempty"`
	Code    string `json:"code"`
}

// badRequest is an error whose text tells the caller what to change.
type badRequest struct {
	status      int
	code, param string
	message     string
}

func (e *badRequest) Error() string { return e.message }

func invalid(param, format string, args ...any) error {
	return &badRequest{status: http.StatusBadRequest, code: "invalid_request", param: param, message: fmt.Sprintf(format, args...)}
}

// statuses maps what packages report to what HTTP says; the first match counts. Everything else is a 500.
var statuses = []struct {
	match  func(error) bool
	status int
	code   string
}{
	{is(answer.ErrInvalid), http.StatusBadRequest, "invalid_question"},
	{is(llm.ErrTooLong), http.StatusUnprocessableEntity, "context_length_exceeded"},
	{is(llm.ErrBusy), http.StatusTooManyRequests, "engine_busy"},
	{is(llm.ErrClosed), http.StatusServiceUnavailable, "shutting_down"},
	{is(llm.ErrUnhealthy), http.StatusServiceUnavailable, "engine_unhealthy"},
	{is(store.ErrNotFound), http.StatusNotFound, "not_found"},
	{is(store.ErrIndexMismatch), http.StatusConflict, "index_mismatch"},
	{is(store.ErrUnavailable), http.StatusServiceUnavailable, "database_unavailable"},
	{is(context.DeadlineExceeded), http.StatusGatewayTimeout, "timeout"},
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// ingestStatus maps the class of a refused document.
var ingestStatus = map[ingest.Class]int{
	ingest.Unsupported: http.StatusUnsupportedMediaType,
	ingest.TooLarge:    http.StatusRequestEntityTooLarge,
	ingest.TooDeep:     http.StatusUnprocessableEntity,
}

// describe turns err into a status and a body that may be shown to the caller.
func describe(err error, requestID string) (int, errorDetail) {
	var bad *badRequest
	var refused *ingest.Error
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &bad):
		return bad.status, errorDetail{Message: bad.message, Type: "invalid_request_error", Param: bad.param, Code: bad.code}
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge, errorDetail{
			Message: fmt.Sprintf("the request body is larger than %d bytes", tooLarge.Limit), Type: "invalid_request_error", Code: "too_large"}
	case errors.As(err, &refused):
		status, ok := ingestStatus[refused.Class]
		if !ok {
			status = http.StatusUnprocessableEntity
		}
		return status, errorDetail{Message: refused.Message, Type: "invalid_request_error", Code: string(refused.Class)}
	}
	for _, s := range statuses {
		if s.match(err) {
			kind := "invalid_request_error"
			if s.status >= 500 || s.status == http.StatusTooManyRequests {
				kind = "server_error"
			}
			return s.status, errorDetail{Message: err.Error(), Type: kind, Code: s.code}
		}
	}
	return http.StatusInternalServerError, errorDetail{
		Message: "internal error; the server's log has more under request " + requestID, Type: "server_error", Code: "internal"}
}

// fail answers with err. A client that left gets nothing, and that is no error of ours.
func (s *Server) fail(c *gin.Context, err error) {
	if c.Request.Context().Err() != nil {
		c.Abort()
		return
	}
	id := requestID(c)
	status, detail := describe(err, id)
	if status == http.StatusInternalServerError {
		s.log.Error("request failed", "request_id", id, "route", c.FullPath(), "error", err)
	}
	if after := retryAfter(err); after > 0 {
		c.Header("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	c.AbortWithStatusJSON(status, errorBody{detail})
}

func retryAfter(err error) time.Duration {
	var busy *llm.BusyError
	if errors.As(err, &busy) {
		return max(busy.RetryAfter, time.Second)
	}
	if errors.Is(err, store.ErrUnavailable) {
		return 2 * time.Second
	}
	return 0
}
