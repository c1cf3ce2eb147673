package server

import (
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"ragd/ingest"
)

// uploadsAtOnce bounds the files in memory.
const uploadsAtOnce = 4

// upload is POST /v1/documents, a multipart form with a field "file" and optional fields "corpus" (default "default") and "path" (default: the file's
// name). The answer comes when the bytes are stored; reading and indexing them goes on behind it, and GET /v1/documents/{id} shows how far it is.
func (s *Server) upload(c *gin.Context) {
	// A file is in memory from here until it is stored: uploads take turns.
	select {
	case s.uploads <- struct{}{}:
		defer func() { <-s.uploads }()
	case <-c.Request.Context().Done():
		s.fail(c, c.Request.Context().Err())
		return
	}
	candidate, data, err := readUpload(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	if _, err := s.reach(c, []string{candidate.Corpus}); err != nil {
		s.fail(c, err)
		return
	}
	candidate.Tenant = s.tenant(c)
	outcome, _, err := s.Pipeline.Add(c.Request.Context(), candidate, data)
	if err != nil {
		s.fail(c, err)
		return
	}
	d, err := s.Library.DocumentByPath(c.Request.Context(), candidate.Tenant, candidate.Corpus, candidate.Path)
	if err != nil {
		s.fail(c, err)
		return
	}
	status := http.StatusOK
	if outcome == ingest.Queued {
		status = http.StatusAccepted
		s.wake()
	}
	c.Header("Location", "/v1/documents/"+formatID(int64(d.ID)))
	s.reply(c, status, documentOf(d))
}

// readUpload takes the parts of the form in whatever order they come.
func readUpload(c *gin.Context) (candidate ingest.Candidate, data []byte, err error) {
	candidate.Corpus = "default"
	parts, err := c.Request.MultipartReader()
	if err != nil {
		return candidate, nil, invalid("", "send the document as multipart/form-data with a field named file: %v", err)
	}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return candidate, nil, uploadError(err)
		}
		if data, err = readPart(part, &candidate, data); err != nil {
			return candidate, nil, err
		}
	}
	if _, err := io.Copy(io.Discard, c.Request.Body); err != nil { // what may follow the form; see patientBody
		return candidate, nil, uploadError(err)
	}
	switch {
	case data == nil:
		return candidate, nil, invalid("file", "the form has no field named file")
	case !corpusName.MatchString(candidate.Corpus):
		return candidate, nil, invalid("corpus", "corpus %q: a name has 1 to 64 letters, digits, dots, dashes and underscores and begins with a letter or digit", candidate.Corpus)
	case candidate.Path == "":
		return candidate, nil, invalid("path", "the file has no name; give one in the field path")
	case len(candidate.Path) > maxPath || !utf8.ValidString(candidate.Path) || strings.ContainsFunc(candidate.Path, unicode.IsControl):
		return candidate, nil, invalid("path", "a path has at most %d bytes of UTF-8 and no control characters", maxPath)
	}
	return candidate, data, nil
}

// maxPath is the length of the longest path that common file systems have.
const maxPath = 4096

// maxField bounds a field of the form that is not the file.
const maxField = maxPath + 1

func readPart(part *multipart.Part, candidate *ingest.Candidate, data []byte) ([]byte, error) {
	name := part.FormName()
	if name != "file" {
		content, err := io.ReadAll(io.LimitReader(part, maxField))
		switch {
		case err != nil:
			return nil, uploadError(err)
		case name == "corpus":
			candidate.Corpus = strings.TrimSpace(string(content))
		case name == "path":
			candidate.Path = cleanPath(string(content))
		default:
			return nil, invalid(name, "the form has a field %q; it takes file, corpus and path", name)
		}
		return data, nil
	}
	if data != nil {
		return nil, invalid("file", "the form has more than one file; send each in a request of its own")
	}
	content, err := io.ReadAll(part)
	if err != nil {
		return nil, uploadError(err)
	}
	if candidate.Path == "" {
		candidate.Path = cleanPath(part.FileName())
	}
	return content, nil
}

// cleanPath makes a client's path a relative one that stays below its corpus.
func cleanPath(p string) string {
	return strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(strings.TrimSpace(p), "\\", "/")), "/")
}

func uploadError(err error) error {
	var tooLarge *http.MaxBytesError
	var timeout interface{ Timeout() bool }
	if errors.As(err, &tooLarge) || errors.As(err, &timeout) && timeout.Timeout() {
		return err
	}
	return invalid("", "the upload broke off or is not a valid form: %v", err)
}
