package generation

import (
	"log/slog"
	"slices"
	"testing"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/telemetry"
)

// TestTracing checks which settings of the configuration and of the environment decide about traces.
func TestTracing(t *testing.T) {
	half := 0.5
	for name, tc := range map[string]struct {
		cfg  config.Tracing
		env  map[string]string
		url  string
		fail bool
		// The fields "sample" and "header" are checked if the URL is not empty.
		sample float64
		header string
	}{
		"nothing":             {},
		"the configuration":   {cfg: config.Tracing{Endpoint: "http://c:4318", Sample: &half, Headers: map[string]string{"k": "v"}}, url: "http://c:4318/v1/traces", sample: 0.5, header: "v"},
		"off":                 {cfg: config.Tracing{Off: true, Endpoint: "http://c:4318"}},
		"the environment":     {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e:4318/", "OTEL_EXPORTER_OTLP_HEADERS": "k=a%20b, broken"}, url: "http://e:4318/v1/traces", sample: 1, header: "a b"},
		"its traces":          {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/x"}, url: "http://t/x", sample: 1},
		"disabled":            {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e:4318", "OTEL_SDK_DISABLED": "true"}},
		"no exporter":         {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e:4318", "OTEL_TRACES_EXPORTER": "none"}},
		"gRPC":                {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, fail: true},
		"no URL":              {cfg: config.Tracing{Endpoint: "collector:4318"}, fail: true},
		"always off":          {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e", "OTEL_TRACES_SAMPLER": "parentbased_always_off"}, url: "http://e/v1/traces"},
		"a ratio":             {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}, url: "http://e/v1/traces", sample: 0.25},
		"a ratio that is bad": {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "7"}, url: "http://e/v1/traces", sample: 1},
	} {
		got, err := tracingOf(tc.cfg, func(k string) string { return tc.env[k] })
		if got.URL != tc.url || (err != nil) != tc.fail || tc.url != "" && (got.Sample != tc.sample || got.Headers["k"] != tc.header) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestTracersAreShared checks that configurations with equal settings share a tracer.
func TestTracersAreShared(t *testing.T) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Setenv(name, "")
	}
	var tr tracing
	log := slog.New(slog.DiscardHandler)
	of := func(endpoint string) *telemetry.Tracer {
		return tr.tracerOf(&config.Config{Tracing: config.Tracing{Endpoint: endpoint}}, log)
	}
	first := of("http://127.0.0.1:1")
	if first == nil || of("http://127.0.0.1:1") != first || of("http://127.0.0.1:2") == first || of("") != nil || of("nonsense") != nil {
		t.Error("the tracers do not follow the configuration")
	}
	tr.close()
}

// TestSecrets checks which values the audit log and the plugins' logs mask.
func TestSecrets(t *testing.T) {
	got := secrets(&config.Config{
		Audit:   config.Audit{Secrets: []string{"listed"}},
		Plugins: []config.Plugin{{Env: map[string]string{"API_TOKEN": "token", "LANG": "C"}}},
	})
	slices.Sort(got)
	if !slices.Equal(got, []string{"listed", "token"}) {
		t.Errorf("%q", got)
	}
}

// TestRecords checks which sessions are recorded.
func TestRecords(t *testing.T) {
	b := NewBuilder(Parts{Options: Options{Records: true}}, nil)
	who := principal.LocalUser()
	key, err := who.SessionKey("build-1", "/w")
	if err != nil {
		t.Fatal(err)
	}
	s := &call.Session{Principal: who, Session: state.Session{ID: key, Workspace: "/w"}}
	for name, tc := range map[string]struct {
		record config.Record
		want   bool
	}{
		"all":             {config.Record{Dir: "/tapes", Sessions: []string{"*"}}, true},
		"its name":        {config.Record{Dir: "/tapes", Sessions: []string{"build-*"}}, true},
		"other sessions":  {config.Record{Dir: "/tapes", Sessions: []string{"test-*"}}, false},
		"its principal":   {config.Record{Dir: "/tapes", Sessions: []string{"*"}, Principals: []string{who.Name}}, true},
		"other principal": {config.Record{Dir: "/tapes", Sessions: []string{"*"}, Principals: []string{"ci"}}, false},
	} {
		plan := b.records(&config.Config{Record: tc.record}).Plan(s)
		if (plan != nil) != tc.want {
			t.Errorf("%s: recorded %t", name, plan != nil)
			continue
		}
		if plan != nil {
			if settings, err := plan.Plan(); err != nil || settings.Path != "/tapes" || plan.ID != "build-1" {
				t.Errorf("%s: %+v, %v", name, settings, err)
			}
		}
	}
	if b.records(&config.Config{}) != nil {
		t.Error("there is no directory for tapes")
	}
	b.Options.Records = false
	if b.records(&config.Config{Record: config.Record{Dir: "/tapes"}}) != nil {
		t.Error("a host with a short life records")
	}
}
