package login

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Config names the provider and says who may do what.
type Config struct {
	Issuer       string // https://id.example.com/realms/staff
	ClientID     string
	ClientSecret string   // "": a public client, which PKCE alone protects
	PublicURL    string   // of ragd, as browsers see it: https://ragd.example.com
	Scopes       []string // beside openid; none: profile and email
	GroupsClaim  string   // where the provider tells groups; "": groups. A path as realm_access.roles is possible
	TenantClaim  string   // where it tells the tenant; "": nowhere
	Grants       []Grant  // the first that fits counts
	Client       *http.Client
}

// Errors of [Provider]; their texts are for the person who signs in.
var (
	ErrRefused     = errors.New("login: refused")              // by the provider, or because the attempt is not this browser's
	ErrNoGrant     = errors.New("login: no access")            // the account is fine, and nothing is granted to it
	ErrUnavailable = errors.New("login: provider unavailable") // it cannot be reached, or does not answer as it should
)

// Provider is an OpenID provider that people sign in at.
type Provider struct {
	config Config
	client *http.Client

	mu  sync.Mutex
	now *oidc.Provider // what it says about itself; nil until it was asked
}

// New checks c. It asks nothing of the provider.
func New(c Config) (*Provider, error) {
	for name, text := range map[string]string{"issuer": c.Issuer, "public URL": c.PublicURL} {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
			return nil, fmt.Errorf("login: the %s %q must be an https URL, or http on this machine", name, text)
		}
	}
	switch u, _ := url.Parse(c.PublicURL); {
	case strings.Trim(u.Path, "/") != "":
		return nil, fmt.Errorf("login: the public URL %q must have no path: ragd is served at the root of its host", c.PublicURL)
	case c.ClientID == "":
		return nil, errors.New("login: the client id is missing: register ragd at the provider, with the redirect URL " + strings.TrimRight(c.PublicURL, "/") + CallbackPath)
	case len(c.Grants) == 0:
		return nil, errors.New("login: nobody is granted anything: name at least one group and role, such as staff=reader, or *=reader for all who can sign in")
	}
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	c.GroupsClaim = cmp.Or(c.GroupsClaim, "groups")
	if len(c.Scopes) == 0 {
		c.Scopes = []string{"profile", "email"}
	}
	p := &Provider{config: c, client: c.Client}
	if p.client == nil {
		p.client = &http.Client{Timeout: 10 * time.Second, Transport: &limited{http.DefaultTransport}}
	}
	return p, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// maxResponse is far more than any discovery document, key set or token.
const maxResponse = 4 << 20

// limited is a transport that ends responses which do not end.
type limited struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxResponse)
	}
	return response, err
}

// CallbackPath is where the provider sends people back to.
const CallbackPath = "/login/callback"

// PublicURL is the address of ragd as browsers see it, without a slash at the end.
func (p *Provider) PublicURL() string { return p.config.PublicURL }

// Check asks the provider to describe itself.
func (p *Provider) Check(ctx context.Context) error {
	_, err := p.describe(ctx)
	return err
}

// describe asks the provider to describe itself, once; a failure is tried again the next time.
func (p *Provider) describe(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil {
		return p.now, nil
	}
	// The library keeps the context to fetch keys later, so it must not end with this request.
	kept := oidc.ClientContext(context.WithoutCancel(ctx), p.client)
	found, err := oidc.NewProvider(kept, p.config.Issuer)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, p.config.Issuer, err)
	}
	p.now = found
	return found, nil
}

func (p *Provider) oauth(provider *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{ClientID: p.config.ClientID, ClientSecret: p.config.ClientSecret, Endpoint: provider.Endpoint(), RedirectURL: p.config.PublicURL + CallbackPath,
		Scopes: append([]string{oidc.ScopeOpenID}, p.config.Scopes...)}
}

// Attempt is what only the browser that signs in may know until it comes back.
type Attempt struct{ State, Nonce, Verifier string }

// Begin returns where to send a browser, and what it has to bring back with it.
func (p *Provider) Begin(ctx context.Context) (address string, a Attempt, err error) {
	provider, err := p.describe(ctx)
	if err != nil {
		return "", a, err
	}
	a = Attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	return p.oauth(provider).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), a, nil
}

// User is somebody who has signed in.
type User struct {
	Subject string // the provider's name for the account, which never changes
	Name    string // for people
	Grant   Grant  // what the account may do; Tenant is filled in
}

// Complete proves who came back with query, from an attempt of the same browser.
func (p *Provider) Complete(ctx context.Context, a Attempt, query url.Values) (u User, err error) {
	if a.State == "" || subtle.ConstantTimeCompare([]byte(a.State), []byte(query.Get("state"))) != 1 {
		return u, fmt.Errorf("%w: this sign-in was not begun in this browser, or took too long; begin again", ErrRefused)
	}
	if reason := query.Get("error"); reason != "" {
		return u, fmt.Errorf("%w: the provider says %q", ErrRefused, short(reason+" "+query.Get("error_description")))
	}
	provider, err := p.describe(ctx)
	if err != nil {
		return u, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := p.oauth(provider).Exchange(ctx, query.Get("code"), oauth2.VerifierOption(a.Verifier))
	if err != nil {
		var refused *oauth2.RetrieveError
		if errors.As(err, &refused) && refused.Response.StatusCode < 500 {
			return u, fmt.Errorf("%w: the provider did not take the code: %q", ErrRefused, short(refused.ErrorCode+" "+refused.ErrorDescription))
		}
		return u, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	claims, subject, err := p.verify(ctx, provider, token, a.Nonce)
	if err != nil {
		return u, err
	}
	return p.user(subject, claims)
}

// verify returns the claims of the token's owner: those of the identity token and, where it says nothing of groups, those of the userinfo endpoint.
func (p *Provider) verify(ctx context.Context, provider *oidc.Provider, token *oauth2.Token, nonce string) (claims map[string]any, subject string, err error) {
	raw, _ := token.Extra("id_token").(string)
	id, err := provider.Verifier(&oidc.Config{ClientID: p.config.ClientID}).Verify(ctx, raw)
	if err != nil {
		return nil, "", fmt.Errorf("%w: the identity token is not valid: %w", ErrRefused, err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(nonce)) != 1 {
		return nil, "", fmt.Errorf("%w: the identity token was made for another sign-in", ErrRefused)
	}
	if err := id.Claims(&claims); err != nil {
		return nil, "", fmt.Errorf("%w: the identity token: %w", ErrRefused, err)
	}
	if _, told := stringsAt(claims, p.config.GroupsClaim); told || provider.UserInfoEndpoint() == "" {
		return claims, id.Subject, nil
	}
	info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return nil, "", fmt.Errorf("%w: userinfo: %w", ErrUnavailable, err)
	}
	more := map[string]any{}
	if err := info.Claims(&more); err != nil || info.Subject != id.Subject {
		return nil, "", fmt.Errorf("%w: what the provider tells of the account is about another one", ErrRefused)
	}
	for name, value := range more {
		if _, signed := claims[name]; !signed {
			claims[name] = value
		}
	}
	return claims, id.Subject, nil
}

// user says what an account may do.
func (p *Provider) user(subject string, claims map[string]any) (u User, err error) {
	u = User{Subject: subject, Name: subject}
	for _, name := range []string{"email", "preferred_username", "name"} {
		if text, ok := claims[name].(string); ok && strings.TrimSpace(text) != "" {
			u.Name = short(text)
			break
		}
	}
	groups, _ := stringsAt(claims, p.config.GroupsClaim)
	granted, ok := pick(p.config.Grants, groups)
	if !ok {
		return u, fmt.Errorf("%w: %s is in no group that may use this server", ErrNoGrant, u.Name)
	}
	u.Grant = granted
	u.Grant.Corpora = slices.Clone(granted.Corpora)
	if u.Grant.Tenant == "" && p.config.TenantClaim != "" {
		named, _ := stringsAt(claims, p.config.TenantClaim)
		if len(named) != 1 || !plainName.MatchString(named[0]) {
			return u, fmt.Errorf("%w: the provider names no tenant for %s", ErrNoGrant, u.Name)
		}
		u.Grant.Tenant = named[0]
	}
	return u, nil
}

// EndSession is where to send a browser that signs out, so that the provider ends its session, too; "" when the provider has no such place.
func (p *Provider) EndSession(ctx context.Context) string {
	provider, err := p.describe(ctx)
	var about struct {
		EndSession string `json:"end_session_endpoint"`
	}
	if err != nil || provider.Claims(&about) != nil || about.EndSession == "" {
		return ""
	}
	u, err := url.Parse(about.EndSession)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	query := u.Query()
	query.Set("client_id", p.config.ClientID)
	query.Set("post_logout_redirect_uri", p.config.PublicURL+"/")
	u.RawQuery = query.Encode()
	return u.String()
}

// short is text of others as one line for people.
func short(text string) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "")))
	if len(text) > 150 {
		text = strings.ToValidUTF8(text[:150], "")
	}
	return text
}
