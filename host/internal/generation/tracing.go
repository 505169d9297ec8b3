package generation

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"toolhost.dev/host/internal/build"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/telemetry"
)

// tracing holds the tracer of the current configuration.
type tracing struct {
	mu     sync.Mutex
	cfg    telemetry.TraceConfig
	tracer *telemetry.Tracer
	old    []*telemetry.Tracer // tracers of earlier configurations, still in use by running calls
}

// tracerOf returns the tracer of a configuration. It returns nil if tracing is disabled. Configurations with
// equal settings share a tracer.
func (t *tracing) tracerOf(cfg *config.Config, log *slog.Logger) *telemetry.Tracer {
	want, err := tracingOf(cfg.Tracing, os.Getenv)
	if err != nil {
		log.Warn("calls are not traced", "why", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if reflect.DeepEqual(want, t.cfg) {
		return t.tracer
	}
	if t.tracer != nil {
		t.old = append(t.old, t.tracer)
	}
	t.cfg, t.tracer = want, nil
	if want.URL != "" {
		t.tracer = telemetry.NewTracer(want, log)
	}
	return t.tracer
}

// close sends the spans that are still queued.
func (t *tracing) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, old := range append(t.old, t.tracer) {
		old.Close()
	}
}

// tracingOf adds the environment variables that OpenTelemetry defines to the tracing settings. Without the URL of a
// collector, tracing is disabled. Source:
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
func tracingOf(c config.Tracing, env func(string) string) (telemetry.TraceConfig, error) {
	none := telemetry.TraceConfig{}
	switch {
	case c.Off, c.Endpoint == "" && (env("OTEL_SDK_DISABLED") == "true" || env("OTEL_TRACES_EXPORTER") == "none"):
		return none, nil
	}
	out := telemetry.TraceConfig{Service: cmp.Or(env("OTEL_SERVICE_NAME"), "toolhost"), Version: build.Version,
		Sample: 1, Headers: make(map[string]string)}
	switch endpoint := env("OTEL_EXPORTER_OTLP_ENDPOINT"); {
	case c.Endpoint != "":
		out.URL = c.Endpoint + "/v1/traces"
	case env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "":
		out.URL = env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	case endpoint != "":
		out.URL = strings.TrimSuffix(endpoint, "/") + "/v1/traces"
	default:
		return none, nil
	}
	if u, err := url.Parse(out.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return none, fmt.Errorf("%q is not the address of a collector; use an address for OTLP over HTTP, such as http://localhost:4318", out.URL)
	}
	if c.Endpoint == "" {
		protocol := cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), env("OTEL_EXPORTER_OTLP_PROTOCOL"))
		if protocol == "grpc" {
			return none, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is grpc, which is not supported; use http/json and the collector's port 4318")
		}
		for pair := range strings.SplitSeq(cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_HEADERS"),
			env("OTEL_EXPORTER_OTLP_HEADERS")), ",") {
			name, value, ok := strings.Cut(pair, "=")
			value, err := url.PathUnescape(strings.TrimSpace(value))
			if ok && err == nil {
				out.Headers[strings.TrimSpace(name)] = value
			}
		}
	}
	maps.Copy(out.Headers, c.Headers)
	switch {
	case c.Sample != nil:
		out.Sample = *c.Sample
	case strings.HasSuffix(env("OTEL_TRACES_SAMPLER"), "always_off"):
		out.Sample = 0
	case strings.HasSuffix(env("OTEL_TRACES_SAMPLER"), "traceidratio"):
		if n, err := strconv.ParseFloat(env("OTEL_TRACES_SAMPLER_ARG"), 64); err == nil && n >= 0 && n <= 1 {
			out.Sample = n
		}
	}
	return out, nil
}
