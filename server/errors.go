package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
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
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"` // null when the error is about no single one
	Code    string  `json:"code"`
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

// statuses maps what packages report to what HTTP says; the first match counts, everything else is a 500. Where message is empty the error's own text
// is shown, without what the packages on its way added.
var statuses = []struct {
	target  error
	status  int
	code    string
	message string
}{
	{answer.ErrInvalid, http.StatusBadRequest, "invalid_question", ""},
	{llm.ErrTooLong, http.StatusUnprocessableEntity, "context_length_exceeded", ""},
	{llm.ErrBusy, http.StatusTooManyRequests, "engine_busy", "the language model has as many requests waiting as it takes; try again later"},
	{errFull, http.StatusTooManyRequests, "too_many_requests", "the server has as many requests under way as it takes; try again later"},
	{errStopping, http.StatusServiceUnavailable, "shutting_down", "the server is stopping"},
	{llm.ErrClosed, http.StatusServiceUnavailable, "shutting_down", "the server is stopping"},
	{llm.ErrExternal, http.StatusBadGateway, "engine_unavailable", ""},
	{llm.ErrNoLogits, http.StatusNotImplemented, "not_available", "the answers are written by an external engine, which has no grammars, beams, several answers, log-probabilities or biases here"},
	{llm.ErrUnhealthy, http.StatusServiceUnavailable, "engine_unhealthy", "the language model stopped after an internal error; ragd has to be restarted"},
	{ingest.ErrNoPage, http.StatusNotFound, "not_found", ""},
	{errNoCorpus, http.StatusNotFound, "not_found", ""},
	{store.ErrNotFound, http.StatusNotFound, "not_found", ""},
	{store.ErrDiskFull, http.StatusInsufficientStorage, "disk_full", "the database's disk is full; what was stored before is kept"},
	{store.ErrOffset, http.StatusConflict, "upload_offset", ""},
	{store.ErrTooLong, http.StatusRequestEntityTooLarge, "too_large", "the upload has more bytes than it was announced with"},
	{store.ErrKeyReused, http.StatusUnprocessableEntity, "idempotency_key_reused", "this idempotency key came with another document before"},
	{store.ErrIndexMismatch, http.StatusConflict, "index_mismatch", ""},
	{store.ErrUnavailable, http.StatusServiceUnavailable, "database_unavailable", "the database cannot be reached; try again shortly"},
	{context.DeadlineExceeded, http.StatusGatewayTimeout, "timeout", "the request took longer than one may; ask for fewer tokens or texts"},
	{os.ErrDeadlineExceeded, http.StatusRequestTimeout, "body_timeout", "the request's body did not arrive in time"},
}

// ingestStatus maps the class of a refused document; the others are 422.
var ingestStatus = map[ingest.Class]int{
	ingest.Unsupported: http.StatusUnsupportedMediaType,
	ingest.TooLarge:    http.StatusRequestEntityTooLarge,
}

// describe turns err into a status and a body that may be shown to the caller.
func describe(err error, requestID string) (int, errorDetail) {
	var bad *badRequest
	var refused *ingest.Error
	var tooLarge *http.MaxBytesError
	var limit *store.LimitError
	switch {
	case errors.As(err, &limit):
		return http.StatusTooManyRequests, detailOf(http.StatusTooManyRequests, "rate_limit_exceeded", "", limit.Error())
	case errors.As(err, &bad):
		return bad.status, detailOf(bad.status, bad.code, bad.param, bad.message)
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge, detailOf(http.StatusRequestEntityTooLarge, "too_large", "",
			fmt.Sprintf("the request body is larger than the %d bytes that are taken", tooLarge.Limit))
	case errors.As(err, &refused):
		status, ok := ingestStatus[refused.Class]
		if !ok {
			status = http.StatusUnprocessableEntity
		}
		return status, detailOf(status, string(refused.Class), "", refused.Message)
	}
	for _, s := range statuses {
		if !errors.Is(err, s.target) {
			continue
		}
		message := s.message
		if message == "" {
			message = innermost(err, s.target)
		}
		return s.status, detailOf(s.status, s.code, "", message)
	}
	return http.StatusInternalServerError, detailOf(http.StatusInternalServerError, "internal", "", "internal error; the server's log has more under request "+requestID)
}

func detailOf(status int, code, param, message string) errorDetail {
	d := errorDetail{Message: message, Type: "invalid_request_error", Code: code}
	switch {
	case status == http.StatusUnauthorized:
		d.Type = "authentication_error"
	case status == http.StatusForbidden:
		d.Type = "permission_error"
	case status == http.StatusTooManyRequests:
		d.Type = "rate_limit_error"
	case status >= 500:
		d.Type = "server_error"
	}
	if param != "" {
		d.Param = &param
	}
	return d
}

// innermost returns the text of the error that wraps target itself, without target's own in front: the most exact description, free of the names of
// packages and calls.
func innermost(err, target error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil || inner == target || !errors.Is(inner, target) { //nolint:errorlint // the very value is meant
			return strings.TrimPrefix(err.Error(), target.Error()+": ")
		}
		err = inner
	}
}

// explain describes err, and logs it when the fault is on the server's side.
func (s *Server) explain(c *gin.Context, err error) (int, errorDetail) {
	id := requestID(c)
	status, detail := describe(err, id)
	if status >= 500 && !errors.Is(err, errStopping) {
		s.log.Error("request failed", "request_id", id, "route", c.FullPath(), "status", status, "error", err)
	}
	return status, detail
}

// fail answers with err. A client that left gets nothing, and that is no error of ours.
func (s *Server) fail(c *gin.Context, err error) {
	// net/http ends the context, too, when a read of the body timed out; that client is still there.
	if left(c) && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.AbortWithStatus(statusClientLeft)
		return
	}
	status, detail := s.explain(c, err)
	if after := retryAfter(err); after > 0 {
		c.Header("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	c.Abort()
	s.reply(c, status, errorBody{detail})
}

// statusClientLeft is nginx's number for a client that closed the connection; nobody sees it but the metrics.
const statusClientLeft = 499

func retryAfter(err error) time.Duration {
	var busy *llm.BusyError
	var limit *store.LimitError
	switch {
	case errors.As(err, &limit):
		return max(limit.RetryAfter, time.Second)
	case errors.As(err, &busy):
		return max(busy.RetryAfter, time.Second)
	case errors.Is(err, errFull), errors.Is(err, store.ErrUnavailable):
		return 2 * time.Second
	case errors.Is(err, errStopping), errors.Is(err, llm.ErrClosed):
		return 10 * time.Second
	}
	return 0
}
