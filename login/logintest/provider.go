// Package logintest is a small OpenID provider for tests: discovery, authorization code flow with PKCE, tokens signed with RSA, userinfo and log-out,
// over HTTP on loopback. Its account consents to everything at once.
package logintest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Provider is a running provider. Its fields may be changed between sign-ins.
type Provider struct {
	URL          string
	ClientID     string
	ClientSecret string
	Claims       map[string]any              // of the account, in its identity token
	UserInfo     map[string]any              // of the account, at the userinfo endpoint
	Change       func(claims map[string]any) // of an identity token before it is signed; nil: nothing
	Key          *rsa.PrivateKey             // that signs
	Deny         string                      // the error that the provider sends back instead of a code
	mu           sync.Mutex
	published    *rsa.PrivateKey
	pending      map[string]url.Values // authorization requests by code
	requests     int
}

// New starts a provider that ends with t.
func New(t testing.TB) *Provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{ClientID: "ragd", ClientSecret: "client secret", Claims: map[string]any{"sub": "42"}, Key: key, published: key, pending: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.describe)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /userinfo", func(w http.ResponseWriter, _ *http.Request) { reply(w, p.UserInfo) })
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.requests++
		p.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	p.URL = s.URL
	return p
}

// Requests is how many requests the provider got.
func (p *Provider) Requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// Rotate replaces the signing key.
func (p *Provider) Rotate(t testing.TB) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.Key, p.published = key, key
}

func (p *Provider) describe(w http.ResponseWriter, _ *http.Request) {
	reply(w, map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"userinfo_endpoint": p.URL + "/userinfo", "end_session_endpoint": p.URL + "/end", "id_token_signing_alg_values_supported": []string{"RS256"},
	})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	public := p.published.PublicKey
	reply(w, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": kid(&public), "n": encode(public.N.Bytes()), "e": "AQAB"}}})
}

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	back, err := url.Parse(query.Get("redirect_uri"))
	if err != nil || query.Get("client_id") != p.ClientID || query.Get("response_type") != "code" || query.Get("code_challenge_method") != "S256" {
		http.Error(w, "bad authorization request", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.pending[code] = query
	p.mu.Unlock()
	values := url.Values{"state": {query.Get("state")}, "code": {code}}
	if p.Deny != "" {
		values = url.Values{"state": {query.Get("state")}, "error": {p.Deny}}
	}
	back.RawQuery = values.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	code := r.FormValue("code")
	p.mu.Lock()
	asked, known := p.pending[code]
	delete(p.pending, code)
	p.mu.Unlock()
	challenge := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if id != p.ClientID || secret != url.QueryEscape(p.ClientSecret) || !known || r.FormValue("grant_type") != "authorization_code" ||
		r.FormValue("redirect_uri") != asked.Get("redirect_uri") || encode(challenge[:]) != asked.Get("code_challenge") {
		w.WriteHeader(http.StatusBadRequest)
		reply(w, map[string]any{"error": "invalid_grant"})
		return
	}
	claims := map[string]any{"iss": p.URL, "aud": p.ClientID, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(), "nonce": asked.Get("nonce")}
	for name, value := range p.Claims {
		claims[name] = value
	}
	if p.Change != nil {
		p.Change(claims)
	}
	reply(w, map[string]any{"access_token": "access", "token_type": "Bearer", "expires_in": 60, "id_token": p.sign(claims)})
}

// sign makes a JSON web token.
func (p *Provider) sign(claims map[string]any) string {
	head, _ := json.Marshal(map[string]any{"alg": "RS256", "typ": "JWT", "kid": kid(&p.Key.PublicKey)})
	body, _ := json.Marshal(claims) // maps of strings and numbers
	text := encode(head) + "." + encode(body)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(nil, p.Key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return text + "." + encode(signature)
}

func kid(k *rsa.PublicKey) string {
	sum := sha256.Sum256(k.N.Bytes())
	return encode(sum[:8])
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
