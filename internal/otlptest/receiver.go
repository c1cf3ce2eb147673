// Package otlptest receives OpenTelemetry traces in tests, by the protocol OTLP/HTTP with protobuf.
package otlptest

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Receiver keeps the spans that it gets.
type Receiver struct {
	URL string

	mu       sync.Mutex
	spans    []*tracepb.Span
	resource string
}

// New starts a receiver that ends with t.
func New(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{}
	s := httptest.NewServer(http.HandlerFunc(r.take))
	t.Cleanup(s.Close)
	r.URL = s.URL
	return r
}

func (r *Receiver) take(w http.ResponseWriter, request *http.Request) {
	body := io.Reader(request.Body)
	if request.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	data, err := io.ReadAll(body)
	var sent collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(data, &sent)
	}
	if err != nil || request.URL.Path != "/v1/traces" || request.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range sent.ResourceSpans {
		r.resource = resource.Resource.String()
		for _, scope := range resource.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// Spans are those that came so far, and the last description of who sent them.
func (r *Receiver) Spans() (spans []*tracepb.Span, resource string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*tracepb.Span(nil), r.spans...), r.resource
}
