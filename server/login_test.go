package server_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/internal/pgtest"
	"ragd/login"
	"ragd/login/logintest"
	"ragd/server"
	"ragd/store"
)

// signingIn are the parts of a server whose people sign in at provider, and whose keys and sessions are in a database of their own.
func signingIn(t *testing.T, provider *login.Provider) (server.Parts, *fakes, *store.Store) {
	t.Helper()
	db, err := store.Open(t.Context(), pgtest.New(t), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(db.Close)
	parts, f := newParts(t, answerFunc(sample))
	parts.Keys, parts.Login = db, provider
	return parts, f, db
}

// people starts a server whose people sign in at a provider. Members of staff read, of editors write in corpus hr, of ops administer, and everybody
// of globex reads in that tenant.
func people(t *testing.T) (h *harness, db *store.Store, at *logintest.Provider) {
	t.Helper()
	at = logintest.New(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0") // the address must be known before the server is
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	var grants []login.Grant
	for _, text := range []string{"ops=admin", "editors=editor:hr", "staff=reader", "globex=reader@globex"} {
		g, err := login.ParseGrant(text)
		require.NoError(t, err)
		grants = append(grants, g)
	}
	provider, err := login.New(login.Config{Issuer: at.URL, ClientID: at.ClientID, ClientSecret: at.ClientSecret, PublicURL: "http://" + address, Grants: grants})
	require.NoError(t, err)
	parts, f, db := signingIn(t, provider)
	s, err := server.New(parts, server.Config{Listen: address, APIKey: "the server's own"}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	listener, err = net.Listen("tcp", address)
	require.NoError(t, err)
	hs := &http.Server{Handler: s.Handler()}
	go func() { _ = hs.Serve(listener) }()
	h = &harness{T: t, fakes: f, url: "http://" + address, client: &http.Client{Transport: &http.Transport{}}, server: s, header: http.Header{}}
	t.Cleanup(func() { h.client.CloseIdleConnections(); _ = hs.Close() })
	return h, db, at
}

// signIn is a browser of somebody with claims.
func (h *harness) signIn(at *logintest.Provider, claims map[string]any) *harness {
	h.Helper()
	at.Claims = claims
	jar, err := cookiejar.New(nil)
	require.NoError(h.T, err)
	other := *h
	other.client = &http.Client{Transport: h.client.Transport, Jar: jar}
	got := other.get("/login")
	require.Equal(h.T, 200, got.StatusCode, "%s", got.body) // the page, in the end
	require.Equal(h.T, "/", got.Request.URL.Path)
	return &other
}

func TestPeopleSignInAndOut(t *testing.T) {
	h, db, at := people(t)
	strange := h.get("/v1/corpora")
	require.Equal(t, 401, strange.StatusCode)
	require.Equal(t, `</login>; rel="login"`, strange.Header.Get("Link"))
	require.Zero(t, at.Requests(), "nobody signed in, so nothing was asked of the provider")

	ann := h.signIn(at, map[string]any{"sub": "1", "email": "ann@example.com", "groups": []any{"staff"}})
	me := ann.get("/v1/key").json(t)
	require.Equal(t, "login: ann@example.com", me["name"])
	require.Equal(t, true, me["login"])
	require.Equal(t, []any{"read"}, me["actions"])
	require.NotNil(t, me["expires_at"])
	ann.header = http.Header{"Sec-Fetch-Site": {"same-origin"}}
	require.Equal(t, 200, ann.post("/v1/ask", `{"question":"x"}`).StatusCode)
	require.Equal(t, 403, ann.delete("/v1/documents/1").StatusCode, "a reader")

	ed := h.signIn(at, map[string]any{"sub": "2", "groups": []any{"staff", "editors"}})
	require.Equal(t, []any{"hr"}, ed.get("/v1/key").json(t)["corpora"])
	globex := h.signIn(at, map[string]any{"sub": "3", "groups": []any{"globex"}})
	keys, err := db.Keys(t.Context(), "globex")
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.Equal(t, 200, globex.get("/v1/key").StatusCode)

	// Administrators see who is signed in, and can end it.
	ops := h.signIn(at, map[string]any{"sub": "4", "name": "Ops", "groups": []any{"ops"}})
	ops.header = http.Header{"Sec-Fetch-Site": {"same-origin"}}
	var id any
	for _, k := range ops.get("/v1/keys").json(t)["keys"].([]any) {
		if k := k.(map[string]any); k["name"] == "login: 2" {
			id = k["id"]
		}
	}
	number, _ := json.Marshal(id)
	require.Equal(t, 404, ops.post("/v1/keys/"+string(number)+"/rotate", "").StatusCode, "a session is not made into a key")
	require.Equal(t, 204, ops.delete("/v1/keys/"+string(number)).StatusCode)
	require.Equal(t, 401, ed.get("/v1/key").StatusCode)

	out := ann.post("/login/out", "")
	require.Equal(t, 200, out.StatusCode)
	require.True(t, strings.HasPrefix(out.json(t)["url"].(string), at.URL+"/end?"))
	require.Equal(t, 401, ann.get("/v1/key").StatusCode)
	require.Equal(t, 400, h.with("the server's own").post("/login/out", "").StatusCode, "there is no session to end")

	has, err := db.HasKeys(t.Context())
	require.NoError(t, err)
	require.False(t, has, "sessions are no keys")
	require.NoError(t, db.Maintain(t.Context(), store.Retention{}))
	left, err := db.Keys(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, left, 1, "only that of ops is left")
}

// attempt is the response of the callback to a browser that comes back with cookies and a query.
func (h *harness) callback(query string, cookies ...*http.Cookie) reply {
	request := h.request(h.Context(), http.MethodGet, "/login/callback?"+query, nil)
	for _, c := range cookies {
		request.AddCookie(c)
	}
	return h.send(request)
}

func TestSignInCannotBeForged(t *testing.T) {
	h, db, at := people(t)
	at.Claims = map[string]any{"sub": "1", "groups": []any{"guests"}}
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	guest := *h
	guest.client = &http.Client{Transport: h.client.Transport, Jar: jar}
	got := guest.get("/login")
	require.Equal(t, 403, got.StatusCode)
	require.Contains(t, string(got.body), "in no group")
	require.Equal(t, "text/plain; charset=utf-8", got.Header.Get("Content-Type"))

	for _, query := range []string{"", "state=&code=", "state=x&code=y", "state=x&code=%0d%0aSet-Cookie:%20a=b", "error=<script>&state=s"} {
		for _, cookie := range []string{"", "x", "..", "s.n.v", strings.Repeat("a", 3000)} {
			got := h.callback(query, &http.Cookie{Name: "ragd-attempt", Value: cookie})
			require.Contains(t, []int{403}, got.StatusCode, "%s %s", query, cookie)
			for _, c := range got.Cookies() {
				require.Equal(t, "ragd-attempt", c.Name)
				require.Negative(t, c.MaxAge)
			}
		}
	}
	keys, err := db.Keys(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, keys)
}

func TestASessionIsForThePageOnly(t *testing.T) {
	h, db, at := people(t)
	editor := h.signIn(at, map[string]any{"sub": "1", "groups": []any{"ops"}})
	for _, c := range []struct {
		header string
		status int
	}{
		{"Sec-Fetch-Site: same-origin", 200}, {"Sec-Fetch-Site: none", 403}, {"Sec-Fetch-Site: same-site", 403}, {"Sec-Fetch-Site: cross-site", 403}, {"Sec-Fetch-Site: nonsense", 403},
		{"", 403}, {"Origin: null", 403}, {"Origin: https://evil.example.com", 403}, {"Origin: " + h.url, 200}, {"Origin: " + strings.Replace(h.url, "http:", "https:", 1), 403},
	} {
		name, value, _ := strings.Cut(c.header, ": ")
		editor.header = http.Header{}
		if name != "" {
			editor.header.Set(name, value)
		}
		require.Equal(t, c.status, editor.post("/v1/ask", `{"question":"x"}`).StatusCode, c.header)
	}
	editor.header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
	require.Equal(t, 403, editor.get("/v1/key").StatusCode, "another site gets nothing either")
	editor.header = http.Header{"Authorization": {"Bearer wrong"}}
	require.Equal(t, 401, editor.get("/v1/key").StatusCode, "who sends a key is judged by it")

	// The secret of a session is no key, and a key is no session.
	request := h.request(t.Context(), http.MethodGet, "/", nil)
	cookies := editor.client.Jar.Cookies(request.URL)
	require.Len(t, cookies, 1)
	require.Equal(t, 401, h.with(cookies[0].Value).get("/v1/key").StatusCode)
	secret := makeKey(t, db, store.Key{Name: "key", Actions: server.Actions})
	for _, value := range []string{secret, "the server's own", "ragd_", "x"} {
		request := h.request(t.Context(), http.MethodGet, "/v1/key", nil)
		request.AddCookie(&http.Cookie{Name: "ragd-session", Value: value})
		require.Equal(t, 401, h.send(request).StatusCode, value)
	}
}

func TestCookiesAreOutOfReachOfScriptsAndOtherSites(t *testing.T) {
	at := logintest.New(t)
	at.Claims = map[string]any{"sub": "1", "groups": []any{"staff"}}
	provider, err := login.New(login.Config{Issuer: at.URL, ClientID: at.ClientID, ClientSecret: at.ClientSecret, PublicURL: "https://ragd.example.com",
		Grants: []login.Grant{{Group: "staff", Role: "reader"}}})
	require.NoError(t, err)
	parts, f, _ := signingIn(t, provider)
	h := serveParts(t, parts, f, server.Config{LoginTime: time.Hour})
	h.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	begun := h.get("/login")
	require.Equal(t, 302, begun.StatusCode)
	require.Equal(t, "no-store", begun.Header.Get("Cache-Control"))
	attempt := begun.Cookies()[0]
	require.Equal(t, "__Host-ragd-attempt", attempt.Name)
	require.True(t, attempt.Secure && attempt.HttpOnly && attempt.SameSite == http.SameSiteLaxMode && attempt.Path == "/" && attempt.Domain == "")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, begun.Header.Get("Location"), nil)
	require.NoError(t, err)
	consent := h.send(request)
	back, err := consent.Location()
	require.NoError(t, err)
	require.Equal(t, "https://ragd.example.com/login/callback", "https://"+back.Host+back.Path)
	done := h.callback(back.RawQuery, attempt)
	require.Equal(t, 303, done.StatusCode, "%s", done.body)
	require.Equal(t, "/", done.Header.Get("Location"))
	session := done.Cookies()[1]
	require.Equal(t, "__Host-ragd-session", session.Name)
	require.Equal(t, 3600, session.MaxAge)
	require.True(t, session.Secure && session.HttpOnly && session.SameSite == http.SameSiteStrictMode && session.Path == "/" && session.Domain == "")
	require.Equal(t, 403, h.callback(back.RawQuery, attempt).StatusCode, "a code counts once")
}

func TestAServerWithoutSignIn(t *testing.T) {
	h := serve(t, sample, server.Config{})
	for _, path := range []string{"/login", "/login/callback"} {
		require.Equal(t, 404, h.get(path).StatusCode)
	}
	require.Equal(t, 404, h.post("/login/out", "").StatusCode)
	require.Empty(t, serve(t, sample, server.Config{APIKey: "x"}).get("/v1/key").Header.Get("Link"))
}

func TestPageSignsInAndOut(t *testing.T) {
	h, _, at := people(t)
	at.Claims = map[string]any{"sub": "1", "email": "ann@example.com", "groups": []any{"staff"}}
	b := openTab(t, h, 1280, 800)
	b.other = at.URL // the provider's pages belong to signing in
	b.until(`document.getElementById("key").open && !document.getElementById("sign-in").hidden`)
	b.picture("sign-in")
	b.click("#sign-in a")
	b.until(`document.readyState === "complete" && document.getElementById("account-name")?.textContent === "ann@example.com"`)
	b.picture("signed-in")
	require.Empty(t, eval[string](b, "document.cookie"), "no script sees the session")
	b.click("#question")
	b.ask("x")
	b.until(answered)
	b.click("#sign-out")
	b.until(`location.href.startsWith(` + "`" + at.URL + `/end` + "`" + `)`)
}

// A provider that hangs takes no places from those who ask.
func TestSignInsThatWaitDoNotStopTheServer(t *testing.T) {
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hanging.Close()
	defer close(release)
	provider, err := login.New(login.Config{Issuer: hanging.URL, ClientID: "x", PublicURL: "http://127.0.0.1:8080", Grants: []login.Grant{{Group: "*", Role: "reader"}}})
	require.NoError(t, err)
	parts, f, _ := signingIn(t, provider)
	h := serveParts(t, parts, f, server.Config{APIKey: "k", Requests: 4})
	refused := make(chan int, 64)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 40 {
		group.Go(func() {
			response, err := h.client.Do(h.request(ctx, http.MethodGet, "/login", nil))
			if err == nil {
				response.Body.Close()
				refused <- response.StatusCode
			}
		})
	}
	require.Equal(t, 429, <-refused)
	require.Equal(t, 200, h.with("k").get("/v1/corpora").StatusCode)
	cancel()
	group.Wait()
}
