package login_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/login"
	"ragd/login/logintest"
)

func open(t *testing.T, at *logintest.Provider, change func(*login.Config)) *login.Provider {
	t.Helper()
	c := login.Config{Issuer: at.URL, ClientID: at.ClientID, ClientSecret: at.ClientSecret, PublicURL: "http://127.0.0.1:8080/", Grants: []login.Grant{{Group: "staff", Role: "reader"}}}
	if change != nil {
		change(&c)
	}
	p, err := login.New(c)
	require.NoError(t, err)
	return p
}

// visit sends a browser to the provider and returns what it comes back with.
func visit(t *testing.T, p *login.Provider) (login.Attempt, url.Values) {
	t.Helper()
	address, attempt, err := p.Begin(t.Context())
	require.NoError(t, err)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, 302, response.StatusCode)
	back, err := response.Location()
	require.NoError(t, err)
	require.Equal(t, "http://127.0.0.1:8080/login/callback", back.Scheme+"://"+back.Host+back.Path)
	return attempt, back.Query()
}

func signIn(t *testing.T, p *login.Provider) (login.User, error) {
	t.Helper()
	attempt, query := visit(t, p)
	return p.Complete(t.Context(), attempt, query)
}

func TestSignIn(t *testing.T) {
	at := logintest.New(t)
	at.Claims = map[string]any{"sub": "42", "email": "ann@example.com", "groups": []any{"staff", 7}}
	p := open(t, at, nil)
	require.Zero(t, at.Requests(), "nothing is asked of the provider before somebody signs in")
	u, err := signIn(t, p)
	require.NoError(t, err)
	require.Equal(t, login.User{Subject: "42", Name: "ann@example.com", Grant: login.Grant{Group: "staff", Role: "reader"}}, u)
	require.Equal(t, at.URL+"/end?client_id=ragd&post_logout_redirect_uri=http%3A%2F%2F127.0.0.1%3A8080%2F", p.EndSession(t.Context()))

	at.Rotate(t)
	_, err = signIn(t, p)
	require.NoError(t, err, "keys of the provider that changed are fetched again")
}

func TestWhoIsRefused(t *testing.T) {
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		prepare func(at *logintest.Provider)
		spoil   func(a *login.Attempt, query url.Values)
		want    error
		says    string
	}{
		"another browser":     {spoil: func(a *login.Attempt, _ url.Values) { a.State = "x" }, want: login.ErrRefused, says: "not begun in this browser"},
		"no attempt":          {spoil: func(a *login.Attempt, q url.Values) { *a = login.Attempt{}; q.Del("state") }, want: login.ErrRefused},
		"another's code":      {spoil: func(a *login.Attempt, _ url.Values) { a.Verifier = "wrong" }, want: login.ErrRefused, says: "did not take the code"},
		"another's token":     {spoil: func(a *login.Attempt, _ url.Values) { a.Nonce = "wrong" }, want: login.ErrRefused, says: "another sign-in"},
		"an invented code":    {spoil: func(_ *login.Attempt, q url.Values) { q.Set("code", "x") }, want: login.ErrRefused},
		"denied":              {prepare: func(at *logintest.Provider) { at.Deny = "access_denied\r\nSet-Cookie: x" }, want: login.ErrRefused, says: `"access_deniedSet-Cookie: x"`},
		"a foreign signature": {prepare: func(at *logintest.Provider) { at.Key = other }, want: login.ErrRefused},
		"for another client":  {prepare: func(at *logintest.Provider) { at.Change = func(c map[string]any) { c["aud"] = "other" } }, want: login.ErrRefused},
		"of another provider": {prepare: func(at *logintest.Provider) {
			at.Change = func(c map[string]any) { c["iss"] = "https://evil.example.com" }
		}, want: login.ErrRefused},
		"expired": {prepare: func(at *logintest.Provider) {
			at.Change = func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() }
		}, want: login.ErrRefused},
		"no group": {prepare: func(at *logintest.Provider) { at.Claims = map[string]any{"sub": "1", "groups": []any{"guests"}} }, want: login.ErrNoGrant, says: "in no group"},
		"no claim": {prepare: func(at *logintest.Provider) {
			at.Claims, at.UserInfo = map[string]any{"sub": "1"}, map[string]any{"sub": "1"}
		}, want: login.ErrNoGrant},
		"userinfo of another": {prepare: func(at *logintest.Provider) {
			at.Claims, at.UserInfo = map[string]any{"sub": "1"}, map[string]any{"sub": "2", "groups": []any{"staff"}}
		}, want: login.ErrRefused},
		"a group in two pieces": {prepare: func(at *logintest.Provider) { at.Claims = map[string]any{"sub": "1", "groups": "staff-guest"} }, want: login.ErrNoGrant},
	} {
		t.Run(name, func(t *testing.T) {
			at := logintest.New(t)
			at.Claims = map[string]any{"sub": "42", "groups": []any{"staff"}}
			if c.prepare != nil {
				c.prepare(at)
			}
			p := open(t, at, nil)
			attempt, query := visit(t, p)
			if c.spoil != nil {
				c.spoil(&attempt, query)
			}
			_, err := p.Complete(t.Context(), attempt, query)
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestACodeCountsOnce(t *testing.T) {
	at := logintest.New(t)
	at.Claims = map[string]any{"sub": "42", "groups": "staff"}
	p := open(t, at, nil)
	attempt, query := visit(t, p)
	_, err := p.Complete(t.Context(), attempt, query)
	require.NoError(t, err)
	_, err = p.Complete(t.Context(), attempt, query)
	require.ErrorIs(t, err, login.ErrRefused)
}

func TestGrants(t *testing.T) {
	at := logintest.New(t)
	for name, c := range map[string]struct {
		claims, info map[string]any
		change       func(*login.Config)
		want         login.Grant
	}{
		"the first counts, not the sum": {
			claims: map[string]any{"groups": []any{"staff", "hr"}},
			change: func(c *login.Config) {
				c.Grants = []login.Grant{{Group: "hr", Role: "editor", Corpora: []string{"hr"}}, {Group: "staff", Role: "reader"}}
			},
			want: login.Grant{Group: "hr", Role: "editor", Corpora: []string{"hr"}},
		},
		"everybody":        {claims: map[string]any{"groups": []any{}}, change: func(c *login.Config) { c.Grants = []login.Grant{{Group: "*", Role: "reader"}} }, want: login.Grant{Group: "*", Role: "reader"}},
		"a path":           {claims: map[string]any{"realm_access": map[string]any{"roles": []any{"staff"}}}, change: func(c *login.Config) { c.GroupsClaim = "realm_access.roles" }, want: login.Grant{Group: "staff", Role: "reader"}},
		"a name with dots": {claims: map[string]any{"https://example.com/groups": []any{"staff"}}, change: func(c *login.Config) { c.GroupsClaim = "https://example.com/groups" }, want: login.Grant{Group: "staff", Role: "reader"}},
		"userinfo":         {info: map[string]any{"sub": "42", "groups": []any{"staff"}}, want: login.Grant{Group: "staff", Role: "reader"}},
		"the tenant claim": {claims: map[string]any{"groups": "staff", "org": "acme"}, change: func(c *login.Config) { c.TenantClaim = "org" }, want: login.Grant{Group: "staff", Role: "reader", Tenant: "acme"}},
	} {
		t.Run(name, func(t *testing.T) {
			at.Claims, at.UserInfo = map[string]any{"sub": "42"}, c.info
			for name, value := range c.claims {
				at.Claims[name] = value
			}
			u, err := signIn(t, open(t, at, c.change))
			require.NoError(t, err)
			require.Equal(t, c.want, u.Grant)
		})
	}
	at.Claims = map[string]any{"sub": "42", "groups": "staff", "org": "../other"}
	_, err := signIn(t, open(t, at, func(c *login.Config) { c.TenantClaim = "org" }))
	require.ErrorIs(t, err, login.ErrNoGrant)
}

func TestAProviderThatIsAwayIsAskedAgain(t *testing.T) {
	at := logintest.New(t)
	fails := true
	p := open(t, at, func(c *login.Config) {
		c.Client = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if fails {
				return nil, context.DeadlineExceeded
			}
			return http.DefaultTransport.RoundTrip(r)
		})}
	})
	_, _, err := p.Begin(t.Context())
	require.ErrorIs(t, err, login.ErrUnavailable)
	require.Empty(t, p.EndSession(t.Context()))
	fails = false
	_, _, err = p.Begin(t.Context())
	require.NoError(t, err)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestParseGrant(t *testing.T) {
	for text, want := range map[string]login.Grant{
		"staff=reader":                      {Group: "staff", Role: "reader"},
		"*=editor@acme":                     {Group: "*", Role: "editor", Tenant: "acme"},
		"cn=hr,ou=x=editor@acme:hr+payroll": {Group: "cn=hr,ou=x", Role: "editor", Tenant: "acme", Corpora: []string{"hr", "payroll"}},
		"x=reader:hr":                       {Group: "x", Role: "reader", Corpora: []string{"hr"}},
	} {
		got, err := login.ParseGrant(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "staff", "=reader", "staff=", "staff=root", "staff=reader@", "staff=reader@../x", "staff=reader:", "staff=reader:a+", "staff=reader:a b"} {
		_, err := login.ParseGrant(text)
		require.ErrorContains(t, err, "write GROUP=ROLE", text)
	}
}

func TestConfigThatCannotWork(t *testing.T) {
	good := login.Config{Issuer: "https://id.example.com", ClientID: "x", PublicURL: "https://ragd.example.com", Grants: []login.Grant{{Group: "*", Role: "reader"}}}
	_, err := login.New(good)
	require.NoError(t, err)
	for says, change := range map[string]func(*login.Config){
		"issuer":        func(c *login.Config) { c.Issuer = "http://id.example.com" },
		"public URL":    func(c *login.Config) { c.PublicURL = "" },
		"no path":       func(c *login.Config) { c.PublicURL = "https://example.com/ragd" },
		"client id":     func(c *login.Config) { c.ClientID = "" },
		"nobody is gra": func(c *login.Config) { c.Grants = nil },
	} {
		c := good
		change(&c)
		_, err := login.New(c)
		require.ErrorContains(t, err, says)
	}
}
