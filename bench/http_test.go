package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHTTPLoadCountsWhatHappens(t *testing.T) {
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		require.Equal(t, "Bearer k", r.Header.Get("Authorization"))
		switch n.Add(1) % 5 {
		case 0:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
		case 2:
			fmt.Fprint(w, "event: text\ndata: {}\n\nevent: error\ndata: {}\n\n")
		case 3:
			fmt.Fprint(w, "event: text\ndata: {}\n\n")
		case 4:
			fmt.Fprint(w, "event: sources\ndata: {}\n\nevent: text\ndata: {}\n\nevent: done\ndata: {}\n\n")
		}
	}))
	defer s.Close()
	load := HTTPLoad{URL: s.URL, Key: "k", Questions: []string{"a", "b"}, Clients: 3, Time: 300 * time.Millisecond, Limit: time.Minute}
	r, err := load.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, r.Sent, r.Answered+r.Refused+r.Failed)
	require.Positive(t, r.Answered)
	require.Len(t, r.First, r.Answered)
	require.Equal(t, r.Refused, r.Hinted)
	require.Equal(t, r.Statuses[429], r.Refused)
	require.Len(t, r.Errors, 3)
	load.Clients, load.Rate, load.Time = 0, 100, 100*time.Millisecond
	r, err = load.Run(t.Context())
	require.NoError(t, err)
	require.Positive(t, r.Sent)
	require.Equal(t, 3*time.Second, At([]time.Duration{time.Second, 2 * time.Second, 3 * time.Second}, 0.95))
}
