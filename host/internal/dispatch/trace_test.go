package dispatch

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"toolhost.dev/host/internal/telemetry"
	"toolhost.dev/sdk/tool"
)

// collect returns a tracer and a function. The function closes the tracer and returns the recorded spans by name.
func collect(t *testing.T) (*telemetry.Tracer, func() map[string]span) {
	t.Helper()
	var mu sync.Mutex
	by := make(map[string]span)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct {
			ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, s := range body.ResourceSpans[0].ScopeSpans[0].Spans {
			by[s.Name] = s
		}
	}))
	tracer := telemetry.NewTracer(telemetry.TraceConfig{URL: server.URL, Sample: 1}, nil)
	return tracer, func() map[string]span {
		tracer.Close()
		server.Close()
		return by
	}
}

type span struct {
	Name, SpanID, ParentSpanID         string
	Kind                               int
	StartTimeUnixNano, EndTimeUnixNano string
	Status                             struct{ Message string }
}

func TestSpansOfCalls(t *testing.T) {
	d := dispatcher(t, func(_ context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		if call.Tool == "look" {
			return unavailable()
		}
		return &tool.Result{Output: call.Trace[telemetry.TraceHeader]}
	})
	var spans func() map[string]span
	d.Tracer, spans = collect(t)
	d.Registry.Lookup("", "look").Limits.Fallback = "change"
	res := run(t, d, "look")
	by := spans()
	root := by["call look"]
	for name, want := range map[string]struct {
		parent string
		kind   int
		status string
	}{
		"call look": {"", 2, "unavailable"}, "run look": {root.SpanID, 3, "unavailable"}, "permit": {by["call change"].SpanID, 1, ""}, "wait": {root.SpanID, 1, ""},
		"call change": {root.SpanID, 2, ""}, "run change": {by["call change"].SpanID, 3, ""},
	} {
		if s, ok := by[name]; !ok || s.ParentSpanID != want.parent || s.Kind != want.kind || s.Status.Message != want.status {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if len(by) != 6 || !strings.Contains(res.Output, by["run change"].SpanID) {
		t.Errorf("%d spans, the plugin has %q", len(by), res.Output)
	}
	if p, r := by["permit"], by["run change"]; p.EndTimeUnixNano > r.StartTimeUnixNano {
		t.Errorf("spans overlap: %+v %+v", p, r)
	}

	d = dispatcher(t, ok)
	d.Tracer, spans = collect(t)
	run(t, d, "danger")
	run(t, d, "off")
	if by := spans(); len(by) != 4 || by["call danger"].Status.Message != "permission_denied" || by["permit"].EndTimeUnixNano == "" || by["call"].Status.Message != "permission_denied" {
		t.Errorf("%+v", by)
	}
}
