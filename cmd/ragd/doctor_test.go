package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/internal/otlptest"
	"ragd/login/logintest"
)

func TestDoctorSaysWhetherTheServerWouldStart(t *testing.T) {
	t.Setenv("RAGD_CONFIG", filepath.Join(t.TempDir(), "none.yaml"))
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	a := newApp(globals{})
	defer a.close()
	at := func(environment ...string) {
		for i := 0; i < len(environment); i += 2 {
			t.Setenv(environment[i], environment[i+1])
		}
	}
	at("RAGD_LISTEN", "127.0.0.1:0")
	require.Empty(t, checkServer(t.Context(), a).advice)
	at("RAGD_LISTEN", "8080")
	require.Contains(t, checkServer(t.Context(), a).advice, "write host:port")
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	at("RAGD_LISTEN", strings.TrimPrefix(other.URL, "http://"))
	require.Contains(t, checkServer(t.Context(), a).advice, "another program listens there")
	ragd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Request-Id", "1") }))
	defer ragd.Close()
	at("RAGD_LISTEN", strings.TrimPrefix(ragd.URL, "http://"))
	f := checkServer(t.Context(), a)
	require.Empty(t, f.advice)
	require.Contains(t, f.detail, "a ragd answers")
	at("RAGD_API_KEY_FILE", filepath.Join(t.TempDir(), "missing"))
	require.NotEmpty(t, checkServer(t.Context(), a).advice)
	require.NoError(t, os.Unsetenv("RAGD_API_KEY_FILE"))

	require.Equal(t, "none: keys only", checkLogin(t.Context(), a).detail)
	provider := logintest.New(t)
	at("RAGD_LOGIN_ISSUER", provider.URL, "RAGD_LOGIN_CLIENT_ID", "ragd", "RAGD_LOGIN_GRANT", "*=reader", "RAGD_PUBLIC_URL", "http://127.0.0.1:8080")
	require.Empty(t, checkLogin(t.Context(), a).advice)
	at("RAGD_LOGIN_ISSUER", other.URL)
	require.Contains(t, checkLogin(t.Context(), a).advice, "provider unavailable")
	at("RAGD_LOGIN_GRANT", "*=king")
	require.Contains(t, checkLogin(t.Context(), a).advice, "is not a role")

	require.Equal(t, "none", checkTraces(t.Context(), a).detail)
	at("OTEL_EXPORTER_OTLP_ENDPOINT", otlptest.New(t).URL)
	require.Empty(t, checkTraces(t.Context(), a).advice)
	at("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	require.Contains(t, checkTraces(t.Context(), a).advice, "cannot be reached")
}
