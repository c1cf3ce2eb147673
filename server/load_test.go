package server_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ragd/answer"
	"ragd/server"
)

// inUse is the memory of heap and stacks.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// A thousand clients wait for words that do not come: each is shown that the server lives, none costs much, and others are served meanwhile.
func TestThousandSilentStreams(t *testing.T) {
	const streams, most = 1000, 96 << 10 // bytes for both ends of a connection
	release := make(chan struct{})
	h := serve(t, func(ctx context.Context, q answer.Question, yield func(answer.Event, error) bool) {
		if q.Text == "wait" {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		sample(ctx, q, yield)
	}, server.Config{PingEvery: 100 * time.Millisecond, Requests: streams + 1})
	before := inUse()
	conns := make([]net.Conn, streams)
	readers := make([]*bufio.Reader, streams)
	for i := range conns {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		const body = `{"question":"wait","stream":true}`
		_, err = fmt.Fprintf(conn, "POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		require.NoError(t, err)
		conns[i], readers[i] = conn, bufio.NewReaderSize(conn, 512)
	}
	until := func(i int, want string) {
		t.Helper()
		for {
			line, err := readers[i].ReadString('\n')
			require.NoError(t, err)
			if strings.HasPrefix(line, want) {
				return
			}
		}
	}
	for i := range conns {
		until(i, ": ping")
	}
	each := (inUse() - before) / streams
	t.Logf("%d silent streams: %d bytes each, both ends", streams, each)
	require.Less(t, each, int64(most))
	require.Equal(t, 200, h.post("/v1/ask", `{"question":"x"}`).StatusCode)
	close(release)
	for i := range conns {
		until(i, "event: done")
	}
}

// Ten times as many clients as the server takes: who is refused is told when to come back, who is taken gets a whole answer, and afterwards all is as before.
func TestOverloadRefusesTheExcess(t *testing.T) {
	const room, clients, each = 8, 80, 20
	h := serve(t, func(ctx context.Context, q answer.Question, yield func(answer.Event, error) bool) {
		runtime.Gosched()
		sample(ctx, q, yield)
	}, server.Config{Requests: room})
	h.client.Transport.(*http.Transport).MaxIdleConnsPerHost = clients
	var mu sync.Mutex
	statuses := map[int]int{}
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range each {
				got := h.post("/v1/ask", `{"question":"x"}`)
				mu.Lock()
				statuses[got.StatusCode]++
				mu.Unlock()
				switch got.StatusCode {
				case 200:
					if !strings.Contains(string(got.body), `"citations"`) {
						t.Error("half an answer")
					}
				case 429:
					if got.Header.Get("Retry-After") == "" {
						t.Error("no Retry-After")
					}
				}
			}
		})
	}
	all.Wait()
	t.Log(statuses)
	require.Equal(t, clients*each, statuses[200]+statuses[429])
	require.GreaterOrEqual(t, statuses[200], room, "some are answered")
	require.Contains(t, string(h.get("/readyz?verbose").body), "requests=0 of 8")
	require.Equal(t, 200, h.post("/v1/ask", `{"question":"x"}`).StatusCode)
}
