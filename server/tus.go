package server

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"ragd/ingest"
	"ragd/store"
)

// Uploads keeps files that are being received. *store.Store implements it.
type Uploads interface {
	CreateUpload(ctx context.Context, tenant string, u store.Upload) (store.Upload, bool, error)
	Upload(ctx context.Context, tenant, id string) (store.Upload, error)
	AppendUpload(ctx context.Context, tenant, id string, offset int64, content io.Reader) (int64, error)
	FinishUpload(ctx context.Context, tenant, id string, c ingest.Candidate) (store.Upload, error)
	DropUpload(ctx context.Context, tenant, id string) error
}

// The routes below are tus 1.0 (tus.io/protocols/resumable-upload): core, creation, termination. Any tus client can upload a document in parts, and
// go on after a broken connection or a restart of the server.
const tusVersion = "1.0.0"

// tus checks and names the version of the protocol.
func (s *Server) tus(c *gin.Context) {
	c.Header("Tus-Resumable", tusVersion)
	if c.Request.Method != http.MethodOptions && c.GetHeader("Tus-Resumable") != tusVersion {
		c.Header("Tus-Version", tusVersion)
		s.fail(c, &badRequest{status: http.StatusPreconditionFailed, code: "tus_version", message: "send the header Tus-Resumable: " + tusVersion})
	}
}

// tusOptions is OPTIONS /v1/uploads.
func (s *Server) tusOptions(c *gin.Context) {
	c.Header("Tus-Version", tusVersion)
	c.Header("Tus-Extension", "creation,termination")
	c.Header("Tus-Max-Size", strconv.FormatInt(s.config.UploadBytes, 10))
	c.Status(http.StatusNoContent)
}

// tusCreate is POST /v1/uploads with Upload-Length and, in Upload-Metadata, path (or filename) and corpus.
func (s *Server) tusCreate(c *gin.Context) {
	u, err := s.announced(c)
	if err == nil {
		_, err = s.reach(c, []string{u.Corpus})
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	u, created, err := s.Uploads.CreateUpload(c.Request.Context(), s.tenant(c), u)
	if err != nil {
		s.fail(c, err)
		return
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	c.Header("Location", "/v1/uploads/"+u.ID)
	c.Header("Upload-Offset", strconv.FormatInt(u.Received, 10))
	if u.Received == u.Size && u.Document == 0 { // an empty file
		if u, err = s.finish(c, u); err != nil {
			s.fail(c, err)
			return
		}
	}
	documentHeader(c, u)
	c.Status(status)
}

// announced reads what a creation says about its file.
func (s *Server) announced(c *gin.Context) (u store.Upload, err error) {
	u.Size, err = strconv.ParseInt(c.GetHeader("Upload-Length"), 10, 64)
	switch {
	case err != nil || u.Size < 0:
		return u, invalid("Upload-Length", "Upload-Length is %q; it must be the size of the file in bytes", c.GetHeader("Upload-Length"))
	case u.Size > s.config.UploadBytes:
		return u, &http.MaxBytesError{Limit: s.config.UploadBytes}
	}
	metadata, err := tusMetadata(c.GetHeader("Upload-Metadata"))
	if err != nil {
		return u, err
	}
	u.Corpus, u.Path, u.Key = metadata["corpus"], cleanPath(metadata["path"]), idempotencyKey(c)
	if u.Corpus == "" {
		u.Corpus = "default"
	}
	if u.Path == "" {
		u.Path = cleanPath(metadata["filename"])
	}
	if len(u.Key) > maxKey {
		return u, invalid("Idempotency-Key", "an idempotency key has at most %d bytes", maxKey)
	}
	return u, checkTarget(u.Corpus, u.Path)
}

// tusMetadata reads "key base64, key base64".
func tusMetadata(header string) (map[string]string, error) {
	metadata := make(map[string]string)
	for pair := range strings.SplitSeq(header, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(pair), " ")
		decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value))
		if err != nil {
			return nil, invalid("Upload-Metadata", "the value of %q is not base64", key)
		}
		metadata[key] = string(decoded)
	}
	return metadata, nil
}

// maxKey bounds an idempotency key.
const maxKey = 255

func idempotencyKey(c *gin.Context) string { return c.GetHeader("Idempotency-Key") }

// checkTarget checks where an upload is to go.
func checkTarget(corpus, target string) error {
	switch {
	case !corpusName.MatchString(corpus):
		return invalidCorpus("corpus", corpus)
	case target == "":
		return invalid("path", "the file has no name; give one in the field path")
	case len(target) > maxPath || !utf8.ValidString(target) || strings.ContainsFunc(target, unicode.IsControl):
		return invalid("path", "a path has at most %d bytes of UTF-8 and no control characters", maxPath)
	}
	return nil
}

// maxPath is the length of the longest path that common file systems have.
const maxPath = 4096

// cleanPath makes a client's path a relative one that stays below its corpus.
func cleanPath(p string) string {
	return strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(strings.TrimSpace(p), "\\", "/")), "/")
}

// ownUpload is the upload in the path, if the request's key may write there; ok is false when the request is answered already.
func (s *Server) ownUpload(c *gin.Context) (u store.Upload, ok bool) {
	u, err := s.Uploads.Upload(c.Request.Context(), s.tenant(c), c.Param("id"))
	if err == nil {
		_, err = s.reach(c, []string{u.Corpus})
	}
	if err != nil {
		s.fail(c, err)
		return u, false
	}
	return u, true
}

// tusHead is HEAD /v1/uploads/{id}: how far it is.
func (s *Server) tusHead(c *gin.Context) {
	u, ok := s.ownUpload(c)
	if !ok {
		return
	}
	c.Header("Upload-Offset", strconv.FormatInt(u.Received, 10))
	c.Header("Upload-Length", strconv.FormatInt(u.Size, 10))
	documentHeader(c, u)
	c.Status(http.StatusOK)
}

// tusPatch is PATCH /v1/uploads/{id}: the next bytes. With the last of them the file becomes a document, which the header Ragd-Document-Id names.
func (s *Server) tusPatch(c *gin.Context) {
	u, ok := s.ownUpload(c)
	if !ok {
		return
	}
	if c.ContentType() != "application/offset+octet-stream" {
		s.fail(c, &badRequest{status: http.StatusUnsupportedMediaType, code: "content_type", message: "send the bytes as application/offset+octet-stream"})
		return
	}
	offset, err := strconv.ParseInt(c.GetHeader("Upload-Offset"), 10, 64)
	if err != nil || offset < 0 {
		s.fail(c, invalid("Upload-Offset", "Upload-Offset is %q; it must be how many bytes were sent before", c.GetHeader("Upload-Offset")))
		return
	}
	if u.Document == 0 {
		if u.Received, err = s.Uploads.AppendUpload(c.Request.Context(), s.tenant(c), u.ID, offset, c.Request.Body); err != nil {
			s.fail(c, uploadError(err))
			return
		}
		if u.Received == u.Size {
			if u, err = s.finish(c, u); err != nil {
				s.fail(c, err)
				return
			}
		}
	}
	c.Header("Upload-Offset", strconv.FormatInt(u.Received, 10))
	documentHeader(c, u)
	c.Status(http.StatusNoContent)
}

// tusDelete is DELETE /v1/uploads/{id}.
func (s *Server) tusDelete(c *gin.Context) {
	u, ok := s.ownUpload(c)
	if !ok {
		return
	}
	if err := s.Uploads.DropUpload(c.Request.Context(), s.tenant(c), u.ID); err != nil {
		s.fail(c, err)
		return
	}
	c.Status(http.StatusNoContent)
}

// finish makes a whole upload a document.
func (s *Server) finish(c *gin.Context, u store.Upload) (store.Upload, error) {
	done, err := s.Uploads.FinishUpload(c.Request.Context(), s.tenant(c), u.ID, ingest.Candidate{
		Source: ingest.Source{Tenant: s.tenant(c), Corpus: u.Corpus, Path: u.Path}, Index: s.Pipeline.Index()})
	if err == nil && done.Queued {
		s.wake()
	}
	return done, err
}

// documentHeader names the document that an upload has become.
func documentHeader(c *gin.Context, u store.Upload) {
	if u.Document != 0 {
		c.Header("Ragd-Document-Id", formatID(int64(u.Document)))
	}
}

func uploadError(err error) error {
	var tooLarge *http.MaxBytesError
	var timeout interface{ Timeout() bool }
	if errors.As(err, &tooLarge) || errors.As(err, &timeout) && timeout.Timeout() {
		return err
	}
	for _, known := range []error{store.ErrOffset, store.ErrTooLong, store.ErrNotFound, store.ErrUnavailable, store.ErrIndexMismatch} {
		if errors.Is(err, known) {
			return err
		}
	}
	var refused *ingest.Error
	if errors.As(err, &refused) {
		return err
	}
	return invalid("", "the upload broke off or is not a valid form: %v", err)
}
