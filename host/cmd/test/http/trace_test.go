package http

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestTraces checks that a call creates a tree of spans under the caller's span, down to the plugin. It also checks
// that the spans contain no arguments.
func TestTraces(t *testing.T) {
	t.Parallel()
	collector := hosttest.NewSpanCollector(t)
	dir := hosttest.MCPDir(t)
	config := "plugin \"bash\" {}\nplugin \"testplugin\" {\n  path = \"" + filepath.Join(hosttest.Bin, "testplugin") + "\"\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	const parent, trace = "b7ad6b7169203331", "0af7651916cd43dd8448eb211c80319c"
	run := func(env []string, args ...string) string {
		c := hosttest.Toolhost(t, dir, args...)
		c.Env = append(os.Environ(), env...)
		out, _ := c.Output() // a failed call is also traced
		return string(out)
	}
	traced := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "TRACEPARENT=00-" + trace + "-" + parent + "-01"}

	out := run(traced, "--json", "run", "echo secret-word; tool:traced")
	if !strings.Contains(out, `"trace_id":"`+trace+`"`) || !strings.Contains(out, "00-"+trace+"-") {
		t.Errorf("%s", out)
	}
	collector.Mu.Lock()
	by := make(map[string]hosttest.CollectedSpan)
	for _, s := range collector.Spans {
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
	if by["call bash"].Attribute("toolhost.layer") != "native" || by["run traced"].Attribute("toolhost.plugin") != "testplugin" {
		t.Errorf("%+v", by)
	}
	if !strings.Contains(out, by["run traced"].SpanID) {
		t.Errorf("the plugin received another span: %s", out)
	}
	if strings.Contains(collector.Text.String(), "secret-word") {
		t.Error("arguments are in the trace")
	}
	collector.Spans = nil
	collector.Mu.Unlock()

	run(traced, "run", "tool:fail --kind conflict")
	collector.Mu.Lock()
	failed := false
	for _, s := range collector.Spans {
		failed = failed || s.Name == "call fail" && s.Status.Code == 2 && s.Attribute("error.type") == "conflict"
	}
	if !failed {
		t.Errorf("%+v", collector.Spans)
	}
	collector.Spans = nil
	collector.Mu.Unlock()
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
	collector.Mu.Lock()
	defer collector.Mu.Unlock()
	if len(collector.Spans) > 0 {
		t.Errorf("%+v", collector.Spans)
	}
}

// TestTraceContextOverHTTP checks that the trace context in the header of an HTTP request reaches the plugin.
func TestTraceContextOverHTTP(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	config := "plugin \"testplugin\" {\n  path = \"" + filepath.Join(hosttest.Bin, "testplugin") + "\"\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	base, token := hosttest.Serve(t, dir)
	const trace = "0af7651916cd43dd8448eb211c80319c"
	client := &http.Client{Transport: tracedBearer{hosttest.Bearer(token), "00-" + trace + "-b7ad6b7169203331-01"}}
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
	hosttest.Bearer
	trace string
}

func (b tracedBearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Traceparent", b.trace)
	return b.Bearer.RoundTrip(r)
}
