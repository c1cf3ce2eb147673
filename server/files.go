package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"ragd/retrieve"
	"ragd/store"
)

// Files is what the routes of OpenAI's files API need of the database. *store.Store implements it.
type Files interface {
	CreateFile(ctx context.Context, tenant, name, purpose string, data []byte) (store.File, error)
	Files(ctx context.Context, tenant string, after int64, limit int) ([]store.File, error)
	File(ctx context.Context, tenant string, id int64) (store.File, error)
	FileData(ctx context.Context, tenant string, id int64) ([]byte, error)
	DeleteFile(ctx context.Context, tenant string, id int64) error
}

// Ids of OpenAI's shape: a file that was uploaded to /v1/files is file-N, and becomes the document file-N/NAME of each corpus that it is put into;
// a document that came another way is doc-N.
const (
	filesAtOnce = 4

	filePrefix     = "file-"
	documentPrefix = "doc-"
)

var fileInPath = regexp.MustCompile(`^file-[1-9][0-9]*/`)

// fileID is how OpenAI-shaped responses name a document.
func fileID(id retrieve.DocumentID, documentPath string) string {
	if made := fileInPath.FindString(documentPath); made != "" {
		return strings.TrimSuffix(made, "/")
	}
	return documentPrefix + formatID(int64(id))
}

// numberOf reads the number behind prefix.
func numberOf(id, prefix string) (int64, bool) {
	text, ok := strings.CutPrefix(id, prefix)
	n, err := strconv.ParseInt(text, 10, 64)
	return n, ok && err == nil && n > 0
}

// pathFile reads the id in the path.
func pathFile(c *gin.Context, id string) (int64, error) {
	n, ok := numberOf(id, filePrefix)
	if !ok {
		return 0, &badRequest{status: http.StatusNotFound, code: "not_found", message: "there is no file " + strconv.Quote(id)}
	}
	return n, nil
}

// tenantWide lets keys pass that see all of their tenant: files and the audit log belong to no corpus.
func (s *Server) tenantWide(c *gin.Context) {
	if len(caller(c).Corpora) > 0 {
		s.fail(c, &badRequest{status: http.StatusForbidden, code: "forbidden", message: "this key is confined to corpora, and this belongs to none; documents are added with POST /v1/documents"})
		return
	}
	if s.Files == nil {
		s.fail(c, errNoKeys)
	}
}

func fileOf(f store.File) gin.H {
	return gin.H{"id": filePrefix + formatID(f.ID), "object": "file", "bytes": f.Size, "created_at": f.CreatedAt.Unix(), "filename": f.Name, "purpose": f.Purpose, "status": "processed"}
}

// createFile is POST /v1/files, a multipart form with the fields file and purpose; others of OpenAI's are ignored.
func (s *Server) createFile(c *gin.Context) {
	select { // a file is in memory until it is stored: they take turns
	case s.filing <- struct{}{}:
		defer func() { <-s.filing }()
	case <-c.Request.Context().Done():
		s.fail(c, c.Request.Context().Err())
		return
	}
	name, purpose, data, err := readFile(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	f, err := s.Files.CreateFile(c.Request.Context(), s.tenant(c), name, purpose, data)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.reply(c, http.StatusOK, fileOf(f))
}

func readFile(c *gin.Context) (name, purpose string, data []byte, err error) {
	parts, err := c.Request.MultipartReader()
	if err != nil {
		return "", "", nil, invalid("", "send the file as multipart/form-data with the fields file and purpose: %v", err)
	}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", "", nil, uploadError(err)
		}
		switch part.FormName() {
		case "file":
			name = path.Base(cleanPath(part.FileName()))
			if data, err = io.ReadAll(part); data == nil {
				data = []byte{}
			}
		case "purpose":
			var text []byte
			text, err = io.ReadAll(io.LimitReader(part, maxField))
			purpose = string(text)
		}
		if err != nil {
			return "", "", nil, uploadError(err)
		}
	}
	if _, err := io.Copy(io.Discard, c.Request.Body); err != nil { // what may follow the form; see patientBody
		return "", "", nil, uploadError(err)
	}
	switch {
	case data == nil:
		return "", "", nil, invalid("file", "the form has no field named file")
	case name == "." || name == "/" || len(name) > 255:
		return "", "", nil, invalid("file", "the file has no name, or one of more than 255 bytes")
	case purpose == "" || len(purpose) > 64:
		return "", "", nil, invalid("purpose", "purpose is missing; assistants is the usual one")
	}
	return name, purpose, data, checkTarget("files", name)
}

// files is GET /v1/files?after=&limit=.
func (s *Server) files(c *gin.Context) {
	after := int64(0)
	if text := c.Query("after"); text != "" {
		var ok bool
		if after, ok = numberOf(text, filePrefix); !ok {
			s.fail(c, invalid("after", "after is %q; it must be the id of a file", text))
			return
		}
	}
	_, limit, err := page(c, "")
	if err != nil {
		s.fail(c, err)
		return
	}
	found, err := s.Files.Files(c.Request.Context(), s.tenant(c), after, limit)
	if err != nil {
		s.fail(c, err)
		return
	}
	all := make([]gin.H, len(found))
	for i, f := range found {
		all[i] = fileOf(f)
	}
	s.reply(c, http.StatusOK, listOf(all, len(all) == limit))
}

// listOf is a page of OpenAI's lists.
func listOf(all []gin.H, more bool) gin.H {
	page := gin.H{"object": "list", "data": all, "has_more": more, "first_id": nil, "last_id": nil}
	if len(all) > 0 {
		page["first_id"], page["last_id"] = all[0]["id"], all[len(all)-1]["id"]
	}
	return page
}

// file is GET /v1/files/{id}.
func (s *Server) file(c *gin.Context) {
	id, err := pathFile(c, c.Param("id"))
	if err != nil {
		s.fail(c, err)
		return
	}
	f, err := s.Files.File(c.Request.Context(), s.tenant(c), id)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.reply(c, http.StatusOK, fileOf(f))
}

// fileContent is GET /v1/files/{id}/content: bytes to be saved, which no browser shows.
func (s *Server) fileContent(c *gin.Context) {
	id, err := pathFile(c, c.Param("id"))
	if err != nil {
		s.fail(c, err)
		return
	}
	data, err := s.Files.FileData(c.Request.Context(), s.tenant(c), id)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.deadline(c)
	c.Header("Content-Disposition", "attachment")
	c.Data(http.StatusOK, "application/octet-stream", data)
}

// deleteFile is DELETE /v1/files/{id}. The documents that were made of it go, too.
func (s *Server) deleteFile(c *gin.Context) {
	id, err := pathFile(c, c.Param("id"))
	if err != nil {
		s.fail(c, err)
		return
	}
	ctx := c.Request.Context()
	f, err := s.Files.File(ctx, s.tenant(c), id)
	if err != nil {
		s.fail(c, err)
		return
	}
	corpora, err := s.Library.Corpora(ctx, s.tenant(c))
	for i := 0; i < len(corpora) && err == nil; i++ {
		var d store.Document
		if d, err = s.Library.DocumentByPath(ctx, s.tenant(c), corpora[i].Name, pathOfFile(f)); err == nil {
			err = s.forgetDocument(c, d.ID)
		} else if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
	}
	if err == nil {
		err = s.Files.DeleteFile(ctx, s.tenant(c), id)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	s.reply(c, http.StatusOK, gin.H{"id": c.Param("id"), "object": "file", "deleted": true})
}

// pathOfFile is the path of the document that a file becomes.
func pathOfFile(f store.File) string { return filePrefix + formatID(f.ID) + "/" + f.Name }
