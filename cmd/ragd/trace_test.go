package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ragd/internal/otlptest"
)

func TestTracesGoWhereTheEnvironmentSays(t *testing.T) {
	receiver := otlptest.New(t)
	open := func(environment map[string]string) (*app, error) {
		for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL",
			"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_RESOURCE_ATTRIBUTES"} {
			t.Setenv(name, environment[name])
		}
		a := newApp(globals{})
		provider, err := a.openTraces(t.Context())
		if provider != nil {
			_, span := provider.Tracer("test").Start(t.Context(), "a span")
			span.End()
		}
		return a, err
	}
	for _, environment := range []map[string]string{nil, {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.URL, "OTEL_SDK_DISABLED": "true"}, {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.URL, "OTEL_TRACES_EXPORTER": "none"}} {
		a, err := open(environment)
		require.NoError(t, err)
		require.Empty(t, a.closers)
	}
	_, err := open(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
	require.ErrorContains(t, err, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf")
	a, err := open(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.URL, "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test"})
	require.NoError(t, err)
	a.close() // sends what waits
	spans, resource := receiver.Spans()
	require.Len(t, spans, 1)
	require.Contains(t, resource, "ragd")
	require.Contains(t, resource, "deployment.environment")
}
