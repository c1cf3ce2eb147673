package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// traceEndpoint is where OpenTelemetry's own variables send traces; "" is nowhere, which is the default: nothing leaves the machine unasked.
func traceEndpoint() string {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return ""
	}
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
}

// openTraces starts to send traces, when that is configured; nil otherwise. Sampling, headers, certificates and batches are set by the standard
// variables, too.
func (a *app) openTraces(ctx context.Context) (trace.TracerProvider, error) {
	endpoint := traceEndpoint()
	if endpoint == "" {
		return nil, nil
	}
	protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
	if exporter := cmp.Or(os.Getenv("OTEL_TRACES_EXPORTER"), "otlp"); protocol != "http/protobuf" || exporter != "otlp" {
		return nil, fmt.Errorf("traces: exporter %s with protocol %s is not offered; set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, whose port usually is 4318", exporter, protocol)
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "ragd"), attribute.String("service.version", version())), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { a.log.Warn("traces not sent", "error", err) }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	a.onClose("traces", func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return provider.Shutdown(ctx)
	})
	return provider, nil
}
