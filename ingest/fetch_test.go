package ingest

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFetch(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/guide", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte("<html><body><h1>Guide</h1><p>Trains leave at noon.</p></body></html>"))
	})
	mux.HandleFunc("/gone", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "This page must not be a document.", http.StatusNotFound)
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat("x", 5000))) })
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	list := "# a list\n\n" + server.URL + "/guide\n" + server.URL + "/gone\n" + server.URL + "/large\n" + server.URL + "/loop\n" + server.URL + "/file\nftp://example.org/x\nnonsense\n"

	m := newMemStore()
	p := newPipeline(m)
	p.Limits.FileBytes = 2000
	var told []string
	report, err := p.Fetch(t.Context(), "", "c", strings.NewReader(list), Fetcher{Private: true}, func(address string) { told = append(told, address) })
	require.NoError(t, err)
	require.Len(t, told, 7)
	require.Len(t, report.Failed, 6)
	for i, want := range []string{"404", "over the limit", "redirects", "no http or https", "no http or https", "no http or https"} {
		require.Contains(t, report.Failed[i].Reason, want)
	}
	_, err = p.Run(t.Context(), "", "c", nil, nil)
	require.NoError(t, err)
	rows := m.rows()
	require.NotEmpty(t, rows)
	require.Equal(t, host+"/guide.html", rows[0].Path)
	require.Contains(t, rows[len(rows)-1].Text, "Trains leave at noon.")
	for _, r := range rows {
		require.NotContains(t, r.Text, "must not be a document")
	}

	// Without leave, nothing of this machine is reached.
	report, err = newPipeline(newMemStore()).Fetch(t.Context(), "", "c", strings.NewReader(server.URL+"/guide"), Fetcher{}, nil)
	require.NoError(t, err)
	require.Len(t, report.Failed, 1)
	require.Contains(t, report.Failed[0].Reason, "--allow-private")
}

func TestPublicAddresses(t *testing.T) {
	for address, want := range map[string]bool{
		"93.184.216.34": true, "2606:2800:220:1::1": true, "127.0.0.1": false, "10.0.0.1": false, "192.168.1.1": false, "172.16.0.1": false, "169.254.169.254": false,
		"100.64.0.1": false, "0.0.0.0": false, "::1": false, "fe80::1": false, "fc00::1": false, "::ffff:127.0.0.1": false, "64:ff9b::7f00:1": false, "2002:7f00:1::": false,
		"224.0.0.1": false, "255.255.255.255": false,
	} {
		require.Equal(t, want, public(netip.MustParseAddr(address)), address)
	}
}
