package server

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"ragd/store"
)

// keyJSON describes a key; Secret is there once, in the response that made it.
type keyJSON struct {
	ID                int64      `json:"id"`
	Name              string     `json:"name"`
	Corpora           []string   `json:"corpora"` // empty: all
	Actions           []string   `json:"actions"`
	RequestsPerMinute int        `json:"requests_per_minute"`
	TokensPerDay      int64      `json:"tokens_per_day"`
	CreatedAt         *time.Time `json:"created_at"`
	ExpiresAt         *time.Time `json:"expires_at"`
	Revoked           bool       `json:"revoked"`
	Login             bool       `json:"login"` // the session of somebody who signed in
	Secret            string     `json:"secret,omitempty"`
}

func keyOf(k store.Key, secret string) keyJSON {
	return keyJSON{ID: k.ID, Name: k.Name, Corpora: list(k.Corpora), Actions: list(k.Actions), RequestsPerMinute: k.RequestsPerMinute, TokensPerDay: k.TokensPerDay,
		CreatedAt: orNull(k.CreatedAt), ExpiresAt: orNull(k.ExpiresAt), Revoked: k.Revoked, Login: k.Login, Secret: secret}
}

// orNull makes JSON say null for a time that is not known.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// keyRequest is the body of POST /v1/keys.
type keyRequest struct {
	Name              string   `json:"name"`
	Corpora           []string `json:"corpora"`
	Actions           []string `json:"actions"`
	RequestsPerMinute int      `json:"requests_per_minute"`
	TokensPerDay      int64    `json:"tokens_per_day"`
	ExpiresInSeconds  int64    `json:"expires_in_seconds"` // 0: never
}

// maxSeconds is some thirty years: longer than any key should live, and far from the end of time.Duration.
const maxSeconds = 1_000_000_000

func (r keyRequest) check() error {
	switch {
	case strings.TrimSpace(r.Name) == "" || len(r.Name) > 200:
		return invalid("name", "name must have 1 to 200 bytes")
	case len(r.Actions) == 0 || slices.ContainsFunc(r.Actions, func(a string) bool { return !slices.Contains(Actions, a) }):
		return invalid("actions", "actions must hold at least one of %q", Actions)
	case len(r.Corpora) > 1000 || slices.ContainsFunc(r.Corpora, func(name string) bool { return !corpusName.MatchString(name) }):
		return invalid("corpora", "corpora must hold names of corpora, at most 1000")
	case r.RequestsPerMinute < 0 || r.RequestsPerMinute > 1_000_000:
		return invalid("requests_per_minute", "requests_per_minute must be between 1 and 1000000, or 0 for no limit")
	case r.TokensPerDay < 0:
		return invalid("tokens_per_day", "tokens_per_day must not be negative; 0 is no limit")
	case r.ExpiresInSeconds < 0 || r.ExpiresInSeconds > maxSeconds:
		return invalid("expires_in_seconds", "expires_in_seconds must be between 1 and %d, or 0 for never", maxSeconds)
	}
	return nil
}

var errNoKeys = &badRequest{status: http.StatusNotImplemented, code: "not_configured", message: "this server keeps no keys, files and answers"}

// whoami is GET /v1/key: what the key that was sent permits.
func (s *Server) whoami(c *gin.Context) { s.reply(c, http.StatusOK, keyOf(caller(c), "")) }

// keys is GET /v1/keys: those within the reach of the request's own.
func (s *Server) keys(c *gin.Context) {
	found, err := s.Keys.Keys(c.Request.Context(), s.tenant(c))
	if err != nil {
		s.fail(c, err)
		return
	}
	all := []keyJSON{}
	for _, k := range found {
		if s.reaches(c, k) {
			all = append(all, keyOf(k, ""))
		}
	}
	s.reply(c, http.StatusOK, gin.H{"keys": all})
}

// createKey is POST /v1/keys. A key makes keys of its own tenant only, and none that sees more corpora than itself.
func (s *Server) createKey(c *gin.Context) {
	var body keyRequest
	err := decode(c, &body, refuseUnknown)
	if err == nil {
		err = body.check()
	}
	if err == nil {
		body.Corpora, err = s.reach(c, body.Corpora)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	k := store.Key{Tenant: s.tenant(c), Name: body.Name, Corpora: body.Corpora, Actions: body.Actions, RequestsPerMinute: body.RequestsPerMinute, TokensPerDay: body.TokensPerDay}
	if body.ExpiresInSeconds > 0 {
		k.ExpiresAt = time.Now().Add(time.Duration(body.ExpiresInSeconds) * time.Second)
	}
	secret, made, err := s.Keys.CreateKey(c.Request.Context(), k)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.reply(c, http.StatusCreated, keyOf(made, secret))
}

// rotateKey is POST /v1/keys/{id}/rotate?grace_seconds=.
func (s *Server) rotateKey(c *gin.Context) {
	id, err := pathID(c)
	grace := int64(0)
	if text := c.Query("grace_seconds"); err == nil && text != "" {
		if grace, err = strconv.ParseInt(text, 10, 64); err != nil || grace < 0 || grace > maxSeconds {
			err = invalid("grace_seconds", "grace_seconds is %q; it must be between 0 and %d", text, maxSeconds)
		}
	}
	if err == nil {
		err = s.ownKey(c, id)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	secret, made, err := s.Keys.RotateKey(c.Request.Context(), s.tenant(c), id, time.Duration(grace)*time.Second)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.reply(c, http.StatusCreated, keyOf(made, secret))
}

// revokeKey is DELETE /v1/keys/{id}.
func (s *Server) revokeKey(c *gin.Context) {
	id, err := pathID(c)
	if err == nil {
		err = s.ownKey(c, id)
	}
	if err == nil {
		err = s.Keys.RevokeKey(c.Request.Context(), s.tenant(c), id)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	c.Status(http.StatusNoContent)
}

// ownKey refuses to let a key that is confined to corpora take over one that is not.
func (s *Server) ownKey(c *gin.Context, id int64) error {
	if len(caller(c).Corpora) == 0 {
		return nil
	}
	all, err := s.Keys.Keys(c.Request.Context(), s.tenant(c))
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(k store.Key) bool { return k.ID == id })
	if i < 0 || !s.reaches(c, all[i]) {
		return &badRequest{status: http.StatusNotFound, code: "not_found", message: "there is no key " + formatID(id) + " within the reach of this one"}
	}
	return nil
}

// reaches reports whether k sees nothing that the request's key does not.
func (s *Server) reaches(c *gin.Context, k store.Key) bool {
	if len(caller(c).Corpora) == 0 {
		return true
	}
	return len(k.Corpora) > 0 && !slices.ContainsFunc(k.Corpora, func(name string) bool { return !s.sees(c, name) })
}

// auditLog is GET /v1/audit?before=&limit=: the newest entries first.
func (s *Server) auditLog(c *gin.Context) {
	before, limit, err := page(c, "before")
	if err != nil {
		s.fail(c, err)
		return
	}
	found, err := s.Keys.AuditLog(c.Request.Context(), s.tenant(c), before, limit)
	if err != nil {
		s.fail(c, err)
		return
	}
	all := make([]gin.H, len(found))
	for i, e := range found {
		all[i] = gin.H{"id": e.ID, "at": e.At.UTC(), "key_id": e.Key, "key_name": e.KeyName, "action": e.Action, "target": e.Target, "status": e.Status, "request_id": e.RequestID}
	}
	s.reply(c, http.StatusOK, gin.H{"entries": all, "has_more": len(all) == limit})
}

// haveKeys lets requests pass that need the table of keys.
func (s *Server) haveKeys(c *gin.Context) {
	if s.Keys == nil {
		s.fail(c, errNoKeys)
	}
}
