package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"ragd/llm"
	"ragd/retrieve"
	"ragd/store"
)

// Keys is what the routes need of API keys and of the log of what was done with them. *store.Store implements it.
type Keys interface {
	KeyOf(ctx context.Context, secret string) (store.Key, error)
	Spend(ctx context.Context, k store.Key) error
	CountTokens(ctx context.Context, k store.Key, tokens int) error
	Keys(ctx context.Context, tenant string) ([]store.Key, error)
	CreateKey(ctx context.Context, k store.Key) (secret string, made store.Key, err error)
	RotateKey(ctx context.Context, tenant string, id int64, grace time.Duration) (secret string, made store.Key, err error)
	RevokeKey(ctx context.Context, tenant string, id int64) error
	Audit(ctx context.Context, e store.AuditEntry) error
	AuditLog(ctx context.Context, tenant string, before int64, limit int) ([]store.AuditEntry, error)
}

// What a key may do. Each word stands for itself: a key that may write need not be one that may read.
const (
	Read  = "read"  // ask, search, and see documents
	Write = "write" // add and delete documents, give feedback
	Admin = "admin" // make and end keys, read the audit log; of the default tenant: read the metrics
)

// Actions are the words that a key may hold.
var Actions = []string{Read, Write, Admin}

var (
	errNoKey     = &badRequest{status: http.StatusUnauthorized, code: "invalid_api_key", message: "send a valid API key as Authorization: Bearer KEY"}
	errNoCorpus  = errors.New("server: corpus out of the key's reach")
	callerKey    = "ragd.caller"
	serversOwn   = store.Key{Name: "server", Actions: Actions} // of the static key, and of a server that needs none
	keyPrefix    = "ragd_"
	auditTimeout = 5 * time.Second
)

// authorize finds out on whose behalf a request comes. Everything after it runs as that tenant: the store hides other tenants' rows from the request's
// context, whatever its statements say.
func (s *Server) authorize(c *gin.Context) {
	k, err := s.callerOf(c)
	if err == nil && k.ID != 0 {
		err = s.Keys.Spend(c.Request.Context(), k)
	}
	if err != nil {
		if errors.Is(err, errNoKey) {
			c.Header("WWW-Authenticate", "Bearer")
			if s.Login != nil { // so that the page offers it
				c.Header("Link", `</login>; rel="login"`)
			}
		}
		s.fail(c, err)
		return
	}
	c.Set(callerKey, k)
	c.Request = c.Request.WithContext(store.As(c.Request.Context(), k.Tenant))
}

// callerOf reads a request's key.
func (s *Server) callerOf(c *gin.Context) (store.Key, error) {
	scheme, token, _ := strings.Cut(c.GetHeader("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") {
		token = ""
	}
	if s.Login != nil && c.GetHeader("Authorization") == "" {
		return s.sessionOf(c)
	}
	if s.config.APIKey != "" {
		if sent := sha256.Sum256([]byte(token)); subtle.ConstantTimeCompare(sent[:], s.keyHash[:]) == 1 {
			return serversOwn, nil
		}
	}
	if strings.HasPrefix(token, keyPrefix) {
		return s.keyOf(c.Request.Context(), token, false)
	}
	if s.config.APIKey != "" || s.config.NeedKey {
		return store.Key{}, errNoKey
	}
	return serversOwn, nil // on loopback, or by a page on it: see local
}

// caller is the key of a request that authorize let pass.
func caller(c *gin.Context) store.Key {
	k, _ := c.MustGet(callerKey).(store.Key)
	return k
}

// tenant owns what a request may see.
func (s *Server) tenant(c *gin.Context) string { return caller(c).Tenant }

// may lets a request pass whose key permits action, and keeps in the audit log what was changed and what was refused.
func (s *Server) may(action string) gin.HandlerFunc {
	return func(c *gin.Context) {
		if k := caller(c); slices.Contains(k.Actions, action) {
			c.Next()
		} else {
			s.fail(c, &badRequest{status: http.StatusForbidden, code: "forbidden", message: fmt.Sprintf("this key may not %s; it may: %s", action, strings.Join(k.Actions, ", "))})
		}
		if changed := action != Read && c.Request.Method != http.MethodGet; changed || c.Writer.Status() == http.StatusForbidden {
			s.audit(c)
		}
	}
}

// operator lets the installation's own administrators pass: those of the default tenant. What the process tells about itself is no tenant's business.
func (s *Server) operator(c *gin.Context) {
	if k := caller(c); k.Tenant != "" && k.Tenant != store.DefaultTenant || len(k.Corpora) > 0 {
		s.fail(c, &badRequest{status: http.StatusForbidden, code: "forbidden", message: "this is for administrators of the whole installation"})
	}
}

// audit keeps what was done. It is written although the client may have left; a failure is logged, because what was done is done.
func (s *Server) audit(c *gin.Context) {
	if s.Keys == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), auditTimeout)
	defer cancel()
	k := caller(c)
	err := s.Keys.Audit(ctx, store.AuditEntry{Tenant: k.Tenant, Key: k.ID, KeyName: k.Name, Action: c.Request.Method + " " + c.FullPath(),
		Target: c.Request.URL.Path, Status: c.Writer.Status(), RequestID: requestID(c)})
	if err != nil {
		s.log.Error("audit log not written", "request_id", requestID(c), "route", c.FullPath(), "error", err)
	}
}

// reach narrows corpora, which a request asks for, to those that its key may see. No corpora are all of them.
func (s *Server) reach(c *gin.Context, corpora []string) ([]string, error) {
	return reachOf(caller(c), corpora)
}

// sees reports whether a request's key may see a corpus.
func (s *Server) sees(c *gin.Context, corpus string) bool {
	allowed := caller(c).Corpora
	return len(allowed) == 0 || slices.Contains(allowed, corpus)
}

// filter admits the corpora that a request asks for, of those that its key may see.
func (s *Server) filter(c *gin.Context, corpora []string) (retrieve.Filter, error) {
	corpora, err := s.reach(c, corpora)
	return retrieve.Filter{Tenant: s.tenant(c), Corpora: corpora}, err
}

// used counts what the engine did for a request.
func (s *Server) used(c *gin.Context, u llm.Usage) {
	s.metrics.used(u)
	s.tracer.generated(c.Request.Context(), u)
	s.charge(c.Request.Context(), caller(c), u.PromptTokens+u.OutputTokens)
}

// charge counts tokens against the quota of a key, although the client may have left.
func (s *Server) charge(ctx context.Context, k store.Key, tokens int) {
	if k.ID == 0 {
		return
	}
	if err := s.Keys.CountTokens(context.WithoutCancel(ctx), k, tokens); err != nil {
		s.log.Error("tokens not counted", "key", k.ID, "tokens", tokens, "error", err)
	}
}
