package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"ragd/store"
)

// upload is POST /v1/documents, a multipart form with a field "file" and optional fields "corpus" (default "default") and "path" (default: the file's
// name). The file is stored as it arrives, a piece at a time in memory. The answer comes when all of it is stored; reading and indexing it goes on behind
// it, and GET /v1/documents/{id} shows how far it is. A request that comes again with the same Idempotency-Key does nothing and is answered as the first.
func (s *Server) upload(c *gin.Context) {
	form, err := s.begin(c)
	if err == nil {
		err = form.read()
	}
	if err == nil && form.before != nil {
		s.replay(c, form)
		return
	}
	var u store.Upload
	if err == nil {
		u, err = s.finish(c, store.Upload{ID: form.id, Corpus: form.corpus, Path: form.path})
	}
	if form != nil && form.id != "" && (err != nil || form.key == "") { // nobody will ask for it again
		s.drop(c, form.id)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	s.uploaded(c, u)
}

// uploaded answers with the document that an upload has become.
func (s *Server) uploaded(c *gin.Context, u store.Upload) {
	d, err := s.Library.DocumentByID(c.Request.Context(), s.tenant(c), u.Document)
	if err != nil {
		s.fail(c, err)
		return
	}
	status := http.StatusOK
	if u.Queued {
		status = http.StatusAccepted
	}
	c.Header("Location", "/v1/documents/"+formatID(int64(d.ID)))
	s.reply(c, status, documentOf(d))
}

// form is an upload that is being read.
type form struct {
	s            *Server
	c            *gin.Context
	parts        *multipart.Reader
	key          string
	before       *store.Upload // what the key brought before
	corpus, path string
	id           string // of the upload; "" before the file
	sha256       string // of the file, when it only is compared
}

func (s *Server) begin(c *gin.Context) (*form, error) {
	f := &form{s: s, c: c, corpus: "default", key: idempotencyKey(c)}
	if len(f.key) > maxKey {
		return nil, invalid("Idempotency-Key", "an idempotency key has at most %d bytes", maxKey)
	}
	var err error
	if f.parts, err = c.Request.MultipartReader(); err != nil {
		return nil, invalid("", "send the document as multipart/form-data with a field named file: %v", err)
	}
	return f, nil
}

// read takes the parts of the form in whatever order they come, and leaves the file in an upload.
func (f *form) read() error {
	for {
		part, err := f.parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return uploadError(err)
		}
		if err := f.readPart(part); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, f.c.Request.Body); err != nil { // what may follow the form; see patientBody
		return uploadError(err)
	}
	if f.id == "" && f.before == nil {
		return invalid("file", "the form has no field named file")
	}
	if err := checkTarget(f.corpus, f.path); err != nil {
		return err
	}
	_, err := f.s.reach(f.c, []string{f.corpus})
	return err
}

// maxField bounds a field of the form that is not the file.
const maxField = maxPath + 1

func (f *form) readPart(part *multipart.Part) error {
	if name := part.FormName(); name != "file" {
		content, err := io.ReadAll(io.LimitReader(part, maxField))
		switch {
		case err != nil:
			return uploadError(err)
		case name == "corpus":
			f.corpus = strings.TrimSpace(string(content))
		case name == "path":
			f.path = cleanPath(string(content))
		default:
			return invalid(name, "the form has a field %q; it takes file, corpus and path", name)
		}
		return nil
	}
	if f.id != "" || f.before != nil {
		return invalid("file", "the form has more than one file; send each in a request of its own")
	}
	if f.path == "" {
		f.path = cleanPath(part.FileName())
	}
	return f.readFile(part)
}

// readFile stores the file's bytes, or compares them when the request's key has come before.
func (f *form) readFile(part *multipart.Part) error {
	ctx, tenant := f.c.Request.Context(), f.s.tenant(f.c)
	// The names are not known for sure before the end of the form, so they are not the key's.
	u, created, err := f.s.Uploads.CreateUpload(ctx, tenant, store.Upload{Size: -1, Key: f.key})
	if err != nil {
		return err
	}
	if !created && u.Document == 0 { // the one before broke off: from the beginning
		if err := f.s.Uploads.DropUpload(ctx, tenant, u.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if u, created, err = f.s.Uploads.CreateUpload(ctx, tenant, store.Upload{Size: -1, Key: f.key}); err != nil {
			return err
		}
	}
	if !created {
		h := sha256.New()
		f.before = &u
		_, err := io.Copy(h, part)
		f.sha256 = hex.EncodeToString(h.Sum(nil))
		return uploadErrorOf(err)
	}
	f.id = u.ID
	_, err = f.s.Uploads.AppendUpload(ctx, tenant, u.ID, 0, part)
	return uploadErrorOf(err)
}

func uploadErrorOf(err error) error {
	if err == nil {
		return nil
	}
	return uploadError(err)
}

// replay answers a request whose key has come before with what it brought then.
func (s *Server) replay(c *gin.Context, f *form) {
	d, err := s.Library.DocumentByID(c.Request.Context(), s.tenant(c), f.before.Document)
	if err == nil && (d.SHA256 != f.sha256 || d.Corpus != f.corpus || d.Path != f.path) {
		err = store.ErrKeyReused
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	s.uploaded(c, *f.before)
}

// drop forgets an upload that came to nothing, also when the client has left.
func (s *Server) drop(c *gin.Context, id string) {
	if err := s.Uploads.DropUpload(context.WithoutCancel(c.Request.Context()), s.tenant(c), id); err != nil && !errors.Is(err, store.ErrNotFound) {
		s.log.Warn("upload not dropped; it goes after a day", "request_id", requestID(c), "error", err)
	}
}
