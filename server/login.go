package server

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"ragd/login"
	"ragd/store"
)

// Roles are names for what keys and people commonly may do.
var Roles = map[string][]string{"reader": {Read}, "editor": {Read, Write}, "admin": Actions}

var errNoLogin = &badRequest{status: http.StatusNotFound, code: "not_found", message: "this server offers no sign-in; it is set up with --login-issuer"}

// attemptTime is how long somebody may take at the provider.
const attemptTime = 10 * time.Minute

// Cookies. Neither is for scripts. The session's is sent by requests of the page only (Strict); the attempt's must come along when the provider sends the
// browser back (Lax). Over HTTPS the prefix keeps other hosts of the domain from setting them.
func (s *Server) cookie(name, value string, site http.SameSite, life time.Duration) *http.Cookie {
	secure := strings.HasPrefix(s.Login.PublicURL(), "https:")
	if secure {
		name = "__Host-" + name
	}
	c := &http.Cookie{Name: name, Value: value, Path: "/", Secure: secure, HttpOnly: true, SameSite: site, MaxAge: int(life / time.Second)}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

func (s *Server) sessionCookie(secret string) *http.Cookie {
	return s.cookie("ragd-session", secret, http.SameSiteStrictMode, s.config.LoginTime)
}

func (s *Server) attemptCookie(a login.Attempt) *http.Cookie {
	value := ""
	if a.State != "" {
		value = a.State + "." + a.Nonce + "." + a.Verifier
	}
	return s.cookie("ragd-attempt", value, http.SameSiteLaxMode, attemptTime)
}

// loginsAtOnce is how many requests may wait for the provider. They come from strangers, so they have no places of the gate.
const loginsAtOnce = 16

// fewLogins refuses sign-ins while as many wait as may.
func (s *Server) fewLogins(c *gin.Context) {
	select {
	case s.logins <- struct{}{}:
		defer func() { <-s.logins }()
		c.Next()
	default:
		s.fail(c, errFull)
	}
}

// signIn is GET /login: it sends the browser to the provider.
func (s *Server) signIn(c *gin.Context) {
	if s.Login == nil {
		s.fail(c, errNoLogin)
		return
	}
	address, attempt, err := s.Login.Begin(c.Request.Context())
	if err != nil {
		s.refuseLogin(c, err)
		return
	}
	c.Header("Cache-Control", "no-store")
	http.SetCookie(c.Writer, s.attemptCookie(attempt))
	c.Redirect(http.StatusFound, address)
}

// signedIn is GET /login/callback: the browser comes back from the provider.
func (s *Server) signedIn(c *gin.Context) {
	if s.Login == nil {
		s.fail(c, errNoLogin)
		return
	}
	c.Header("Cache-Control", "no-store")
	var attempt login.Attempt
	if kept, err := c.Request.Cookie(s.attemptCookie(attempt).Name); err == nil {
		if parts := strings.Split(kept.Value, "."); len(parts) == 3 {
			attempt = login.Attempt{State: parts[0], Nonce: parts[1], Verifier: parts[2]}
		}
	}
	http.SetCookie(c.Writer, s.attemptCookie(login.Attempt{})) // it counts once
	user, err := s.Login.Complete(c.Request.Context(), attempt, c.Request.URL.Query())
	if err != nil {
		s.refuseLogin(c, err)
		return
	}
	secret, made, err := s.Keys.CreateKey(c.Request.Context(), store.Key{Tenant: user.Grant.Tenant, Name: "login: " + user.Name, Corpora: user.Grant.Corpora,
		Actions: Roles[user.Grant.Role], ExpiresAt: time.Now().Add(s.config.LoginTime), Login: true})
	if err != nil {
		s.fail(c, err)
		return
	}
	http.SetCookie(c.Writer, s.sessionCookie(secret))
	c.Redirect(http.StatusSeeOther, "/")
	c.Set(callerKey, made)
	s.audit(c)
}

// refuseLogin tells a person, who looks at it in a browser, why there is no session.
func (s *Server) refuseLogin(c *gin.Context, err error) {
	status, text := http.StatusForbidden, err.Error()
	switch {
	case errors.Is(err, login.ErrUnavailable):
		status, text = http.StatusBadGateway, "the provider of accounts cannot be reached or does not answer as it should; try again later"
		s.log.Error("sign-in failed", "request_id", requestID(c), "error", err)
	case !errors.Is(err, login.ErrRefused) && !errors.Is(err, login.ErrNoGrant):
		s.fail(c, err)
		return
	default:
		s.log.Info("sign-in refused", "request_id", requestID(c), "reason", err.Error())
	}
	s.deadline(c)
	c.String(status, "Not signed in: %s.\n\nBack to the page: %s/\n", strings.TrimPrefix(text, "login: "), s.Login.PublicURL())
}

// signOut is POST /login/out: it ends the session here, and says where to end it at the provider.
func (s *Server) signOut(c *gin.Context) {
	if s.Login == nil {
		s.fail(c, errNoLogin)
		return
	}
	k := caller(c)
	if !k.Login {
		s.fail(c, invalid("", "this is for people who signed in; a key is ended with DELETE /v1/keys/{id}"))
		return
	}
	if err := s.Keys.RevokeKey(c.Request.Context(), k.Tenant, k.ID); err != nil {
		s.fail(c, err)
		return
	}
	http.SetCookie(c.Writer, s.sessionCookie(""))
	s.reply(c, http.StatusOK, gin.H{"url": s.Login.EndSession(c.Request.Context())})
	s.audit(c)
}

// sessionOf is the session of a request's cookie. A browser sends the cookie by itself, so the request must be shown to be the page's own.
func (s *Server) sessionOf(c *gin.Context) (store.Key, error) {
	kept, err := c.Request.Cookie(s.sessionCookie("").Name)
	if err != nil || kept.Value == "" {
		return store.Key{}, errNoKey
	}
	if !s.ownPage(c.Request) {
		return store.Key{}, &badRequest{status: http.StatusForbidden, code: "cross_site", message: "requests with a session are taken from the page of this server only; programs send a key"}
	}
	return s.keyOf(c.Request.Context(), kept.Value, true)
}

// ownPage reports whether a browser sent r for a page of this server, or because somebody typed the address.
func (s *Server) ownPage(r *http.Request) bool {
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site"); {
	case origin != "" && !sameOrigin(origin, s.Login.PublicURL()):
		return false
	case site != "":
		return site == "same-origin" || site == "none" && safe
	default: // a browser that sends neither with a request that changes something is too old to be safe
		return origin != "" || safe
	}
}

func sameOrigin(a, b string) bool {
	x, err := url.Parse(a)
	y, err2 := url.Parse(b)
	return err == nil && err2 == nil && x.Scheme == y.Scheme && strings.EqualFold(x.Host, y.Host)
}

// keyOf is what a secret permits, of a session or of a key: neither works in the other's place.
func (s *Server) keyOf(ctx context.Context, secret string, session bool) (store.Key, error) {
	if s.Keys == nil || !strings.HasPrefix(secret, keyPrefix) {
		return store.Key{}, errNoKey
	}
	k, err := s.Keys.KeyOf(ctx, secret)
	if errors.Is(err, store.ErrNotFound) || err == nil && k.Login != session {
		return store.Key{}, errNoKey
	}
	return k, err
}
