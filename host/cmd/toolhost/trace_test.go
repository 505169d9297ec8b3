package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type collectedSpan struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int
	Attributes                          []struct {
		Key   string
		Value struct{ StringValue string }
	}
	Status struct{ Code int }
}

func (s collectedSpan) attribute(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.StringValue
		}
	}
	return ""
}

// spanCollector receives spans as an OpenTelemetry collector does.
type spanCollector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []collectedSpan
	text  strings.Builder
}

func newSpanCollector(t *testing.T) *spanCollector {
	c := new(spanCollector)
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var got struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []collectedSpan }
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		var raw json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&raw); err != nil {
			t.Error(err)
			return
		}
		c.text.Write(raw)
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Error(err)
			return
		}
		for _, rs := range got.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// named returns the spans with the given name.
func (c *spanCollector) named(name string) (out []collectedSpan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

// TestTraces checks that a call creates a tree of spans under the caller's span, down to the plugin. It also checks that
// the spans contain no arguments.
func TestTraces(t *testing.T) {
	t.Parallel()
	collector := newSpanCollector(t)
	dir := mcpDir(t)
	config := "plugin \"bash\" {}\nplugin \"testplugin\" {\n  path = \"" + filepath.Join(bin, "testplugin") + "\"\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	const parent, trace = "b7ad6b7169203331", "0af7651916cd43dd8448eb211c80319c"
	run := func(env []string, args ...string) string {
		c := toolhost(t, dir, args...)
		c.Env = append(os.Environ(), env...)
		out, _ := c.Output() // a failed call is also traced
		return string(out)
	}
	traced := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "TRACEPARENT=00-" + trace + "-" + parent + "-01"}

	out := run(traced, "--json", "run", "echo secret-word; tool:traced")
	if !strings.Contains(out, `"trace_id":"`+trace+`"`) || !strings.Contains(out, "00-"+trace+"-") {
		t.Errorf("%s", out)
	}
	collector.mu.Lock()
	by := make(map[string]collectedSpan)
	for _, s := range collector.spans {
		by[s.Name] = s
		if s.TraceID != trace {
			t.Errorf("%+v is in another trace", s)
		}
	}
	for name, want := range map[string]struct {
		parent string
		kind   int
	}{
		"call bash": {parent, 2}, "permit": {"", 1}, "wait": {"", 1}, "run bash": {by["call bash"].SpanID, 3},
		"call traced": {by["run bash"].SpanID, 2}, "run traced": {by["call traced"].SpanID, 3},
	} {
		s, ok := by[name]
		if !ok || want.parent != "" && s.ParentSpanID != want.parent || s.Kind != want.kind || s.Status.Code != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if by["call bash"].attribute("toolhost.layer") != "native" || by["run traced"].attribute("toolhost.plugin") != "testplugin" {
		t.Errorf("%+v", by)
	}
	if !strings.Contains(out, by["run traced"].SpanID) {
		t.Errorf("the plugin received another span: %s", out)
	}
	if strings.Contains(collector.text.String(), "secret-word") {
		t.Error("arguments are in the trace")
	}
	collector.spans = nil
	collector.mu.Unlock()

	run(traced, "run", "tool:fail --kind conflict")
	collector.mu.Lock()
	failed := false
	for _, s := range collector.spans {
		failed = failed || s.Name == "call fail" && s.Status.Code == 2 && s.attribute("error.type") == "conflict"
	}
	if !failed {
		t.Errorf("%+v", collector.spans)
	}
	collector.spans = nil
	collector.mu.Unlock()
	if out := run(traced, "--json", "log", "--limit", "1"); !strings.Contains(out, `"trace_id":"`+trace+`"`) {
		t.Errorf("%s", out)
	}

	// Without a collector, the plugin must still receive the trace context of the caller. If the caller sends no trace
	// context, no trace must exist.
	if out := run(traced[1:], "--json", "run", "traced"); !strings.Contains(out, `"output":"00-`+trace+`-`+parent+`-01"`) {
		t.Errorf("%s", out)
	}
	if out := run([]string{"TRACEPARENT=nonsense"}, "--json", "run", "traced"); !strings.Contains(out, `"output":""`) || strings.Contains(out, "trace_id") {
		t.Errorf("%s", out)
	}
	// Calls must succeed even if the collector cannot be reached.
	if out := run([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"}, "--json", "run", "traced"); !strings.Contains(out, `"success":true`) {
		t.Errorf("%s", out)
	}
	collector.mu.Lock()
	defer collector.mu.Unlock()
	if len(collector.spans) > 0 {
		t.Errorf("%+v", collector.spans)
	}
}

// TestTraceContextOverHTTP checks that the trace context in the header of an HTTP request reaches the plugin.
func TestTraceContextOverHTTP(t *testing.T) {
	t.Parallel()
	dir := mcpDir(t)
	config := "plugin \"testplugin\" {\n  path = \"" + filepath.Join(bin, "testplugin") + "\"\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	base, token := serve(t, dir)
	const trace = "0af7651916cd43dd8448eb211c80319c"
	client := &http.Client{Transport: tracedBearer{bearer(token), "00-" + trace + "-b7ad6b7169203331-01"}}
	res, err := client.Post(base+"/v1/run", "application/json", strings.NewReader(`{"command":"traced"}`)) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || !strings.Contains(string(text), "00-"+trace+"-") {
		t.Errorf("%v: %s", err, text)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: base + "/mcp", HTTPClient: client}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	answer, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "traced", Arguments: map[string]any{}})
	if err != nil || len(answer.Content) == 0 {
		t.Fatal(answer, err)
	}
	if text, ok := answer.Content[0].(*mcp.TextContent); !ok || !strings.Contains(text.Text, "00-"+trace+"-") {
		t.Errorf("%+v", answer.Content[0])
	}
}

// tracedBearer adds the token and the trace context to requests.
type tracedBearer struct {
	bearer
	trace string
}

func (b tracedBearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Traceparent", b.trace)
	return b.bearer.RoundTrip(r)
}
